// Recorded StableHLO programs: `tpplan propagate PROGRAM.json`.
#pragma once

#include <memory>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "programs/program.h"
#include "text/json_tree.h"

namespace tpplan::programs {

// Reads a program: an object with `mesh`, `args`, `in_sh`, `ops`, `outs` and `out_sh` (schemas/program.schema.json).
// Calls are inlined, operands are defined before their uses, and each axis of the mesh is in a sharding at most once.
// Reports TP2017 for everything else. The program
// keeps views into the text of `file`. It is invalid if an error was reported.
[[nodiscard]] Program read_program(const SourceFile& file, Diagnostics& diagnostics);

inline constexpr size_t kMostProgramNodes = size_t{16} << 20;  // JSON values of one operation with its regions

// The parts of read_program, for a program inside another document: the reader refers to the arguments.
// read_program_field reads a key (an element of `ops`) and returns false to end the reading; finish_program connects
// operands and values, and returns false if an error was reported. The values have no shardings yet.
struct ProgramReader;
[[nodiscard]] std::shared_ptr<ProgramReader> begin_program(const SourceFile& file, Program& program,
                                                           Diagnostics& diagnostics);
[[nodiscard]] bool read_program_field(ProgramReader& reader, std::string_view key, const JsonTree& tree);
[[nodiscard]] bool finish_program(ProgramReader& reader);

}  // namespace tpplan::programs
