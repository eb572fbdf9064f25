#include "hf_configs/config_graph.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/text.h"
#include "hf_configs/config_rope.h"
#include "hf_configs/graph_template.h"

namespace tpplan {
namespace {

// The default sizes of traced graphs (tools/python/tpplan/graph/settings.py).
constexpr int64_t kBatch = 2, kSequence = 64;
constexpr std::string_view kFull = "full_attention", kSliding = "sliding_attention";

struct Choice {
  const ConfigFile& config;
  const ConfigSizes& sizes;
  const TemplateFile& file;
  Diagnostics& diagnostics;
  int64_t window = 0;         // size of the attention window; 0: unlimited
  std::vector<bool> sliding;  // by layer
  std::string_view rope;      // its kind of graph
  bool rejected = false;
};

void reject(Choice& c, const JsonNode* node, std::string reason) {
  if (c.rejected) return;
  c.rejected = true;
  report_message(c.diagnostics, Code::NoGraphForConfig,
                 node == nullptr ? Span{c.config.source.id, 0, 1} : value_span(c.config.source.id, *node),
                 fmt::format("the model is written without operations: {}", std::move(reason)),
                 "trace them from the model: python -m tpplan.export --transformers config.json");
}

std::string_view value_text(const JsonNode& node) {
  if (node.kind == JsonKind::Null) return "null";
  if (node.kind == JsonKind::Bool) return node.is_true ? "true" : "false";
  return node.text;
}

bool is_same(const JsonNode& a, const JsonNode& b) {
  if (a.kind != b.kind) return false;
  return a.kind == JsonKind::Integer ? a.integer == b.integer : value_text(a) == value_text(b);
}

std::string shown(const JsonNode& node) {
  if (node.kind == JsonKind::Integer) return fmt::format("{}", node.integer);
  if (node.kind == JsonKind::Array || node.kind == JsonKind::Object) return std::string(json_kind_name(node.kind));
  return std::string(value_text(node));
}

std::optional<int64_t> parse_integer(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Checks fields that operations depend on and that were equal in all traced models.
void check_fixed(Choice& c) {
  const JsonTree& fixed = c.file.members.at("fixed");
  for (uint32_t at = 1; at < fixed.nodes.size(); at = fixed.nodes[at].end) {
    const JsonTree* own = find_tree(c.config, fixed.nodes[at].key);
    if (own == nullptr || is_same(own->nodes[0], fixed.nodes[at])) continue;
    reject(c, &own->nodes[0],
           fmt::format("`{}` is {}, but was {} in the traced models", fixed.nodes[at].key, shown(own->nodes[0]),
                       shown(fixed.nodes[at])));
  }
}

// Rejects counts with which transformers cannot build or run the model: no graph could have been traced.
void check_counts(Choice& c, TemplateFields& fields, std::deque<std::string>& kept) {
  const auto number = [&](std::string_view key, int64_t otherwise) {
    const auto field = fields.numbers.find(key);
    return field == fields.numbers.end() || field->second.empty() ? otherwise
                                                                  : parse_integer(field->second).value_or(INT64_MIN);
  };
  if (const int64_t chosen = number("num_experts_per_tok", 1);
      c.sizes.experts > 0 && (chosen < 1 || chosen > c.sizes.experts))
    reject(c, find_field(c.config, "num_experts_per_tok"),
           fmt::format("{} experts per token are out of range: the model has {}",
                       fields.numbers.at("num_experts_per_tok"), c.sizes.experts));
  const int64_t padding = number("pad_token_id", 0);
  if (padding < 0 && padding >= -c.sizes.vocab)  // counted from the last token (torch.nn.Embedding)
    fields.numbers["pad_token_id"] = kept.emplace_back(fmt::format("{}", c.sizes.vocab + padding));
  else if (padding < 0 || padding >= c.sizes.vocab)
    reject(c, find_field(c.config, "pad_token_id"),
           fmt::format("`pad_token_id` is {}, but the vocabulary has {} tokens", fields.numbers.at("pad_token_id"),
                       c.sizes.vocab));
}

// Adds the fields of rope to the numbers, sizes and lists of the template.
void read_rope_fields(Choice& c, TemplateFields& fields, std::deque<std::string>& kept) {
  const auto max_position = fields.numbers.find("max_position_embeddings");
  const int64_t longest = max_position == fields.numbers.end() ? 0 : parse_integer(max_position->second).value_or(0);
  RopeGraph rope;
  if (const auto fault = read_rope(c.config, c.sizes, c.file.members.at("rope"), longest, kSequence, rope))
    return reject(c, fault->node, fault->reason);
  c.rope = rope.kind;
  fields.numbers["attention_scaling"] = kept.emplace_back(rope.attention_scaling);
  if (rope.original_max_position) {
    fields.sizes["original_max_position_embeddings"] = *rope.original_max_position;
    fields.numbers["rope_theta"] = kept.emplace_back(rope.theta);
    fields.lists["long_factor"] = kept.emplace_back(rope.long_factor);
  }
}

void read_window(Choice& c) {
  const JsonTree& window = c.file.members.at("window");
  if (window.nodes[0].kind != JsonKind::Object) return;
  const auto member = [&window](std::string_view key) -> const JsonNode& {
    return window.nodes[find_json_field(window, 0, key)];
  };
  if (!flag_field(c.config, "use_sliding_window", member("is_used").is_true, c.diagnostics)) return;
  constexpr std::string_view kKey = "sliding_window";
  c.window = integer_field(c.config, kKey, 1, has_field(c.config, kKey) ? 0 : member("size").integer, c.diagnostics);
}

// Sets which layers have a sliding window (Qwen2Config.__post_init__, Gemma2Config.__post_init__).
void read_layer_types(Choice& c) {
  const JsonNode& rule = c.file.members.at("layer_types").nodes[0];
  c.sliding.assign(static_cast<size_t>(c.sizes.layers), false);
  if (rule.kind != JsonKind::String) return;
  const JsonTree* tree = find_tree(c.config, "layer_types");
  if (tree == nullptr || tree->nodes[0].kind == JsonKind::Null) {
    const JsonTree& window = c.file.members.at("window");
    const int64_t first = integer_field(c.config, "max_window_layers", 0,
                                        window.nodes[find_json_field(window, 0, "first_layer")].integer, c.diagnostics);
    const bool alternate = rule.text == "alternating";
    for (int64_t i = 0; i < c.sizes.layers; ++i)
      c.sliding[static_cast<size_t>(i)] = alternate ? i % 2 == 0 : c.window > 0 && i >= first;
    return;
  }
  if (tree->nodes[0].kind != JsonKind::Array || tree->nodes.size() != c.sliding.size() + 1)
    return reject(c, &tree->nodes[0], fmt::format("`layer_types` is not a list of {} types", c.sizes.layers));
  for (size_t i = 0; i < c.sliding.size(); ++i) {
    const JsonNode& type = tree->nodes[i + 1];
    if (type.text != kFull && type.text != kSliding)
      return reject(c, &type, fmt::format("layers of the type `{}` are not traced", shown(type)));
    c.sliding[i] = type.text == kSliding;
  }
}

std::string_view which(size_t some, size_t all, std::string_view some_name, std::string_view other_name) {
  return some == 0 ? other_name : some == all ? some_name : std::string_view("both");
}

size_t count_sparse(const Choice& c) {
  size_t sparse = 0;
  for (int64_t i = 0; i < c.sizes.layers; ++i) sparse += has_experts(c.sizes, i);
  return sparse;
}

// True if the config meets one `condition` of a traced graph.
bool fits(Choice& c, const JsonNode& condition) {
  const std::string_view key = condition.key;
  if (key == "grouped") return condition.is_true == (c.sizes.heads.num_heads != c.sizes.heads.num_kv_heads);
  if (key == "rope") return condition.text == c.rope;
  if (key == "window") return condition.is_true == (c.window > 0);
  if (key == "types") {
    const auto sliding = static_cast<size_t>(std::ranges::count(c.sliding, true));
    return condition.text == which(sliding, c.sliding.size(), "sliding", "full");
  }
  if (key == "mixed") return condition.text == which(count_sparse(c), c.sliding.size(), "sparse", "dense");
  if (key.ends_with('?')) {
    const std::string_view name = key.substr(0, key.size() - 1);
    return condition.is_true == (!has_field(c.config, name) || find_field(c.config, name) != nullptr);
  }
  const JsonTree& flags = c.file.members.at("flags");
  return condition.is_true ==
         flag_field(c.config, key, flags.nodes[find_json_field(flags, 0, key)].is_true, c.diagnostics);
}

// Returns the name of a layer's kind in the graph, such as "full sparse".
std::string kind_of(const Choice& c, size_t layer, bool by_type, bool by_part) {
  std::string kind = by_type ? (c.sliding[layer] ? "sliding" : "full") : "";
  if (by_part)
    kind += fmt::format("{}{}", kind.empty() ? "" : " ",
                        has_experts(c.sizes, static_cast<int64_t>(layer)) ? "sparse" : "dense");
  return kind;
}

bool choose(Choice& c, TemplateGraph& chosen) {
  const JsonTree& graphs = c.file.members.at("graphs");
  for (uint32_t row = 1; row < graphs.nodes.size(); row = graphs.nodes[row].end) {
    const uint32_t when = find_json_field(graphs, row, "when");
    bool all = true;
    for (uint32_t at = when + 1; all && at < graphs.nodes[when].end; at = graphs.nodes[at].end)
      all = fits(c, graphs.nodes[at]);
    if (!all) continue;
    chosen.head = graphs.nodes[find_json_field(graphs, row, "head")].text;
    chosen.tail = graphs.nodes[find_json_field(graphs, row, "tail")].text;
    const uint32_t layers = find_json_field(graphs, row, "layers");
    const bool by_type = find_json_field(graphs, when, "types") != 0,
               by_part = find_json_field(graphs, when, "mixed") != 0;
    for (size_t i = 0; i < c.sliding.size(); ++i) {
      const uint32_t layer = find_json_field(graphs, layers, kind_of(c, i, by_type, by_part));
      auto& [block, taken] = chosen.layers.emplace_back();
      block = graphs.nodes[layer + 1].text;
      for (uint32_t at = layer + 3; at < graphs.nodes[layer].end; ++at) taken.push_back(graphs.nodes[at].text);
    }
    return true;
  }
  return false;
}

// Returns the lowest finite number of a dtype, with which masks are filled.
std::string_view least_number(std::string_view dtype) {
  constexpr std::pair<std::string_view, std::string_view> kLeast[] = {{"bfloat16", "-3.3895313892515355e+38"},
                                                                      {"float16", "-65504.0"},
                                                                      {"float32", "-3.4028234663852886e+38"},
                                                                      {"float64", "-1.7976931348623157e+308"}};
  const auto* row = std::ranges::find(kLeast, dtype, &std::pair<std::string_view, std::string_view>::first);
  return row == std::end(kLeast) ? std::string_view{} : row->second;
}

// Reads the numeric fields that are not sizes, as the config writes them (default: the family's value).
void read_numbers(Choice& c, TemplateFields& fields, std::deque<std::string>& kept) {
  const JsonTree& numbers = c.file.members.at("numbers");
  for (uint32_t at = 1; at < numbers.nodes.size(); at = numbers.nodes[at].end) {
    const JsonNode& otherwise = numbers.nodes[at];
    const JsonTree* own = find_tree(c.config, otherwise.key);
    const JsonNode& node = own == nullptr ? otherwise : own->nodes[0];
    const bool is_number = node.kind == JsonKind::Integer || node.kind == JsonKind::Number;
    if (!is_number && node.kind != JsonKind::Null) {
      reject(c, &node, fmt::format("`{}` is {}, not a number", otherwise.key, json_kind_name(node.kind)));
      continue;
    }
    fields.numbers[otherwise.key] = node.kind == JsonKind::Null ? std::string_view{} : kept.emplace_back(shown(node));
  }
  fields.numbers["least"] = least_number(fields.dtype);
}

TemplateFields read_fields(Choice& c, std::deque<std::string>& kept) {
  const ConfigSizes& s = c.sizes;
  TemplateFields fields{.sizes = {{"vocab_size", s.vocab},
                                  {"hidden_size", s.hidden},
                                  {"intermediate_size", s.intermediate},
                                  {"num_attention_heads", s.heads.num_heads},
                                  {"num_key_value_heads", s.heads.num_kv_heads},
                                  {"head_dim", s.heads.head_dim},
                                  {"rotary_dim", s.rotated},
                                  {"num_experts", s.experts},
                                  {"moe_intermediate_size", s.expert},
                                  {"shared_expert_intermediate_size", s.shared},
                                  {"batch", kBatch},
                                  {"sequence", kSequence}},
                        .numbers = {},
                        .lists = {},
                        .dtype = dtypes()[s.dtype].name,
                        .activation = s.activation,
                        .batch = kBatch,
                        .sequence = kSequence};
  if (c.window > 0) fields.sizes.emplace("sliding_window", c.window);
  read_numbers(c, fields, kept);
  read_rope_fields(c, fields, kept);
  return fields;
}

}  // namespace

std::string config_graph(const ConfigFile& config, const ConfigSizes& sizes, const ModelGraph& model,
                         Diagnostics& diagnostics) {
  TemplateFile file;
  Choice c{.config = config, .sizes = sizes, .file = file, .diagnostics = diagnostics};
  const JsonNode* family = find_field(config, "model_type");
  if (!read_template(sizes.family, file)) return reject(c, family, "no graph of its family is traced"), std::string{};
  check_fixed(c);
  read_window(c);
  read_layer_types(c);
  std::deque<std::string> kept;
  TemplateFields fields = read_fields(c, kept);
  check_counts(c, fields, kept);
  TemplateGraph graph;
  if (c.rejected || has_errors(diagnostics)) return {};
  if (!choose(c, graph)) reject(c, family, "this combination of its flags is not traced");
  if (c.rejected || has_errors(diagnostics)) return {};
  std::string fault;
  const auto made = fill_template(file, graph, fields, model, fault);
  if (!made) reject(c, family, fault);
  return made.value_or("");
}

}  // namespace tpplan
