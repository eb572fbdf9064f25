#include "model/graph_printer.h"

#include <spdlog/fmt/fmt.h>

#include "base/text.h"
#include "model/graph_words.h"

namespace tpplan {

bool is_counting(const GraphPrinter& p) { return p.names == nullptr; }

NameScope scope_of(const GraphPrinter& p, uint32_t frame) {
  return {.depth = p.layout.frames[frame].depth, .end = frame == 0 ? kNoTick : p.frame_ends[frame]};
}

void end_graph_line(GraphPrinter& p, std::string_view line) {
  if (is_counting(p)) return;
  p.out.append(2 * size_t{p.depth}, ' ').append(line) += '\n';
  if (p.out.size() < size_t{64} << 10) return;
  if (!p.has_failed) p.has_failed = !p.sink(p.out);
  p.out.clear();
}

std::string graph_type_text(const GraphPrinter& p, const GraphValue& value, bool may_have_grad) {
  const GraphShape shape = p.graph.shapes[value.shape];
  const std::string_view dtype = p.graph.strings[value.dtype];
  const auto sizes = p.graph.shape_sizes.begin() + shape.begin;
  std::string out = fmt::format("{}[{}]", path_text(dtype), fmt::join(sizes, sizes + shape.ndim, ", "));
  if (value.requires_grad != (may_have_grad && has_gradients(dtype))) out += value.requires_grad ? " grad" : " no_grad";
  return out;
}

std::string graph_name_of(const GraphPrinter& p, ValueId value) {
  const uint32_t leaf = p.leaf_of[value];
  if (leaf != kNoId && p.forms[leaf] != LeafForm::Named)
    return operand_text(p.graph.strings[p.graph.leaves[leaf].path]);
  return p.names->names[value] == nullptr ? "_" : *p.names->names[value];
}

void append_graph_value(GraphPrinter& p, std::string& line, ValueId value) {
  if (!is_counting(p)) {
    line += graph_name_of(p, value);
    return;
  }
  add_use(p.uses, value, p.tick);
  const uint32_t leaf = p.leaf_of[value];
  if (leaf != kNoId && p.first_use[leaf] == kNoId) p.first_use[leaf] = p.statement - 1;
}

std::string_view last_name_of_path(std::string_view path) {
  while (!path.empty()) {
    const size_t at = path.find_last_of("./");
    const std::string_view name = at == std::string_view::npos ? path : path.substr(at + 1);
    if (!name.empty() && !is_digits(name)) return name;
    path = path.substr(0, at == std::string_view::npos ? 0 : at);
  }
  return path;
}

bool is_used_outside(const GraphPrinter& p, ValueId value, uint32_t frame) {
  return frame != 0 && last_use(p.uses, value) > p.frame_ends[frame];
}

void bind_graph_result(GraphPrinter& p, std::string& line, ValueId value, std::string_view op) {
  if (is_counting(p)) return;
  if (last_use(p.uses, value) != 0)
    name_value(*p.names, value, identifier_of(op), scope_of(p, p.frame), p.tick, is_used_outside(p, value, p.frame));
  line += graph_name_of(p, value);
}

}  // namespace tpplan
