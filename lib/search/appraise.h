// What `tpplan check --costs` says of a plan in memory. Every figure of a search is one of these.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "cost/memory_log.h"
#include "cost/step_time.h"
#include "judge/counted_step.h"
#include "judge/judge.h"
#include "manifest/manifest.h"
#include "model/model_graph.h"
#include "search/choice.h"
#include "search/step_profile.h"
#include "suggest/price.h"

namespace tpplan {

// A model at the sizes of a step, and what the checks of its plans share. Not thread-safe.
struct Appraiser {
  const CostInputs* inputs = nullptr;
  std::unique_ptr<ModelGraph> graph;
  std::unique_ptr<Checker> checker;
  std::map<std::string, Topology> topologies;  // by mesh
  size_t layers = 0;
};

// A plan that was judged. Its figures follow for every mesh with the same axes and the same size of model axes, on
// which FSDP shards the same parameters.
struct JudgedStep {
  std::string why;  // the first error or warning, or why it has no figures; empty: it has
  Run run;
  CountedStep step;
  MemoryLog log;        // empty without a backward pass
  uint64_t memory = 0;  // then
  uint64_t wire = 0;
};

struct StepFigures {
  bool is_right = false;  // without errors and warnings
  std::string why;        // the first of them otherwise
  double seconds = 0;
  uint64_t active = 0, memory = 0;  // alive at the peak on the fullest rank; what the allocator reserves then
  uint64_t wire = 0;                // on the mesh of the judged plan
  StepProfile profile;
};

// Returns the appraiser of a model at a local batch and a sequence; without a graph and with `why` if the model cannot
// be resized.
[[nodiscard]] Appraiser make_appraiser(const ModelGraph& model, const CostInputs& inputs, int64_t batch,
                                       int64_t sequence, size_t layers, std::string& why);

// A checked plan, before its `remat`: that changes no placement.
struct CheckedChoice {
  std::string why;  // the first error or warning, or why its step is unknown; empty: neither
  CheckResult result;
  Manifest manifest;
};
[[nodiscard]] CheckedChoice check_choice(Appraiser& appraiser, const TpPlan& plan);

// Returns the judged step of a plan. `checked` can be that of the same plan without `remat`.
// @post `checked` names the modules of the plan's `remat`
[[nodiscard]] JudgedStep judge_step(const Appraiser& appraiser, const TpPlan& plan, CheckedChoice& checked);

// Returns the figures of a judged plan on a mesh.
[[nodiscard]] StepFigures figures_on(Appraiser& appraiser, const JudgedStep& judged, const Mesh& mesh);

// Returns the seconds of kernels and of collectives that they wait for: less than those of the step on any mesh. The
// profile is empty.
[[nodiscard]] StepFigures least_figures(Appraiser& appraiser, const JudgedStep& judged, const Mesh& mesh);

// Returns the figures of a plan on its mesh.
[[nodiscard]] StepFigures appraise(Appraiser& appraiser, const TpPlan& plan);

}  // namespace tpplan
