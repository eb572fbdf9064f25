# tpplan and tpplan-exec, and what only they need: the command lines and the executor's library.

# Schemas and the pages of `tpplan explain` stand in the binary.
file(GLOB TPPLAN_PAGES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/lib/diagnostics/explain/*.md)
file(GLOB TPPLAN_SCHEMAS CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/schemas/*.schema.json)
tpplan_embed(TPPLAN_EMBEDDED embedded.h "embedded_schema|.schema.json|${TPPLAN_SCHEMAS}" "embedded_page|.md|${TPPLAN_PAGES}")

# What both programs' command lines have in common is compiled with each of them: CLI11's headers, which take longer than
# all of it, are parsed once for a program and not once more for a library between the two.
find_package(CLI11 REQUIRED)
add_library(tpplan_cli INTERFACE)
target_include_directories(tpplan_cli INTERFACE tools/cli)
target_link_libraries(tpplan_cli INTERFACE tpplan_core tpplan_fmt CLI11::CLI11)

# A program is its command line, a library so that the tests can run it many times in one go, and main.
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

# The executor: manifest and weights onto devices. NCCL, MPI, cuBLAS and the GPU's driver are found at run time.
include(tools/cmake/cuda.cmake)
tpplan_sources(TPPLAN_RANK_SOURCES ranks lib/exec/device lib/exec/ranks)
tpplan_sources(TPPLAN_SHARD_SOURCES shards lib/exec/shards)
tpplan_sources(TPPLAN_RUN_SOURCES run lib/exec/run)
if(TPPLAN_CUDA_COMPILER)
  list(FILTER TPPLAN_RANK_SOURCES EXCLUDE REGEX "lib/exec/device/no_cuda\\.cc$")
  list(APPEND TPPLAN_RANK_SOURCES ${TPPLAN_CUDA_SOURCES})
endif()
add_library(tpplan_executor STATIC ${TPPLAN_RANK_SOURCES} ${TPPLAN_SHARD_SOURCES} ${TPPLAN_RUN_SOURCES})
# In the tests a simulated GPU stands in its place.
set_source_files_properties(lib/exec/device/no_cuda.cc lib/exec/device/cublas.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
# The same values on every machine: nothing contracted but what is written as fma; vectorised.
set_source_files_properties(lib/exec/device/draw_on_host.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
set_source_files_properties(lib/exec/device/draw_on_host.cc PROPERTIES COMPILE_OPTIONS "-O3;-ffp-contract=off;-fno-math-errno;-fno-trapping-math")
set_target_properties(tpplan_core tpplan_executor PROPERTIES POSITION_INDEPENDENT_CODE ON)  # they stand in libtpplan_load, too
target_link_libraries(tpplan_executor PUBLIC tpplan_core PRIVATE tpplan_fmt Threads::Threads ${CMAKE_DL_LIBS})
tpplan_sources(TPPLAN_EXEC_COMMANDS_SOURCES commands tools/cli tools/tpplan-exec)
list(FILTER TPPLAN_EXEC_COMMANDS_SOURCES EXCLUDE REGEX "/main\\.cc$")
add_library(tpplan_exec_commands STATIC ${TPPLAN_EXEC_COMMANDS_SOURCES} ${TPPLAN_EMBEDDED})
target_include_directories(tpplan_exec_commands PRIVATE tools/tpplan-exec)
target_link_libraries(tpplan_exec_commands PUBLIC tpplan_cli tpplan_executor)
add_executable(tpplan-exec tools/tpplan-exec/main.cc)
target_link_libraries(tpplan-exec PRIVATE tpplan_exec_commands)
if(TPPLAN_STATIC_LINK)
  # Not whole: it loads libraries at run time. It starts on the glibc that its symbols ask for, so they are as old as can
  # be: libgcc's archive would ask for 2.35 where the shared one does not, and what nobody calls in libstdc++ for 2.36.
  target_link_options(tpplan-exec PRIVATE -static-libstdc++ -Wl,--gc-sections)
endif()
# The executor's reading for programs of others, as a library with a C interface: what it exports says the version script.
tpplan_sources(TPPLAN_LOAD_SOURCES load lib/exec/load)
add_library(tpplan_load SHARED ${TPPLAN_LOAD_SOURCES})
target_link_libraries(tpplan_load PRIVATE tpplan_executor tpplan_fmt)
target_link_options(tpplan_load PRIVATE -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/tools/cmake/tpplan_load.map
  -Wl,-z,nodelete)  # its threads' records have a destructor in it (base/long_calls.cc)
set_property(TARGET tpplan_load APPEND PROPERTY LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/tools/cmake/tpplan_load.map)
set_target_properties(tpplan_load PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR} UNITY_BUILD OFF)
if(TPPLAN_STATIC_LINK)
  target_link_options(tpplan_load PRIVATE -static-libstdc++ -Wl,--gc-sections)  # as tpplan-exec
endif()
add_executable(tpplan::tpplan ALIAS tpplan)
add_executable(tpplan::tpplan-exec ALIAS tpplan-exec)

set_target_properties(tpplan_commands tpplan_executor tpplan_exec_commands PROPERTIES UNITY_BUILD_MODE GROUP)
set_target_properties(tpplan tpplan-exec PROPERTIES UNITY_BUILD OFF)
# Backends name alike what they do alike.
set_source_files_properties(lib/exec/ranks/local_backend.cc lib/exec/ranks/mpi_backend.cc lib/exec/ranks/nccl_backend.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
