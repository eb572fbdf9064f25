#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>

#include "base/read_file.h"
#include "base/text.h"
#include "base/write_file.h"
#include "commands.h"
#include "manifest/read_manifest.h"
#include "manifest/write_diff.h"

namespace tpplan {
namespace {

// Reads one side; what is wrong with it goes to standard error. The exit status that it calls for: 1 is taken by manifests
// that differ, so one that contradicts itself counts as one that cannot be read.
int read_side(const std::string& path, SourceFile& file, Manifest& manifest, const CommonArguments& common) {
  ReadResult read = read_file(path, kMaxManifestBytes);
  file = std::move(read.file);
  Diagnostics diagnostics;
  if (read.fault == ReadFault::None) {
    manifest = read_manifest(file, diagnostics);
  } else {
    const bool too_large = read.fault == ReadFault::TooLarge;
    report_message(diagnostics, too_large ? Code::TP1002 : Code::TP1001, {Source::Manifest, 0, 0},
                   too_large ? fmt::format("the file is larger than {}", human_bytes(kMaxManifestBytes))
                             : fmt::format("cannot read the file: {}", read.reason));
  }
  Sources sources;
  sources.files[static_cast<size_t>(Source::Manifest)] = &file;
  print(STDERR_FILENO, render_human(diagnostics, sources, render_options(STDERR_FILENO, common.color)));
  const int status = exit_status(diagnostics);
  return status == kExitContent ? kExitUsage : status;
}

}  // namespace

int cmd_diff(const DiffArguments& arguments, const CommonArguments& common) {
  if (arguments.before == "-" && arguments.after == "-") return usage_error("the two manifests cannot both come from standard input");
  SourceFile old_file, new_file;
  Manifest before, after;
  const int old_status = read_side(arguments.before, old_file, before, common);
  const int new_status = read_side(arguments.after, new_file, after, common);
  if (old_status != kExitFine || new_status != kExitFine) return std::max(old_status, new_status);
  const ManifestDiff diff = diff_manifests(before, after);
  const std::string fault = write_output("-", [&](const Sink& sink) {
    if (arguments.format == "json") return write_diff_json(diff, sink);
    return (common.quiet || sink(diff_summary(diff))) && sink(diff_text(diff));
  });
  if (!fault.empty()) return kExitUsage;
  return diff.same || arguments.exit_zero ? kExitFine : kExitContent;
}

}  // namespace tpplan
