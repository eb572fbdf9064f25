#include "exec/load/load_targets.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdint>

#include "base/text.h"

namespace tpplan {

ReadTargets check_targets(const tpplan_load& load, const tpplan_load_target* targets, size_t count) {
  if (targets == nullptr && count != 0) throw RequestError{"`targets` is NULL, but `count` is not 0"};
  const size_t tensors = load.store.shards.size();
  ReadTargets out{.of = std::vector<std::vector<size_t>>(tensors), .omitted = std::vector<bool>(tensors, true)};
  for (size_t i = 0; i < count; ++i) {
    const size_t tensor = targets[i].tensor;
    if (tensor >= tensors)
      throw RequestError{
          fmt::format("target {} has the tensor index {}, but the number of tensors is {}", i, tensor, tensors)};
    const Shard& shard = load.store.shards[tensor];
    const std::string path = escape_for_terminal(shard.path);
    if (!out.omitted[tensor]) throw RequestError{fmt::format("`{}` has two targets", path)};
    if (load.source.missing[tensor])
      throw RequestError{
          fmt::format("buffer `{}` is not in the weights: pass no target for tensors with is_stored 0", path),
          TPPLAN_LOAD_WRONG};
    if (targets[i].bytes != shard.bytes)
      throw RequestError{fmt::format("`{}`: its target has {}, but rank {} holds {} of it", path,
                                     counted(targets[i].bytes, "byte"), load.store.rank, counted(shard.bytes, "byte")),
                         TPPLAN_LOAD_WRONG};
    if (targets[i].data == nullptr && shard.bytes != 0)
      throw RequestError{fmt::format("`{}`: `data` of its target is NULL", path)};
    out.omitted[tensor] = false;
    out.of[first_tied(load, tensor)].push_back(i);
  }
  return out;
}

void reject_shared_memory(const tpplan_load& load, const tpplan_load_target* targets, size_t count) {
  std::vector<size_t> order;
  for (size_t i = 0; i < count; ++i) {
    if (targets[i].bytes != 0) order.push_back(i);
  }
  const auto begin_of = [&](size_t i) { return reinterpret_cast<uintptr_t>(targets[i].data); };
  std::ranges::sort(order, {}, begin_of);
  for (size_t i = 1; i < order.size(); ++i) {
    const tpplan_load_target &before = targets[order[i - 1]], &after = targets[order[i]];
    if (begin_of(order[i]) - begin_of(order[i - 1]) >= before.bytes) continue;
    if (first_tied(load, before.tensor) == first_tied(load, after.tensor) && before.data == after.data) continue;
    throw RequestError{fmt::format("`{}` and `{}` share memory, but are not tied in the manifest",
                                   escape_for_terminal(load.store.shards[before.tensor].path),
                                   escape_for_terminal(load.store.shards[after.tensor].path)),
                       TPPLAN_LOAD_WRONG};
  }
}

}  // namespace tpplan
