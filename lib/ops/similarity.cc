// cosine_similarity and pairwise_distance: x and y are combined elementwise and reduced along one dim, which must not
// be sharded (torch/functional.py, aten/native/Distance.cpp).
#include "ops/op_rules.h"

namespace tpplan {
namespace {

struct SimilarityRow {
  size_t dim_at = 0;      // position of the dim argument; 0: none
  int absent = -1;        // the default dim
  size_t keepdim_at = 0;  // position of keepdim; 0: none
};

constexpr auto kSimilarityRows = by_op<SimilarityRow>({
    {OpId::CosineSimilarity, {.dim_at = 2, .absent = 1}},
    {OpId::PairwiseDistance, {.keepdim_at = 4}},
});

}  // namespace

void rule_similarity(OpCall& call, OpResult& result) {
  const SimilarityRow& row = kSimilarityRows[index_of(call.node.op)];
  const auto x = tensor_at(call, 0, "x1"), y = tensor_at(call, 1, "x2");
  if (!x || !y) return;
  const Operand operands[] = {*x, *y};
  ValueLayout out;
  out.dims = broadcast_dims(call, result, operands);
  combine_partial_sums(call, result, operands, Linearity::Other, false, out);
  const int64_t named = row.dim_at == 0 ? row.absent : number_at(call, row.dim_at, "dim", row.absent).traced;
  const size_t dim = dim_index(named, out.dims.size());
  if (dim >= out.dims.size()) return;
  const DimLayoutId map = out.dims[dim];
  if (!call.table.maps.maps[map].is_complete) report_sharded_dim(call, result, dim, map);
  if (row.keepdim_at != 0 && bool_at(call, row.keepdim_at, "keepdim", false))
    out.dims[dim] = replicated_dim(call.table.maps, 1);
  else
    out.dims.erase(out.dims.begin() + static_cast<std::ptrdiff_t>(dim));
  check_layout(call, result, out);
  append_result(result, std::move(out));
}

}  // namespace tpplan
