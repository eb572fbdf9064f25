#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "base/write_file.h"
#include "commands.h"
#include "emit/emit_formats.h"
#include "inputs.h"

namespace tpplan {
namespace {

// Prints the diagnostics. Returns the exit status.
int print_all(Diagnostics& diagnostics, const SourceFile& file, const CommonArguments& common) {
  const int status = print_diagnostics(diagnostics, sources_of(file), common);
  if (status != kExitFine && !common.quiet)
    print(STDERR_FILENO, fmt::format("{}; nothing is written\n", count_diagnostics(diagnostics)));
  return status;
}

}  // namespace

int cmd_export(const ExportArguments& arguments, const CommonArguments& common) {
  const EmitFormat& format = *find_emit_format(arguments.format);
  const auto write = arguments.python ? format.write_python : format.write;
  if (write == nullptr) return usage_error(fmt::format("--python: {} has no Python form; use torch", format.name));
  if (overwrites_input(arguments.output, {arguments.manifest}, common)) return kExitUsage;
  Diagnostics diagnostics;
  SourceFile file;
  const Manifest manifest = read_manifest_input(arguments.manifest, file, diagnostics);
  if (!has_errors(diagnostics)) check_format_limits(manifest, file, format, arguments.lossy, diagnostics);
  const int status = print_all(diagnostics, file, common);
  return status != kExitFine ? status
                             : write_result(arguments.output, [&](const Sink& sink) { return write(manifest, sink); });
}

}  // namespace tpplan
