// Files that commands read and write, and what is said about them on standard error.
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

namespace tpplan {

// Reads a file of at most `limit` bytes ("-" is standard input) into `file`, which keeps its id. Where it cannot, that
// is a finding, and the result false.
[[nodiscard]] bool read_input(const std::string& path, uint64_t limit, SourceFile& file, Diagnostics& diagnostics);

// The same of what read_git_file found, whose name is then `ref:path`.
[[nodiscard]] bool take_committed_input(GitFile found, const std::string& path, const std::string& ref, uint64_t limit,
                                        SourceFile& file, Diagnostics& diagnostics);

// The same with a manifest, which is read and proven, at the commit `ref` where one is named. The manifest's texts may
// point into `file`.
[[nodiscard]] Manifest read_manifest_input(
    const std::string& path, SourceFile& file, Diagnostics& diagnostics,
    std::string_view plan_help = "make a manifest of it: `tpplan compile MODEL PLAN -o manifest.json`",
    const std::string& ref = {});

// Prints what was found in these files; the exit status that it calls for.
[[nodiscard]] int print_findings(Diagnostics& diagnostics, const Sources& sources, const CommonArguments& common);

// Whether the output is a file that is one of the inputs, or the settings file, or may be one as far as the system
// says; which is said, with `remedy`.
[[nodiscard]] bool overwrites_input(const std::string& output, const std::vector<std::string>& inputs,
                                    const CommonArguments& common, std::string_view remedy = "name another file");

// Writes an output whole or not at all; kExitFine, or kExitUsage after saying why not.
[[nodiscard]] int write_result(const std::string& output, const Producer& produce);

// Says why an output could not be written; kExitUsage.
[[nodiscard]] int refuse_write(const std::string& output, std::string_view fault);

}  // namespace tpplan
