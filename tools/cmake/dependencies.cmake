# The libraries that lib/ stands on, as targets: tpplan_fmt, tpplan_yaml, tpplan_re2, tpplan_sha. TPPLAN_STATIC_LINK says
# afterwards whether programs can be linked with -static; it is tried only where TPPLAN_STATIC asks for it.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(PkgConfig REQUIRED)

# RE2 since 2023 needs some ninety libraries of Abseil, in an order that its package knows. It is asked once:
# pkg_check_modules asks forty times, a second each.
if(NOT DEFINED TPPLAN_RE2_FLAGS)
  execute_process(COMMAND ${PKG_CONFIG_EXECUTABLE} --static --cflags --libs re2 OUTPUT_VARIABLE flags RESULT_VARIABLE failed
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(failed)
    message(FATAL_ERROR "RE2 is not found: install it with its pkg-config file (Debian and Ubuntu: libre2-dev)")
  endif()
  separate_arguments(flags UNIX_COMMAND "${flags}")
  list(REVERSE flags)  # of what is named twice the last counts: it stands behind all that needs it
  list(REMOVE_DUPLICATES flags)
  list(REVERSE flags)
  set(TPPLAN_RE2_FLAGS "${flags}" CACHE INTERNAL "What pkg-config says of RE2")
endif()
set(TPPLAN_RE2_COMPILE ${TPPLAN_RE2_FLAGS})
set(TPPLAN_RE2_LINK ${TPPLAN_RE2_FLAGS})
list(FILTER TPPLAN_RE2_COMPILE INCLUDE REGEX "^-[ID]")
list(FILTER TPPLAN_RE2_LINK EXCLUDE REGEX "^-[ID]")

# A static link is known to work when one has worked: some packages hold archives without those that they need.
set(TPPLAN_STATIC_LINK OFF)
if(TPPLAN_STATIC AND NOT TPPLAN_SANITIZE)
  find_library(TPPLAN_YAML_ARCHIVE libyaml-cpp.a)
  find_library(TPPLAN_SHA_ARCHIVE libcrypto.a)
  if(TPPLAN_YAML_ARCHIVE AND TPPLAN_SHA_ARCHIVE AND NOT DEFINED TPPLAN_LINKS_STATICALLY)
    try_compile(TPPLAN_LINKS_STATICALLY ${CMAKE_CURRENT_BINARY_DIR}/static_link SOURCES ${CMAKE_CURRENT_LIST_DIR}/static_link.cc
      COMPILE_DEFINITIONS ${TPPLAN_RE2_COMPILE} LINK_OPTIONS -static
      LINK_LIBRARIES ${TPPLAN_YAML_ARCHIVE} ${TPPLAN_SHA_ARCHIVE} ${TPPLAN_RE2_LINK} CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON)
  endif()
  if(TPPLAN_LINKS_STATICALLY)
    set(TPPLAN_STATIC_LINK ON)
  endif()
endif()

# fmt, through spdlog's header. lib/base/fmt_library.cc knows how these releases are compiled; others are headers alone,
# which costs half of the time that a build takes.
add_library(tpplan_fmt INTERFACE)
target_compile_definitions(tpplan_fmt INTERFACE SPDLOG_FMT_EXTERNAL)
if(fmt_VERSION VERSION_LESS 9 OR fmt_VERSION VERSION_GREATER_EQUAL 11)
  target_compile_definitions(tpplan_fmt INTERFACE FMT_HEADER_ONLY)
endif()

add_library(tpplan_re2 INTERFACE)
target_compile_options(tpplan_re2 INTERFACE ${TPPLAN_RE2_COMPILE})
target_link_libraries(tpplan_re2 INTERFACE ${TPPLAN_RE2_LINK})

set(yaml yaml-cpp)
if(TARGET yaml-cpp::yaml-cpp)
  set(yaml yaml-cpp::yaml-cpp)
endif()
add_library(tpplan_yaml INTERFACE)
add_library(tpplan_sha INTERFACE)
if(TPPLAN_STATIC_LINK)
  target_include_directories(tpplan_yaml SYSTEM INTERFACE $<TARGET_PROPERTY:${yaml},INTERFACE_INCLUDE_DIRECTORIES>)
  target_link_libraries(tpplan_yaml INTERFACE ${TPPLAN_YAML_ARCHIVE})
  target_include_directories(tpplan_sha SYSTEM INTERFACE ${OPENSSL_INCLUDE_DIR})
  target_link_libraries(tpplan_sha INTERFACE ${TPPLAN_SHA_ARCHIVE})
else()
  target_link_libraries(tpplan_yaml INTERFACE ${yaml})
  target_link_libraries(tpplan_sha INTERFACE OpenSSL::Crypto)
endif()
