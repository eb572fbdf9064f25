#include "exec/run/redistribute_step.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "exec/ranks/deadline.h"
#include "exec/ranks/roster.h"
#include "exec/run/copy_region.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// The plan of a step, made before any communication.
struct StepPlan {
  Group group;
  std::vector<Region> before, after;  // by index in the group
  unsigned bits = 8;
  ReduceOp op = ReduceOp::Sum;  // reduction of the axis, if the tensor is Partial on it
};

const Region& own(const std::vector<Region>& regions, const StepPlan& plan) { return regions[plan.group.self]; }

bool is_sum(CollectiveKind kind) { return kind == CollectiveKind::AllReduce || kind == CollectiveKind::ReduceScatter; }

// True if a collective of this kind can start from the placement.
bool starts_from(CollectiveKind kind, const Placement& placement) {
  switch (kind) {
    case CollectiveKind::AllGather:
    case CollectiveKind::AllToAll:
      return is_shard(placement);
    case CollectiveKind::AllReduce:
    case CollectiveKind::ReduceScatter:
      return placement.kind == PlacementKind::Partial;
    case CollectiveKind::LocalSlice:
      return placement.kind == PlacementKind::Replicate;
  }
  return false;
}

bool reject_step(Comm& comm, const LocalTensor& tensor, const Mesh& mesh, const Collective& collective,
                 const std::string& why) {
  fail(comm, Code::RedistributionMismatch,
       fmt::format("{}: {} over {}: {}", escape_for_terminal(tensor.name), to_text(collective.kind),
                   collective.axis < mesh.axes.size() ? axis_name(mesh, collective.axis) : "no axis", why));
  return false;
}

Group group_of(const Mesh& mesh, AxisId axis, int rank) {
  Group group;
  std::vector<int64_t> coordinate = coordinate_of(mesh, rank);
  group.self = static_cast<size_t>(coordinate[axis]);
  for (int64_t i = 0; i < mesh.axes[axis].size; ++i) {
    coordinate[axis] = i;
    group.ranks.push_back(static_cast<int>(rank_of(mesh, coordinate)));
  }
  return group;
}

// Returns why the group lacks elements that this rank needs; empty if it has them. A reduction needs its region on
// every rank, a slice on this rank, other collectives each element on some rank. Only this rank may notice, so it
// informs the others. Counting elements suffices, because a sharded axis has an element on one rank only, and the ranks
// of a reduction all hold the same region.
std::string find_lack(const StepPlan& plan, CollectiveKind kind) {
  const uint64_t needed = elements_in(own(plan.after, plan));
  uint64_t held = 0;
  for (size_t from = 0; from < plan.group.ranks.size(); ++from) {
    if (kind == CollectiveKind::LocalSlice && from != plan.group.self) continue;
    held += elements_in(intersection(plan.before[from], own(plan.after, plan)));
  }
  if (is_sum(kind)) held /= plan.group.ranks.size();
  if (held == needed) return "";
  return fmt::format(
      "rank {} needs {} elements, but its group ({}) holds {}: gather the other axis that shards this dim first",
      plan.group.ranks[plan.group.self], needed, list_ranks(plan.group.ranks), held);
}

std::shared_ptr<void> allocate_block(Comm& comm, uint64_t bytes) {
  if (bytes == 0) return nullptr;
  void* memory = comm.device->allocate(bytes);
  if (memory == nullptr) {
    fail(comm, Code::OutOfMemory, fmt::format("cannot allocate {} on the {}", human_bytes(bytes), comm.device->memory));
    return nullptr;
  }
  return {memory, comm.device->release};
}

bool has_block(const std::shared_ptr<void>& block, uint64_t bytes) { return bytes == 0 || block != nullptr; }

// Copies `part` from buffer `from` of from_region into `to`. Returns false if elements do not fill whole bytes.
bool copy_part(const Comm& comm, const void* from, const Region& from_region, void* to, const Region& to_region,
               const Region& part, unsigned bits) {
  std::vector<RegionCopy> copies;
  if (!plan_region_copy(from_region, to_region, part, bits, copies)) return false;
  for (const RegionCopy& copy : copies) {
    comm.device->copy_strided(static_cast<char*>(to) + copy.to_offset,
                              static_cast<const char*>(from) + copy.from_offset, copy.how);
  }
  return true;
}

// The parts for all ranks of the group, one after the other, as backends expect them.
struct Packed {
  std::vector<Region> parts;     // by index in the group
  std::vector<uint64_t> counts;  // of elements, by index in the group
  std::vector<uint64_t> bytes;
  uint64_t total = 0;  // bytes
};

// Computes the sizes. Returns false if a part does not fill whole bytes.
bool pack_sizes(Packed& packed, unsigned bits) {
  for (const Region& part : packed.parts) {
    const uint64_t elements = elements_in(part);
    if (bits < 8 && elements * bits % 8 != 0) return false;
    packed.counts.push_back(elements);
    packed.bytes.push_back((elements * bits + 7) / 8);
    packed.total += packed.bytes.back();
  }
  return true;
}

