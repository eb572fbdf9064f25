// What a key that matches nothing may have meant.
#pragma once

#include <string>
#include <string_view>

#include "model/model_graph.h"

namespace tpplan {

// Which paths a key is compared with. A key inside a block is relative: the ends of paths are what it can name.
enum class PathsOf : uint8_t { Modules, ModulesAndParameters, Block };

// A help line for a key that matches no path: that the key is the end of longer paths, or the nearest path by spelling
// (numbers written as `*`), with how many there are. Empty when nothing is near.
std::string nearest_path_help(const ModelGraph& graph, std::string_view key, PathsOf paths);

}  // namespace tpplan
