// What `tpplan import` reads: one row a format, and what each becomes.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emit/read_specs.h"
#include "model/model_graph.h"
#include "weights/read_config.h"
#include "weights/weight_files.h"

namespace tpplan {

enum class ImportProduct : uint8_t { Plan, Model };

// A model, the files that it was made of, and what was found in each (weights.diagnostics). The graph keeps views into
// them.
struct ImportedModel {
  WeightFiles weights;
  ConfigFile config;
  ModelGraph graph;
  std::string operations;          // its member `graph`, as JSON; empty: none
  std::string summary;             // a line about the model; empty: nothing to say
  std::vector<std::string> paths;  // of every file that was read
};

struct ImportFormat {
  std::string_view name;
  ImportProduct product;
  bool takes_config;       // a config.json beside the file itself
  SpecsReader read_specs;  // of a Plan
  bool (*read_model)(const std::string& path, const std::string& config, ImportedModel& model);  // of a Model
};

[[nodiscard]] std::span<const ImportFormat> import_formats();

// nullptr when there is none.
[[nodiscard]] const ImportFormat* find_import_format(std::string_view name);

// Headers of a safetensors file or of the shards of an index, and heads from `config` where it is not empty.
[[nodiscard]] bool import_safetensors(const std::string& path, const std::string& config, ImportedModel& model);

// A Hugging Face config.json.
[[nodiscard]] bool import_config(const std::string& path, const std::string& config, ImportedModel& model);

}  // namespace tpplan
