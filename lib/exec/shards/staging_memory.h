// Memory of a device, or beside it, that frees itself.
#pragma once

#include <cstdint>
#include <memory>

namespace tpplan {

using StagingMemory = std::unique_ptr<void, void (*)(void*)>;

// What an allocation gave. Throws TP8012 where that is nothing.
[[nodiscard]] StagingMemory take_staging(void* memory, void (*release)(void*), uint64_t bytes);

}  // namespace tpplan
