#include "import_formats.h"

#include <algorithm>

#include "weights/config_graph.h"
#include "weights/config_model.h"
#include "weights/weights_model.h"

namespace tpplan {
namespace {

constexpr ImportFormat kFormats[] = {
    {"jax", ImportProduct::Plan, false, read_jax_specs, nullptr},
    {"shardy", ImportProduct::Plan, false, read_shardy_specs, nullptr},
    {"torch", ImportProduct::Plan, false, read_torch_specs, nullptr},
    {"safetensors", ImportProduct::Model, true, nullptr, import_safetensors},
    {"config", ImportProduct::Model, false, nullptr, import_config},
};

}  // namespace

std::span<const ImportFormat> import_formats() { return kFormats; }

const ImportFormat* find_import_format(std::string_view name) {
  const auto found = std::ranges::find(kFormats, name, &ImportFormat::name);
  return found == std::end(kFormats) ? nullptr : found;
}

bool import_safetensors(const std::string& path, const std::string& config, ImportedModel& model) {
  ModuleAttributes heads;
  model.paths = {path};
  if (!config.empty()) {
    model.paths.push_back(config);
    Diagnostics& diagnostics = model.weights.diagnostics;
    model.weights.last_id = model.config.source.id;
    if (read_config(config, model.config, diagnostics)) heads = read_heads(model.config, 0, 0, diagnostics);
    if (has_errors(diagnostics)) return false;
  }
  const bool good =
      read_weight_files(path, model.weights) && build_weights_model(model.weights, heads, model.graph, model.summary);
  for (const WeightsHeader& header : model.weights.headers) model.paths.push_back(header.source.name);
  return good;
}

bool import_config(const std::string& path, const std::string&, ImportedModel& model) {
  model.paths = {path};
  Diagnostics& diagnostics = model.weights.diagnostics;
  ConfigSizes sizes;
  if (!read_config(path, model.config, diagnostics) ||
      !build_config_model(model.config, model.graph, sizes, diagnostics))
    return false;
  model.operations = config_graph(model.config, sizes, model.graph, diagnostics);
  return !has_errors(diagnostics);
}

}  // namespace tpplan
