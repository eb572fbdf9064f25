#include "cost/measure_memory.h"

#include <algorithm>
#include <map>

#include "cost/checked_sum.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

struct TrainingSums {
  CheckedSum gradients, masters, optimizer;
};

void add_bytes(CheckedSum& sum, uint64_t bytes, uint64_t times) {
  sum.overflow |= bytes == kTooManyBytes;
  add(sum, bytes, times);
}

// Adds `times` tensors of `elements` each.
void add_tensors(TrainingSums& sums, const Recipe& recipe, DType dtype, uint64_t elements, uint64_t times) {
  const TrainedBytes bytes = trained_bytes(recipe, dtype, elements);
  add_bytes(sums.gradients, bytes.gradient, times);
  add_bytes(sums.masters, bytes.master, times);
  CheckedSum states;
  add_bytes(states, bytes.state, static_cast<uint64_t>(recipe.states));
  sums.optimizer.overflow |= states.overflow;
  add(sums.optimizer, states.value, times);
}

void add_sums(TrainingSums& sums, const TrainingSums& more) {
  for (CheckedSum TrainingSums::*part : {&TrainingSums::gradients, &TrainingSums::masters, &TrainingSums::optimizer}) {
    add((sums.*part), (more.*part).value, 1);
    (sums.*part).overflow |= (more.*part).overflow;
  }
}

TrainingBytes bytes_of(const TrainingSums& sums, bool& overflow) {
  overflow |= sums.gradients.overflow || sums.masters.overflow || sums.optimizer.overflow;
  return {sums.gradients.value, sums.masters.value, sums.optimizer.value};
}

// Returns the training bytes of each listed rank; only those of the fullest if ranks are not listed. Even layouts are
// added once for all ranks, uneven ones rank by rank (as in sum_totals). Rank 0 has the first shard of everything, so
// it is the fullest.
std::vector<TrainingSums> training_per_rank(const Manifest& manifest, const std::vector<uint64_t>& uses,
                                            const Recipe& recipe, bool listed) {
  const std::vector<int64_t> first(manifest.mesh.axes.size(), 0);
  TrainingSums even;
  std::vector<TrainingSums> ranks(listed ? manifest.totals.bytes_per_rank.size() : 1);
  for (size_t i = 0; i < uses.size(); ++i) {
    const ParamLayout& layout = manifest.layouts[i];
    if (uses[i] == 0 || !is_trainable(layout.dtype)) continue;
    if (layout.local_shapes.size() == 1) {
      add_tensors(even, recipe, layout.dtype, elements_of(layout.local_shapes[0]), uses[i]);
      continue;
    }
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const std::vector<int64_t> coordinate =
          rank == 0 ? first : coordinate_of(manifest.mesh, static_cast<int64_t>(rank));
      add_tensors(ranks[rank], recipe, layout.dtype, elements_of(local_shape_of(layout, manifest.mesh, coordinate)),
                  uses[i]);
    }
  }
  for (TrainingSums& rank : ranks) add_sums(rank, even);
  return ranks;
}

uint64_t share_of(uint64_t bytes, uint64_t ranks) { return bytes / ranks + (bytes % ranks != 0); }

uint64_t total_of(uint64_t parameters, const TrainingBytes& training, uint64_t buffers, bool& overflow) {
  CheckedSum total;
  for (const uint64_t part : {parameters, training.gradients, training.masters, training.optimizer, buffers})
    add(total, part, 1);
  overflow |= total.overflow;
  return total.value;
}

}  // namespace

// Ranks with the same bytes are one group: an even plan on a million ranks has a single group.
MemoryMeasure measure_memory(const Manifest& manifest, const Recipe& recipe) {
  MemoryMeasure measure{.recipe = &recipe};
  const ManifestTotals& totals = manifest.totals;
  const std::vector<uint64_t> uses = tensors_by_layout(manifest);
  TrainingSums global;
  for (size_t i = 0; i < uses.size(); ++i)
    add_tensors(global, recipe, manifest.layouts[i].dtype, elements_of(manifest.layouts[i].shape), uses[i]);
  measure.total_training = bytes_of(global, measure.overflow);
  CheckedSum buffers;
  for (const ManifestParam& buffer : manifest.buffers) add(buffers, global_bytes(layout_of(manifest, buffer)), 1);
  measure.buffer_bytes = buffers.value;
  measure.overflow |= buffers.overflow;
  measure.ranks_listed = totals.bytes_per_rank.size() == static_cast<size_t>(device_count(manifest.mesh));
  const int64_t ranks = device_count(manifest.mesh);
  const auto divisor = static_cast<uint64_t>(model_shard_count(manifest));
  measure.ideal_training = {share_of(measure.total_training.gradients, divisor),
                            share_of(measure.total_training.masters, divisor),
                            share_of(measure.total_training.optimizer, divisor)};
  measure.ideal = total_of(totals.ideal_bytes_per_rank, measure.ideal_training, buffers.value, measure.overflow);

  const std::vector<TrainingSums> sums = training_per_rank(manifest, uses, recipe, measure.ranks_listed);
  std::map<std::pair<uint64_t, TrainingBytes>, size_t> known;
  for (size_t rank = 0; rank < sums.size(); ++rank) {
    const uint64_t parameters = measure.ranks_listed ? totals.bytes_per_rank[rank] : totals.max_bytes_per_rank;
    const TrainingBytes training = bytes_of(sums[rank], measure.overflow);
    const auto [group, is_new] = known.emplace(std::pair(parameters, training), measure.ranks.size());
    if (is_new)
      measure.ranks.push_back({.ranks = {},
                               .rank_count = 0,
                               .parameters = parameters,
                               .replicated = totals.replicated_bytes_per_rank,
                               .training = training,
                               .buffers = buffers.value,
                               .total = total_of(parameters, training, buffers.value, measure.overflow)});
    RankMemory& memory = measure.ranks[group->second];
    const int64_t begin = static_cast<int64_t>(rank), end = measure.ranks_listed ? begin + 1 : ranks;
    if (!memory.ranks.empty() && memory.ranks.back().end == begin)
      memory.ranks.back().end = end;
    else
      memory.ranks.push_back({begin, end});
    memory.rank_count += end - begin;
  }
  measure.fullest = *std::max_element(measure.ranks.begin(), measure.ranks.end(),
                                      [](const RankMemory& a, const RankMemory& b) { return a.total < b.total; });
  return measure;
}

std::array<MemoryPart, kMemoryParts> memory_parts(const RankMemory& memory) {
  const uint64_t global = std::min(memory.parameters, memory.replicated);
  return {{{"sharded parameters", memory.parameters - global},
           {"replicated parameters", global},
           {"gradients", memory.training.gradients},
           {"master weights", memory.training.masters},
           {"optimizer state", memory.training.optimizer},
           {"buffers", memory.buffers}}};
}

bool has_part(const MemoryMeasure& measure, size_t part) {
  return std::any_of(measure.ranks.begin(), measure.ranks.end(),
                     [part](const RankMemory& memory) { return memory_parts(memory)[part].bytes > 0; });
}

}  // namespace tpplan
