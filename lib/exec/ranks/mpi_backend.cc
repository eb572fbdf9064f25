// MPI backend over Open MPI. All transfers are non-blocking point-to-point messages: every wait has a deadline, no
// count overflows an int, and a group needs no communicator. Reductions are built from these transfers.
#include <sched.h>
#include <spdlog/fmt/fmt.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <new>
#include <thread>
#include <tuple>
#include <utility>

#include "base/file_limit.h"
#include "base/text.h"
#include "exec/ranks/backends.h"
#include "exec/ranks/control.h"
#include "exec/ranks/deadline.h"
#include "exec/ranks/end_process.h"
#include "exec/ranks/mpi_library.h"
#include "exec/ranks/node_ranks.h"
#include "exec/ranks/reduce_by_moves.h"
#include "exec/ranks/sockets.h"

namespace tpplan {
namespace {

constexpr int kTag = 7;
constexpr const char* kStartStage = "MPI_Init";
constexpr auto kOthersReportTime =
    std::chrono::seconds(2);                        // time for the launcher to end all ranks after one has exited
constexpr uint64_t kMostBytes = uint64_t{1} << 30;  // per message; larger transfers are split

const MpiLibrary& library_of(const Comm& comm) { return *static_cast<const MpiLibrary*>(comm.state.get()); }

// Byte range of one rank of the group in a buffer.
struct Part {
  uint64_t offset = 0, bytes = 0;
};

std::vector<Part> parts_of(std::span<const uint64_t> bytes) {
  std::vector<Part> parts;
  uint64_t offset = 0;
  for (const uint64_t size : bytes) {
    parts.push_back({offset, size});
    offset += size;
  }
  return parts;
}

uint64_t total(const std::vector<Part>& parts) { return parts.empty() ? 0 : parts.back().offset + parts.back().bytes; }

bool check(Comm& comm, int error, const char* what) {
  if (error == kMpiSuccess) return true;
  std::array<char, kMpiMaxText + 1> text{};
  int length = 0;
  library_of(comm).error_string(error, text.data(), &length);
  fail(comm, Code::BackendError, fmt::format("{}: {}", what, escape_for_terminal(text.data())),
       "check Open MPI's messages above; `tpplan-exec doctor` shows the library");
  return false;
}

// Waits until all messages are complete. Polls and yields, because ranks may share a processor.
bool finish(Comm& comm, std::vector<MpiRequest>& requests) {
  const Clock::time_point start = Clock::now();
  int idle = 0;
  for (size_t i = 0; i < requests.size();) {
    int done = 0;
    if (!check(comm, library_of(comm).test(&requests[i], &done, nullptr), "MPI_Test")) return false;
    if (done != 0) {
      ++i;
      idle = 0;
      continue;
    }
    if (!may_keep_waiting(comm, start, comm.deadline)) return false;
    if (++idle < 2000) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  return true;
}

// Sends range out[i] of `from` to each rank i of the group and receives in[i] from it into `to`; the local part is
// copied. The buffers are host memory.
//
// Receives are posted first, so that arriving messages need no buffer inside MPI. At step i every rank sends to the
// i-th rank after it and receives from the i-th before it: no rank is the first target of all others. One tag is
// enough, because messages between two ranks stay in order and both make the same calls.
bool move(Comm& comm, const Group& group, const void* from, const std::vector<Part>& out, void* to,
          const std::vector<Part>& in) {
  const MpiLibrary& mpi = library_of(comm);
  std::vector<MpiRequest> requests;
  const auto post = [&](const Part& part, auto&& start) {
    for (uint64_t sent = 0; sent < part.bytes; sent += kMostBytes) {
      requests.push_back(nullptr);
      if (!start(part.offset + sent, static_cast<int>(std::min(kMostBytes, part.bytes - sent)), &requests.back()))
        return false;
    }
    return true;
  };
  const size_t count = group.ranks.size();
  for (size_t step = 1; step < count; ++step) {
    const size_t peer = (group.self + count - step) % count;
    const bool posted = post(in[peer], [&](uint64_t offset, int bytes, MpiRequest* request) {
      return check(
          comm,
          mpi.irecv(static_cast<char*>(to) + offset, bytes, mpi.byte, group.ranks[peer], kTag, mpi.world, request),
          "MPI_Irecv");
    });
    if (!posted) return false;
  }
  for (size_t step = 1; step < count; ++step) {
    const size_t peer = (group.self + step) % count;
    const bool posted = post(out[peer], [&](uint64_t offset, int bytes, MpiRequest* request) {
      return check(comm,
                   mpi.isend(static_cast<const char*>(from) + offset, bytes, mpi.byte, group.ranks[peer], kTag,
                             mpi.world, request),
                   "MPI_Isend");
    });
    if (!posted) return false;
  }
  if (in[group.self].bytes != 0) {
    std::memcpy(static_cast<char*>(to) + in[group.self].offset, static_cast<const char*>(from) + out[group.self].offset,
                in[group.self].bytes);
  }
  return finish(comm, requests);
}

// Host view of device memory: the memory itself on the CPU, else a staging copy.
struct HostBlock {
  void* data = nullptr;
  std::shared_ptr<void> own;
};

bool is_on_host(const Comm& comm) { return comm.device->is_host_memory; }

HostBlock host_block(const Comm& comm, uint64_t bytes) {
  HostBlock block;
  if (bytes == 0) return block;
  block.data = comm.device->allocate_staging(bytes);
  if (block.data == nullptr) throw std::bad_alloc();
  block.own = {block.data, comm.device->release_staging};
  return block;
}

HostBlock read_block(const Comm& comm, const void* memory, uint64_t bytes) {
  if (is_on_host(comm)) return {.data = const_cast<void*>(memory)};
  HostBlock block = host_block(comm, bytes);
  if (bytes != 0) comm.device->to_host(block.data, memory, bytes);
  return block;
}

HostBlock write_block(const Comm& comm, void* memory, uint64_t bytes) {
  return is_on_host(comm) ? HostBlock{.data = memory} : host_block(comm, bytes);
}

void copy_to_device(const Comm& comm, const HostBlock& block, void* memory, uint64_t bytes) {
  if (block.data == memory || bytes == 0) return;
  comm.device->from_host(memory, block.data, bytes);
  comm.device->synchronize();
}

bool all_gather(Comm& comm, const Group& group, const void* in, void* out, std::span<const uint64_t> bytes) {
  if (!enter_call(comm)) return false;
  const std::vector<Part> parts = parts_of(bytes);
  const HostBlock from = read_block(comm, in, bytes[group.self]), to = write_block(comm, out, total(parts));
  if (!move(comm, group, from.data, std::vector<Part>(parts.size(), {0, bytes[group.self]}), to.data, parts))
    return false;
  copy_to_device(comm, to, out, total(parts));
  return true;
}

bool all_to_all(Comm& comm, const Group& group, const void* in, std::span<const uint64_t> send_bytes, void* out,
                std::span<const uint64_t> receive_bytes) {
  if (!enter_call(comm)) return false;
  const std::vector<Part> sent = parts_of(send_bytes), received = parts_of(receive_bytes);
  const HostBlock from = read_block(comm, in, total(sent)), to = write_block(comm, out, total(received));
  if (!move(comm, group, from.data, sent, to.data, received)) return false;
  copy_to_device(comm, to, out, total(received));
  return true;
}

constexpr Backend kMpi = {.name = "mpi",
                          .all_gather = all_gather,
                          .all_to_all = all_to_all,
                          .all_reduce = all_reduce_by_moves,
                          .reduce_scatter = reduce_scatter_by_moves,
                          .fold_texts = fold_texts_by_control,
                          .publish_state = publish_state_by_control};

// Executes a call that cannot be cancelled and returns its result. If it takes longer than the deadline, a second
// thread ends the process with the fault that `late` returns: MPI_Init has no variant with a timeout.
template <typename Late, typename Call>
int within_deadline(double seconds, Late late, Call call) {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::thread guard([&] {
    std::unique_lock lock(mutex);
    if (!changed.wait_until(lock, after(seconds), [&] { return done; })) end_process(late());
  });
  const int result = call();
  {
    const std::lock_guard lock(mutex);
    done = true;
  }
  changed.notify_all();
  guard.join();
  return result;
}

// Returns the fault for an MPI_Init that has not returned in time. Only the first rank that is in MPI_Init on this node
// should report it: the others sleep until the launcher has ended them.
Fault late_start(int rank, int world, double seconds) {
  const std::vector<NodeRank> here = find_node_ranks(kStartStage);
  const auto speaker = std::ranges::find(here, true, &NodeRank::is_inside);
  if (speaker != here.end() && speaker->rank < rank) std::this_thread::sleep_for(kOthersReportTime);
  return {
      .code = Code::RendezvousFailed,
      .message = fmt::format("rank {}: MPI_Init did not return within {:.3g} s on {}: {}", rank, seconds,
                             host_identity().substr(0, host_identity().find(' ')), describe(here, kStartStage, world)),
      .help = world > static_cast<int>(here.size())
                  ? "check the ranks that are not in MPI_Init, here and on the other nodes, which report their own; or "
                    "increase --deadline"
                  : "check the ranks that are not in MPI_Init or wait in another function, or increase --deadline"};
}

// Broadcasts rank 0's host identity, port and secret over MPI. Throws if they do not arrive within the deadline.
void broadcast_endpoint(Comm& comm, std::string& host, RendezvousOptions& endpoint) {
  constexpr size_t kBytes = 1024;
  std::array<char, kBytes> text{};
  if (comm.rank == 0)
    std::snprintf(text.data(), kBytes, "%d %s %s", endpoint.port, endpoint.secret.c_str(), host.c_str());
  const MpiLibrary& mpi = library_of(comm);
  std::vector<MpiRequest> requests(comm.rank == 0 ? static_cast<size_t>(comm.world) - 1 : 1, nullptr);
  for (size_t i = 0; i < requests.size(); ++i) {
    const bool fine =
        comm.rank == 0
            ? check(comm,
                    mpi.isend(text.data(), kBytes, mpi.byte, static_cast<int>(i) + 1, kTag, mpi.world, &requests[i]),
                    "MPI_Isend")
            : check(comm, mpi.irecv(text.data(), kBytes, mpi.byte, 0, kTag, mpi.world, &requests[i]), "MPI_Irecv");
    throw_if_failed(comm, fine);
  }
  const Clock::time_point start = Clock::now();
  for (size_t i = 0; i < requests.size();) {
    int done = 0;
    throw_if_failed(comm, check(comm, mpi.test(&requests[i], &done, nullptr), "MPI_Test"));
    if (done != 0) {
      ++i;
      continue;
    }
    if (seconds_since(start) > comm.deadline) {
      throw Fault{.code = Code::RendezvousFailed,
                  .message = fmt::format("rank {}: no message from {} over MPI within {:.3g} s", comm.rank,
                                         comm.rank == 0 ? "the other ranks" : "rank 0", comm.deadline),
                  .help = "check that all ranks are started, or increase --deadline"};
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  text.back() = '\0';
  const std::string_view all = text.data();
  const size_t port_end = all.find(' '), secret_end = all.find(' ', port_end + 1);
  int64_t number = 0;
  if (secret_end == std::string_view::npos || !parse_decimal(all.substr(0, port_end), number))
    throw Fault{.code = Code::InvalidMessage, .message = "cannot parse the address that rank 0 sent", .rank = 0};
  endpoint.port = static_cast<int>(number);
  endpoint.secret = all.substr(port_end + 1, secret_end - port_end - 1);
  host = all.substr(secret_end + 1);
}

std::string random_secret() {
  std::array<uint64_t, 2> words{};
  if (getrandom(words.data(), sizeof words, 0) != sizeof words)
    throw Fault{.code = Code::UnexpectedFailure,
                .message = fmt::format("cannot get random numbers: {}", errno_text(errno))};
  return fmt::format("{:016x}{:016x}", words[0], words[1]);
}

// Opens the control channel without MASTER_ADDR: rank 0 chooses the port and the secret and sends them over MPI. With
// MASTER_ADDR the channel is opened before MPI_Init instead, so that missing ranks can be named.
void join_by_mpi(Comm& comm, RendezvousOptions endpoint) {
  const std::string mine = host_identity();
  std::string host = mine;
  if (comm.rank == 0) {
    endpoint.secret = random_secret();
    try {
      endpoint.listener = listen_at(comm.world == 1 ? "127.0.0.1" : "::", endpoint.port);
    } catch (const Fault&) {  // the machine has no IPv6
      endpoint.listener = listen_at("0.0.0.0", endpoint.port);
    }
  }
  broadcast_endpoint(comm, host, endpoint);
  endpoint.address = "127.0.0.1";
  if (host != mine) endpoint.address = host.substr(0, host.find(' '));
  join_job(comm, endpoint);
}

}  // namespace

const Backend* mpi_backend(std::string& reason) { return mpi_library(reason) != nullptr ? &kMpi : nullptr; }

void connect_mpi(Comm& comm, const RankIdentity& identity, const LaunchOptions& options) {
  std::string reason;
  const MpiLibrary* mpi = mpi_library(reason);
  if (mpi == nullptr) throw Fault{.code = Code::BackendUnavailable, .message = reason};
  // No control channel exists yet, so faults cannot be published.
  const Backend* backend = std::exchange(comm.backend, nullptr);
  comm.state = {const_cast<MpiLibrary*>(mpi), [](void*) {}};
  RendezvousOptions endpoint{.rank = identity.rank,
                             .world = identity.world,
                             .address = identity.address,
                             .port = identity.has_address ? identity.port : 0,
                             .deadline = options.deadline,
                             .job = identity.job,
                             .secret = identity.secret,
                             .agreement = options.agreement};
  if (identity.has_address) join_job(comm, endpoint);
  int provided = 0;
  const std::string name = name_thread(kStartStage);
  int error = within_deadline(
      options.deadline, [&] { return late_start(identity.rank, identity.world, options.deadline); },
      [&] { return mpi->init_thread(nullptr, nullptr, kMpiThreadFunneled, &provided); });
  std::ignore = name_thread(name);
  mpi->comm_set_errhandler(mpi->world, mpi->errors_return);
  int rank = -1, world = -1;
  if (error == kMpiSuccess) error = mpi->comm_rank(mpi->world, &rank);
  if (error == kMpiSuccess) error = mpi->comm_size(mpi->world, &world);
  throw_if_failed(comm, check(comm, error, "MPI_Init"));
  if (rank != identity.rank || world != identity.world)
    throw Fault{.code = Code::RanksDisagree,
                .message = fmt::format("{} assigns rank {} of {} to this process, but MPI assigns rank {} of {}",
                                       identity.source.empty() ? "the environment" : identity.source, identity.rank,
                                       identity.world, rank, world),
                .help = "start the ranks with Open MPI's mpirun"};
  if (!identity.has_address) join_by_mpi(comm, endpoint);
  comm.backend = backend;
}

void finish_mpi(Comm& comm) {
  const auto late = [&] {
    return Fault{
        .code = Code::RankLate,
        .message = fmt::format("rank {}: MPI_Finalize did not return within {:.3g} s", comm.rank, comm.deadline)};
  };
  within_deadline(comm.deadline, late, [&] { return library_of(comm).finalize(); });
}

}  // namespace tpplan
