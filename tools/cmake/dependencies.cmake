# The libraries that lib/ uses, as targets: those of libraries.cmake, and tpplan_fmt. If TPPLAN_STATIC is set,
# TPPLAN_STATIC_LINK gets the options of a static link of programs; it is empty if none works.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(PkgConfig REQUIRED)
include(${CMAKE_CURRENT_LIST_DIR}/libraries.cmake)
if(NOT TPPLAN_RE2_FLAGS)
  message(FATAL_ERROR "RE2 is not found: install it with its pkg-config file (Debian and Ubuntu: libre2-dev)")
endif()

# fmt, through spdlog's header. lib/base/fmt_library.cc compiles these releases; other releases are header-only, which
# doubles the build time.
add_library(tpplan_fmt INTERFACE)
target_compile_definitions(tpplan_fmt INTERFACE SPDLOG_FMT_EXTERNAL)
if(fmt_VERSION VERSION_LESS 9 OR fmt_VERSION VERSION_GREATER_EQUAL 11)
  target_compile_definitions(tpplan_fmt INTERFACE FMT_HEADER_ONLY)
endif()

# Links and runs a test program, because some packages have static libraries without their dependencies, and not every
# libc starts a static program. A position-independent static program finds stack frames by a table; otherwise the first
# exception sorts the records of all frames, which takes 18 ms. Packed relocations cost `check` 0.1 ms.
set(TPPLAN_STATIC_LINK)
if(TPPLAN_STATIC AND NOT TPPLAN_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  find_library(TPPLAN_YAML_ARCHIVE libyaml-cpp.a)
  find_library(TPPLAN_SHA_ARCHIVE libcrypto.a)
  if(TPPLAN_YAML_ARCHIVE AND TPPLAN_SHA_ARCHIVE AND NOT DEFINED TPPLAN_STATIC_OPTIONS)
    set(found)
    foreach(way "-static-pie;-Wl,-z,pack-relative-relocs" -static)
      unset(TPPLAN_LINK_RUNS CACHE)
      unset(TPPLAN_LINKS CACHE)
      try_run(TPPLAN_LINK_RUNS TPPLAN_LINKS ${CMAKE_CURRENT_BINARY_DIR}/static_link ${CMAKE_CURRENT_LIST_DIR}/static_link.cc
        COMPILE_DEFINITIONS ${TPPLAN_RE2_COMPILE} LINK_OPTIONS ${way}
        LINK_LIBRARIES ${TPPLAN_YAML_ARCHIVE} ${TPPLAN_SHA_ARCHIVE} ${TPPLAN_RE2_LINK} CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON)
      if(TPPLAN_LINKS AND TPPLAN_LINK_RUNS STREQUAL "0")
        set(found "${way}")
        break()
      endif()
    endforeach()
    set(TPPLAN_STATIC_OPTIONS "${found}" CACHE INTERNAL "Options of a static link; none where there is none")
  endif()
  if(TPPLAN_STATIC_OPTIONS)
    set(TPPLAN_STATIC_LINK "${TPPLAN_STATIC_OPTIONS}")
  endif()
endif()
if(TPPLAN_STATIC_LINK)
  get_target_property(TPPLAN_YAML tpplan::yaml INTERFACE_LINK_LIBRARIES)
  set_target_properties(tpplan::yaml PROPERTIES INTERFACE_LINK_LIBRARIES ${TPPLAN_YAML_ARCHIVE}
    INTERFACE_INCLUDE_DIRECTORIES $<TARGET_PROPERTY:${TPPLAN_YAML},INTERFACE_INCLUDE_DIRECTORIES>)
  set_target_properties(tpplan::sha PROPERTIES INTERFACE_LINK_LIBRARIES ${TPPLAN_SHA_ARCHIVE} INTERFACE_INCLUDE_DIRECTORIES "${OPENSSL_INCLUDE_DIR}")
endif()
