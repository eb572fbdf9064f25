#include "walk/backward/rejected_backward.h"

#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <span>
#include <string_view>

#include "ops/op_row.h"
#include "walk/backward/derivatives.h"
#include "walk/state/slots.h"
#include "walk/state/tape.h"

namespace tpplan {
namespace {

// Operations with several results: torch fills in the gradient of an unused result as a plain tensor.
constexpr auto kParts = op_set({OpId::Split, OpId::Chunk, OpId::SplitWithSizes, OpId::Unbind});
constexpr auto kDivides = op_set({OpId::Std, OpId::Norm, OpId::LinalgVectorNorm});

bool is_partial(std::span<const Placement> declared, size_t axis) {
  return axis < declared.size() && declared[axis].kind == PlacementKind::Partial;
}

// True if the derivative of std or of a norm fills a partial tensor in place, which torch rejects. That happens if the
// dividend is partial and the divisor is replicated:
//
// - std: (grad / std).masked_fill_(std == 0, 0)
// - norm of order 2: (self / norm).masked_fill_(norm == 0, 0)
// - norm of another order above 1: (grad / norm ** (p - 1)).masked_fill_(norm == 0, 0) (torch 2.13,
// FunctionsManual.cpp)
bool completes_partial(const Backward& b, const TapeEntry& entry, OpId op) {
  Walk& walk = b.walk;
  const TapeSlot &in = walk.memory.tape_slots[entry.in_begin], &result = walk.memory.tape_slots[entry.out_begin];
  const Grad& grad = b.grads[result.slot];
  const DeclaredPlacements self = layout_of(walk, in.slot).declared, made = layout_of(walk, result.slot).declared;
  const std::span<const Placement> coming = grad.has_declared ? std::span(grad.declared) : std::span(self);
  const double p = op == OpId::Std ? 0 : norm_order(walk, entry);
  for (size_t axis = 0; axis < made.size(); ++axis) {
    const bool is_fully_replicated = made[axis].kind == PlacementKind::Replicate;
    if (op == OpId::Std || p == 2) {
      if (is_fully_replicated && is_partial(op == OpId::Std ? coming : std::span(self), axis)) return true;
    } else if (p > 1 && !std::isinf(p) && !is_shard(made[axis]) && grad.has_declared && is_partial(coming, axis)) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string rejected_backward(const Backward& b, const TapeEntry& entry) {
  const Walk& walk = b.walk;
  if (entry.kind != TapeKind::Op) return {};
  const auto results = std::span(walk.memory.tape_slots).subspan(entry.out_begin, entry.out_end - entry.out_begin);
  size_t used = 0, dtensors = 0;
  for (const TapeSlot& result : results) {
    used += !has_no_grad(b.grads[result.slot]);
    dtensors += walk.memory.table.layouts[result.layout].is_dtensor;
  }
  if (used == 0 || dtensors == 0) return {};
  const OpId op = op_of(walk, entry);
  const std::string_view name = walk.in.graph.strings[walk.in.graph.nodes[entry.node].name];
  if (op_row(op).dtensor == DtensorSupport::ForwardOnly)
    return fmt::format("torch runs {} of a DTensor forward, but has no sharding strategy for its backward pass", name);
  if (kDivides[index_of(op)] && entry.in_end - entry.in_begin == 1 && completes_partial(b, entry, op))
    return fmt::format("the backward of {} writes into a DTensor that is Partial, which torch rejects", name);
  if (kParts[index_of(op)] && used < results.size())
    return fmt::format(
        "{} of {} outputs of {} on a DTensor have no gradient: torch fills in plain tensors, and fails when it joins "
        "them with DTensors",
        results.size() - used, results.size(), name);
  return {};
}

}  // namespace tpplan
