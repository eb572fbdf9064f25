#include "redistribute_cases.h"

#include <algorithm>
#include <cstring>

#include "exec/device/host_arithmetic.h"

namespace tpplan {
namespace {

bool is_partial(const Placement& placement) { return placement.kind == PlacementKind::Partial; }

bool has_sum(const RedistributeCase& one) { return std::ranges::any_of(one.from, is_partial); }

// Calls `visit` with every global index of a box, in row-major order.
template <typename Visit>
void for_each_index(const std::vector<Interval>& box, Visit visit) {
  std::vector<int64_t> index;
  for (const Interval& run : box) {
    if (length(run) == 0) return;
    index.push_back(run.begin);
  }
  for (;;) {
    visit(index);
    size_t dim = box.size();
    while (dim-- > 0 && ++index[dim] == box[dim].end) index[dim] = box[dim].begin;
    if (dim == static_cast<size_t>(-1)) return;
  }
}

int64_t flat_index(const std::vector<int64_t>& index, const std::vector<int64_t>& shape) {
  int64_t flat = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim) flat = flat * shape[dim] + index[dim];
  return flat;
}

// Returns the partial value of a rank at an index: a small integer that every arithmetic dtype represents. Sums of 64
// are exact in all of them except 8-bit dtypes.
int64_t summand(int64_t flat, const std::vector<int64_t>& coordinate, const std::vector<Placement>& from) {
  int64_t value = flat % 3;
  for (size_t axis = 0; axis < from.size(); ++axis) {
    if (is_partial(from[axis])) value += (flat + coordinate[axis] * static_cast<int64_t>(axis + 1)) % 4;
  }
  return value;
}

// Returns the coordinates of all ranks whose partial values are reduced into the local tensor at `coordinate` in the
// layout `now`. They differ from it only in axes that were Partial and are no longer.
std::vector<std::vector<int64_t>> summed_ranks(const std::vector<int64_t>& coordinate, const RedistributeCase& one,
                                               const std::vector<Placement>& now, const Mesh& mesh) {
  std::vector<std::vector<int64_t>> ranks;
  for (int64_t rank = 0; rank < device_count(mesh); ++rank) {
    std::vector<int64_t> other = coordinate_of(mesh, rank);
    bool counts = true;
    for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
      const bool reduced = is_partial(one.from[axis]) && !is_partial(now[axis]);
      counts = counts && (reduced || other[axis] == coordinate[axis]);
    }
    if (counts) ranks.push_back(std::move(other));
  }
  return ranks;
}

// Returns the reduction of the ranks' partial values at an index.
int64_t value_of(int64_t flat, const std::vector<std::vector<int64_t>>& ranks, const RedistributeCase& one) {
  ReduceOp op = ReduceOp::Sum;
  for (const Placement& placement : one.from) {
    if (is_partial(placement)) op = placement.op;
  }
  int64_t total = 0;
  bool first = true;
  for (const std::vector<int64_t>& rank : ranks) {
    const int64_t value = summand(flat, rank, one.from);
    total = first                 ? value
            : op == ReduceOp::Max ? std::max(total, value)
            : op == ReduceOp::Min ? std::min(total, value)
                                  : total + value;
    first = false;
  }
  return total;
}

template <typename T>
void append_as(std::string& out, int64_t value) {
  const T typed = static_cast<T>(value);
  out.append(reinterpret_cast<const char*>(&typed), sizeof typed);
}

void append_number(std::string& out, DType dtype, int64_t value) {
  const std::string_view name = dtypes()[dtype].name;
  if (name == "float32") return append_as<float>(out, value);
  if (name == "float64") return append_as<double>(out, value);
  if (name == "float16") return append_as<uint16_t>(out, half_of_float(static_cast<float>(value)));
  if (name == "bfloat16") return append_as<uint16_t>(out, bfloat16_of_float(static_cast<float>(value)));
  if (dtypes()[dtype].bits == 8) return append_as<uint8_t>(out, value);
  if (dtypes()[dtype].bits == 16) return append_as<uint16_t>(out, value);
  if (dtypes()[dtype].bits == 32) return append_as<uint32_t>(out, value);
  append_as<uint64_t>(out, value);
}

// Computes the box of a rank's shard. Returns false if the layout is invalid. Without segments a shard has one interval
// per dim.
bool box_of(const RedistributeCase& one, const std::vector<Placement>& now, const Mesh& mesh, int rank,
            std::vector<Interval>& box) {
  Region region;
  if (!region_of({.name = "", .shape = one.shape, .segments = {}, .dtype = one.dtype, .placements = now}, mesh, rank,
                 region))
    return false;
  for (const std::vector<Interval>& runs : region) box.push_back(runs.empty() ? Interval{} : runs[0]);
  return true;
}

