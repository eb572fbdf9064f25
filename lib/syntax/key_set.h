// The keys of an object that is being read: a key that stands twice is found, of a million of them too.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/string_index.h"

namespace tpplan {

// 8 bytes a key: their text stays in the file.
struct KeySet {
  struct Key {
    uint32_t offset;  // first byte of the opening quote; a file is below 2^32 bytes
    uint32_t length;  // of the text between the quotes, or kEscaped
  };
  static constexpr uint32_t kEscaped = 0xffffffffu;
  std::vector<Key> keys;
  std::deque<std::pair<uint32_t, std::string>> escaped;  // offset and decoded text of those written with escapes
  StringIndex index;
};

// Empties the set for the next object. Memory for a few keys is kept, that for many is given back.
void clear_keys(KeySet& set);

// The key called `name`, or kNotFound: then the caller says add_key with the same name before it asks again. `file` is
// the file's first byte.
[[nodiscard]] uint32_t first_of_key(KeySet& set, const char* file, std::string_view name);
void add_key(KeySet& set, uint32_t offset, std::string_view name, bool is_escaped);

}  // namespace tpplan
