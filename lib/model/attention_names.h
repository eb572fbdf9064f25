// What a projection of an attention is, by the last part of its path. A new name is a row in attention_names.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tpplan {

enum class HeadRole : uint8_t {
  None,  // no name of an attention projection
  Query,
  Key,
  Value,
  FusedInBlocks,  // its rows are q, k and v one after the other, each by heads
  FusedByHead,    // its rows are q, k and v of the first head, or of the first group with one k and v, then of the next
  Output,
};

struct AttentionName {
  std::string_view leaf;
  HeadRole role{};
  std::string_view key, value;  // of a Query: those that go with it
};
[[nodiscard]] std::span<const AttentionName> attention_names();

[[nodiscard]] HeadRole role_of(std::string_view leaf);

}  // namespace tpplan
