#include "walk/state/node_args.h"

#include <algorithm>
#include <tuple>

#include "model/size_ops.h"
#include "ops/local_counts.h"

namespace tpplan {
namespace {

// Divides a literal operand that is a divided attribute, as in `x.shape[-1] // self.num_heads`. A 2 is a half, as in
// rotary embeddings, unless the other operand is a local size.
void divide_count(const Walk& walk, const SizeOperand& literal, const SizeNumber& other, SizeNumber& number) {
  const LocalCounts* counts = local_counts(walk);
  if (counts == nullptr || literal.is_entry || literal_use(*counts, literal.number) != LiteralUse::Local) return;
  if (literal.number == 2 && other.axes == 0) return;
  for (int64_t& local : number.local) local /= counts->ranks;
  number.axes |= counts->axis;
}

// Evaluates a size entry. `known`: results by size entry. `local`: uses local sizes of DTensors too.
uint32_t evaluate_size(Walk& walk, std::vector<uint32_t>& known, uint32_t id, bool local) {
  if (known[id] != kNoId) return known[id];
  const SizeEntry& entry = walk.in.graph.sizes[id];
  SizeNumber number{std::vector<int64_t>(walk.in.ranks), 0};
  if (entry.op == SizeOp::Size) {
    const ValueLayout& layout = walk.memory.table.layouts[walk.memory.layout_of[static_cast<size_t>(entry.a.number)]];
    const auto dim = static_cast<size_t>(entry.b.number);
    const bool expected = !local && layout.is_dtensor && dim < layout.declared_shape.size();
    if (!expected) number.axes = walk.memory.table.maps.maps[layout.dims[dim]].axes;
    for (size_t rank = 0; rank < walk.in.ranks; ++rank)
      number.local[rank] = expected ? layout.declared_shape[dim] : local_size(walk.memory.table, layout, dim, rank);
  } else {
    const auto operand = [&](const SizeOperand& o) {
      if (!o.is_entry) return SizeNumber{std::vector<int64_t>(walk.in.ranks, o.number), 0};
      return walk.memory.tables.numbers[evaluate_size(walk, known, static_cast<uint32_t>(o.number), local)];
    };
    SizeNumber a = operand(entry.a), b = operand(entry.b);
    if (entry.op == SizeOp::FloorDiv || entry.op == SizeOp::Mul) divide_count(walk, entry.b, a, b);
    if (entry.op == SizeOp::Mul) divide_count(walk, entry.a, b, a);
    number.axes = a.axes | b.axes;
    if (entry.op == SizeOp::Local) number.local = walk.in.axes.empty() ? a.local : b.local;
    for (size_t rank = 0; rank < walk.in.ranks && entry.op != SizeOp::Local; ++rank) {
      if (!apply_size_op(entry.op, a.local[rank], b.local[rank], number.local[rank])) number.local[rank] = 0;
    }
  }
  const bool as_traced =
      std::all_of(number.local.begin(), number.local.end(), [&](int64_t n) { return n == entry.traced; });
  if (as_traced) number.axes = 0;
  return known[id] = id_of_number(walk.memory.tables, std::move(number));
}

}  // namespace

std::vector<ValueId> input_values(const Walk& walk, const GraphNode& node) {
  std::vector<ValueId> values;
  values.reserve(args_of(walk.in.graph, node).size());
  each_arg(walk.in.graph, node, [&](const GraphArg& arg) {
    if (arg.kind == ArgKind::Value) values.push_back(arg.id);
  });
  return values;
}

const LocalCounts* local_counts(const Walk& walk) {
  if (walk.memory.counts_of_module.empty() || walk.memory.frames.empty()) return nullptr;
  const ModuleId module = walk.memory.frames.back().module;
  const uint32_t at = module == kNone ? kNoId : walk.memory.counts_of_module[module];
  return at == kNoId ? nullptr : &walk.memory.counts[at];
}

OpCall op_call_of(Walk& walk, const GraphNode& node) {
  return {.graph = walk.in.graph,
          .node = node,
          .table = walk.memory.table,
          .layouts = walk.memory.layout_of,
          .numbers = walk.memory.tables.numbers,
          .size_numbers = walk.memory.size_numbers,
          .name = {},
          .args = {}};
}

uint32_t evaluate_size(Walk& walk, uint32_t size) { return evaluate_size(walk, walk.memory.size_numbers, size, false); }

std::vector<uint32_t> local_size_numbers(Walk& walk, const GraphNode& node) {
  std::vector<uint32_t> known;
  each_arg(walk.in.graph, node, [&](const GraphArg& arg) {
    if (arg.kind != ArgKind::Size) return;
    known.resize(walk.in.graph.sizes.size(), kNoId);
    std::ignore = evaluate_size(walk, known, arg.id, true);
  });
  return known;
}

}  // namespace tpplan
