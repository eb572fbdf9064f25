#include "walk/judge_loss.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "infer/check_loss.h"
#include "sharding/dtype.h"
#include "walk/claims.h"
#include "walk/record_call.h"
#include "walk/report_cause.h"
#include "walk/slots.h"

namespace tpplan {
namespace {

AxisMask loss_axes(const Walk& walk) {
  AxisMask mask = 0;
  for (size_t i = 0; i < walk.axes.size(); ++i) {
    if (is_along(*walk.loss, walk.axes[i])) mask |= axis_bit(i);
  }
  return mask;
}

std::string names_of(const Walk& walk, AxisMask mask) {
  std::vector<std::string> names;
  for (size_t i = 0; i < walk.axes.size(); ++i) {
    if ((mask & axis_bit(i)) != 0) names.push_back(fmt::format("`{}`", axis_name(walk.plan.mesh, walk.axes[i])));
  }
  return fmt::format("{}", fmt::join(names, " and "));
}

struct LossFault {
  Code code{};
  std::string reason;
};

// A result that is no DTensor. True where it is right along every axis on which ranks differ.
bool find_fault(const Walk& walk, const Spread& layout, LossFault& fault) {
  const AxisMask own_terms = loss_axes(walk);
  const bool is_loss = layout.dims.empty();
  const AxisMask open = is_loss ? layout.partial & ~own_terms : layout.partial;
  if (open != 0) {
    fault = {Code::TP5115, fmt::format("the loss is made of a term of a sum that nobody closes over {}: {}",
                                       names_of(walk, open), layout_text(walk.table, layout))};
    return true;
  }
  for (size_t dim = 0; dim < layout.dims.size(); ++dim) {
    const AxisMask cut = walk.table.maps.maps[layout.dims[dim]].axes;
    if (cut == 0) continue;
    if (dim > 0 && dim + 1 == layout.dims.size()) {
      fault = {Code::TP5116, fmt::format("every rank along {} takes its own loss over its piece of the classes: {}",
                                         names_of(walk, cut), layout_text(walk.table, layout))};
      return true;
    }
    if ((cut & ~own_terms) == 0) continue;
    fault = {Code::TP5116,
             fmt::format("every rank along {} takes the loss of its own piece, and nobody adds them up: {}",
                         names_of(walk, cut & ~own_terms), layout_text(walk.table, layout))};
    return true;
  }
  return false;
}

// Cross-entropy of a DTensor, as torch 2.13 computes it (tensor/parallel/loss.py).
bool finds_no_way(const Walk& walk, const Spread& layout, LossFault& fault) {
  const CrossEntropy how = walk.plan.loss->cross_entropy;
  if (how == CrossEntropy::Unsaid || !layout.is_dtensor) return false;
  const std::string text = to_text(std::span<const Placement>(layout.claim));
  if (how == CrossEntropy::Plain) {
    fault = {Code::TP5121,
             fmt::format("cross-entropy gets logits that are a DTensor {}, and targets that are a plain tensor", text)};
    return true;
  }
  const Placement classes = shard_of(layout.dims.size() - 1);
  const auto cuts = std::count(layout.claim.begin(), layout.claim.end(), classes);
  const bool open = open_mask(layout.claim) != 0;
  if (cuts == 1 && !open) return false;
  fault = {
      Code::TP5121,
      fmt::format("loss_parallel() takes logits that are cut along their classes, and these are a DTensor {}", text)};
  return true;
}

// Each rank has the largest logit, the sum of exponentials and the target's logit of its own classes.
void record_loss_calls(Walk& walk, SlotId slot) {
  const Spread& layout = layout_of(walk, slot);
  if (walk.plan.loss->cross_entropy != CrossEntropy::Parallel || !layout.is_dtensor) return;
  DType type{};
  const std::string_view own = dtype_of(walk, slot);
  const bool is_half = find_dtype(own, type) && dtypes()[type].bits < 32;
  std::vector<int64_t> shape = local_shape(walk.table, layout, 0);
  shape.back() = 1;
  const auto axis = static_cast<size_t>(
      std::find(layout.claim.begin(), layout.claim.end(), shard_of(shape.size() - 1)) - layout.claim.begin());
  for (const std::string_view dtype : {is_half ? "float32" : own, is_half ? "float32" : own, own})
    record_call(walk, false, CollectiveKind::AllReduce, axis, kNone, shape, dtype, true);
}

}  // namespace

ValueId loss_value(const Walk& walk) {
  const auto output = static_cast<size_t>(walk.loss->output);
  return output < walk.graph.outputs.size() ? walk.graph.outputs[output] : kNoId;
}

bool judge_loss(Walk& walk, bool report_findings) {
  const SlotId slot = walk.slot_of[loss_value(walk)];
  const Spread& layout = layout_of(walk, slot);
  LossFault fault;
  if (finds_no_way(walk, layout, fault) || (!layout.is_dtensor && find_fault(walk, layout, fault))) {
    const std::string_view fails = fault.code == Code::TP5121   ? "forward"
                                   : fault.code == Code::TP5115 ? "output"
                                                                : "gradient";
    if (report_findings)
      report_cause(walk,
                   {.code = fault.code,
                    .reason = std::move(fault.reason),
                    .op = {},
                    .module = kNone,
                    .rule = walk.slots[slot].origin,
                    .layouts = {}},
                   fails);
    return false;
  }
  record_loss_calls(walk, slot);
  // What is left along axes of the loss are pieces and terms, or the same on all ranks.
  const AxisMask apart = layout.is_dtensor ? 0 : cut_axes(walk.table, layout) | layout.partial;
  bool is_right = true;
  for (size_t i = 0; i < walk.axes.size(); ++i) {
    const AxisId axis = walk.axes[i];
    if (!is_along(*walk.loss, axis)) continue;
    const bool repeated = (apart & axis_bit(i)) == 0;
    // Gradients over these axes are summed by the modules, whatever happens over data axes.
    is_right = is_right && !repeated && scale_along(*walk.loss, axis, Reduction::Sum) == LossScale::Right;
    if (!report_findings) continue;
    if (repeated)
      report_repeated(walk.plan, axis, "every rank has the whole result", walk.diagnostics);
    else
      report_scale(walk.plan, *walk.loss, axis, Reduction::Sum, walk.diagnostics);
  }
  return is_right;
}

}  // namespace tpplan
