#include "exec/load/load_state.h"

namespace tpplan {

bool needs_cast(const tpplan_load& load, size_t tensor) {
  return load.source.tensors[tensor].dtype != load.store.shards[tensor].layout->dtype;
}

uint32_t first_tied(const tpplan_load& load, size_t tensor) {
  return tensor < load.first.size() ? load.first[tensor] : static_cast<uint32_t>(tensor);
}

void require_open(const tpplan_load& load) {
  if (!load.is_open) throw RequestError{"tpplan_load_open has not succeeded"};
}

}  // namespace tpplan
