// Fake libnccl.so.2 for tests: the same functions, which move CPU memory between processes through files in the folder
// FAKE_NCCL_DIR. It tests how tpplan calls NCCL (grouping, counts, waiting, aborting, error messages), not NCCL or
// GPUs.
//
// FAKE_NCCL_VERSION=21210   result of ncclGetVersion
// FAKE_NCCL_LOG=FILE        one line per call: rank, communicator, function, numbers
// FAKE_NCCL_FAULT=rank=1,call=3,kind=hang|error|async|stuck|late
//                           fault of rank 1 in its third group of calls; call=0: when it joins
//                           stuck: hangs, and ncclCommAbort never returns
//                           late: finishes half a second after the other ranks
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "exec/device/element_arithmetic.h"
#include "exec/device/nccl_library.h"

using namespace tpplan;

enum class Kind { AllGather, Broadcast, AllReduce, Reduce, ReduceScatter, Send, Receive };

struct Call {
  Kind kind;
  const void* from;
  void* to;
  size_t count;
  NcclType type;
  NcclOp op;
  int peer;  // peer or root
};

namespace tpplan {

struct ncclComm {
  std::string name;  // prefix of its files
  int rank = 0, size = 0;
  uint64_t collectives = 0;
  std::map<int, uint64_t> sent, received;  // messages by peer
  std::vector<Call> calls;                 // calls of the open group
  std::thread worker;
  std::atomic<NcclResult> state = NcclResult::Success;
  std::atomic<bool> aborted = false;
};

}  // namespace tpplan

