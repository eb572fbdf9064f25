// The speeds of a cluster: links along the mesh axes, and matmuls.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "sharding/dtype.h"
#include "sharding/mesh.h"

namespace tpplan {

// The link of one rank: bytes for each second in each direction at the same time, and seconds for each hop.
struct LinkSpeed {
  double bandwidth = 0;
  double latency = 0;
  size_t timings = 0;       // number of timings that both were fitted to; 0: read from a file
  double efficiency = 1;    // share of the bandwidth that large collectives reach
  bool is_of_host = false;  // the bandwidth is that of a whole host, which its ranks share
};

// A link and the number of consecutive ranks that it connects; 0: all.
struct RankLink {
  int64_t ranks = 0;
  LinkSpeed speed;
};

// What one GPU does besides matmuls, and how far it falls short of its peaks. 0: the file has no such figure.
struct GpuFigures {
  double attention_efficiency = 0;  // share of the peak that fused attention reaches
  double fp8_efficiency = 0;        // share of the 8-bit peak that large 8-bit matmuls reach
  double ramp = 0;                  // the contracted size at which a matmul reaches half of `Topology::efficiency`
  double processors = 0;            // streaming multiprocessors or compute units
  double memory_bytes = 0;
  double memory_bandwidth = 0;  // bytes for each second
  double memory_efficiency = 0;
  double host_ranks = 0;  // GPUs of a host
  double contention = 0;  // share of the shorter side that computation and a collective beside it cost each other
};

// A step that was measured, and the files of what ran. Paths are relative to the topology.
struct MeasuredStep {
  std::string model, plan, run;
  double seconds = 0;
  Span span;
};

struct Topology {
  std::string name;
  std::string device;                          // a substring of the device names; empty if no file has one
  std::vector<std::pair<DType, double>> peak;  // FLOP/s by dtype; empty if only links were measured
  double efficiency = 1;                       // share of the peak that large matmuls reach
  GpuFigures gpu;
  std::vector<RankLink> links;  // from the innermost on
  std::vector<LinkSpeed> axes;  // by mesh axis; unset for axes of size 1
  std::vector<bool>
      is_measured_axis;  // by mesh axis: `axes` was measured or given for this axis, not taken from `links`
  std::vector<MeasuredStep> calibrate;
};

// A figure of GpuFigures: its key in a topology file.
struct GpuFigureRow {
  std::string_view key;
  double GpuFigures::*figure;
  double most;               // the largest value that makes sense
  std::string_view meaning;  // for messages
};
[[nodiscard]] std::span<const GpuFigureRow> gpu_figures();

// Returns the memory of a GPU in bytes; 0 if the file does not have it.
[[nodiscard]] uint64_t capacity_of(const Topology& topology);

// Returns the peak FLOP/s of matmuls of this dtype; the slowest peak if the dtype has none.
[[nodiscard]] double peak_of(const Topology& topology, DType dtype);

}  // namespace tpplan
