// The operations of a model as they ran once, in order: what `"graph"` of a model file holds (written by
// `python -m tpplan.export`). Flat vectors; an id is a position. Values have one definition each and stand before their
// uses; module boundaries nest, and a value has another id on each side of a boundary, so that a style is a function of
// one id.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tpplan {

using ValueId = uint32_t;
using StringId = uint32_t;  // into OpGraph::strings
inline constexpr uint32_t kNoId = 0xffffffffu;

// A size as the model computed it. It remembers where it came from, for on a rank that holds a piece it is another
// number. Local: a number of the program (a), and what it is on each rank of the mesh for which it was recorded (b).
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
  bool is_entry = false;  // of OpGraph::sizes, before the one that it is part of
  int64_t number = 0;     // the literal, or the entry
};

struct SizeEntry {
  SizeOp op = SizeOp::Size;
  SizeOperand a, b;    // Size: a is the value, b the dim
  int64_t traced = 0;  // its number in the recorded run
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
  StringId path = 0;  // of the parameter or buffer; the name of the input
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

// One argument in preorder: the parts of a tuple or slice stand behind it and end before `end`.
struct GraphArg {
  ArgKind kind = ArgKind::None;
  uint32_t end = 0;
  uint32_t id = 0;      // Value: the value; Size: the entry; Text, TypeName, Float, Other: into OpGraph::texts
  int64_t integer = 0;  // Bool, Int
  double number = 0;    // Int, Number, Host, Float
};

// A value that enters or leaves a module: `position` is the argument (or the part of the result) that it is or is in.
struct Crossing {
  int32_t position = -1;     // -1: a keyword argument, or the result itself
  std::string_view key{};    // the keyword
  uint32_t depth = 0;        // how many steps lead to it: 1 is the argument itself, 0 the result itself
  int32_t parameter = -1;    // the position at which the keyword's argument may be given, too; -1: not known
  ValueId from = 0, to = 0;  // the value before, and the same one behind the boundary
};

enum class NodeKind : uint8_t { Op, Enter, Exit };

struct GraphKeyword {
  StringId name = 0;
  uint32_t arg = 0;  // into OpGraph::args
};

struct GraphNode {
  NodeKind kind = NodeKind::Op;
  bool no_grad = false;                           // Enter: entered where no gradients are recorded
  StringId name = 0;                              // the op, or the module's path
  uint32_t positional = 0;                        // Enter: how many positional arguments the module was called with
  uint32_t args_begin = 0, args_end = 0;          // into args
  uint32_t keywords_begin = 0, keywords_end = 0;  // into keywords
  uint32_t out_begin = 0, out_end = 0;            // into outs
  uint32_t crossing_begin = 0, crossing_end = 0;  // into crossings
  uint32_t signature = 0;  // equal for two ops with the same name and literals; values and sizes do not count
  uint32_t offset = 0;     // place in the model file
};

enum class GuardOp : uint8_t { Lt, Le, Gt, Ge, Eq, Ne };

// A comparison of sizes that the recorded run went by.
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
  std::vector<std::pair<std::string_view, std::string_view>> rules;  // rule strings for ops of the model's own
  uint32_t signatures = 0;                                           // how many different ones there are
  uint32_t offset = 0;
};

[[nodiscard]] inline std::span<const int64_t> shape_of(const OpGraph& graph, ValueId value) {
  const GraphShape shape = graph.shapes[graph.values[value].shape];
  return std::span(graph.shape_sizes).subspan(shape.begin, shape.ndim);
}

// The name of OpGraph::keywords[keyword]: torch's own, where it also takes numpy's.
[[nodiscard]] inline std::string_view keyword_name(const OpGraph& graph, uint32_t keyword) {
  const std::string_view name = graph.strings[graph.keywords[keyword].name];
  return name == "axis" ? "dim" : name == "keepdims" ? "keepdim" : name;
}

}  // namespace tpplan
