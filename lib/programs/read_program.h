// Recorded StableHLO programs: `tpplan propagate PROGRAM.json`.
#pragma once

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "programs/program.h"

namespace tpplan::programs {

// Reads a program: an object with `mesh`, `args`, `in_sh`, `ops`, `outs` and `out_sh` (schemas/program.schema.json).
// Calls are inlined, operands are defined before their uses, and each axis of the mesh is in a sharding at most once.
// Reports TP2017 for everything else. The program
// keeps views into the text of `file`. It is invalid if an error was reported.
[[nodiscard]] Program read_program(const SourceFile& file, Diagnostics& diagnostics);

}  // namespace tpplan::programs
