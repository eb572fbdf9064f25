#include "exec/load/save_sources.h"

#include <spdlog/fmt/fmt.h>

#include <tuple>

#include "base/text.h"
#include "exec/load/load_targets.h"
#include "exec/shards/save_shards.h"
#include "exec/shards/shard_folder.h"

namespace tpplan {

void save_sources(tpplan_load& load, const char* folder, const tpplan_load_target* sources, size_t count) {
  require_open(load);
  if (folder == nullptr) throw RequestError{"`folder` is NULL"};
  if (load.has_other_dtypes)
    throw RequestError{"it was opened with a `dtype`: the saved shards would not match the manifest"};
  const ReadTargets requested = check_targets(load, sources, count);
  for (size_t t = 0; t < load.store.shards.size(); ++t) {
    if (requested.omitted[t])
      throw RequestError{fmt::format("`{}` is missing: a folder must contain all tensors",
                                     escape_for_terminal(load.store.shards[t].path))};
  }
  for (size_t i = 0; i < count; ++i) load.store.shards[sources[i].tensor].data = sources[i].data;
  std::ignore = write_rank_files(load.store, folder, {}, SaveOptions{}.staging);
  if (load.store.rank == 0) write_note(folder, load.shardings_sha256, load.manifest.mesh);
}

}  // namespace tpplan
