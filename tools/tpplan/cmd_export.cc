#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "base/read_file.h"
#include "base/text.h"
#include "base/write_file.h"
#include "commands.h"
#include "emit/emit_formats.h"
#include "emit/read_specs.h"
#include "emit/write_plan.h"
#include "manifest/read_manifest.h"

namespace tpplan {
namespace {

struct Input {
  Source source;
  uint64_t limit;
  SourceFile file;
};

bool read_input(const std::string& path, Input& input, Diagnostics& diagnostics) {
  ReadResult result = read_file(path, input.limit);
  input.file = std::move(result.file);
  if (result.fault == ReadFault::None) return true;
  const bool too_large = result.fault == ReadFault::TooLarge;
  report_message(diagnostics, too_large ? Code::TP1002 : Code::TP1001, {input.source, 0, 0},
                 too_large ? fmt::format("the file is larger than {}", human_bytes(input.limit))
                           : fmt::format("cannot read the file: {}", result.reason));
  return false;
}

// Says what was found; the exit status that it calls for.
int print_findings(Diagnostics& diagnostics, const Input& input, const CommonArguments& common) {
  Sources sources;
  sources.files[static_cast<size_t>(input.source)] = &input.file;
  finish_diagnostics(diagnostics);
  print(STDERR_FILENO, render_human(diagnostics, sources, render_options(STDERR_FILENO, common.color)));
  const int status = exit_status(diagnostics);
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
  Manifest manifest;
  Input input{.source = Source::Manifest, .limit = kMaxManifestBytes, .file = {}};
  if (read_input(arguments.manifest, input, diagnostics)) manifest = read_manifest(input.file, diagnostics);
  if (!has_errors(diagnostics)) check_losses(manifest, input.file, format, arguments.lossy, diagnostics);
  const int status = print_findings(diagnostics, input, common);
  return status != kExitFine ? status
                             : write_result(arguments.output, [&](const Sink& sink) { return write(manifest, sink); });
}

int cmd_import(const ImportArguments& arguments, const CommonArguments& common) {
  if (arguments.output != "-" && is_same_file(arguments.output, {arguments.file}))
    return refuse_output(arguments.output);
  Diagnostics diagnostics;
  SpecsFile specs;
  Input input{.source = Source::Plan, .limit = kMaxSpecsBytes, .file = {}};
  if (read_input(arguments.file, input, diagnostics)) read_specs(arguments.format, input.file, specs, diagnostics);
  const int status = print_findings(diagnostics, input, common);
  return status != kExitFine ? status : write_result(arguments.output, [&](const Sink& sink) {
    return sink(plan_text(specs, arguments.format));
  });
}

}  // namespace tpplan
