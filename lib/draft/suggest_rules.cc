#include "draft/suggest_rules.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "draft/rule_place.h"
#include "draft/unit_words.h"
#include "infer/check_coverage.h"
#include "judge.h"
#include "model/module_kinds.h"
#include "plan/apply_suppressions.h"
#include "plan/write_plan.h"
#include "sharding/dtype.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

constexpr size_t kMostPaths = 8;  // that get keys of their own

struct Found {
  std::string text;
  bool is_error = false;
  Code code{};
  uint64_t count = 1;
};

// A plan's text, judged.
struct Trial {
  bool is_read = false;
  TpPlan plan;
  MatchTable matches;
  Phase reached = Phase::Plan;
  std::vector<Found> findings;  // but those that only say how much no rule covers
  FoundCounts counts;           // of all
};

struct Suggesting {
  const ModelGraph& graph;
  const SourceFile& file;
  const MeshSizes& sizes;
  const WalkOptions& walk;
  Trial base, current;
  std::vector<std::string> firsts;  // of the base (rule_place.h)
  std::vector<TextEdit> edits;
  AxisId axis = kNoAxis;
};

// A rule that is wanted, for all modules of a member that have none.
struct Target {
  const DraftMember* member = nullptr;
  std::vector<ModuleId> modules;
  std::vector<std::string> paths;  // by module
  DraftKey key;
  PlanRule rule;
};

Trial judged_text(const Suggesting& s, std::string text) {
  Trial trial;
  const SourceFile file{.name = s.file.name, .text = std::move(text), .id = s.file.id};
  Diagnostics diagnostics;
  trial.plan = read_plan(file, s.sizes, diagnostics);
  trial.is_read = !has_errors(diagnostics);
  if (!trial.is_read) return trial;
  Judgement j = judge(s.graph, trial.plan, diagnostics, Phase::Operations, s.walk);
  apply_suppressions(
      trial.plan, [](Code) { return false; }, diagnostics);
  trial.matches = std::move(j.matches);
  trial.reached = j.reached;
  for (const Diagnostic& d : diagnostics.list) {
    const bool is_error = d.severity == Severity::Error;
    ++(is_error ? trial.counts.errors : trial.counts.warnings);
    if (d.code != Code::TP4006 && d.code != Code::TP4007)
      trial.findings.push_back({fmt::format("{} ({})", d.message, kind_of(d.code).name), is_error, d.code, d.count});
  }
  return trial;
}

size_t errors_of(const Trial& trial) {
  return static_cast<size_t>(std::ranges::count_if(trial.findings, &Found::is_error));
}

bool is_better(const Trial& before, const Trial& after) {
  return std::pair(errors_of(after), after.findings.size()) < std::pair(errors_of(before), before.findings.size());
}

uint64_t count_of(const Trial& trial, Code code) {
  uint64_t count = 0;
  for (const Found& found : trial.findings) count += found.code == code ? found.count : 0;
  return count;
}

// The first fault of a plan that the one before it had not; empty where there is none. A finding of many layers names
// the first of them: where some are mended, it names another one. Where an error is gone, phases behind it speak for
// the first time: their warnings are no fault of the change.
std::string new_fault(const Trial& before, const Trial& after) {
  if (!after.is_read) return "the plan has no place for it";
  const bool was_wrong = errors_of(before) > 0;
  for (const Found& found : after.findings) {
    const bool is_known = std::ranges::any_of(before.findings, [&](const Found& f) { return f.text == found.text; }) ||
                          count_of(after, found.code) < count_of(before, found.code);
    if (!is_known && (found.is_error || !was_wrong)) return found.text;
  }
  return {};
}

// ---- what has a rule ----

bool has_boundary(const MatchTable& matches, ModuleId module) {
  return std::ranges::find(matches.boundaries, module, &BoundaryMatch::module) != matches.boundaries.end();
}

// The rule that decides over what the member's key names in a module.
RuleId rule_of(const ModelGraph& graph, const MatchTable& matches, const DraftMember& member, ModuleId id) {
  const Module& module = graph.modules[id];
  for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
    const bool is_asked = member.param.empty() || graph.params[param].name == member.param;
    if (is_asked && matches.params[param].rule != kNoRule) return matches.params[param].rule;
  }
  return kNoRule;
}

bool is_covered(const ModelGraph& graph, const MatchTable& matches, const DraftMember& member, ModuleId id) {
  if (member.role == DraftRole::ExpertsModule) return has_boundary(matches, id);
  return rule_of(graph, matches, member, id) != kNoRule;
}

using RuleName = std::pair<std::string_view, std::string_view>;  // block and key

