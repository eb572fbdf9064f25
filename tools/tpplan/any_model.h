// Reads a model from a model file or from any format of `tpplan import`.
#pragma once

#include <string>
#include <vector>

#include "base/source_file.h"
#include "commands.h"
#include "model/model_graph.h"

namespace tpplan {

// A model with its source. The graph points into `file`.
struct AnyModel {
  SourceFile file;                 // the model file, or the model text that was imported
  std::string_view format;         // the format of the import; empty for a model file
  std::vector<std::string> paths;  // all files that were read
  ModelGraph graph;
};

// Reads a model, checks the shapes of its operations and prints the diagnostics. Returns the exit status. `config` is
// the config.json with the head counts of weights (default: the one next to the weights, if it is usable).
[[nodiscard]] int read_any_model(const std::string& path, const std::string& config, const CommonArguments& common,
                                 AnyModel& model);

}  // namespace tpplan
