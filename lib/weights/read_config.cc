#include "weights/read_config.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/read_file.h"
#include "base/text.h"

namespace tpplan {
namespace {

void wrong_field(const ConfigFile& config, Diagnostics& diagnostics, const JsonNode& node, std::string message) {
  report_message(diagnostics, Code::TP6010, value_span(config.source.id, node), std::move(message),
                 "a config.json as transformers writes it");
}

struct PythonNumber {
  std::string_view word, number;
};

// Numbers that Python writes and JSON has no word for, and ones of as many letters, so that places stay where they are.
constexpr PythonNumber kPythonNumbers[] = {{"Infinity", "1.7e+308"}, {"NaN", "0.0"}};

// The text with such numbers replaced, outside of strings.
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

// Every member is kept as a tree of its own: who builds a model asks for fields by name, in any order.
bool read_config(const std::string& path, ConfigFile& config, Diagnostics& diagnostics) {
  ReadResult result = read_file(path, kMaxConfigBytes);
  config.source = std::move(result.file);
  if (result.fault != ReadFault::None) {
    const bool large = result.fault == ReadFault::TooLarge;
    report_message(diagnostics, large ? Code::TP1002 : Code::TP1001, {config.source.id, 0, 0},
                   large ? "a config has at most 4 MiB" : fmt::format("cannot read the file: {}", result.reason));
    return false;
  }
  config.read = {config.source.name, as_json(config.source.text), config.source.id};
  const JsonVisitor visitor{.member = [](std::string_view, Span) { return JsonMember::Whole; },
                            .value =
                                [&](std::string_view, const JsonTree& tree) {
                                  config.members.push_back(tree);
                                  return true;
                                },
                            .kind_help = "a config is the config.json that stands beside a model's weights"};
  constexpr size_t kMaxValues = size_t{256} << 10;  // vocabularies stand in some configs
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

int64_t whole_field(const ConfigFile& config, std::string_view key, int64_t least, int64_t otherwise,
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
  if (find_field(config, key) != nullptr) return whole_field(config, key, least, 0, diagnostics);
  const JsonTree* null = find_tree(config, key);
  report_message(diagnostics, Code::TP6010,
                 null == nullptr ? Span{config.source.id, 0, 1} : value_span(config.source.id, null->nodes[0]),
                 null == nullptr ? fmt::format("the config has no `{}`", key) : fmt::format("`{}` is null", key),
                 "the sizes of a model are never guessed: add it");
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

// A key that is null is not a key that is missing: null means as many as heads (and hidden_size over heads), a missing
// key the default of the family's config class.
ModuleAttributes read_heads(const ConfigFile& config, int64_t kv_default, int64_t head_dim_default,
                            Diagnostics& diagnostics) {
  ModuleAttributes heads;
  const auto fault = [&](std::string_view key, std::string message) {
    const JsonNode* node = find_field(config, key);
    report_message(diagnostics, Code::TP6010,
                   node == nullptr ? Span{config.source.id, 0, 1} : value_span(config.source.id, *node),
                   std::move(message));
    return ModuleAttributes{};
  };
  heads.num_heads = required_field(config, "num_attention_heads", 1, diagnostics);
  if (heads.num_heads == 0) return {};
  constexpr std::string_view kKv = "num_key_value_heads", kHeadDim = "head_dim", kHidden = "hidden_size";
  const auto or_default = [&](std::string_view key, int64_t otherwise) {
    return has_field(config, key) ? 0 : otherwise;
  };
  heads.num_kv_heads = whole_field(config, kKv, 1, or_default(kKv, kv_default), diagnostics);
  if (heads.num_kv_heads == 0) heads.num_kv_heads = heads.num_heads;
  if (heads.num_heads % heads.num_kv_heads != 0)
    return fault(kKv,
                 fmt::format("{} do not divide among {}{}", counted(heads.num_heads, "head"),
                             counted(heads.num_kv_heads, "key-value head"),
                             has_field(config, kKv) ? "" : ", as many as there are where the config does not say"));
  heads.head_dim = whole_field(config, kHeadDim, 1, or_default(kHeadDim, head_dim_default), diagnostics);
  if (heads.head_dim != 0) return heads;
  const int64_t hidden = required_field(config, kHidden, 1, diagnostics);
  if (hidden % heads.num_heads != 0)
    return fault(kHidden, fmt::format("`hidden_size` {} does not divide by {} heads, and no `head_dim` is given",
                                      hidden, heads.num_heads));
  heads.head_dim = hidden / heads.num_heads;
  return heads;
}

}  // namespace tpplan
