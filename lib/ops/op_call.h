// A call of an operation with the layouts of its arguments, and the result of its rule.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "model/op_graph.h"
#include "ops/value_layout.h"

namespace tpplan {

// Whether the code divides a number of the trace by LocalCounts::ranks: never, as a divided attribute,
// or perhaps, as a multiple of one.
enum class LiteralUse : uint8_t { Global, Local, Either };

// A number in the program, which can differ from rank to rank.
struct PerRankNumber {
  std::vector<int64_t> local;  // by rank
  int64_t traced = 0;
  AxisMask axes = 0;  // axes along which it differs
  LiteralUse use = LiteralUse::Global;
};

// The value of a size expression.
struct SizeNumber {
  std::vector<int64_t> local;  // by rank
  AxisMask axes = 0;
};

// Numbers that the code of the running module divides by the number of ranks of an axis (`local_attributes`).
struct LocalCounts {
  std::vector<int64_t> divided;    // global values of the attributes that are divided
  std::vector<int64_t> undivided;  // values of the module's other attributes
  int64_t ranks = 1;               // of the axis
  AxisMask axis = 0;
  bool operator==(const LocalCounts&) const = default;
};

struct OpCall {
  const OpGraph& graph;
  const GraphNode& node;
  ValueLayoutTable& table;
  std::span<const ValueLayoutId> layouts;  // by value
  std::span<const SizeNumber> numbers;     // values of sizes, by `size_numbers`
  std::span<const uint32_t> size_numbers;  // by size entry
  std::string_view name;                   // of the op, without a trailing `_`
  std::vector<uint32_t> args;              // positional ones, into OpGraph::args
  const LocalCounts* counts = nullptr;     // of the running module; nullptr: it divides none
};

struct Operand {
  ValueId value = kNoId;
  const ValueLayout* layout = nullptr;
  std::span<const int64_t> shape;  // recorded
};

// A segment of a value: result `part` of a split, or argument `part` of a cat, is [begin, end) of dim `dim`.
struct Segment {
  uint32_t part = 0;
  uint32_t dim = 0;
  int64_t begin = 0, end = 0;
};

struct OpResult {
  std::vector<ValueLayout> outs;
  std::string crash;      // why the operation raises an error on some rank
  std::string wrong;      // why its result differs from that of the traced step
  Code code{};            // of the reason
  bool unknown = false;   // no rule
  bool is_write = false;  // in place: args[0] is changed
  std::vector<Segment> segments;
  bool segments_are_arguments = false;
};

// A crash takes precedence over a wrong result, and the first reason of each is kept.
void crash(OpResult& result, Code code, std::string reason);
void mark_wrong(OpResult& result, Code code, std::string reason);

// Makes the result wrong with TP5113: the operation covers a sharded dim.
void report_sharded_dim(const OpCall& call, OpResult& result, size_t dim, DimLayoutId map);

// Returns the argument at a position or with a keyword; nullptr if it is not given. `index`: its index in
// OpGraph::args.
[[nodiscard]] const GraphArg* find_arg(const OpCall& call, size_t position, std::string_view keyword,
                                       uint32_t* index = nullptr);
[[nodiscard]] bool is_number(const GraphArg* arg);
[[nodiscard]] PerRankNumber number_of(const OpCall& call, const GraphArg& arg);
[[nodiscard]] PerRankNumber number_at(const OpCall& call, size_t position, std::string_view keyword, int64_t absent);
// Returns the numbers of a tuple, or the single number.
[[nodiscard]] std::vector<PerRankNumber> numbers_at(const OpCall& call, size_t position, std::string_view keyword);
[[nodiscard]] bool bool_at(const OpCall& call, size_t position, std::string_view keyword, bool absent);

[[nodiscard]] Operand operand_of(const OpCall& call, ValueId value);
// Returns the tensor at an argument; nullopt if it is no tensor.
[[nodiscard]] std::optional<Operand> tensor_at(const OpCall& call, size_t position, std::string_view keyword = {});
// Returns all tensors among the arguments in order, also those in tuples.
[[nodiscard]] std::vector<Operand> tensors_of(const OpCall& call);
[[nodiscard]] std::span<const int64_t> out_shape(const OpCall& call, size_t out = 0);

[[nodiscard]] inline size_t dim_index(int64_t dim, size_t ndim) {
  return static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(ndim) : dim);
}

// Combines the layouts of two operands at one dim: equal layouts are the result, a dim of size 1 takes the other
// layout, different local sizes are a crash, different shards of equal size are wrong. `may_broadcast`: size 1 fits any
// size.
DimLayoutId join(OpCall& call, OpResult& result, DimLayoutId a, DimLayoutId b, bool may_broadcast,
                 std::string_view what);

// Returns the dim layouts of an elementwise result: operands are aligned at their last dims and combined by `join`.
[[nodiscard]] std::vector<DimLayoutId> broadcast_dims(OpCall& call, OpResult& result,
                                                      std::span<const Operand> operands);

// How an operation treats partial values.
enum class Linearity : uint8_t { Linear, Add, Mul, Div, Other };

// Sets `partial` and `zero` of `out` from the operands, and reports partial operands that the operation must not have.
// `number_added`: a number other than 0 is added.
void combine_partial_sums(OpCall& call, OpResult& result, std::span<const Operand> operands, Linearity linearity,
                          bool number_added, ValueLayout& out);

// Checks that no axis both shards a dim and is partial, or shards two dims: the ranks together would not hold the
// value.
void check_layout(OpCall& call, OpResult& result, ValueLayout& out);

// Appends a value with layout `out` to the result.
void append_result(OpResult& result, ValueLayout out);

[[nodiscard]] std::string name_of(const OpCall& call);  // of the op, for messages

// Sizes by rank in short: "512" where they are all alike, else "2 x 1366, 1364", in the order of the ranks.
[[nodiscard]] std::string rank_sizes_text(std::span<const int64_t> sizes);

}  // namespace tpplan
