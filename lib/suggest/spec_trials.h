// Trials of other specs for rules of a JAX or Keras plan: what the program of a step then sends, and a rank holds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "diagnostics/diagnostics.h"
#include "judge/judge.h"
#include "plan/read_plan.h"
#include "plan/tp_plan.h"
#include "suggest/plan_changes.h"

namespace tpplan {

// Bytes that a rank sends in a step, as forecast, and the parameter bytes of the largest rank.
struct StepBytes {
  double sent = 0;
  uint64_t held = 0;
};

struct SpecTrials {
  Checker& checker;
  ChangeInput in;
  const MeshSizes& sizes;
  const WalkOptions& walk;
  StepBytes before;   // of the plan
  uint64_t left = 0;  // trials; each costs a check of the plan
};

// @pre the forecast of `result` is of a program (ForecastLimit::Compiled)
[[nodiscard]] SpecTrials make_spec_trials(Checker& checker, const TpPlan& plan, const CheckResult& result,
                                          const SourceFile& file, const MeshSizes& sizes, const WalkOptions& walk);

// The specs that rules have instead: an entry for each dim; of a rule for a dim (PlanRule::of_dim) its entry only.
using NewSpecs = std::map<RuleId, PartitionSpec>;

struct SpecTrial {
  PlanChange change;
  StepBytes bytes;
};

// Checks the plan with other specs. Returns nullopt if it has an error, or no trials are left.
[[nodiscard]] std::optional<SpecTrial> try_specs(SpecTrials& trials, const NewSpecs& specs);

// True if a trial holds at most 1 % more bytes of parameters than the plan.
[[nodiscard]] bool fits_memory(const SpecTrials& trials, const SpecTrial& trial);

// Makes `trial` the best one if it sends less. A trial that fits the memory precedes one that does not.
void keep_better(const SpecTrials& trials, std::optional<SpecTrial> trial, std::optional<SpecTrial>& best);

// Returns the change of a trial, and the bytes of a step before and after it.
[[nodiscard]] std::string trial_text(const SpecTrials& trials, const SpecTrial& trial);

// Sets the help of a diagnostic to the text of a trial, and its edits if the trial fits the memory and the edited file
// is that plan.
void offer_trial(const SpecTrials& trials, const SpecTrial& trial, Diagnostic& finding);

}  // namespace tpplan
