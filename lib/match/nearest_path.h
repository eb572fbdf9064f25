// What a key that matches nothing may have meant.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/model_graph.h"

namespace tpplan {

// Which paths a key is compared with. A key inside a block is relative: the ends of paths are what it can name.
enum class PathsOf : uint8_t { Modules, ModulesAndParameters, Block };

// The last so many parts of all paths.
struct PathEnds {
  struct Candidate {
    size_t paths = 0;
    bool is_whole = true;  // every such path is no longer than this
  };
  std::vector<uint64_t> of_longer;                            // hashes of the ends of longer paths, ascending
  std::map<std::string, Candidate, std::less<>> candidates;   // numbers written as `*`
  std::vector<std::string_view> names;                        // of the candidates
  std::unordered_map<std::string, std::string_view> nearest;  // what was found for a name
};

// What searches for near paths share: what they have read, and what they may still do. A plan of thousands of dead keys
// gets as many hints as the work of a moment yields, and none for the rest.
struct PathHints {
  const ModelGraph& graph;
  uint64_t compared_left = 100'000'000;                      // letters times letters
  uint64_t passed_bytes = 0;                                 // of paths, by passes over all of them
  uint64_t bytes = 0;                                        // of one pass; 0: not counted yet
  std::map<std::pair<PathsOf, size_t>, PathEnds> ends = {};  // by the number of parts
};

// True when one more pass over all paths may be made for a hint.
[[nodiscard]] bool spend_pass(PathHints& hints);

// A help line for a key that matches no path: that the key is the end of longer paths, or the nearest path by spelling
// (numbers written as `*`), with how many there are. Empty when nothing is near, or nobody may look any further.
[[nodiscard]] std::string nearest_path_help(PathHints& hints, std::string_view key, PathsOf paths);

}  // namespace tpplan