struct Exchange {
  Comm& comm;
  const StepPlan& plan;
  const LocalTensor& tensor;
  void* result;
  StepTiming timing;
  StepMeasure& measure;
  std::string why;  // why the step cannot be executed

  bool reject(std::string reason) {
    why = std::move(reason);
    return false;
  }
};

constexpr const char* kNotFullBytes =
    "its shards split bytes: shard another dim, or a multiple of the elements in a byte";

// Makes one call: `prepare`, then `call`. If it is timed, first repeats `call` alone: the clock starts when the device
// has finished earlier work and stops when it has finished the calls.
template <typename Prepare, typename Call>
bool run_exchange(Exchange& exchange, uint64_t bytes, Prepare prepare, Call call) {
  const Device& device = *exchange.comm.device;
  exchange.measure.bytes = bytes;
  if (exchange.timing.iterations > 0) {
    prepare();
    for (int i = 0; i < exchange.timing.warmup; ++i) {
      if (!call()) return false;
    }
    device.synchronize();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < exchange.timing.iterations; ++i) {
      if (!call()) return false;
    }
    device.synchronize();
    exchange.measure.seconds = seconds_since(start) / exchange.timing.iterations;
  }
  prepare();
  device.synchronize();
  if (!call()) return false;
  device.synchronize();
  return true;
}

constexpr auto kNothing = [] {};

// Packs the parts of the local region that the ranks of the group will hold into a buffer.
bool pack(Exchange& exchange, Packed& packed, std::shared_ptr<void>& block) {
  const StepPlan& plan = exchange.plan;
  for (const Region& wanted : plan.after) packed.parts.push_back(intersection(own(plan.before, plan), wanted));
  if (!pack_sizes(packed, plan.bits)) return exchange.reject(kNotFullBytes);
  block = allocate_block(exchange.comm, packed.total);
  if (!has_block(block, packed.total)) return false;
  uint64_t offset = 0;
  for (size_t i = 0; i < packed.parts.size(); offset += packed.bytes[i++]) {
    const Region& part = packed.parts[i];
    if (!copy_part(exchange.comm, exchange.tensor.data.get(), own(plan.before, plan),
                   static_cast<char*>(block.get()) + offset, part, part, plan.bits)) {
      return exchange.reject(kNotFullBytes);
    }
  }
  return true;
}

// The buffers of the ranks arrive one after the other; in the result their rows alternate, unless the sharded dim is
// the first.
bool unpack(Exchange& exchange, const Packed& packed, const void* block) {
  uint64_t offset = 0;
  for (size_t i = 0; i < packed.parts.size(); offset += packed.bytes[i++]) {
    const Region needed = intersection(packed.parts[i], own(exchange.plan.after, exchange.plan));
    if (!copy_part(exchange.comm, static_cast<const char*>(block) + offset, packed.parts[i], exchange.result,
                   own(exchange.plan.after, exchange.plan), needed, exchange.plan.bits)) {
      return exchange.reject(kNotFullBytes);
    }
  }
  return true;
}

bool run_all_gather(Exchange& exchange) {
  Packed received{.parts = exchange.plan.before};
  if (!pack_sizes(received, exchange.plan.bits)) return exchange.reject(kNotFullBytes);
  const std::shared_ptr<void> block = allocate_block(exchange.comm, received.total);
  if (!has_block(block, received.total)) return false;
  Comm& comm = exchange.comm;
  return run_exchange(exchange, received.total, kNothing,
                      [&] {
                        return comm.backend->all_gather(comm, exchange.plan.group, exchange.tensor.data.get(),
                                                        block.get(), received.bytes);
                      }) &&
         unpack(exchange, received, block.get());
}

bool run_all_to_all(Exchange& exchange) {
  Packed sent, received;
  std::shared_ptr<void> out;
  if (!pack(exchange, sent, out)) return false;
  for (const Region& held : exchange.plan.before)
    received.parts.push_back(intersection(held, own(exchange.plan.after, exchange.plan)));
  if (!pack_sizes(received, exchange.plan.bits)) return exchange.reject(kNotFullBytes);
  const std::shared_ptr<void> in = allocate_block(exchange.comm, received.total);
  if (!has_block(in, received.total)) return false;
  Comm& comm = exchange.comm;
  return run_exchange(exchange, sent.total, kNothing,
                      [&] {
                        return comm.backend->all_to_all(comm, exchange.plan.group, out.get(), sent.bytes, in.get(),
                                                        received.bytes);
                      }) &&
         unpack(exchange, received, in.get());
}

// A part is packed as the region that its rank will hold, so the received buffer is the result, without unpacking.
bool run_reduce_scatter(Exchange& exchange) {
  Packed sent;
  std::shared_ptr<void> out;
  if (!pack(exchange, sent, out)) return false;
  Comm& comm = exchange.comm;
  return run_exchange(exchange, sent.total, kNothing, [&] {
    return comm.backend->reduce_scatter(comm, exchange.plan.group, out.get(), exchange.result, sent.counts,
                                        exchange.tensor.dtype, exchange.plan.op);
  });
}

