#include "plan/fsdp_policies.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace tpplan {
namespace {

// Returns the dims by descending size, of equal ones the last first.
std::vector<size_t> by_size_down(std::span<const int64_t> sizes) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return sizes[a] < sizes[b]; });
  std::reverse(order.begin(), order.end());
  return order;
}

// As `predict_shard_params_fn` of an equinox project: the largest dim that is not sharded and that the axis divides. Of
// equal dims the last comes first: numpy.argsort(shape, kind="stable")[::-1].
std::optional<size_t> largest_dim(const FsdpTensor& tensor) {
  for (const size_t dim : by_size_down(tensor.shape)) {
    if (divides(tensor.mesh.axes[tensor.axis].size, tensor.shape[dim]) && tensor.sharding.spec[dim].empty()) return dim;
  }
  return std::nullopt;
}

// As largest_dim, by local sizes: the axis can shard a sharded dim again, as its minor axis. Uses check_sharding,
// because the segments of a fused dim must be divisible, too.
std::optional<size_t> compose(const FsdpTensor& tensor) {
  std::vector<int64_t> left(tensor.shape.begin(), tensor.shape.end());
  for (size_t dim = 0; dim < left.size(); ++dim) left[dim] /= shard_count(tensor.sharding.spec[dim], tensor.mesh);
  for (const size_t dim : by_size_down(left)) {
    Sharding candidate = tensor.sharding;
    candidate.spec[dim].push_back(tensor.axis);
    if (check_sharding(tensor.shape, candidate, tensor.mesh, UnevenPolicy::Error).empty()) return dim;
  }
  return std::nullopt;
}

// torch 2.13, fully_shard: dim 0 of every tensor, whatever its size; no scalars.
std::optional<size_t> dim0(const FsdpTensor& tensor) {
  return tensor.shape.empty() ? std::nullopt : std::optional<size_t>(0);
}

constexpr FsdpPolicyRow kPolicies[] = {
    {.name = "largest_dim",
     .no_dim_help = "write `policy: compose` to shard a dim again, or use an axis size that divides a dim",
     .choose = largest_dim},
    {.name = "compose", .no_dim_help = "use an axis size that divides the local size of a dim", .choose = compose},
    {.name = "dim0",
     .has_minimum_size = false,
     .uneven_policy = UnevenPolicy::Torch,
     .no_dim = Code::ScalarUnderFsdp,
     .no_dim_help = "make it a tensor of shape [1], or exclude it from `fsdp.patterns`",
     .choose = dim0},
};

}  // namespace

std::span<const FsdpPolicyRow> fsdp_policy_table() { return kPolicies; }

}  // namespace tpplan
