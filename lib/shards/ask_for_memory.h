// Whether the shards of all ranks fit, decided by all of them together before any of them allocates.
#pragma once

#include <string>

#include "manifest/manifest.h"
#include "ranks/backend.h"

namespace tpplan {

// Called by all ranks, as a step of its own. `shortage` names, on every rank, the first ranks whose shards do not fit,
// what they take and what is free; empty when all fit. False after a failure, which stands in comm.fault.
bool ask_for_memory(Comm& comm, const Manifest& manifest, std::string& shortage);

}  // namespace tpplan
