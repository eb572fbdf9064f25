#include "exec/device/nccl_library.h"

#include <dlfcn.h>
#include <spdlog/fmt/fmt.h>

#include <cstdlib>

#include "base/text.h"
#include "exec/device/find_symbol.h"
#include "exec/device/site_packages.h"

namespace tpplan {
namespace {

// The libraries with NCCL's functions, in search order.
struct LibraryRow {
  std::string_view name;
  const char* file;
};

constexpr LibraryRow kLibraries[] = {{"NCCL", "libnccl.so.2"}, {"RCCL", "librccl.so.1"}};

// The file in the packages nvidia-nccl-cu12 and -cu13, on which PyTorch depends.
constexpr std::string_view kPackaged = "nvidia/nccl/lib/libnccl.so.2";

bool find_functions(void* library, NcclFunctions& f, std::string& reason) {
  return find_symbol(library, "ncclGetUniqueId", f.get_unique_id, reason) &&
         find_symbol(library, "ncclCommInitRankConfig", f.comm_init_rank_config, reason) &&
         find_symbol(library, "ncclCommFinalize", f.comm_finalize, reason) &&
         find_symbol(library, "ncclCommDestroy", f.comm_destroy, reason) &&
         find_symbol(library, "ncclCommAbort", f.comm_abort, reason) &&
         find_symbol(library, "ncclCommGetAsyncError", f.comm_get_async_error, reason) &&
         find_symbol(library, "ncclGetErrorString", f.get_error_string, reason) &&
         find_symbol(library, "ncclGetLastError", f.get_last_error, reason) &&
         find_symbol(library, "ncclGroupStart", f.group_start, reason) &&
         find_symbol(library, "ncclGroupEnd", f.group_end, reason) &&
         find_symbol(library, "ncclAllGather", f.all_gather, reason) &&
         find_symbol(library, "ncclBroadcast", f.broadcast, reason) &&
         find_symbol(library, "ncclAllReduce", f.all_reduce, reason) &&
         find_symbol(library, "ncclReduce", f.reduce, reason) &&
         find_symbol(library, "ncclReduceScatter", f.reduce_scatter, reason) &&
         find_symbol(library, "ncclSend", f.send, reason) && find_symbol(library, "ncclRecv", f.receive, reason);
}

// Checks the version first: an old NCCL lacks functions, and its age is the better reason.
bool prove_library(void* library, NcclLibrary& nccl) {
  if (!find_symbol(library, "ncclGetVersion", nccl.functions.get_version, nccl.reason)) return false;
  if (nccl.functions.get_version(&nccl.version) != NcclResult::Success) {
    nccl.reason = "ncclGetVersion failed";
    return false;
  }
  if (nccl.version < kOldestNccl) {
    nccl.reason = fmt::format("{} {} is too old: {} is the first version with non-blocking communicators", nccl.name,
                              nccl_version_text(nccl.version), nccl_version_text(kOldestNccl));
    return false;
  }
  return find_functions(library, nccl.functions, nccl.reason);
}

// Opens `file`. Returns nullptr with the reason of the first failed attempt.
void* open_file(const char* file, std::string& reason) {
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  const char* why = dlerror();
  if (reason.empty()) reason = fmt::format("cannot load NCCL: {}", escape_for_terminal(why != nullptr ? why : file));
  return nullptr;
}

NcclLibrary open_nccl_library() {
  NcclLibrary nccl{.name = kLibraries[0].name};
  const char* named = std::getenv("TPPLAN_NCCL_LIBRARY");
  std::string file = named != nullptr ? named : "";
  void* library = file.empty() ? nullptr : open_file(file.c_str(), nccl.reason);
  for (size_t i = 0; file.empty() && library == nullptr && i < std::size(kLibraries); ++i) {
    library = open_file(kLibraries[i].file, nccl.reason);
    if (library == nullptr) continue;
    nccl.name = kLibraries[i].name;
    file = kLibraries[i].file;
  }
  if (named == nullptr || *named == '\0') {
    for (const std::string& packaged : find_in_site_packages(kPackaged)) {
      if (library != nullptr) break;
      library = open_file(packaged.c_str(), nccl.reason);
      if (library != nullptr) file = packaged;
    }
  }
  if (library == nullptr) return nccl;
  nccl.reason.clear();
  if (prove_library(library, nccl)) {
    nccl.library = file;
    nccl.takes_host_memory = dlsym(library, "tpplan_takes_host_memory") != nullptr;
  } else {
    nccl.reason = fmt::format("{}: {}", escape_for_terminal(file), nccl.reason);
  }
  return nccl;
}

}  // namespace

const NcclLibrary& nccl_library() {
  static const NcclLibrary nccl = open_nccl_library();
  return nccl;
}

std::string nccl_version_text(int version) {
  return version < 10000 ? fmt::format("{}.{}.{}", version / 1000, version / 100 % 10, version % 100)
                         : fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace tpplan
