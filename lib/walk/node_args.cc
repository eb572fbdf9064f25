#include "walk/node_args.h"

#include <algorithm>
#include <tuple>

#include "graph/size_ops.h"

namespace tpplan {
namespace {

// With what is known already in `known`, by size entry. `local`: of DTensors too what the rank holds.
uint32_t size_number(Walk& walk, std::vector<uint32_t>& known, uint32_t id, bool local) {
  if (known[id] != kNoId) return known[id];
  const SizeEntry& entry = walk.graph.sizes[id];
  SizeNumber number{std::vector<int64_t>(walk.ranks), 0};
  if (entry.op == SizeOp::Size) {
    const Spread& layout = walk.table.layouts[walk.layout_of[static_cast<size_t>(entry.a.number)]];
    const auto dim = static_cast<size_t>(entry.b.number);
    const bool claimed = !local && layout.is_dtensor && dim < layout.claimed_shape.size();
    if (!claimed) number.axes = walk.table.maps.maps[layout.dims[dim]].axes;
    for (size_t rank = 0; rank < walk.ranks; ++rank)
      number.local[rank] = claimed ? layout.claimed_shape[dim] : local_size(walk.table, layout, dim, rank);
  } else {
    const auto operand = [&](const SizeOperand& o) {
      if (!o.is_entry) return SizeNumber{std::vector<int64_t>(walk.ranks, o.number), 0};
      return walk.tables.numbers[size_number(walk, known, static_cast<uint32_t>(o.number), local)];
    };
    const SizeNumber a = operand(entry.a), b = operand(entry.b);
    number.axes = a.axes | b.axes;
    if (entry.op == SizeOp::Local) number.local = walk.axes.empty() ? a.local : b.local;
    for (size_t rank = 0; rank < walk.ranks && entry.op != SizeOp::Local; ++rank) {
      if (!apply_size_op(entry.op, a.local[rank], b.local[rank], number.local[rank])) number.local[rank] = 0;
    }
  }
  const bool as_recorded =
      std::all_of(number.local.begin(), number.local.end(), [&](int64_t n) { return n == entry.traced; });
  if (as_recorded) number.axes = 0;
  return known[id] = number_id(walk.tables, std::move(number));
}

}  // namespace

std::vector<ValueId> values_in(const Walk& walk, const GraphNode& node) {
  std::vector<ValueId> values;
  values.reserve(args_of(walk.graph, node).size());
  each_arg(walk.graph, node, [&](const GraphArg& arg) {
    if (arg.kind == ArgKind::Value) values.push_back(arg.id);
  });
  return values;
}

OpCall call_of(Walk& walk, const GraphNode& node) {
  return {.graph = walk.graph,
          .node = node,
          .table = walk.table,
          .layouts = walk.layout_of,
          .numbers = walk.tables.numbers,
          .size_numbers = walk.size_numbers,
          .name = {},
          .args = {}};
}

uint32_t size_number(Walk& walk, uint32_t size) { return size_number(walk, walk.size_numbers, size, false); }

std::vector<uint32_t> local_size_numbers(Walk& walk, const GraphNode& node) {
  std::vector<uint32_t> known;
  each_arg(walk.graph, node, [&](const GraphArg& arg) {
    if (arg.kind != ArgKind::Size) return;
    known.resize(walk.graph.sizes.size(), kNoId);
    std::ignore = size_number(walk, known, arg.id, true);
  });
  return known;
}

}  // namespace tpplan
