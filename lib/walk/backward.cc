#include "walk/backward.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "walk/judge_grad.h"
#include "walk/judge_loss.h"
#include "walk/kept_walk.h"
#include "walk/operation_back.h"
#include "walk/refused_back.h"
#include "walk/repeat_layers.h"
#include "walk/report_cause.h"
#include "walk/slots.h"
#include "walk/step_back.h"

namespace tpplan {
namespace {

// The outputs' gradients, and which entries lead to them.
Backward begin_backward(Walk& walk) {
  Backward b{.walk = walk, .grads = walk.memory.grads, .first_use = walk.memory.first_use};
  b.grads.clear();
  b.grads.resize(walk.slots.size());
  b.first_use.assign(walk.slots.size(), kNoId);
  std::vector<uint8_t>& reached = walk.memory.reached;
  reached.assign(walk.slots.size(), 0);
  const std::vector<ValueId> trained = walk.loss != nullptr ? std::vector{loss_value(walk)} : walk.graph.outputs;
  for (const ValueId output : trained) {
    const SlotId slot = walk.slot_of[output];
    if (!walk.slots[slot].requires_grad) continue;
    reached[slot] = 1;
    const Spread& layout = layout_of(walk, slot);
    b.grads[slot] = {.state = kComplete,
                     .has_claim = layout.is_dtensor,
                     .claim = for_gradient(layout.claim),
                     .layout = walk.slots[slot].layout};
  }
  for (size_t i = walk.tape.size(); i-- > 0;) {
    const TapeEntry& entry = walk.tape[i];
    bool used = false;
    for (uint32_t o = entry.out_begin; o < entry.out_end; ++o) used = used || reached[walk.tape_slots[o].slot] != 0;
    if (!used) continue;
    for (uint32_t in = entry.in_begin; in < entry.in_end; ++in) {
      const SlotId slot = walk.tape_slots[in].slot;
      if (!walk.slots[slot].requires_grad) continue;
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

// Names that torch made tensors of their own: each has the gradient of its own uses alone.
void judge_untied(Walk& walk) {
  for (const Tie& tie : walk.model.ties) {
    std::vector<ParamId> used;
    for (const ParamId id : tie.params) {
      const auto own = walk.untied.find(id);
      const bool trains = own != walk.untied.end() && walk.slots[own->second].requires_grad;
      const auto has_part = [&](const TapeSlot& slot) { return own != walk.untied.end() && slot.slot == own->second; };
      if (trains && std::any_of(walk.tape_slots.begin(), walk.tape_slots.end(), has_part)) used.push_back(id);
    }
    if (used.size() < 2) continue;
    const Param &first = walk.model.params[used[0]], &second = walk.model.params[used[1]];
    RuleId rule = kNoRule;
    for (const ParamId id : used) rule = rule == kNoRule ? walk.matches.params[id].rule : rule;
    report_cause(
        walk,
        {.code = Code::TP5111,
         .reason = fmt::format("`{}` and `{}` are one tensor in the model, and parallelize_module makes two of "
                               "them: each has the gradient of its own uses alone",
                               path_of(walk.model, first), path_of(walk.model, second)),
         .op = {},
         .module = first.module,
         .rule = rule,
         .layouts = {}},
        "gradient");
  }
}

// No gradient comes behind it: the first training step fails.
void report_refused(Walk& walk, const TapeEntry& entry, std::string reason) {
  const SlotId result = walk.tape_slots[entry.out_begin].slot;
  report_cause(walk,
               {.code = Code::TP5105,
                .reason = std::move(reason),
                .op = std::string(walk.graph.strings[walk.graph.nodes[entry.node].name]),
                .module = entry.module,
                .rule = walk.slots[result].origin,
                .layouts = {}},
               "gradient");
}

}  // namespace

void walk_backward(Walk& walk, bool report_findings) {
  Backward b = begin_backward(walk);
  if (report_findings) judge_untied(walk);
  std::vector<ParamId>& params = walk.memory.param_of_slot;
  params.assign(walk.slots.size(), kNone);
  for (ParamId id = 0; id < walk.value_of_param.size(); ++id) {
    const auto own = walk.untied.find(id);
    const bool is_own = own != walk.untied.end();
    if (!is_own && walk.value_of_param[id] == kNoId) continue;
    ParamId& param = params[is_own ? own->second : walk.slot_of[walk.value_of_param[id]]];
    if (param == kNone) param = id;
  }
  std::vector<BackStack> stacks = begin_back_stacks(b);
  for (size_t i = walk.tape.size(); i-- > 0;) {
    if (!stacks.empty()) {
      const size_t end = repeat_layers_back(b, stacks, i + 1);
      if (end == 0) break;
      i = end - 1;
    }
    const TapeEntry& entry = walk.tape[i];
    if (std::string reason = refused_back(b, entry); !reason.empty()) {
      if (report_findings) report_refused(walk, entry, std::move(reason));
      return;
    }
    (is_operation(entry.kind) ? operation_back : step_back)(b, entry);
    for (uint32_t in = entry.in_begin; in < entry.in_end; ++in) {
      const SlotId slot = walk.tape_slots[in].slot;
      if (b.first_use[slot] != i) continue;
      if (params[slot] == kNone) continue;
      b.first_use[slot] = kNoId;
      judge_grad(b, params[slot], slot, report_findings);
    }
  }
}

}  // namespace tpplan
