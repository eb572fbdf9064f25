#include "exec/device/strided_plan.h"

#include <algorithm>

namespace tpplan {
namespace {

struct Dim {
  uint64_t count, from_stride, to_stride;
};

// Returns the dims of `how` without those of count 1, contiguous dims merged.
std::vector<Dim> merged_dims(const StridedCopy& how, uint64_t& run_bytes) {
  std::vector<Dim> dims;  // innermost first
  run_bytes = how.run_bytes;
  for (size_t i = how.counts.size(); i-- > 0;) {
    const Dim dim = {how.counts[i], how.from_strides[i], how.to_strides[i]};
    if (dim.count == 1) continue;
    if (dims.empty() && dim.from_stride == run_bytes && dim.to_stride == run_bytes) {
      run_bytes *= dim.count;
    } else if (!dims.empty() && dim.from_stride == dims.back().count * dims.back().from_stride &&
               dim.to_stride == dims.back().count * dims.back().to_stride) {
      dims.back().count *= dim.count;
    } else {
      dims.push_back(dim);
    }
  }
  std::ranges::reverse(dims);
  return dims;
}

// Adds the copy as plans of at most kPlanDims dims, because a plan is an argument of a kernel. Each index of the
// outermost other dims becomes a separate plan.
void add_plans(std::vector<StridedPlan>& plans, const StridedPlan& plan, const std::vector<Dim>& dims, size_t first) {
  if (dims.size() - first > kPlanDims) {
    for (uint64_t i = 0; i < dims[first].count; ++i) {
      StridedPlan part = plan;
      part.from_offset += i * dims[first].from_stride;
      part.to_offset += i * dims[first].to_stride;
      add_plans(plans, part, dims, first + 1);
    }
    return;
  }
  StridedPlan& last = plans.emplace_back(plan);
  last.units = last.run_units;
  for (size_t i = first; i < dims.size(); ++i, ++last.dims) {
    last.counts[last.dims] = dims[i].count;
    last.from_strides[last.dims] = dims[i].from_stride;
    last.to_strides[last.dims] = dims[i].to_stride;
    last.units *= dims[i].count;
  }
}

}  // namespace

std::vector<StridedPlan> plan_strided_copy(uint64_t to, uint64_t from, const StridedCopy& how) {
  std::vector<StridedPlan> plans;
  if (how.run_bytes == 0 || std::ranges::count(how.counts, 0u) != 0) return plans;
  uint64_t run_bytes = 0;
  const std::vector<Dim> dims = merged_dims(how, run_bytes);
  uint64_t together = to | from | run_bytes | 16;  // its lowest bit is the largest unit that divides all
  for (const Dim& dim : dims) together |= dim.from_stride | dim.to_stride;
  StridedPlan plan;
  plan.unit = together & -together;
  plan.run_units = run_bytes / plan.unit;
  add_plans(plans, plan, dims, 0);
  return plans;
}

}  // namespace tpplan
