#include "cost/link_seconds.h"

#include <algorithm>

#include "sharding/steps.h"

namespace tpplan {
namespace {

// What a call costs before its first byte: launch and synchronisation of the ranks. all_reduce of gpt-fast on A100
// takes 22 us over two ranks.
constexpr double kCallSeconds = 20e-6;

}  // namespace

AxisPath axis_path(const Topology& topology, const Mesh& mesh, AxisId axis) {
  int64_t apart = 1;
  for (size_t at = axis + size_t{1}; at < mesh.axes.size(); ++at) apart *= mesh.axes[at].size;
  const int64_t ranks = mesh.axes[axis].size, span = apart * ranks;
  const LinkSpeed& outer = topology.axes[axis];
  AxisPath path{.bandwidth = outer.bandwidth * outer.efficiency,
                .latency = outer.latency * static_cast<double>(ranks - 1)};
  const auto host = static_cast<int64_t>(topology.gpu.host_ranks);
  const bool is_measured = axis < topology.is_measured_axis.size() && topology.is_measured_axis[axis];
  if (is_measured || host < 1 || span <= host || topology.links.empty()) return path;
  const LinkSpeed& inner = topology.links.front().speed;
  const int64_t on_host = std::clamp<int64_t>(host / apart, 1, ranks);
  const double share = outer.is_of_host ? path.bandwidth / static_cast<double>(host) : path.bandwidth;
  const double hosts = static_cast<double>(ranks) / static_cast<double>(on_host);
  path.bandwidth = share * static_cast<double>(on_host);
  if (on_host > 1) path.bandwidth = std::min(path.bandwidth, inner.bandwidth * inner.efficiency);
  path.latency = outer.latency * hosts + inner.latency * (static_cast<double>(ranks) - hosts);
  return path;
}

double ring_seconds(CollectiveKind kind, double payload, int64_t ranks, const AxisPath& path) {
  if (ranks < 2 || payload <= 0) return 0;
  const auto n = static_cast<double>(ranks);
  const double passes = ring_passes(kind);
  return kCallSeconds + passes * (path.latency + (n - 1) / n * payload / path.bandwidth);
}

}  // namespace tpplan
