// Assigns short names to the values of a printed graph. A later value reuses the name of a value that is not used
// again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/keyed_hash.h"
#include "model/op_graph.h"

namespace tpplan {

// A point in the order of printing. A line reads names at one tick and binds names at a later one.
using Tick = uint64_t;
inline constexpr Tick kNoTick = ~Tick{0};

// The ticks at which the names of values are read, collected by the first pass of the printer.
struct ValueUses {
  std::vector<std::pair<ValueId, Tick>> list;  // in the order of ticks
  std::vector<size_t> begins;                  // by value, into `ticks`
  std::vector<Tick> ticks;                     // ascending for each value
};

void add_use(ValueUses& uses, ValueId value, Tick tick);
// Builds the index of the uses. @pre no add_use follows.
void sort_uses(ValueUses& uses, size_t values);
[[nodiscard]] Tick last_use(const ValueUses& uses, ValueId value);  // 0 if the value is unused

// The frame that a name is bound in: its depth, and the tick at which the frame ends.
struct NameScope {
  uint32_t depth = 0;
  Tick end = kNoTick;
};

struct NameBinding {
  NameScope scope;
  ValueId value = 0;
};

struct NameEntry {
  std::vector<NameBinding> bindings;  // by ascending depth
  bool is_exclusive = false;          // true if no other value may reuse the name
};

struct ValueNames {
  const ValueUses& uses;
  TextSet<std::string> reserved{};  // paths of parameters and buffers
  TextMap<std::string, NameEntry> entries{};
  TextMap<std::string, uint32_t> suffixes{};             // by base: the next suffix to try
  std::vector<const std::string*> names{};               // by value; nullptr: not named yet
  std::vector<std::vector<const std::string*>> bound{};  // by depth: names bound in the current frame
};

// Converts `text` to an identifier.
[[nodiscard]] std::string identifier_of(std::string_view text);

// True if a value can be named `name` in `scope` from `now` on.
[[nodiscard]] bool is_free(const ValueNames& names, std::string_view name, NameScope scope, Tick now);

// Binds the first free name of `base`, `base_1` and so on. `is_permanent` requires a name that no other value has or
// will get.
void name_value(ValueNames& names, ValueId value, std::string_view base, NameScope scope, Tick now, bool is_permanent);

// Allows later values to reuse the name.
void release_name(ValueNames& names, ValueId value);

// Binds the current name of the value in an outer frame.
void rebind_outer_name(ValueNames& names, ValueId value, NameScope scope);

// Unbinds the names of a frame.
void end_names(ValueNames& names, uint32_t depth);

}  // namespace tpplan
