#include "ops/op_call.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace tpplan {

void crash(OpResult& result, Code code, std::string reason) {
  if (!result.crash.empty()) return;
  result.crash = std::move(reason);
  result.code = code;
}

void mark_wrong(OpResult& result, Code code, std::string reason) {
  if (!result.wrong.empty() || !result.crash.empty()) return;
  result.wrong = std::move(reason);
  result.code = code;
}

void report_sharded_dim(const OpCall& call, OpResult& result, size_t dim, DimLayoutId map) {
  mark_wrong(result, Code::ReductionOverShard,
             fmt::format("{} over sharded dim {} uses only the local shard: {}", name_of(call), dim,
                         dim_layout_text(call.table.maps, map)));
}

const GraphArg* find_arg(const OpCall& call, size_t position, std::string_view keyword, uint32_t* index) {
  uint32_t at = kNoId;
  if (position < call.args.size()) at = call.args[position];
  for (uint32_t k = call.node.keywords_begin; at == kNoId && k < call.node.keywords_end; ++k) {
    if (keyword_name(call.graph, k) == keyword) at = call.graph.keywords[k].arg;
  }
  if (index != nullptr) *index = at;
  return at == kNoId ? nullptr : &call.graph.args[at];
}

bool is_number(const GraphArg* arg) {
  return arg != nullptr && (arg->kind == ArgKind::Int || arg->kind == ArgKind::Size || arg->kind == ArgKind::Bool ||
                            arg->kind == ArgKind::Host || arg->kind == ArgKind::Number);
}

PerRankNumber number_of(const OpCall& call, const GraphArg& arg) {
  if (arg.kind == ArgKind::Size) {
    const SizeNumber& number = call.numbers[call.size_numbers[arg.id]];
    return {number.local, call.graph.sizes[arg.id].traced, number.axes};
  }
  const int64_t number =
      arg.kind == ArgKind::Int || arg.kind == ArgKind::Bool ? arg.integer : static_cast<int64_t>(arg.number);
  return {std::vector<int64_t>(call.table.maps.ranks, number), number, 0};
}

PerRankNumber number_at(const OpCall& call, size_t position, std::string_view keyword, int64_t absent) {
  const GraphArg* arg = find_arg(call, position, keyword);
  if (is_number(arg)) return number_of(call, *arg);
  return {std::vector<int64_t>(call.table.maps.ranks, absent), absent, 0};
}

std::vector<PerRankNumber> numbers_at(const OpCall& call, size_t position, std::string_view keyword) {
  uint32_t index = 0;
  const GraphArg* arg = find_arg(call, position, keyword, &index);
  std::vector<PerRankNumber> numbers;
  if (arg == nullptr) return numbers;
  if (is_number(arg)) return {number_of(call, *arg)};
  if (arg->kind != ArgKind::Tuple) return numbers;
  for (uint32_t i = index + 1; i < arg->end; i = call.graph.args[i].end)
    numbers.push_back(number_of(call, call.graph.args[i]));
  return numbers;
}

bool bool_at(const OpCall& call, size_t position, std::string_view keyword, bool absent) {
  const GraphArg* arg = find_arg(call, position, keyword);
  return is_number(arg) ? arg->integer != 0 : absent;
}

Operand operand_of(const OpCall& call, ValueId value) {
  return {value, &call.table.layouts[call.layouts[value]], shape_of(call.graph, value)};
}

std::optional<Operand> tensor_at(const OpCall& call, size_t position, std::string_view keyword) {
  const GraphArg* arg = find_arg(call, position, keyword);
  if (arg == nullptr || arg->kind != ArgKind::Value) return std::nullopt;
  return operand_of(call, arg->id);
}

std::vector<Operand> tensors_of(const OpCall& call) {
  std::vector<Operand> operands;
  const auto add = [&](uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; i < end; ++i) {
      if (call.graph.args[i].kind == ArgKind::Value) operands.push_back(operand_of(call, call.graph.args[i].id));
    }
  };
  add(call.node.args_begin, call.node.args_end);
  for (uint32_t k = call.node.keywords_begin; k < call.node.keywords_end; ++k)
    add(call.graph.keywords[k].arg, call.graph.args[call.graph.keywords[k].arg].end);
  return operands;
}

