// The config.json of a Hugging Face model: its fields, and how many heads its attention has.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"
#include "syntax/json_reader.h"

namespace tpplan {

// A config and its top-level members. Texts point into `read` and `strings`.
struct ConfigFile {
  SourceFile source;              // file 1: weights are opened behind it
  SourceFile read;                // the same with numbers for Python's Infinity and NaN
  std::vector<JsonTree> members;  // nodes[0].key is the member's name
  std::deque<std::string> strings;
};

inline constexpr uint64_t kMaxConfigBytes = uint64_t{4} * 1024 * 1024;
inline constexpr int64_t kMaxConfigSize = int64_t{1} << 31;

// Reads the file at `path`; false after reporting .
[[nodiscard]] bool read_config(const std::string& path, ConfigFile& config, Diagnostics& diagnostics);

// The member called `key`, nullptr where it is missing or null.
[[nodiscard]] const JsonNode* find_field(const ConfigFile& config, std::string_view key);
// The whole tree of it.
[[nodiscard]] const JsonTree* find_tree(const ConfigFile& config, std::string_view key);
// True when the member is there, null too.
[[nodiscard]] bool has_field(const ConfigFile& config, std::string_view key);

// A whole number from `least` to 2^31, or `otherwise` where the field is missing or null. What is wrong is reported as
// TP6010, and `otherwise` returned.
[[nodiscard]] int64_t whole_field(const ConfigFile& config, std::string_view key, int64_t least, int64_t otherwise,
                                  Diagnostics& diagnostics);
// The same of a field that there must be; 0 after reporting.
[[nodiscard]] int64_t required_field(const ConfigFile& config, std::string_view key, int64_t least,
                                     Diagnostics& diagnostics);
[[nodiscard]] bool flag_field(const ConfigFile& config, std::string_view key, bool otherwise, Diagnostics& diagnostics);
[[nodiscard]] std::string_view text_field(const ConfigFile& config, std::string_view key, std::string_view otherwise,
                                          Diagnostics& diagnostics);

// num_attention_heads, num_key_value_heads and head_dim. `kv_default` and `head_dim_default` stand for fields that are
// missing; 0, and null in the file, for as many as there are heads, and for hidden_size over them.
[[nodiscard]] ModuleAttributes read_heads(const ConfigFile& config, int64_t kv_default, int64_t head_dim_default,
                                          Diagnostics& diagnostics);

}  // namespace tpplan
