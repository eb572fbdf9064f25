// What a key that matches nothing may have meant.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/model_graph.h"
#include "plan/dialects.h"

namespace tpplan {

// Paths that are alike but for their numbers: "model.layers.*.mlp.up_proj".
struct PathShape {
  std::vector<std::string> parts;  // `*` for a number
  uint64_t paths = 0;
  bool is_parameter = false;
  bool has_parameters = false;  // of its own, or is one
};

// Which paths a key may mean: those of the whole model, or those below a module, relative to it (a block's).
struct PathShapes {
  ModuleId base = kNone;
  std::vector<PathShape> list;  // in file order
};

// What searches for near paths share: what they have read, and what they may still do. A plan of thousands of dead keys
// gets as many hints as the work of a moment yields, and none for the rest.
struct PathHints {
  const ModelGraph& graph;
  uint64_t compared_left = 1'000'000;   // parts times parts
  uint64_t passed_bytes = 0;            // of paths, by passes over all of them
  uint64_t bytes = 0;                   // of one pass; 0: not counted yet
  std::vector<PathShapes> shapes = {};  // by base
};

// True when one more pass over all paths may be made for a hint.
[[nodiscard]] bool spend_pass(PathHints& hints);

// A search for what a key means.
struct HintFor {
  std::string_view key;
  KeySyntax syntax = KeySyntax::Glob;  // of the key, and of what is proposed
  bool parameters = true;              // it may name parameters, not modules alone
  bool needs_parameters = false;       // what it names must have some, or be one: the rule is for parameters
  ModuleId base = kNone;               // it is relative to this module
  size_t bases = 1;                    // and to so many like it: the modules of a block
};

// The nearest key that matches, for all layers at once, in the notation of the search. `key` is empty when nothing is
// near, or nobody may look any further.
struct PathHint {
  std::string key;
  uint64_t paths = 0;   // how many it matches below the base
  bool is_far = false;  // one of its names is another one, not the same misspelt
  std::string change;   // what the two differ in, where that is said in a few words: "`model.` before them"
};
[[nodiscard]] PathHint nearest_key(PathHints& hints, const HintFor& search);

// What there is in the module that a key leads to, where its last name is not one of them: "`layers.*.self_attn` has
// `q_proj`, `k_proj`"; empty where the way there is none either.
[[nodiscard]] std::string names_beside_help(PathHints& hints, const HintFor& search);

// The first parameters of the model as a plan would write them: "`embed.weight`, `layers.*.wq.weight`".
[[nodiscard]] std::string examples_of_paths(PathHints& hints, KeySyntax syntax);

// The path of a module as a plan would write it for all layers.
[[nodiscard]] std::string pattern_of_path(std::string_view path, Framework framework, KeySyntax syntax);

// "did you mean `model.layers.*`? (32 paths)", or empty.
[[nodiscard]] std::string nearest_path_help(PathHints& hints, const HintFor& search);

}  // namespace tpplan
