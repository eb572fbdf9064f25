// A set of strings that somebody else stores: finds duplicates among millions of names for 4 to 8 bytes each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace tpplan {

// Open addressing over indices into the owner's storage. 0xffffffff marks an empty slot.
struct StringIndex {
  std::vector<uint32_t> slots;
  size_t used = 0;
};

inline constexpr uint32_t kNotFound = 0xffffffffu;

// The stored index whose string equals `name`, or kNotFound. `name_of(index)` returns the stored string.
template <typename NameOf>
uint32_t find(const StringIndex& index, std::string_view name, NameOf name_of) {
  if (index.slots.empty()) return kNotFound;
  const size_t mask = index.slots.size() - 1;
  for (size_t i = std::hash<std::string_view>{}(name) & mask;; i = (i + 1) & mask) {
    if (index.slots[i] == kNotFound || name_of(index.slots[i]) == name) return index.slots[i];
  }
}

// Adds `value` under `name`, which `name_of(value)` returns from now on. When an equal string is already there nothing
// changes and its index is returned; otherwise kNotFound.
template <typename NameOf>
uint32_t insert(StringIndex& index, std::string_view name, uint32_t value, NameOf name_of) {
  if (2 * (index.used + 1) > index.slots.size()) {
    std::vector<uint32_t> old(std::max<size_t>(16, index.slots.size() * 2), kNotFound);
    old.swap(index.slots);
    const size_t mask = index.slots.size() - 1;
    for (const uint32_t kept : old) {
      if (kept == kNotFound) continue;
      size_t i = std::hash<std::string_view>{}(name_of(kept)) & mask;
      while (index.slots[i] != kNotFound) i = (i + 1) & mask;
      index.slots[i] = kept;
    }
  }
  const size_t mask = index.slots.size() - 1;
  for (size_t i = std::hash<std::string_view>{}(name) & mask;; i = (i + 1) & mask) {
    if (index.slots[i] == kNotFound) {
      index.slots[i] = value;
      ++index.used;
      return kNotFound;
    }
    if (name_of(index.slots[i]) == name) return index.slots[i];
  }
}

}  // namespace tpplan
