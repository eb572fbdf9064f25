// Open MPI, loaded at run time. The required functions are declared here, so that the build needs no MPI headers.
// Names, types and constants are those of mpi.h of Open MPI 4 and 5 (libmpi.so.40); tests/exec/mpi_abi.cc compares them
// with that header.
#pragma once

#include <cstddef>
#include <string>

namespace tpplan {

// Handles of Open MPI are pointers to opaque structs.
using MpiComm = struct ompi_communicator_t*;
using MpiDatatype = struct ompi_datatype_t*;
using MpiRequest = struct ompi_request_t*;
using MpiErrhandler = struct ompi_errhandler_t*;

struct MpiStatus {
  int source, tag, error, cancelled;
  size_t count;
};

inline constexpr int kMpiSuccess = 0;
inline constexpr int kMpiThreadFunneled = 1;
inline constexpr size_t kMpiMaxText = 256;  // MPI_MAX_ERROR_STRING, MPI_MAX_LIBRARY_VERSION_STRING

struct MpiLibrary {
  int (*init_thread)(int* argc, char*** argv, int required, int* provided);
  int (*finalize)();
  int (*comm_rank)(MpiComm comm, int* rank);
  int (*comm_size)(MpiComm comm, int* size);
  int (*comm_set_errhandler)(MpiComm comm, MpiErrhandler handler);
  int (*isend)(const void* data, int count, MpiDatatype type, int to, int tag, MpiComm comm, MpiRequest* request);
  int (*irecv)(void* data, int count, MpiDatatype type, int from, int tag, MpiComm comm, MpiRequest* request);
  int (*test)(MpiRequest* request, int* done, MpiStatus* status);
  int (*error_string)(int error, char* text, int* length);
  int (*get_library_version)(char* text, int* length);
  MpiComm world;                // MPI_COMM_WORLD
  MpiDatatype byte;             // MPI_BYTE
  MpiErrhandler errors_return;  // MPI_ERRORS_RETURN
  std::string version;          // "Open MPI v4.1.4"
  std::string path;
};

// Returns the library, which is loaded once, or nullptr with the reason if Open MPI is not installed or a symbol is
// missing.
[[nodiscard]] const MpiLibrary* mpi_library(std::string& reason);

}  // namespace tpplan
