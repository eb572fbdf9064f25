// The traced operations of a model in order: the field `"graph"` that `python -m tpplan.export` writes to a model file.
// Everything is in flat vectors; an id is an index. Each value has one definition, before its uses. Module boundaries
// nest. A value has a different id on each side of a boundary, so a style can give each id its own layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/op_id.h"

namespace tpplan {

using ValueId = uint32_t;
using StringId = uint32_t;  // into OpGraph::strings
inline constexpr uint32_t kNoId = 0xffffffffu;

// Limits of a model file: entries of one kind in a graph, and the index of an argument.
inline constexpr size_t kMaxGraphEntries = size_t{8} << 20;  // a model of a thousand layers has some ten thousand
inline constexpr int32_t kMaxArgPosition = 1 << 30;

// The operation that computed a size. The derivation is stored because the size differs on a rank with a local shard.
// Local: a size of a shard_map trace, globally (a) and on each rank of the traced mesh (b).
enum class SizeOp : uint8_t {
  Size,
  Add,
  Sub,
  Mul,
  FloorDiv,
  Mod,
  Neg,
  Min,
  Max,
  Pow,
  Abs,
  TrueDiv,
  Ceil,
  Round,
  Int,
  Local
};

struct SizeOperand {
  bool is_entry = false;  // true: `number` is an index into OpGraph::sizes, below the entry that uses it
  int64_t number = 0;     // the literal, or the index
};

struct SizeEntry {
  SizeOp op = SizeOp::Size;
  SizeOperand a, b;    // Size: a is the value, b the dim
  int64_t traced = 0;  // its value in the trace
  uint32_t offset = 0;
};

struct GraphShape {
  uint32_t begin = 0;  // into OpGraph::shape_sizes
  uint32_t ndim = 0;
};

struct GraphValue {
  uint32_t shape = 0;  // into OpGraph::shapes
  StringId dtype = 0;
  bool requires_grad = false;
};

enum class LeafKind : uint8_t { Input, Param, Buffer, Constant };

struct GraphLeaf {
  ValueId value = 0;
  LeafKind kind = LeafKind::Input;
  StringId path = 0;  // path of the parameter or buffer; name of the input
  uint32_t offset = 0;
};

enum class ArgKind : uint8_t {
  None,
  Bool,
  Int,
  Number,
  Text,
  Value,
  Size,
  Tuple,
  Slice,
  Ellipsis,
  TypeName,
  Float,
  Host,
  Other
};

// One argument. Args are in preorder: the elements of a tuple or slice follow it and end before index `end`.
struct GraphArg {
  ArgKind kind = ArgKind::None;
  uint32_t end = 0;
  uint32_t id = 0;  // Value: the value; Size: into OpGraph::sizes; Text, TypeName, Float, Other: into OpGraph::texts
  int64_t integer = 0;  // Bool, Int
  double number = 0;    // Int, Number, Host, Float
};

// A value that crosses a module boundary as an argument or result, or nested in one. `position` is the index of that
// argument, or of the result's element.
struct Crossing {
  int32_t position = -1;     // -1: a keyword argument, or the result itself
  std::string_view key{};    // the keyword
  uint32_t depth = 0;        // number of steps to the value: 1 for the argument itself, 0 for the result itself
  int32_t parameter = -1;    // the keyword's position if it is passed positionally; -1 if unknown
  ValueId from = 0, to = 0;  // ids of the same value before and after the boundary
};

enum class NodeKind : uint8_t { Op, Enter, Exit };

struct GraphKeyword {
  StringId name = 0;
  uint32_t arg = 0;  // into OpGraph::args
};

struct GraphNode {
  NodeKind kind = NodeKind::Op;
  bool no_grad = false;                           // Enter: autograd is off at entry
  OpId op = OpId::Unknown;                        // Op: of its plain name
  bool in_place = false;                          // Op: its name has a trailing `_`
  StringId name = 0;                              // the op, or the module's path
  uint32_t positional = 0;                        // Enter: number of positional arguments of the call
  uint32_t args_begin = 0, args_end = 0;          // into args
  uint32_t keywords_begin = 0, keywords_end = 0;  // into keywords
  uint32_t out_begin = 0, out_end = 0;            // into outs
  uint32_t crossing_begin = 0, crossing_end = 0;  // into crossings
  uint32_t signature = 0;                         // see number_signatures.h
  uint32_t offset = 0;                            // position in the model file
};

enum class GuardOp : uint8_t { Lt, Le, Gt, Ge, Eq, Ne };

// A comparison of sizes that decided the control flow of the traced execution; `held` is its result.
struct GraphGuard {
  GuardOp op = GuardOp::Eq;
  SizeOperand a, b;
  bool held = true;
  uint32_t offset = 0;
};

struct OpGraph {
  bool is_there = false;
  std::string_view mode, attention, experts, dtype;
  int64_t batch = 0, sequence = 0;
  std::vector<std::string_view> strings;
  std::vector<GraphShape> shapes;
  std::vector<int64_t> shape_sizes;
  std::vector<SizeEntry> sizes;
  std::vector<GraphValue> values;
  std::vector<GraphLeaf> leaves;
  std::vector<GraphNode> nodes;
  std::vector<GraphArg> args;
  std::vector<GraphKeyword> keywords;
  std::vector<ValueId> outs;
  std::vector<Crossing> crossings;
  std::vector<std::string_view> texts;
  std::vector<GraphGuard> guards;
  std::vector<ValueId> outputs;
  std::vector<std::pair<std::string_view, std::string_view>> rules;  // sharding rules for custom ops, as text
  uint32_t signatures = 0;                                           // number of distinct signatures
  uint32_t offset = 0;
};

[[nodiscard]] inline std::span<const int64_t> shape_of(const OpGraph& graph, ValueId value) {
  const GraphShape shape = graph.shapes[graph.values[value].shape];
  return std::span(graph.shape_sizes).subspan(shape.begin, shape.ndim);
}

[[nodiscard]] inline std::span<const Crossing> crossings_of(const OpGraph& graph, const GraphNode& node) {
  return std::span(graph.crossings).subspan(node.crossing_begin, node.crossing_end - node.crossing_begin);
}

// Returns the name of OpGraph::keywords[keyword]. Converts numpy's spelling to torch's.
[[nodiscard]] inline std::string_view keyword_name(const OpGraph& graph, uint32_t keyword) {
  const std::string_view name = graph.strings[graph.keywords[keyword].name];
  return name == "axis" ? "dim" : name == "keepdims" ? "keepdim" : name;
}

}  // namespace tpplan
