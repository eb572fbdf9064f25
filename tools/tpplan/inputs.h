// Reads inputs and writes outputs of commands, and reports errors on standard error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/source_file.h"
#include "base/write_file.h"
#include "commands.h"
#include "diagnostics/diagnostics.h"
#include "git_file.h"
#include "manifest/manifest.h"
#include "render/render.h"
#include "topology/read_run.h"

namespace tpplan {

// Reads a file of at most `limit` bytes ("-" is standard input) into `file`, whose id stays. With `within`, the file
// must be a regular file in this folder: settings name it. Returns false after reporting an error.
[[nodiscard]] bool read_input(const std::string& path, uint64_t limit, SourceFile& file, Diagnostics& diagnostics,
                              const std::string& within = {});

// Reads a run file into `file`. Reports errors, after which the run has the values that were read so far.
[[nodiscard]] RunFile read_run_input(const std::string& path, SourceFile& file, Diagnostics& diagnostics);

// Replaces the texts of a file's diagnostics, which quote its content, by the titles of their kinds. Settings can name
// any file of the project, and its content can be secret.
void hide_content(FileId file, Diagnostics& diagnostics);

// Moves a result of read_git_file into `file`, with the name `ref:path`. Returns false after reporting an error.
[[nodiscard]] bool take_committed_input(GitFile found, const std::string& path, const std::string& ref, uint64_t limit,
                                        SourceFile& file, Diagnostics& diagnostics);

// Reads and verifies a manifest, at the commit `ref` if it is not empty. The manifest's texts can point into `file`.
[[nodiscard]] Manifest read_manifest_input(
    const std::string& path, SourceFile& file, Diagnostics& diagnostics,
    std::string_view plan_help = "compile the plan first: `tpplan compile MODEL PLAN -o manifest.json`",
    const std::string& ref = {});

// Prints the diagnostics of these files. Returns their exit status.
[[nodiscard]] int print_diagnostics(Diagnostics& diagnostics, const Sources& sources, const CommonArguments& common);

// True, after reporting it with the help `help`, if the output is an input or the settings file. True also if the
// system cannot tell.
[[nodiscard]] bool overwrites_input(const std::string& output, const std::vector<std::string>& inputs,
                                    const CommonArguments& common, std::string_view help = "pass another file name");

// Writes an output atomically. Returns kExitFine, or kExitUsage after reporting an error.
[[nodiscard]] int write_result(const std::string& output, const Producer& produce);

// Reports why an output cannot be written, with `help` if it is not empty. Returns kExitUsage.
[[nodiscard]] int reject_write(const std::string& output, std::string_view fault, std::string help = {});

}  // namespace tpplan
