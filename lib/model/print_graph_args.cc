#include "model/print_graph_args.h"

#include <spdlog/fmt/fmt.h>

#include <string_view>
#include <tuple>

#include "model/graph_words.h"
#include "model/size_ops.h"
#include "sharding/dtype.h"

namespace tpplan {
namespace {

std::string graph_number_text(double number) {
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

// Appends the parts of an argument, separated by commas. A tuple of one part ends with a comma.
void append_parts(GraphPrinter& p, std::string& line, uint32_t at, bool is_tuple) {
  const uint32_t end = p.graph.args[at].end;
  bool is_first = true;
  uint32_t count = 0;
  for (uint32_t part = at + 1; part < end; ++count) {
    if (!is_first) line += ", ";
    is_first = false;
    part = append_graph_arg(p, line, part);
  }
  if (is_tuple && count == 1) line += ',';
}

}  // namespace

void append_graph_size_entry(GraphPrinter& p, std::string& line, const SizeEntry& entry, bool is_nested) {
  if (entry.op == SizeOp::Size) {
    append_graph_value(p, line, static_cast<ValueId>(entry.a.number));
    line += fmt::format(".shape[{}]", entry.b.number);
    return;
  }
  const std::string_view sign = sign_of(entry.op);
  if (!sign.empty()) {
    if (is_nested) line += '(';
    append_graph_size(p, line, entry.a, true);
    line += fmt::format(" {} ", sign);
    append_graph_size(p, line, entry.b, true);
    if (is_nested) line += ')';
    return;
  }
  line += to_text(entry.op);
  line += '(';
  append_graph_size(p, line, entry.a, false);
  if (operands_of(entry.op) == 2) {
    line += ", ";
    append_graph_size(p, line, entry.b, false);
  }
  line += ')';
}

void append_graph_size(GraphPrinter& p, std::string& line, const SizeOperand& operand, bool is_nested) {
  if (!operand.is_entry) {
    line += std::to_string(operand.number);
    return;
  }
  const uint32_t id = p.layout.first_equal[static_cast<size_t>(operand.number)];
  if (p.layout.is_named[id])
    line += fmt::format("s{}", p.size_numbers.empty() ? 0 : p.size_numbers[id]);
  else
    append_graph_size_entry(p, line, p.graph.sizes[id], is_nested);
}

uint32_t append_graph_arg(GraphPrinter& p, std::string& line, uint32_t at) {
  const GraphArg& arg = p.graph.args[at];
  switch (arg.kind) {
    case ArgKind::None:
      line += "None";
      break;
    case ArgKind::Bool:
      line += arg.integer != 0 ? "True" : "False";
      break;
    case ArgKind::Int:
      line += std::to_string(arg.integer);
      break;
    case ArgKind::Number:
      line += graph_number_text(arg.number);
      break;
    case ArgKind::Text:
      line += quoted_text(p.graph.texts[arg.id], '\'');
      break;
    case ArgKind::Value:
      append_graph_value(p, line, arg.id);
      break;
    case ArgKind::Size:
      append_graph_size(p, line, {true, arg.id}, false);
      break;
    case ArgKind::Tuple:
      line += '(';
      append_parts(p, line, at, true);
      line += ')';
      break;
    case ArgKind::Slice:
      line += "slice(";
      append_parts(p, line, at, false);
      line += ')';
      break;
    case ArgKind::Ellipsis:
      line += "...";
      break;
    case ArgKind::TypeName: {
      DType dtype = 0;
      const std::string_view name = p.graph.texts[arg.id];
      line += find_dtype(name, dtype) ? std::string(name) : fmt::format("dtype({})", quoted_text(name, '\''));
      break;
    }
    case ArgKind::Float:
      line += p.graph.texts[arg.id];
      break;
    case ArgKind::Host:
      line += fmt::format("host({})", graph_number_text(arg.number));
      break;
    case ArgKind::Other:
      line += fmt::format("other({})", quoted_text(p.graph.texts[arg.id], '\''));
      break;
  }
  return arg.end;
}

void append_graph_index(GraphPrinter& p, std::string& line, uint32_t at) {
  const auto& args = p.graph.args;
  for (uint32_t item = at + 1; item < args[at].end; item = args[item].end) {
    if (item > at + 1) line += ", ";
    if (args[item].kind != ArgKind::Slice) {
      std::ignore = append_graph_arg(p, line, item);
      continue;
    }
    const uint32_t begin = item + 1, end = args[begin].end, step = args[end].end;
    const auto append_part = [&](uint32_t part) {
      if (args[part].kind != ArgKind::None) std::ignore = append_graph_arg(p, line, part);
    };
    append_part(begin);
    line += ':';
    append_part(end);
    if (args[step].kind == ArgKind::None) continue;
    line += ':';
    std::ignore = append_graph_arg(p, line, step);
  }
}

}  // namespace tpplan
