// What each operation does to memory and how much it computes, as rows: whether its result is a view, what it keeps for
// the backward pass, which products it is made of. Held to the operations that the walk has rules for by a test.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "walk/step_trace.h"

namespace tpplan {

// What memory a result is in.
enum class ResultMemory : uint8_t {
  New,         // its own, dense
  NewLike,     // its own, with the dims in the operands' order
  Regroups,    // a view with another shape; a copy where none is possible
  Permutes,    // a view with dims in another order
  Expands,     // a view in which elements are repeated
  Cuts,        // views of parts of a dim
  Drops,       // views of a dim's elements
  Indexes,     // a view by slices, a copy by tensors
  Alias,       // the operand itself
  Contiguous,  // the operand where it is dense already
  Converts,    // the operand where it has the type already
  DropsOut     // the operand where nothing is dropped
};

// The products that it is made of: the size of the dim that is summed.
enum class Contraction : uint8_t { None, LastOfFirst, LastOfSecond, Window, Scatter, Equation, Attention };

// `keeps`: what autograd saves (tools/autograd/derivatives.yaml, torch 2.13), words between blanks:
//   3      operand 3 (of its tensors), where the result has a gradient; absent ones count for nothing
//   0?1    operand 0, where operand 1 has a gradient
//   0!3    operand 0, where operand 3 has none
//   r0     result 0
//   i1     the operands from 1 on, as positions: a mask becomes the positions at which it holds
//   m3     operand 3, a mask: of truth values its copy in operand 0's type, which is added to scores
//   f1 f2  so many numbers of float32 for each row of operand 0: what norms keep
//   l      one of float32 for each query
//   h3     where operand 3, the mask of an attention, has a gradient: what its products keep (queries and keys, each
//          scaled by itself, values as matrices, all scores), for no kernel of torch 2.13 for CPUs has that gradient
//   c2     so many numbers of float32 for each channel, dim 1 of operand 0: what norms of channels keep of it, where
//   they
//          are not told to go by what they kept before
//   a      operand 0, but where one number is left of each channel: a mean keeps nothing
//   j      one int64 for each element of the result: where in operand 0 it was
//   b      one byte for each element of the result: what is dropped
//   s      the size of operand 0 once more
//   p      both operands of a product, as the matrices that it makes of them
struct OpEffects {
  std::string_view names;  // between blanks
  ResultMemory memory = ResultMemory::New;
  std::string_view keeps{};
  Contraction product = Contraction::None;
};

// Of an operation by its name, in place (with a trailing `_`) too; nullptr: nobody knows it.
[[nodiscard]] const OpEffects* find_effects(std::string_view name);

// True where attention is made of products, for the sake of its mask's gradient; `ins`: of the traced values, in order.
[[nodiscard]] bool is_attention_of_products(const OpEffects& effects, const StepTrace& trace,
                                            std::span<const uint32_t> ins);

// True for operations that write to their first operand.
[[nodiscard]] bool writes_in_place(std::string_view name);

}  // namespace tpplan