// Returns the bytes of a rank's shard in a layout. Dtypes below 8 bits are packed bit by bit, lowest first.
std::string expected_bytes(const RedistributeCase& one, const std::vector<Placement>& now, const Mesh& mesh, int rank) {
  std::vector<Interval> box;
  if (!box_of(one, now, mesh, rank, box)) return "no layout";
  const unsigned bits = dtypes()[one.dtype].bits;
  const bool sums = has_sum(one);
  const std::vector<std::vector<int64_t>> ranks = summed_ranks(coordinate_of(mesh, rank), one, now, mesh);
  std::string out;
  uint64_t place = 0;
  for_each_index(box, [&](const std::vector<int64_t>& index) {
    const int64_t flat = flat_index(index, one.shape);
    if (sums) return append_number(out, one.dtype, value_of(flat, ranks, one));
    const auto noise = static_cast<uint64_t>(flat + 1) * 0x9e3779b97f4a7c15u;
    if (bits >= 8) {
      for (unsigned byte = 0; byte < bits / 8; ++byte) out.push_back(static_cast<char>(noise >> (8 * (byte % 7) + 7)));
      return;
    }
    for (unsigned bit = 0; bit < bits; ++bit, ++place) {
      if (place % 8 == 0) out.push_back(0);
      out.back() = static_cast<char>(static_cast<uint8_t>(out.back()) | (noise >> (40 + bit) & 1) << place % 8);
    }
  });
  return out;
}

// Returns the flat indices of a rank's elements, in memory order.
std::vector<int64_t> elements_of_rank(const RedistributeCase& one, const std::vector<Placement>& now, const Mesh& mesh,
                                      int64_t rank) {
  std::vector<int64_t> elements;
  std::vector<Interval> box;
  if (box_of(one, now, mesh, static_cast<int>(rank), box)) {
    for_each_index(box, [&](const std::vector<int64_t>& index) { elements.push_back(flat_index(index, one.shape)); });
  }
  return elements;
}

// True if each rank finds the needed elements in its group: on every rank for a reduction, on itself for a slice, on
// any rank otherwise.
bool is_step_servable(const RedistributeCase& one, const Collective& step, const std::vector<Placement>& before,
                      const std::vector<Placement>& after, const Mesh& mesh) {
  const bool each = step.kind == CollectiveKind::AllReduce || step.kind == CollectiveKind::ReduceScatter;
  for (int64_t rank = 0; rank < device_count(mesh); ++rank) {
    const std::vector<int64_t> needed = elements_of_rank(one, after, mesh, rank);
    std::vector<int64_t> held;
    for (int64_t other = 0; other < device_count(mesh); ++other) {
      std::vector<int64_t> a = coordinate_of(mesh, rank), b = coordinate_of(mesh, other);
      a[step.axis] = b[step.axis] = 0;
      if (a != b || (step.kind == CollectiveKind::LocalSlice && other != rank)) continue;
      const std::vector<int64_t> elements = elements_of_rank(one, before, mesh, other);
      if (each && !std::ranges::includes(elements, needed)) return false;
      held.insert(held.end(), elements.begin(), elements.end());
    }
    std::ranges::sort(held);
    if (!std::ranges::includes(held, needed)) return false;
  }
  return true;
}

std::vector<Placement> layouts_of(size_t ndim) {
  std::vector<Placement> layouts = {{}, {.kind = PlacementKind::Partial}};
  for (int dim = 0; dim < static_cast<int>(ndim); ++dim) layouts.push_back({.kind = PlacementKind::Shard, .dim = dim});
  if (ndim > 1) layouts.push_back({.kind = PlacementKind::Shard, .dim = -1});
  return layouts;
}

// Returns every combination of one placement per mesh axis.
std::vector<std::vector<Placement>> combinations(const std::vector<Placement>& layouts, size_t axes) {
  std::vector<std::vector<Placement>> all = {{}};
  for (size_t axis = 0; axis < axes; ++axis) {
    std::vector<std::vector<Placement>> longer;
    for (const std::vector<Placement>& start : all) {
      for (const Placement& layout : layouts) {
        longer.push_back(start);
        longer.back().push_back(layout);
      }
    }
    all = std::move(longer);
  }
  return all;
}

DType named(std::string_view name) {
  const DType dtype = dtype_of(name);
  return dtype;
}

// True unless the placements have the same dim with different spellings, -1 and ndim - 1. redistribute would treat that
// as a move; its callers must use one spelling.
bool is_spelled_alike(const Placement& from, const Placement& to, size_t ndim) {
  if (from.kind != PlacementKind::Shard || to.kind != PlacementKind::Shard || from.dim == to.dim) return true;
  return (from.dim + static_cast<int>(ndim)) % static_cast<int>(ndim) !=
         (to.dim + static_cast<int>(ndim)) % static_cast<int>(ndim);
}

}  // namespace

