// A rule of a JAX or Keras plan whose change saves much of what a step sends.
#pragma once

#include <string>

#include "suggest/spec_trials.h"

namespace tpplan {

// Tries to shard other dims by the rules whose parameters cost the most bytes, one rule at a time. Reports the change
// that saves the most, if it saves at least 25 % of the bytes of a step and a rank holds at most 1 % more parameters
// (TP5132). Returns the change as text if it saves at least 10 %, but less than that; empty otherwise.
[[nodiscard]] std::string check_program_rules(SpecTrials& trials, const CheckResult& result, Diagnostics& diagnostics);

}  // namespace tpplan
