// How a config's model turns queries and keys: which of a family's recorded graphs that asks for, and the numbers in
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "syntax/json_tree.h"
#include "weights/config_model.h"
#include "weights/read_config.h"

namespace tpplan {

struct RopeGraph {
  std::string_view kind = "static";                   // as `when` of a recorded graph says it
  std::string attention_scaling = "1.0", theta;       // as the graph has them
  std::string long_factor;                            // of longrope: ["t",1.5,...], a list as an argument
  std::optional<int64_t> original_max_position = {};  // of longrope
};

struct RopeFault {
  const JsonNode* node = nullptr;
  std::string reason;
};

// `known` is the member `rope` of a family's templates, `max_position` what the config says or its family's default.
[[nodiscard]] std::optional<RopeFault> read_rope(const ConfigFile& config, const ConfigSizes& sizes,
                                                 const JsonTree& known, int64_t max_position, int64_t sequence,
                                                 RopeGraph& rope);

}  // namespace tpplan
