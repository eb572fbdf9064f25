// One operation with what its arguments are on each rank, and what a rule makes of it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "graph/op_graph.h"
#include "ops/spread.h"

namespace tpplan {

// A number in the program: the same as recorded, or a rank's own.
struct RankNumber {
  std::vector<int64_t> local;  // by rank
  int64_t traced = 0;
  AxisMask axes = 0;  // those that made it a rank's own
};

// What a size came to.
struct SizeNumber {
  std::vector<int64_t> local;  // by rank
  AxisMask axes = 0;
};

struct OpCall {
  const OpGraph& graph;
  const GraphNode& node;
  SpreadTable& table;
  std::span<const SpreadId> layouts;       // by value
  std::span<const SizeNumber> numbers;     // what sizes came to, by `size_numbers`
  std::span<const uint32_t> size_numbers;  // by size entry
  std::string_view name;                   // of the op, without a trailing `_`
  std::vector<uint32_t> args;              // positional ones, into OpGraph::args
};

struct Operand {
  ValueId value = kNoId;
  const Spread* layout = nullptr;
  std::span<const int64_t> shape;  // recorded
};

// Where a part of a value stands in the whole: result `part` of a split is [begin, end) of dim `dim`, or argument
// `part` of a cat is.
struct Segment {
  uint32_t part = 0;
  uint32_t dim = 0;
  int64_t begin = 0, end = 0;
};

struct OpResult {
  std::vector<Spread> outs;
  std::string crash;      // the operation raises an error on some rank, with this reason
  std::string wrong;      // it computes something else than the recorded run, for this reason
  Code code{};            // of the reason
  bool unknown = false;   // no rule
  bool is_write = false;  // in place: args[0] gets a new value
  std::vector<Segment> segments;
  bool segments_are_arguments = false;
};

// Crash outranks wrong, and the first of each counts.
void crash(OpResult& result, Code code, std::string reason);
void make_wrong(OpResult& result, Code code, std::string reason);

// That a call goes over a dim of which ranks hold pieces: TP5113.
void say_pieces(const OpCall& call, OpResult& result, size_t dim, MapId map);

// The argument at a position or under a keyword; nullptr where it is not given. Index into OpGraph::args with `index`.
[[nodiscard]] const GraphArg* find_arg(const OpCall& call, size_t position, std::string_view keyword,
                                       uint32_t* index = nullptr);
[[nodiscard]] bool is_number(const GraphArg* arg);
[[nodiscard]] RankNumber number_of(const OpCall& call, const GraphArg& arg);
[[nodiscard]] RankNumber number_at(const OpCall& call, size_t position, std::string_view keyword, int64_t absent);
// The numbers of a tuple, or the one number.
[[nodiscard]] std::vector<RankNumber> numbers_at(const OpCall& call, size_t position, std::string_view keyword);
[[nodiscard]] bool bool_at(const OpCall& call, size_t position, std::string_view keyword, bool absent);

[[nodiscard]] Operand operand_of(const OpCall& call, ValueId value);
// The tensor at an argument; nothing where it is none.
[[nodiscard]] std::optional<Operand> tensor_at(const OpCall& call, size_t position, std::string_view keyword = {});
// All tensors among the arguments, in order, those in tuples too.
[[nodiscard]] std::vector<Operand> tensors_of(const OpCall& call);
[[nodiscard]] std::span<const int64_t> out_shape(const OpCall& call, size_t out = 0);

[[nodiscard]] inline size_t from_end(int64_t dim, size_t ndim) {
  return static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(ndim) : dim);
}

// What meets at one dim of an operation: equal maps stay, a dim of size 1 takes the other's, sizes that differ on a
// rank are a crash, unlike pieces of equal size are wrong. `may_broadcast`: 1 fits to everything.
MapId join(OpCall& call, OpResult& result, MapId a, MapId b, bool may_broadcast, std::string_view what);

// The dims of a result by elements, operands aligned at their last dims; each meets by `join`.
[[nodiscard]] std::vector<MapId> broadcast_dims(OpCall& call, OpResult& result, std::span<const Operand> operands);

// How an operation treats open sums.
enum class Linearity : uint8_t { Linear, Add, Mul, Div, Other };

// Sets partial and zero of `out` from the operands, and says where a sum may not stay open. `number_added`: a number
// other than 0 takes part in a sum.
void combine_sums(OpCall& call, OpResult& result, std::span<const Operand> operands, Linearity linearity,
                  bool number_added, Spread& out);

// An open sum has whole dims, and at most one dim is cut: else the ranks together do not hold the value.
void check_layout(OpCall& call, OpResult& result, Spread& out);

// The result has the layout `out` in each of its values; sizes must be those recorded on a whole value.
void give(OpResult& result, Spread out);

[[nodiscard]] std::string name_of(const OpCall& call);  // of the op, for messages

// Sizes by rank in short: "512" where they are all alike, else "2 x 1366, 1364", in the order of the ranks.
[[nodiscard]] std::string rank_sizes_text(std::span<const int64_t> sizes);

}  // namespace tpplan
