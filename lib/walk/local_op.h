// An operation of a program that every rank runs by itself (walk/shard_map_run.cc), on its way: what is known of its
// operands, how its result is bound, the axes that its arguments name, and what is left to be done of a mean or a
// maximum.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/op_call.h"
#include "walk/local_facts.h"
#include "walk/walk_state.h"

namespace tpplan {

struct LocalOp {
  Walk& walk;
  const GraphNode& node;
  uint32_t index;
  OpCall call;
  std::string_view name;
};

// nullptr: nothing but its layout.
[[nodiscard]] const LocalFact* fact_of(const Walk& walk, ValueId value);
// The value whose integers it has, whatever was done to their shape.
[[nodiscard]] ValueId root_of(const Walk& walk, ValueId value);
[[nodiscard]] ValueId result_of(const LocalOp& op);
// A value of which nothing is known but its layout.
[[nodiscard]] bool is_plain_fact(const LocalFact* fact);
[[nodiscard]] bool is_float(const Walk& walk, ValueId value);

// The end of what can be said: nobody knows what the operation makes of it.
void give_up(LocalOp& op);
// Binds the one result; a file may say that there are others.
void give_result(LocalOp& op, const Spread& layout, Code code = {}, std::string wrong = {});
void set_fact(LocalOp& op, LocalFact fact);
// By its rule, which sees layouts alone, and the results are wrong for a reason that the rule does not see.
void run_wrong(LocalOp& op, Code code, const std::string& reason);

constexpr size_t kNoAxisHere = static_cast<size_t>(-1);

[[nodiscard]] std::string_view text_of(const LocalOp& op, const GraphArg& arg);
// Where it stands among those that are walked; kNoAxisHere where ranks do not differ along it.
[[nodiscard]] size_t walked_axis(const LocalOp& op, std::string_view name);
// The axes that an argument names: a text, or a tuple of them.
[[nodiscard]] std::vector<size_t> axes_at(const LocalOp& op, size_t position);

// ---- scales and open maxima: what is left to be done of a mean or a maximum ----

[[nodiscard]] bool is_scaled(const LocalFact* fact);
// Numbers that go too far become 0, which is no scale that anything has.
void scale(LocalFact& fact, int64_t numerator, int64_t denominator);
// What is wrong with a result that such an operand went into, and its code.
[[nodiscard]] std::string fault_of(const LocalOp& op, const LocalFact& fact);
[[nodiscard]] Code code_of(const LocalFact& fact);

}  // namespace tpplan
