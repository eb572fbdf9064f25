// Keys and paths as the parts between separators, so that those of different notations can be compared.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/model_graph.h"

namespace tpplan {

// `*` for a part that is a number; Keras' "layer_12" is "layer_*".
[[nodiscard]] std::string without_number(std::string_view part, Framework framework);

// What a key is made of, whatever notation it is in: separators of any kind, regular expressions taken for what they
// stand for, without characters that nobody sees.
[[nodiscard]] std::vector<std::string> parts_of_key(std::string_view key, Framework framework);

// A name in small letters, without what joins its words.
[[nodiscard]] std::string folded(std::string_view name);

// Leaves that families and frameworks call differently: weights, embeddings, heads, projections.
[[nodiscard]] bool is_same_leaf(std::string_view a, std::string_view b);

}  // namespace tpplan
