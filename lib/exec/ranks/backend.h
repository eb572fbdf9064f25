// Interface of the backends: collectives as one table of functions per backend, with identical semantics.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "diagnostics/fault.h"
#include "exec/device/device.h"
#include "sharding/dtype.h"
#include "sharding/placement.h"

namespace tpplan {

// Ranks of one collective, ordered by their coordinate on the mesh axis (or by rank if it is the world).
struct Group {
  std::vector<int> ranks;  // world ranks
  size_t self = 0;         // index of the calling rank in `ranks`
};

// Current step of a rank. Errors of this rank, and of ranks that wait for it, name the step.
struct RankStep {
  uint64_t number = 0;
  std::string what;  // "all_gather over tp, model.layers.0.mlp.gate_proj", "load model.embed_tokens.weight"
};

// Function that combines the texts of all ranks, which are indexed by rank.
using TextFold = std::function<std::string(const std::vector<std::string>&)>;

struct Comm;

// All ranks of the group call a function, in the same order. Buffers are memory of comm.device, except texts. A
// function returns false after a failure and sets comm.fault: a lost rank, a rank that is late by more than
// comm.deadline seconds, or a library error. After a failure every further call returns false at once. A rank with zero
// bytes or elements still has to call. The ranks pass consistent byte and element counts; `in` and `out` do not
// overlap.
struct Backend {
  std::string_view name;  // "local", "nccl", "mpi"
  // Gathers bytes[i] bytes of each rank i of the group into `out`, in group order; `in` has bytes[self].
  bool (*all_gather)(Comm& comm, const Group& group, const void* in, void* out, std::span<const uint64_t> bytes);
  // Sends send_bytes[i] to each rank i of the group and receives receive_bytes[i] from it. `in` and `out` are
  // concatenated in group order.
  bool (*all_to_all)(Comm& comm, const Group& group, const void* in, std::span<const uint64_t> send_bytes, void* out,
                     std::span<const uint64_t> receive_bytes);
  // Reduces `data` over the group, in place.
  bool (*all_reduce)(Comm& comm, const Group& group, void* data, uint64_t elements, DType dtype, ReduceOp op);
  // Reduces `in` over the group and stores the shard of this rank in `out`. `in` has elements[i] for each rank i, in
  // group order.
  bool (*reduce_scatter)(Comm& comm, const Group& group, const void* in, void* out, std::span<const uint64_t> elements,
                         DType dtype, ReduceOp op);
  // Applies `fold` at rank 0 to the texts of all ranks of the job and stores its result in `agreed` on every rank. It
  // is also a barrier. Each rank except rank 0 sends and receives one text, for any world size.
  bool (*fold_texts)(Comm& comm, std::string_view mine, const TextFold& fold, std::string& agreed);
  // Sends comm.step, comm.calls and comm.fault, if set, to the other ranks. It is cheap without a fault.
  void (*publish_state)(Comm& comm);
};

struct Control;  // exec/ranks/control.h

// Connection of one rank to the other ranks.
struct Comm {
  int rank = 0;
  int world = 1;
  int local_rank = 0;        // index among the ranks of this node
  std::vector<int> node;     // ranks of this node, ascending, including this one
  std::vector<int> process;  // ranks of this process, ascending; all ranks with `local`
  const Backend* backend = nullptr;
  const Device* device = nullptr;
  double deadline = 60;        // seconds that a step may wait for another rank
  double start_deadline = 60;  // seconds that a library may take to connect a group of ranks
  RankStep step;               // set by begin_step
  uint64_t calls = 0;  // backend calls that this rank has entered; the others wait for the ranks with the fewest
  std::optional<Fault> fault;        // first failure of the job, with rank and step
  std::vector<Fault> notes;          // warnings of this rank, reported after its work
  std::shared_ptr<void> state;       // private state of the backend
  std::shared_ptr<Control> control;  // connection to ranks in other processes; null with `local`
};

// Starts the next step and names it; steps count from 1. It is cheap enough for every step. Tests set
// TPPLAN_EXEC_FAULT="rank=2,step=5,kind=exit|hang|stuck|throw": that rank exits, sleeps, sleeps in a watched system
// call (base/long_calls.h) or throws when the step starts.
void begin_step(Comm& comm, std::string what);

// Reports this rank's failure to the other ranks, whose calls then fail within their deadlines with the same fault.
// Adds this rank and its step to a fault without a rank.
void fail(Comm& comm, Fault fault);
void fail(Comm& comm, Code code, std::string message, std::string help = {});

// Returns the fault with this rank and its step, or unchanged if it already names a rank.
[[nodiscard]] Fault with_rank_and_step(const Comm& comm, Fault fault);

// Throws comm.fault if a backend function returned false.
void throw_if_failed(const Comm& comm, bool done);

// Starts a backend function: counts the call and publishes it. Returns false after a failure.
[[nodiscard]] bool enter_call(Comm& comm);

}  // namespace tpplan