RuleName name_of(const TpPlan& plan, RuleId id) {
  const PlanRule& rule = plan.rules[id];
  return {rule.block == kNoRule ? std::string_view{} : std::string_view(plan.blocks[rule.block].text), rule.key};
}

// By rule of the plan: whether the other one has it.
std::vector<bool> known_rules(const TpPlan& plan, const TpPlan& other) {
  std::set<RuleName> names;
  for (RuleId id = 0; id < other.rules.size(); ++id) names.insert(name_of(other, id));
  std::vector<bool> known;
  for (RuleId id = 0; id < plan.rules.size(); ++id) known.push_back(names.contains(name_of(plan, id)));
  return known;
}

// True where what had a rule has that one still.
bool keeps_rules(const Trial& before, const Trial& after) {
  for (ParamId id = 0; id < before.matches.params.size(); ++id) {
    const RuleId was = before.matches.params[id].rule, is = after.matches.params[id].rule;
    if (was != kNoRule && (is == kNoRule || name_of(before.plan, was) != name_of(after.plan, is))) return false;
  }
  return after.matches.boundaries.size() >= before.matches.boundaries.size();
}

// ---- what a rule does ----

// What a style is in a set that has no name for it.
struct WrittenStyle {
  std::string_view name, style;
  bool is_input = false;  // whole values come in; else they go out
};
constexpr WrittenStyle kWrittenStyles[] = {{"colwise_gather_output", "colwise"},
                                           {"embedding_colwise", "colwise"},
                                           {"embedding_rowwise", "rowwise", true},
                                           {"rowwise_split_input", "rowwise", true}};

bool set_style(const DialectRow& dialect, std::string_view name, PlanRule& rule) {
  rule.style = find_style(name, dialect.styles);
  if (rule.style != nullptr) return true;
  const auto written = std::ranges::find(kWrittenStyles, name, &WrittenStyle::name);
  if (written == std::end(kWrittenStyles)) return false;
  rule.style = find_style(written->style, dialect.styles);
  const std::vector<Layout> whole{Placement{.kind = PlacementKind::Replicate}};
  (written->is_input ? rule.options.input_layouts : rule.options.output_layouts) = whole;
  return rule.style != nullptr;
}

bool cuts_tensors(const PlanRule& rule) { return rule.style == nullptr || !rule.style->cut_dim.empty(); }

bool leaves_whole_values(const PlanRule& rule) {
  const auto& written = rule.options.output_layouts;
  const Layout layout = written && !written->empty()
                            ? written->front()
                            : Layout(rule.style->output.used ? rule.style->output.to : Placement{});
  return layout && layout->kind == PlacementKind::Replicate;
}

bool does_alike(const PlanRule& a, const PlanRule& b) {
  if (a.style == nullptr || b.style == nullptr || !cuts_tensors(a) || !cuts_tensors(b))
    return cuts_tensors(a) == cuts_tensors(b);
  return a.style->cut_dim == b.style->cut_dim && leaves_whole_values(a) == leaves_whole_values(b);
}

// Of how many of the unit's layers the plan thinks otherwise.
size_t disagreements(const Suggesting& s, const DraftUnit& unit, const UnitWay& way) {
  size_t count = 0;
  for (const DraftMember& member : unit.members) {
    PlanRule rule;
    const std::string_view style = style_of(way, member.role);
    const bool has_style = !style.empty() && set_style(*s.base.plan.dialect, style, rule);
    for (const ModuleId id : member.modules) {
      const RuleId own = rule_of(s.graph, s.base.matches, member, id);
      if (own == kNoRule) continue;
      count += has_style ? !does_alike(rule, s.base.plan.rules[own]) : cuts_tensors(s.base.plan.rules[own]);
      break;
    }
  }
  return count;
}

std::vector<const UnitWay*> ways_of(const Suggesting& s, const DraftUnit& unit) {
  std::vector<std::pair<size_t, const UnitWay*>> ways;
  for (const UnitWay& way : unit_ways()) {
    const bool is_said = std::ranges::all_of(unit.members, [&](const DraftMember& member) {
      PlanRule rule;
      const std::string_view style = style_of(way, member.role);
      return style.empty() || set_style(*s.base.plan.dialect, style, rule);
    });
    if (!is_for(way, unit) || !is_said) continue;
    const size_t count = disagreements(s, unit, way);
    if (count == 0 || s.graph.operations.is_there) ways.emplace_back(count, &way);
  }
  std::ranges::stable_sort(ways, {}, &std::pair<size_t, const UnitWay*>::first);
  std::vector<const UnitWay*> sorted;
  for (const auto& [count, way] : ways) sorted.push_back(way);
  return sorted;
}

