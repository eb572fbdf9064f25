#include "walk/operation/op_types.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>

#include "ops/op_rules.h"
#include "sharding/dtype.h"
#include "walk/state/node_args.h"
#include "walk/state/slots.h"

namespace tpplan {
namespace {

DtypeRule rule_of(OpId op) {
  const DtypeRule rule = op_row(op).dtypes;
  return rule == DtypeRule::AsTraced && is_elementwise(op) ? DtypeRule::Widest : rule;
}

bool is_float(std::string_view name) {
  DType type{};
  return find_dtype(name, type) && dtypes()[type].kind == DTypeKind::Float;
}

// Returns c10::promoteTypes of two floating-point dtypes: bfloat16 and float16 together become float32.
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

// Returns the widest dtype of the operands with dims, or of all if none has dims: scalars widen nothing.
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
  each_arg(call.walk.in.graph, call.node, [&](const GraphArg& arg) { names = names || arg.kind == ArgKind::TypeName; });
  return names;
}

// Returns the target of a cast: the named dtype, or the actual dtype of the module input that had this dtype in the
// trace.
std::string_view cast_to(const TypedCall& call, std::string_view traced) {
  const std::string_view before = traced_dtype(call.walk, call.ins[0].slot);
  if (before == traced || call.walk.memory.frames.empty()) return traced;
  for (const RetypedValue& given : call.walk.memory.frames.back().retyped) {
    if (given.traced == traced) return given.now;
  }
  return traced;
}

// Returns the dtype of a result; `traced`: its traced dtype.
std::string_view out_type(const TypedCall& call, DtypeRule rule, bool is_write, std::string_view traced) {
  const std::string_view first = dtype_of(call.walk, call.ins[0].slot);
  if (!is_float(traced)) return traced;
  if (is_write) return first;
  if (rule == DtypeRule::Cast) {
    const OpId op = call.node.op;
    const bool by_name = op != OpId::To && op != OpId::Type && op != OpId::TypeAs;
    if (by_name) return traced;
    if (names_type(call)) return cast_to(call, traced);
    return dtype_of(call.walk, call.ins.back().slot);  // `to(device)`: of its operand; `to(other)`: of the other tensor
  }
  if (names_type(call)) return traced;
  if (rule == DtypeRule::Widest || rule == DtypeRule::OneType) return widest(call);
  for (const TapeSlot& in : call.ins) {
    if (traced_dtype(call.walk, in.slot) == traced) return dtype_of(call.walk, in.slot);
  }
  return traced;
}

// Returns the error if a matmul has operands of two dtypes; empty otherwise.
std::string different_types(const TypedCall& call) {
  std::string_view known;
  for (const TapeSlot& in : call.ins) {
    const std::string_view type = dtype_of(call.walk, in.slot);
    if (!is_float(type) || type == known) continue;
    if (!known.empty()) return fmt::format("gets {} and {}, but torch requires operands of one dtype", known, type);
    known = type;
  }
  return {};
}

}  // namespace

OpTypes op_types(const Walk& walk, const GraphNode& node, bool is_write, std::span<const TapeSlot> ins) {
  OpTypes types;
  const auto retyped =
      std::ranges::find_if(ins, [&](const TapeSlot& in) { return !walk.memory.slots[in.slot].dtype.empty(); });
  if (retyped == ins.end()) {
    // A cast back matters even if its operand has the traced dtype again.
    if (walk.memory.frames.empty() || walk.memory.frames.back().retyped.empty() || ins.empty()) return types;
    if (rule_of(node.op) != DtypeRule::Cast) return types;
  }
  const TypedCall call{.walk = walk, .node = node, .ins = ins};
  const DtypeRule rule = rule_of(node.op);
  types.rule =
      retyped == ins.end() ? walk.memory.frames.back().retyped[0].rule : walk.memory.slots[retyped->slot].typed_by;
  if (rule == DtypeRule::OneType) types.crash = different_types(call);
  for (uint32_t i = node.out_begin; i < node.out_end; ++i)
    types.outs.push_back(
        out_type(call, rule, is_write, walk.in.graph.strings[walk.in.graph.values[walk.in.graph.outs[i]].dtype]));
  return types;
}

std::vector<RetypedValue> retyped_of(const Walk& walk, std::span<const SlotId> given) {
  std::vector<RetypedValue> retyped;
  for (const SlotId slot : given) {
    const std::string_view now = walk.memory.slots[slot].dtype;
    if (!now.empty()) retyped.push_back({traced_dtype(walk, slot), now, walk.memory.slots[slot].typed_by});
  }
  return retyped;
}

}  // namespace tpplan
