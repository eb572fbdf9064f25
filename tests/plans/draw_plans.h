// Plans as a search tries them: neighbours of a plan that differ in one rule, and plans with all rules random.
#pragma once

#include <random>
#include <set>
#include <string>
#include <vector>

#include "plan/tp_plan.h"

namespace tpplan {

struct PlanDraw {
  const TpPlan& base;
  std::vector<const StyleRow*> styles;  // styles of the plan's dialect that apply to parameters
  std::mt19937_64 random;
  std::set<std::string> drawn;  // to draw each plan once
};

inline PlanDraw begin_draw(const TpPlan& base, uint64_t seed) {
  PlanDraw draw{.base = base, .styles = {}, .random = std::mt19937_64(seed), .drawn = {}};
  for (const StyleRow& row : style_table()) {
    if ((row.sets & base.dialect->styles) != 0 && row.touches_parameters) draw.styles.push_back(&row);
  }
  return draw;
}

inline size_t any_below(PlanDraw& draw, size_t count) { return static_cast<size_t>(draw.random() % count); }

// Returns a random choice for a rule: an index into `styles`, or, one time in eight, styles.size(), which omits the
// rule.
inline int draw_choice(PlanDraw& draw) {
  return static_cast<int>(any_below(draw, 8) == 0 ? draw.styles.size() : any_below(draw, draw.styles.size()));
}

// Returns the plan with these choices, by rule of the base; -1 keeps the rule. `axis_size`: size of the axis of styles;
// 0 keeps it.
inline TpPlan plan_of(const PlanDraw& draw, const std::vector<int>& choices, int64_t axis_size) {
  TpPlan plan = draw.base;
  plan.rules.clear();
  for (size_t i = 0; i < choices.size(); ++i) {
    PlanRule rule = draw.base.rules[i];
    if (choices[i] == static_cast<int>(draw.styles.size())) continue;
    if (choices[i] >= 0 && rule.style != nullptr) {
      rule.style = draw.styles[static_cast<size_t>(choices[i])];
      rule.options = {};
    }
    plan.rules.push_back(std::move(rule));
  }
  for (size_t axis = 0; axis < plan.mesh.axes.size() && axis_size > 0; ++axis) {
    if (static_cast<AxisId>(axis) == plan.axis) plan.mesh.axes[axis].size = axis_size;
  }
  return plan;
}

// Returns true the first time.
inline bool is_new(PlanDraw& draw, const std::vector<int>& choices) {
  std::string name;
  for (const int choice : choices) name += ' ' + std::to_string(choice);
  return draw.drawn.insert(name).second;
}

}  // namespace tpplan
