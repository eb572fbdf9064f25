#include "topology/topology.h"

namespace tpplan {
namespace {

constexpr GpuFigureRow kGpuFigures[] = {
    {"attention_efficiency", &GpuFigures::attention_efficiency, 1, "the share of the peak that attention reaches"},
    {"fp8_efficiency", &GpuFigures::fp8_efficiency, 1, "the share of the 8-bit peak that large matmuls reach"},
    {"ramp", &GpuFigures::ramp, 1e9, "the contracted size at which a matmul reaches half of its efficiency"},
    {"processors", &GpuFigures::processors, 1e6, "the number of streaming multiprocessors"},
    {"memory_bytes", &GpuFigures::memory_bytes, 1e18, "the bytes of a GPU's memory"},
    {"memory_bandwidth", &GpuFigures::memory_bandwidth, 1e18, "the bytes a second of a GPU's memory"},
    {"memory_efficiency", &GpuFigures::memory_efficiency, 1, "the share of the memory bandwidth that kernels reach"},
    {"host_ranks", &GpuFigures::host_ranks, 1e6, "the number of GPUs of a host"},
    {"contention", &GpuFigures::contention, 1, "what computation and a collective beside it cost each other"},
};

}  // namespace

std::span<const GpuFigureRow> gpu_figures() { return kGpuFigures; }

uint64_t capacity_of(const Topology& topology) { return static_cast<uint64_t>(topology.gpu.memory_bytes); }

}  // namespace tpplan
