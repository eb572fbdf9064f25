#include "exec/ranks/mpi_library.h"

#include <dlfcn.h>
#include <spdlog/fmt/fmt.h>

#include <array>

#include "base/text.h"

namespace tpplan {
namespace {

constexpr const char* kNames[] = {"libmpi.so.40", "libmpi.so"};

struct Loaded {
  MpiLibrary library{};
  std::string reason;  // empty if the library is usable
};

// Loads a symbol of the library into `member`. Returns false with the reason if the symbol is missing.
template <typename Member>
bool find(void* handle, const char* name, Member& member, std::string& reason) {
  void* symbol = dlsym(handle, name);
  member = reinterpret_cast<Member>(symbol);
  if (symbol == nullptr && reason.empty())
    reason = fmt::format("the MPI library has no {}, so it is not Open MPI; install openmpi-bin", name);
  return symbol != nullptr;
}

Loaded load() {
  Loaded loaded;
  MpiLibrary& library = loaded.library;
  void* handle = nullptr;
  for (const char* name : kNames) {
    handle = handle != nullptr ? handle : dlopen(name, RTLD_NOW | RTLD_GLOBAL);  // its plug-ins need its symbols
    if (handle != nullptr && library.path.empty()) library.path = name;
  }
  if (handle == nullptr) {
    loaded.reason =
        "Open MPI is not found (libmpi.so.40): install it, on Debian and Ubuntu with apt-get install openmpi-bin "
        "libopenmpi-dev";
    return loaded;
  }
  std::string& reason = loaded.reason;
  const bool found = find(handle, "ompi_mpi_comm_world", library.world, reason) &&
                     find(handle, "ompi_mpi_byte", library.byte, reason) &&
                     find(handle, "ompi_mpi_errors_return", library.errors_return, reason) &&
                     find(handle, "MPI_Init_thread", library.init_thread, reason) &&
                     find(handle, "MPI_Finalize", library.finalize, reason) &&
                     find(handle, "MPI_Comm_rank", library.comm_rank, reason) &&
                     find(handle, "MPI_Comm_size", library.comm_size, reason) &&
                     find(handle, "MPI_Comm_set_errhandler", library.comm_set_errhandler, reason) &&
                     find(handle, "MPI_Isend", library.isend, reason) &&
                     find(handle, "MPI_Irecv", library.irecv, reason) &&
                     find(handle, "MPI_Test", library.test, reason) &&
                     find(handle, "MPI_Error_string", library.error_string, reason) &&
                     find(handle, "MPI_Get_library_version", library.get_library_version, reason);
  if (!found) return loaded;
  std::array<char, kMpiMaxText + 1> text{};
  int length = 0;
  library.get_library_version(text.data(), &length);
  library.version = escape_for_terminal(split(text.data(), ',')[0]);
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(library.test), &info) != 0 && info.dli_fname != nullptr)
    library.path = info.dli_fname;
  return loaded;
}

}  // namespace

const MpiLibrary* mpi_library(std::string& reason) {
  static const Loaded loaded = load();
  reason = loaded.reason;
  return loaded.reason.empty() ? &loaded.library : nullptr;
}

}  // namespace tpplan
