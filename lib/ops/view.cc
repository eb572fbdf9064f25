// view, reshape, flatten, unflatten, view_as and reshape_as: the same order of elements with other dims.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ops/local_counts.h"
#include "ops/op_rules.h"
#include "ops/regroup_layouts.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

int64_t product(std::span<const int64_t> sizes) {
  int64_t all = 1;
  for (const int64_t size : sizes) all *= size;
  return all;
}

// Returns the sizes in the call; -1: inferred.
std::vector<PerRankNumber> requested_sizes(const OpCall& call, const Operand& x) {
  const auto& maps = call.table.maps.maps;
  const size_t ndim = x.shape.size();
  std::vector<PerRankNumber> sizes;
  // Adds unchanged dims.
  const auto copy_dims = [&](const Operand& operand, size_t begin, size_t end) {
    for (size_t dim = begin; dim < end; ++dim)
      sizes.push_back({maps[operand.layout->dims[dim]].local, operand.shape[dim], 0});
  };
  if (call.node.op == OpId::Flatten) {
    const auto begin = dim_index(number_at(call, 1, "start_dim", 0).traced, ndim),
               end = dim_index(number_at(call, 2, "end_dim", -1).traced, ndim);
    copy_dims(x, 0, begin);
    sizes.push_back({std::vector<int64_t>(call.table.maps.ranks, -1), -1, 0});
    copy_dims(x, end + 1, ndim);
  } else if (call.node.op == OpId::Unflatten) {
    const auto at = dim_index(number_at(call, 1, "dim", 0).traced, ndim);
    copy_dims(x, 0, at);
    for (const PerRankNumber& n : sizes_at(call, 2, "sizes")) sizes.push_back(n);
    copy_dims(x, at + 1, ndim);
  } else if (call.node.op == OpId::ViewAs || call.node.op == OpId::ReshapeAs) {
    if (const auto other = tensor_at(call, 1, "other")) copy_dims(*other, 0, other->shape.size());
  } else {
    sizes = sizes_at(call, 1, "shape");
  }
  return sizes;
}

// Dims [in_begin, in_end) of the operand, which become [out_begin, out_end) of the result.
struct ViewGroup {
  size_t in_begin = 0, in_end = 0;
  size_t out_begin = 0, out_end = 0;
};

// Finds the next dims with equal products on both sides, including dims of size 1 after them (torch's view_groups,
// distributed/tensor/_ops/_view_ops.py). Returns false if there are none.
bool next_group(std::span<const int64_t> in, std::span<const int64_t> out, ViewGroup& group) {
  size_t i = group.in_begin = group.in_end, j = group.out_begin = group.out_end;
  int64_t from = 1, to = 1;
  if (i < in.size()) from = in[i++];
  if (j < out.size()) to = out[j++];
  while (from != to) {
    if (from < to && i < in.size())
      from *= in[i++];
    else if (to < from && j < out.size())
      to *= out[j++];
    else
      break;
  }
  while (i < in.size() && in[i] == 1 && (j >= out.size() || out[j] != 1)) ++i;
  while (j < out.size() && out[j] == 1 && (i >= in.size() || in[i] != 1)) ++j;
  group.in_end = i;
  group.out_end = j;
  return from == to;
}

// Returns the size of a group that the code divides; nullptr if there is none. A group has at most one: its first
// divided attribute, or its first size if that is a multiple of one and the ranks hold that fraction of the group,
// because shards divide the first dim. A dim that stays as it is has none.
PerRankNumber* divided_size(const OpCall& call, const Operand& x, const ViewGroup& group,
                            std::span<PerRankNumber> sizes) {
  int64_t global = 1;
  for (size_t dim = group.in_begin; dim < group.in_end; ++dim) global *= x.shape[dim];
  bool is_sharded = true;
  for (size_t rank = 0; rank < call.table.maps.ranks; ++rank) {
    int64_t held = call.counts->ranks;
    for (size_t dim = group.in_begin; dim < group.in_end; ++dim) held *= local_size(call.table, *x.layout, dim, rank);
    is_sharded = is_sharded && held == global;
  }
  if (!is_sharded && group.in_end - group.in_begin == 1 && sizes.size() == 1) return nullptr;
  const auto local = std::ranges::find(sizes, LiteralUse::Local, &PerRankNumber::use);
  if (local != sizes.end()) return &*local;
  const bool is_inferred = std::ranges::count(sizes, -1, &PerRankNumber::traced) > 0;
  const auto first = std::ranges::find_if(sizes, [](const PerRankNumber& n) { return n.traced != 1; });
  const bool may_divide = first != sizes.end() && first->use == LiteralUse::Either;
  return is_sharded && !is_inferred && may_divide ? &*first : nullptr;
}

