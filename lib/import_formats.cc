#include "import_formats.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <system_error>

#include "hf_configs/config_graph.h"
#include "hf_configs/config_model.h"
#include "hf_configs/weights_model.h"
#include "weights/dcp_metadata.h"

namespace tpplan {
namespace {

// Returns the file of a model's folder that an import reads: the first of these names that exists. Returns the path
// itself if it is no folder, or has none of them.
std::string file_of_model(const std::string& path, std::initializer_list<std::string_view> names) {
  std::error_code ignored;
  for (const std::string_view name : names) {
    const std::filesystem::path file = std::filesystem::path(path) / name;
    if (std::filesystem::is_directory(path, ignored) && std::filesystem::exists(file, ignored)) return file.string();
  }
  return path;
}

// Reads the head counts of a config.json, if one is given. Returns false after an error.
bool read_heads_of(const std::string& config, ImportedModel& model, ModuleAttributes& heads) {
  if (config.empty()) return true;
  model.paths.push_back(config);
  Diagnostics& diagnostics = model.weights.diagnostics;
  model.weights.last_id = model.config.source.id;
  if (read_config(config, model.config, diagnostics)) heads = read_heads(model.config, 0, 0, diagnostics);
  return !has_errors(diagnostics);
}

constexpr ImportFormat kFormats[] = {
    {"jax", ImportResult::Plan, false, read_jax_specs, nullptr},
    {"shardy", ImportResult::Plan, false, read_shardy_specs, nullptr},
    {"torch", ImportResult::Plan, false, read_torch_specs, nullptr},
    {"safetensors", ImportResult::Model, true, nullptr, import_safetensors},
    {"dcp", ImportResult::Model, true, nullptr, import_dcp},
    {"config", ImportResult::Model, false, nullptr, import_config},
};

}  // namespace

std::span<const ImportFormat> import_formats() { return kFormats; }

const ImportFormat* find_import_format(std::string_view name) {
  const auto found = std::ranges::find(kFormats, name, &ImportFormat::name);
  return found == std::end(kFormats) ? nullptr : found;
}

bool import_safetensors(const std::string& given, const std::string& config, ImportedModel& model) {
  const std::string path = file_of_model(given, {"model.safetensors.index.json", "model.safetensors"});
  ModuleAttributes heads;
  model.paths = {path};
  if (!read_heads_of(config, model, heads)) return false;
  const bool good =
      read_weight_files(path, model.weights) && build_weights_model(model.weights, heads, model.graph, model.summary);
  for (const WeightsHeader& header : model.weights.headers) model.paths.push_back(header.source.name);
  return good;
}

bool import_dcp(const std::string& given, const std::string& config, ImportedModel& model) {
  const std::string path = file_of_model(given, {".metadata"});
  ModuleAttributes heads;
  model.paths = {path};
  std::string omitted;
  if (!read_heads_of(config, model, heads) || !read_dcp_metadata(path, model.weights, omitted) ||
      !build_weights_model(model.weights, heads, model.graph, model.summary))
    return false;
  if (!omitted.empty()) model.summary += (model.summary.empty() ? "" : "; ") + omitted;
  return true;
}

bool import_config(const std::string& given, const std::string&, ImportedModel& model) {
  const std::string path = file_of_model(given, {"config.json"});
  model.paths = {path};
  Diagnostics& diagnostics = model.weights.diagnostics;
  ConfigSizes sizes;
  if (!read_config(path, model.config, diagnostics) ||
      !build_config_model(model.config, model.graph, sizes, diagnostics))
    return false;
  if (!sizes.has_dtype)
    model.summary = fmt::format(
        "the config names no dtype: parameters become {}, as in transformers; if the checkpoint is stored in "
        "bfloat16, add \"dtype\": \"bfloat16\" (half the bytes)",
        dtypes()[sizes.dtype].name);
  model.operations = config_graph(model.config, sizes, model.graph, diagnostics);
  return !has_errors(diagnostics);
}

}  // namespace tpplan
