// Helpers for operations of per-rank programs (walk/local/shard_map_run.cc): facts about operands, results, axes in
// arguments, and pending means and maxima.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/op_call.h"
#include "walk/state/local_facts.h"
#include "walk/state/walk_state.h"

namespace tpplan {

struct LocalOp {
  Walk& walk;
  const GraphNode& node;
  uint32_t index;
  OpCall call;
  std::string_view name;
};

// Returns the facts about a value; nullptr if only its layout is known.
[[nodiscard]] const LocalFact* local_fact_of(const Walk& walk, ValueId value);
// Returns the value with the same integers, in whatever shape.
[[nodiscard]] ValueId value_with_same_integers(const Walk& walk, ValueId value);
[[nodiscard]] ValueId result_of(const LocalOp& op);
// True if the local elements are those of the global program, so that only the layout matters.
[[nodiscard]] bool is_as_in_global_program(const LocalFact* fact);
[[nodiscard]] bool is_float(const Walk& walk, ValueId value);

// Ends the walk, because the result of the operation is unknown.
void mark_unknown(LocalOp& op);
// Sets the only result. If a model file has more results, the operation is unknown.
void set_result(LocalOp& op, const ValueLayout& layout, Code code = {}, std::string wrong = {});
void set_fact(LocalOp& op, LocalFact fact);
// Runs the rule of the operation, which sees layouts only, and marks its results as wrong.
void run_as_wrong(LocalOp& op, Code code, const std::string& reason);

constexpr size_t kNoAxisHere = static_cast<size_t>(-1);

[[nodiscard]] std::string_view text_of(const LocalOp& op, const GraphArg& arg);
// Returns the index of an axis among the walked ones; kNoAxisHere if ranks do not differ along it.
[[nodiscard]] size_t walked_axis(const LocalOp& op, std::string_view name);
// Returns the axes in an argument, which is a text or a tuple of texts.
[[nodiscard]] std::vector<size_t> axes_at(const LocalOp& op, size_t position);

// ---- scales and pending maxima ----

[[nodiscard]] bool is_scaled(const LocalFact* fact);
// Multiplies the scale by a fraction. A scale with too large numbers becomes 0, which no value has.
void scale_fact(LocalFact& fact, int64_t numerator, int64_t denominator);
// Returns the error of an operation with such an operand.
[[nodiscard]] std::string error_of(const LocalOp& op, const LocalFact& fact);
[[nodiscard]] Code code_of(const LocalFact& fact);

}  // namespace tpplan
