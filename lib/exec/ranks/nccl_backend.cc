// NCCL backend with one GPU per rank. Shards of equal size use NCCL's collectives; unequal shards use one call per
// shard within an NCCL group, without padding. Dtypes that NCCL does not support are transferred as bytes and reduced
// by tpplan.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <numeric>

#include "exec/device/divide.h"
#include "exec/ranks/backends.h"
#include "exec/ranks/control.h"
#include "exec/ranks/nccl_groups.h"
#include "exec/ranks/reduce_by_moves.h"

namespace tpplan {
namespace {

struct TypeRow {
  std::string_view dtype;
  NcclType type;
};

constexpr TypeRow kTypes[] = {
    {"float32", NcclType::Float32}, {"bfloat16", NcclType::Bfloat16}, {"float16", NcclType::Float16},
    {"float64", NcclType::Float64}, {"int8", NcclType::Int8},         {"uint8", NcclType::Uint8},
    {"int32", NcclType::Int32},     {"uint32", NcclType::Uint32},     {"int64", NcclType::Int64},
    {"uint64", NcclType::Uint64},
};

// Returns false if NCCL has no arithmetic for the dtype.
bool find_type(DType dtype, NcclType& type) {
  const auto* row = std::ranges::find(kTypes, dtypes()[dtype].name, &TypeRow::dtype);
  if (row == std::end(kTypes)) return false;
  type = row->type;
  return true;
}

// Avg is computed as a sum followed by a division, with the same rounding as the other backends. ncclAvg multiplies by
// 1/n before the sum.
NcclOp op_of(ReduceOp op) {
  return op == ReduceOp::Max ? NcclOp::Max : op == ReduceOp::Min ? NcclOp::Min : NcclOp::Sum;
}

char* at(void* memory, uint64_t offset) { return static_cast<char*>(memory) + offset; }
const char* at(const void* memory, uint64_t offset) { return static_cast<const char*>(memory) + offset; }

bool is_even(std::span<const uint64_t> sizes) {
  return std::ranges::all_of(sizes, [&](uint64_t size) { return size == sizes[0]; });
}

bool is_empty(std::span<const uint64_t> sizes) { return std::ranges::count(sizes, 0u) == std::ssize(sizes); }

// Performs one call of the group. `queue` queues the NCCL calls; `copy_single` replaces them if the group has only
// one rank.
template <typename Single, typename Queue>
bool take_part(Comm& comm, const Group& group, const char* what, Single copy_single, Queue queue) {
  if (group.ranks.size() == 1) {
    copy_single();
    comm.device->synchronize();
    return true;
  }
  NcclComm communicator = nccl_communicator(comm, group);
  return communicator != nullptr &&
         run_nccl(comm, communicator, what, [&] { return queue(communicator, comm.device->stream()); });
}

// Queues one call for each rank with a non-empty shard. Stops at the first error.
template <typename Call>
NcclResult for_each_chunk(std::span<const uint64_t> sizes, Call call) {
  NcclResult result = NcclResult::Success;
  uint64_t offset = 0;
  for (size_t i = 0; i < sizes.size() && is_accepted(result); offset += sizes[i++]) {
    if (sizes[i] != 0) result = call(static_cast<int>(i), offset, sizes[i]);
  }
  return result;
}

bool all_gather(Comm& comm, const Group& group, const void* in, void* out, std::span<const uint64_t> bytes) {
  if (!enter_call(comm)) return false;
  if (is_empty(bytes)) return true;
  const auto copy_single = [&] { comm.device->copy(out, in, bytes[0]); };
  if (is_even(bytes)) {
    return take_part(comm, group, "ncclAllGather", copy_single, [&](NcclComm communicator, void* stream) {
      return nccl_of(comm).functions.all_gather(in, out, bytes[0], NcclType::Uint8, communicator, stream);
    });
  }
  return take_part(comm, group, "ncclBroadcast", copy_single, [&](NcclComm communicator, void* stream) {
    return for_each_chunk(bytes, [&](int root, uint64_t offset, uint64_t size) {
      const void* from = static_cast<size_t>(root) == group.self ? in : at(out, offset);
      return nccl_of(comm).functions.broadcast(from, at(out, offset), size, NcclType::Uint8, root, communicator,
                                               stream);
    });
  });
}

bool all_to_all(Comm& comm, const Group& group, const void* in, std::span<const uint64_t> send_bytes, void* out,
                std::span<const uint64_t> receive_bytes) {
  if (!enter_call(comm)) return false;
  const auto copy_local = [&] {
    const auto before = [&](std::span<const uint64_t> sizes) {
      return std::accumulate(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(group.self), uint64_t{0});
    };
    comm.device->copy(at(out, before(receive_bytes)), at(in, before(send_bytes)), send_bytes[group.self]);
  };
  if (send_bytes[group.self] != receive_bytes[group.self]) {
    fail(comm, Code::InvalidMessage,
         fmt::format("rank {} sends {} bytes to itself, but expects {}", comm.rank, send_bytes[group.self],
                     receive_bytes[group.self]));
    return false;
  }
  return take_part(comm, group, "ncclSend and ncclRecv", copy_local, [&](NcclComm communicator, void* stream) {
    copy_local();
    const NcclResult sent = for_each_chunk(send_bytes, [&](int peer, uint64_t offset, uint64_t size) {
      if (static_cast<size_t>(peer) == group.self) return NcclResult::Success;
      return nccl_of(comm).functions.send(at(in, offset), size, NcclType::Uint8, peer, communicator, stream);
    });
    if (!is_accepted(sent)) return sent;
    return for_each_chunk(receive_bytes, [&](int peer, uint64_t offset, uint64_t size) {
      if (static_cast<size_t>(peer) == group.self) return NcclResult::Success;
      return nccl_of(comm).functions.receive(at(out, offset), size, NcclType::Uint8, peer, communicator, stream);
    });
  });
}

// Completes a reduction: divides the sum for Avg. Returns `reduced`.
bool finish(Comm& comm, const Group& group, void* data, uint64_t elements, DType dtype, ReduceOp op, bool reduced) {
  if (reduced && op == ReduceOp::Avg) divide(*comm.device, data, elements, dtype, group.ranks.size());
  return reduced;
}

bool all_reduce(Comm& comm, const Group& group, void* data, uint64_t elements, DType dtype, ReduceOp op) {
  NcclType type = NcclType::Uint8;
  if (!find_type(dtype, type)) return all_reduce_by_moves(comm, group, data, elements, dtype, op);
  if (!enter_call(comm)) return false;
  if (elements == 0) return true;
  const bool reduced = take_part(
      comm, group, "ncclAllReduce", [] {},
      [&](NcclComm communicator, void* stream) {
        return nccl_of(comm).functions.all_reduce(data, data, elements, type, op_of(op), communicator, stream);
      });
  return finish(comm, group, data, elements, dtype, op, reduced);
}

bool reduce_scatter(Comm& comm, const Group& group, const void* in, void* out, std::span<const uint64_t> elements,
                    DType dtype, ReduceOp op) {
  NcclType type = NcclType::Uint8;
  if (!find_type(dtype, type)) return reduce_scatter_by_moves(comm, group, in, out, elements, dtype, op);
  if (!enter_call(comm)) return false;
  if (is_empty(elements)) return true;
  const uint64_t width = byte_size(dtype, 1), own = elements[group.self];
  const auto copy_single = [&] { comm.device->copy(out, in, own * width); };
  bool reduced = false;
  if (is_even(elements)) {
    reduced = take_part(comm, group, "ncclReduceScatter", copy_single, [&](NcclComm communicator, void* stream) {
      return nccl_of(comm).functions.reduce_scatter(in, out, own, type, op_of(op), communicator, stream);
    });
  } else {
    reduced = take_part(comm, group, "ncclReduce", copy_single, [&](NcclComm communicator, void* stream) {
      return for_each_chunk(elements, [&](int root, uint64_t offset, uint64_t size) {
        void* to = static_cast<size_t>(root) == group.self ? out : nullptr;  // NCCL reads it at the root only
        return nccl_of(comm).functions.reduce(at(in, offset * width), to, size, type, op_of(op), root, communicator,
                                              stream);
      });
    });
  }
  return finish(comm, group, out, own, dtype, op, reduced);
}

constexpr Backend kNccl = {.name = "nccl",
                           .all_gather = all_gather,
                           .all_to_all = all_to_all,
                           .all_reduce = all_reduce,
                           .reduce_scatter = reduce_scatter,
                           .fold_texts = fold_texts_by_control,
                           .publish_state = publish_state_by_control};

}  // namespace

const Backend* nccl_backend(std::string& reason) {
  reason = nccl_library().reason;
  return nccl_library().library.empty() ? nullptr : &kNccl;
}

void connect_nccl(Comm& comm, const RankIdentity& identity, const LaunchOptions& options) {
  const NcclLibrary& library = nccl_library();
  if (comm.device->is_host_memory && !library.takes_host_memory)
    throw Fault{.code = Code::DeviceUnavailable,
                .message = fmt::format("--backend nccl requires GPUs, but --device is {}", comm.device->name),
                .help = "remove --device"};
  const RendezvousOptions endpoint{
      .rank = comm.rank,
      .world = comm.world,
      .address = identity.address,
      .port = identity.port,
      .deadline = options.deadline,
      .job = identity.job,
      .secret = identity.secret,
      .agreement = fmt::format("{}\n{} {}", options.agreement, library.name, nccl_version_text(library.version))};
  join_job(comm, endpoint);
  throw_if_failed(comm, open_nccl(comm, library));
}

void finish_nccl(Comm& comm) { close_nccl(comm); }

}  // namespace tpplan
