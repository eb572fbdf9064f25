// Reads the config.json of a Hugging Face model: its fields, and the heads of its attention.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"
#include "text/json_reader.h"

namespace tpplan {

// A config and its top-level fields. Texts point into `read` and `strings`.
struct ConfigFile {
  SourceFile source;              // file 1; weights are opened after it
  SourceFile read;                // the text with numbers in place of Python's Infinity and NaN
  std::vector<JsonTree> members;  // nodes[0].key is the name of the field
  std::deque<std::string> strings;
};

inline constexpr uint64_t kMaxConfigBytes = uint64_t{4} * 1024 * 1024;
inline constexpr int64_t kMaxConfigSize = int64_t{1} << 31;

// Reads the file at `path`. Returns false after reporting an error.
[[nodiscard]] bool read_config(const std::string& path, ConfigFile& config, Diagnostics& diagnostics);

// Returns the field `key`; nullptr if it is missing or null.
[[nodiscard]] const JsonNode* find_field(const ConfigFile& config, std::string_view key);
// Returns the tree of a field.
[[nodiscard]] const JsonTree* find_tree(const ConfigFile& config, std::string_view key);
// True if the config has the field, even null.
[[nodiscard]] bool has_field(const ConfigFile& config, std::string_view key);

// Returns an integer from `least` to 2^31; `otherwise` if the field is missing, null or, after reporting TP6010,
// invalid.
[[nodiscard]] int64_t integer_field(const ConfigFile& config, std::string_view key, int64_t least, int64_t otherwise,
                                    Diagnostics& diagnostics);
// Returns an integer of a required field; 0 after reporting an error.
[[nodiscard]] int64_t required_field(const ConfigFile& config, std::string_view key, int64_t least,
                                     Diagnostics& diagnostics);
[[nodiscard]] bool flag_field(const ConfigFile& config, std::string_view key, bool otherwise, Diagnostics& diagnostics);
[[nodiscard]] std::string_view text_field(const ConfigFile& config, std::string_view key, std::string_view otherwise,
                                          Diagnostics& diagnostics);

// Reads num_attention_heads, num_key_value_heads and head_dim. `kv_default` and `head_dim_default` apply to missing
// fields; 0, and null in the file, mean the number of heads, and hidden_size divided by it.
[[nodiscard]] ModuleAttributes read_heads(const ConfigFile& config, int64_t kv_default, int64_t head_dim_default,
                                          Diagnostics& diagnostics);

}  // namespace tpplan
