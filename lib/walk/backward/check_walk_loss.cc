#include "walk/backward/check_walk_loss.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "resolve/infer/check_loss.h"
#include "walk/report/loss_calls.h"
#include "walk/report/report_cause.h"
#include "walk/state/declared_placements.h"
#include "walk/state/slots.h"

namespace tpplan {
namespace {

AxisMask loss_axes(const Walk& walk) {
  AxisMask mask = 0;
  for (size_t i = 0; i < walk.in.axes.size(); ++i) {
    if (is_loss_axis(*walk.in.loss, walk.in.axes[i])) mask |= axis_bit(i);
  }
  return mask;
}

std::string names_of(const Walk& walk, AxisMask mask) {
  std::vector<std::string> names;
  for (size_t i = 0; i < walk.in.axes.size(); ++i) {
    if ((mask & axis_bit(i)) != 0) names.push_back(fmt::format("`{}`", axis_name(walk.in.plan.mesh, walk.in.axes[i])));
  }
  return fmt::format("{}", fmt::join(names, " and "));
}

struct LossError {
  Code code{};
  std::string reason;
};

// Finds the error of a plain result. Returns false if it is right along every axis on which ranks differ.
bool find_error(const Walk& walk, const ValueLayout& layout, LossError& fault) {
  const AxisMask axes_with_tokens = loss_axes(walk);
  const bool is_loss = layout.dims.empty();
  const AxisMask partial = is_loss ? layout.partial & ~axes_with_tokens : layout.partial;
  if (partial != 0) {
    fault = {Code::LossOfPartial, fmt::format("the loss uses a partial sum that is never reduced over {}: {}",
                                              names_of(walk, partial), layout_text(walk.memory.table, layout))};
    return true;
  }
  for (size_t dim = 0; dim < layout.dims.size(); ++dim) {
    const AxisMask sharding_axes_of_dim = walk.memory.table.maps.maps[layout.dims[dim]].axes;
    if (sharding_axes_of_dim == 0) continue;
    if (dim > 0 && dim + 1 == layout.dims.size()) {
      fault = {Code::LossOverShard,
               fmt::format("every rank along {} computes the loss over only its shard of the classes: {}",
                           names_of(walk, sharding_axes_of_dim), layout_text(walk.memory.table, layout))};
      return true;
    }
    if ((sharding_axes_of_dim & ~axes_with_tokens) == 0) continue;
    fault = {
        Code::LossOverShard,
        fmt::format("every rank along {} computes the loss of only its shard, and the losses are never summed: {}",
                    names_of(walk, sharding_axes_of_dim & ~axes_with_tokens), layout_text(walk.memory.table, layout))};
    return true;
  }
  return false;
}

// Returns true with the error if torch 2.13 cannot compute the cross-entropy of a DTensor (tensor/parallel/loss.py).
bool has_no_strategy(const Walk& walk, const ValueLayout& layout, LossError& fault) {
  const CrossEntropy how = walk.in.plan.loss->cross_entropy;
  if (how == CrossEntropy::Unspecified || !layout.is_dtensor || layout.dims.empty()) return false;  // no dims: the loss
  const std::string text = to_text(std::span<const Placement>(layout.declared));
  if (how == CrossEntropy::Plain) {
    fault = {Code::UnsupportedLogits,
             fmt::format("cross-entropy gets logits that are a DTensor {}, but targets that are a plain tensor", text)};
    return true;
  }
  const Placement classes = shard_of(layout.dims.size() - 1);
  const auto class_shards = std::count(layout.declared.begin(), layout.declared.end(), classes);
  const bool has_partial = partial_mask(layout.declared) != 0;
  if (class_shards == 1 && !has_partial) return false;
  fault = {
      Code::UnsupportedLogits,
      fmt::format("loss_parallel() expects logits that are sharded over their classes, but gets a DTensor {}", text)};
  return true;
}

}  // namespace

ValueId loss_input(const Walk& walk) {
  const auto output = static_cast<size_t>(walk.in.loss->output);
  return output < walk.in.graph.outputs.size() ? walk.in.graph.outputs[output] : kNoId;
}

bool check_walk_loss(Walk& walk, bool is_reporting) {
  const SlotId slot = walk.memory.slot_of[loss_input(walk)];
  const ValueLayout& layout = layout_of(walk, slot);
  LossError fault;
  if (has_no_strategy(walk, layout, fault) || (!layout.is_dtensor && find_error(walk, layout, fault))) {
    if (is_reporting)
      report_cause(walk,
                   {.code = fault.code,
                    .reason = std::move(fault.reason),
                    .op = {},
                    .module = kNone,
                    .rule = walk.memory.slots[slot].origin,
                    .layouts = {}},
                   kind_of(fault.code).fails);
    return false;
  }
  if (walk.in.plan.loss->cross_entropy == CrossEntropy::Parallel && layout.is_dtensor && !layout.dims.empty())
    append_loss_calls(walk, slot, kNone);
  // Along the axes of the loss, the result is sharded, partial or identical on all ranks.
  const AxisMask apart = layout.is_dtensor ? 0 : sharding_axes(walk.memory.table, layout) | layout.partial;
  bool is_right = true;
  for (size_t i = 0; i < walk.in.axes.size(); ++i) {
    const AxisId axis = walk.in.axes[i];
    if (!is_loss_axis(*walk.in.loss, axis)) continue;
    const bool repeated = (apart & axis_bit(i)) == 0;
    // Modules sum the gradients over these axes, whatever happens over data axes.
    is_right = is_right && !repeated && loss_scale_along(*walk.in.loss, axis, Reduction::Sum) == LossScale::Right;
    if (!is_reporting) continue;
    if (repeated)
      report_repeated_loss(walk.in.plan, axis, "every rank has the full result", walk.out.diagnostics);
    else
      report_loss_scale(walk.in.plan, *walk.in.loss, axis, Reduction::Sum, walk.out.diagnostics);
  }
  return is_right;
}

}  // namespace tpplan