namespace {

thread_local int t_depth = 0;
thread_local std::vector<NcclComm> t_grouped;
std::string g_error = "no error";
int g_groups = 0;

const char* setting(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

template <typename... Parts>
void log(Parts&&... parts) {
  if (*setting("FAKE_NCCL_LOG") == '\0') return;
  std::ostringstream line;
  line << "rank " << setting("RANK");
  ((line << ' ' << parts), ...);
  line << '\n';
  const int file = open(setting("FAKE_NCCL_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file >= 0 && write(file, line.str().data(), line.str().size()) < 0) std::perror("FAKE_NCCL_LOG");
  if (file >= 0) close(file);
}

// Returns the fault of this process at its `call`-th group, or "".
std::string fault_at(int call) {
  std::map<std::string, std::string> wanted;
  std::istringstream list(setting("FAKE_NCCL_FAULT"));
  for (std::string part; std::getline(list, part, ',');)
    wanted[part.substr(0, part.find('='))] = part.substr(part.find('=') + 1);
  return wanted["rank"] == setting("RANK") && wanted["call"] == std::to_string(call) ? wanted["kind"] : "";
}

size_t width(NcclType type) {
  constexpr size_t kWidths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return kWidths[static_cast<int>(type)];
}

void put(const ncclComm& comm, const std::string& name, const std::string& content) {
  const std::string path = comm.name + name, before = path + "." + std::to_string(comm.rank) + ".new";
  std::ofstream(before, std::ios::binary) << content;
  std::rename(before.c_str(), path.c_str());
}

// Reads a file once it exists. Returns false after an abort.
bool get(const ncclComm& comm, const std::string& name, std::string& content) {
  for (;;) {
    if (std::ifstream file(comm.name + name, std::ios::binary); file) {
      std::ostringstream all;
      all << file.rdbuf();
      content = all.str();
      return true;
    }
    if (comm.aborted) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

template <typename T>
void reduce_into(void* to, const void* from, size_t count, ReduceOp op) {
  for (size_t i = 0; i < count; ++i) {
    T a, b;
    memcpy(&a, static_cast<char*>(to) + i * sizeof(T), sizeof(T));
    memcpy(&b, static_cast<const char*>(from) + i * sizeof(T), sizeof(T));
    a = reduce_pair(a, b, op);
    memcpy(static_cast<char*>(to) + i * sizeof(T), &a, sizeof(T));
  }
}

void reduce_typed(void* to, const void* from, size_t count, NcclType type, NcclOp nccl_op) {
  const ReduceOp op = nccl_op == NcclOp::Max ? ReduceOp::Max : nccl_op == NcclOp::Min ? ReduceOp::Min : ReduceOp::Sum;
  switch (type) {
    case NcclType::Int8:
      return reduce_into<int8_t>(to, from, count, op);
    case NcclType::Uint8:
      return reduce_into<uint8_t>(to, from, count, op);
    case NcclType::Int32:
      return reduce_into<int32_t>(to, from, count, op);
    case NcclType::Uint32:
      return reduce_into<uint32_t>(to, from, count, op);
    case NcclType::Int64:
      return reduce_into<int64_t>(to, from, count, op);
    case NcclType::Uint64:
      return reduce_into<uint64_t>(to, from, count, op);
    case NcclType::Float16:
      return reduce_into<Half>(to, from, count, op);
    case NcclType::Float32:
      return reduce_into<float>(to, from, count, op);
    case NcclType::Float64:
      return reduce_into<double>(to, from, count, op);
    case NcclType::Bfloat16:
      return reduce_into<Bfloat16>(to, from, count, op);
  }
}

// Returns the parameters that must be equal on all ranks; they precede the bytes.
std::string head_of(const Call& call) {
  std::ostringstream head;
  head << static_cast<int>(call.kind) << ' ' << call.count << ' ' << static_cast<int>(call.type) << ' '
       << static_cast<int>(call.op) << ' ' << call.peer << '\n';
  return head.str();
}

// Executes one collective: every rank writes its input to a file and reads the files of all ranks.
NcclResult collective(ncclComm& comm, const Call& call) {
  const size_t bytes = call.count * width(call.type);
  const auto size = static_cast<size_t>(comm.size);
  const auto me = static_cast<size_t>(comm.rank);
  const bool gives = call.kind != Kind::Broadcast || call.peer == comm.rank;
  const size_t given = !gives ? 0 : call.kind == Kind::ReduceScatter ? bytes * size : bytes;
  const std::string number = "c" + std::to_string(comm.collectives) + ".";
  put(comm, number + std::to_string(comm.rank),
      head_of(call) + std::string(static_cast<const char*>(call.from), given));
  std::vector<std::string> all(size);
  for (size_t rank = 0; rank < size; ++rank) {
    if (!get(comm, number + std::to_string(rank), all[rank])) return NcclResult::InProgress;
    const size_t head = all[rank].find('\n') + 1;
    if (all[rank].substr(0, head) != head_of(call)) {
      g_error = "ranks disagree: " + all[rank].substr(0, head - 1) + " and " + head_of(call);
      return NcclResult::InvalidUsage;
    }
    all[rank].erase(0, head);
  }
  if (comm.collectives > 0)
    unlink((comm.name + "c" + std::to_string(comm.collectives - 1) + "." + std::to_string(comm.rank)).c_str());
  ++comm.collectives;
  char* to = static_cast<char*>(call.to);
  if (call.kind == Kind::AllGather) {
    for (size_t rank = 0; rank < size; ++rank) memcpy(to + rank * bytes, all[rank].data(), bytes);
  } else if (call.kind == Kind::Broadcast) {
    memcpy(to, all[static_cast<size_t>(call.peer)].data(), bytes);
  } else if (call.kind != Kind::Reduce || call.peer == comm.rank) {
    const size_t begin = call.kind == Kind::ReduceScatter ? me * bytes : 0;
    std::string sum = all[0].substr(begin, bytes);
    for (size_t rank = 1; rank < size; ++rank)
      reduce_typed(sum.data(), all[rank].data() + begin, call.count, call.type, call.op);
    memcpy(to, sum.data(), bytes);
  }
  return NcclResult::Success;
}

NcclResult run_calls(ncclComm& comm, const std::vector<Call>& calls) {
  for (const Call& call : calls) {  // sends come first, so that no order of calls can deadlock
    if (call.kind != Kind::Send) continue;
    const std::string name = "p" + std::to_string(comm.rank) + "." + std::to_string(call.peer) + "." +
                             std::to_string(comm.sent[call.peer]++);
    put(comm, name, std::string(static_cast<const char*>(call.from), call.count * width(call.type)));
  }
  for (const Call& call : calls) {
    if (call.kind == Kind::Send) continue;
    if (call.kind != Kind::Receive) {
      if (const NcclResult result = collective(comm, call); result != NcclResult::Success) return result;
      continue;
    }
    const std::string name = "p" + std::to_string(call.peer) + "." + std::to_string(comm.rank) + "." +
                             std::to_string(comm.received[call.peer]++);
    std::string content;
    if (!get(comm, name, content)) return NcclResult::InProgress;
    unlink((comm.name + name).c_str());
    if (content.size() != call.count * width(call.type)) {
      g_error = "a message of " + std::to_string(content.size()) + " bytes is received as " +
                std::to_string(call.count * width(call.type));
      return NcclResult::InvalidUsage;
    }
    memcpy(call.to, content.data(), content.size());
  }
  return NcclResult::Success;
}

// Starts `work` on the communicator's thread, like a non-blocking communicator.
template <typename Work>
NcclResult begin(ncclComm& comm, const std::string& fault, Work work) {
  if (fault == "error") {
    g_error = "the test asks for this error";
    return NcclResult::SystemError;
  }
  if (comm.state == NcclResult::InProgress) {
    g_error = "a call before the last one is done";
    return NcclResult::InvalidUsage;
  }
  if (comm.worker.joinable()) comm.worker.join();
  comm.state = NcclResult::InProgress;
  comm.worker = std::thread([&comm, fault, work] {
    if (fault == "async") g_error = "the test asks for this error";
    if (fault == "hang" || fault == "stuck") {
      while (!comm.aborted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    const NcclResult result = fault == "async" ? NcclResult::RemoteError : work();
    for (int i = 0; i < 500 && fault == "late" && !comm.aborted; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    comm.state = result;
  });
  return NcclResult::InProgress;
}

NcclResult add_call(NcclComm comm, const Call& call, const char* name) {
  log(name, "of", comm->size, "count", call.count, "type", static_cast<int>(call.type), "peer", call.peer,
      t_depth > 0 ? "grouped" : "alone");
  if (t_depth == 0) {
    g_error = "calls on a communicator that does not block belong into a group";
    return NcclResult::InvalidUsage;
  }
  if (comm->calls.empty()) t_grouped.push_back(comm);
  comm->calls.push_back(call);
  return NcclResult::InProgress;
}

}  // namespace

extern "C" {

// Marks the library as one that accepts CPU memory.
extern const int tpplan_takes_host_memory;
const int tpplan_takes_host_memory = 1;

NcclResult ncclGetVersion(int* version) {
  *version = *setting("FAKE_NCCL_VERSION") != '\0' ? std::atoi(setting("FAKE_NCCL_VERSION")) : 23203;
  return NcclResult::Success;
}

NcclResult ncclGetUniqueId(NcclUniqueId* id) {
  static int made = 0;
  *id = {};
  std::snprintf(id->bytes, sizeof id->bytes, "%d-%d", static_cast<int>(getpid()), made++);
  return NcclResult::Success;
}

NcclResult ncclCommInitRankConfig(NcclComm* made, int ranks, NcclUniqueId id, int rank, NcclConfig* config) {
  if (config->magic != 0xcafebeef || config->version < 21400 || config->size < sizeof(NcclConfig) ||
      config->blocking != 0) {
    g_error = "the configuration is not one";
    return NcclResult::InvalidArgument;
  }
  auto* comm = new ncclComm;
  comm->name = std::string(setting("FAKE_NCCL_DIR")) + "/" + id.bytes + ".";
  comm->rank = rank;
  comm->size = ranks;
  *made = comm;
  log("CommInitRankConfig", id.bytes, "place", rank, "of", ranks);
  return begin(*comm, fault_at(0), [comm] {
    put(*comm, "hello." + std::to_string(comm->rank), "");
    std::string nothing;
    for (int other = 0; other < comm->size; ++other) {
      if (!get(*comm, "hello." + std::to_string(other), nothing)) return NcclResult::InProgress;
    }
    return NcclResult::Success;
  });
}

NcclResult ncclCommFinalize(NcclComm comm) {
  log("CommFinalize of", comm->size);
  return begin(*comm, "", [] { return NcclResult::Success; });
}

NcclResult ncclCommDestroy(NcclComm comm) {
  log("CommDestroy of", comm->size);
  if (comm->worker.joinable()) comm->worker.join();
  delete comm;
  return NcclResult::Success;
}

NcclResult ncclCommAbort(NcclComm comm) {
  log("CommAbort of", comm->size);
  if (std::strstr(setting("FAKE_NCCL_FAULT"), "kind=stuck") != nullptr)
    std::this_thread::sleep_for(std::chrono::hours(1));
  comm->aborted = true;
  return ncclCommDestroy(comm);
}

NcclResult ncclCommGetAsyncError(NcclComm comm, NcclResult* error) {
  *error = comm->state;
  return NcclResult::Success;
}

const char* ncclGetErrorString(NcclResult result) {
  return result == NcclResult::Success ? "no error" : "the stand-in's error";
}
const char* ncclGetLastError(NcclComm) { return g_error.c_str(); }

NcclResult ncclGroupStart() {
  ++t_depth;
  return NcclResult::Success;
}

NcclResult ncclGroupEnd() {
  if (--t_depth > 0) return NcclResult::Success;
  NcclResult result = NcclResult::Success;
  for (const NcclComm comm : t_grouped) {
    const std::string fault = fault_at(++g_groups);
    std::vector<Call> calls;
    std::swap(calls, comm->calls);
    result = begin(*comm, fault, [comm, calls] { return run_calls(*comm, calls); });
  }
  t_grouped.clear();
  return result;
}

NcclResult ncclAllGather(const void* from, void* to, size_t count, NcclType type, NcclComm comm, void*) {
  return add_call(comm, {Kind::AllGather, from, to, count, type, {}, 0}, "AllGather");
}

NcclResult ncclBroadcast(const void* from, void* to, size_t count, NcclType type, int root, NcclComm comm, void*) {
  return add_call(comm, {Kind::Broadcast, from, to, count, type, {}, root}, "Broadcast");
}

NcclResult ncclAllReduce(const void* from, void* to, size_t count, NcclType type, NcclOp op, NcclComm comm, void*) {
  return add_call(comm, {Kind::AllReduce, from, to, count, type, op, 0}, "AllReduce");
}

NcclResult ncclReduce(const void* from, void* to, size_t count, NcclType type, NcclOp op, int root, NcclComm comm,
                      void*) {
  return add_call(comm, {Kind::Reduce, from, to, count, type, op, root}, "Reduce");
}

NcclResult ncclReduceScatter(const void* from, void* to, size_t count, NcclType type, NcclOp op, NcclComm comm, void*) {
  return add_call(comm, {Kind::ReduceScatter, from, to, count, type, op, 0}, "ReduceScatter");
}

NcclResult ncclSend(const void* from, size_t count, NcclType type, int peer, NcclComm comm, void*) {
  return add_call(comm, {Kind::Send, from, nullptr, count, type, {}, peer}, "Send");
}

NcclResult ncclRecv(void* to, size_t count, NcclType type, int peer, NcclComm comm, void*) {
  return add_call(comm, {Kind::Receive, nullptr, to, count, type, {}, peer}, "Recv");
}

}  // extern "C"
