// Local backend: all ranks are threads of this process and read each other's memory. It is the reference that the other
// backends are tested against.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <exception>
#include <new>
#include <numeric>
#include <thread>

#include "exec/device/divide.h"
#include "exec/ranks/backends.h"
#include "exec/ranks/end_process.h"
#include "exec/ranks/local_board.h"
#include "exec/ranks/reduce_by_moves.h"

namespace tpplan {
namespace {

constexpr int kMostLocalRanks = 4096;  // threads

Board& board_of(const Comm& comm) { return *static_cast<Board*>(comm.state.get()); }

char* at(void* memory, uint64_t offset) { return static_cast<char*>(memory) + offset; }
const char* at(const void* memory, uint64_t offset) { return static_cast<const char*>(memory) + offset; }

uint64_t sum_before(std::span<const uint64_t> sizes, size_t place) {
  return std::accumulate(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(place), uint64_t{0});
}

// Performs one collective call: exposes `slot` to the group, calls `read` with the slots of all ranks, and waits until
// all have finished reading.
template <typename Read>
bool take_part(Comm& comm, const Group& group, const BoardSlot& slot, Read read) {
  if (!enter_call(comm)) return false;
  Board& board = board_of(comm);
  comm.device->synchronize();
  const std::vector<BoardSlot>* slots = wait_for_group(board, comm, group, &slot);
  if (slots == nullptr) return false;
  bool done = false;
  try {
    done = read(*slots);
    comm.device->synchronize();
  } catch (...) {  // a device error becomes this rank's fault before other ranks time out on it
    fail(comm, current_error());
    finish_reading(board, group);
    throw;
  }
  finish_reading(board, group);
  return done && wait_for_group(board, comm, group, nullptr) != nullptr;
}

bool all_gather(Comm& comm, const Group& group, const void* in, void* out, std::span<const uint64_t> bytes) {
  return take_part(comm, group, {.in = in}, [&](const std::vector<BoardSlot>& slots) {
    uint64_t offset = 0;
    for (size_t i = 0; i < slots.size(); offset += bytes[i++]) {
      if (bytes[i] != 0) comm.device->copy(at(out, offset), slots[i].in, bytes[i]);
    }
    return true;
  });
}

bool all_to_all(Comm& comm, const Group& group, const void* in, std::span<const uint64_t> send_bytes, void* out,
                std::span<const uint64_t> receive_bytes) {
  return take_part(comm, group, {.in = in, .sizes = send_bytes}, [&](const std::vector<BoardSlot>& slots) {
    uint64_t offset = 0;
    for (size_t i = 0; i < slots.size(); offset += receive_bytes[i++]) {
      if (slots[i].sizes[group.self] != receive_bytes[i]) {
        fail(comm, Code::InvalidMessage,
             fmt::format("rank {} sends {} bytes instead of {}", group.ranks[i], slots[i].sizes[group.self],
                         receive_bytes[i]));
        return false;
      }
      if (receive_bytes[i] != 0)
        comm.device->copy(at(out, offset), at(slots[i].in, sum_before(slots[i].sizes, group.self)), receive_bytes[i]);
    }
    return true;
  });
}

// Each rank reduces one interval of the data, in the first rank's memory and in group order, and copies the result to
// the others. The intervals are disjoint, so ranks can write into each other's memory at the same time. The order of
// the sum is fixed, so the result is deterministic.
bool all_reduce(Comm& comm, const Group& group, void* data, uint64_t elements, DType dtype, ReduceOp op) {
  return can_reduce(comm, dtype) && take_part(comm, group, {.out = data}, [&](const std::vector<BoardSlot>& slots) {
           const uint64_t count = slots.size(), self = group.self, width = byte_size(dtype, 1);
           const uint64_t begin = elements / count * self + std::min(elements % count, self);
           const uint64_t length = elements / count + (self < elements % count);
           if (length == 0) return true;
           char* first = at(slots[0].out, begin * width);
           for (size_t i = 1; i < count; ++i)
             comm.device->reduce(first, at(slots[i].out, begin * width), length, dtype, op);
           if (op == ReduceOp::Avg) divide(*comm.device, first, length, dtype, count);
           for (size_t i = 1; i < count; ++i) comm.device->copy(at(slots[i].out, begin * width), first, length * width);
           return true;
         });
}

bool reduce_scatter(Comm& comm, const Group& group, const void* in, void* out, std::span<const uint64_t> elements,
                    DType dtype, ReduceOp op) {
  return can_reduce(comm, dtype) && take_part(comm, group, {.in = in}, [&](const std::vector<BoardSlot>& slots) {
           const uint64_t width = byte_size(dtype, 1), length = elements[group.self],
                          begin = sum_before(elements, group.self) * width;
           if (length == 0) return true;
           comm.device->copy(out, at(slots[0].in, begin), length * width);
           for (size_t i = 1; i < slots.size(); ++i)
             comm.device->reduce(out, at(slots[i].in, begin), length, dtype, op);
           if (op == ReduceOp::Avg) divide(*comm.device, out, length, dtype, slots.size());
           return true;
         });
}

// board.agreed needs no lock: rank 0 writes it while the others wait for it to finish reading. It writes the next
// result only after all ranks have entered the next call.
bool fold_texts(Comm& comm, std::string_view mine, const TextFold& fold, std::string& agreed) {
  const Group everyone{.ranks = comm.process, .self = static_cast<size_t>(comm.rank)};
  Board& board = board_of(comm);
  const bool done = take_part(comm, everyone, {.text = mine}, [&](const std::vector<BoardSlot>& slots) {
    if (comm.rank != 0) return true;
    std::vector<std::string> texts;
    for (const BoardSlot& slot : slots) texts.emplace_back(slot.text);
    board.agreed = fold(texts);
    return true;
  });
  if (done) agreed = board.agreed;
  return done;
}

void publish_state(Comm& comm) {
  Board& board = board_of(comm);
  const std::lock_guard lock(board.mutex);
  RankState& state = board.ranks[static_cast<size_t>(comm.rank)];
  state.step = comm.step;
  state.calls = comm.calls;
  board.last_change = Clock::now();
  if (comm.fault && !board.fault) board.fault = comm.fault;
  if (!comm.fault) comm.fault = board.fault;
  if (board.fault) board.changed.notify_all();
}

constexpr Backend kLocal = {.name = "local",
                            .all_gather = all_gather,
                            .all_to_all = all_to_all,
                            .all_reduce = all_reduce,
                            .reduce_scatter = reduce_scatter,
                            .fold_texts = fold_texts,
                            .publish_state = publish_state};

// Sets the fault that `describe` returns, or a short one if memory runs out; its text fits into the string object.
template <typename Describe>
void fail_somehow(Board& board, Comm& comm, Describe describe) {
  try {
    fail(comm, describe());
  } catch (const std::bad_alloc&) {
    const std::lock_guard lock(board.mutex);
    if (!board.fault) board.fault = Fault{.code = Code::OutOfMemory, .message = "out of memory"};
    board.changed.notify_all();
  }
}

// Executes a rank's body and returns its exit status.
int run_local_rank(Comm& comm, const RankBody& body) {
  int status = 1;
  try {
    comm.device->use(0);
    status = body(comm);
  } catch (...) {
    fail_somehow(board_of(comm), comm, current_error);
  }
  return comm.fault ? std::max(status, exit_status(*comm.fault)) : status;
}

}  // namespace

const Backend* local_backend(std::string&) { return &kLocal; }

JobResult run_local_ranks(const LaunchOptions& options, const Device& device, const RankBody& body) {
  if (options.world > kMostLocalRanks)
    throw Fault{.code = Code::ResourceLimit,
                .message = fmt::format("{} ranks exceed the {} that --backend local supports in one process",
                                       options.world, kMostLocalRanks),
                .help = "start them with --backend mpi or nccl"};
  const auto world = static_cast<size_t>(options.world);
  const auto board = std::make_shared<Board>();
  board->ranks.resize(world);
  board->statuses.resize(world);
  board->running = world;
  Comm model{
      .world = options.world, .backend = &kLocal, .device = &device, .deadline = options.deadline, .state = board};
  model.process.resize(world);
  std::iota(model.process.begin(), model.process.end(), 0);
  model.node = model.process;
  std::vector<std::thread> threads;
  threads.reserve(world);
  for (int rank = 0; rank < options.world; ++rank) {
    model.rank = model.local_rank = rank;
    try {
      Comm comm = model;
      threads.emplace_back([comm = std::move(comm), &body]() mutable {
        const int status = run_local_rank(comm, body);
        post_rank_end(board_of(comm), comm.rank, status);
      });
    } catch (const std::exception& error) {  // std::system_error if no thread can be started, or std::bad_alloc
      fail_somehow(*board, model, [&] {
        return Fault{
            .code = Code::OutOfMemory,
            .message = std::string("cannot start the rank, because threads or memory are exhausted: ") + error.what(),
            .help = "check ulimit -u and ulimit -v"};
      });
      for (int missing = rank; missing < options.world; ++missing) post_rank_end(*board, missing, 3);
      break;
    }
  }
  const bool all_ended = wait_for_ends(*board, options.deadline);
  if (!all_ended) {  // a rank is stuck in its body, and would use memory that the caller frees
    const std::lock_guard lock(board->mutex);
    end_process(*board->fault);
  }
  for (std::thread& thread : threads) thread.join();
  JobResult end{.status = std::ranges::max(board->statuses), .fault = board->fault};
  if (end.fault) end.status = std::max(end.status, exit_status(*end.fault));
  return end;
}

}  // namespace tpplan
