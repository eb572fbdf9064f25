#include "hf_configs/config_rope.h"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <charconv>
#include <cmath>

#include "hf_configs/template_number.h"

namespace tpplan {
namespace {

struct Rope {
  const ConfigFile& config;
  const JsonTree* tree = nullptr;  // its dictionary in the config
  std::optional<RopeError> fault = {};
};

// The fields that transformers requires for each rope type (RotaryEmbeddingConfigMixin of modeling_rope_utils.py). The
// original length is not among them: it defaults to the maximum length of the model.
struct RopeType {
  std::string_view name;
  std::array<std::string_view, 3> required;
};
constexpr RopeType kTypes[] = {{"linear", {"factor"}},
                               {"dynamic", {"factor"}},
                               {"yarn", {"factor"}},
                               {"llama3", {"factor", "low_freq_factor", "high_freq_factor"}},
                               {"longrope", {"short_factor", "long_factor"}}};

void reject_rope(Rope& r, const JsonNode* node, std::string reason) {
  if (!r.fault) r.fault = RopeError{.node = node, .reason = std::move(reason)};
}

const JsonNode* rope_field(const Rope& r, std::string_view key) {
  const uint32_t at = r.tree == nullptr ? 0 : find_json_field(*r.tree, 0, key);
  return at == 0 || r.tree->nodes[at].kind == JsonKind::Null ? nullptr : &r.tree->nodes[at];
}

std::string written_number(const JsonNode& node) {
  return node.kind == JsonKind::Integer ? fmt::format("{}", node.integer) : std::string(node.text);
}

// Returns the number of a field; `otherwise` if the field is missing. Rejects a value that is no number.
std::optional<double> rope_number(Rope& r, const JsonNode* node, std::optional<double> otherwise = {}) {
  if (node == nullptr) return otherwise;
  if (node->kind == JsonKind::Integer) return static_cast<double>(node->integer);
  double value = 0;
  if (node->kind == JsonKind::Number &&
      std::from_chars(node->text.data(), node->text.data() + node->text.size(), value).ec == std::errc())
    return value;
  reject_rope(r, node, fmt::format("`{}` of rope is not a number", node->key));
  return otherwise;
}

// As _compute_yarn_parameters of modeling_rope_utils.py.
double yarn_scaling(Rope& r, double factor) {
  const auto scale = [factor](double by) { return factor <= 1 ? 1.0 : 0.1 * by * std::log(factor) + 1.0; };
  const double numerator = rope_number(r, rope_field(r, "mscale"), 0).value_or(0);
  const double denominator = rope_number(r, rope_field(r, "mscale_all_dim"), 0).value_or(0);
  return numerator != 0 && denominator != 0 ? scale(numerator) / scale(denominator) : scale(1);
}

// Returns the factor that scales cosines and sines.
std::string read_scaling(Rope& r, std::string_view type, double original, double max_position) {
  if (type != "yarn" && type != "longrope") return "1.0";
  if (const JsonNode* node = rope_field(r, "attention_factor"))
    return (void)rope_number(r, node), written_number(*node);
  const double factor = rope_number(r, rope_field(r, "factor"), max_position / original).value_or(1);
  const double scaling = type == "yarn" ? yarn_scaling(r, factor)
                         : factor <= 1  ? 1.0
                                        : std::sqrt(1 + std::log(factor) / std::log(original));
  if (!std::isfinite(scaling)) reject_rope(r, r.tree->nodes.data(), "the scaling of its rope is not a number");
  return float_text(scaling);
}

// Returns a field with `count` numbers as a JSON argument of an operation.
std::string number_list(Rope& r, std::string_view key, int64_t count) {
  const JsonNode* node = rope_field(r, key);
  if (node == nullptr || node->kind != JsonKind::Array)
    return reject_rope(r, node, fmt::format("`{}` of rope is not a list", key)), std::string();
  const auto first = static_cast<uint32_t>(node - r.tree->nodes.data());
  std::string text = "[\"t\"";
  int64_t found = 0;
  for (uint32_t at = first + 1; at < node->end; at = r.tree->nodes[at].end, ++found) {
    (void)rope_number(r, &r.tree->nodes[at]);
    text += "," + written_number(r.tree->nodes[at]);
  }
  if (found != count)
    reject_rope(r, node, fmt::format("`{}` of rope has {} numbers, but rotates {} pairs of dims", key, found, count));
  return text + "]";
}

// True if the family's templates list `type` under a kind of graph.
bool is_listed(const JsonTree& known, std::string_view kind, std::string_view type) {
  const uint32_t list = find_json_field(known, 0, kind);
  for (uint32_t at = list + 1; at < known.nodes[list].end; ++at) {
    if (known.nodes[at].text == type) return true;
  }
  return false;
}

// Returns the rope dictionary of the config: `rope_scaling` if it is not empty, else `rope_parameters`
// (convert_rope_params_to_dict).
const JsonTree* find_rope(const ConfigFile& config) {
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    const JsonTree* tree = find_tree(config, key);
    if (tree != nullptr && tree->nodes[0].kind == JsonKind::Object && tree->nodes.size() > 1) return tree;
  }
  return nullptr;
}

std::string_view rope_type_of(Rope& r) {
  for (const std::string_view types : {"full_attention", "sliding_attention"}) {
    if (const JsonNode* node = rope_field(r, types))
      reject_rope(r, node, "a separate rope for each layer type is not traced");
  }
  for (const std::string_view name : {"rope_type", "type"}) {
    const JsonNode* node = rope_field(r, name);
    if (node == nullptr) continue;
    if (node->kind == JsonKind::String) return node->text;
    reject_rope(r, node,
                fmt::format("rope of type `{}` is not traced",
                            node->kind == JsonKind::Integer ? written_number(*node) : json_kind_name(node->kind)));
  }
  return "default";
}

void check_rope_fields(Rope& r, std::string_view type) {
  for (const RopeType& row : kTypes) {
    if (row.name != type) continue;
    for (const std::string_view key : row.required) {
      if (!key.empty() && find_json_field(*r.tree, 0, key) == 0)
        reject_rope(r, r.tree->nodes.data(), fmt::format("rope of type `{}` has no `{}`", type, key));
    }
  }
}

}  // namespace

