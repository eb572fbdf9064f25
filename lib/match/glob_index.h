// Many globs at once: a path is looked through once for texts of the globs (Aho and Corasick, Communications of the ACM
// 18, 1975), and only globs whose text it contains are matched.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "match/glob.h"

namespace tpplan {

struct GlobIndexNode {
  uint32_t fallback = 0;        // of the longest end of this text that is a beginning of another
  uint32_t shorter = 0;         // the next node down the fallbacks that has globs; 0, the root, has none
  uint32_t first = UINT32_MAX;  // glob whose text ends here; the others follow in `next`
  uint32_t asked = 0;           // the last question that came by: what is shorter was seen then, too
};

struct GlobIndex {
  std::vector<Glob> globs;
  std::vector<uint32_t> textless;  // globs that have no text
  std::vector<GlobIndexNode> nodes;
  std::vector<uint32_t> next;                       // by glob
  std::unordered_map<uint64_t, uint32_t> children;  // by node * 256 + byte; numbers, at most 256 of them in a bucket
  uint32_t questions = 0;
};

[[nodiscard]] GlobIndex index_globs(std::span<const std::string> globs);

// Appends the globs that match, ascending. Not for two threads at once.
void find_globs(GlobIndex& index, std::string_view text, std::vector<int>& matches);

}  // namespace tpplan
