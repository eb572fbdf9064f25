#include "exec/ranks/nccl_groups.h"

#include <spdlog/fmt/fmt.h>

#include <chrono>
#include <cstring>
#include <future>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "base/text.h"
#include "exec/ranks/control.h"
#include "exec/ranks/deadline.h"
#include "exec/ranks/end_process.h"

namespace tpplan {
namespace {

constexpr auto kAbortTime = std::chrono::milliseconds(1000);
constexpr auto kCloseTime = std::chrono::seconds(5);
constexpr auto kSpinTime = std::chrono::milliseconds(1);  // time until a wait sleeps instead of spinning
constexpr auto kPause = std::chrono::microseconds(50);

struct NcclState {
  const NcclLibrary* library = nullptr;
  const Device* device = nullptr;
  int index = 0;                                       // of the GPU
  std::map<std::vector<int>, NcclComm> communicators;  // by their ranks
};

NcclState& state_of(const Comm& comm) { return *static_cast<NcclState*>(comm.state.get()); }

const NcclFunctions& nccl(const Comm& comm) { return state_of(comm).library->functions; }

void pause_since(Clock::time_point start) {
  if (Clock::now() - start < kSpinTime) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(kPause);
  }
}

// Aborts all communicators, so that the GPU's memory can be freed. Aborting may hang like the work that it aborts, so a
// detached thread does it. Returns false if it has not finished within kAbortTime.
bool abort_communicators(NcclState& state) {
  if (state.communicators.empty()) return true;
  std::promise<void> promise;
  std::future<void> done = promise.get_future();
  std::thread([abort = state.library->functions.comm_abort, communicators = std::exchange(state.communicators, {}),
               device = state.device, index = state.index, promise = std::move(promise)]() mutable {
    try {
      device->use(index);     // a new thread starts at GPU 0
    } catch (const Fault&) {  // the GPU has failed, which is already reported
    }
    for (const auto& [ranks, communicator] : communicators) abort(communicator);
    promise.set_value();
  }).detach();
  return done.wait_for(kAbortTime) == std::future_status::ready;
}

// Aborts all communicators after a failure. If NCCL hangs, a normal shutdown is impossible and the process ends here.
void abort_all(Comm& comm) {
  if (abort_communicators(state_of(comm))) return;
  Fault fault = *comm.fault;
  fault.message += " (NCCL's communicators could not be aborted)";
  end_process(fault);
}

bool fail_nccl(Comm& comm, NcclComm communicator, const char* what, NcclResult result) {
  const char* last = nccl(comm).get_last_error(communicator);
  fail(comm, Code::BackendError,
       fmt::format("{}: {}: {}", what, nccl(comm).get_error_string(result),
                   escape_for_terminal(last != nullptr && *last != '\0' ? last : "NCCL reports no details")),
       "set NCCL_DEBUG=WARN for details");
  abort_all(comm);
  return false;
}

// Waits until the communicator has accepted the queued calls and the GPU has finished them.
bool wait(Comm& comm, NcclComm communicator, const char* what, double seconds) {
  const Clock::time_point start = Clock::now();
  for (;; pause_since(start)) {
    NcclResult state = NcclResult::Success;
    const NcclResult asked = nccl(comm).comm_get_async_error(communicator, &state);
    if (asked != NcclResult::Success) return fail_nccl(comm, communicator, what, asked);
    if (!is_accepted(state)) return fail_nccl(comm, communicator, what, state);
    if (state == NcclResult::Success && comm.device->done()) return true;
    if (may_keep_waiting(comm, start, seconds)) continue;
    abort_all(comm);
    return false;
  }
}

// Joins the communicator with this id. Returns nullptr with comm.fault set.
NcclComm join(Comm& comm, const Group& group, const NcclUniqueId& id) {
  NcclComm communicator = nullptr;
  NcclConfig config;
  const NcclResult result = nccl(comm).comm_init_rank_config(&communicator, static_cast<int>(group.ranks.size()), id,
                                                             static_cast<int>(group.self), &config);
  if (communicator != nullptr) state_of(comm).communicators.emplace(group.ranks, communicator);
  if (!is_accepted(result)) {
    fail_nccl(comm, communicator, "ncclCommInitRankConfig", result);
    return nullptr;
  }
  return wait(comm, communicator, "ncclCommInitRankConfig", comm.start_deadline) ? communicator : nullptr;
}

bool make_id(Comm& comm, NcclUniqueId& id) {
  const NcclResult result = nccl(comm).get_unique_id(&id);
  return result == NcclResult::Success || fail_nccl(comm, nullptr, "ncclGetUniqueId", result);
}

Group everyone(const Comm& comm) {
  Group group{.ranks = std::vector<int>(static_cast<size_t>(comm.world)), .self = static_cast<size_t>(comm.rank)};
  for (int rank = 0; rank < comm.world; ++rank) group.ranks[static_cast<size_t>(rank)] = rank;
  return group;
}

// Sends the id from the group's first rank to its other ranks. It uses the communicator of all ranks: fold_texts would
// need a call of every rank of the job, but only the group's ranks are in this call.
bool broadcast_id(Comm& comm, const Group& group, NcclUniqueId& id) {
  NcclComm world = state_of(comm).communicators.at(everyone(comm).ranks);
  const std::shared_ptr<void> memory(comm.device->allocate(sizeof id), comm.device->release);
  if (memory == nullptr) {
    fail(comm, Code::OutOfMemory, "the device has no memory for an NCCL id");
    return false;
  }
  if (group.self == 0) {
    if (!make_id(comm, id)) return false;
    comm.device->from_host(memory.get(), &id, sizeof id);
  }
  void* stream = comm.device->stream();
  const bool moved = run_nccl(comm, world, "ncclSend of an NCCL id", [&] {
    if (group.self != 0)
      return nccl(comm).receive(memory.get(), sizeof id, NcclType::Uint8, group.ranks[0], world, stream);
    NcclResult result = NcclResult::Success;
    for (size_t i = 1; i < group.ranks.size() && is_accepted(result); ++i) {
      result = nccl(comm).send(memory.get(), sizeof id, NcclType::Uint8, group.ranks[i], world, stream);
    }
    return result;
  });
  if (moved) comm.device->to_host(&id, memory.get(), sizeof id);
  return moved;
}

}  // namespace

