# How this project is compiled when it is the one that is built: inside another one that one decides.
option(TPPLAN_DEV "Warnings as errors" OFF)
set(TPPLAN_SANITIZE "" CACHE STRING "Sanitizers for every target, such as address,undefined")

set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT DEFINED CMAKE_UNITY_BUILD)
  set(CMAKE_UNITY_BUILD ON)  # a plain cmake builds what the preset `release` builds
endif()
find_program(TPPLAN_CCACHE ccache)
if(TPPLAN_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TPPLAN_CCACHE})
endif()

# Collecting garbage takes g++ an eighth of its time: it may have a gigabyte first.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1000000>)
# Warnings and the check of format strings take a tenth of a build's time: who changes the code asks for them, as errors.
if(TPPLAN_DEV)
  add_compile_options(-Wall -Wextra -Wshadow -Wno-missing-field-initializers
    -Wno-restrict)  # false alarms of g++ 12 in std::string concatenation (GCC bug 105329)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Werror>)
else()
  add_compile_definitions(FMT_CONSTEVAL=)
endif()
if(TPPLAN_SANITIZE)
  add_compile_options(-fsanitize=${TPPLAN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all
    -Wno-maybe-uninitialized)  # false alarms: what the sanitizers insert hides from g++ what is set
  add_link_options(-fsanitize=${TPPLAN_SANITIZE})
endif()
