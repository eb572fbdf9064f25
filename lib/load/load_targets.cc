#include "load/load_targets.h"

#include <spdlog/fmt/fmt.h>

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
      throw Refusal{fmt::format("buffer `{}` is not in the weights", path), TPPLAN_LOAD_WRONG};
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

}  // namespace tpplan