std::string to_text(const RedistributeCase& one, const Mesh& mesh) {
  std::string text = to_text(mesh) + " " + std::string(dtypes()[one.dtype].name) + " [";
  for (const int64_t size : one.shape) text += std::to_string(size) + " ";
  text += "]";
  for (size_t axis = 0; axis < one.from.size(); ++axis)
    text += " " + to_text(one.from[axis]) + "->" + to_text(one.to[axis]);
  return text;
}

std::vector<RedistributeCase> all_cases(const Mesh& mesh) {
  const std::vector<std::vector<int64_t>> shapes = {{8, 4, 6}, {7, 3}, {2, 9}, {0, 5}, {5}, {}};
  const char* const sums[] = {"float32", "bfloat16", "int64", "float16", "float64", "uint8", "int32", "uint16", "int8"};
  const ReduceOp ops[] = {ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min};
  std::vector<RedistributeCase> cases;
  size_t turn = 0;
  for (const std::vector<int64_t>& shape : shapes) {
    // As many cases as all others together, without new coverage.
    if (mesh.axes.size() > 1 && shape.size() == 3) continue;
    const auto all = combinations(layouts_of(shape.size()), mesh.axes.size());
    for (const std::vector<Placement>& from : all) {
      for (const std::vector<Placement>& to : all) {
        RedistributeCase one{.shape = shape, .from = from, .to = to};
        if (!redistribute(from, to)) continue;
        bool alike = true;
        for (size_t axis = 0; axis < from.size(); ++axis)
          alike = alike && is_spelled_alike(from[axis], to[axis], shape.size());
        if (!alike) continue;
        const ReduceOp op = ops[++turn % std::size(ops)];
        for (std::vector<Placement>* placements : {&one.from, &one.to}) {
          for (Placement& placement : *placements) {
            if (is_partial(placement)) placement.op = op;
          }
        }
        if (has_sum(one)) {
          one.dtype = named(sums[turn % std::size(sums)]);
        } else {
          do {
            one.dtype = static_cast<DType>(++turn % dtypes().size());
          } while (dtypes()[one.dtype].bits < 8);
        }
        cases.push_back(std::move(one));
      }
    }
  }
  // Sub-byte dtypes, with shards of a whole number of bytes.
  for (const char* name : {"int4", "uint2", "float4_e2m1fn", "float6_e2m3fn"}) {
    const Placement rows{.kind = PlacementKind::Shard, .dim = 0}, columns{.kind = PlacementKind::Shard, .dim = 1},
        whole;
    for (const auto& [from, to] :
         {std::pair{rows, whole}, {columns, whole}, {rows, columns}, {columns, rows}, {whole, columns}}) {
      RedistributeCase one{.shape = {5, 4 * 2 * device_count(mesh)}, .dtype = named(name), .from = {from}, .to = {to}};
      one.from.resize(mesh.axes.size());
      one.to.resize(mesh.axes.size());
      cases.push_back(std::move(one));
    }
  }
  return cases;
}

bool is_servable(const RedistributeCase& one, const Mesh& mesh) {
  std::vector<Placement> now = one.from;
  const auto steps = redistribute(one.from, one.to);
  for (const Collective& step : *steps) {
    std::vector<Placement> next = now;
    next[step.axis] = placement_after(step, one.to);
    if (!is_step_servable(one, step, now, next, mesh)) return false;
    now = std::move(next);
  }
  return true;
}

LocalTensor first_tensor(Comm& comm, const Mesh& mesh, const RedistributeCase& one) {
  LocalTensor tensor{.name = "x", .shape = one.shape, .dtype = one.dtype, .placements = one.from};
  if (!allocate_local(comm, mesh, tensor)) return tensor;
  const std::string bytes = expected_bytes(one, one.from, mesh, comm.rank);
  if (bytes.size() != tensor.bytes) {
    fail(comm, Code::RedistributionMismatch,
         "the tensor takes " + std::to_string(tensor.bytes) + " bytes and not " + std::to_string(bytes.size()));
  } else if (tensor.bytes != 0) {
    comm.device->from_host(tensor.data.get(), bytes.data(), bytes.size());
    comm.device->synchronize();
  }
  return tensor;
}

std::string run_case(Comm& comm, const Mesh& mesh, const RedistributeCase& one, std::string& bytes) {
  LocalTensor tensor = first_tensor(comm, mesh, one);
  const auto steps = redistribute(one.from, one.to);
  for (const Collective& step : *steps) {
    if (!redistribute_step(comm, mesh, step, tensor, placement_after(step, one.to)))
      return to_text(one, mesh) + ": " + to_text(*comm.fault);
  }
  bytes.resize(tensor.bytes);
  if (tensor.bytes != 0) comm.device->to_host(bytes.data(), tensor.data.get(), tensor.bytes);
  if (tensor.placements != one.to) return to_text(one, mesh) + ": it ends in another layout";
  if (bytes != expected_bytes(one, one.to, mesh, comm.rank))
    return to_text(one, mesh) + ": rank " + std::to_string(comm.rank) + " holds other bytes";
  return "";
}

}  // namespace tpplan
