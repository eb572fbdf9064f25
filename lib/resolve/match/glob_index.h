// Matching of many globs against a path. One scan finds the literals of the globs in the path, and only globs with a
// found literal are matched (Aho and Corasick, Communications of the ACM 18, 1975).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "resolve/match/glob.h"

namespace tpplan {

struct GlobIndexNode {
  uint32_t fallback = 0;        // node of the longest proper suffix that is a prefix of another literal
  uint32_t shorter = 0;         // next node along the fallbacks that has globs; 0: none
  uint32_t first = UINT32_MAX;  // first glob whose literal ends here; the others follow in `next`
  uint32_t last_query = 0;      // last query that visited this node and all shorter ones
};

struct GlobIndex {
  std::vector<Glob> globs;
  std::vector<uint32_t> textless;  // globs without a literal
  std::vector<GlobIndexNode> nodes;
  std::vector<uint32_t> next;                       // by glob
  std::unordered_map<uint64_t, uint32_t> children;  // by node * 256 + byte
  uint32_t questions = 0;
};

[[nodiscard]] GlobIndex index_globs(std::span<const std::string> globs);

// Appends the indices of the globs that match, ascending. Not thread-safe.
void find_globs(GlobIndex& index, std::string_view text, std::vector<int>& matches);

}  // namespace tpplan
