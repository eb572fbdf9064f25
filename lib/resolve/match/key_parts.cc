#include "resolve/match/key_parts.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "base/text.h"
#include "model/attention_names.h"
#include "model/mlp_names.h"

namespace tpplan {
namespace {

// Returns the length of the name before a Keras layer number, as in "layer_12"; npos if there is no number.
size_t numbered_stem(std::string_view part) {
  const size_t stem = part.find_last_not_of("0123456789");
  return stem != std::string_view::npos && stem + 1 < part.size() && part[stem] == '_' ? stem + 1
                                                                                       : std::string_view::npos;
}

// Groups of synonymous leaf names, as bits, because a name may be in several groups.
enum LeafGroup : uint8_t { kWeightLeaf = 1, kEmbeddingLeaf = 2, kHeadLeaf = 4, kNormLeaf = 8 };
struct LeafName {
  std::string_view name;
  uint8_t groups;
};
constexpr LeafName kLeafNames[] = {
    {"weight", kWeightLeaf},
    {"weights", kWeightLeaf},
    {"kernel", kWeightLeaf},
    {"kernels", kWeightLeaf},
    {"embeddings", kWeightLeaf | kEmbeddingLeaf},
    {"embedding", kWeightLeaf},
    {"embed_tokens", kEmbeddingLeaf},
    {"tok_embeddings", kEmbeddingLeaf},
    {"word_embeddings", kEmbeddingLeaf},
    {"token_embedding", kEmbeddingLeaf},
    {"wte", kEmbeddingLeaf},
    {"embed", kEmbeddingLeaf},
    {"embed_in", kEmbeddingLeaf},
    {"shared", kEmbeddingLeaf},
    {"lm_head", kHeadLeaf},
    {"head", kHeadLeaf},
    {"output", kHeadLeaf},
    {"output_layer", kHeadLeaf},
    {"unembed", kHeadLeaf},
    {"embed_out", kHeadLeaf},
    {"norm", kNormLeaf},
    {"ln_f", kNormLeaf},
    {"norm_f", kNormLeaf},
    {"final_norm", kNormLeaf},
    {"final_layernorm", kNormLeaf},
    {"final_layer_norm", kNormLeaf},
};

uint8_t groups_of(std::string_view name) {
  const auto* row = std::ranges::find(kLeafNames, name, &LeafName::name);
  return row == std::end(kLeafNames) ? uint8_t{0} : row->groups;
}

// Forms of "any number" in other notations, ordered so that a longer form precedes its prefix.
constexpr std::string_view kAnyNumber[] = {"[0-9]+", "[0-9]*", "(\\d+)", "\\d+", "\\d*", "{i}", "{}", ".*", ".+"};

// Returns the length of the separator at the start of a text, 0 if there is none. Separators are `.`, `/`, `\.`, `:`,
// `\`, and the brackets of Python's `['x']` and `[0]`.
size_t take_separator(std::string_view rest) {
  for (const std::string_view form : {"\\.", "\\/", "['", "[\"", "']", "\"]", "/", ".", ":"}) {
    if (rest.starts_with(form)) return form.size();
  }
  const auto is_word = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '*' || c == '_'; };
  if (rest[0] == '\\' && rest.size() > 2 && is_word(rest[1]) && is_word(rest[2])) return 1;
  const size_t end = rest.find(']');
  const bool is_index = rest[0] == '[' && end != std::string_view::npos && is_digits(rest.substr(1, end - 1));
  const bool ends_index = rest == "]" || rest.starts_with("].") || rest.starts_with("][");
  return is_index || ends_index ? 1 : 0;
}

}  // namespace

std::string without_number(std::string_view part, Framework framework) {
  if (is_digits(part)) return "*";
  const size_t stem = framework == Framework::Keras ? numbered_stem(part) : std::string_view::npos;
  return stem == std::string_view::npos ? std::string(part) : std::string(part.substr(0, stem)) + '*';
}

std::vector<std::string> parts_of_key(std::string_view key, Framework framework) {
  std::string plain;
  for (size_t i = 0; i < key.size();) {
    const std::string_view rest = key.substr(i);
    const auto* any = std::find_if(std::begin(kAnyNumber), std::end(kAnyNumber),
                                   [rest](std::string_view form) { return rest.starts_with(form); });
    // In a glob, `.*` is a separator and a star.
    const bool is_regex = any != std::end(kAnyNumber) &&
                          (!any->starts_with('.') || i == 0 || key[i - 1] == '.' || key[i - 1] == '/' ||
                           rest.substr(any->size()).starts_with('\\') || rest.substr(any->size()).starts_with('/'));
    if (is_regex) {
      plain += '*';
      i += any->size();
    } else if (const size_t taken = take_separator(rest); taken > 0) {
      plain += '.';
      i += taken;
    } else {
      const size_t length = std::max<size_t>(1, utf8_length(rest));
      const bool is_seen = length == 1 ? std::string_view("^$ \\\"'").find(key[i]) == std::string_view::npos
                                       : !is_invisible(code_point(rest.substr(0, length)));
      if (is_seen) plain += rest.substr(0, length);
      i += length;
    }
  }
  std::vector<std::string> parts;
  for (const std::string_view part : split(plain, '.')) {
    if (!part.empty()) parts.push_back(part == "N" || part == "i" ? "*" : without_number(part, framework));
  }
  return parts;
}

std::string fold_name(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (c != '_' && c != '-') text += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  return text;
}

bool is_same_leaf(std::string_view a, std::string_view b) {
  if ((groups_of(a) & groups_of(b)) != 0) return true;
  const HeadRole head = role_of(a);
  if (head != HeadRole::None || role_of(b) != HeadRole::None) return head == role_of(b);
  const MlpRole mlp = mlp_role({}, a);
  return mlp != MlpRole::None && mlp == mlp_role({}, b);
}

}  // namespace tpplan
