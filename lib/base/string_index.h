// An index of strings that the caller stores: finds duplicates among millions of names with 11 to 21 bytes each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/keyed_hash.h"

namespace tpplan {

// Open addressing over indices into the caller's storage, each with half of its string's hash: a probe compares strings
// only if the hashes are equal, and growing compares none. `value` is 0xffffffff in an empty slot.
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

// Returns the slot that holds `name`, or the empty one for it. @pre there is an empty slot
template <typename NameOf>
[[nodiscard]] size_t slot_of(const StringIndex& index, std::string_view name, uint32_t hash, NameOf name_of) {
  const size_t mask = index.slots.size() - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    const StringSlot& slot = index.slots[i];
    if (slot.value == kNotFound || (slot.hash == hash && name_of(slot.value) == name)) return i;
  }
}

// Returns the stored index whose string equals `name`, or kNotFound. `name_of(index)` returns the stored string.
template <typename NameOf>
[[nodiscard]] uint32_t find(const StringIndex& index, std::string_view name, NameOf name_of) {
  return index.slots.empty() ? kNotFound : index.slots[slot_of(index, name, hash_of(name), name_of)].value;
}

inline void resize(StringIndex& index, size_t slots) {
  std::vector<StringSlot> old(slots);
  old.swap(index.slots);
  const size_t mask = index.slots.size() - 1;
  for (const StringSlot& kept : old) {
    if (kept.value == kNotFound) continue;
    size_t i = kept.hash & mask;
    while (index.slots[i].value != kNotFound) i = (i + 1) & mask;
    index.slots[i] = kept;
  }
}

// Reserves slots for `count` strings.
inline void reserve(StringIndex& index, size_t count) {
  size_t slots = std::max<size_t>(16, index.slots.size());
  while (4 * count > 3 * slots) slots *= 2;
  if (slots > index.slots.size()) resize(index, slots);
}

// Loads the slot of a hash into the cache. @pre the index has slots
inline void prefetch(const StringIndex& index, uint32_t hash) {
  __builtin_prefetch(&index.slots[hash & (index.slots.size() - 1)]);
}

// Adds `value` under `name`, which `name_of(value)` must return from now on. Returns kNotFound; if an equal string
// exists, changes nothing and returns its index. `hash` is hash_of(name).
template <typename NameOf>
uint32_t insert(StringIndex& index, std::string_view name, uint32_t value, NameOf name_of, uint32_t hash) {
  reserve(index, index.used + 1);
  StringSlot& slot = index.slots[slot_of(index, name, hash, name_of)];
  if (slot.value != kNotFound) return slot.value;
  slot = {hash, value};
  ++index.used;
  return kNotFound;
}
template <typename NameOf>
uint32_t insert(StringIndex& index, std::string_view name, uint32_t value, NameOf name_of) {
  return insert(index, name, value, name_of, hash_of(name));
}

}  // namespace tpplan
