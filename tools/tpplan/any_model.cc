#include "any_model.h"

#include <filesystem>
#include <fstream>
#include <tuple>

#include "import_formats.h"
#include "inputs.h"
#include "model/other_files.h"
#include "model/read_model.h"
#include "model/write_model.h"
#include "ops/prove_shapes.h"

namespace tpplan {
namespace {

// What the file's beginning says it is. A file that cannot be read is taken for a model, whose reader says why.
std::string_view format_of(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return {};
  std::string head(size_t{64} << 10, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(file.gcount()));
  return import_format_of(head);
}

// The config that Hugging Face keeps beside weights; empty where there is none.
std::string config_beside(const std::string& path) {
  const std::filesystem::path config = std::filesystem::path(path).parent_path() / "config.json";
  std::error_code ignored;
  return std::filesystem::is_regular_file(config, ignored) ? config.string() : std::string();
}

int import_any(const ImportFormat& format, const std::string& path, const std::string& config,
               const CommonArguments& common, AnyModel& model) {
  std::string heads = config.empty() && format.takes_config ? config_beside(path) : config;
  ImportedModel imported;
  if (!format.read_model(path, heads, imported) && config.empty() && !heads.empty()) {
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
  model.format = format_of(path);
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
