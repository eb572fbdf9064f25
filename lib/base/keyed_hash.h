// A hash whose values nobody can foresee: names come from files of strangers, who could write millions that all fall
// into one bucket of a hash that is the same in every process, and make a minute's work of a second's. What is printed
// must not depend on it: who goes through such a container sorts first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace tpplan {

// SipHash-1-3 (Aumasson and Bernstein, 2012) under a key that is drawn when it is first asked.
[[nodiscard]] uint64_t keyed_hash(std::string_view text);

struct HashKey {
  uint64_t low = 0, high = 0;
};
[[nodiscard]] uint64_t keyed_hash(std::string_view text, HashKey key);

struct KeyedHash {
  using is_transparent = void;
  [[nodiscard]] size_t operator()(std::string_view text) const { return keyed_hash(text); }
};

// Of texts that are kept (std::string) or that somebody else keeps (std::string_view).
template <typename Text, typename Value>
using TextMap = std::unordered_map<Text, Value, KeyedHash, std::equal_to<>>;
template <typename Text>
using TextSet = std::unordered_set<Text, KeyedHash, std::equal_to<>>;

}  // namespace tpplan
