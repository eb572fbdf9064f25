// What tpplan knows about each operation: a row of model/operations.def.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ops/op_call.h"

namespace tpplan {

// Computes the results of a call.
using OpRule = void (*)(OpCall&, OpResult&);

using Sizes = std::vector<int64_t>;
// Corrects `out`, the sizes of a result according to its layout rule. `x`: the sizes of the first operand. The call has
// one rank.
using SizeRule = void (*)(const OpCall& call, const Sizes& x, Sizes& out);

// The memory of a result.
enum class ResultMemory : uint8_t {
  Unknown,
  New,         // new, dense
  NewLike,     // new, with the dim order of the operands
  Regroups,    // a view with another shape; a copy if no view is possible
  Permutes,    // a view with dims in another order
  Expands,     // a view with repeated elements
  Slices,      // views of slices of a dim
  Drops,       // views of the elements of a dim
  Indexes,     // a view for slices, a copy for index tensors
  Alias,       // the operand itself
  Contiguous,  // the operand if it is dense, else a copy
  Converts,    // the operand if it has the dtype, else a copy
  DropsOut     // the operand in evaluation, else a copy
};

// The contracted size of an operation's matmuls.
enum class Contraction : uint8_t { None, LastOfFirst, LastOfSecond, Window, Scatter, Equation, Attention };

// The effect of an operation along a dim on this dim.
enum class DimEffect : uint8_t { Same, Removed, Resized, Appended };

// The dims without a dim argument: all, the last n (kLastDims + n), or all after the batch and the channels.
inline constexpr int8_t kAllDims = 100, kLastDims = 100, kAfterChannels = 110;
inline constexpr int8_t kNoDim = 100;  // the operation has no such argument

// The dims of an operation of dim_rules.cc.
struct DimSpec {
  DimEffect effect = DimEffect::Same;
  int8_t dim_at = kNoDim;       // position of the dim argument
  int8_t absent = kAllDims;     // the default dim
  int8_t keepdim_at = -1;       // position of keepdim; -1: none
  bool needs_elements = false;  // raises an error for a tensor without elements
};

// The source of the sizes of a fill.
enum class FillSize : uint8_t {
  NoFill,     // not a fill
  Requested,  // arguments
  Method,     // arguments after a tensor, of which only the dtype is used
  Like,       // those of a tensor
  InPlace,    // the filled tensor
  Range,      // the bounds of a range
  Scalar      // the data
};

struct FillSpec {
  FillSize size = FillSize::NoFill;
  bool is_zero = false;  // zeros, or uninitialised memory
};

// The dtype of a floating-point result, from the dtypes of the operands.
enum class DtypeRule : uint8_t {
  AsTraced,  // that of the operand which had the traced dtype of the result; Widest if the operation is elementwise
  OneType,   // that of all operands; different ones are an error
  Widest,    // promoted
  Cast       // the requested one
};

// Torch's support for an operation on DTensors (torch 2.13). ForwardOnly: its backward has no sharding strategy.
enum class DtensorSupport : uint8_t { Full, ForwardOnly, NoStrategy };

// `saves`: what autograd saves (tools/autograd/derivatives.yaml, torch 2.13), words separated by blanks:
//   3      operand 3 (of the tensor operands), if the result requires a gradient; nothing if it is absent
//   0?1    operand 0, if operand 1 requires a gradient
//   0!3    operand 0, if operand 3 requires none
//   r0     result 0
//   i1     the operands from 1 on, as indices: a mask becomes the indices at which it is true
//   m3     operand 3, a mask: if it is boolean, its copy in operand 0's dtype, which is added to the scores
//   f1 f2  1 or 2 float32 values for each row of operand 0, as norms save
//   l      one float32 value for each query
//   h3     if operand 3, an attention mask, requires a gradient: what its matmuls save (scaled queries and keys,
//   values,
//          all scores), because no CPU kernel of torch 2.13 computes that gradient
//   c2     2 float32 values for each channel (dim 1 of operand 0), as batch norms save in training
//   a      operand 0, unless the result has one element for each channel: a mean saves nothing
//   j      one int64 for each element of the result: its index in operand 0
//   b      one byte for each element of the result: the dropout mask
//   s      as many bytes as operand 0
//   p      both operands of a matmul, as the matrices that it makes of them
struct OpRow {
  std::string_view names;
  OpRule rule = nullptr;
  ResultMemory memory = ResultMemory::Unknown;
  std::string_view saves{};
  Contraction product = Contraction::None;
  Linearity linearity = Linearity::Other;  // of rule_pointwise and rule_dim
  std::string_view notation{};             // of rule_factors (notation.h); alternatives are separated by ` / `
  DimSpec along{};                         // of rule_dim
  FillSpec fill{};                         // of rule_fill
  SizeRule sizes = nullptr;                // nullptr: the layout rule determines the sizes
  DtypeRule dtypes = DtypeRule::AsTraced;
  DtensorSupport dtensor = DtensorSupport::Full;
};

// Returns the row of an operation; an empty one for Unknown.
[[nodiscard]] const OpRow& op_row(OpId op);

// True if the operation uses only the sizes and the dtype of its operand.
[[nodiscard]] inline bool ignores_values(OpId op) {
  return op_row(op).fill.size == FillSize::Like || op_row(op).fill.size == FillSize::Method;
}

}  // namespace tpplan
