// Finds the weight files that a path of the command line stands for.
#pragma once

#include <string>
#include <vector>

namespace tpplan {

struct ChosenWeights {
  std::string path;                 // a weight file or an index; empty if `shards` has the files
  std::vector<std::string> shards;  // names of the files in the folder, sorted
};

// Returns the path of a file unchanged. For a folder, returns the first that exists of: model.safetensors.index.json,
// model.safetensors (of each weight format), the only index, the only weight file, all weight files as shards. Throws
// TP8020 if the folder has no weight file or several indexes.
[[nodiscard]] ChosenWeights choose_weights(const std::string& path);

}  // namespace tpplan