std::span<const int64_t> out_shape(const OpCall& call, size_t out) {
  return shape_of(call.graph, call.graph.outs[call.node.out_begin + out]);
}

// Torch broadcasts by local sizes: it silently repeats a shard of one element along a longer dim, even if the global
// dim is longer than 1. That runs, but is wrong. Only a dim whose global size is 1 is broadcast correctly.
DimLayoutId join(OpCall& call, OpResult& result, DimLayoutId a, DimLayoutId b, bool may_broadcast,
                 std::string_view what) {
  if (a == b) return a;
  const DimLayout one = call.table.maps.maps[a], other = call.table.maps.maps[b];
  std::vector<int64_t> sizes(call.table.maps.ranks);
  bool equal = true;
  for (size_t rank = 0; rank < sizes.size(); ++rank) {
    const int64_t x = one.local[rank], y = other.local[rank];
    equal = equal && x == y;
    sizes[rank] = x == 1 ? y : x;
    if (x != y && !(may_broadcast && (x == 1 || y == 1))) {
      crash(result, Code::OperandSizesDiffer,
            fmt::format("the local size of {} is {} in one operand and {} in the other (global {})", what,
                        rank_sizes_text(one.local), rank_sizes_text(other.local),
                        one.size == other.size ? fmt::format("size {}", one.size)
                                               : fmt::format("sizes {} and {}", one.size, other.size)));
      sizes[rank] = std::max(x, y);
    }
  }
  const auto is_one = [](const DimLayout& map) {
    return map.size == 1 && std::all_of(map.local.begin(), map.local.end(), [](int64_t n) { return n == 1; });
  };
  if (may_broadcast && is_one(one)) return b;
  if (may_broadcast && is_one(other)) return a;
  if (equal && one.kind == DimLayoutKind::Any) return b;
  if (equal && other.kind == DimLayoutKind::Any) return a;
  mark_wrong(result, Code::ShardsMismatch,
             equal ? fmt::format("the operands have different shards of {}: {} and {}", what,
                                 dim_layout_text(call.table.maps, a), dim_layout_text(call.table.maps, b))
                   : fmt::format("{} has local size 1 on some rank and is broadcast: {} and {}", what,
                                 dim_layout_text(call.table.maps, a), dim_layout_text(call.table.maps, b)));
  return unknown_dim(call.table.maps, std::max(one.size, other.size), std::move(sizes), one.axes | other.axes);
}

std::vector<DimLayoutId> broadcast_dims(OpCall& call, OpResult& result, std::span<const Operand> operands) {
  size_t ndim = 0;
  for (const Operand& operand : operands) ndim = std::max(ndim, operand.layout->dims.size());
  std::vector<DimLayoutId> dims;
  for (size_t dim = 0; dim < ndim; ++dim) {
    bool first = true;
    DimLayoutId joined = 0;
    for (const Operand& operand : operands) {
      const size_t missing = ndim - operand.layout->dims.size();
      if (dim < missing) continue;
      const DimLayoutId map = operand.layout->dims[dim - missing];
      joined = first ? map : join(call, result, joined, map, true, fmt::format("dim {}", dim));
      first = false;
    }
    dims.push_back(joined);
  }
  return dims;
}