// ---- what is wanted ----

// The data axis over which specs of the plan cut parameters, as layout maps of KerasHub do; kNoAxis where none does.
AxisId shared_axis(const TpPlan& plan) {
  for (const PlanRule& rule : plan.rules) {
    if (!rule.spec) continue;
    for (const auto* dims : {&rule.spec->before, &rule.spec->after}) {
      for (const DimAxes& dim : *dims) {
        const auto found = std::ranges::find_if(dim, [&](AxisId axis) { return is_data_axis(plan, axis); });
        if (found != dim.end()) return *found;
      }
    }
  }
  return kNoAxis;
}

// Cuts one dim of the parameter, and over a shared axis the largest of the others that it divides.
SpecTemplate spec_of(const Suggesting& s, const Param& param, size_t dim) {
  SpecTemplate spec;
  spec.before.resize(param.ndim);
  spec.before[dim] = {s.axis};
  const AxisId shared = shared_axis(s.base.plan);
  if (shared == kNoAxis || shared == s.axis) return spec;
  const std::span<const int64_t> shape = shape_of(s.graph, param);
  size_t largest = dim;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool fits = d != dim && shape[d] % s.base.plan.mesh.axes[shared].size == 0;
    if (fits && (largest == dim || shape[d] > shape[largest])) largest = d;
  }
  if (largest != dim) spec.before[largest] = {shared};
  return spec;
}

// A spec for a parameter, where the style cuts it.
std::optional<SpecTemplate> spec_for(const Suggesting& s, const DraftMember& member, const Param& param,
                                     const StyleRow& style) {
  const Module& module = s.graph.modules[member.module];
  const int dim =
      member.ndim > 0 ? static_cast<int>(member.heads_at) : find_dim(dims_of(s.graph, module, param), style.cut_dim);
  if (dim < 0 || style.cut_dim.empty()) return std::nullopt;
  return spec_of(s, param, static_cast<size_t>(dim));
}

// Where keys name parameters alone, each has its rule.
void add_param_targets(const Suggesting& s, const DraftMember& member, const std::vector<ModuleId>& modules,
                       const StyleRow& style, std::vector<Target>& targets) {
  const char dot = separator(s.graph.framework);
  for (const Param& param : params_of(s.graph, s.graph.modules[member.module])) {
    if (!member.param.empty() && param.name != member.param) continue;
    Target target{.member = &member, .modules = modules, .paths = {}, .key = member.key, .rule = {}};
    target.rule.spec = spec_for(s, member, param, style);
    if (!target.rule.spec) continue;
    if (member.param.empty()) target.key.name += fmt::format("{}{}", dot, param.name);
    for (const ModuleId id : modules)
      target.paths.push_back(fmt::format("{}{}{}", s.graph.modules[id].path, dot, param.name));
    targets.push_back(std::move(target));
  }
}

void add_module_target(const Suggesting& s, const DraftMember& member, const std::vector<ModuleId>& modules,
                       PlanRule rule, std::vector<Target>& targets) {
  Target target{.member = &member, .modules = modules, .paths = {}, .key = member.key, .rule = std::move(rule)};
  for (const ModuleId id : modules) {
    std::string path(s.graph.modules[id].path);
    if (!member.param.empty()) path += fmt::format("{}{}", separator(s.graph.framework), member.param);
    target.paths.push_back(std::move(path));
  }
  if (member.ndim > 0 && !target.rule.style->cut_dim.empty()) {
    for (const Param& param : params_of(s.graph, s.graph.modules[member.module])) {
      if (param.name == member.param) target.rule.spec = spec_of(s, param, member.heads_at);
    }
    target.rule.style = nullptr;
  }
  target.rule.axis = target.rule.style == nullptr ? kNoAxis : s.axis;
  targets.push_back(std::move(target));
}

std::vector<ModuleId> uncovered(const Suggesting& s, const DraftMember& member) {
  std::vector<ModuleId> modules;
  for (const ModuleId id : member.modules) {
    if (!is_covered(s.graph, s.current.matches, member, id)) modules.push_back(id);
  }
  return modules;
}

bool is_meant_whole(const DraftMember& member) {
  return member.role == DraftRole::Router || member.role == DraftRole::Table;
}

// Where keys name parameters alone, and where every rule is one of a spec.
bool names_parameters(const TpPlan& plan) {
  return plan.dialect->targets == KeyTargets::Parameters ||
         (!plan.rules.empty() &&
          std::ranges::all_of(plan.rules, [](const PlanRule& rule) { return rule.style == nullptr; }));
}

