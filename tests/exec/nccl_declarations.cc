// Compares tpplan's declarations of NCCL with the installed nccl.h; built only if that header exists. The test passes
// if this file compiles.
#include <nccl.h>

#include <cstddef>
#include <type_traits>

#include "exec/device/nccl_library.h"

namespace {

using namespace tpplan;

static_assert(NCCL_VERSION_CODE >= kOldestNccl);
static_assert(NCCL_VERSION(2, 14, 0) == kOldestNccl);

static_assert(static_cast<int>(NcclResult::Success) == ncclSuccess);
static_assert(static_cast<int>(NcclResult::UnhandledCudaError) == ncclUnhandledCudaError);
static_assert(static_cast<int>(NcclResult::SystemError) == ncclSystemError);
static_assert(static_cast<int>(NcclResult::InternalError) == ncclInternalError);
static_assert(static_cast<int>(NcclResult::InvalidArgument) == ncclInvalidArgument);
static_assert(static_cast<int>(NcclResult::InvalidUsage) == ncclInvalidUsage);
static_assert(static_cast<int>(NcclResult::RemoteError) == ncclRemoteError);
static_assert(static_cast<int>(NcclResult::InProgress) == ncclInProgress);

static_assert(static_cast<int>(NcclType::Int8) == ncclInt8);
static_assert(static_cast<int>(NcclType::Uint8) == ncclUint8);
static_assert(static_cast<int>(NcclType::Int32) == ncclInt32);
static_assert(static_cast<int>(NcclType::Uint32) == ncclUint32);
static_assert(static_cast<int>(NcclType::Int64) == ncclInt64);
static_assert(static_cast<int>(NcclType::Uint64) == ncclUint64);
static_assert(static_cast<int>(NcclType::Float16) == ncclFloat16);
static_assert(static_cast<int>(NcclType::Float32) == ncclFloat32);
static_assert(static_cast<int>(NcclType::Float64) == ncclFloat64);
static_assert(static_cast<int>(NcclType::Bfloat16) == ncclBfloat16);

static_assert(static_cast<int>(NcclOp::Sum) == ncclSum);
static_assert(static_cast<int>(NcclOp::Max) == ncclMax);
static_assert(static_cast<int>(NcclOp::Min) == ncclMin);

static_assert(sizeof(NcclUniqueId) == sizeof(ncclUniqueId) && alignof(NcclUniqueId) == alignof(ncclUniqueId));
static_assert(sizeof(NcclConfig) <= sizeof(ncclConfig_t) && alignof(NcclConfig) == alignof(ncclConfig_t));
static_assert(offsetof(NcclConfig, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(NcclConfig, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(NcclConfig, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(NcclConfig, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(NcclConfig{}.magic == NCCL_API_MAGIC);

// Maps each NCCL type to tpplan's type. Enums, pointers and the id are passed to functions in the same way.
template <typename T>
struct OursIs {
  using type = T;
};
template <>
struct OursIs<ncclResult_t> {
  using type = NcclResult;
};
template <>
struct OursIs<ncclResult_t*> {
  using type = NcclResult*;
};
template <>
struct OursIs<ncclDataType_t> {
  using type = NcclType;
};
template <>
struct OursIs<ncclRedOp_t> {
  using type = NcclOp;
};
template <>
struct OursIs<ncclComm_t> {
  using type = NcclComm;
};
template <>
struct OursIs<ncclComm_t*> {
  using type = NcclComm*;
};
template <>
struct OursIs<ncclUniqueId> {
  using type = NcclUniqueId;
};
template <>
struct OursIs<ncclUniqueId*> {
  using type = NcclUniqueId*;
};
template <>
struct OursIs<ncclConfig_t*> {
  using type = NcclConfig*;
};
template <>
struct OursIs<cudaStream_t> {
  using type = void*;
};

template <typename R, typename... A>
auto ours(R (*)(A...)) -> typename OursIs<R>::type (*)(typename OursIs<A>::type...);

#define SAME(member, function) \
  static_assert(std::is_same_v<decltype(NcclFunctions::member), decltype(ours(function))>, #function)
SAME(get_version, &ncclGetVersion);
SAME(get_unique_id, &ncclGetUniqueId);
SAME(comm_init_rank_config, &ncclCommInitRankConfig);
SAME(comm_finalize, &ncclCommFinalize);
SAME(comm_destroy, &ncclCommDestroy);
SAME(comm_abort, &ncclCommAbort);
SAME(comm_get_async_error, &ncclCommGetAsyncError);
SAME(get_error_string, &ncclGetErrorString);
SAME(get_last_error, &ncclGetLastError);
SAME(group_start, &ncclGroupStart);
SAME(group_end, &ncclGroupEnd);
SAME(all_gather, &ncclAllGather);
SAME(broadcast, &ncclBroadcast);
SAME(all_reduce, &ncclAllReduce);
SAME(reduce, &ncclReduce);
SAME(reduce_scatter, &ncclReduceScatter);
SAME(send, &ncclSend);
SAME(receive, &ncclRecv);

static_assert(sizeof(ncclResult_t) == sizeof(NcclResult) && sizeof(ncclDataType_t) == sizeof(NcclType) &&
              sizeof(ncclRedOp_t) == sizeof(NcclOp));

}  // namespace
