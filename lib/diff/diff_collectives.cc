#include "diff/diff_collectives.h"

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// Has the axis name, because the index of an axis may differ between two manifests.
using CollectiveKey = std::tuple<CommPhase, CollectiveKind, std::string_view>;

struct StepSum {
  uint64_t count = 0, bytes = 0;  // bytes saturate
};

void add(StepSum& sum, uint64_t count, uint64_t bytes) {
  sum.count += count;
  uint64_t product = 0;
  if (__builtin_mul_overflow(count, bytes, &product) || __builtin_add_overflow(sum.bytes, product, &sum.bytes))
    sum.bytes = kTooManyBytes;
}

using StepSums = std::map<CollectiveKey, StepSum>;

void add_values(const Manifest& m, StepSums& sums) {
  std::vector<uint64_t> modules(m.module_layouts.size());
  for (const ManifestModule& module : m.modules) ++modules[module.layout];
  const auto add_steps = [&](CommPhase phase, const std::vector<Step>& steps, uint64_t times) {
    for (const Step& step : steps) {
      const Collective& c = step.collective;
      if (c.kind != CollectiveKind::LocalSlice && times > 0)
        add(sums[{phase, c.kind, m.mesh.axes[c.axis].name}], times, 0);
    }
  };
  for (size_t i = 0; i < modules.size(); ++i) {
    for (const auto* values : {&m.module_layouts[i].inputs, &m.module_layouts[i].outputs}) {
      for (const ManifestValue& value : *values) {
        add_steps(CommPhase::Forward, value.forward, modules[i]);
        add_steps(CommPhase::Backward, value.backward, modules[i]);
      }
    }
  }
}

void add_params(const Manifest& m, StepSums& sums) {
  const std::vector<uint64_t> tensors = tensors_by_layout(m);
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (const ParamStep& step : m.layouts[i].steps) {
      const Collective& c = step.step.collective;
      const CommPhase phase = step.part == StepPart::Gather ? CommPhase::Gather : CommPhase::Gradient;
      if (c.kind == CollectiveKind::LocalSlice || tensors[i] == 0) continue;
      add(sums[{phase, c.kind, m.mesh.axes[c.axis].name}], tensors[i], payload_bytes(m.layouts[i], step));
    }
  }
}

}  // namespace

std::vector<CollectiveCount> diff_collectives(const Manifest& old_manifest, const Manifest& new_manifest) {
  StepSums before, after;
  for (const auto& [manifest, sums] : {std::pair{&old_manifest, &before}, std::pair{&new_manifest, &after}}) {
    add_values(*manifest, *sums);
    add_params(*manifest, *sums);
  }
  std::map<CollectiveKey, std::pair<StepSum, StepSum>> both;
  for (const auto& [key, sum] : before) both[key].first = sum;
  for (const auto& [key, sum] : after) both[key].second = sum;
  std::vector<CollectiveCount> counts;
  for (const auto& [key, sums] : both) {
    const auto& [phase, kind, axis] = key;
    counts.push_back({.phase = phase,
                      .kind = kind,
                      .axis = std::string(axis),
                      .before = sums.first.count,
                      .after = sums.second.count,
                      .bytes_before = sums.first.bytes,
                      .bytes_after = sums.second.bytes});
  }
  return counts;
}

}  // namespace tpplan
