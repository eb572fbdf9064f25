// Divides the parameters of a model into columns, in order, for the picture of the model.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "manifest/manifest.h"
#include "report/group_params.h"

namespace tpplan {

// Tensors of one column with the same sharding, whose paths differ only in numbers.
struct ModelCell {
  std::string path;    // relative to the column, with `*` for numeric parts: "mlp.experts.*.up_proj.weight"
  uint32_t group = 0;  // index into the groups of group_by_sharding
  uint64_t count = 0;
  uint64_t bytes = 0;  // global size of all tensors; saturates
};

// A layer, or a module outside the layers. Adjacent layers that differ only in their index are one column.
struct ModelColumn {
  std::string path;      // as path_patterns writes it: "model.layers.{0..31}"
  std::string between;   // separator of `path` and ModelCell::path: "." or "/"
  uint64_t count = 1;    // number of merged layers
  uint64_t bytes = 0;    // of one layer; saturates
  uint64_t tensors = 0;  // of one layer
  std::vector<ModelCell> cells;
};

// Returns every tensor once, under the first of its tied names, in the order of the manifest. The path of a layer ends
// with the first part that ends in a digit.
[[nodiscard]] std::vector<ModelColumn> model_columns(const Manifest& manifest, std::span<const ShardGroup> groups);

}  // namespace tpplan
