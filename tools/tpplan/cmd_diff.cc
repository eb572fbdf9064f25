#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "commands.h"
#include "inputs.h"
#include "manifest/diff_text.h"
#include "manifest/write_diff.h"

namespace tpplan {
namespace {

// Reads one side; what is wrong with it goes to standard error. The exit status that it calls for: 1 is taken by
// manifests that differ, so one that contradicts itself counts as one that cannot be read.
int read_side(const std::string& path, SourceFile& file, Manifest& manifest, const CommonArguments& common) {
  Diagnostics diagnostics;
  manifest = read_manifest_input(path, file, diagnostics);
  const int status = print_findings(diagnostics, sources_of(file), common);
  return status == kExitContent ? kExitUsage : status;
}

}  // namespace

int cmd_diff(const DiffArguments& arguments, const CommonArguments& common) {
  if (arguments.before == "-" && arguments.after == "-")
    return usage_error("the two manifests cannot both come from standard input");
  SourceFile old_file, new_file;
  Manifest before, after;
  const int old_status = read_side(arguments.before, old_file, before, common);
  const int new_status = read_side(arguments.after, new_file, after, common);
  if (old_status != kExitFine || new_status != kExitFine) return std::max(old_status, new_status);
  const ManifestDiff diff = diff_manifests(before, after);
  const bool printed = print_pieces([&](const Sink& sink) {
    if (arguments.format == "json") return write_diff_json(diff, sink);
    return (common.quiet || sink(diff_summary(diff))) && sink(diff_text(diff));
  });
  if (!printed) return kExitUsage;
  return diff.same || arguments.exit_zero ? kExitFine : kExitContent;
}

}  // namespace tpplan
