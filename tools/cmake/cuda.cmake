# Decides if tpplan-exec is built with CUDA. Sets TPPLAN_CUDA_COMPILER to nvcc or FALSE, and TPPLAN_CUDA_SOURCES to the
# CUDA files.
set(TPPLAN_CUDA AUTO CACHE STRING "CUDA in tpplan-exec: ON, OFF, or AUTO: where nvcc is found and nothing is sanitized")
set(TPPLAN_CUDA_COMPILER FALSE)
set(TPPLAN_CUDA_SOURCES lib/exec/device/cuda_checks.cu lib/exec/device/cuda_device.cu lib/exec/device/cuda_draw.cu lib/exec/device/cuda_kernels.cu)
if(TPPLAN_CUDA STREQUAL "ON" OR (TPPLAN_CUDA STREQUAL "AUTO" AND NOT TPPLAN_SANITIZE))
  find_program(TPPLAN_NVCC NAMES $ENV{CUDACXX} ${CMAKE_CUDA_COMPILER} nvcc)
  if(TPPLAN_NVCC)  # nvcc rejects unknown host compilers; check_language would take two seconds more
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/nvcc.cu "")
    execute_process(COMMAND ${TPPLAN_NVCC} -std=c++20 -E nvcc.cu WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles
      RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(NOT failed)
      set(TPPLAN_CUDA_COMPILER ${TPPLAN_NVCC})
      set(CMAKE_CUDA_COMPILER ${TPPLAN_NVCC} CACHE FILEPATH "The CUDA compiler")
    endif()
  endif()
endif()
if(TPPLAN_CUDA_COMPILER)
  # Code for Ampere, Ada, Hopper and Blackwell. From the PTX of the first entry the driver compiles code for every GPU
  # since Turing.
  set(CMAKE_CUDA_ARCHITECTURES 75-virtual 80-real 90-real 100-real 120-real CACHE STRING "GPUs that tpplan-exec holds code for")
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)  # the program also starts on machines without CUDA
  set(CMAKE_CUDA_ARCHITECTURES 90-real)  # CMake tests nvcc for each listed architecture, which takes a second more for all
  enable_language(CUDA)
  unset(CMAKE_CUDA_ARCHITECTURES)  # use the cached value from here on
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)  # CMake before 3.26 does not know nvcc's option
  endif()
  message(STATUS "tpplan-exec: with CUDA ${CMAKE_CUDA_COMPILER_VERSION} (${CMAKE_CUDA_COMPILER})")
  # No fused or approximate arithmetic: the GPU's results are bitwise identical to the CPU's.
  set_source_files_properties(${TPPLAN_CUDA_SOURCES} PROPERTIES COMPILE_OPTIONS "-fmad=false;$<$<BOOL:${TPPLAN_DEV}>:-Werror=all-warnings>")
elseif(TPPLAN_CUDA STREQUAL "ON")
  message(FATAL_ERROR "TPPLAN_CUDA is ON and nvcc is not found: install the CUDA toolkit, or name nvcc in CMAKE_CUDA_COMPILER")
else()
  message(STATUS "tpplan-exec: without CUDA")
endif()
