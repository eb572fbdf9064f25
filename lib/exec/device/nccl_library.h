// NCCL, found at run time, or RCCL, its port to AMD's GPUs with the same names (ROCm/rccl, src/nccl.h.in). Types and
// functions are declared here as in nccl.h since 2.14 (2022), so that the program builds and starts without the
// library; tests/exec/nccl_declarations.cc compares them with NCCL's header. RCCL was not tried on hardware and needs a
// device for AMD's GPUs, which device/ does not have.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tpplan {

inline constexpr int kOldestNccl = 21400;  // the first with nonblocking communicators

using NcclComm = struct ncclComm*;

enum class NcclResult : int {
  Success = 0,
  UnhandledCudaError = 1,
  SystemError = 2,
  InternalError = 3,
  InvalidArgument = 4,
  InvalidUsage = 5,
  RemoteError = 6,
  InProgress = 7,
};

enum class NcclType : int {
  Int8 = 0,
  Uint8 = 1,
  Int32 = 2,
  Uint32 = 3,
  Int64 = 4,
  Uint64 = 5,
  Float16 = 6,
  Float32 = 7,
  Float64 = 8,
  Bfloat16 = 9
};

enum class NcclOp : int { Sum = 0, Max = 2, Min = 3 };

struct NcclUniqueId {
  char bytes[128];
};

// ncclConfig_t of 2.14; later versions read only the fields of `version`.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned int magic = 0xcafebeef;
  unsigned int version = kOldestNccl;
  int blocking = 0;
};

struct NcclFunctions {
  NcclResult (*get_version)(int* version);
  NcclResult (*get_unique_id)(NcclUniqueId* id);
  NcclResult (*comm_init_rank_config)(NcclComm* comm, int ranks, NcclUniqueId id, int rank, NcclConfig* config);
  NcclResult (*comm_finalize)(NcclComm comm);
  NcclResult (*comm_destroy)(NcclComm comm);
  NcclResult (*comm_abort)(NcclComm comm);
  NcclResult (*comm_get_async_error)(NcclComm comm, NcclResult* error);
  const char* (*get_error_string)(NcclResult result);
  const char* (*get_last_error)(NcclComm comm);
  NcclResult (*group_start)();
  NcclResult (*group_end)();
  NcclResult (*all_gather)(const void* send, void* receive, size_t send_count, NcclType type, NcclComm comm,
                           void* stream);
  NcclResult (*broadcast)(const void* send, void* receive, size_t count, NcclType type, int root, NcclComm comm,
                          void* stream);
  NcclResult (*all_reduce)(const void* send, void* receive, size_t count, NcclType type, NcclOp op, NcclComm comm,
                           void* stream);
  NcclResult (*reduce)(const void* send, void* receive, size_t count, NcclType type, NcclOp op, int root, NcclComm comm,
                       void* stream);
  NcclResult (*reduce_scatter)(const void* send, void* receive, size_t receive_count, NcclType type, NcclOp op,
                               NcclComm comm, void* stream);
  NcclResult (*send)(const void* send, size_t count, NcclType type, int peer, NcclComm comm, void* stream);
  NcclResult (*receive)(void* receive, size_t count, NcclType type, int peer, NcclComm comm, void* stream);
};

// `library` is the file that was opened; if it is empty, `reason` has the cause.
struct NcclLibrary {
  std::string_view name;  // "NCCL", "RCCL"
  std::string library, reason;
  int version = 0;                 // 22304 is 2.23.4
  bool takes_host_memory = false;  // a stand-in for tests; NCCL moves the memory of GPUs only
  NcclFunctions functions = {};
};

// Opens the file in TPPLAN_NCCL_LIBRARY, or the first of libnccl.so.2 and librccl.so.1 that exists; once.
const NcclLibrary& nccl_library();

// "2.23.4"
[[nodiscard]] std::string nccl_version_text(int version);

}  // namespace tpplan