// What is large and has no style in the way is said to be whole on purpose, in dialects that have a word for it.
std::vector<Target> targets_of(const Suggesting& s, const DraftUnit& unit, const UnitWay* way) {
  const DialectRow& dialect = *s.base.plan.dialect;
  std::vector<Target> targets;
  for (const DraftMember& member : unit.members) {
    const std::vector<ModuleId> modules = uncovered(s, member);
    std::string_view style = way == nullptr ? std::string_view{} : style_of(*way, member.role);
    if (style.empty() && (way != nullptr || is_meant_whole(member))) style = dialect.keep_whole;
    PlanRule rule;
    if (modules.empty() || style.empty() || !set_style(dialect, style, rule)) continue;
    const bool stays = style == dialect.keep_whole;
    if (stays && member.elements <= kLargeParameter) continue;
    if (names_parameters(s.base.plan))
      add_param_targets(s, member, modules, *rule.style, targets);
    else
      add_module_target(s, member, modules, std::move(rule), targets);
  }
  return targets;
}

// ---- how it is written ----

enum class Notation : uint8_t { Beside, Pattern, Paths };

std::vector<RulePlace> places_of(const Suggesting& s, const Target& target, Notation notation) {
  const TpPlan& plan = s.base.plan;
  if (notation == Notation::Beside) {
    if (auto place = place_beside(plan, s.graph, s.firsts, target.paths.front())) return {std::move(*place)};
  }
  std::vector<RulePlace> places;
  if (notation != Notation::Paths) return {place_of_key(plan, s.graph, target.key)};
  if (target.paths.size() > kMostPaths || plan.dialect->follows_framework) return {};
  for (const std::string& path : target.paths) places.push_back(place_of_path(plan, s.graph, path));
  return places;
}

std::string value_of(const Suggesting& s, const PlanRule& rule) {
  const std::string text = rule_text(rule, s.base.plan.mesh, s.base.plan.axis);
  constexpr std::string_view begin = "{spec: ";
  const bool is_list = s.base.plan.dialect->targets == KeyTargets::Parameters && text.starts_with(begin);
  return is_list ? text.substr(begin.size(), text.size() - begin.size() - 1) : text;
}

// Tries the rules on the plan with all that was accepted; what is wrong with them, or nothing.
std::string attempt(Suggesting& s, const std::vector<Target>& targets, std::string_view comment, Notation notation) {
  std::vector<TextEdit> edits = s.edits;
  std::vector<std::string> comments = comment_lines_of(comment);
  std::set<std::pair<uint32_t, std::string>> written;
  for (const Target& target : targets) {
    const std::vector<RulePlace> places = places_of(s, target, notation);
    if (places.empty()) return "too many of its layers would need keys of their own";
    for (const RulePlace& place : places) {
      if (!written.emplace(place.block, place.key).second) continue;
      add_rule_text(s.file, s.base.plan, place, value_of(s, target.rule), comments, edits);
      comments.clear();
    }
  }
  std::ranges::stable_sort(edits, {}, &TextEdit::offset);
  Trial trial = judged_text(s, with_edits(s.file.text, edits));
  if (std::string fault = new_fault(s.current, trial); !fault.empty()) return fault;
  if (!keeps_rules(s.current, trial)) return "its keys are those of other layers, too";
  for (const Target& target : targets) {
    const bool is_whole = std::ranges::all_of(
        target.modules, [&](ModuleId id) { return is_covered(s.graph, trial.matches, *target.member, id); });
    if (!is_whole) return fmt::format("no key is known that names every `{}`", target.key.name);
  }
  s.edits = std::move(edits);
  s.current = std::move(trial);
  return {};
}

// True where the rules stand in the plan now.
bool try_rules(Suggesting& s, const std::vector<Target>& targets, std::string_view comment, std::string& reason) {
  for (const Notation notation : {Notation::Beside, Notation::Pattern, Notation::Paths}) {
    std::string fault = attempt(s, targets, comment, notation);
    if (fault.empty()) return true;
    if (reason.empty()) reason = std::move(fault);
  }
  return false;
}

