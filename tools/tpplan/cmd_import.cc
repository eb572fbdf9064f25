#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <tuple>

#include "base/text.h"
#include "base/write_file.h"
#include "commands.h"
#include "emit/plan_from_specs.h"
#include "emit/read_specs.h"
#include "import_formats.h"
#include "inputs.h"
#include "model/write_model.h"
#include "plan/write_plan.h"
#include "plan_schema.h"

namespace tpplan {
namespace {

// Prints the diagnostics of the files. Returns the exit status.
int print_import_diagnostics(Diagnostics& diagnostics, const Sources& sources, const CommonArguments& common) {
  const int status = print_diagnostics(diagnostics, sources, common);
  if (status != kExitFine && !common.quiet)
    print(STDERR_FILENO, fmt::format("{}; nothing is written\n", count_diagnostics(diagnostics)));
  return status;
}

int import_plan(const ImportFormat& format, const ImportArguments& arguments, const CommonArguments& common) {
  const bool with_schema = arguments.output != "-" && !arguments.no_schema;
  Diagnostics diagnostics;
  SpecsFile specs;
  SourceFile file;
  if (read_input(arguments.file, kMaxSpecsBytes, file, diagnostics))
    std::ignore = read_specs(format.read_specs, file, specs, diagnostics);  // errors are printed below
  std::string text;
  if (!has_errors(diagnostics)) {
    std::vector<std::string> header = {fmt::format("Written by tpplan import --from {}.", format.name)};
    if (with_schema) header.insert(header.begin(), schema_line());
    const TpPlan plan = plan_from_specs(specs);
    text = write_plan(plan, {.header = header, .rules = {}});
    if (const std::string why = round_trip_error(text, plan); !why.empty())
      report_message(diagnostics, Code::ResourceLimit, {file.id, 0, 0},
                     fmt::format("cannot write the plan of these specs: {}", why));
  }
  const int status = print_import_diagnostics(diagnostics, sources_of(file), common);
  if (status != kExitFine) return status;
  const int written = write_result(arguments.output, [&](const Sink& sink) { return sink(text); });
  return written == kExitFine && with_schema ? write_schema_next_to(arguments.output, common) : written;
}

int import_model(const ImportFormat& format, const ImportArguments& arguments, const CommonArguments& common) {
  ImportedModel model;
  format.read_model(arguments.file, arguments.config, model);
  std::vector<const SourceFile*> texts = source_files_of(model.weights);
  if (!model.config.source.name.empty()) texts.push_back(&model.config.source);
  const int status = print_import_diagnostics(model.weights.diagnostics, sources_of(texts), common);
  if (status != kExitFine) return status;
  if (overwrites_input(arguments.output, model.paths, common)) return kExitUsage;
  if (!common.quiet && !model.summary.empty()) print(STDERR_FILENO, model.summary + "\n");
  return write_result(arguments.output,
                      [&](const Sink& sink) { return write_model(model.graph, model.operations, sink); });
}

}  // namespace

int cmd_import(const ImportArguments& arguments, const CommonArguments& common) {
  const ImportFormat& format = *find_import_format(arguments.format);
  if (!arguments.config.empty() && !format.takes_config)
    return usage_error(fmt::format("--model-config: {} does not use it, safetensors does", format.name));
  if (overwrites_input(arguments.output, {arguments.file, arguments.config}, common)) return kExitUsage;
  return format.result == ImportResult::Plan ? import_plan(format, arguments, common)
                                             : import_model(format, arguments, common);
}

}  // namespace tpplan
