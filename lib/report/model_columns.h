// The model from its first parameter to its last, as columns that stand side by side: what its picture draws.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "manifest/manifest.h"
#include "report/group_params.h"

namespace tpplan {

// Tensors of one column that are cut alike and whose paths differ in numbers only.
struct ModelCell {
  std::string path;    // below the column's, numbers that stand alone as `*`: "mlp.experts.*.up_proj.weight"
  uint32_t group = 0;  // into group_by_sharding
  uint64_t count = 0;
  uint64_t bytes = 0;  // of all of them, whole; saturates
};

// A layer, or a module that is in no layer. Neighbours that are alike in all but their numbers are one column.
struct ModelColumn {
  std::string path;      // as path_patterns writes it: "model.layers.{0..31}"
  std::string between;   // it and the path of a cell: "." or "/"
  uint64_t count = 1;    // how many neighbours it stands for
  uint64_t bytes = 0;    // of one of them; saturates
  uint64_t tensors = 0;  // of one of them
  std::vector<ModelCell> cells;
};

// Every tensor once, under the first of its names; columns and cells in the manifest's order. A layer is what a path
// says up to the first part that ends in a digit.
[[nodiscard]] std::vector<ModelColumn> model_columns(const Manifest& manifest, std::span<const ShardGroup> groups);

}  // namespace tpplan