// The first way that wants nothing more settles a unit, unless the plan has findings of which a later one leaves less.
std::string suggest_for(Suggesting& s, const DraftUnit& unit) {
  if (s.base.plan.dialect->keys == KeySyntax::Names)
    return "rules go by names of dims, and which name is for what the model alone says";
  const bool is_new = std::ranges::all_of(
      unit.members, [&](const DraftMember& member) { return uncovered(s, member).size() == member.modules.size(); });
  std::string reason;
  bool is_settled = false;
  for (const UnitWay* way : ways_of(s, unit)) {
    const std::vector<Target> targets = targets_of(s, unit, way);
    if (targets.empty()) {
      if (s.current.findings.empty()) return {};
      is_settled = true;
      continue;
    }
    if (std::string fault = unseen_fault(s.graph, unit, *way); !fault.empty()) {
      if (reason.empty()) reason = std::move(fault);
      continue;
    }
    const std::vector<TextEdit> edits = s.edits;
    const Trial before = s.current;
    if (!try_rules(s, targets, is_new ? unit_comment(unit, way, reason) : "", reason)) continue;
    if (!is_settled || is_better(before, s.current)) return {};
    s.edits = edits;
    s.current = before;
  }
  if (is_settled) return {};
  const std::vector<Target> whole = targets_of(s, unit, nullptr);
  if (!whole.empty() && try_rules(s, whole, is_new ? unit_comment(unit, nullptr, {}) : "", reason)) return {};
  return reason.empty() ? "no way of cutting it is known" : reason;
}

void add_left(const Suggesting& s, const DraftUnit& unit, std::string reason, std::vector<LeftUnit>& left) {
  const bool is_open =
      std::ranges::any_of(unit.members, [&](const DraftMember& member) { return !uncovered(s, member).empty(); });
  if (!is_open) return;
  DraftKey key = unit.members.size() == 1 ? unit.members.front().key : unit.scope;
  if (!key.block.empty() && !key.name.empty()) key.block += separator(s.graph.framework);
  left.push_back({key.block + key.name, std::move(reason)});
}

// By rule of the last trial that the plan has not: what it decides over, and no rule did.
std::vector<SuggestedRule> new_rules(const Suggesting& s) {
  const TpPlan& plan = s.current.plan;
  const std::vector<bool> known = known_rules(plan, s.base.plan);
  std::map<RuleId, SuggestedRule> rules;
  for (RuleId id = 0; id < plan.rules.size(); ++id) {
    if (known[id]) continue;
    const auto [block, key] = name_of(plan, id);
    rules[id] = {.block = std::string(block), .key = std::string(key), .treatment = value_of(s, plan.rules[id])};
  }
  for (ParamId param = 0; param < s.current.matches.params.size(); ++param) {
    const auto rule = rules.find(s.current.matches.params[param].rule);
    if (rule == rules.end()) continue;
    ++rule->second.parameters;
    const Param& owned = s.graph.params[param];
    rule->second.bytes += byte_size(owned.dtype, elements_of(shape_of(s.graph, owned)));
  }
  std::vector<SuggestedRule> list;
  for (auto& [id, rule] : rules) list.push_back(std::move(rule));
  return list;
}

// The axis of styles that name none; else the one that most rules shard over, data axes aside.
AxisId axis_of(const TpPlan& plan) {
  if (plan.axis != kNoAxis) return plan.axis;
  std::vector<size_t> uses(plan.mesh.axes.size());
  for (const PlanRule& rule : plan.rules) {
    if (rule.axis != kNoAxis) ++uses[rule.axis];
    if (!rule.spec) continue;
    for (const auto* dims : {&rule.spec->before, &rule.spec->after}) {
      for (const DimAxes& dim : *dims) {
        for (const AxisId axis : dim) uses[axis] += !is_data_axis(plan, axis);
      }
    }
  }
  return static_cast<AxisId>(std::ranges::max_element(uses) - uses.begin());
}

}  // namespace

RuleSuggestion suggest_rules(const ModelGraph& graph, const SourceFile& file, const MeshSizes& mesh_sizes,
                             const WalkOptions& walk) {
  Suggesting s{.graph = graph, .file = file, .sizes = mesh_sizes, .walk = walk};
  s.base = judged_text(s, file.text);
  RuleSuggestion suggestion{.text = file.text, .before = s.base.counts, .after = s.base.counts};
  if (!s.base.is_read) return suggestion;
  s.current = s.base;
  s.firsts = first_paths(s.base.plan, graph, s.base.matches);
  s.axis = axis_of(s.base.plan);
  for (const DraftUnit& unit : find_units(graph, kLargeParameter)) {
    std::string reason = suggest_for(s, unit);
    if (!reason.empty()) add_left(s, unit, std::move(reason), suggestion.left);
  }
  suggestion.rules = new_rules(s);
  suggestion.edits = s.edits;
  suggestion.text = with_edits(file.text, s.edits);
  suggestion.after = s.current.counts;
  suggestion.is_walked = graph.operations.is_there && s.current.reached >= Phase::Operations;
  return suggestion;
}

}  // namespace tpplan
