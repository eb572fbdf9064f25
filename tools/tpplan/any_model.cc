#include "any_model.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>
#include <tuple>

#include "base/input_file.h"
#include "base/path_status.h"
#include "import_formats.h"
#include "inputs.h"
#include "model/other_files.h"
#include "model/read_model.h"
#include "model/write_model.h"
#include "ops/prove_shapes.h"

namespace tpplan {
namespace {

bool reject_unread(const SourceFile& file, const std::string& reason, Diagnostics& diagnostics) {
  report_message(diagnostics, Code::FileUnreadable, {file.id, 0, 0}, fmt::format("cannot read the file: {}", reason));
  return false;
}

// Detects the format from the beginning of the file. A file that is not regular counts as a model, whose reader reports
// the error.
bool find_format(const std::string& path, AnyModel& model, Diagnostics& diagnostics) {
  constexpr uint64_t kHead = uint64_t{64} << 10;
  const PathStatus found = stat_path(path);
  if (found.error != 0) return reject_unread(model.file, std::strerror(found.error), diagnostics);
  if (!is_regular_file(found)) return true;
  InputFile file;
  if (const std::string reason = open_input(path, file); !reason.empty())
    return reject_unread(model.file, reason, diagnostics);
  const ReadResult head = read_part(file, 0, kHead);
  if (head.fault != ReadError::None) return reject_unread(model.file, head.reason, diagnostics);
  model.format = import_format_of(head.file.text);
  return true;
}

// Returns the config.json that Hugging Face stores next to weights; empty if none exists.
std::string config_next_to(const std::string& path) {
  const std::string config = (std::filesystem::path(path).parent_path() / "config.json").string();
  const PathStatus found = stat_path(config);
  const bool is_read = found.error != 0 || is_regular_file(found);  // the reader reports the error
  return is_read ? config : std::string();
}

// True if a config.json that the user did not name is neither in the folder of the weights nor next to the file that
// they link to, as in the cache of huggingface_hub.
bool is_elsewhere(const std::string& config, const std::string& weights) {
  std::error_code error;
  const auto canonical = [&error](const std::filesystem::path& path) {
    return error ? std::filesystem::path() : std::filesystem::canonical(path.empty() ? "." : path, error);
  };
  const std::filesystem::path file = canonical(config),
                              folder = canonical(std::filesystem::path(weights).parent_path()),
                              target = canonical(weights).parent_path();
  if (error == std::errc::not_enough_memory) throw std::bad_alloc();
  return !error && !is_within(file, folder) && !is_within(file, target);
}

bool is_unread(const Diagnostics& diagnostics) {
  return std::ranges::any_of(diagnostics.list, [](const Diagnostic& d) { return d.code == Code::FileUnreadable; });
}

int import_any(const ImportFormat& format, const std::string& path, const std::string& config,
               const CommonArguments& common, AnyModel& model) {
  std::string heads = config.empty() && format.takes_config ? config_next_to(path) : config;
  if (config.empty() && !heads.empty() && is_elsewhere(heads, path)) {
    const SourceFile file{.name = heads};
    Diagnostics diagnostics;
    report_message(diagnostics, Code::FileUnreadable, {file.id, 0, 0},
                   "the config.json next to the weights is a link to a file outside their folder",
                   "pass it with `--model-config FILE` if it belongs to these weights");
    return print_diagnostics(diagnostics, sources_of(file), common);
  }
  ImportedModel imported;
  const bool is_read = format.read_model(path, heads, imported);
  if (!is_read && config.empty() && !heads.empty() && !is_unread(imported.weights.diagnostics)) {
    imported = {};  // that config is unusable, and weights can be read without one
    std::ignore = format.read_model(path, {}, imported);
  }
  std::vector<const SourceFile*> texts = source_files_of(imported.weights);
  if (!imported.config.source.name.empty()) texts.push_back(&imported.config.source);
  const int status = print_diagnostics(imported.weights.diagnostics, sources_of(texts), common);
  if (status != kExitFine) return status;
  model.paths = imported.paths;
  model.file = {.name = path};
  std::ignore = write_model(imported.graph, imported.operations, append_to(model.file.text));
  return kExitFine;
}

}  // namespace

int read_any_model(const std::string& path, const std::string& config, const CommonArguments& common, AnyModel& model) {
  Diagnostics diagnostics;
  model.paths = {path};
  model.file.name = path;
  if (!find_format(path, model, diagnostics)) return print_diagnostics(diagnostics, sources_of(model.file), common);
  const ImportFormat* format = model.format.empty() ? nullptr : find_import_format(model.format);
  if (format != nullptr) {
    const int status = import_any(*format, path, config, common, model);
    if (status != kExitFine) return status;
  } else if (!read_input(path, kMaxModelBytes, model.file, diagnostics)) {
    return print_diagnostics(diagnostics, sources_of(model.file), common);
  }
  model.graph = read_model(model.file, diagnostics);
  if (!has_errors(diagnostics)) std::ignore = prove_shapes(model.graph.operations, model.graph.file, diagnostics);
  return print_diagnostics(diagnostics, sources_of(model.file), common);
}

}  // namespace tpplan
