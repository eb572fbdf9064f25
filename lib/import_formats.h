// The formats that `tpplan import` reads, one row per format.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emit/read_specs.h"
#include "hf_configs/read_config.h"
#include "model/model_graph.h"
#include "weights/weight_files.h"

namespace tpplan {

enum class ImportResult : uint8_t { Plan, Model };

// An imported model, its source files and their diagnostics (weights.diagnostics). The graph has views into the files.
struct ImportedModel {
  WeightFiles weights;
  ConfigFile config;
  ModelGraph graph;
  std::string operations;          // its field `graph`, as JSON; empty if it has none
  std::string summary;             // one line about the model, possibly empty
  std::vector<std::string> paths;  // all files that were read
};

struct ImportFormat {
  std::string_view name;
  ImportResult result;
  bool takes_config;       // true if the format also accepts a config.json
  SpecsReader read_specs;  // set if `result` is Plan
  bool (*read_model)(const std::string& path, const std::string& config,
                     ImportedModel& model);  // set if `result` is Model
};

[[nodiscard]] std::span<const ImportFormat> import_formats();

// Returns nullptr if no format has this name.
[[nodiscard]] const ImportFormat* find_import_format(std::string_view name);

// Imports the headers of a safetensors file, or of all files of an index. Reads head counts from `config` if it is not
// empty.
[[nodiscard]] bool import_safetensors(const std::string& path, const std::string& config, ImportedModel& model);

// Imports the tensors of a folder of torch.distributed.checkpoint, or of its `.metadata`; `config` as above.
[[nodiscard]] bool import_dcp(const std::string& path, const std::string& config, ImportedModel& model);

// Imports a Hugging Face config.json.
[[nodiscard]] bool import_config(const std::string& path, const std::string& config, ImportedModel& model);

}  // namespace tpplan
