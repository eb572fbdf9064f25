// A set of strings that somebody else stores: finds duplicates among millions of names for 16 to 32 bytes each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/keyed_hash.h"

namespace tpplan {

// Open addressing over indices into the owner's storage, each with half of its string's hash: a probe looks at a string
// only where the hashes agree, and growing looks at none. `value` is 0xffffffff in an empty slot.
struct StringSlot {
  uint32_t hash = 0;
  uint32_t value = 0xffffffffu;
};
struct StringIndex {
  std::vector<StringSlot> slots;
  size_t used = 0;
};

inline constexpr uint32_t kNotFound = 0xffffffffu;

[[nodiscard]] inline uint32_t hash_of(std::string_view name) {
  const uint64_t hash = keyed_hash(name);
  return static_cast<uint32_t>(hash ^ (hash >> 32));
}

// The slot that holds `name`, or the empty one where it belongs. There is an empty slot.
template <typename NameOf>
[[nodiscard]] size_t slot_of(const StringIndex& index, std::string_view name, uint32_t hash, NameOf name_of) {
  const size_t mask = index.slots.size() - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    const StringSlot& slot = index.slots[i];
    if (slot.value == kNotFound || (slot.hash == hash && name_of(slot.value) == name)) return i;
  }
}

// The stored index whose string equals `name`, or kNotFound. `name_of(index)` returns the stored string.
template <typename NameOf>
[[nodiscard]] uint32_t find(const StringIndex& index, std::string_view name, NameOf name_of) {
  return index.slots.empty() ? kNotFound : index.slots[slot_of(index, name, hash_of(name), name_of)].value;
}

inline void grow(StringIndex& index) {
  std::vector<StringSlot> old(std::max<size_t>(16, index.slots.size() * 2));
  old.swap(index.slots);
  const size_t mask = index.slots.size() - 1;
  for (const StringSlot& kept : old) {
    if (kept.value == kNotFound) continue;
    size_t i = kept.hash & mask;
    while (index.slots[i].value != kNotFound) i = (i + 1) & mask;
    index.slots[i] = kept;
  }
}

// Adds `value` under `name`, which `name_of(value)` returns from now on. When an equal string is already there nothing
// changes and its index is returned; otherwise kNotFound.
template <typename NameOf>
uint32_t insert(StringIndex& index, std::string_view name, uint32_t value, NameOf name_of) {
  if (2 * (index.used + 1) > index.slots.size()) grow(index);
  const uint32_t hash = hash_of(name);
  StringSlot& slot = index.slots[slot_of(index, name, hash, name_of)];
  if (slot.value != kNotFound) return slot.value;
  slot = {hash, value};
  ++index.used;
  return kNotFound;
}

}  // namespace tpplan
