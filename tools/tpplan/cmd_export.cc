#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "base/text.h"
#include "base/write_file.h"
#include "commands.h"
#include "inputs.h"
#include "emit/emit_formats.h"
#include "emit/read_specs.h"
#include "emit/write_plan.h"

namespace tpplan {
namespace {

// Says what was found; the exit status that it calls for.
int print_all(Diagnostics& diagnostics, Source source, const SourceFile& file, const CommonArguments& common) {
  const int status = print_findings(diagnostics, source, file, common);
  if (status != kExitFine && !common.quiet)
    print(STDERR_FILENO, fmt::format("{}; nothing is written\n", count_findings(diagnostics)));
  return status;
}

int refuse_output(const std::string& output) {
  print(STDERR_FILENO, fmt::format("{}: error[TP1010]: the output is the input\n", escape_for_terminal(output)));
  return kExitUsage;
}

int write_result(const std::string& output, const std::function<bool(const Sink&)>& produce) {
  const std::string fault = write_output(output, produce);
  if (fault.empty()) return kExitFine;
  const std::string name = output == "-" ? "<stdout>" : escape_for_terminal(output);
  print(STDERR_FILENO, fmt::format("{}: error[TP1009]: cannot write the output: {}\n", name, fault));
  return kExitUsage;
}

}  // namespace

int cmd_export(const ExportArguments& arguments, const CommonArguments& common) {
  const EmitFormat& format = *find_emit_format(arguments.format);
  const auto write = arguments.python ? format.write_python : format.write;
  if (write == nullptr) return usage_error(fmt::format("--python: {} has no Python form, torch has", format.name));
  if (arguments.output != "-" && is_same_file(arguments.output, {arguments.manifest}))
    return refuse_output(arguments.output);
  Diagnostics diagnostics;
  SourceFile file;
  const Manifest manifest = read_manifest_input(arguments.manifest, file, diagnostics);
  if (!has_errors(diagnostics)) check_losses(manifest, file, format, arguments.lossy, diagnostics);
  const int status = print_all(diagnostics, Source::Manifest, file, common);
  return status != kExitFine ? status
                             : write_result(arguments.output, [&](const Sink& sink) { return write(manifest, sink); });
}

int cmd_import(const ImportArguments& arguments, const CommonArguments& common) {
  if (arguments.output != "-" && is_same_file(arguments.output, {arguments.file}))
    return refuse_output(arguments.output);
  Diagnostics diagnostics;
  SpecsFile specs;
  SourceFile file;
  if (read_input(arguments.file, Source::Plan, kMaxSpecsBytes, file, diagnostics)) read_specs(arguments.format, file, specs, diagnostics);
  const int status = print_all(diagnostics, Source::Plan, file, common);
  return status != kExitFine ? status : write_result(arguments.output, [&](const Sink& sink) {
    return sink(plan_text(specs, arguments.format));
  });
}

}  // namespace tpplan
