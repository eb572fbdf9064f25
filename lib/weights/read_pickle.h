// A reader of Python pickles that builds a tree of values. It executes nothing: calls and objects are values with the
// names of their classes, and only opcodes and classes of a caller's list are accepted.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpplan {

enum class PickleKind : uint8_t { None, Bool, Integer, Text, Class, Tuple, List, Dict, Object };

// A value. Its items are those of a tuple, list or dict (keys and values in turn), or of an object: its class, its
// arguments (a tuple), and its state if it has one.
struct PickleValue {
  std::string_view text{};  // of a Text, or of a Class: "torch Size"
  int64_t integer = 0;      // of a Bool or an Integer
  uint32_t first = 0;       // of the items in Pickle::items; of a List, Dict or Object: into Pickle::lists
  uint16_t count = 0;       // of a Tuple: number of items
  PickleKind kind = PickleKind::None;
};

struct Pickle {
  std::vector<PickleValue> values;
  std::vector<uint32_t> items;               // of tuples, into `values`
  std::vector<std::vector<uint32_t>> lists;  // of values that grow, into `values`
  std::deque<std::string> strings;           // names of classes
  uint32_t root = 0;                         // into `values`
};

// Reads a pickle with protocol 2 to 5. `classes`: the accepted ones, as "module name". The values point into `bytes`.
// Returns why it is rejected, with the offset of the opcode; empty on success.
[[nodiscard]] std::string read_pickle(std::string_view bytes, std::span<const std::string_view> classes,
                                      Pickle& pickle);

// Returns the items of a value, into Pickle::values.
[[nodiscard]] std::span<const uint32_t> items_of(const Pickle& pickle, const PickleValue& value);

// Returns the value of a text key of a dict, or of the state of an object; nullptr if there is none.
[[nodiscard]] const PickleValue* find_item(const Pickle& pickle, const PickleValue& value, std::string_view key);

// True for an object of the class, as "module name".
[[nodiscard]] bool is_of_class(const Pickle& pickle, const PickleValue& value, std::string_view name);

}  // namespace tpplan
