// Fits two efficiencies of a topology, those of matmuls and of attention, to measured steps.
#pragma once

#include <span>
#include <vector>

#include "cost/step_time.h"

namespace tpplan {

// A measured step, and what it takes under given assumptions.
struct TimedEntry {
  StepSecondsFunction predicted;
  double measured = 0;
};

struct Calibration {
  AssumptionScale scale = kAsGiven;
  AssumptionCovariance covariance = prior_covariance();  // what the measured steps leave uncertain
  std::vector<double> residuals;                         // ln(measured / predicted) of each entry, after the fit
  bool is_contradictory = false;                         // no efficiencies explain all entries
};

// Returns the factors on both efficiencies that minimize, in units of their spreads, the squared residuals of the
// entries and the squared distance from the topology's own figures: entries are noisy, so a few of them do not replace
// the preset (Gauss-Newton in logarithms). Entries with the same share of attention determine one efficiency; the other
// stays close to the topology's.
[[nodiscard]] Calibration calibrate(std::span<const TimedEntry> entries);

}  // namespace tpplan
