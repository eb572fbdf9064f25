// Compares the declarations of exec/ranks/mpi_library.h with mpi.h of an installed Open MPI. The test passes if this
// file compiles.
#include <mpi.h>

#include <cstddef>
#include <type_traits>

#include "exec/ranks/mpi_library.h"

using namespace tpplan;

#if !defined(OPEN_MPI)
#error "this mpi.h is not Open MPI's"
#endif

// True if two parameter types are equal or both are pointers. The opaque structs of exec/ranks/mpi_library.h are in
// namespace tpplan, so pointers to them are different types of the same size.
template <typename Ours, typename Theirs>
constexpr bool fits_type = std::is_same_v<Ours, Theirs> ||
                           (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs> && sizeof(Ours) == sizeof(Theirs));

template <typename Ours, typename Theirs>
struct Fits;
template <typename R, typename... Ours, typename S, typename... Theirs>
struct Fits<R (*)(Ours...), S (*)(Theirs...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(Ours) != sizeof...(Theirs))
      return false;
    else
      return std::is_same_v<R, S> && (fits_type<Ours, Theirs> && ...);
  }();
};

#define HOLD(member, function) static_assert(Fits<decltype(MpiLibrary::member), decltype(&function)>::value, #function)
HOLD(init_thread, MPI_Init_thread);
HOLD(finalize, MPI_Finalize);
HOLD(comm_rank, MPI_Comm_rank);
HOLD(comm_size, MPI_Comm_size);
HOLD(comm_set_errhandler, MPI_Comm_set_errhandler);
HOLD(isend, MPI_Isend);
HOLD(irecv, MPI_Irecv);
HOLD(test, MPI_Test);
HOLD(error_string, MPI_Error_string);
HOLD(get_library_version, MPI_Get_library_version);

static_assert(fits_type<MpiComm, MPI_Comm> && fits_type<MpiDatatype, MPI_Datatype> &&
              fits_type<MpiRequest, MPI_Request> && fits_type<MpiErrhandler, MPI_Errhandler>);
static_assert(kMpiSuccess == MPI_SUCCESS && kMpiThreadFunneled == MPI_THREAD_FUNNELED);
static_assert(kMpiMaxText >= MPI_MAX_ERROR_STRING && kMpiMaxText >= MPI_MAX_LIBRARY_VERSION_STRING);
static_assert(sizeof(MpiStatus) == sizeof(MPI_Status) &&
              offsetof(MpiStatus, source) == offsetof(MPI_Status, MPI_SOURCE) &&
              offsetof(MpiStatus, tag) == offsetof(MPI_Status, MPI_TAG) &&
              offsetof(MpiStatus, error) == offsetof(MPI_Status, MPI_ERROR));
// MPI_COMM_WORLD and the other handles are addresses of these variables.
static_assert(std::is_pointer_v<decltype(&ompi_mpi_comm_world)> && std::is_pointer_v<decltype(&ompi_mpi_byte)> &&
              std::is_pointer_v<decltype(&ompi_mpi_errors_return)>);
