// The candidates for a fix: changes of one plan, each as help text and as edits of its file. find_fixes tries them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"
#include "resolve/match/match_plan.h"

namespace tpplan {

// A candidate plan, with its change as help text and as edits of the file. `edits` is empty if the file cannot be
// edited automatically.
struct PlanChange {
  TpPlan plan;
  std::string words;
  std::vector<Edit> edits;
  bool keeps_dim = true;  // the rule shards the same dim as before
  bool is_single = true;  // changes one rule
  bool is_likely = true;  // uses only styles of the plan
};

// The plan with errors, its model, the rules that apply to it, and the plan's file.
struct ChangeInput {
  const ModelGraph& graph;
  const TpPlan& plan;
  const MatchTable& matches;
  const SourceFile& file;
};

// Returns the rule whose key or value is at `span`; kNoRule if there is none.
[[nodiscard]] RuleId rule_at(const TpPlan& plan, const Span& span);

// Returns the rules whose values can meet in the failing operation: those at the diagnostic and its notes, then those
// of the layers in its module. A replicated value that meets shards has no rule at the diagnostic, and the rule that
// left it replicated is as often the wrong one. If no layer in the module has a rule, its parent's layers count.
[[nodiscard]] std::vector<RuleId> rules_of_operands(const ChangeInput& in, const Diagnostic& finding);

// Returns changes of a rule's style to others of the dialect. A rule that shards continues to shard, because the other
// styles would only hide the error; styles that shard the same dim come first. For the same reason styles of experts
// and of embeddings are only for rules on these.
[[nodiscard]] std::vector<PlanChange> other_styles(const ChangeInput& in, RuleId id);

// Returns changes of a rule's style to others that shard the same dim.
[[nodiscard]] std::vector<PlanChange> similar_styles(const ChangeInput& in, RuleId id);

// Returns the change that exchanges two styles in all of these rules; nullopt if a rule has another style, or a value
// that is more than a style's name.
[[nodiscard]] std::optional<PlanChange> with_exchanged_styles(const ChangeInput& in, std::span<const RuleId> rules);

// Returns the change that removes `forward_dtype`, so that values are sent in their dtype.
[[nodiscard]] std::vector<PlanChange> without_sent_dtype(const ChangeInput& in, RuleId id);

// Returns rules whose outputs are local shards that `use_local_output: false` would leave as DTensors.
[[nodiscard]] std::vector<RuleId> local_shard_rules(const TpPlan& plan);

// Returns the change that leaves the outputs of these rules as DTensors.
[[nodiscard]] PlanChange with_dtensor_outputs(const ChangeInput& in, std::span<const RuleId> rules);

// Returns the change that removes a rule that shards nothing; empty for other rules.
[[nodiscard]] std::vector<PlanChange> without_rule(const ChangeInput& in, RuleId id);

// Returns changes that add a rule for a path, one per style. Styles that do not shard come first.
[[nodiscard]] std::vector<PlanChange> with_rule(const ChangeInput& in, std::string_view path);

// Returns changes that add a rule for a layer without one in a module, limited to styles that the plan already uses.
[[nodiscard]] std::vector<PlanChange> with_rule_below(const ChangeInput& in, std::string_view path);

// Returns changes that add a rule for the embedding that owns the tied weight of a rule's layer, if it has none.
[[nodiscard]] std::vector<PlanChange> with_rule_of_owner(const ChangeInput& in, RuleId rule);

// Returns the change that adds a gradient-reducing rule for a parameter whose gradient is never reduced. Such a
// parameter may be next to layers in a module that cannot have a rule.
[[nodiscard]] std::vector<PlanChange> with_sum_of_parameter(const ChangeInput& in, const Diagnostic& finding);

// Returns the change that adds a gradient-reducing rule for each module with a gradient diagnostic. For example, query
// and key norms need one each.
[[nodiscard]] PlanChange with_sums(const ChangeInput& in, const Diagnostics& diagnostics);

}  // namespace tpplan
