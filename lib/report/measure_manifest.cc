#include "report/measure_manifest.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

constexpr Optimizer kOptimizers[] = {
    {"none", 0, "no optimizer state, as for inference"},
    {"sgd", 4, "SGD with momentum: one float32 momentum for each element"},
    {"adamw", 8, "AdamW: two float32 moments for each element"},
};

struct Sum {
  uint64_t value = 0;
  bool overflow = false;
};

void add(Sum& sum, uint64_t a, uint64_t times) {
  uint64_t product = 0;
  sum.overflow |= __builtin_mul_overflow(a, times, &product) || __builtin_add_overflow(sum.value, product, &sum.value);
}

bool is_trained(DType dtype) {
  const std::string_view name = dtypes()[dtype].name;
  return name.starts_with("float") || name.starts_with("bfloat") || name.starts_with("complex");
}

// ---- memory ----

std::vector<uint64_t> count_uses(const Manifest& manifest, const std::vector<bool>& counted) {
  std::vector<uint64_t> uses(manifest.layouts.size());
  for (size_t i = 0; i < manifest.parameters.size(); ++i) uses[manifest.parameters[i].layout] += counted[i];
  return uses;
}

// Optimizer bytes of each listed rank; of the fullest alone where ranks are not listed.
std::vector<Sum> optimizer_per_rank(const Manifest& manifest, const std::vector<uint64_t>& uses, uint64_t per_element,
                                    bool listed) {
  const std::vector<int64_t> first(manifest.mesh.axes.size(), 0);
  Sum even;
  std::vector<Sum> ranks(listed ? manifest.totals.bytes_per_rank.size() : 1);
  for (size_t i = 0; i < uses.size(); ++i) {
    const ParamLayout& layout = manifest.layouts[i];
    if (uses[i] == 0 || per_element == 0 || !is_trained(layout.dtype)) continue;
    Sum state;
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
  for (Sum& rank : ranks) {
    add(rank, even.value, 1);
    rank.overflow |= even.overflow;
  }
  return ranks;
}

void measure_ranks(const Manifest& manifest, ManifestMeasure& measure) {
  const ManifestTotals& totals = manifest.totals;
  const uint64_t per_element = measure.optimizer->bytes_per_element;
  const std::vector<uint64_t> uses = count_uses(manifest, measure.counted);
  Sum state, buffers;
  for (size_t i = 0; i < uses.size(); ++i) {
    const ParamLayout& layout = manifest.layouts[i];
    Sum whole;
    add(whole, elements_of(layout.shape), is_trained(layout.dtype) ? per_element : 0);
    add(state, whole.value, uses[i]);
    state.overflow |= whole.overflow;
  }
  for (const ManifestParam& buffer : manifest.buffers) add(buffers, whole_bytes(layout_of(manifest, buffer)), 1);
  measure.ranks_listed = totals.bytes_per_rank.size() == static_cast<size_t>(device_count(manifest.mesh));
  const std::vector<Sum> optimizer = optimizer_per_rank(manifest, uses, per_element, measure.ranks_listed);
  measure.optimizer_bytes = state.value;
  measure.buffer_bytes = buffers.value;
  measure.overflow |= state.overflow || buffers.overflow;
  const int64_t ranks = device_count(manifest.mesh);
  const uint64_t divisor = static_cast<uint64_t>(ranks);
  measure.ideal_optimizer = state.value / divisor + (state.value % divisor != 0);
  Sum ideal;
  for (const uint64_t part : {totals.ideal_bytes_per_rank, measure.ideal_optimizer, buffers.value}) add(ideal, part, 1);
  measure.ideal = ideal.value;

  std::map<std::pair<uint64_t, uint64_t>, size_t> known;
  for (size_t rank = 0; rank < optimizer.size(); ++rank) {
    const uint64_t parameters = measure.ranks_listed ? totals.bytes_per_rank[rank] : totals.max_bytes_per_rank;
    measure.overflow |= optimizer[rank].overflow;
    const auto [group, is_new] = known.emplace(std::pair(parameters, optimizer[rank].value), measure.ranks.size());
    if (is_new) {
      Sum total;
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
}

// ---- bytes moved ----

// Bytes of the pieces that stand along `axis` through rank 0: what a gather over the axis gives.
Sum bytes_along(const ParamLayout& layout, const Mesh& mesh, AxisId axis) {
  Sum bytes;
  const int64_t ways = mesh.axes[axis].size;
  if (layout.local_shapes.size() == 1 || !uses_axis(layout.sharding.spec, axis)) {
    add(bytes, byte_size(layout.dtype, elements_of(layout.local_shapes[0])), static_cast<uint64_t>(ways));
    return bytes;
  }
  std::vector<int64_t> coordinate(mesh.axes.size(), 0);
  for (int64_t i = 0; i < ways; ++i) {
    coordinate[axis] = i;
    add(bytes, byte_size(layout.dtype, elements_of(local_shape_of(layout, mesh, coordinate))), 1);
  }
  return bytes;
}

struct TrafficSums {
  uint64_t tensors = 0;
  Sum payload;
};

void measure_traffic(const Manifest& manifest, ManifestMeasure& measure) {
  const Mesh& mesh = manifest.mesh;
  const std::vector<uint64_t> uses = count_uses(manifest, measure.counted);
  std::map<std::pair<AxisId, TrafficKind>, TrafficSums> sums;
  const auto count = [&](AxisId axis, TrafficKind kind, uint64_t tensors, const Sum& bytes) {
    TrafficSums& entry = sums[{axis, kind}];
    entry.tensors += tensors;
    add(entry.payload, bytes.value, tensors);
    entry.payload.overflow |= bytes.overflow;
  };
  for (size_t i = 0; i < uses.size(); ++i) {
    if (uses[i] == 0) continue;
    const ParamLayout& layout = manifest.layouts[i];
    const Sum local{byte_size(layout.dtype, elements_of(layout.local_shapes[0])), false};
    for (const GradReduce& reduce : layout.grad_reduce) {
      const bool scatter = reduce.kind == GradReduceKind::ReduceScatter;
      if (scatter)
        count(reduce.axis, TrafficKind::GradReduceScatter, uses[i], bytes_along(layout, mesh, reduce.axis));
      else
        count(reduce.axis, TrafficKind::GradAllReduce, uses[i], local);
    }
    const bool gathered = manifest.fsdp && uses_axis(layout.sharding.spec, manifest.fsdp->axis);
    if (gathered)
      count(manifest.fsdp->axis, TrafficKind::FsdpGather, uses[i], bytes_along(layout, mesh, manifest.fsdp->axis));
  }
  for (const auto& [key, entry] : sums) {
    AxisTraffic traffic{.axis = key.first,
                        .kind = key.second,
                        .tensors = entry.tensors,
                        .times = key.second == TrafficKind::FsdpGather ? 2u : 1u,
                        .payload = entry.payload.value};
    const auto ways = static_cast<unsigned __int128>(mesh.axes[traffic.axis].size);
    const uint64_t passes = traffic.kind == TrafficKind::GradAllReduce ? 2 : traffic.times;
    const unsigned __int128 sent = traffic.payload * (ways - 1) * passes / ways;
    traffic.sent = static_cast<uint64_t>(sent);
    measure.overflow |= entry.payload.overflow || sent > ~uint64_t{0};
    measure.traffic.push_back(traffic);
  }
}

void measure_boundaries(const Manifest& manifest, ManifestMeasure& measure) {
  std::map<std::tuple<bool, CollectiveKind, AxisId>, uint64_t> counts;
  for (const ManifestModule& module : manifest.modules) {
    const ModuleLayout& layout = layout_of(manifest, module);
    for (const auto* values : {&layout.inputs, &layout.outputs}) {
      for (const ManifestValue& value : *values) {
        for (const Collective& step : value.forward) ++counts[{false, step.kind, step.axis}];
        for (const Collective& step : value.backward) ++counts[{true, step.kind, step.axis}];
      }
    }
  }
  for (const auto& [key, count] : counts)
    measure.boundaries.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), count});
}

}  // namespace

std::span<const Optimizer> optimizers() { return kOptimizers; }

const Optimizer* find_optimizer(std::string_view name) {
  const auto found = std::find_if(std::begin(kOptimizers), std::end(kOptimizers),
                                  [&](const Optimizer& row) { return row.name == name; });
  return found == std::end(kOptimizers) ? nullptr : &*found;
}

uint64_t whole_bytes(const ParamLayout& layout) { return bytes_of(layout.dtype, layout.shape); }

ManifestMeasure measure_manifest(const Manifest& manifest, const Optimizer& optimizer) {
  ManifestMeasure measure;
  measure.optimizer = &optimizer;
  measure.counted = counted_params(manifest);
  measure_ranks(manifest, measure);
  measure_traffic(manifest, measure);
  measure_boundaries(manifest, measure);
  return measure;
}

}  // namespace tpplan
