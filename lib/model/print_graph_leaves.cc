#include "model/print_graph_leaves.h"

#include <spdlog/fmt/fmt.h>

#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/graph_words.h"
#include "model/print_graph_args.h"
#include "model/size_ops.h"

namespace tpplan {
namespace {

void print_declaration(GraphPrinter& p, uint32_t index) {
  constexpr std::string_view kKinds[] = {"input", "param", "buffer", "constant"};
  static_assert(std::size(kKinds) == static_cast<size_t>(LeafKind::Constant) + 1);
  const GraphLeaf& leaf = p.graph.leaves[index];
  const std::string_view path = p.graph.strings[leaf.path];
  std::string line = fmt::format("{} ", kKinds[static_cast<size_t>(leaf.kind)]);
  if (p.forms[index] == LeafForm::DeclaredPath) {
    line += operand_text(path);
  } else {
    const bool is_input = leaf.kind == LeafKind::Input;
    const std::string base = path.empty() ? std::string(kKinds[static_cast<size_t>(leaf.kind)]) : std::string(path);
    name_value(*p.names, leaf.value, is_identifier(base) ? base : identifier_of(last_name_of_path(base)), {}, p.tick,
               true);
    if (is_input) release_name(*p.names, leaf.value);
    const std::string name = graph_name_of(p, leaf.value);
    const bool is_plain = is_input ? name == path : leaf.kind == LeafKind::Constant && path.empty();
    line += is_plain ? name : fmt::format("{} as {}", operand_text(path), name);
  }
  end_graph_line(p, line + ": " + graph_type_text(p, p.graph.values[leaf.value], leaf.kind == LeafKind::Param));
}

}  // namespace

void begin_graph_statement(GraphPrinter& p) {
  if (!is_counting(p)) {
    for (const uint32_t leaf : p.declared[p.statement]) print_declaration(p, leaf);
  }
  ++p.statement;
}

void print_graph_sizes(GraphPrinter& p, uint32_t position, size_t& size, size_t& guard) {
  const GraphLayout& layout = p.layout;
  for (; size < layout.size_lines.size() && layout.size_lines[size].first == position; ++size) {
    begin_graph_statement(p);
    const uint32_t id = layout.size_lines[size].second;
    std::string line = fmt::format("size s{} = ", size + 1);
    append_graph_size_entry(p, line, p.graph.sizes[id], false);
    ++p.tick;
    end_graph_line(p, line);
  }
  for (; guard < layout.guard_positions.size() && layout.guard_positions[guard] == position; ++guard) {
    begin_graph_statement(p);
    const GraphGuard& g = p.graph.guards[guard];
    std::string line = g.held ? "assert " : "assert not ";
    append_graph_size(p, line, g.a, false);
    line += fmt::format(" {} ", sign_of(g.op));
    append_graph_size(p, line, g.b, false);
    ++p.tick;
    end_graph_line(p, line);
  }
}

void print_graph_settings(GraphPrinter& p) {
  const OpGraph& graph = p.graph;
  const std::pair<std::string_view, std::string_view> texts[] = {
      {"mode", graph.mode}, {"attention", graph.attention}, {"experts", graph.experts}, {"dtype", graph.dtype}};
  const std::pair<std::string_view, int64_t> counts[] = {{"batch", graph.batch}, {"sequence", graph.sequence}};
  std::vector<std::string> settings;
  for (const auto& [name, text] : texts) {
    if (!text.empty())
      settings.push_back(fmt::format("{}={}", name, is_identifier(text) ? std::string(text) : quoted_text(text, '\'')));
  }
  for (const auto& [name, count] : counts) {
    if (count != 0) settings.push_back(fmt::format("{}={}", name, count));
  }
  if (!settings.empty()) end_graph_line(p, fmt::format("trace {}", fmt::join(settings, ", ")));
  for (const auto& [op, rule] : graph.rules)
    end_graph_line(p, fmt::format("rule {} {}", operand_text(op), quoted_text(rule, '\'')));
}

}  // namespace tpplan
