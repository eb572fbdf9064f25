// Checks on all ranks together that their shards fit into memory, before any rank allocates.
#pragma once

#include "exec/ranks/backend.h"
#include "manifest/manifest.h"

namespace tpplan {

// Checks the memory of all ranks. All ranks call it, as a separate step. If shards do not fit, throws the same TP8012
// on every rank: the first ranks that lack memory, the bytes they need and the bytes that are free.
void require_memory(Comm& comm, const Manifest& manifest);

}  // namespace tpplan
