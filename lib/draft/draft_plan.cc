#include "draft/draft_plan.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/text.h"
#include "draft/find_units.h"
#include "draft/unit_words.h"
#include "infer/check_coverage.h"
#include "judge.h"
#include "manifest/path_pattern.h"

namespace tpplan {
namespace {

// A unit, and how it is cut.
struct ChosenUnit {
  const DraftUnit* unit = nullptr;
  const UnitWay* way = nullptr;  // nullptr: whole
  std::string reason;            // why not in a better way
};

struct Drafting {
  const ModelGraph& graph;
  const DialectRow& dialect;
  const Mesh& mesh;
  AxisId axis = kNoAxis;
  std::set<std::string> known;  // what is said of a plan without rules
};

// What is meant to stay whole has a rule that says so, or no rule where the dialect has no word for it.
std::string_view style_in(const Drafting& in, const ChosenUnit& chosen, const DraftMember& member) {
  const std::string_view style = chosen.way == nullptr ? std::string_view{} : style_of(*chosen.way, member.role);
  if (!style.empty()) return style;
  return member.elements > kLargeParameter ? in.dialect.keep_whole : std::string_view{};
}

// A framework's own plans have no blocks, and stars for all numbers: with those transformers looks a module up.
DraftKey key_in(const Drafting& in, const DraftKey& key) {
  if (!in.dialect.follows_framework) return key;
  const char dot = separator(in.graph.framework);
  std::string path = key.block.empty() || key.name.empty() ? key.block + key.name : key.block + dot + key.name;
  return {.block = {}, .name = path_pattern(path)};
}

// Of two rules with one key that say the same one is enough.
bool repeats(const TpPlan& plan, const PlanRule& rule) {
  return std::ranges::any_of(plan.rules, [&](const PlanRule& other) {
    return other.key == rule.key && other.block == rule.block && same_treatment(other, rule);
  });
}

void add_rule(DraftPlan& draft, const Drafting& in, const DraftMember& member, std::string_view style, std::string key,
              uint32_t block, std::string& comment) {
  PlanRule rule;
  rule.key = std::move(key);
  const StyleRow* row = find_style(style, in.dialect.styles);
  if (member.ndim > 0 && !row->cut_dim.empty()) {
    rule.spec.emplace().before.resize(member.ndim);
    rule.spec->before[member.heads_at] = {in.axis};
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

// Axes that no style shards over have data of their own on every rank.
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
    for (const DraftMember& member : unit.unit->members) {
      const std::string block = key_in(in, member.key).block;
      if (!block.empty() &&
          std::ranges::find(draft.plan.blocks, block, &ModulePattern::text) == draft.plan.blocks.end())
        if (!style_in(in, unit, member).empty()) draft.plan.blocks.push_back({block, {}});
    }
  }
  for (uint32_t block = kNoRule; block != draft.plan.blocks.size(); ++block) {  // kNoRule + 1 is 0
    const std::string_view wanted = block == kNoRule ? std::string_view{} : draft.plan.blocks[block].text;
    for (const ChosenUnit& unit : chosen) {
      std::string comment = unit_comment(*unit.unit, unit.way, unit.reason);
      for (const DraftMember& member : unit.unit->members) {
        const DraftKey key = key_in(in, member.key);
        const std::string_view style = style_in(in, unit, member);
        if (key.block == wanted && !style.empty()) add_rule(draft, in, member, style, key.name, block, comment);
      }
    }
  }
  return draft;
}

// What judge() says of the plan, but for what the rest of the draft settles.
std::vector<std::string> judged(const Drafting& in, const TpPlan& plan, bool is_done) {
  Diagnostics diagnostics;
  std::ignore = judge(in.graph, plan, diagnostics, Phase::Operations);
  std::vector<std::string> found;
  for (const Diagnostic& d : diagnostics.list) {
    const bool is_early = !is_done && (d.code == Code::TP4006 || d.code == Code::TP4007);
    std::string text = fmt::format("{} ({})", d.message, kind_of(d.code).name);
    if (!is_early && !in.known.contains(text)) found.push_back(std::move(text));
  }
  return found;
}

bool has_styles(const Drafting& in, const DraftUnit& unit, const UnitWay& way) {
  return std::ranges::all_of(unit.members, [&](const DraftMember& member) {
    const std::string_view style = style_of(way, member.role);
    const bool is_spec = member.role == DraftRole::HeadParam && !style.empty();  // a framework's own plans have none
    return style.empty() ||
           (find_style(style, in.dialect.styles) != nullptr && !(is_spec && in.dialect.follows_framework));
  });
}

bool cuts_any(const Drafting& in, const DraftUnit& unit, const UnitWay& way) {
  return std::ranges::any_of(unit.members, [&](const DraftMember& member) {
    const StyleRow* style = find_style(style_of(way, member.role), in.dialect.styles);
    return style != nullptr && !style->cut_dim.empty();
  });
}

// Layers that a dialect's keys do not tell apart are cut alike, or not at all.
bool has_clash(const TpPlan& plan) {
  for (const PlanRule& rule : plan.rules) {
    const auto is_other = [&](const PlanRule& r) { return &r != &rule && r.key == rule.key && r.block == rule.block; };
    if (std::ranges::any_of(plan.rules, is_other)) return true;
  }
  return false;
}

ChosenUnit choose(const Drafting& in, const std::vector<ChosenUnit>& before, const DraftUnit& unit) {
  ChosenUnit choice{.unit = &unit, .way = nullptr, .reason = {}};
  for (const UnitWay& way : unit_ways()) {
    if (!is_for(way, unit) || !has_styles(in, unit, way) || !cuts_any(in, unit, way)) continue;
    std::string fault = unseen_fault(in.graph, unit, way);
    if (fault.empty()) {
      std::vector<ChosenUnit> with = before;
      with.push_back({&unit, &way, {}});
      const TpPlan plan = assemble(in, with).plan;
      const std::vector<std::string> found = has_clash(plan)
                                                 ? std::vector<std::string>{"its keys are those of other layers, too"}
                                                 : judged(in, plan, false);
      if (found.empty()) {
        choice.way = &way;
        return choice;
      }
      fault = found.front();
    }
    if (choice.reason.empty()) choice.reason = std::move(fault);
  }
  return choice;
}

}  // namespace

DraftPlan draft_plan(const ModelGraph& graph, const DialectRow& dialect, const Mesh& mesh, AxisId axis) {
  Drafting in{.graph = graph, .dialect = dialect, .mesh = mesh, .axis = axis, .known = {}};
  for (std::string& text : judged(in, assemble(in, {}).plan, false)) in.known.insert(std::move(text));
  const std::vector<DraftUnit> units = find_units(graph, kLargeParameter);
  std::vector<ChosenUnit> chosen;
  for (const DraftUnit& unit : units) chosen.push_back(choose(in, chosen, unit));
  DraftPlan draft = assemble(in, chosen);
  draft.findings = judged(in, draft.plan, true);
  for (const ChosenUnit& unit : chosen) {
    draft.cut += unit.way != nullptr;
    if (unit.way == nullptr && !unit.reason.empty()) draft.reasons.push_back(unit.reason);
    draft.fallbacks += unit.unit->kind != UnitKind::Whole && (unit.way == nullptr || !unit.way->is_best);
  }
  return draft;
}

}  // namespace tpplan
