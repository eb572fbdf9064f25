#include "load/save_sources.h"

#include <spdlog/fmt/fmt.h>

#include <tuple>

#include "base/text.h"
#include "load/load_targets.h"
#include "shards/save_shards.h"
#include "shards/shard_folder.h"

namespace tpplan {

void save_sources(tpplan_load& load, const char* folder, const tpplan_load_target* sources, size_t count) {
  need_open(load);
  if (folder == nullptr) throw Refusal{"no folder is named"};
  if (load.has_own_types)
    throw Refusal{"it was opened with a `dtype`: what it would write is no folder of the manifest"};
  const Targets asked = check_targets(load, sources, count);
  for (size_t t = 0; t < load.store.shards.size(); ++t) {
    if (asked.left_out[t])
      throw Refusal{fmt::format("`{}` is not given: a folder has all", escape_for_terminal(load.store.shards[t].path))};
  }
  for (size_t i = 0; i < count; ++i) load.store.shards[sources[i].tensor].data = sources[i].data;
  std::ignore = write_own_files(load.store, folder, {}, SaveOptions{}.staging);
  if (load.store.rank == 0) write_note(folder, load.sha256, load.manifest.mesh);
}

}  // namespace tpplan
