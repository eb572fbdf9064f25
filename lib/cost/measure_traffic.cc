#include "cost/measure_traffic.h"

#include <map>
#include <tuple>

#include "cost/checked_sum.h"

namespace tpplan {
namespace {

// The key begins with the axis, so that rows of one axis are consecutive and the report can sum them in one pass.
void measure_params(const Manifest& manifest, TrafficMeasure& measure) {
  struct StepSums {
    uint64_t tensors = 0;
    CheckedSum payload;
  };
  const std::vector<uint64_t> tensors = tensors_by_layout(manifest);
  std::map<std::tuple<AxisId, StepPart, CollectiveKind>, StepSums> sums;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const ParamLayout& layout = manifest.layouts[i];
    for (const ParamStep& step : layout.steps) {
      const Collective& collective = step.step.collective;
      if (tensors[i] == 0 || collective.kind == CollectiveKind::LocalSlice) continue;
      StepSums& entry = sums[{collective.axis, step.part, collective.kind}];
      entry.tensors += tensors[i];
      add(entry.payload, payload_bytes(layout, step), tensors[i]);
    }
  }
  for (const auto& [key, entry] : sums) {
    const auto& [axis, part, kind] = key;
    CheckedSum moved;
    add(moved, entry.payload.value, times_in_a_step(part));
    measure.overflow |= entry.payload.overflow || moved.overflow;
    measure.axes.push_back({.axis = axis,
                            .part = part,
                            .kind = kind,
                            .tensors = entry.tensors,
                            .times = times_in_a_step(part),
                            .payload = entry.payload.value,
                            .sent = ring_bytes(kind, moved.value, manifest.mesh.axes[axis].size)});
    measure.overflow |= measure.axes.back().sent == kTooManyBytes;
  }
}

void measure_boundaries(const Manifest& manifest, TrafficMeasure& measure) {
  std::map<std::tuple<bool, CollectiveKind, AxisId>, uint64_t> counts;
  for (const ManifestModule& module : manifest.modules) {
    const ModuleLayout& layout = layout_of(manifest, module);
    for (const auto* values : {&layout.inputs, &layout.outputs}) {
      for (const ManifestValue& value : *values) {
        for (const Step& step : value.forward) ++counts[{false, step.collective.kind, step.collective.axis}];
        for (const Step& step : value.backward) ++counts[{true, step.collective.kind, step.collective.axis}];
      }
    }
  }
  for (const auto& [key, count] : counts)
    measure.boundaries.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), count});
}

}  // namespace

TrafficMeasure measure_traffic(const Manifest& manifest) {
  TrafficMeasure measure;
  measure_params(manifest, measure);
  measure_boundaries(manifest, measure);
  return measure;
}

}  // namespace tpplan
