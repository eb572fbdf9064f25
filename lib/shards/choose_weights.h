// A path that people give -> which files hold the weights there.
#pragma once

#include <string>
#include <vector>

namespace tpplan {

struct ChosenWeights {
  std::string path;                 // a file of weights, or an index; empty: those of `shards` together
  std::vector<std::string> shards;  // plain names of files of the folder, in order
};

// A file stands for itself. In a folder stand, in this order: model.safetensors.index.json, model.safetensors (of each
// format of weights), the only index, the only file of weights, else all of these as shards. Throws TP8020 where a
// folder holds nothing of the kind, or several indexes.
[[nodiscard]] ChosenWeights choose_weights(const std::string& path);

}  // namespace tpplan
