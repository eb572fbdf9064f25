// A hash with unpredictable values: untrusted files could contain millions of names that collide in a fixed hash and
// make lookups quadratic. Output must not depend on it: iteration over such a container sorts first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace tpplan {

// SipHash-1-3 (Aumasson and Bernstein, 2012) with a random key that is drawn on first use.
[[nodiscard]] uint64_t keyed_hash(std::string_view text);

struct HashKey {
  uint64_t low = 0, high = 0;
};
[[nodiscard]] uint64_t keyed_hash(std::string_view text, HashKey key);

struct KeyedHash {
  using is_transparent = void;
  [[nodiscard]] size_t operator()(std::string_view text) const { return keyed_hash(text); }
};

// A hash map with text keys, owned (std::string) or not (std::string_view).
template <typename Text, typename Value>
using TextMap = std::unordered_map<Text, Value, KeyedHash, std::equal_to<>>;
template <typename Text>
using TextSet = std::unordered_set<Text, KeyedHash, std::equal_to<>>;

}  // namespace tpplan
