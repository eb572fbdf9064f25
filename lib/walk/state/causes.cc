#include "walk/state/causes.h"

#include "walk/state/slots.h"

namespace tpplan {

uint32_t add_cause(Walk& walk, Cause cause) {
  walk.out.causes.push_back(std::move(cause));
  return static_cast<uint32_t>(walk.out.causes.size() - 1);
}

uint32_t add_cause_in_module(Walk& walk, Code code, std::string reason, RuleId rule, RuleId partner, std::string op) {
  return add_cause(walk, {.code = code,
                          .reason = std::move(reason),
                          .op = std::move(op),
                          .module = current_module(walk),
                          .rule = rule,
                          .partner = partner,
                          .layouts = {}});
}

void crash_at(Walk& walk, Code code, std::string reason, RuleId rule, RuleId partner, std::string op) {
  if (walk.out.crash == kNoId)
    walk.out.crash = add_cause_in_module(walk, code, std::move(reason), rule, partner, std::move(op));
}

void mark_slot_wrong(Walk& walk, SlotId slot, Code code, std::string reason, RuleId rule, RuleId partner,
                     std::string op) {
  Slot& s = walk.memory.slots[slot];
  if (s.cause == kNoId) s.cause = add_cause_in_module(walk, code, std::move(reason), rule, partner, std::move(op));
  ValueLayout layout = walk.memory.table.layouts[s.layout];
  layout.wrong = true;
  s.layout = intern(walk.memory.table, layout);
}

std::string style_name(const Walk& walk, RuleId rule) {
  return rule == kNoRule || walk.in.plan.rules[rule].style == nullptr
             ? std::string("the rule")
             : std::string(walk.in.plan.rules[rule].style->name);
}

Grad wrong_grad(Backward& b, const TapeEntry& entry, Code code, std::string reason, RuleId partner) {
  const Walk& walk = b.walk;
  const bool has_style = entry.rule != kNoRule && walk.in.plan.rules[entry.rule].style != nullptr;
  std::string op = entry.kind == TapeKind::Op ? std::string(walk.in.graph.strings[walk.in.graph.nodes[entry.node].name])
                   : has_style                ? std::string(walk.in.plan.rules[entry.rule].style->name)
                                              : std::string();
  Grad grad;
  grad.state = kWrongGrad;
  grad.cause = add_cause(b.walk, {.code = code,
                                  .reason = std::move(reason),
                                  .op = std::move(op),
                                  .module = entry.module,
                                  .rule = entry.rule,
                                  .partner = partner,
                                  .layouts = {}});
  return grad;
}

}  // namespace tpplan
