#include "walk/causes.h"

#include "walk/slots.h"

namespace tpplan {

uint32_t add_cause(Walk& walk, Cause cause) {
  walk.causes.push_back(std::move(cause));
  return static_cast<uint32_t>(walk.causes.size() - 1);
}

uint32_t add_cause_here(Walk& walk, Code code, std::string reason, RuleId rule, RuleId partner, std::string op) {
  return add_cause(walk, {.code = code,
                          .reason = std::move(reason),
                          .op = std::move(op),
                          .module = module_at(walk),
                          .rule = rule,
                          .partner = partner,
                          .layouts = {}});
}

void crash_at(Walk& walk, Code code, std::string reason, RuleId rule, RuleId partner, std::string op) {
  if (walk.crash == kNoId) walk.crash = add_cause_here(walk, code, std::move(reason), rule, partner, std::move(op));
}

void spoil(Walk& walk, SlotId slot, Code code, std::string reason, RuleId rule, RuleId partner, std::string op) {
  Slot& s = walk.slots[slot];
  if (s.cause == kNoId) s.cause = add_cause_here(walk, code, std::move(reason), rule, partner, std::move(op));
  Spread layout = walk.table.layouts[s.layout];
  layout.wrong = true;
  s.layout = intern(walk.table, layout);
}

std::string style_name(const Walk& walk, RuleId rule) {
  return rule == kNoRule || walk.plan.rules[rule].style == nullptr ? std::string("the rule")
                                                                   : std::string(walk.plan.rules[rule].style->name);
}

}  // namespace tpplan
