#include "suggest/find_fixes.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "cost/measure_collectives.h"
#include "diagnostics/text_edits.h"
#include "plan/dialects.h"
#include "suggest/fitting_lengths.h"
#include "suggest/local_heads_help.h"
#include "suggest/plan_changes.h"
#include "suggest/price.h"

namespace tpplan {
namespace {

// Limit of walked operations. It allows about sixty checks of a plan with eighty layers, which take half a second.
constexpr uint64_t kMostOperations = 500'000;
constexpr uint64_t kMostTrials = 200;
constexpr size_t kMaxDiagnosed = 3;

struct Search {
  Checker& checker;
  ChangeInput in;
  const WalkOptions& walk;
  const MeshSizes& sizes;
  uint64_t trials_left = 0;
  std::vector<Edit> offered{};  // edits that an earlier diagnostic has
};

bool is_fixed_by(Search& search, const PlanChange& edit) {
  if (search.trials_left == 0) return false;
  --search.trials_left;
  Diagnostics trial;
  std::ignore = check_plan(search.checker, edit.plan, trial, Phase::Operations, search.walk);
  return !has_new_errors(trial, search.checker.is_known);
}

// Returns what a right plan costs: parameter bytes of the largest rank plus the bytes that a rank sends per step.
// Returns nullopt if the changed plan has an error.
std::optional<uint64_t> cost_of(Search& search, const PlanChange& edit) {
  if (search.trials_left == 0) return std::nullopt;
  --search.trials_left;
  Diagnostics trial;
  const CheckResult j = check_plan(search.checker, edit.plan, trial, Phase::Operations, search.walk);
  if (has_new_errors(trial, search.checker.is_known)) return std::nullopt;
  return largest_parameter_bytes(search.in.graph, edit.plan, j, search.walk) +
         sum_calls(j.forecast.calls, edit.plan.mesh).wire;
}

bool is_same(const std::vector<Edit>& a, const std::vector<Edit>& b) {
  return std::ranges::equal(a, b, [](const Edit& x, const Edit& y) {
    return x.span.offset == y.span.offset && x.span.length == y.span.length && x.text == y.text;
  });
}

// Sets the edits of a diagnostic if the edited file is correct. Two diagnostics may each have a sufficient fix, but
// both fixes together are an unchecked plan, so only one distinct edit is offered.
void offer(Search& search, PlanChange change, Diagnostic& finding) {
  if (!search.offered.empty() && !is_same(search.offered, change.edits)) return;
  finding.edits = std::move(change.edits);
  const std::vector<TextEdit> edits = text_edits(search.in.file, finding);
  const SourceFile file{
      .name = search.in.file.name, .text = with_edits(search.in.file.text, edits), .id = search.in.file.id};
  Diagnostics trial;
  const TpPlan plan = read_plan(file, search.sizes, trial);
  if (!edits.empty() && !has_errors(trial))
    std::ignore = check_plan(search.checker, plan, trial, Phase::Operations, search.walk);
  if (edits.empty() || has_new_errors(trial, search.checker.is_known)) finding.edits.clear();
  if (search.offered.empty()) search.offered = finding.edits;
}

bool try_edits(Search& search, const std::vector<PlanChange>& edits, Diagnostic& finding) {
  const auto found =
      std::find_if(edits.begin(), edits.end(), [&](const PlanChange& edit) { return is_fixed_by(search, edit); });
  if (found == edits.end()) return false;
  finding.help =
      fmt::format("{}: {} the plan", found->words, found->is_single ? "this change alone fixes" : "these changes fix");
  offer(search, *found, finding);
  return true;
}

// The cheapest right change of those that were tried, of equal ones the first.
struct Cheapest {
  std::optional<PlanChange> change;
  uint64_t cost = 0;
};

// A change that shards another dim must be a tenth cheaper, because it is farther from what the plan's author meant.
void try_change(Search& search, PlanChange change, Cheapest& best) {
  std::optional<uint64_t> cost = cost_of(search, change);
  if (cost && !change.keeps_dim) *cost += *cost / 10;
  if (cost && (!best.change || *cost < best.cost)) best = {std::move(change), *cost};
}

bool offer_cheapest(Search& search, Cheapest best, Diagnostic& finding) {
  if (!best.change) return false;
  finding.help = fmt::format("{}: {} the plan", best.change->words,
                             best.change->is_single ? "this change alone fixes" : "these changes fix");
  offer(search, std::move(*best.change), finding);
  return true;
}

// Tries to exchange the styles of two rules, and of all rules of one module.
void try_exchanges(Search& search, const std::vector<RuleId>& rules, Cheapest& best) {
  const auto try_those = [&](std::span<const RuleId> those) {
    if (search.trials_left == 0) return;
    if (auto change = with_exchanged_styles(search.in, those)) try_change(search, std::move(*change), best);
  };
  std::map<std::string_view, std::vector<RuleId>> of_module;
  for (size_t i = 0; i < rules.size() && search.trials_left > 0; ++i) {
    const std::string_view key = search.in.plan.rules[rules[i]].key;
    const size_t dot = key.rfind(separator(search.in.graph.framework));
    of_module[key.substr(0, dot == std::string_view::npos ? 0 : dot)].push_back(rules[i]);
    for (size_t j = i + 1; j < rules.size(); ++j) try_those(std::array{rules[i], rules[j]});
  }
  for (const auto& [module, those] : of_module) {
    if (those.size() > 2) try_those(those);
  }
}

// Tries the changes of all rules, those with styles of the plan first because the number of trials is limited, and
// offers the cheapest right one. A change is a copy of the plan, so each is made when it is tried.
bool try_cheapest(Search& search, const std::vector<RuleId>& rules, Diagnostic& finding) {
  Cheapest best;
  for (const bool is_likely : {true, false}) {
    for (const RuleId rule : rules) {
      if (search.trials_left == 0) break;
      for (auto& changes : {without_rule(search.in, rule), other_styles(search.in, rule)}) {
        for (const PlanChange& change : changes) {
          if (change.is_likely == is_likely) try_change(search, change, best);
        }
      }
    }
    if (is_likely) try_exchanges(search, rules, best);
  }
  return offer_cheapest(search, std::move(best), finding);
}

// Tries another style for the rule, and another one for the rule that fails next. Code with global sizes needs this:
// the output of a layer must be gathered, and the input of the next layer sharded again.
bool try_two_styles(Search& search, RuleId rule, Diagnostic& finding) {
  for (const PlanChange& first : similar_styles(search.in, rule)) {
    if (search.trials_left == 0) return false;
    --search.trials_left;
    Diagnostics trial;
    std::ignore = check_plan(search.checker, first.plan, trial, Phase::Operations, search.walk);
    const auto next =
        std::ranges::find_if(trial.list, [](const Diagnostic& other) { return other.fails != FirstFailure::None; });
    const RuleId other = next == trial.list.end() ? kNoRule : rule_at(first.plan, next->span);
    if (other == kNoRule || other == rule) continue;
    Search behind{search.checker,     {search.in.graph, first.plan, search.in.matches, search.in.file},
                  search.walk,        search.sizes,
                  search.trials_left, {}};
    for (PlanChange& second : similar_styles(behind.in, other)) {
      const bool is_right = is_fixed_by(behind, second);
      search.trials_left = behind.trials_left;
      if (!is_right) continue;
      finding.help = fmt::format("{}, and {}: these changes fix the plan", first.words, second.words);
      const bool are_edits = !first.edits.empty() && !second.edits.empty();
      second.edits.insert(second.edits.begin(), first.edits.begin(), first.edits.end());
      if (!are_edits) second.edits.clear();
      offer(search, std::move(second), finding);
      return true;
    }
  }
  return false;
}

// Tries to leave local shards as DTensors: those of one rule, then of all. A local shard cannot be combined with a
// DTensor, and code that counts positions from it counts those of the shard.
bool try_dtensor_outputs(Search& search, Diagnostic& finding) {
  // A DTensor as the result of the model would only hide that it is a shard.
  const bool is_of_result = finding.code == Code::OutputNotReplicated || finding.fails == FirstFailure::Gradient ||
                            finding.code == Code::LossOfPartial;
  if (is_of_result) return false;
  const std::vector<RuleId> rules = local_shard_rules(search.in.plan);
  std::vector<PlanChange> changes;
  for (const RuleId rule : rules) changes.push_back(with_dtensor_outputs(search.in, {&rule, 1}));
  if (rules.size() > 1) changes.push_back(with_dtensor_outputs(search.in, rules));
  return try_edits(search, changes, finding);
}

// Sets the help to sequence lengths with which the unchanged plan is correct on the same mesh.
bool try_lengths(Search& search, Diagnostic& finding) {
  const RuleId id = rule_at(search.in.plan, finding.span);
  const AxisId axis = id == kNoRule ? kNoAxis : search.in.plan.rules[id].axis;
  if (axis == kNoAxis || search.trials_left < kMostLengths) return false;
  search.trials_left -= kMostLengths;
  const std::vector<int64_t> lengths =
      fitting_lengths(search.in.graph, search.in.plan, search.walk, search.in.plan.mesh.axes[axis].size);
  if (lengths.empty()) return false;
  finding.help =
      fmt::format("use sequences of {} (`--sequence`): the plan passes without a change", fmt::join(lengths, " or "));
  return true;
}

// Sets the help to sizes of the rule's axis with which the unchanged plan is correct.
void try_sizes(Search& search, Diagnostic& finding) {
  constexpr int64_t kMostRanks = 1024;
  const RuleId id = rule_at(search.in.plan, finding.span);
  const AxisId axis = id == kNoRule ? kNoAxis : search.in.plan.rules[id].axis;
  if (axis == kNoAxis || search.in.plan.mesh.axes[axis].size > kMostRanks) return;
  const MeshAxis& own = search.in.plan.mesh.axes[axis];
  // Candidates are smaller sizes of the form 2^a 3^b, which covers the usual divisors of model sizes.
  std::vector<int64_t> sizes;
  for (int64_t two = 1; two < own.size; two *= 2) {
    for (int64_t size = two; size < own.size; size *= 3) sizes.push_back(size);
  }
  std::sort(sizes.begin(), sizes.end());
  std::vector<std::string> fitting;
  for (const int64_t size : sizes) {
    PlanChange edit{search.in.plan, {}, {}};
    edit.plan.mesh.axes[axis].size = size;
    if (is_fixed_by(search, edit)) fitting.push_back(fmt::format("{}", size));
  }
  if (fitting.size() > 1)  // size 1 is always correct and not worth a help
    finding.help =
        fmt::format("set `{}` to {}: the plan passes without other changes", own.name, fmt::join(fitting, ", "));
}

// Sets the help to a change that fixes the plan. Smaller changes are tried first: an option, one rule, a new rule, two
// styles, the sequence length, the mesh.
void find_fix(Search& search, Diagnostic& finding) {
  const std::vector<RuleId> rules = rules_of_operands(search.in, finding);
  Cheapest of_owner;
  for (const RuleId rule : rules) {
    for (PlanChange& change : with_rule_of_owner(search.in, rule)) try_change(search, std::move(change), of_owner);
  }
  if (offer_cheapest(search, std::move(of_owner), finding)) return;
  for (const RuleId rule : rules) {
    if (try_edits(search, without_sent_dtype(search.in, rule), finding)) return;
  }
  if (try_dtensor_outputs(search, finding)) return;
  if (try_cheapest(search, rules, finding)) return;
  if (try_edits(search, with_rule(search.in, finding.module), finding)) return;
  if (try_edits(search, with_rule_below(search.in, finding.module), finding)) return;
  if (try_edits(search, with_sum_of_parameter(search.in, finding), finding)) return;
  for (const RuleId rule : rules) {
    if (try_two_styles(search, rule, finding)) return;
  }
  if (try_lengths(search, finding)) return;
  try_sizes(search, finding);
}

// Tries gradient-reducing rules for several modules at once, if the first predicted failure is a gradient.
bool try_sums(Search& search, Diagnostics& diagnostics) {
  const auto first = std::find_if(diagnostics.list.begin(), diagnostics.list.end(),
                                  [](const Diagnostic& finding) { return finding.fails != FirstFailure::None; });
  if (first == diagnostics.list.end() || first->fails != FirstFailure::Gradient) return false;
  const PlanChange edit = with_sums(search.in, diagnostics);
  if (edit.plan.rules.size() < search.in.plan.rules.size() + 2 || !is_fixed_by(search, edit)) return false;
  first->help = fmt::format("{}: these changes fix the plan", edit.words);
  offer(search, edit, *first);
  return true;
}

}  // namespace

void find_fixes(Checker& checker, const TpPlan& plan, const MatchTable& matches, const SourceFile& file,
                const MeshSizes& mesh_sizes, const WalkOptions& walk, Diagnostics& diagnostics) {
  const uint64_t operations = std::max<uint64_t>(checker.graph.operations.nodes.size(), 1);
  Search search{.checker = checker,
                .in = {.graph = checker.graph, .plan = plan, .matches = matches, .file = file},
                .walk = walk,
                .sizes = mesh_sizes,
                .trials_left = std::min(kMostTrials, kMostOperations / operations)};
  size_t asked = 0;
  if (try_sums(search, diagnostics)) return;
  for (Diagnostic& finding : diagnostics.list) {
    if (finding.fails == FirstFailure::None || (checker.is_known && checker.is_known(finding)) ||
        ++asked > kMaxDiagnosed)
      continue;
    find_fix(search, finding);
    add_local_heads_help(checker, plan, matches, walk, finding);
  }
}

}  // namespace tpplan