void divide_counts(const OpCall& call, const Operand& x, std::span<const int64_t> target,
                   std::vector<PerRankNumber>& sizes) {
  if (call.counts == nullptr || sizes.size() != target.size()) return;
  ViewGroup group;
  while (group.out_end < target.size() && next_group(x.shape, target, group)) {
    PerRankNumber* size =
        divided_size(call, x, group, std::span(sizes).subspan(group.out_begin, group.out_end - group.out_begin));
    if (size != nullptr) divide_by_ranks(call, *size);
  }
}

// Returns the sizes that each rank requests, [dim][rank]. -1 is inferred from the local sizes.
std::vector<std::vector<int64_t>> wanted_sizes(OpCall& call, OpResult& result, const Operand& x,
                                               std::span<const int64_t> target) {
  const size_t ranks = call.table.maps.ranks;
  std::vector<std::vector<int64_t>> wanted(target.size(), std::vector<int64_t>(ranks));
  std::vector<PerRankNumber> numbers = requested_sizes(call, x);
  divide_counts(call, x, target, numbers);
  if (numbers.size() != target.size()) {
    crash(result, Code::GlobalSizeInView,
          fmt::format("{} to {} dims, but the traced result has {}", name_of(call), numbers.size(), target.size()));
    return wanted;
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    const std::vector<int64_t> local = local_shape(call.table, *x.layout, rank);
    const int64_t count = product(local);
    int64_t known = 1;
    size_t inferred_dim = target.size();
    for (size_t dim = 0; dim < target.size(); ++dim) {
      wanted[dim][rank] = numbers[dim].local[rank];
      if (wanted[dim][rank] == -1)
        inferred_dim = dim;
      else
        known *= wanted[dim][rank];
    }
    bool fits = inferred_dim == target.size() ? known == count : known != 0 && count % known == 0;
    // torch does not infer -1 next to a size of 0, even for a tensor without elements.
    if (inferred_dim < target.size()) wanted[inferred_dim][rank] = fits ? count / known : 0;
    if (fits) continue;
    std::vector<int64_t> requested;
    for (const PerRankNumber& n : numbers) requested.push_back(n.local[rank]);
    crash(
        result, Code::GlobalSizeInView,
        fmt::format("{} to {}, but rank {} has {}: {}", name_of(call), shape_text(requested), rank, shape_text(local),
                    inferred_dim < target.size() ? fmt::format("its {} elements are not a multiple of {}", count, known)
                                                 : fmt::format("{} elements, and the new shape has {}", count, known)));
  }
  return wanted;
}

// Returns the layouts of the new dims of a group; nullopt with the reason in `fault` if the elements of a rank do not
// form them.
std::optional<std::vector<DimLayoutId>> view_group(OpCall& call, const Operand& x, std::span<const int64_t> target,
                                                   std::span<const std::vector<int64_t>> wanted, const ViewGroup& group,
                                                   std::string& fault) {
  for (size_t rank = 0; rank < call.table.maps.ranks; ++rank) {
    int64_t held = 1, requested = 1;
    for (size_t dim = group.in_begin; dim < group.in_end; ++dim) held *= local_size(call.table, *x.layout, dim, rank);
    for (size_t dim = group.out_begin; dim < group.out_end; ++dim) requested *= wanted[dim][rank];
    if (held != requested) return std::nullopt;
  }
  const size_t dims = group.out_end - group.out_begin;
  return regroup_layouts(call.table.maps,
                         std::span(x.layout->dims).subspan(group.in_begin, group.in_end - group.in_begin),
                         target.subspan(group.out_begin, dims), wanted.subspan(group.out_begin, dims), fault);
}

}  // namespace

void rule_view(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0);
  const auto target = out_shape(call);
  if (!x) return;
  const GraphArg* type = find_arg(call, 1, "dtype");
  if (type != nullptr && type->kind == ArgKind::TypeName) return append_result(result, *x->layout);
  ValueLayout out;
  out.partial = x->layout->partial;
  out.zero = x->layout->zero;
  out.local_view = x->layout->local_view;
  const auto wanted = wanted_sizes(call, result, *x, target);
  const auto append_sizes_only = [&] {
    for (size_t dim = 0; dim < target.size(); ++dim)
      out.dims.push_back(unknown_dim(call.table.maps, target[dim], wanted[dim], sharding_axes(call.table, *x->layout)));
    append_result(result, out);
  };
  if (!result.crash.empty()) return append_sizes_only();
  if (product(target) == 0) return append_sizes_only();
  ViewGroup group;
  while (group.in_end < x->shape.size() || group.out_end < target.size()) {
    std::string fault = "the shards do not map to shards of the new dims";
    std::optional<std::vector<DimLayoutId>> maps;
    if (next_group(x->shape, target, group)) maps = view_group(call, *x, target, wanted, group, fault);
    if (!maps) {
      mark_wrong(result, Code::GlobalSizeInView, fmt::format("{} crosses shard boundaries: {}", name_of(call), fault));
      out.dims.clear();
      return append_sizes_only();
    }
    out.dims.insert(out.dims.end(), maps->begin(), maps->end());
  }
  check_layout(call, result, out);
  append_result(result, std::move(out));
}

}  // namespace tpplan
