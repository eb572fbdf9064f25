#include "walk/report/list_operations.h"

#include <spdlog/fmt/fmt.h>

#include "sharding/tensor_size.h"
#include "walk/state/causes.h"
#include "walk/state/slots.h"

namespace tpplan {
namespace {

std::string value_text(const Walk& walk, SlotId slot) {
  const ValueLayout& layout = layout_of(walk, slot);
  std::string out = fmt::format("{}  {}", shape_text(shape_of(walk, slot)), layout_text(walk.memory.table, layout));
  if (layout.zero) out += ", zero";
  if (layout.is_dtensor) out += fmt::format(", DTensor {}", to_text(std::span<const Placement>(layout.declared)));
  if (layout.wrong) out += ", wrong";
  return out;
}

std::string_view path_text(const Walk& walk, ModuleId module) {
  return module == kNone || walk.in.model.modules[module].path.empty() ? std::string_view("<root>")
                                                                       : walk.in.model.modules[module].path;
}

}  // namespace

void list_axes(Walk& walk) {
  if (walk.out.listing == nullptr) return;
  std::vector<std::string> axes;
  for (const AxisId axis : walk.in.axes)
    axes.push_back(fmt::format("{}={}", axis_name(walk.in.plan.mesh, axis), walk.in.plan.mesh.axes[axis].size));
  *walk.out.listing += fmt::format("over {}\n", fmt::join(axes, ", "));
}

void list_boundary(Walk& walk, const GraphNode& node) {
  if (walk.out.listing == nullptr) return;
  const ModuleId module = walk.in.model_tables.module_of_string[node.name];
  const std::string style = style_name(walk, walk.memory.rule_of_module[module]);
  const std::string_view what = node.kind == NodeKind::Enter ? "takes" : "leaves";
  for (uint32_t i = node.crossing_begin; i < node.crossing_end; ++i) {
    const Crossing& c = walk.in.graph.crossings[i];
    if (walk.memory.slot_of[c.to] != walk.memory.slot_of[c.from])
      list_value(walk, module, fmt::format("{} {}", style, what), walk.memory.slot_of[c.to]);
  }
}

void list_value(Walk& walk, ModuleId module, std::string_view what, SlotId slot) {
  if (walk.out.listing == nullptr) return;
  *walk.out.listing += fmt::format("{}  {}  {}\n", path_text(walk, module), what, value_text(walk, slot));
}

void list_leaf(Walk& walk, const GraphLeaf& leaf) {
  constexpr std::string_view kKinds[] = {"input", "parameter", "buffer", "constant"};
  static_assert(std::size(kKinds) == static_cast<size_t>(LeafKind::Constant) + 1);
  if (walk.out.listing == nullptr) return;
  *walk.out.listing += fmt::format("{} {}  {}\n", kKinds[static_cast<size_t>(leaf.kind)],
                                   walk.in.graph.strings[leaf.path], value_text(walk, walk.memory.slot_of[leaf.value]));
}

void list_operation(Walk& walk, const GraphNode& node) {
  if (walk.out.listing == nullptr) return;
  for (uint32_t i = node.out_begin; i < node.out_end; ++i)
    list_value(walk, current_module(walk), walk.in.graph.strings[node.name],
               walk.memory.slot_of[walk.in.graph.outs[i]]);
}

void list_call(Walk& walk, const CollectiveCall& call) {
  if (walk.out.listing == nullptr) return;
  *walk.out.listing +=
      fmt::format("{}  {} over {}{}{}  {} {}\n", call.module.empty() ? "<root>" : call.module, to_text(call.kind),
                  axis_name(walk.in.plan.mesh, call.axis), call.backward ? ", backward" : "",
                  call.hidden ? ", hidden" : "", shape_text(call.shape), call.dtype);
}

void list_gradient(Walk& walk, ParamId param, std::string_view state) {
  if (walk.out.listing == nullptr) return;
  *walk.out.listing += fmt::format("gradient {}  {}\n", path_of(walk.in.model, walk.in.model.params[param]), state);
}

}  // namespace tpplan
