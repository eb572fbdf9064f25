// Operations that go along dims: sums leave an open sum where the dim is cut, everything else needs the dim whole.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ops/op_rules.h"
#include "ops/size_rows.h"

namespace tpplan {
namespace {

enum class Along : uint8_t { Sum, Whole };
enum class Shape : uint8_t { Same, Drops, Resized, Appends };  // what becomes of the dim

// Where no dim is given: all of them, the last ones, or all behind those of the batch and the channels.
constexpr int kAll = 100, kLastDims = 100, kBehindChannels = 110;
constexpr int8_t kNoDim = 100;  // no argument names a dim

struct DimRow {
  std::string_view name;
  Along along;
  Shape shape;
  int8_t dim_at;           // position of the argument
  int absent;              // the dim where none is given
  bool is_linear = false;  // of an open sum it makes the open sum of what it makes of the terms
  int8_t keep_at = -1;
  bool needs_some = false;  // raises an error of a tensor without elements
};

constexpr DimRow kDimRows[] = {
    {"sum", Along::Sum, Shape::Drops, 1, kAll, true, 2},
    {"mean", Along::Whole, Shape::Drops, 1, kAll, true, 2},
    {"softmax", Along::Whole, Shape::Same, 1, -1},
    {"log_softmax", Along::Whole, Shape::Same, 1, -1},
    {"softmin", Along::Whole, Shape::Same, 1, -1},
    {"normalize", Along::Whole, Shape::Same, 2, 1},
    {"cumsum", Along::Whole, Shape::Same, 1, 0, true},
    {"cumprod", Along::Whole, Shape::Same, 1, 0},
    {"logcumsumexp", Along::Whole, Shape::Same, 1, 0},
    {"cummax", Along::Whole, Shape::Same, 1, 0},
    {"cummin", Along::Whole, Shape::Same, 1, 0},
    {"fft_fft", Along::Whole, Shape::Resized, 2, -1, true, -1, true},
    {"fft_ifft", Along::Whole, Shape::Resized, 2, -1, true, -1, true},
    {"fft_rfft", Along::Whole, Shape::Resized, 2, -1, true, -1, true},
    {"fft_irfft", Along::Whole, Shape::Resized, 2, -1, true, -1, true},
    {"flip", Along::Whole, Shape::Same, 1, kAll, true},
    {"roll", Along::Whole, Shape::Same, 2, kAll, true},
    {"sort", Along::Whole, Shape::Same, 1, -1},
    {"argsort", Along::Whole, Shape::Same, 1, -1},
    {"diff", Along::Whole, Shape::Resized, 2, -1, true},
    {"topk", Along::Whole, Shape::Resized, 2, -1},
    {"kthvalue", Along::Whole, Shape::Drops, 2, -1, false, 3},
    {"max", Along::Whole, Shape::Drops, 1, kAll, false, 2},
    {"min", Along::Whole, Shape::Drops, 1, kAll, false, 2},
    {"amax", Along::Whole, Shape::Drops, 1, kAll, false, 2},
    {"amin", Along::Whole, Shape::Drops, 1, kAll, false, 2},
    {"argmax", Along::Whole, Shape::Drops, 1, kAll, false, 2},
    {"argmin", Along::Whole, Shape::Drops, 1, kAll, false, 2},
    {"all", Along::Whole, Shape::Drops, 1, kAll, false, 2},
    {"any", Along::Whole, Shape::Drops, 1, kAll, false, 2},
    {"std", Along::Whole, Shape::Drops, 1, kAll, false, 3},
    {"var", Along::Whole, Shape::Drops, 1, kAll, false, 3},
    {"norm", Along::Whole, Shape::Drops, 2, kAll, false, 3},
    {"linalg_vector_norm", Along::Whole, Shape::Drops, 2, kAll, false, 3},
    {"linalg_norm", Along::Whole, Shape::Drops, 2, kAll, false, 3},
    {"logsumexp", Along::Whole, Shape::Drops, 1, kAll, false, 2},
    {"prod", Along::Whole, Shape::Drops, 1, kAll, false, 2},
    {"count_nonzero", Along::Whole, Shape::Drops, 1, kAll},
    {"one_hot", Along::Whole, Shape::Appends, kNoDim, kAll},
    {"unfold", Along::Whole, Shape::Resized, 1, 0, true},
    {"glu", Along::Whole, Shape::Resized, 1, -1},
    {"avg_pool1d", Along::Whole, Shape::Resized, kNoDim, kLastDims + 1, true},
    {"avg_pool2d", Along::Whole, Shape::Resized, kNoDim, kLastDims + 2, true},
    {"avg_pool3d", Along::Whole, Shape::Resized, kNoDim, kLastDims + 3, true},
    {"adaptive_avg_pool1d", Along::Whole, Shape::Resized, kNoDim, kLastDims + 1, true},
    {"adaptive_avg_pool2d", Along::Whole, Shape::Resized, kNoDim, kLastDims + 2, true},
    {"adaptive_avg_pool3d", Along::Whole, Shape::Resized, kNoDim, kLastDims + 3, true},
    {"max_pool1d", Along::Whole, Shape::Resized, kNoDim, kLastDims + 1},
    {"max_pool2d", Along::Whole, Shape::Resized, kNoDim, kLastDims + 2},
    {"max_pool3d", Along::Whole, Shape::Resized, kNoDim, kLastDims + 3},
    {"adaptive_max_pool1d", Along::Whole, Shape::Resized, kNoDim, kLastDims + 1},
    {"adaptive_max_pool2d", Along::Whole, Shape::Resized, kNoDim, kLastDims + 2},
    {"adaptive_max_pool3d", Along::Whole, Shape::Resized, kNoDim, kLastDims + 3},
    {"interpolate", Along::Whole, Shape::Resized, kNoDim, kBehindChannels, true},
};

const DimRow* find_dim_row(std::string_view name) {
  const auto* row =
      std::find_if(std::begin(kDimRows), std::end(kDimRows), [name](const DimRow& r) { return r.name == name; });
  return row == std::end(kDimRows) ? nullptr : row;
}

}  // namespace

bool is_dim_op(std::string_view name) { return find_dim_row(name) != nullptr; }

void add_dim_names(std::vector<std::string_view>& names) {
  for (const DimRow& row : kDimRows) names.push_back(row.name);
}

namespace {

bool goes_by_default(int absent, size_t dim, size_t ndim) {
  if (absent == kBehindChannels) return dim > 1;
  if (absent > kLastDims) return dim + static_cast<size_t>(absent - kLastDims) >= ndim;
  return absent == kAll || from_end(absent, ndim) == dim;
}

// The dims that the call goes along, as a flag for each; none of a row that appends.
std::vector<bool> named_dims(const OpCall& call, const DimRow& row, std::string_view keyword, size_t ndim) {
  std::vector<bool> named(ndim, false);
  if (row.shape == Shape::Appends) return named;
  const GraphArg* arg = find_arg(call, static_cast<size_t>(row.dim_at), keyword);
  std::vector<RankNumber> dims;
  if (arg != nullptr && (is_number(arg) || arg->kind == ArgKind::Tuple))
    dims = numbers_at(call, static_cast<size_t>(row.dim_at), keyword);
  for (size_t dim = 0; dim < ndim && dims.empty(); ++dim) named[dim] = goes_by_default(row.absent, dim, ndim);
  for (const RankNumber& n : dims) {
    if (from_end(n.traced, ndim) < ndim) named[from_end(n.traced, ndim)] = true;
  }
  return named;
}

std::string_view dim_keyword(std::string_view op) {
  return op == "flip" || op == "roll" ? "dims" : op == "unfold" ? "dimension" : "dim";
}

}  // namespace

std::vector<bool> dims_along(const OpCall& call) {
  const auto x = tensor_at(call, 0);
  const DimRow* row = find_dim_row(call.name);
  return x && row != nullptr ? named_dims(call, *row, dim_keyword(call.name), x->shape.size()) : std::vector<bool>{};
}

namespace {

// A sum over a cut dim gives each rank a term; everything else must have the whole dim, in order where it gives one
// again. Adds the axes of the first to `summed`.
void need_dim(OpCall& call, OpResult& result, const DimRow& row, size_t dim, MapId map, AxisMask& summed) {
  const DimMap& held = call.table.maps.maps[map];
  if (!held.is_complete) {
    if (row.along == Along::Sum && held.tiles)
      summed |= held.axes;
    else
      say_pieces(call, result, dim, map);
  } else if (held.kind != MapKind::Whole && (row.shape == Shape::Same || row.shape == Shape::Resized)) {
    make_wrong(result, Code::TP5113,
               fmt::format("{} along dim {}, whose elements are in another order", name_of(call), dim));
  }
}

// What a call along `dim` makes of it: of a piece, whose values are wrong, the size that the piece gives.
MapId resized_map(OpCall& call, size_t dim, const DimMap& held, int64_t size) {
  MapTable& maps = call.table.maps;
  const SizeRule sizes = held.kind == MapKind::Whole ? nullptr : find_size_rule(call.name);
  if (sizes == nullptr) return whole_map(maps, size);
  const auto whole = tensor_at(call, 0)->shape;
  const auto result = out_shape(call);
  std::vector<int64_t> local = held.local;
  for (int64_t& piece : local) {
    Sizes x(whole.begin(), whole.end()), out(result.begin(), result.end());
    x[dim] = piece;
    sizes(call, x, out);
    piece = std::max<int64_t>(0, out[dim]);
  }
  return any_map(maps, size, std::move(local), held.axes);
}

// Windows go over what every rank has something of; of no batch there may be none (torch 2.13).
void need_elements(OpCall& call, OpResult& result, const Operand& x, size_t first) {
  for (size_t dim = first; dim < x.layout->dims.size(); ++dim) {
    const std::vector<int64_t>& local = call.table.maps.maps[x.layout->dims[dim]].local;
    if (x.shape[dim] != 0 && std::find(local.begin(), local.end(), 0) != local.end())
      crash(result, Code::TP5102,
            fmt::format("{}, and a rank has nothing of dim {}: {}", name_of(call), dim, rank_sizes_text(local)));
  }
}

}  // namespace

void rule_dim(OpCall& call, OpResult& result) {
  const DimRow& row = *find_dim_row(call.name);
  const auto x = tensor_at(call, 0);
  if (!x) return;
  // `max(x, y)` of two tensors goes by elements.
  const std::string_view keyword = dim_keyword(call.name);
  if (row.shape != Shape::Appends && tensor_at(call, static_cast<size_t>(row.dim_at), keyword))
    return rule_pointwise(call, result);
  MapTable& maps = call.table.maps;
  const size_t ndim = x->layout->dims.size();
  const std::vector<bool> named = named_dims(call, row, keyword, ndim);
  if (row.dim_at == kNoDim && row.shape == Shape::Resized) need_elements(call, result, *x, 1);
  if (row.needs_some) need_elements(call, result, *x, 0);
  Spread out;
  out.partial = x->layout->partial;
  if (x->layout->partial && !row.is_linear)
    make_wrong(result, Code::TP5108, fmt::format("{} of a sum that is still open", name_of(call)));
  out.zero = x->layout->zero && (row.is_linear || row.along == Along::Sum);
  const bool keep = row.keep_at >= 0 && bool_at(call, static_cast<size_t>(row.keep_at), "keepdim", false);
  AxisMask summed = 0, kept_pieces = 0;
  const auto target = out_shape(call);
  for (size_t dim = 0; dim < ndim; ++dim) {
    const MapId map = x->layout->dims[dim];
    const DimMap held = maps.maps[map];
    if (!named[dim]) {
      if (held.kind == MapKind::Cut) kept_pieces |= held.axes;
      out.dims.push_back(map);
      continue;
    }
    need_dim(call, result, row, dim, map, summed);
    if (row.shape == Shape::Same)
      out.dims.push_back(held.kind == MapKind::Whole ? map : any_map(maps, held.size, held.local, held.axes));
    else if (row.shape == Shape::Resized)
      out.dims.push_back(dim < target.size() ? resized_map(call, dim, held, target[dim]) : whole_map(maps, 1));
    else if (keep)
      out.dims.push_back(whole_map(maps, 1));
  }
  if (row.shape == Shape::Appends || call.name == "unfold") out.dims.push_back(whole_map(maps, target.back()));
  if ((out.partial & summed) != 0) make_wrong(result, Code::TP5108, "a cut sum that is still open is summed");
  if ((kept_pieces & summed) != 0)
    make_wrong(result, Code::TP5107, fmt::format("{} over one cut dim, and another dim is cut too", name_of(call)));
  out.partial |= summed;
  check_layout(call, result, out);
  const size_t outs = call.node.out_end - call.node.out_begin;
  for (size_t i = 0; i < outs; ++i) give(result, out);
}

}  // namespace tpplan
