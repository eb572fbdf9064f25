#include <spdlog/fmt/fmt.h>

#include "walk/causes.h"
#include "walk/local_ops.h"
#include "walk/node_args.h"
#include "walk/slots.h"

namespace tpplan {

namespace {

Spread specified(LocalOp& op, std::span<const int64_t> shape) {
  Spread layout = whole_layout(op.walk.table, shape);
  uint32_t at = 0;
  const GraphArg* spec = find_arg(op.call, 1, {}, &at);
  if (spec == nullptr) return layout;
  size_t dim = 0;
  for (uint32_t i = at + 1; i < spec->end && dim < layout.dims.size(); i = op.walk.graph.args[i].end, ++dim) {
    for (uint32_t j = i; j < op.walk.graph.args[i].end; ++j) {
      const std::string_view name = text_of(op, op.walk.graph.args[j]);
      const size_t axis = name.empty() ? kNoAxisHere : walked_axis(op, name);
      if (axis != kNoAxisHere) layout.dims[dim] = cut_map(op.walk.table.maps, layout.dims[dim], axis);
    }
  }
  return layout;
}

// False, with the reason: the plan is for another mesh than the program was recorded on, (name, size) at argument 2.
bool check_mesh(LocalOp& op) {
  uint32_t at = 0;
  const GraphArg* recorded = find_arg(op.call, 2, {}, &at);
  if (recorded == nullptr) return true;
  const Mesh& mesh = op.walk.plan.mesh;
  size_t axes = 0;
  std::string text;
  bool same = true;
  for (uint32_t i = at + 1; i + 1 < recorded->end; i += 2, ++axes) {
    const std::string_view name = text_of(op, op.walk.graph.args[i]);
    const int64_t size = op.walk.graph.args[i + 1].integer;
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, size);
    const AxisId axis = find_axis(mesh, name);
    same = same && axis != kNoAxis && mesh.axes[axis].size == size;
  }
  if (same && axes == mesh.axes.size()) return true;
  crash_at(op.walk, Code::TP5122,
           fmt::format("the program was recorded on the mesh [{}], and the plan is for another: record it again", text),
           kNoRule, kNoRule, "in_spec");
  return false;
}

}  // namespace

void take_in(LocalOp& op) {
  const auto x = tensor_at(op.call, 0);
  if (!x || !check_mesh(op)) return;
  const SlotId slot = op.walk.slot_of[x->value];
  const Spread wanted = specified(op, x->shape);
  if (op.walk.slots[slot].param == kNone) return give_result(op, wanted);
  const Spread& held = layout_of(op.walk, slot);
  if (held.dims == wanted.dims) return give_result(op, wanted);
  const Param& param = op.walk.model.params[op.walk.slots[slot].param];
  crash_at(
      op.walk, Code::TP5122,
      fmt::format("the program was recorded with `{}` as {}, and the plan makes it {}: record it again",
                  path_of(op.walk.model, param), layout_text(op.walk.table, wanted), layout_text(op.walk.table, held)),
      op.walk.slots[slot].origin, kNoRule, "in_spec");
}

void let_out(LocalOp& op) {
  const auto x = tensor_at(op.call, 0);
  if (!x) return;
  const Spread held = *x->layout, promised = specified(op, x->shape);
  const Spread whole = whole_layout(op.walk.table, x->shape);
  const LocalFact* fact = fact_of(op.walk, x->value);
  if (!is_plain_fact(fact) && fact->kind != FactKind::Table)
    return give_result(op, whole, code_of(*fact), fault_of(op, *fact));
  if (!is_plain_fact(fact)) return give_up(op);
  if (held.partial == 0 && held.dims == promised.dims) return give_result(op, whole);
  give_result(op, whole, Code::TP5110,
              fmt::format("the result is promised to be {} on the ranks, and is {}",
                          layout_text(op.walk.table, promised), layout_text(op.walk.table, held)));
}

}  // namespace tpplan
