// What `tpplan check --costs` says of a plan in memory. Every figure of a search is one of these.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "judge/judge.h"
#include "model/model_graph.h"
#include "search/choice.h"
#include "search/part_memory.h"
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

// The memory of a step over its time (search/part_memory.h), with the layers in order.
struct StepProfile {
  int64_t begin = 0;
  PartSpan before, loss, after, optimizer;
  std::vector<PartSpan> forward, backward;
};

struct StepFigures {
  bool is_right = false;  // without errors and warnings
  std::string why;        // the first of them otherwise
  double seconds = 0;
  uint64_t memory = 0;  // that the allocator reserves on the fullest rank
  uint64_t wire = 0;
  StepProfile profile;
};

// Returns the appraiser of a model at a local batch and a sequence; without a graph and with `why` if the model cannot
// be resized.
[[nodiscard]] Appraiser make_appraiser(const ModelGraph& model, const CostInputs& inputs, int64_t batch,
                                       int64_t sequence, size_t layers, std::string& why);

// Returns the memory at the peak of a profile.
[[nodiscard]] uint64_t active_of(const StepProfile& profile);

[[nodiscard]] StepFigures appraise(Appraiser& appraiser, const TpPlan& plan);

}  // namespace tpplan
