// Staging memory on the device or the host, released by its owner's destructor.
#pragma once

#include <cstdint>
#include <memory>

namespace tpplan {

using StagingMemory = std::unique_ptr<void, void (*)(void*)>;

// Returns an owner of the allocated `memory`. Throws TP8012 if it is nullptr.
[[nodiscard]] StagingMemory own_staging(void* memory, void (*release)(void*), uint64_t bytes);

}  // namespace tpplan
