#include "walk/op_types.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>

#include "ops/op_names.h"
#include "sharding/dtype.h"
#include "walk/node_args.h"
#include "walk/slots.h"

namespace tpplan {
namespace {

enum class TypeRule : uint8_t { OneType, Widest, Cast, Kept };

// Between blanks, as in lib/ops.
constexpr std::string_view kOneType =
    " linear matmul mm bmm mv dot addmm addmv addbmm baddbmm bilinear einsum tensordot conv1d conv2d conv3d "
    "conv_transpose1d conv_transpose2d conv_transpose3d scaled_dot_product_attention multi_head_attention_forward lstm "
    "gru rnn_tanh rnn_relu ";
constexpr std::string_view kWidest = " cat concat concatenate stack ";
constexpr std::string_view kCasts = " to type type_as float double half bfloat16 ";

TypeRule rule_of(std::string_view name) {
  Linearity ignored{};
  if (lists_op(kOneType, name)) return TypeRule::OneType;
  if (lists_op(kCasts, name)) return TypeRule::Cast;
  return lists_op(kWidest, name) || find_pointwise(name, ignored) ? TypeRule::Widest : TypeRule::Kept;
}

bool is_float(std::string_view name) {
  DType type{};
  return find_dtype(name, type) && dtypes()[type].kind == DTypeKind::Float;
}

// c10::promoteTypes of two types of floating point: bfloat16 and float16 have float32 above them.
std::string_view promoted(std::string_view a, std::string_view b) {
  if (a.empty() || a == b) return b;
  const unsigned x = dtypes()[dtype_of(a)].bits, y = dtypes()[dtype_of(b)].bits;
  return x == y ? "float32" : x > y ? a : b;
}

struct TypedCall {
  const Walk& walk;
  const GraphNode& node;
  std::span<const TapeSlot> ins;
};

// Of the operands with dims, where there are any: numbers without dims widen nothing.
std::string_view widest(const TypedCall& call) {
  std::string_view with_dims, without;
  for (const TapeSlot& in : call.ins) {
    const std::string_view type = dtype_of(call.walk, in.slot);
    if (is_float(type)) {
      std::string_view& of = shape_of(call.walk, in.slot).empty() ? without : with_dims;
      of = promoted(of, type);
    }
  }
  return with_dims.empty() ? without : with_dims;
}

bool names_type(const TypedCall& call) {
  bool names = false;
  each_arg(call.walk.graph, call.node, [&](const GraphArg& arg) { names = names || arg.kind == ArgKind::TypeName; });
  return names;
}

// A type that the code names, or took from what its module was given.
std::string_view cast_to(const TypedCall& call, std::string_view recorded) {
  const std::string_view before = recorded_dtype(call.walk, call.ins[0].slot);
  if (before == recorded || call.walk.frames.empty()) return recorded;
  for (const Retyped& given : call.walk.frames.back().retyped) {
    if (given.recorded == recorded) return given.now;
  }
  return recorded;
}

// The result's type; `recorded` is what it was.
std::string_view out_type(const TypedCall& call, TypeRule rule, bool is_write, std::string_view recorded) {
  const std::string_view first = dtype_of(call.walk, call.ins[0].slot);
  if (!is_float(recorded)) return recorded;
  if (is_write) return first;
  const std::string_view name = call.walk.graph.strings[call.node.name];
  if (rule == TypeRule::Cast) {
    const bool by_name = name != "to" && name != "type" && name != "type_as";
    if (by_name) return recorded;
    if (names_type(call)) return cast_to(call, recorded);
    return dtype_of(call.walk, call.ins.back().slot);  // of itself, moved at most, or of the other tensor
  }
  if (names_type(call)) return recorded;
  if (rule == TypeRule::Widest || rule == TypeRule::OneType) return widest(call);
  for (const TapeSlot& in : call.ins) {
    if (recorded_dtype(call.walk, in.slot) == recorded) return dtype_of(call.walk, in.slot);
  }
  return recorded;
}

// Two operands of a product that are not of one type; empty where there are none.
std::string unlike_types(const TypedCall& call) {
  std::string_view known;
  for (const TapeSlot& in : call.ins) {
    const std::string_view type = dtype_of(call.walk, in.slot);
    if (!is_float(type) || type == known) continue;
    if (!known.empty()) return fmt::format("gets {} and {}, where torch takes operands of one type", known, type);
    known = type;
  }
  return {};
}

}  // namespace

OpTypes op_types(const Walk& walk, const GraphNode& node, bool is_write, std::span<const TapeSlot> ins) {
  OpTypes types;
  const auto retyped =
      std::ranges::find_if(ins, [&](const TapeSlot& in) { return !walk.slots[in.slot].dtype.empty(); });
  if (retyped == ins.end()) {
    // A cast back stands behind operations that made the recorded type again.
    if (walk.frames.empty() || walk.frames.back().retyped.empty() || ins.empty()) return types;
    if (rule_of(walk.graph.strings[node.name]) != TypeRule::Cast) return types;
  }
  const TypedCall call{.walk = walk, .node = node, .ins = ins};
  const TypeRule rule = rule_of(plain_op(walk.graph.strings[node.name]));
  types.rule = retyped == ins.end() ? walk.frames.back().retyped[0].rule : walk.slots[retyped->slot].typed_by;
  if (rule == TypeRule::OneType) types.crash = unlike_types(call);
  for (uint32_t i = node.out_begin; i < node.out_end; ++i)
    types.outs.push_back(
        out_type(call, rule, is_write, walk.graph.strings[walk.graph.values[walk.graph.outs[i]].dtype]));
  return types;
}

std::vector<Retyped> retyped_of(const Walk& walk, std::span<const SlotId> given) {
  std::vector<Retyped> retyped;
  for (const SlotId slot : given) {
    const std::string_view now = walk.slots[slot].dtype;
    if (!now.empty()) retyped.push_back({recorded_dtype(walk, slot), now, walk.slots[slot].typed_by});
  }
  return retyped;
}

}  // namespace tpplan
