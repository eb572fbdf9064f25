// meshgrid: each vector varies along its dim and is repeated along the others.
#include <spdlog/fmt/fmt.h>

#include <utility>

#include "ops/op_rules.h"

namespace tpplan {

void rule_meshgrid(OpCall& call, OpResult& result) {
  const std::vector<Operand> vectors = tensors_of(call);
  const GraphArg* indexing = find_arg(call, SIZE_MAX, "indexing");
  const bool swaps = indexing != nullptr && indexing->kind == ArgKind::Text && vectors.size() > 1 &&
                     call.graph.texts[indexing->id] == "xy";
  std::vector<DimLayoutId> dims;
  for (const Operand& vector : vectors)
    dims.push_back(vector.layout->dims.empty() ? replicated_dim(call.table.maps, 1) : vector.layout->dims[0]);
  if (swaps) std::swap(dims[0], dims[1]);
  for (const Operand& vector : vectors) {
    ValueLayout out;
    out.dims = dims;
    out.partial = vector.layout->partial;
    out.zero = vector.layout->zero;
    check_layout(call, result, out);
    append_result(result, std::move(out));
  }
}

}  // namespace tpplan
