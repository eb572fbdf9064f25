// cosine_similarity and pairwise_distance: elements meet as those of x * y do, and a number is left of one dim, for
// which all of it is needed (torch/functional.py, aten/native/Distance.cpp).
#include <algorithm>

#include "ops/op_rules.h"

namespace tpplan {
namespace {

struct SimilarityRow {
  std::string_view name;
  size_t dim_at = 0;   // position of the argument; 0: none names it
  int absent = -1;     // the dim where none is given
  size_t keep_at = 0;  // of keepdim; 0: there is none
};

constexpr SimilarityRow kSimilarityRows[] = {
    {.name = "cosine_similarity", .dim_at = 2, .absent = 1},
    {.name = "pairwise_distance", .keep_at = 4},
};

}  // namespace

void rule_similarity(OpCall& call, OpResult& result) {
  const SimilarityRow& row = *std::ranges::find(kSimilarityRows, call.name, &SimilarityRow::name);
  const auto x = tensor_at(call, 0, "x1"), y = tensor_at(call, 1, "x2");
  if (!x || !y) return;
  const Operand operands[] = {*x, *y};
  Spread out;
  out.dims = broadcast_dims(call, result, operands);
  combine_sums(call, result, operands, Linearity::Other, false, out);
  const int64_t named = row.dim_at == 0 ? row.absent : number_at(call, row.dim_at, "dim", row.absent).traced;
  const size_t dim = from_end(named, out.dims.size());
  if (dim >= out.dims.size()) return;
  const MapId map = out.dims[dim];
  if (!call.table.maps.maps[map].is_complete) say_pieces(call, result, dim, map);
  if (row.keep_at != 0 && bool_at(call, row.keep_at, "keepdim", false))
    out.dims[dim] = whole_map(call.table.maps, 1);
  else
    out.dims.erase(out.dims.begin() + static_cast<std::ptrdiff_t>(dim));
  check_layout(call, result, out);
  give(result, std::move(out));
}

}  // namespace tpplan
