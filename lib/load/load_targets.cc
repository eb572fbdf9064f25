#include "load/load_targets.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdint>

#include "base/text.h"

namespace tpplan {

Targets check_targets(const tpplan_load& load, const tpplan_load_target* targets, size_t count) {
  if (targets == nullptr && count != 0) throw Refusal{"no targets are given"};
  const size_t tensors = load.store.shards.size();
  Targets out{.of = std::vector<std::vector<size_t>>(tensors), .left_out = std::vector<bool>(tensors, true)};
  for (size_t i = 0; i < count; ++i) {
    const size_t tensor = targets[i].tensor;
    if (tensor >= tensors)
      throw Refusal{fmt::format("target {} is for tensor {}: there are {}, counted from 0", i, tensor, tensors)};
    const Shard& shard = load.store.shards[tensor];
    const std::string path = escape_for_terminal(shard.path);
    if (!out.left_out[tensor]) throw Refusal{fmt::format("`{}` has two targets", path)};
    if (load.source.missing[tensor])
      throw Refusal{fmt::format("buffer `{}` is not in the weights: give no target for what is_stored is 0 of", path),
                    TPPLAN_LOAD_WRONG};
    if (targets[i].bytes != shard.bytes)
      throw Refusal{fmt::format("`{}`: its target has {}, and rank {} holds {} of it", path,
                                counted(targets[i].bytes, "byte"), load.store.rank, counted(shard.bytes, "byte")),
                    TPPLAN_LOAD_WRONG};
    if (targets[i].data == nullptr && shard.bytes != 0) throw Refusal{fmt::format("`{}`: its target is NULL", path)};
    out.left_out[tensor] = false;
    out.of[first_of(load, tensor)].push_back(i);
  }
  return out;
}

void refuse_shared_memory(const tpplan_load& load, const tpplan_load_target* targets, size_t count) {
  std::vector<size_t> order;
  for (size_t i = 0; i < count; ++i) {
    if (targets[i].bytes != 0) order.push_back(i);
  }
  const auto begin_of = [&](size_t i) { return reinterpret_cast<uintptr_t>(targets[i].data); };
  std::ranges::sort(order, {}, begin_of);
  for (size_t i = 1; i < order.size(); ++i) {
    const tpplan_load_target &before = targets[order[i - 1]], &after = targets[order[i]];
    if (begin_of(order[i]) - begin_of(order[i - 1]) >= before.bytes) continue;
    if (first_of(load, before.tensor) == first_of(load, after.tensor) && before.data == after.data) continue;
    throw Refusal{fmt::format("`{}` and `{}` share memory, and are not tied in the manifest",
                              escape_for_terminal(load.store.shards[before.tensor].path),
                              escape_for_terminal(load.store.shards[after.tensor].path)),
                  TPPLAN_LOAD_WRONG};
  }
}

}  // namespace tpplan
