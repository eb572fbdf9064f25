// The rotary embedding of a config's model: which of the family's traced graphs has it, and its numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "hf_configs/config_model.h"
#include "hf_configs/read_config.h"
#include "text/json_tree.h"

namespace tpplan {

struct RopeGraph {
  std::string_view kind = "static";                   // as in `when` of a traced graph
  std::string attention_scaling = "1.0", theta;       // as the graph has them
  std::string long_factor;                            // of longrope: ["t",1.5,...], a list as an argument
  std::optional<int64_t> original_max_position = {};  // of longrope
};

struct RopeError {
  const JsonNode* node = nullptr;
  std::string reason;
};

// `known`: the field `rope` of a family's templates. `max_position`: of the config, or the family's default.
[[nodiscard]] std::optional<RopeError> read_rope(const ConfigFile& config, const ConfigSizes& sizes,
                                                 const JsonTree& known, int64_t max_position, int64_t sequence,
                                                 RopeGraph& rope);

}  // namespace tpplan
