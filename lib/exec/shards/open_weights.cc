#include "exec/shards/open_weights.h"

#include "exec/shards/choose_weights.h"
#include "exec/shards/shard_store.h"

namespace tpplan {

bool open_files(const std::string& path, WeightSource& source) {
  const ChosenWeights chosen = choose_weights(path);
  source.is_folder_of_shards = chosen.path.empty() && !chosen.shards.empty();
  return source.is_folder_of_shards ? read_shard_headers(path, chosen.shards, source.weights, source.offsets)
                                    : read_weight_files(chosen.path, source.weights, AfterHeader::StayOpen);
}

bool open_weights(const std::string& path, const Manifest& manifest, WeightSource& source,
                  const PlaceOptions& options) {
  try {
    check_packing(manifest);
    return open_files(path, source) && place_tensors(path, manifest, source, options);
  } catch (const Fault& fault) {
    source.findings.push_back(fault);
    return false;
  }
}

}  // namespace tpplan
