# Compiler flags if this is the top-level project; otherwise the enclosing project sets them.
option(TPPLAN_DEV "Warnings as errors" OFF)
set(TPPLAN_SANITIZE "" CACHE STRING "Sanitizers for every target, such as address,undefined")

set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT DEFINED CMAKE_UNITY_BUILD)
  set(CMAKE_UNITY_BUILD ON)  # cmake without a preset builds like the preset `release`
endif()
find_program(TPPLAN_CCACHE ccache)
if(TPPLAN_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TPPLAN_CCACHE})
endif()

# A larger heap before the first garbage collection: collections take an eighth of g++'s time.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1000000>)
# Warnings and the check of format strings take a tenth of the build time, so only developers enable them (TPPLAN_DEV),
# as errors.
if(TPPLAN_DEV)
  add_compile_options(-Wall -Wextra -Wshadow -Wno-missing-field-initializers
    -Wno-restrict)  # false alarms of g++ 12 in std::string concatenation (GCC bug 105329)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Werror>)
else()
  add_compile_definitions(FMT_CONSTEVAL=)
endif()
if(TPPLAN_SANITIZE)
  add_compile_options(-fsanitize=${TPPLAN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all
    -Wno-maybe-uninitialized)  # false alarms: the instrumentation hides initializations from g++
  add_link_options(-fsanitize=${TPPLAN_SANITIZE})
endif()
