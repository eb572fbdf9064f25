#include "text/key_set.h"

#include <algorithm>

namespace tpplan {
namespace {

constexpr size_t kReusedCapacity = 1024;  // capacity up to which memory is reused for the next object

std::string_view name_of(const KeySet& set, const char* file, uint32_t i) {
  const KeySet::Key key = set.keys[i];
  if (key.length != KeySet::kEscaped) return {file + key.offset + 1, key.length};
  const auto found = std::lower_bound(set.escaped.begin(), set.escaped.end(), key.offset,
                                      [](const auto& entry, uint32_t offset) { return entry.first < offset; });
  return found->second;
}

}  // namespace

void clear_keys(KeySet& set) {
  set.keys.clear();
  set.escaped.clear();
  if (set.keys.capacity() > kReusedCapacity) set.keys = {};
  set.index.used = 0;
  if (set.index.slots.size() > kReusedCapacity) set.index.slots.clear();
  std::fill(set.index.slots.begin(), set.index.slots.end(), StringSlot{});
}

// Compares keys one by one in small objects, and uses the index in larger ones.
uint32_t find_key(KeySet& set, const char* file, std::string_view name) {
  constexpr size_t kFew = 16;
  const auto count = static_cast<uint32_t>(set.keys.size());
  if (count < kFew) {
    for (uint32_t i = 0; i < count; ++i) {
      if (name_of(set, file, i) == name) return i;
    }
    return kNotFound;
  }
  // The index reads the name with index `count`, which add_key appends only after this call.
  const auto future_name_of = [&](uint32_t i) { return i == count ? name : name_of(set, file, i); };
  if (count == kFew) {
    for (uint32_t i = 0; i < count; ++i) insert(set.index, name_of(set, file, i), i, future_name_of);
  }
  return insert(set.index, name, count, future_name_of);
}

void add_key(KeySet& set, uint32_t offset, std::string_view name, bool is_escaped) {
  set.keys.push_back({offset, is_escaped ? KeySet::kEscaped : static_cast<uint32_t>(name.size())});
  if (is_escaped) set.escaped.emplace_back(offset, std::string(name));
}

}  // namespace tpplan
