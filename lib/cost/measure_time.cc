#include "cost/measure_time.h"

#include <algorithm>
#include <map>

#include "cost/layer_path.h"
#include "sharding/steps.h"

namespace tpplan {
namespace {

// Returns the seconds of the collectives of each layer.
std::map<std::pair<std::string_view, int64_t>, double> seconds_by_layer(std::span<const CollectiveCall> calls,
                                                                        const Mesh& mesh, const Topology& topology) {
  std::map<std::pair<std::string_view, int64_t>, double> found;
  for (const CollectiveCall& call : calls) {
    const LayerPath path = layer_path(call.module);
    found[{path.stack, path.number}] += call_seconds(call, mesh.axes[call.axis].size, topology.axes[call.axis]);
  }
  return found;
}

// Returns the seconds of the first layer of a group such as "model.layers.{0..79}".
double of_first_layer(const std::map<std::pair<std::string_view, int64_t>, double>& by_layer, std::string_view layers) {
  if (layers.empty()) {
    double sum = 0;
    for (const auto& [layer, seconds] : by_layer) sum += layer.second < 0 ? seconds : 0;
    return sum;
  }
  const size_t bracket = layers.find_first_of("{[");
  const std::string_view stack =
      bracket == std::string_view::npos ? layer_path(layers).stack : layers.substr(0, bracket == 0 ? 0 : bracket - 1);
  int64_t number = 0;
  if (bracket == std::string_view::npos)
    number = layer_path(layers).number;
  else
    for (size_t i = bracket + 1; i < layers.size() && layers[i] >= '0' && layers[i] <= '9'; ++i)
      number = number * 10 + (layers[i] - '0');
  const auto found = by_layer.find({stack, number});
  return found == by_layer.end() ? 0 : found->second;
}

}  // namespace

double peak_of(const Topology& topology, DType dtype) {
  double slowest = 0;
  for (const auto& [known, peak] : topology.peak) {
    if (known == dtype) return peak * topology.efficiency;
    slowest = slowest == 0 ? peak : std::min(slowest, peak);
  }
  return slowest * topology.efficiency;
}

double call_seconds(const CollectiveCall& call, int64_t ranks, const LinkSpeed& link) {
  if (ranks < 2) return 0;
  const auto payload = static_cast<double>(payload_bytes(call, ranks)), n = static_cast<double>(ranks);
  const double passes = ring_passes(call.kind);
  return passes * ((n - 1) * link.latency + (n - 1) / n * payload / link.bandwidth);
}

StepTime measure_time(std::span<const CollectiveCall> calls, const Mesh& mesh, const StepCosts& costs,
                      std::span<const AxisId> data_axes, const Topology& topology) {
  StepTime time{.has_matmul_speed = !topology.peak.empty()};
  const auto by_layer = seconds_by_layer(calls, mesh, topology);
  for (const LayerCosts& layer : costs.layers) {
    LayerTime& row = time.layers.emplace_back(LayerTime{.layers = layer.layers, .count = layer.count});
    for (const MatmulWork& work : layer.work) {
      if (!time.has_matmul_speed) break;
      const double peak = peak_of(topology, work.dtype);
      row.forward += static_cast<double>(work.forward) / peak;
      row.backward += static_cast<double>(work.backward + work.again) / peak;
    }
    row.communication = of_first_layer(by_layer, layer.layers);
    time.forward += row.forward * static_cast<double>(layer.count);
    time.backward += row.backward * static_cast<double>(layer.count);
  }
  for (size_t at = 0; at < mesh.axes.size(); ++at) {
    AxisTime row{.axis = static_cast<AxisId>(at), .link = topology.axes[at]};
    for (const CollectiveCall& call : calls) {
      if (call.axis != row.axis) continue;
      ++row.calls;
      row.seconds += call_seconds(call, mesh.axes[at].size, topology.axes[at]);
    }
    if (row.calls == 0) continue;
    row.overlaps = std::find(data_axes.begin(), data_axes.end(), row.axis) != data_axes.end();
    (row.overlaps ? time.hidden : time.waited) += row.seconds;
    time.axes.push_back(row);
  }
  time.total = time.forward + time.backward + time.waited;
  return time;
}

}  // namespace tpplan
