#include "resolve/infer/dim_segments.h"

#include <spdlog/fmt/fmt.h>

#include "model/module_kinds.h"
#include "plan/dialects.h"
#include "sharding/shard_slice.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// Returns the segments of a dim in the model file; for a bias without segments, those of the module's weight. nullptr
// if there are none.
const DimSegments* declared_segments(const ModelGraph& graph, const Module& module, const Param& param, size_t dim) {
  const auto segments_at = [&](const Param& p, size_t d) -> const DimSegments* {
    if (p.extras == kNone) return nullptr;
    for (const DimSegments& segments : graph.extras[p.extras].segments) {
      if (segments.dim == d) return &segments;
    }
    return nullptr;
  };
  if (graph.extras.empty()) return nullptr;
  if (const DimSegments* segments = segments_at(param, dim)) return segments;
  if (param.ndim != 1) return nullptr;
  const std::span<const std::string_view> dims = dims_of(graph, module, param);
  for (const Param& sibling : params_of(graph, module)) {
    const int same = dims.empty() || &sibling == &param ? -1 : find_dim(dims_of(graph, module, sibling), dims[dim]);
    if (same < 0) continue;
    const DimSegments* segments = segments_at(sibling, static_cast<size_t>(same));
    const bool same_size = shape_of(graph, sibling)[static_cast<size_t>(same)] == shape_of(graph, param)[dim];
    if (segments != nullptr && same_size) return segments;
  }
  return nullptr;
}

DimSegments packed(int64_t size, size_t dim, uint8_t count) {
  DimSegments segments{.dim = dim, .sizes = {}};
  for (int64_t i = 0; i < count; ++i) segments.sizes.push_back(length(chunk({0, size}, count, i)));
  return segments;
}

}  // namespace

DimSplit split_dim(const TpPlan& plan, const ModelGraph& graph, const PlanRule& rule, const Module& module,
                   const Param& param, size_t dim) {
  const DimSegments* declared = declared_segments(graph, module, param, dim);
  const uint8_t packing = rule.style == nullptr ? 1 : rule.style->packed_segments;
  const int64_t size = shape_of(graph, param)[dim];
  const auto declared_text = [&] { return shape_text(declared->sizes); };
  if (rule.contiguous || (plan.dialect->follows_framework && packing == 1))
    return {{}, declared == nullptr ? std::string() : fmt::format("its segments are {}", declared_text())};
  if (!plan.dialect->follows_framework) {
    if (declared != nullptr) return {DimSegments{.dim = dim, .sizes = declared->sizes}, {}};
    return packing > 1 ? DimSplit{packed(size, dim, packing), {}} : DimSplit{};
  }
  // transformers packs only weights, so a bias is sharded as one segment.
  if (param.ndim == 1) return {{}, "only the packed weight next to it is sharded by segment"};
  DimSplit split{packed(size, dim, packing), {}};
  if (declared != nullptr && declared->sizes != split.segments->sizes)
    split.across = fmt::format("each of two halves is sharded, but the model has segments {}", declared_text());
  return split;
}

}  // namespace tpplan
