#include "walk/backward/backward.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "resolve/infer/resolve_ties.h"
#include "walk/backward/check_grad.h"
#include "walk/backward/check_walk_loss.h"
#include "walk/backward/operation_backward.h"
#include "walk/backward/rejected_backward.h"
#include "walk/backward/step_backward.h"
#include "walk/report/report_cause.h"
#include "walk/run/repeat_layers.h"
#include "walk/state/boundary_slots.h"
#include "walk/state/slots.h"
#include "walk/state/walk_memory.h"

namespace tpplan {
namespace {

// Sets the gradients of the outputs, and finds the first use of every value that has a gradient.
Backward begin_backward(Walk& walk) {
  Backward b{.walk = walk, .grads = walk.memory.grads, .first_use = walk.memory.first_use};
  b.grads.clear();
  b.grads.resize(walk.memory.slots.size());
  b.first_use.assign(walk.memory.slots.size(), kNoId);
  if (walk.out.gradients != nullptr) walk.memory.arrivals.assign(walk.memory.slots.size(), {});
  std::vector<uint8_t>& reached = walk.memory.reached;
  reached.assign(walk.memory.slots.size(), 0);
  const std::vector<ValueId> trained = walk.in.loss ? std::vector{loss_input(walk)} : walk.in.graph.outputs;
  for (const ValueId output : trained) {
    const SlotId slot = walk.memory.slot_of[output];
    if (!walk.memory.slots[slot].requires_grad) continue;
    reached[slot] = 1;
    const ValueLayout& layout = layout_of(walk, slot);
    b.grads[slot] = {.state = kComplete,
                     .has_declared = layout.is_dtensor,
                     .declared = gradient_placements(layout.declared),
                     .layout = walk.memory.slots[slot].layout};
    note_grad_arrival(walk, slot, b.grads[slot]);
  }
  for (size_t i = walk.memory.tape.size(); i-- > 0;) {
    const TapeEntry& entry = walk.memory.tape[i];
    bool used = false;
    for (uint32_t o = entry.out_begin; o < entry.out_end; ++o)
      used = used || reached[walk.memory.tape_slots[o].slot] != 0;
    if (!used) continue;
    for (uint32_t in = entry.in_begin; in < entry.in_end; ++in) {
      const SlotId slot = walk.memory.tape_slots[in].slot;
      if (!walk.memory.slots[slot].requires_grad) continue;
      reached[slot] = 1;
      b.first_use[slot] = static_cast<uint32_t>(i);
    }
  }
  return b;
}

bool is_operation(TapeKind kind) {
  return kind == TapeKind::Op || kind == TapeKind::Divide || kind == TapeKind::AddBias;
}

}  // namespace

namespace {

// Reports tied parameters that torch has untied: each name has only the gradient of its own uses.
void check_untied(Walk& walk) {
  for (const Tie& tie : walk.in.model.ties) {
    std::vector<ParamId> used;
    for (const ParamId id : tie.params) {
      const auto untied = walk.memory.untied.find(id);
      const bool trains = untied != walk.memory.untied.end() && walk.memory.slots[untied->second].requires_grad;
      const auto has_part = [&](const TapeSlot& slot) {
        return untied != walk.memory.untied.end() && slot.slot == untied->second;
      };
      if (trains && std::any_of(walk.memory.tape_slots.begin(), walk.memory.tape_slots.end(), has_part))
        used.push_back(id);
    }
    if (used.size() < 2) continue;
    const Param &first = walk.in.model.params[used[0]], &second = walk.in.model.params[used[1]];
    RuleId rule = kNoRule;
    for (const ParamId id : used) rule = rule == kNoRule ? walk.in.matches.params[id].rule : rule;
    report_cause(
        walk,
        {.code = Code::GradientNotReduced,
         .reason = fmt::format("`{}` and `{}` are tied in the model, but parallelize_module makes two tensors "
                               "of them: each has only the gradient of its uses",
                               path_of(walk.in.model, first), path_of(walk.in.model, second)),
         .op = {},
         .module = first.module,
         .rule = rule,
         .layouts = {},
         .help = untied_help(walk.in.model, used[0], used[1],
                             walk.in.shardings.params[used[0]].sharding == walk.in.shardings.params[used[1]].sharding)},
        FirstFailure::Gradient);
  }
}

// Reports that the backward pass fails at this entry, so that the first training step fails.
void report_rejected(Walk& walk, const TapeEntry& entry, std::string reason) {
  const SlotId result = walk.memory.tape_slots[entry.out_begin].slot;
  report_cause(walk,
               {.code = Code::UnsupportedCall,
                .reason = std::move(reason),
                .op = std::string(walk.in.graph.strings[walk.in.graph.nodes[entry.node].name]),
                .module = entry.module,
                .rule = walk.memory.slots[result].origin,
                .layouts = {}},
               FirstFailure::Gradient);
}

}  // namespace

void walk_backward(Walk& walk, bool is_reporting) {
  Backward b = begin_backward(walk);
  if (is_reporting) check_untied(walk);
  std::vector<ParamId>& params = walk.memory.param_of_slot;
  params.assign(walk.memory.slots.size(), kNone);
  for (ParamId id = 0; id < walk.memory.value_of_param.size(); ++id) {
    const auto untied = walk.memory.untied.find(id);
    const bool is_untied = untied != walk.memory.untied.end();
    if (!is_untied && walk.memory.value_of_param[id] == kNoId) continue;
    ParamId& param = params[is_untied ? untied->second : walk.memory.slot_of[walk.memory.value_of_param[id]]];
    if (param == kNone) param = id;
  }
  std::vector<BackwardStack> stacks = begin_backward_stacks(b);
  for (size_t i = walk.memory.tape.size(); i-- > 0;) {
    if (!stacks.empty()) {
      const size_t end = repeat_layers_backward(b, stacks, i + 1);
      if (end == 0) break;
      i = end - 1;
    }
    const TapeEntry& entry = walk.memory.tape[i];
    if (std::string reason = rejected_backward(b, entry); !reason.empty()) {
      if (is_reporting) report_rejected(walk, entry, std::move(reason));
      return;
    }
    (is_operation(entry.kind) ? operation_backward : step_backward)(b, entry);
    for (uint32_t in = entry.in_begin; in < entry.in_end; ++in) {
      const SlotId slot = walk.memory.tape_slots[in].slot;
      if (b.first_use[slot] != i) continue;
      if (params[slot] == kNone) continue;
      b.first_use[slot] = kNoId;
      check_grad(b, params[slot], slot, is_reporting);
    }
  }
}

}  // namespace tpplan
