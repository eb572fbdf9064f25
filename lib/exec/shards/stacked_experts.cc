#include "exec/shards/stacked_experts.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <string>

#include "base/text.h"
#include "diagnostics/fault.h"

namespace tpplan {
namespace {

constexpr std::string_view kHelp = "save without --split-experts";

const ExpertRow* row_of(std::string_view path, std::string_view naming) {
  const auto row = std::ranges::find_if(expert_rows(), [&](const ExpertRow& r) {
    return r.naming == naming && r.stacked == path.substr(path.rfind('.') + 1);
  });
  return row == expert_rows().end() ? nullptr : &*row;
}

// True if gate_up is [experts, 2 * inner, hidden] and down is [experts, hidden, inner]. Other models store the
// transposed matrices, whose rows are not those of one projection.
bool has_rows(const std::vector<int64_t>& gate_up, const std::vector<int64_t>& down) {
  return gate_up[0] == down[0] && gate_up[1] == 2 * down[2] && gate_up[2] == down[1];
}

}  // namespace

std::vector<const ExpertRow*> stacked_experts(const ShardStore& store, std::string_view naming) {
  std::vector<const ExpertRow*> rows(store.shards.size());
  if (naming.empty()) return rows;
  // By the module of the experts: gate_up_proj and down_proj, which are found together.
  std::map<std::string_view, std::vector<size_t>> modules;
  for (size_t i = 0; i < store.shards.size(); ++i) {
    const Shard& shard = store.shards[i];
    rows[i] = shard.layout->shape.size() == 3 ? row_of(shard.path, naming) : nullptr;
    if (rows[i] != nullptr) modules[std::string_view(shard.path).substr(0, shard.path.rfind('.'))].push_back(i);
  }
  if (modules.empty())
    throw Fault{.code = Code::UnsavableTensors,
                .message = "the manifest has no stacked experts: no `gate_up_proj` or `down_proj` with 3 dims",
                .help = std::string(kHelp)};
  for (auto& [module, tensors] : modules) {
    std::ranges::sort(tensors, [&](size_t a, size_t b) { return rows[a]->stacked > rows[b]->stacked; });
    const bool fits =
        tensors.size() == 2 && has_rows(store.shards[tensors[0]].layout->shape, store.shards[tensors[1]].layout->shape);
    if (!fits)
      throw Fault{
          .code = Code::UnsavableTensors,
          .message = fmt::format("`{}` does not have `gate_up_proj` [experts, 2 * inner, hidden] and `down_proj` "
                                 "[experts, hidden, inner], so its rows are not those of single matrices",
                                 escape_for_terminal(module)),
          .help = std::string(kHelp)};
  }
  return rows;
}

}  // namespace tpplan
