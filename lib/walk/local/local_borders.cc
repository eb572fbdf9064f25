#include <spdlog/fmt/fmt.h>

#include "walk/local/local_ops.h"
#include "walk/state/causes.h"
#include "walk/state/node_args.h"
#include "walk/state/slots.h"

namespace tpplan {

namespace {

ValueLayout specified(LocalOp& op, std::span<const int64_t> shape) {
  ValueLayout layout = replicated_layout(op.walk.memory.table, shape);
  uint32_t at = 0;
  const GraphArg* spec = find_arg(op.call, 1, {}, &at);
  if (spec == nullptr) return layout;
  size_t dim = 0;
  for (uint32_t i = at + 1; i < spec->end && dim < layout.dims.size(); i = op.walk.in.graph.args[i].end, ++dim) {
    for (uint32_t j = i; j < op.walk.in.graph.args[i].end; ++j) {
      const std::string_view name = text_of(op, op.walk.in.graph.args[j]);
      const size_t axis = name.empty() ? kNoAxisHere : walked_axis(op, name);
      if (axis != kNoAxisHere) layout.dims[dim] = sharded_dim(op.walk.memory.table.maps, layout.dims[dim], axis);
    }
  }
  return layout;
}

// Returns false after a crash if the plan's mesh is not the one of the trace, which is argument 2 as (name, size).
bool check_mesh(LocalOp& op) {
  uint32_t at = 0;
  const GraphArg* traced = find_arg(op.call, 2, {}, &at);
  if (traced == nullptr) return true;
  const Mesh& mesh = op.walk.in.plan.mesh;
  size_t axes = 0;
  std::string text;
  bool same = true;
  for (uint32_t i = at + 1; i + 1 < traced->end; i += 2, ++axes) {
    const std::string_view name = text_of(op, op.walk.in.graph.args[i]);
    const int64_t size = op.walk.in.graph.args[i + 1].integer;
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, size);
    const AxisId axis = find_axis(mesh, name);
    same = same && axis != kNoAxis && mesh.axes[axis].size == size;
  }
  if (same && axes == mesh.axes.size()) return true;
  crash_at(op.walk, Code::TracedForOtherPlan,
           fmt::format("the program was traced on the mesh [{}], but the plan has another mesh: trace it again", text),
           kNoRule, kNoRule, "in_spec");
  return false;
}

}  // namespace

void run_in_spec(LocalOp& op) {
  const auto x = tensor_at(op.call, 0);
  if (!x || !check_mesh(op)) return;
  const SlotId slot = op.walk.memory.slot_of[x->value];
  const ValueLayout wanted = specified(op, x->shape);
  if (op.walk.memory.slots[slot].param == kNone) return set_result(op, wanted);
  const ValueLayout& held = layout_of(op.walk, slot);
  if (held.dims == wanted.dims) return set_result(op, wanted);
  const Param& param = op.walk.in.model.params[op.walk.memory.slots[slot].param];
  crash_at(op.walk, Code::TracedForOtherPlan,
           fmt::format("the program was traced with `{}` as {}, but the plan makes it {}: trace it again",
                       path_of(op.walk.in.model, param), layout_text(op.walk.memory.table, wanted),
                       layout_text(op.walk.memory.table, held)),
           op.walk.memory.slots[slot].origin, kNoRule, "in_spec");
}

void run_out_spec(LocalOp& op) {
  const auto x = tensor_at(op.call, 0);
  if (!x) return;
  const ValueLayout held = *x->layout, promised = specified(op, x->shape);
  const ValueLayout global = replicated_layout(op.walk.memory.table, x->shape);
  const LocalFact* fact = local_fact_of(op.walk, x->value);
  if (!is_as_in_global_program(fact) && fact->kind != FactKind::Integers)
    return set_result(op, global, code_of(*fact), error_of(op, *fact));
  if (!is_as_in_global_program(fact)) return mark_unknown(op);
  if (held.partial == 0 && held.dims == promised.dims) return set_result(op, global);
  set_result(op, global, Code::OutputNotReplicated,
             fmt::format("the declared layout of the result is {}, but the actual layout is {}",
                         layout_text(op.walk.memory.table, promised), layout_text(op.walk.memory.table, held)));
}

}  // namespace tpplan