// A value is partial if each rank holds one addend of it. f of a partial value is partial if f(a + b) = f(a) + f(b). A
// product or quotient is so in one operand if the others are complete. A complete value that is added on each rank is
// counted by all of them. A constant 0 fits both.
void combine_partial_sums(OpCall& call, OpResult& result, std::span<const Operand> operands, Linearity linearity,
                          bool number_added, ValueLayout& out) {
  // By axis: partial in some operand, partial in two, complete in a nonzero one.
  AxisMask partial = 0, partial_twice = 0, complete = 0;
  size_t zero = 0, counted = 0;
  for (const Operand& operand : operands) {
    partial_twice |= partial & operand.layout->partial;
    partial |= operand.layout->partial;
    zero += operand.layout->partial == 0 && operand.layout->zero;
    if (operand.layout->partial == 0 && operand.layout->zero) continue;
    complete |= ~operand.layout->partial;
    counted += operand.layout->partial == 0;
  }
  out.zero = zero > 0 && (linearity == Linearity::Mul
                              ? true
                              : linearity != Linearity::Other && partial == 0 && counted == 0 && !number_added);
  if (linearity == Linearity::Div) out.zero = !operands.empty() && operands[0].layout->zero;
  out.partial = partial;
  if (partial == 0) return;
  const auto report_error = [&](Code code, std::string reason) { mark_wrong(result, code, std::move(reason)); };
  switch (linearity) {
    case Linearity::Linear:
      return;
    case Linearity::Add:
      if ((complete & partial) != 0 || number_added)
        report_error(Code::ReplicatedValueReduced,
                     fmt::format("{} adds a full value to a pending partial sum: the reduction counts it {} times",
                                 name_of(call), call.table.maps.ranks));
      return;
    case Linearity::Mul:
      if (partial_twice != 0)
        report_error(
            Code::PartialUsedAsFull,
            fmt::format("{} multiplies two pending partial sums: the local products do not add up to the full product",
                        name_of(call)));
      return;
    case Linearity::Div:
      if (!tensor_at(call, 0) ||  // a number divided by it
          std::any_of(operands.begin() + 1, operands.end(), [](const Operand& o) { return o.layout->partial != 0; }))
        report_error(Code::PartialUsedAsFull,
                     fmt::format("{} divides by a pending partial sum as if it were the full sum", name_of(call)));
      return;
    case Linearity::Other:
      report_error(
          Code::PartialUsedAsFull,
          fmt::format("{} of a pending partial sum is not linear: the local results do not add up to the full result",
                      name_of(call)));
      return;
  }
}

// If one axis shards two dims, rank i has shard i of both, and no rank has (i, j). If one axis shards a partial value,
// no sum over the axis is right, because the other ranks hold other shards.
void check_layout(OpCall& call, OpResult& result, ValueLayout& out) {
  AxisMask sharded = 0, sharded_twice = 0;
  for (const DimLayoutId id : out.dims) {
    const DimLayout& map = call.table.maps.maps[id];
    if (map.kind != DimLayoutKind::Sharded || map.is_complete) continue;
    sharded_twice |= sharded & map.axes;
    sharded |= map.axes;
  }
  if (sharded_twice != 0)
    mark_wrong(
        result, Code::ShardsMismatch,
        fmt::format(
            "{} combines two dims that are sharded over the same axis: each rank has only its tile of the diagonal",
            name_of(call)));
  if ((sharded & out.partial) != 0)
    mark_wrong(result, Code::PartialUsedAsFull,
               fmt::format("{} combines a shard with a pending partial sum over the same axis: partial values of the "
                           "other ranks are missing",
                           name_of(call)));
}

void append_result(OpResult& result, ValueLayout out) { result.outs.push_back(std::move(out)); }

std::string rank_sizes_text(std::span<const int64_t> sizes) {
  constexpr size_t kMost = 8;  // maximum number of printed groups
  std::vector<std::string> intervals;
  for (size_t i = 0; i < sizes.size();) {
    size_t end = i;
    while (end < sizes.size() && sizes[end] == sizes[i]) ++end;
    if (i == 0 && end == sizes.size()) return fmt::format("{}", sizes[0]);
    if (intervals.size() == kMost) {
      intervals.push_back("...");
      break;
    }
    intervals.push_back(end - i > 1 ? fmt::format("{} x {}", end - i, sizes[i]) : fmt::format("{}", sizes[i]));
    i = end;
  }
  return fmt::format("{}", fmt::join(intervals, ", "));
}

std::string name_of(const OpCall& call) { return std::string(call.graph.strings[call.node.name]); }

}  // namespace tpplan