// Reduces in new memory, because others can share the memory of the tensor.
bool run_all_reduce(Exchange& exchange) {
  const uint64_t bytes = exchange.tensor.bytes, elements = elements_in(own(exchange.plan.before, exchange.plan));
  Comm& comm = exchange.comm;
  const auto fill = [&] {
    if (bytes != 0) comm.device->copy(exchange.result, exchange.tensor.data.get(), bytes);
  };
  return run_exchange(exchange, bytes, fill, [&] {
    return comm.backend->all_reduce(comm, exchange.plan.group, exchange.result, elements, exchange.tensor.dtype,
                                    exchange.plan.op);
  });
}

bool run_slice(Exchange& exchange) {
  const StepPlan& plan = exchange.plan;
  const uint64_t bytes = (elements_in(own(plan.after, plan)) * plan.bits + 7) / 8;
  return run_exchange(exchange, bytes, kNothing, [&] {
    return copy_part(exchange.comm, exchange.tensor.data.get(), own(plan.before, plan), exchange.result,
                     own(plan.after, plan), own(plan.after, plan), plan.bits) ||
           exchange.reject(kNotFullBytes);
  });
}

struct KindRow {
  CollectiveKind kind;
  bool (*run)(Exchange&);
};

constexpr KindRow kKinds[] = {
    {CollectiveKind::AllGather, run_all_gather},
    {CollectiveKind::AllReduce, run_all_reduce},
    {CollectiveKind::ReduceScatter, run_reduce_scatter},
    {CollectiveKind::AllToAll, run_all_to_all},
    {CollectiveKind::LocalSlice, run_slice},
};

}  // namespace

bool region_of(const LocalTensor& tensor, const Mesh& mesh, int rank, Region& region) {
  if (tensor.placements.size() != mesh.axes.size() || rank < 0 || rank >= device_count(mesh)) return false;
  std::vector<Placement> sharded_placements = tensor.placements;
  for (Placement& placement : sharded_placements) {
    if (placement.kind == PlacementKind::Partial) placement = {};
  }
  Sharding sharding{.spec = {}, .segments = tensor.segments};
  if (!spec_of(sharded_placements, mesh, tensor.shape.size(), sharding.spec)) return false;
  region = region_from_slice(shard_slice(tensor.shape, sharding, mesh, coordinate_of(mesh, rank)));
  return true;
}

bool allocate_local(Comm& comm, const Mesh& mesh, LocalTensor& tensor) {
  Region region;
  if (!region_of(tensor, mesh, comm.rank, region)) {
    fail(comm, Code::RedistributionMismatch,
         fmt::format("{}: its placements are invalid for {} on the mesh {}", escape_for_terminal(tensor.name),
                     counted(tensor.shape.size(), "dim"), to_text(mesh)));
    return false;
  }
  tensor.bytes = byte_size(tensor.dtype, elements_in(region));
  tensor.data = allocate_block(comm, tensor.bytes);
  return has_block(tensor.data, tensor.bytes);
}

bool redistribute_step(Comm& comm, const Mesh& mesh, const Collective& collective, LocalTensor& tensor,
                       std::optional<Placement> after, StepMeasure* measure, const StepTiming& timing) {
  if (comm.fault) return false;
  const auto reject = [&](const std::string& why) { return reject_step(comm, tensor, mesh, collective, why); };
  if (collective.axis >= mesh.axes.size() || tensor.placements.size() != mesh.axes.size())
    return reject("the mesh has no such axis");
  if (device_count(mesh) != comm.world) return reject("the mesh and the job have different numbers of ranks");
  if (!starts_from(collective.kind, tensor.placements[collective.axis])) {
    return reject("the tensor is " + to_text(tensor.placements[collective.axis]) +
                  " on this axis, which this step does not accept");
  }

  LocalTensor result = tensor;
  result.placements[collective.axis] = after.value_or(placement_after(collective));
  StepPlan plan{.group = group_of(mesh, collective.axis, comm.rank),
                .bits = dtypes()[tensor.dtype].bits,
                .op = tensor.placements[collective.axis].op};
  for (const int rank : plan.group.ranks) {
    plan.before.emplace_back();
    plan.after.emplace_back();
    if (!region_of(tensor, mesh, rank, plan.before.back()) || !region_of(result, mesh, rank, plan.after.back())) {
      return reject("the placements before or after this step are invalid for the tensor");
    }
  }
  // All checks come before any communication: the others would wait until the deadline for a rank that stops later.
  if (const std::string lack = find_lack(plan, collective.kind); !lack.empty()) return reject(lack);

  StepMeasure local;
  local.group = plan.group.ranks.size();
  if (!allocate_local(comm, mesh, result)) return false;
  Exchange exchange{
      .comm = comm, .plan = plan, .tensor = tensor, .result = result.data.get(), .timing = timing, .measure = local};
  const auto* row = std::ranges::find(kKinds, collective.kind, &KindRow::kind);
  if (!row->run(exchange)) return exchange.why.empty() ? false : reject(exchange.why);
  comm.device->synchronize();
  tensor = std::move(result);
  if (measure != nullptr) *measure = local;
  return true;
}

}  // namespace tpplan
