#include "cost/calibrate.h"

#include <algorithm>
#include <cmath>

namespace tpplan {
namespace {

constexpr size_t kFitted = 2;  // Assumption::Matmuls and Assumption::Attention
static_assert(static_cast<size_t>(Assumption::Matmuls) == 0 && static_cast<size_t>(Assumption::Attention) == 1);

constexpr double kEntryDeviation = 0.05;   // of ln(measured / predicted): two published steps differ by as much
constexpr double kContradiction = 0.3;     // difference of two residuals that is no noise
constexpr double kStep = 0.02;             // of ln(factor), for slopes
constexpr double kMostChange = 2;          // of ln(factor): an efficiency changes at most by this
constexpr double kSmallestChange = 1e-10;  // of ln(factor), ends the iteration
constexpr int kMostIterations = 50;

using FittedPair = std::array<double, kFitted>;

AssumptionScale scale_of(const FittedPair& logs) {
  AssumptionScale scale = kAsGiven;
  for (size_t i = 0; i < kFitted; ++i) scale[i] = std::exp(logs[i]);
  return scale;
}

double entry_residual(const TimedEntry& entry, const FittedPair& logs) {
  return std::log(entry.measured / entry.predicted(scale_of(logs)));
}

// The normal equations of one iteration: `matrix` x change = `right`.
struct NormalEquations {
  double a = 0, b = 0, d = 0;  // [[a, b], [b, d]]
  FittedPair right{};
};

// Returns the change of ln(seconds) by ln(factor) for both efficiencies.
FittedPair entry_slopes(const TimedEntry& entry, const FittedPair& logs) {
  FittedPair slope{};
  const double here = entry_residual(entry, logs);
  for (size_t i = 0; i < kFitted; ++i) {
    FittedPair moved = logs;
    moved[i] += kStep;
    slope[i] = (here - entry_residual(entry, moved)) / kStep;
  }
  return slope;
}

NormalEquations normal_equations(std::span<const TimedEntry> entries, const FittedPair& logs) {
  const AssumptionCovariance prior = prior_covariance();
  NormalEquations n{.a = 1 / prior[0][0], .b = 0, .d = 1 / prior[1][1], .right = {}};
  n.right = {-logs[0] * n.a, -logs[1] * n.d};
  constexpr double kWeight = 1 / (kEntryDeviation * kEntryDeviation);
  for (const TimedEntry& entry : entries) {
    const FittedPair slope = entry_slopes(entry, logs);
    const double error = entry_residual(entry, logs);
    n.a += kWeight * slope[0] * slope[0];
    n.b += kWeight * slope[0] * slope[1];
    n.d += kWeight * slope[1] * slope[1];
    for (size_t i = 0; i < kFitted; ++i) n.right[i] += kWeight * slope[i] * error;
  }
  return n;
}

double determinant(const NormalEquations& n) { return n.a * n.d - n.b * n.b; }  // above 0, because of the prior

}  // namespace

Calibration calibrate(std::span<const TimedEntry> entries) {
  Calibration found;
  if (entries.empty()) return found;
  FittedPair logs{};
  for (int iteration = 0; iteration < kMostIterations; ++iteration) {
    const NormalEquations n = normal_equations(entries, logs);
    const double det = determinant(n);
    const FittedPair change = {(n.d * n.right[0] - n.b * n.right[1]) / det,
                               (n.a * n.right[1] - n.b * n.right[0]) / det};
    for (size_t i = 0; i < kFitted; ++i) logs[i] = std::clamp(logs[i] + change[i], -kMostChange, kMostChange);
    if (std::abs(change[0]) + std::abs(change[1]) < kSmallestChange) break;
  }
  const NormalEquations n = normal_equations(entries, logs);
  const double det = determinant(n);
  found.scale = scale_of(logs);
  found.covariance[0][0] = n.d / det;
  found.covariance[0][1] = found.covariance[1][0] = -n.b / det;
  found.covariance[1][1] = n.a / det;
  for (const TimedEntry& entry : entries) found.residuals.push_back(entry_residual(entry, logs));
  const auto [least, most] = std::minmax_element(found.residuals.begin(), found.residuals.end());
  found.is_contradictory = *most - *least > kContradiction;
  return found;
}

}  // namespace tpplan
