#include "exec/ranks/reduce_by_moves.h"

#include <spdlog/fmt/fmt.h>

#include <memory>
#include <new>
#include <vector>

#include "exec/device/divide.h"

namespace tpplan {
namespace {

std::shared_ptr<void> memory_of(const Device& device, uint64_t bytes) {
  std::shared_ptr<void> memory(device.allocate(bytes), device.release);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

std::vector<uint64_t> bytes_of(std::span<const uint64_t> elements, DType dtype) {
  std::vector<uint64_t> bytes;
  for (const uint64_t run : elements) bytes.push_back(byte_size(dtype, run));
  return bytes;
}

}  // namespace

bool can_reduce(Comm& comm, DType dtype) {
  if (comm.device->reduce(nullptr, nullptr, 0, dtype, ReduceOp::Sum)) return true;
  fail(comm, Code::RedistributionMismatch,
       fmt::format("{} has no arithmetic on this device, so ranks cannot reduce it", dtypes()[dtype].name));
  return false;
}

bool reduce_scatter_by_moves(Comm& comm, const Group& group, const void* in, void* out,
                             std::span<const uint64_t> elements, DType dtype, ReduceOp op) {
  if (!can_reduce(comm, dtype)) return false;
  const Device& device = *comm.device;
  const uint64_t count = elements.size(), own = elements[group.self], bytes = byte_size(dtype, own);
  // The interval of this rank, from every rank of the group.
  const std::shared_ptr<void> runs = memory_of(device, count * bytes);
  const std::vector<uint64_t> received(count, bytes);
  if (!comm.backend->all_to_all(comm, group, in, bytes_of(elements, dtype), runs.get(), received)) return false;
  if (own == 0) return true;
  device.copy(out, runs.get(), bytes);
  for (uint64_t i = 1; i < count; ++i) device.reduce(out, static_cast<char*>(runs.get()) + i * bytes, own, dtype, op);
  if (op == ReduceOp::Avg) divide(device, out, own, dtype, count);
  device.synchronize();
  return true;
}

bool all_reduce_by_moves(Comm& comm, const Group& group, void* data, uint64_t elements, DType dtype, ReduceOp op) {
  const uint64_t count = group.ranks.size();
  std::vector<uint64_t> pieces;  // interval that each rank of the group reduces
  for (uint64_t i = 0; i < count; ++i) pieces.push_back(elements / count + (i < elements % count));
  const std::vector<uint64_t> bytes = bytes_of(pieces, dtype);
  const std::shared_ptr<void> reduced = memory_of(*comm.device, bytes[group.self]);
  return reduce_scatter_by_moves(comm, group, data, reduced.get(), pieces, dtype, op) &&
         comm.backend->all_gather(comm, group, reduced.get(), data, bytes);
}

}  // namespace tpplan
