#include "inputs.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "base/read_file.h"
#include "base/text.h"
#include "manifest/read_manifest.h"
#include "render/render.h"

namespace tpplan {

bool read_input(const std::string& path, uint64_t limit, SourceFile& file, Diagnostics& diagnostics) {
  ReadResult result = read_file(path, limit);
  const FileId id = file.id;
  file = std::move(result.file);
  file.id = id;
  if (result.fault == ReadFault::None) return true;
  const bool too_large = result.fault == ReadFault::TooLarge;
  report_message(diagnostics, too_large ? Code::TP1002 : Code::TP1001, {id, 0, 0},
                 too_large ? fmt::format("the file is larger than {}", human_bytes(limit))
                           : fmt::format("cannot read the file: {}", result.reason));
  return false;
}

Manifest read_manifest_input(const std::string& path, SourceFile& file, Diagnostics& diagnostics) {
  return read_input(path, kMaxManifestBytes, file, diagnostics) ? read_manifest(file, diagnostics) : Manifest{};
}

int print_findings(Diagnostics& diagnostics, const Sources& sources, const CommonArguments& common) {
  finish_diagnostics(diagnostics);
  print(STDERR_FILENO, render_human(diagnostics, sources, render_options(STDERR_FILENO, common.color)));
  return exit_status(diagnostics);
}

bool overwrites_input(const std::string& output, const std::vector<std::string>& inputs, const CommonArguments& common,
                      std::string_view remedy) {
  if (output == "-") return false;
  const bool is_settings = !common.settings.empty() && is_same_file(output, {common.settings});
  if (!is_settings && !is_same_file(output, inputs)) return false;
  print(STDERR_FILENO, fmt::format("{}: error[TP1010]: the output is {}\n  = help: {}\n", escape_for_terminal(output),
                                   is_settings ? "the settings file" : "one of the inputs", remedy));
  return true;
}

int refuse_write(const std::string& output, std::string_view fault) {
  const std::string name = output == "-" ? "<stdout>" : escape_for_terminal(output);
  print(STDERR_FILENO, fmt::format("{}: error[TP1009]: cannot write the output: {}\n", name, fault));
  return kExitUsage;
}

int write_result(const std::string& output, const Producer& produce) {
  const std::string fault = write_output(output, produce);
  return fault.empty() ? kExitFine : refuse_write(output, fault);
}

}  // namespace tpplan
