#include "suggest/draft_plan.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/starred_path.h"
#include "base/text.h"
#include "resolve/infer/check_coverage.h"
#include "suggest/find_units.h"
#include "suggest/rule_place.h"
#include "suggest/unit_words.h"

namespace tpplan {
namespace {

// A unit with its chosen strategy.
struct ChosenUnit {
  const DraftUnit* unit = nullptr;
  const UnitStrategy* strategy = nullptr;  // nullptr: replicated
  std::string reason;                      // why no better strategy applies
};

struct Drafting {
  Checker& checker;
  const ModelGraph& graph;
  const DialectRow& dialect;
  const Mesh& mesh;
  AxisId axis = kNoAxis;
  std::set<std::string> known;  // diagnostics of a plan without rules
};

// Returns the style of a layer; empty for no rule. A large layer without a style gets the dialect's replicate style, if
// it has one.
std::string_view style_in(const Drafting& in, const ChosenUnit& chosen, const DraftLayer& layer) {
  const std::string_view style =
      chosen.strategy == nullptr ? std::string_view{} : style_of(*chosen.strategy, layer.role);
  if (!style.empty()) return style;
  return layer.elements > kLargeParameter ? in.dialect.replicate_style : std::string_view{};
}

// Returns the key in the form of the dialect. In dialects that follow a framework, keys have no block and a star for
// every number, by which transformers looks modules up.
DraftKey key_in(const Drafting& in, const DraftKey& key) {
  if (!in.dialect.follows_framework) return key;
  const char dot = separator(in.graph.framework);
  std::string path = key.block.empty() || key.name.empty() ? key.block + key.name : key.block + dot + key.name;
  return {.block = {}, .name = key_in_dialect(in.dialect, starred_path(path))};
}

// True if the plan already has a rule with the same key and treatment.
bool repeats(const TpPlan& plan, const PlanRule& rule) {
  return std::ranges::any_of(plan.rules, [&](const PlanRule& other) {
    return other.key == rule.key && other.block == rule.block && has_same_effect(other, rule);
  });
}

void add_rule(DraftPlan& draft, const Drafting& in, const DraftLayer& layer, std::string_view style, std::string key,
              uint32_t block, std::string& comment) {
  PlanRule rule;
  rule.key = std::move(key);
  const StyleRow* row = find_style(style, in.dialect.styles);
  if (layer.ndim > 0 && !row->shard_dim.empty()) {
    rule.spec.emplace().before.resize(layer.ndim);
    rule.spec->before[layer.heads_at] = {in.axis};
  } else {
    rule.style = row;
    rule.axis = in.axis;
  }
  rule.block = block;
  if (repeats(draft.plan, rule)) return;
  draft.plan.rules.push_back(std::move(rule));
  draft.comments.rules.push_back(comment.empty() ? std::vector<std::string>{} : comment_lines_of(comment));
  comment.clear();
}

// Makes all axes other than `axis` data axes, and the one named `fsdp` the FSDP axis.
void add_data_axes(TpPlan& plan, AxisId axis) {
  DataSharding data;
  for (AxisId other = 0; other < plan.mesh.axes.size(); ++other) {
    if (other == axis) continue;
    data.axes.push_back(other);
    if (plan.mesh.axes[other].name == "fsdp") plan.fsdp.emplace().axis = other;
  }
  if (!data.axes.empty()) plan.data = std::move(data);
}

DraftPlan assemble(const Drafting& in, const std::vector<ChosenUnit>& chosen) {
  DraftPlan draft;
  draft.plan.dialect = &in.dialect;
  draft.plan.mesh = in.mesh;
  add_data_axes(draft.plan, in.axis);
  for (const ChosenUnit& unit : chosen) {
    for (const DraftLayer& layer : unit.unit->layers) {
      const std::string block = key_in(in, layer.key).block;
      if (!block.empty() &&
          std::ranges::find(draft.plan.blocks, block, &ModulePattern::text) == draft.plan.blocks.end())
        if (!style_in(in, unit, layer).empty()) draft.plan.blocks.push_back({block, {}});
    }
  }
  for (uint32_t block = kNoRule; block != draft.plan.blocks.size(); ++block) {  // kNoRule + 1 is 0
    const std::string_view wanted = block == kNoRule ? std::string_view{} : draft.plan.blocks[block].text;
    for (const ChosenUnit& unit : chosen) {
      std::string comment = unit_comment(*unit.unit, unit.strategy, unit.reason);
      for (const DraftLayer& layer : unit.unit->layers) {
        const DraftKey key = key_in(in, layer.key);
        const std::string_view style = style_in(in, unit, layer);
        if (key.block == wanted && !style.empty()) add_rule(draft, in, layer, style, key.name, block, comment);
      }
    }
  }
  return draft;
}

// Returns the diagnostics of check_plan() that a plan without rules does not have. While the draft is incomplete,
// diagnostics on coverage are ignored.
std::vector<std::string> new_diagnostics(const Drafting& in, const TpPlan& plan, bool is_done) {
  Diagnostics diagnostics;
  std::ignore = check_plan(in.checker, plan, diagnostics, Phase::Operations);
  std::vector<std::string> found;
  for (const Diagnostic& d : diagnostics.list) {
    const bool is_early = !is_done && kind_of(d.code).is_coverage;
    std::string text = fmt::format("{} ({})", d.message, kind_of(d.code).id);
    if (!is_early && !in.known.contains(text)) found.push_back(std::move(text));
  }
  return found;
}

bool has_styles(const Drafting& in, const DraftUnit& unit, const UnitStrategy& strategy) {
  return std::ranges::all_of(unit.layers, [&](const DraftLayer& layer) {
    const std::string_view style = style_of(strategy, layer.role);
    const bool is_spec = layer.role == DraftRole::HeadParam && !style.empty();  // not possible in framework dialects
    return style.empty() ||
           (find_style(style, in.dialect.styles) != nullptr && !(is_spec && in.dialect.follows_framework));
  });
}

bool shards_any(const Drafting& in, const DraftUnit& unit, const UnitStrategy& strategy) {
  return std::ranges::any_of(unit.layers, [&](const DraftLayer& layer) {
    const StyleRow* style = find_style(style_of(strategy, layer.role), in.dialect.styles);
    return style != nullptr && !style->shard_dim.empty();
  });
}

// True if two rules have the same key: the dialect's keys cannot distinguish their layers.
bool has_clash(const TpPlan& plan) {
  for (const PlanRule& rule : plan.rules) {
    const auto is_other = [&](const PlanRule& r) { return &r != &rule && r.key == rule.key && r.block == rule.block; };
    if (std::ranges::any_of(plan.rules, is_other)) return true;
  }
  return false;
}

ChosenUnit choose(const Drafting& in, const std::vector<ChosenUnit>& before, const DraftUnit& unit) {
  ChosenUnit choice{.unit = &unit, .strategy = nullptr, .reason = {}};
  for (const UnitStrategy& strategy : unit_strategies()) {
    if (!applies_to_unit(strategy, unit) || !has_styles(in, unit, strategy) || !shards_any(in, unit, strategy))
      continue;
    std::string fault = unverifiable_reason(in.graph, unit, strategy);
    if (fault.empty()) {
      std::vector<ChosenUnit> with = before;
      with.push_back({&unit, &strategy, {}});
      const TpPlan plan = assemble(in, with).plan;
      const std::vector<std::string> found = has_clash(plan)
                                                 ? std::vector<std::string>{"its keys also match other layers"}
                                                 : new_diagnostics(in, plan, false);
      if (found.empty()) {
        choice.strategy = &strategy;
        return choice;
      }
      fault = found.front();
    }
    if (choice.reason.empty()) choice.reason = std::move(fault);
  }
  return choice;
}

}  // namespace

DraftPlan draft_plan(Checker& checker, const DialectRow& dialect, const Mesh& mesh, AxisId axis) {
  const ModelGraph& graph = checker.graph;
  Drafting in{.checker = checker, .graph = graph, .dialect = dialect, .mesh = mesh, .axis = axis, .known = {}};
  for (std::string& text : new_diagnostics(in, assemble(in, {}).plan, false)) in.known.insert(std::move(text));
  const std::vector<DraftUnit> units = find_units(graph, kLargeParameter);
  std::vector<ChosenUnit> chosen;
  for (const DraftUnit& unit : units) chosen.push_back(choose(in, chosen, unit));
  DraftPlan draft = assemble(in, chosen);
  draft.findings = new_diagnostics(in, draft.plan, true);
  for (const ChosenUnit& unit : chosen) {
    draft.sharded_units += unit.strategy != nullptr;
    if (unit.strategy == nullptr && !unit.reason.empty()) draft.reasons.push_back(unit.reason);
    draft.fallbacks += unit.unit->kind != UnitKind::Whole && (unit.strategy == nullptr || !unit.strategy->is_best);
  }
  return draft;
}

}  // namespace tpplan
