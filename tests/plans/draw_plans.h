// Plans as a search meets them: neighbours of one that differ in one rule, and plans whose every rule is drawn.
#pragma once

#include <random>
#include <set>
#include <string>
#include <vector>

#include "plan/tp_plan.h"

namespace tpplan {

struct PlanDraw {
  const TpPlan& base;
  std::vector<const StyleRow*> styles;  // of the plan's dialect, that cut or keep what a key names and need no options
  std::mt19937_64 random;
  std::set<std::string> drawn;  // each plan is drawn once
};

inline PlanDraw begin_draw(const TpPlan& base, uint64_t seed) {
  PlanDraw draw{.base = base, .styles = {}, .random = std::mt19937_64(seed), .drawn = {}};
  for (const StyleRow& row : style_table()) {
    if ((row.sets & base.dialect->styles) != 0 && row.touches_parameters) draw.styles.push_back(&row);
  }
  return draw;
}

inline size_t any_below(PlanDraw& draw, size_t count) { return static_cast<size_t>(draw.random() % count); }

// Another treatment of what a rule's key names: a number into `styles`, or, one time in eight, the one behind them: the
// rule is left out.
inline int draw_choice(PlanDraw& draw) {
  return static_cast<int>(any_below(draw, 8) == 0 ? draw.styles.size() : any_below(draw, draw.styles.size()));
}

// By rule of the base what was chosen; -1: as it is there. `axis_size`: of the axis that styles use; 0: as it is.
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

// True the first time.
inline bool is_new(PlanDraw& draw, const std::vector<int>& choices) {
  std::string name;
  for (const int choice : choices) name += ' ' + std::to_string(choice);
  return draw.drawn.insert(name).second;
}

}  // namespace tpplan
