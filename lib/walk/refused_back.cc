#include "walk/refused_back.h"

#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <span>
#include <string_view>

#include "ops/op_names.h"
#include "walk/derivatives.h"
#include "walk/slots.h"

namespace tpplan {
namespace {

constexpr std::string_view kWithoutStrategy =
    " prelu group_norm hardswish hardsigmoid logsigmoid log_sigmoid relu6 hardtanh hardshrink softshrink avg_pool1d "
    "avg_pool2d avg_pool3d max_pool3d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d "
    "_weight_norm cumprod prod cummax cummin ";
// Of several results: the gradient of one that nothing was made of is filled in as a plain tensor.
constexpr std::string_view kParts = " split chunk split_with_sizes unbind ";

bool is_open(std::span<const Placement> claim, size_t axis) {
  return axis < claim.size() && claim[axis].kind == PlacementKind::Partial;
}

// What the derivatives of std and norms fill in place is an open sum, which torch refuses, where what is divided is one
// and what it is divided by is whole: (grad / std).masked_fill_(std == 0, 0); of the second norm (self /
// norm).masked_fill_(norm == 0, 0), of others above the first (grad / norm ** (p - 1)).masked_fill_(norm == 0, 0)
// (torch 2.13, FunctionsManual.cpp).
bool fills_open_sum(const Backward& b, const TapeEntry& entry, std::string_view op) {
  Walk& walk = b.walk;
  const TapeSlot &in = walk.tape_slots[entry.in_begin], &result = walk.tape_slots[entry.out_begin];
  const Grad& grad = b.grads[result.slot];
  const Claim self = layout_of(walk, in.slot).claim, made = layout_of(walk, result.slot).claim;
  const std::span<const Placement> coming = grad.has_claim ? std::span(grad.claim) : std::span(self);
  const double p = op == "std" ? 0 : norm_order(walk, entry);
  for (size_t axis = 0; axis < made.size(); ++axis) {
    const bool is_whole = made[axis].kind == PlacementKind::Replicate;
    if (op == "std" || p == 2) {
      if (is_whole && is_open(op == "std" ? coming : std::span(self), axis)) return true;
    } else if (p > 1 && !std::isinf(p) && !is_shard(made[axis]) && grad.has_claim && is_open(coming, axis)) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string refused_back(const Backward& b, const TapeEntry& entry) {
  const Walk& walk = b.walk;
  if (entry.kind != TapeKind::Op) return {};
  const auto results = std::span(walk.tape_slots).subspan(entry.out_begin, entry.out_end - entry.out_begin);
  size_t used = 0, dtensors = 0;
  for (const TapeSlot& result : results) {
    used += !is_none(b.grads[result.slot]);
    dtensors += walk.table.layouts[result.layout].is_dtensor;
  }
  if (used == 0 || dtensors == 0) return {};
  const std::string_view op = walk.graph.strings[walk.graph.nodes[entry.node].name];
  if (lists_op(kWithoutStrategy, op))
    return fmt::format("torch runs {} of a DTensor, and has no sharding strategy for the way back through it", op);
  if (lists_op(" std norm linalg_vector_norm ", op) && entry.in_end - entry.in_begin == 1 &&
      fills_open_sum(b, entry, op))
    return fmt::format("the derivative of {} writes into a DTensor that is an open sum, which torch refuses", op);
  if (lists_op(kParts, op) && used < results.size())
    return fmt::format(
        "{} of {} parts that {} makes of a DTensor have no gradient: torch puts plain tensors in their place, and "
        "fails "
        "where it joins them with DTensors",
        results.size() - used, results.size(), op);
  return {};
}

}  // namespace tpplan
