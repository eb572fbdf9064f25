// The id of an operation. Its name is looked up once, where a graph is read. Tables of operations are arrays by OpId.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace tpplan {

// The operations of operations.def. Operations of other programs, such as StableHLO, belong in a second file with the
// same columns, which is included after it here and in ops/op_table.cc.
enum class OpId : uint16_t {
  Unknown,  // an operation without a row
#define TPPLAN_OP(id, ...) id,
#include "model/operations.def"
#undef TPPLAN_OP
};

// The names of each operation, separated by blanks: the canonical name first, then its aliases.
inline constexpr std::string_view kOpNames[] = {
    "",
#define TPPLAN_OP(id, names, ...) names,
#include "model/operations.def"
#undef TPPLAN_OP
};
inline constexpr size_t kOpCount = std::size(kOpNames);

// Returns the operation with this name or alias; Unknown if there is none.
[[nodiscard]] OpId find_op(std::string_view name);

// True if a trailing `_` marks the operation as in place.
[[nodiscard]] inline bool is_in_place(std::string_view name) {
  return !name.starts_with("__") && name.size() > 1 && name.ends_with('_');
}

// Returns the name without the trailing `_`.
[[nodiscard]] inline std::string_view plain_op(std::string_view name) {
  return is_in_place(name) ? name.substr(0, name.size() - 1) : name;
}

template <typename Value>
using OpArray = std::array<Value, kOpCount>;

[[nodiscard]] constexpr size_t index_of(OpId op) { return static_cast<size_t>(op); }

template <typename Value>
struct OpEntry {
  OpId op;
  Value value;
};

// Returns a table with these entries. Other operations have a default value. Compilation fails if an operation has two.
template <typename Value, size_t count>
[[nodiscard]] consteval OpArray<Value> by_op(const OpEntry<Value> (&entries)[count]) {
  OpArray<Value> table{};
  OpArray<bool> is_set{};
  for (const OpEntry<Value>& entry : entries) {
    if (is_set[index_of(entry.op)]) throw "an operation has two entries";
    is_set[index_of(entry.op)] = true;
    table[index_of(entry.op)] = entry.value;
  }
  return table;
}

// Returns a table that is true for these operations.
[[nodiscard]] consteval OpArray<bool> op_set(std::initializer_list<OpId> ops) {
  OpArray<bool> table{};
  for (const OpId op : ops) table[index_of(op)] = true;
  return table;
}

}  // namespace tpplan
