#include "resolve/match/glob_index.h"

#include <algorithm>

#include "base/keyed_hash.h"

namespace tpplan {
namespace {

// Only this many last bytes of a literal are indexed, so the number of globs bounds the size of the index.
constexpr size_t kIndexedBytes = 32;
// Up to this many globs are matched one by one, without the index.
constexpr size_t kFewGlobs = 8;

uint64_t child_key(uint32_t node, char byte) { return uint64_t{node} * 256 + static_cast<unsigned char>(byte); }

std::string_view last_bytes(std::string_view text) {
  return text.substr(text.size() - std::min(text.size(), kIndexedBytes));
}

template <typename F>
void each_text(const Glob& glob, F f) {
  for (const GlobToken& token : glob.tokens) {
    for (const std::string& text : token.texts) {
      if (!text.empty()) f(last_bytes(text));
    }
  }
}

// Returns the literal of a glob that the fewest globs contain, the longest one among equals; empty if the glob has
// none. Every match contains all literals of the glob, so one of them is enough for the index.
std::string_view rarest_text(const Glob& glob, const TextMap<std::string_view, uint32_t>& uses) {
  std::string_view rarest;
  uint32_t least = UINT32_MAX;
  each_text(glob, [&](std::string_view text) {
    const uint32_t count = uses.at(text);
    if (count > least || (count == least && text.size() < rarest.size())) return;
    least = count;
    rarest = text;
  });
  return rarest;
}

// Returns the child of a node; 0, the root, if there is none.
uint32_t child_of(const GlobIndex& index, uint32_t node, char byte) {
  const auto found = index.children.find(child_key(node, byte));
  return found == index.children.end() ? 0 : found->second;
}

uint32_t step_of(const GlobIndex& index, uint32_t node, char byte) {
  for (;;) {
    const uint32_t child = child_of(index, node, byte);
    if (child != 0 || node == 0) return child;
    node = index.nodes[node].fallback;
  }
}

void add_text(GlobIndex& index, uint32_t glob, std::string_view text, std::vector<std::pair<uint32_t, char>>& origins) {
  uint32_t node = 0;
  for (const char byte : text) {
    uint32_t child = child_of(index, node, byte);
    if (child == 0) {
      child = static_cast<uint32_t>(index.nodes.size());
      index.children.emplace(child_key(node, byte), child);
      index.nodes.emplace_back();
      origins.emplace_back(node, byte);
    }
    node = child;
  }
  index.next[glob] = index.nodes[node].first;
  index.nodes[node].first = glob;
}

// Sets the fallbacks in order of depth, because the fallback of a node is always less deep.
void link_nodes(GlobIndex& index, const std::vector<std::pair<uint32_t, char>>& origins) {
  std::vector<std::vector<uint32_t>> by_depth;
  std::vector<uint32_t> depths(index.nodes.size());
  for (uint32_t node = 1; node < index.nodes.size(); ++node) {
    depths[node] = depths[origins[node].first] + 1;
    if (by_depth.size() < depths[node]) by_depth.resize(depths[node]);
    by_depth[depths[node] - 1].push_back(node);
  }
  for (const std::vector<uint32_t>& nodes : by_depth) {
    for (const uint32_t node : nodes) {
      const auto [parent, byte] = origins[node];
      GlobIndexNode& current = index.nodes[node];
      current.fallback = parent == 0 ? 0 : step_of(index, index.nodes[parent].fallback, byte);
      const GlobIndexNode& shorter = index.nodes[current.fallback];
      current.shorter = shorter.first != UINT32_MAX ? current.fallback : shorter.shorter;
    }
  }
}

}  // namespace

GlobIndex index_globs(std::span<const std::string> globs) {
  GlobIndex index;
  index.nodes.emplace_back();
  index.next.resize(globs.size(), UINT32_MAX);
  std::vector<std::pair<uint32_t, char>> origins(1);  // by node: its parent and the byte of the edge
  for (const std::string& glob : globs) index.globs.push_back(parse_glob(glob));
  TextMap<std::string_view, uint32_t> uses;
  for (const Glob& glob : index.globs) each_text(glob, [&uses](std::string_view text) { ++uses[text]; });
  for (uint32_t id = 0; id < index.globs.size(); ++id) {
    const std::string_view text = rarest_text(index.globs[id], uses);
    if (text.empty())
      index.textless.push_back(id);
    else
      add_text(index, id, text, origins);
  }
  link_nodes(index, origins);
  return index;
}

void find_globs(GlobIndex& index, std::string_view text, std::vector<int>& matches) {
  const size_t before = matches.size();
  const auto visit_glob = [&](uint32_t glob) {
    if (matches_glob(index.globs[glob], text)) matches.push_back(static_cast<int>(glob));
  };
  if (index.globs.size() <= kFewGlobs) {
    for (uint32_t glob = 0; glob < index.globs.size(); ++glob) visit_glob(glob);
    return;
  }
  for (const uint32_t glob : index.textless) visit_glob(glob);
  if (++index.questions == 0) {
    for (GlobIndexNode& node : index.nodes) node.last_query = 0;
    index.questions = 1;
  }
  uint32_t at = 0;
  for (const char byte : text) {
    at = step_of(index, at, byte);
    for (uint32_t node = at; node != 0 && index.nodes[node].last_query != index.questions;
         node = index.nodes[node].shorter) {
      index.nodes[node].last_query = index.questions;
      for (uint32_t glob = index.nodes[node].first; glob != UINT32_MAX; glob = index.next[glob]) visit_glob(glob);
    }
  }
  std::sort(matches.begin() + static_cast<std::ptrdiff_t>(before), matches.end());
}

}  // namespace tpplan
