#include "walk/refused_back.h"

#include <spdlog/fmt/fmt.h>

#include <span>
#include <string_view>

#include "walk/slots.h"

namespace tpplan {
namespace {

constexpr std::string_view kWithoutStrategy =
    " prelu group_norm hardswish hardsigmoid logsigmoid log_sigmoid relu6 hardtanh avg_pool1d avg_pool2d cumprod prod ";
// Of several results: the gradient of one that nothing was made of is filled in as a plain tensor.
constexpr std::string_view kParts = " split chunk split_with_sizes unbind ";

// (grad / std).masked_fill_(std == 0, 0) and (self / norm).masked_fill_(norm == 0, 0): what is written into is an open
// sum where one is divided by a whole value (torch 2.13, FunctionsManual.cpp).
constexpr std::string_view kFilled = " std norm linalg_vector_norm ";

bool lists_op(std::string_view list, std::string_view name) {
  return list.find(fmt::format(" {} ", name)) != std::string_view::npos;
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
  if (lists_op(kFilled, op) && entry.in_end - entry.in_begin == 1) {
    const Grad& grad = b.grads[results[0].slot];
    const Spread &from = layout_of(walk, walk.tape_slots[entry.in_begin].slot), &to = layout_of(walk, results[0].slot);
    const std::span<const Placement> divided =
        op == "std" && grad.has_claim ? std::span(grad.claim) : std::span(from.claim);
    for (size_t axis = 0; axis < divided.size() && axis < to.claim.size(); ++axis) {
      if (divided[axis].kind == PlacementKind::Partial && to.claim[axis].kind == PlacementKind::Replicate)
        return fmt::format("the derivative of {} writes into a DTensor that is an open sum, which torch refuses", op);
    }
  }
  if (lists_op(kParts, op) && used < results.size())
    return fmt::format(
        "{} of {} parts that {} makes of a DTensor have no gradient: torch puts plain tensors in their place, and "
        "fails "
        "where it joins them with DTensors",
        results.size() - used, results.size(), op);
  return {};
}

}  // namespace tpplan
