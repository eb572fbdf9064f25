#include "measure/measure_memory.h"

#include <algorithm>
#include <map>

#include "measure/checked_sum.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// Optimizer bytes of each listed rank; of the fullest alone where ranks are not listed.
// As sum_totals does it: even layouts once for all ranks, uneven ones rank by rank. Rank 0 has the first piece of
// everything, so that it stands for the fullest.
std::vector<CheckedSum> optimizer_per_rank(const Manifest& manifest, const std::vector<uint64_t>& uses,
                                           uint64_t per_element, bool listed) {
  const std::vector<int64_t> first(manifest.mesh.axes.size(), 0);
  CheckedSum even;
  std::vector<CheckedSum> ranks(listed ? manifest.totals.bytes_per_rank.size() : 1);
  for (size_t i = 0; i < uses.size(); ++i) {
    const ParamLayout& layout = manifest.layouts[i];
    if (uses[i] == 0 || per_element == 0 || !is_trained(layout.dtype)) continue;
    CheckedSum state;
    add(state, uses[i], per_element);
    even.overflow |= state.overflow;
    if (layout.local_shapes.size() == 1) {
      add(even, elements_of(layout.local_shapes[0]), state.value);
      continue;
    }
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const std::vector<int64_t> coordinate =
          rank == 0 ? first : coordinate_of(manifest.mesh, static_cast<int64_t>(rank));
      add(ranks[rank], elements_of(local_shape_of(layout, manifest.mesh, coordinate)), state.value);
    }
  }
  for (CheckedSum& rank : ranks) {
    add(rank, even.value, 1);
    rank.overflow |= even.overflow;
  }
  return ranks;
}

}  // namespace

// Ranks with the same bytes are one group: even plans on a million ranks have a single one.
MemoryMeasure measure_memory(const Manifest& manifest, const Optimizer& optimizer_row) {
  MemoryMeasure measure{.optimizer = &optimizer_row};
  const ManifestTotals& totals = manifest.totals;
  const uint64_t per_element = measure.optimizer->bytes_per_element;
  const std::vector<uint64_t> uses = tensors_by_layout(manifest);
  CheckedSum state, buffers;
  for (size_t i = 0; i < uses.size(); ++i) {
    const ParamLayout& layout = manifest.layouts[i];
    CheckedSum whole;
    add(whole, elements_of(layout.shape), is_trained(layout.dtype) ? per_element : 0);
    add(state, whole.value, uses[i]);
    state.overflow |= whole.overflow;
  }
  for (const ManifestParam& buffer : manifest.buffers) add(buffers, whole_bytes(layout_of(manifest, buffer)), 1);
  measure.ranks_listed = totals.bytes_per_rank.size() == static_cast<size_t>(device_count(manifest.mesh));
  const std::vector<CheckedSum> optimizer = optimizer_per_rank(manifest, uses, per_element, measure.ranks_listed);
  measure.optimizer_bytes = state.value;
  measure.buffer_bytes = buffers.value;
  measure.overflow |= state.overflow || buffers.overflow;
  const int64_t ranks = device_count(manifest.mesh);
  const uint64_t divisor = static_cast<uint64_t>(ranks);
  measure.ideal_optimizer = state.value / divisor + (state.value % divisor != 0);
  CheckedSum ideal;
  for (const uint64_t part : {totals.ideal_bytes_per_rank, measure.ideal_optimizer, buffers.value}) add(ideal, part, 1);
  measure.ideal = ideal.value;

  std::map<std::pair<uint64_t, uint64_t>, size_t> known;
  for (size_t rank = 0; rank < optimizer.size(); ++rank) {
    const uint64_t parameters = measure.ranks_listed ? totals.bytes_per_rank[rank] : totals.max_bytes_per_rank;
    measure.overflow |= optimizer[rank].overflow;
    const auto [group, is_new] = known.emplace(std::pair(parameters, optimizer[rank].value), measure.ranks.size());
    if (is_new) {
      CheckedSum total;
      for (const uint64_t part : {parameters, optimizer[rank].value, buffers.value}) add(total, part, 1);
      measure.overflow |= total.overflow;
      measure.ranks.push_back({.ranks = {},
                               .rank_count = 0,
                               .parameters = parameters,
                               .replicated = totals.replicated_bytes_per_rank,
                               .optimizer = optimizer[rank].value,
                               .buffers = buffers.value,
                               .total = total.value});
    }
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
  const uint64_t whole = std::min(memory.parameters, memory.replicated);
  return {{{"parameters cut", memory.parameters - whole},
           {"parameters kept whole", whole},
           {"optimizer state", memory.optimizer},
           {"buffers", memory.buffers}}};
}

bool has_part(const MemoryMeasure& measure, size_t part) {
  return std::any_of(measure.ranks.begin(), measure.ranks.end(),
                     [part](const RankMemory& memory) { return memory_parts(memory)[part].bytes > 0; });
}

}  // namespace tpplan
