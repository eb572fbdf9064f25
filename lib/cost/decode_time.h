// The seconds of a decode step on rank 0: one token of each sequence, with the keys and values of its context in
// memory.
//
// Every weight and every cached key and value is read once, at the bandwidth of the memory. Collectives are waited for.
// Embeddings are looked up, not read. Without a compiler, a kernel takes at least the time of its launch.
#pragma once

#include <optional>
#include <string>

#include "cost/step_time.h"

namespace tpplan {

// The keys and values of served sequences in the memory of rank 0, sharded as the heads of the traced step.
struct KvCache {
  double token_bytes = 0;  // of all layers, for each token of a sequence
  int64_t batch = 0, context = 0;
};

// Returns the cache of `context` tokens of each sequence. `dtype`: of the cache; unset: the model's.
[[nodiscard]] KvCache kv_cache(const StepWork& work, const Run& run, int64_t context, std::optional<DType> dtype);
[[nodiscard]] double cache_bytes(const KvCache& cache);
[[nodiscard]] std::string cache_formula(const KvCache& cache);

struct DecodeSetting {
  const StepWork& work;  // of the exported sequence, without gradients
  std::span<const StepParameter> parameters;
  const ModelGraph& model;
  const Run& run;  // its batch and sequence are those of `work`
  const Mesh& mesh;
  const KvCache& cache;
};

// Returns the figures that a decode step needs and the topology does not have.
[[nodiscard]] std::vector<MissingFigure> missing_decode_figures(const Topology& topology);

// Returns the seconds of a decode step. @pre missing_decode_figures is empty
[[nodiscard]] PricedTime decode_seconds(const DecodeSetting& setting, const Topology& topology,
                                        const AssumptionScale& scale = kAsGiven);

}  // namespace tpplan
