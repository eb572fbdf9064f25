// Roles of attention projections by the last part of their path. To add a name, add a row in attention_names.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tpplan {

enum class HeadRole : uint8_t {
  None,  // not an attention projection
  Query,
  Key,
  Value,
  FusedInBlocks,  // rows are all heads of q, then of k, then of v
  FusedByHead,    // rows are q, k and v of the first head (or kv group), then of the next
  Output,
};

struct AttentionName {
  std::string_view leaf;
  HeadRole role{};
  std::string_view key, value;  // for a Query: the names of its key and value projections
};
[[nodiscard]] std::span<const AttentionName> attention_names();

[[nodiscard]] HeadRole role_of(std::string_view leaf);

}  // namespace tpplan
