#include "shards/staging_memory.h"

#include <spdlog/fmt/fmt.h>

#include "base/text.h"
#include "diagnostics/fault.h"

namespace tpplan {

StagingMemory take_staging(void* memory, void (*release)(void*), uint64_t bytes) {
  if (memory == nullptr)
    throw Fault{.code = Code::TP8012,
                .message = fmt::format("no memory is left for {} of staging", human_bytes(bytes))};
  return {memory, release};
}

}  // namespace tpplan
