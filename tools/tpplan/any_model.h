// A model in any form that there is: a model file, or what `tpplan import` makes one of.
#pragma once

#include <string>
#include <vector>

#include "base/source_file.h"
#include "commands.h"
#include "model/model_graph.h"

namespace tpplan {

// The graph points into `file`.
struct AnyModel {
  SourceFile file;                 // the model file, or the text of the one that was made
  std::string_view format;         // that it was made of; empty: it is one
  std::vector<std::string> paths;  // of every file that was read
  ModelGraph graph;
};

// Reads a model and proves its operations. What is wrong is printed; the exit status that it calls for. `config` says
// the heads of weights; empty: a config.json beside them does, where there is one that can.
[[nodiscard]] int read_any_model(const std::string& path, const std::string& config, const CommonArguments& common,
                                 AnyModel& model);

}  // namespace tpplan
