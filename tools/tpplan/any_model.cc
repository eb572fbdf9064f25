#include "any_model.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <tuple>

#include "base/input_file.h"
#include "base/presence.h"
#include "import_formats.h"
#include "inputs.h"
#include "model/other_files.h"
#include "model/read_model.h"
#include "model/write_model.h"
#include "ops/prove_shapes.h"

namespace tpplan {
namespace {

bool refuse_unread(const SourceFile& file, const std::string& reason, Diagnostics& diagnostics) {
  report_message(diagnostics, Code::TP1001, {file.id, 0, 0}, fmt::format("cannot read the file: {}", reason));
  return false;
}

// What the file's beginning says it is. What is no regular file is taken for a model, whose reader says what is wrong.
bool find_format(const std::string& path, AnyModel& model, Diagnostics& diagnostics) {
  constexpr uint64_t kHead = uint64_t{64} << 10;
  const Presence there = presence_of_file(path);
  if (there.error != 0) return refuse_unread(model.file, std::strerror(there.error), diagnostics);
  if (!is_regular_file(there)) return true;
  InputFile file;
  if (const std::string reason = open_input(path, file); !reason.empty())
    return refuse_unread(model.file, reason, diagnostics);
  const ReadResult head = read_part(file, 0, kHead);
  if (head.fault != ReadFault::None) return refuse_unread(model.file, head.reason, diagnostics);
  model.format = import_format_of(head.file.text);
  return true;
}

// The config that Hugging Face keeps beside weights; empty where there is none.
std::string config_beside(const std::string& path) {
  const std::string config = (std::filesystem::path(path).parent_path() / "config.json").string();
  const Presence there = presence_of_file(config);
  const bool is_read = there.error != 0 || is_regular_file(there);  // its reader says why not
  return is_read ? config : std::string();
}

bool is_unread(const Diagnostics& diagnostics) {
  return std::ranges::any_of(diagnostics.list, [](const Diagnostic& d) { return d.code == Code::TP1001; });
}

int import_any(const ImportFormat& format, const std::string& path, const std::string& config,
               const CommonArguments& common, AnyModel& model) {
  std::string heads = config.empty() && format.takes_config ? config_beside(path) : config;
  ImportedModel imported;
  const bool is_read = format.read_model(path, heads, imported);
  if (!is_read && config.empty() && !heads.empty() && !is_unread(imported.weights.diagnostics)) {
    imported = {};  // that config says no heads: weights say enough without
    std::ignore = format.read_model(path, {}, imported);
  }
  std::vector<const SourceFile*> texts = texts_of(imported.weights);
  if (!imported.config.source.name.empty()) texts.push_back(&imported.config.source);
  const int status = print_findings(imported.weights.diagnostics, sources_of(texts), common);
  if (status != kExitFine) return status;
  model.paths = imported.paths;
  model.file = {.name = path};
  std::ignore = write_model(imported.graph, imported.operations, [&model](std::string_view piece) {
    model.file.text += piece;
    return true;
  });
  return kExitFine;
}

}  // namespace

int read_any_model(const std::string& path, const std::string& config, const CommonArguments& common, AnyModel& model) {
  Diagnostics diagnostics;
  model.paths = {path};
  model.file.name = path;
  if (!find_format(path, model, diagnostics)) return print_findings(diagnostics, sources_of(model.file), common);
  const ImportFormat* format = model.format.empty() ? nullptr : find_import_format(model.format);
  if (format != nullptr) {
    const int status = import_any(*format, path, config, common, model);
    if (status != kExitFine) return status;
  } else if (!read_input(path, kMaxModelBytes, model.file, diagnostics)) {
    return print_findings(diagnostics, sources_of(model.file), common);
  }
  model.graph = read_model(model.file, diagnostics);
  if (!has_errors(diagnostics)) std::ignore = prove_shapes(model.graph.operations, model.graph.file, diagnostics);
  return print_findings(diagnostics, sources_of(model.file), common);
}

}  // namespace tpplan
