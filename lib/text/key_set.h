// Set of an object's keys that detects duplicates, in linear time even for a million keys.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/string_index.h"

namespace tpplan {

// Keys in 8 bytes each; their text is read from the file.
struct KeySet {
  struct Key {
    uint32_t offset;  // first byte of the opening quote; a file is below 2^32 bytes
    uint32_t length;  // length of the text between the quotes, or kEscaped
  };
  static constexpr uint32_t kEscaped = 0xffffffffu;
  std::vector<Key> keys;
  std::deque<std::pair<uint32_t, std::string>> escaped;  // offset and decoded text of keys with escapes
  StringIndex index;
};

// Clears the set for the next object. Retains the memory of small sets and frees that of large ones.
void clear_keys(KeySet& set);

// Returns the index of the key called `name`, or kNotFound. After kNotFound the caller must call add_key with the same
// name before the next lookup. `file` points to the file's first byte.
[[nodiscard]] uint32_t find_key(KeySet& set, const char* file, std::string_view name);
void add_key(KeySet& set, uint32_t offset, std::string_view name, bool is_escaped);

}  // namespace tpplan