std::optional<RopeError> read_rope(const ConfigFile& config, const ConfigSizes& sizes, const JsonTree& known,
                                   int64_t max_position, int64_t sequence, RopeGraph& rope) {
  Rope r{.config = config, .tree = find_rope(config)};
  const auto about = [&known](std::string_view key) -> const JsonNode& {
    return known.nodes[find_json_field(known, 0, key)];
  };
  std::string_view type = rope_type_of(r);
  if (is_listed(known, "longrope", type)) rope.kind = type = "longrope";
  const JsonNode* place =
      r.tree == nullptr ? nullptr : rope_field(r, rope_field(r, "rope_type") ? "rope_type" : "type");
  if (rope.kind == "static" && !is_listed(known, "static", type))
    reject_rope(r, place, fmt::format("rope of type `{}` is not traced", type));
  check_rope_fields(r, type);
  if (type == "dynamic" && sequence > max_position)
    reject_rope(r, place,
                fmt::format("a dynamic rope changes beyond {} tokens, but the step has {}", max_position, sequence));
  if (!about("turns_a_part").is_true && sizes.rotated != sizes.heads.head_dim)
    reject_rope(r, place,
                fmt::format("rope rotates {} dims of {}, but its traced operations rotate all", sizes.rotated,
                            sizes.heads.head_dim));
  if (rope.kind != "static" && about("longrope_has_one_head_size").is_true &&
      sizes.heads.num_heads * sizes.heads.head_dim != sizes.hidden)
    reject_rope(r, place, "with longrope the head size must be `hidden_size` divided by the number of heads");
  const JsonNode* original = find_field(config, "original_max_position_embeddings");
  if (original == nullptr) original = about("original").kind == JsonKind::Integer ? &about("original") : nullptr;
  if (original == nullptr) original = rope_field(r, "original_max_position_embeddings");
  const double trained = rope_number(r, original, static_cast<double>(max_position)).value_or(1);
  rope.attention_scaling = read_scaling(r, type, trained, static_cast<double>(max_position));
  if (rope.kind == "static" || r.fault) return r.fault;
  if (original != nullptr && original->kind != JsonKind::Integer)
    reject_rope(r, original, "`original_max_position_embeddings` is not a whole number");
  rope.original_max_position = original == nullptr ? max_position : original->integer;
  const JsonNode* theta = rope_field(r, "rope_theta");
  if (theta == nullptr) theta = find_field(config, about("theta_key").text);
  if (theta == nullptr) theta = &about("theta");
  (void)rope_number(r, theta);
  rope.theta = written_number(*theta);
  (void)number_list(r, "short_factor", sizes.rotated / 2);
  rope.long_factor = number_list(r, "long_factor", sizes.rotated / 2);
  return r.fault;
}

}  // namespace tpplan
