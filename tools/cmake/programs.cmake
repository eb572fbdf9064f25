# tpplan and tpplan-exec, with their command lines and the executor's library.

# Schemas and the pages of `tpplan explain` are embedded in the programs.
file(GLOB TPPLAN_PAGES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/lib/diagnostics/explain/*.md)
file(GLOB TPPLAN_SCHEMAS CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/schemas/*.schema.json)
tpplan_embed(TPPLAN_EMBEDDED embedded.h "embedded_schema|.schema.json|${TPPLAN_SCHEMAS}" "embedded_page|.md|${TPPLAN_PAGES}")

# tools/cli is compiled into each program instead of a library: parsing CLI11's headers takes longer than its own files,
# and this way it happens once per program.
find_package(CLI11 REQUIRED)
add_library(tpplan_cli INTERFACE)
target_include_directories(tpplan_cli INTERFACE tools/cli)
target_link_libraries(tpplan_cli INTERFACE tpplan_core tpplan_fmt CLI11::CLI11)

# The command line of a program is a library, separate from main.cc, so that tests can run it many times in one process.
tpplan_sources(TPPLAN_COMMANDS_SOURCES commands tools/cli tools/tpplan)
list(FILTER TPPLAN_COMMANDS_SOURCES EXCLUDE REGEX "/main\\.cc$")
add_library(tpplan_commands STATIC ${TPPLAN_COMMANDS_SOURCES} ${TPPLAN_EMBEDDED})
target_include_directories(tpplan_commands PRIVATE tools/tpplan)
target_link_libraries(tpplan_commands PUBLIC tpplan_cli tpplan_compiler)
add_executable(tpplan tools/tpplan/main.cc)
target_link_libraries(tpplan PRIVATE tpplan_commands)
if(TPPLAN_STATIC_LINK)
  target_link_options(tpplan PRIVATE ${TPPLAN_STATIC_LINK})
endif()

# The executor loads manifests and weights onto devices. NCCL, MPI, cuBLAS and the GPU's driver are loaded at run time.
include(tools/cmake/cuda.cmake)
tpplan_sources(TPPLAN_RANK_SOURCES ranks lib/exec/device lib/exec/ranks)
tpplan_sources(TPPLAN_SHARD_SOURCES shards lib/exec/shards)
tpplan_sources(TPPLAN_RUN_SOURCES run lib/exec/run)
if(TPPLAN_CUDA_COMPILER)
  list(FILTER TPPLAN_RANK_SOURCES EXCLUDE REGEX "lib/exec/device/no_cuda\\.cc$")
  list(APPEND TPPLAN_RANK_SOURCES ${TPPLAN_CUDA_SOURCES})
endif()
add_library(tpplan_executor STATIC ${TPPLAN_RANK_SOURCES} ${TPPLAN_SHARD_SOURCES} ${TPPLAN_RUN_SOURCES})
# Compiled separately, because tests replace them by a simulated GPU.
set_source_files_properties(lib/exec/device/no_cuda.cc lib/exec/device/cublas.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
# The same values on every machine: the compiler vectorises, but contracts nothing except explicit fma.
set_source_files_properties(lib/exec/device/draw_on_host.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
set_source_files_properties(lib/exec/device/draw_on_host.cc PROPERTIES COMPILE_OPTIONS "-O3;-ffp-contract=off;-fno-math-errno;-fno-trapping-math")
set_target_properties(tpplan_core tpplan_executor PROPERTIES POSITION_INDEPENDENT_CODE ON)  # also linked into libtpplan_load
target_link_libraries(tpplan_executor PUBLIC tpplan_core PRIVATE tpplan_fmt Threads::Threads ${CMAKE_DL_LIBS})
tpplan_sources(TPPLAN_EXEC_COMMANDS_SOURCES commands tools/cli tools/tpplan-exec)
list(FILTER TPPLAN_EXEC_COMMANDS_SOURCES EXCLUDE REGEX "/main\\.cc$")
add_library(tpplan_exec_commands STATIC ${TPPLAN_EXEC_COMMANDS_SOURCES} ${TPPLAN_EMBEDDED})
target_include_directories(tpplan_exec_commands PRIVATE tools/tpplan-exec)
target_link_libraries(tpplan_exec_commands PUBLIC tpplan_cli tpplan_executor)
add_executable(tpplan-exec tools/tpplan-exec/main.cc)
target_link_libraries(tpplan-exec PRIVATE tpplan_exec_commands)
if(TPPLAN_STATIC_LINK)
  # Not fully static, because it loads libraries at run time. It requires the oldest glibc possible: libgcc's archive
  # would need 2.35, and unused parts of libstdc++ 2.36.
  target_link_options(tpplan-exec PRIVATE -static-libstdc++ -Wl,--gc-sections)
endif()
# libtpplan_load: the executor's loading as a library with a C interface. The version script lists the exported
# functions.
tpplan_sources(TPPLAN_LOAD_SOURCES load lib/exec/load)
add_library(tpplan_load SHARED ${TPPLAN_LOAD_SOURCES})
target_link_libraries(tpplan_load PRIVATE tpplan_executor tpplan_fmt)
target_link_options(tpplan_load PRIVATE -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/tools/cmake/tpplan_load.map
  -Wl,-z,nodelete)  # threads call a destructor in it when they end (base/long_calls.cc)
set_property(TARGET tpplan_load APPEND PROPERTY LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/tools/cmake/tpplan_load.map)
set_target_properties(tpplan_load PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR} UNITY_BUILD OFF)
if(TPPLAN_STATIC_LINK)
  target_link_options(tpplan_load PRIVATE -static-libstdc++ -Wl,--gc-sections)  # like tpplan-exec
endif()
add_executable(tpplan::tpplan ALIAS tpplan)
add_executable(tpplan::tpplan-exec ALIAS tpplan-exec)

set_target_properties(tpplan_commands tpplan_executor tpplan_exec_commands PROPERTIES UNITY_BUILD_MODE GROUP)
set_target_properties(tpplan tpplan-exec PROPERTIES UNITY_BUILD OFF)
# Compiled separately, because the backends use the same names for the same functions.
set_source_files_properties(lib/exec/ranks/local_backend.cc lib/exec/ranks/mpi_backend.cc lib/exec/ranks/nccl_backend.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
