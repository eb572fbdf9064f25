#include "exec/shards/staging_memory.h"

#include <spdlog/fmt/fmt.h>

#include "base/text.h"
#include "diagnostics/fault.h"

namespace tpplan {

StagingMemory own_staging(void* memory, void (*release)(void*), uint64_t bytes) {
  if (memory == nullptr)
    throw Fault{.code = Code::OutOfMemory,
                .message = fmt::format("cannot allocate {} of staging memory", human_bytes(bytes))};
  return {memory, release};
}

}  // namespace tpplan
