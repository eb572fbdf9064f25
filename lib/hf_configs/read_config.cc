#include "hf_configs/read_config.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "base/read_file.h"
#include "base/text.h"

namespace tpplan {
namespace {

void wrong_field(const ConfigFile& config, Diagnostics& diagnostics, const JsonNode& node, std::string message) {
  report_message(diagnostics, Code::InvalidConfigField, value_span(config.source.id, node), std::move(message),
                 "give a config.json as transformers writes it");
}

struct PythonNumber {
  std::string_view word, number;
};

// Numbers that Python writes and JSON lacks, and replacements of equal length, so that offsets do not change.
constexpr PythonNumber kPythonNumbers[] = {{"Infinity", "1.7e+308"}, {"NaN", "0.0"}};

// Replaces such numbers outside of strings.
std::string as_json(std::string text) {
  bool quoted = false;
  for (size_t at = 0; at < text.size(); ++at) {
    if (quoted && text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      quoted = !quoted;
    } else if (!quoted) {
      for (const auto& [word, number] : kPythonNumbers) {
        if (std::string_view(text).substr(at).starts_with(word)) text.replace(at, word.size(), number);
      }
    }
  }
  return text;
}

}  // namespace

// Stores every field as a separate tree, because the builder looks up fields by name in any order.
bool read_config(const std::string& path, ConfigFile& config, Diagnostics& diagnostics) {
  ReadResult result = read_file(path, kMaxConfigBytes);
  config.source = std::move(result.file);
  if (result.fault != ReadError::None) {
    const bool large = result.fault == ReadError::TooLarge;
    report_message(diagnostics, large ? Code::FileTooLarge : Code::FileUnreadable, {config.source.id, 0, 0},
                   large ? "the config is larger than 4 MiB" : fmt::format("cannot read the file: {}", result.reason));
    return false;
  }
  config.read = {config.source.name, as_json(config.source.text), config.source.id};
  const JsonVisitor visitor{.member = [](std::string_view, Span) { return JsonField::Whole; },
                            .value =
                                [&](std::string_view, const JsonTree& tree) {
                                  config.members.push_back(tree);
                                  return true;
                                },
                            .kind_help = "give the config.json next to a model's weights"};
  constexpr size_t kMaxValues = size_t{256} << 10;  // some configs contain vocabularies
  return read_json(config.read, visitor, config.strings, diagnostics,
                   {.keys_per_object = kMaxValues, .tree_nodes = kMaxValues});
}

const JsonTree* find_tree(const ConfigFile& config, std::string_view key) {
  const auto found =
      std::ranges::find_if(config.members, [key](const JsonTree& tree) { return tree.nodes[0].key == key; });
  return found == config.members.end() ? nullptr : &*found;
}

bool has_field(const ConfigFile& config, std::string_view key) { return find_tree(config, key) != nullptr; }

const JsonNode* find_field(const ConfigFile& config, std::string_view key) {
  const JsonTree* tree = find_tree(config, key);
  return tree == nullptr || tree->nodes[0].kind == JsonKind::Null ? nullptr : &tree->nodes[0];
}

int64_t integer_field(const ConfigFile& config, std::string_view key, int64_t least, int64_t otherwise,
                      Diagnostics& diagnostics) {
  const JsonNode* node = find_field(config, key);
  if (node == nullptr) return otherwise;
  if (node->kind == JsonKind::Integer && node->integer >= least && node->integer <= kMaxConfigSize)
    return node->integer;
  const std::string found = node->kind == JsonKind::Integer  ? std::to_string(node->integer)
                            : node->kind == JsonKind::Number ? std::string(node->text)
                                                             : std::string(json_kind_name(node->kind));
  wrong_field(config, diagnostics, *node,
              fmt::format("`{}` is {}, not a whole number from {} to {}", key, found, least, kMaxConfigSize));
  return otherwise;
}

int64_t required_field(const ConfigFile& config, std::string_view key, int64_t least, Diagnostics& diagnostics) {
  if (find_field(config, key) != nullptr) return integer_field(config, key, least, 0, diagnostics);
  const JsonTree* null = find_tree(config, key);
  report_message(diagnostics, Code::InvalidConfigField,
                 null == nullptr ? Span{config.source.id, 0, 1} : value_span(config.source.id, null->nodes[0]),
                 null == nullptr ? fmt::format("the config has no `{}`", key) : fmt::format("`{}` is null", key),
                 "add it: model sizes are never guessed");
  return 0;
}

bool flag_field(const ConfigFile& config, std::string_view key, bool otherwise, Diagnostics& diagnostics) {
  const JsonNode* node = find_field(config, key);
  if (node == nullptr) return otherwise;
  if (node->kind == JsonKind::Bool) return node->is_true;
  wrong_field(config, diagnostics, *node,
              fmt::format("`{}` is {}, not true or false", key, json_kind_name(node->kind)));
  return otherwise;
}

std::string_view text_field(const ConfigFile& config, std::string_view key, std::string_view otherwise,
                            Diagnostics& diagnostics) {
  const JsonNode* node = find_field(config, key);
  if (node == nullptr) return otherwise;
  if (node->kind == JsonKind::String) return node->text;
  wrong_field(config, diagnostics, *node, fmt::format("`{}` is {}, not a string", key, json_kind_name(node->kind)));
  return otherwise;
}

// Other names of fields, by families of transformers and by older checkpoints.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"num_attention_heads", "n_head"},   // GPT-2, BLOOM
    {"num_attention_heads", "n_heads"},  // MPT, OLMo
    {"num_attention_heads", "num_heads"},
    {"num_key_value_heads", "num_kv_heads"},  // Falcon
    {"num_key_value_heads", "n_kv_heads"},
    {"num_key_value_heads", "n_head_kv"},
    {"hidden_size", "n_embd"},   // GPT-2
    {"hidden_size", "n_embed"},  // BLOOM
    {"hidden_size", "d_model"},  // T5, MPT
};

