#include "exec/run/exact_tensor.h"

#include <cstring>
#include <tuple>

namespace tpplan {
namespace {

std::vector<char> expected_bytes(const Comm& comm, const Mesh& mesh, const ExactTensor& data,
                                 const LocalTensor& tensor) {
  Region region;
  std::ignore = region_of(tensor, mesh, comm.rank, region);
  return exact_bytes(data, mesh, coordinate_of(mesh, comm.rank), region, partial_axes(tensor.placements));
}

}  // namespace

std::vector<AxisId> partial_axes(std::span<const Placement> placements) {
  std::vector<AxisId> axes;
  for (size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis].kind == PlacementKind::Partial) axes.push_back(static_cast<AxisId>(axis));
  }
  return axes;
}

ReduceOp partial_op(std::span<const Placement> placements) {
  for (const Placement& placement : placements) {
    if (placement.kind == PlacementKind::Partial) return placement.op;
  }
  return ReduceOp::Sum;
}

bool make_exact_tensor(Comm& comm, const Mesh& mesh, const ExactTensor& data, LocalTensor& tensor) {
  if (!allocate_local(comm, mesh, tensor)) return false;
  const std::vector<char> bytes = expected_bytes(comm, mesh, data, tensor);
  if (!bytes.empty()) comm.device->from_host(tensor.data.get(), bytes.data(), bytes.size());
  comm.device->synchronize();
  return true;
}

std::vector<char> host_bytes(const Comm& comm, const LocalTensor& tensor) {
  std::vector<char> bytes(tensor.bytes);
  if (!bytes.empty()) comm.device->to_host(bytes.data(), tensor.data.get(), bytes.size());
  return bytes;
}

uint64_t count_wrong_elements(const Comm& comm, const Mesh& mesh, const ExactTensor& data, const LocalTensor& tensor) {
  const std::vector<char> expected = expected_bytes(comm, mesh, data, tensor), found = host_bytes(comm, tensor);
  const size_t width = dtypes()[tensor.dtype].bits / 8;
  if (expected.size() != found.size()) return std::max(expected.size(), found.size()) / width;
  uint64_t wrong = 0;
  for (size_t at = 0; at < found.size(); at += width)
    wrong += std::memcmp(expected.data() + at, found.data() + at, width) != 0;
  return wrong;
}

}  // namespace tpplan
