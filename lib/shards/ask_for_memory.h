// Whether the shards of all ranks fit, decided by all of them together before any of them allocates.
#pragma once

#include "manifest/manifest.h"
#include "ranks/backend.h"

namespace tpplan {

// Called by all ranks, as a step of its own. Throws TP8012, the same on every rank, where shards do not fit: the first
// ranks that lack memory, what they take and what is free.
void ask_for_memory(Comm& comm, const Manifest& manifest);

}  // namespace tpplan
