// How ranks talk: one table of functions for each backend, with the same results to the byte.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "diagnostics/fault.h"
#include "sharding/dtype.h"
#include "sharding/placement.h"

namespace tpplan {

// The ranks that take part in one collective, in the order of their place on the mesh axis (or of the world).
struct Group {
  std::vector<int> ranks;  // world ranks
  size_t self = 0;         // the calling rank's place in `ranks`
};

// What a rank does at the moment: what is named when it, or another rank waiting for it, fails.
struct RankStep {
  uint64_t number = 0;
  std::string what;  // "all_gather over tp, model.layers.0.mlp.gate_proj", "load model.embed_tokens.weight"
};

// One text of every rank's, by rank.
using TextFold = std::function<std::string(const std::vector<std::string>&)>;

struct Comm;

// Every function is called by all ranks of the group, in the same order on each; buffers are memory of comm.device
// (`texts` excepted). They return false after a failure, which stands in comm.fault: a rank that is gone or late by
// more than comm.deadline seconds, a library's error. After a failure every further call returns false at once. Zero
// bytes and zero counts are legal, and every rank takes part all the same. Byte and element counts of one call agree
// between ranks; `in` and `out` do not overlap.
struct Backend {
  std::string_view name;  // "local", "nccl", "mpi"
  // out: the `bytes[i]` bytes of each member i, one after the other; `in` holds bytes[self].
  bool (*all_gather)(Comm& comm, const Group& group, const void* in, void* out, std::span<const uint64_t> bytes);
  // in: send_bytes[i] for each member i, one after the other; out: receive_bytes[i] from each.
  bool (*all_to_all)(Comm& comm, const Group& group, const void* in, std::span<const uint64_t> send_bytes, void* out,
                     std::span<const uint64_t> receive_bytes);
  // `data` becomes the reduction over the members.
  bool (*all_reduce)(Comm& comm, const Group& group, void* data, uint64_t elements, DType dtype, ReduceOp op);
  // in: elements[i] for each member i, one after the other; out: the reduction of the members' run `self`.
  bool (*reduce_scatter)(Comm& comm, const Group& group, const void* in, void* out, std::span<const uint64_t> elements,
                         DType dtype, ReduceOp op);
  // Host side, over all ranks of the job: what `fold` makes of every rank's text, at rank 0 and nowhere else, becomes
  // `agreed` on all. Also a barrier. What a rank sends and hears does not grow with their number.
  bool (*fold_texts)(Comm& comm, std::string_view mine, const TextFold& fold, std::string& agreed);
  // Makes comm.step, comm.calls and, once there is one, comm.fault known to the other ranks. Cheap while there is no
  // fault.
  void (*publish_state)(Comm& comm);
};

struct Control;  // ranks/control.h

// One rank's connection to the others.
struct Comm {
  int rank = 0;
  int world = 1;
  int local_rank = 0;        // among the ranks of this node
  std::vector<int> node;     // ranks of this node, ascending, this one among them
  std::vector<int> process;  // ranks of this process, ascending: all of them with `local`
  const Backend* backend = nullptr;
  const Device* device = nullptr;
  double deadline = 60;        // seconds that a step may wait for another rank
  double start_deadline = 60;  // that a library may take to connect a group of ranks
  RankStep step;               // set by begin_step
  uint64_t calls = 0;  // of the backend, that this rank has entered; who has fewer than others is who they wait for
  std::optional<Fault> fault;        // the first failure of the job, with rank and step
  std::shared_ptr<void> state;       // the backend's own
  std::shared_ptr<Control> control;  // to ranks in other processes; null with `local`
};

// Names what comes next; numbers count up from 1. Cheap enough for every step. For tests, the environment variable
// TPPLAN_EXEC_FAULT="rank=2,step=5,kind=exit|hang|stuck|throw" makes that rank die, sleep, sleep in a call to the
// system (base/long_calls.h) or throw as it begins that step.
void begin_step(Comm& comm, std::string what);

// Makes this rank's failure known, with this rank and its step where the fault names none: the other ranks' calls fail
// within their deadlines, with the same fault.
void fail(Comm& comm, Fault fault);
void fail(Comm& comm, Code code, std::string message, std::string help = {});

// The fault as this rank's, at its step, where it names no rank.
[[nodiscard]] Fault located(const Comm& comm, Fault fault);

// What a function of the backend returned: throws comm.fault when that was false.
void require(const Comm& comm, bool done);

// What every function of a backend begins with: false after a failure, else counts the call and lets the others know.
[[nodiscard]] bool enter_call(Comm& comm);

}  // namespace tpplan
