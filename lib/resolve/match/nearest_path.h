// Suggestions for a key that matches nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/model_graph.h"
#include "plan/dialects.h"
#include "resolve/match/match_table.h"

namespace tpplan {

// Paths that differ only in their numbers: "model.layers.*.mlp.up_proj".
struct PathShape {
  std::vector<std::string> parts;  // `*` for a number
  uint64_t paths = 0;
  bool is_parameter = false;
  bool has_parameters = false;  // the path is a parameter, or a module that owns one
  bool is_free = false;         // it has a parameter without a rule, or no parameters
};

// Candidate paths of a key: all paths of the model, or the paths below a module of a block, relative to it.
struct PathShapes {
  ModuleId base = kNone;
  std::vector<PathShape> list;  // in file order
};

// The cache and the remaining work budget of searches for near paths. A plan with thousands of dead keys gets hints
// until the budget is used up.
struct PathHints {
  const ModelGraph& graph;
  const MatchTable* matches = nullptr;    // the rules of parameters; nullptr: not known yet
  uint64_t comparisons_left = 1'000'000;  // remaining comparisons of two parts
  uint64_t passed_bytes = 0;              // bytes of paths read by all passes so far
  uint64_t bytes = 0;                     // bytes of one pass over all paths; 0: not computed yet
  std::vector<PathShapes> shapes = {};    // by base
};

// Charges one pass over all paths to the budget. True if the budget allows it.
[[nodiscard]] bool charge_pass(PathHints& hints);

// A search for the paths that a key may mean.
struct PathSearch {
  std::string_view key;
  KeySyntax syntax = KeySyntax::Glob;  // of the key and of the hint
  bool parameters = true;              // the key may name parameters; false: modules only
  bool needs_parameters = false;       // the named path must be or own a parameter, because the rule shards parameters
  ModuleId base = kNone;               // module that the key is relative to
  size_t bases = 1;                    // modules of the block, each a base of the key
};

// The nearest key that matches, for all layers, in the syntax of the search. If the rule needs parameters, only paths
// that no other rule covers: a module with a rule is not the one that is meant. `key` is empty if no path is near, or
// if the budget is used up.
struct PathHint {
  std::string key;
  uint64_t paths = 0;   // count of matches below the base
  bool is_far = false;  // a part differs by more than spelling
  std::string change;   // the difference as a short text, such as "`model.` before them"; may be empty
};
[[nodiscard]] PathHint nearest_key(PathHints& hints, const PathSearch& search);

// Returns the children of the module that a key's path reaches, if only the last part is unknown: "`layers.*.self_attn`
// has `q_proj`, `k_proj`". Empty if the module does not exist either.
[[nodiscard]] std::string nearby_names_help(PathHints& hints, const PathSearch& search);

// Returns the first parameters of the model as keys of a plan: "`embed.weight`, `layers.*.wq.weight`".
[[nodiscard]] std::string examples_of_paths(PathHints& hints, KeySyntax syntax);

// Returns the key of a plan for the path of a module in all layers.
[[nodiscard]] std::string pattern_of_path(std::string_view path, Framework framework, KeySyntax syntax);

// Returns "did you mean `model.layers.*`? (32 paths)", or an empty text.
[[nodiscard]] std::string nearest_path_help(PathHints& hints, const PathSearch& search);

}  // namespace tpplan