// Returns the name that the config uses for a field; the name itself if it has none of the others.
std::string_view name_in(const ConfigFile& config, std::string_view key) {
  if (has_field(config, key)) return key;
  for (const auto& [field, other] : kOtherNames) {
    if (field == key && has_field(config, other)) return other;
  }
  return key;
}

// True if all heads share one key and value head, whatever the number of key-value heads in the config: GPTBigCode and
// Falcon-7B. Falcon's newer architecture ignores `multi_query` (transformers, FalconAttention).
bool is_multi_query(const ConfigFile& config, Diagnostics& diagnostics) {
  return flag_field(config, "multi_query", false, diagnostics) &&
         !flag_field(config, "new_decoder_architecture", false, diagnostics);
}

// A null key differs from a missing one: null means the number of heads (and hidden_size / heads), a missing key the
// default of the family's config class.
ModuleAttributes read_heads(const ConfigFile& config, int64_t kv_default, int64_t head_dim_default,
                            Diagnostics& diagnostics) {
  ModuleAttributes heads;
  const auto fault = [&](std::string_view key, std::string message) {
    const JsonNode* node = find_field(config, key);
    report_message(diagnostics, Code::InvalidConfigField,
                   node == nullptr ? Span{config.source.id, 0, 1} : value_span(config.source.id, *node),
                   std::move(message));
    return ModuleAttributes{};
  };
  heads.num_heads = required_field(config, name_in(config, "num_attention_heads"), 1, diagnostics);
  if (heads.num_heads == 0) return {};
  constexpr std::string_view kHeadDim = "head_dim";
  const std::string_view kv_name = name_in(config, "num_key_value_heads"), hidden_name = name_in(config, "hidden_size");
  const auto or_default = [&](std::string_view key, int64_t otherwise) {
    return has_field(config, key) ? 0 : otherwise;
  };
  heads.num_kv_heads = integer_field(config, kv_name, 1, or_default(kv_name, kv_default), diagnostics);
  if (heads.num_kv_heads == 0) heads.num_kv_heads = heads.num_heads;
  if (is_multi_query(config, diagnostics)) heads.num_kv_heads = 1;
  if (heads.num_heads % heads.num_kv_heads != 0)
    return fault(kv_name, fmt::format("{} are not divisible by {}{}", counted(heads.num_heads, "head"),
                                      counted(heads.num_kv_heads, "key-value head"),
                                      has_field(config, kv_name) ? "" : ", the default if the config has no number"));
  heads.head_dim = integer_field(config, kHeadDim, 1, or_default(kHeadDim, head_dim_default), diagnostics);
  if (heads.head_dim != 0) return heads;
  const int64_t hidden = required_field(config, hidden_name, 1, diagnostics);
  if (hidden % heads.num_heads != 0)
    return fault(hidden_name, fmt::format("`{}` {} is not divisible by {} heads, and `head_dim` is missing",
                                          hidden_name, hidden, heads.num_heads));
  heads.head_dim = hidden / heads.num_heads;
  return heads;
}

}  // namespace tpplan