const NcclLibrary& nccl_of(const Comm& comm) { return *state_of(comm).library; }

bool open_nccl(Comm& comm, const NcclLibrary& library) {
  comm.state = std::shared_ptr<void>(
      new NcclState{.library = &library, .device = comm.device, .index = comm.local_rank, .communicators = {}},
      [](void* memory) {
        const std::unique_ptr<NcclState> state(static_cast<NcclState*>(memory));
        abort_communicators(*state);
      });
  if (comm.world == 1) return true;
  NcclUniqueId id = {};
  if (comm.rank == 0 && !make_id(comm, id)) return false;
  std::string first;
  if (!comm.backend->fold_texts(
          comm, comm.rank == 0 ? std::string_view(id.bytes, sizeof id.bytes) : "",
          [](const std::vector<std::string>& ids) { return ids[0]; }, first))
    return false;
  if (first.size() != sizeof id.bytes) {
    fail(comm, Code::InvalidMessage,
         fmt::format("rank 0 sent an NCCL id of {} bytes instead of {}", first.size(), sizeof id.bytes));
    return false;
  }
  std::memcpy(id.bytes, first.data(), sizeof id.bytes);
  return join(comm, everyone(comm), id) != nullptr;
}

// All ranks close the communicators in the order of the map. With different orders, two ranks that share two
// communicators could wait for each other forever.
void close_nccl(Comm& comm) {
  const Clock::time_point start = Clock::now();
  for (const auto& [ranks, communicator] : std::exchange(state_of(comm).communicators, {})) {
    const NcclResult result = nccl(comm).comm_finalize(communicator);
    NcclResult now = result;
    while (is_accepted(result) && nccl(comm).comm_get_async_error(communicator, &now) == NcclResult::Success &&
           now == NcclResult::InProgress && Clock::now() - start < kCloseTime) {
      pause_since(start);
    }
    now == NcclResult::Success ? nccl(comm).comm_destroy(communicator) : nccl(comm).comm_abort(communicator);
  }
}

NcclComm nccl_communicator(Comm& comm, const Group& group) {
  const auto& communicators = state_of(comm).communicators;
  if (const auto found = communicators.find(group.ranks); found != communicators.end()) return found->second;
  NcclUniqueId id = {};
  return broadcast_id(comm, group, id) ? join(comm, group, id) : nullptr;
}

bool run_nccl(Comm& comm, NcclComm communicator, const char* what, const std::function<NcclResult()>& queue) {
  NcclResult result = nccl(comm).group_start();
  if (result != NcclResult::Success) return fail_nccl(comm, communicator, "ncclGroupStart", result);
  result = queue();
  const NcclResult ended = nccl(comm).group_end();  // also after an error, because every group_start needs a group_end
  if (!is_accepted(result)) return fail_nccl(comm, communicator, what, result);
  if (!is_accepted(ended)) return fail_nccl(comm, communicator, what, ended);
  return wait(comm, communicator, what, comm.deadline);
}

}  // namespace tpplan
