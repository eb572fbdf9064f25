#include "exec/shards/expert_names.h"

#include <spdlog/fmt/fmt.h>

namespace tpplan {
namespace {

// transformers 5 (modeling_mixtral.py, modeling_deepseek_v3.py and others) multiplies by gate and up in one parameter;
// their checkpoints have one module for each expert.
constexpr ExpertRow kRows[] = {
    {"gate_up_proj", {"gate_proj", "up_proj"}, "gate_proj"},
    {"gate_up_proj", {"w1", "w3"}, "w1"},
    {"down_proj", {"down_proj", {}}, "gate_proj"},
    {"down_proj", {"w2", {}}, "w1"},
};

}  // namespace

std::span<const ExpertRow> expert_rows() { return kRows; }

std::string expert_name(std::string_view path, uint64_t expert, std::string_view part) {
  return fmt::format("{}.{}.{}.weight", path.substr(0, path.rfind('.')), expert, part);
}

}  // namespace tpplan
