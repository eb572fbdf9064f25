#include "suggest/plan_changes.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "base/starred_path.h"
#include "diagnostics/text_edits.h"
#include "plan/dialects.h"
#include "resolve/infer/resolve_ties.h"
#include "suggest/rule_place.h"

namespace tpplan {
namespace {

constexpr size_t kMostSums = 8;
constexpr std::string_view kSumsGradients = "replicated_with_grad_allreduce";

bool is_at(const Span& a, const Span& b) {
  return b.length != 0 && a.file == b.file && a.offset == b.offset && a.length == b.length;
}

// Returns the axis over which the last rule with one shards; kNoAxis if there is none.
AxisId axis_of_styles(const TpPlan& plan) {
  AxisId axis = kNoAxis;
  for (const PlanRule& rule : plan.rules) axis = rule.axis != kNoAxis ? rule.axis : axis;
  return axis;
}

bool shards_a_dim(const PlanRule& rule) { return rule.style == nullptr || !rule.style->shard_dim.empty(); }

bool is_on_embeddings(const ChangeInput& in, RuleId rule) {
  for (ParamId id = 0; id < in.matches.params.size(); ++id) {
    const Module& module = in.graph.modules[in.graph.params[id].module];
    if (in.matches.params[id].rule == rule && module.kind != ModuleKind::Embedding) return false;
  }
  return true;
}

// Returns the edits that add a rule to the plan's file, after the rules with full paths.
std::vector<Edit> written(const ChangeInput& in, const PlanRule& rule) {
  std::vector<TextEdit> texts;
  add_rule_text(in.file, in.plan, place_of_path(in.plan, in.graph, rule.key), rule.style->name, {}, texts);
  std::vector<Edit> edits;
  for (TextEdit& edit : texts)
    edits.push_back({.span = {.file = in.file.id, .offset = edit.offset, .length = 0}, .text = std::move(edit.text)});
  return edits;
}

// Returns where a rule with a full path belongs, if a reader could put it into a block.
std::string_view place_text(const TpPlan& plan) { return plan.blocks.empty() ? "" : " to `tp_plan`"; }

}  // namespace

RuleId rule_at(const TpPlan& plan, const Span& span) {
  for (RuleId id = 0; id < plan.rules.size(); ++id) {
    if (is_at(span, plan.rules[id].value_span) || is_at(span, plan.rules[id].key_span)) return id;
  }
  return kNoRule;
}

std::vector<RuleId> rules_of_operands(const ChangeInput& in, const Diagnostic& finding) {
  std::vector<RuleId> rules;
  std::vector<bool> is_known(in.plan.rules.size());
  const auto add = [&](RuleId rule) {
    if (rule == kNoRule || is_known[rule]) return;
    is_known[rule] = true;
    rules.push_back(rule);
  };
  add(rule_at(in.plan, finding.span));
  for (const Note& note : finding.notes) add(rule_at(in.plan, note.span));
  const ModuleId module = find_module(in.graph, finding.module);
  const bool is_matched = in.matches.params.size() == in.graph.params.size();
  if (finding.module.empty() || module == kNone || !is_matched) return rules;
  const size_t rule_at_error = rules.size();
  for (ModuleId scope : {module, parent_of(in.graph, module)}) {
    if (scope == kNone || in.graph.modules[scope].path.empty() || rules.size() > rule_at_error) break;
    for (ParamId id = 0; id < in.graph.params.size(); ++id) {
      const ModuleId owner = in.graph.params[id].module;
      if (owner != scope && is_below(in.graph, in.graph.modules[owner].path, in.graph.modules[scope].path))
        add(in.matches.params[id].rule);
    }
  }
  return rules;
}

std::vector<PlanChange> other_styles(const ChangeInput& in, RuleId id) {
  const PlanRule& rule = in.plan.rules[id];
  std::vector<PlanChange> edits;
  if (rule.style == nullptr) return edits;
  std::vector<const StyleRow*> rows;
  const bool on_embeddings = is_on_embeddings(in, id);
  for (const StyleRow& row : style_table()) {
    const bool is_in_dialect = (row.sets & in.plan.dialect->styles) != 0;
    const bool fits = (rule.style->is_for_experts || !row.is_for_experts) &&
                      (row.modules != StyleModules::EmbeddingOnly || on_embeddings);
    if (is_in_dialect && fits && row.name != rule.style->name && (!shards_a_dim(rule) || !row.shard_dim.empty()))
      rows.push_back(&row);
  }
  const auto is_used = [&](const StyleRow* row) {
    return std::ranges::any_of(in.plan.rules, [row](const PlanRule& r) { return r.style == row; });
  };
  std::stable_partition(rows.begin(), rows.end(), is_used);  // clang 14 rejects the subrange of std::ranges
  std::stable_partition(rows.begin(), rows.end(),
                        [&](const StyleRow* row) { return row->shard_dim == rule.style->shard_dim; });
  for (const StyleRow* row : rows) {
    PlanChange edit{in.plan, fmt::format("write `{}` for `{}`", row->name, rule.key), {}};
    edit.plan.rules[id].style = row;
    edit.plan.rules[id].options = {};
    edit.keeps_dim = row->shard_dim == rule.style->shard_dim;
    edit.is_likely = is_used(row);
    if (edit.plan.rules[id].axis == kNoAxis) edit.plan.rules[id].axis = axis_of_styles(in.plan);
    if (rule.value_span.length == rule.style->name.size())  // the value is only the style's name
      edit.edits.push_back({.span = rule.value_span, .text = std::string(row->name)});
    edits.push_back(std::move(edit));
  }
  return edits;
}

std::vector<PlanChange> similar_styles(const ChangeInput& in, RuleId id) {
  const StyleRow* current_style = in.plan.rules[id].style;
  std::vector<PlanChange> edits = other_styles(in, id);
  std::erase_if(edits, [&](const PlanChange& edit) {
    const StyleRow* style = edit.plan.rules[id].style;
    return style->shard_dim != current_style->shard_dim;
  });
  return edits;
}

std::optional<PlanChange> with_exchanged_styles(const ChangeInput& in, std::span<const RuleId> rules) {
  const StyleRow* first = in.plan.rules[rules.front()].style;
  const StyleRow* second = nullptr;
  for (const RuleId id : rules) {
    const StyleRow* style = in.plan.rules[id].style;
    if (style == nullptr || style->shard_dim.empty() || in.plan.rules[id].value_span.length != style->name.size())
      return std::nullopt;
    if (style != first && second == nullptr) second = style;
    if (style != first && style != second) return std::nullopt;
  }
  if (second == nullptr || first->shard_dim == second->shard_dim) return std::nullopt;
  PlanChange change{in.plan, {}, {}, false, false};
  for (const StyleRow* style : {second, first}) {
    std::vector<std::string> keys;
    for (const RuleId id : rules) {
      const PlanRule& rule = in.plan.rules[id];
      if (rule.style == style) continue;
      keys.push_back(fmt::format("`{}`", rule.key));
      change.plan.rules[id].style = style;
      change.edits.push_back({.span = rule.value_span, .text = std::string(style->name)});
    }
    change.words +=
        fmt::format("{}`{}` for {}", change.words.empty() ? "write " : ", and ", style->name, fmt::join(keys, " and "));
  }
  return change;
}

std::vector<PlanChange> without_sent_dtype(const ChangeInput& in, RuleId id) {
  const std::optional<SentDtype>& sent = in.plan.rules[id].options.forward_dtype;
  if (!sent) return {};
  PlanChange edit{in.plan, fmt::format("remove `forward_dtype` of `{}`", in.plan.rules[id].key), {}};
  edit.edits.push_back({.span = sent->span, .text = {}, .is_entry = true});
  edit.plan.rules[id].options.forward_dtype.reset();
  return {std::move(edit)};
}

std::vector<RuleId> local_shard_rules(const TpPlan& plan) {
  std::vector<RuleId> rules;
  for (RuleId id = 0; id < plan.rules.size(); ++id) {
    const PlanRule& rule = plan.rules[id];
    if (rule.style == nullptr || (known_options(*rule.style) & kUseLocalOutput) == 0 ||
        !rule.options.use_local_output.value_or(rule.style->use_local) || !rule.options.output_layouts)
      continue;
    const auto is_cut = [](const Layout& layout) { return layout && is_shard(*layout); };
    if (std::ranges::any_of(*rule.options.output_layouts, is_cut)) rules.push_back(id);
  }
  return rules;
}

PlanChange with_dtensor_outputs(const ChangeInput& in, std::span<const RuleId> rules) {
  PlanChange change{in.plan, "write `use_local_output: false` for ", {}};
  change.is_single = rules.size() == 1;
  bool are_edits = true;
  for (const RuleId id : rules) {
    PlanRule& rule = change.plan.rules[id];
    rule.options.use_local_output = false;
    change.words += fmt::format("{}`{}`", id == rules.front() ? "" : id == rules.back() ? " and " : ", ", rule.key);
    const uint64_t end = rule.value_span.offset + rule.value_span.length;
    are_edits = are_edits && rule.value_span.length > 0 && in.file.text[end - 1] == '}' &&
                in.file.text[rule.value_span.offset] == '{' &&
                in.file.text.find("use_local_output", rule.value_span.offset) >= end;
    change.edits.push_back(
        {.span = {.file = in.file.id, .offset = end - 1, .length = 0}, .text = ", use_local_output: false"});
  }
  if (!are_edits) change.edits.clear();
  return change;
}

std::vector<PlanChange> without_rule(const ChangeInput& in, RuleId id) {
  if (shards_a_dim(in.plan.rules[id])) return {};
  PlanChange edit{in.plan, fmt::format("remove the rule `{}`", in.plan.rules[id].key), {}};
  edit.edits.push_back({.span = in.plan.rules[id].key_span, .text = {}, .is_entry = true});
  edit.plan.rules.erase(edit.plan.rules.begin() + id);
  return {std::move(edit)};
}

std::vector<PlanChange> with_rule(const ChangeInput& in, std::string_view path) {
  if (path.empty() || in.plan.rules.empty() || in.plan.dialect->keys != KeySyntax::Glob) return {};
  const AxisId axis = axis_of_styles(in.plan);
  if (axis == kNoAxis) return {};
  const ModuleId module = find_module(in.graph, path);
  const bool has_experts = module != kNone && in.graph.modules[module].kind == ModuleKind::Experts;
  std::vector<PlanChange> edits;
  for (const StyleRow& row : style_table()) {
    if ((row.sets & in.plan.dialect->styles) == 0 || row.name == in.plan.dialect->replicate_style) continue;
    if (row.is_for_experts && !has_experts) continue;
    PlanRule rule;
    rule.key = starred_path(path);
    rule.style = &row;
    rule.axis = axis;
    PlanChange edit{in.plan, fmt::format("add `\"{}\": {}`{}", rule.key, row.name, place_text(in.plan)),
                    written(in, rule)};
    edit.plan.rules.push_back(std::move(rule));
    edits.push_back(std::move(edit));
  }
  std::stable_partition(edits.begin(), edits.end(),
                        [](const PlanChange& e) { return e.plan.rules.back().style->shard_dim.empty(); });
  return edits;
}

std::vector<PlanChange> with_rule_below(const ChangeInput& in, std::string_view path) {
  std::vector<PlanChange> edits;
  if (path.empty()) return edits;
  const std::string above = starred_path(path) + separator(in.graph.framework);
  std::vector<std::string> keys;
  for (const Module& module : in.graph.modules) {
    if (module.param_count == 0 || !is_below(in.graph, module.path, path)) continue;
    std::string key = starred_path(module.path);
    const bool has_rule = std::any_of(in.plan.rules.begin(), in.plan.rules.end(), [&](const PlanRule& rule) {
      return rule.key == key || rule.key.starts_with(key + ".");
    });
    if (key.starts_with(above) && !has_rule && std::find(keys.begin(), keys.end(), key) == keys.end())
      keys.push_back(std::move(key));
  }
  for (const std::string& key : keys) {
    for (const PlanChange& edit : with_rule(in, key)) {
      const StyleRow* style = edit.plan.rules.back().style;
      const bool is_known = std::any_of(in.plan.rules.begin(), in.plan.rules.end(),
                                        [style](const PlanRule& rule) { return rule.style == style; });
      if (is_known) edits.push_back(edit);
    }
  }
  return edits;
}

std::vector<PlanChange> with_rule_of_owner(const ChangeInput& in, RuleId rule) {
  std::vector<PlanChange> edits;
  if (!in.plan.dialect->ties_after_sharding || in.matches.params.size() != in.graph.params.size()) return edits;
  for (const Tie& tie : in.graph.ties) {
    const ParamId owner = owner_of_tie(in.graph, tie);
    const bool is_ruled =
        std::ranges::any_of(tie.params, [&](ParamId id) { return id != owner && in.matches.params[id].rule == rule; });
    if (!is_ruled || in.matches.params[owner].rule != kNoRule) continue;
    for (PlanChange& edit : with_rule(in, in.graph.modules[in.graph.params[owner].module].path)) {
      if (edit.plan.rules.back().style->modules == StyleModules::EmbeddingOnly) edits.push_back(std::move(edit));
    }
  }
  return edits;
}

std::vector<PlanChange> with_sum_of_parameter(const ChangeInput& in, const Diagnostic& finding) {
  if (finding.fails != FirstFailure::Gradient) return {};
  std::vector<PlanChange> edits = with_rule(in, finding.parameter);
  std::erase_if(edits, [](const PlanChange& edit) { return edit.plan.rules.back().style->name != kSumsGradients; });
  return edits;
}

PlanChange with_sums(const ChangeInput& in, const Diagnostics& diagnostics) {
  PlanChange edit{in.plan, {}, {}};
  std::vector<std::string> keys;
  for (const Diagnostic& finding : diagnostics.list) {
    if (finding.fails != FirstFailure::Gradient || keys.size() == kMostSums) continue;
    for (const PlanChange& one : with_rule(in, finding.module)) {
      const PlanRule& rule = one.plan.rules.back();
      if (rule.style->name != kSumsGradients || std::find(keys.begin(), keys.end(), rule.key) != keys.end()) continue;
      keys.push_back(rule.key);
      edit.plan.rules.push_back(rule);
      if (edit.edits.empty())
        edit.edits = one.edits;
      else if (!one.edits.empty())
        edit.edits.front().text += one.edits.front().text;
      edit.words += fmt::format("{}`\"{}\": {}`", edit.words.empty() ? "add " : " and ", rule.key, rule.style->name);
    }
  }
  if (!keys.empty()) edit.words += place_text(in.plan);
  return edit;
}

}  // namespace tpplan
