// The seconds of a step of training or inference on rank 0: terms with their formulas, and an interval.
//
// Every kernel takes max(FLOPs / (peak x efficiency), bytes / (HBM bandwidth x efficiency)). Matmuls reach
// k / (k + ramp) of their efficiency, where k is the contracted size, in whole waves of tiles. Collectives of model
// axes are waited for. Collectives of data axes run beside the kernels of a layer: the layer takes the longer of both,
// and a share of the shorter (`contention`).
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost/recipes.h"
#include "cost/step_work.h"
#include "topology/topology.h"

namespace tpplan {

// Factors on a topology's figures: what measured steps correct (cost/calibrate.h), and what is uncertain.
enum class Assumption : uint8_t { Matmuls, Attention, Memory, Links };
inline constexpr size_t kAssumptions = 4;
using AssumptionScale = std::array<double, kAssumptions>;  // by Assumption; 1 as the topology has it
inline constexpr AssumptionScale kAsGiven = {1, 1, 1, 1};

// Covariances of ln(factor): how far the assumptions may be off, and together.
using AssumptionCovariance = std::array<std::array<double, kAssumptions>, kAssumptions>;

// Returns what is assumed of a topology's figures before any step was measured.
[[nodiscard]] AssumptionCovariance prior_covariance();

struct TimeTerm {
  std::string_view name;
  double seconds = 0;
  std::string formula;
};

struct PricedTime {
  double seconds = 0;
  std::vector<TimeTerm> terms;  // sum to `seconds`
};

// What a price depends on besides the topology.
struct StepSetting {
  const StepWork& work;
  const Run& run;
  const Recipe& recipe;
  const Mesh& mesh;
  std::span<const AxisId> data_axes;
  AxisId fsdp_axis = kNoAxis;
  double updated_elements = 0;  // of the trained parameters that this rank updates
  bool has_backward = true;     // false in inference: no loss, no gradients, no optimizer
};

// A figure that the topology lacks, and the term that needs it.
struct MissingFigure {
  std::string_view key, term;
};

// Returns the figures that the terms of a step need and the topology does not have.
[[nodiscard]] std::vector<MissingFigure> missing_figures(const StepSetting& setting, const Topology& topology);

// Returns the seconds of a step. @pre missing_figures is empty
[[nodiscard]] PricedTime step_seconds(const StepSetting& setting, const Topology& topology,
                                      const AssumptionScale& scale = kAsGiven);

struct StepInterval {
  double low = 0, high = 0;
  Assumption widest = Assumption::Matmuls;  // the assumption that moves the step most
  double widest_change = 0;                 // relative, if that assumption is one standard deviation worse
};

// The seconds of a kernel or a collective in one micro-batch. `again`: of its forward pass, in the backward pass.
struct PassSeconds {
  double forward = 0, backward = 0, again = 0;
};

// A collective of a data axis, which runs beside the kernels of its layer.
struct OverlappedCall {
  CollectiveKind kind{};
  AxisId axis = kNoAxis;
  double bytes = 0;  // payload
  PassSeconds seconds;
  bool is_last_batch_only = false;  // in the last micro-batch of a step
};

// The seconds of one layer, part by part.
struct LayerSeconds {
  std::vector<PassSeconds> kernels, calls;  // of LayerWork::kernels and LayerWork::calls
  PassSeconds copies;                       // of FSDP
  std::vector<OverlappedCall> overlapped;   // in the order of the backward pass
};

// The seconds of a step, part by part. step_seconds sums them up.
struct StepBreakdown {
  std::vector<LayerSeconds> layers;  // of StepWork::layers
  double loss = 0, optimizer = 0;    // of all micro-batches
};

// Returns the seconds of each part of a step. @pre missing_figures is empty
[[nodiscard]] StepBreakdown step_breakdown(const StepSetting& setting, const Topology& topology,
                                           const AssumptionScale& scale = kAsGiven);

// The seconds of a step as a function of the assumptions.
using StepSecondsFunction = std::function<double(const AssumptionScale&)>;

// Returns the interval that holds four of five measured steps: what no assumption explains, and the assumptions.
[[nodiscard]] StepInterval step_interval(const StepSecondsFunction& seconds, const AssumptionScale& scale,
                                         const AssumptionCovariance& covariance);

[[nodiscard]] std::string_view to_text(Assumption assumption);

// A measured step of the topology, after the fit.
struct MeasuredResidual {
  std::string run;  // its file
  double measured = 0, predicted = 0;
};

// The time of a step as it is printed.
struct PrintedStepTime {
  PricedTime step;
  StepInterval interval;
  AssumptionScale scale = kAsGiven;
  std::vector<MeasuredResidual> residuals;
  std::string_view kind = "training";  // or "inference" or "decode"
};

}  // namespace tpplan
