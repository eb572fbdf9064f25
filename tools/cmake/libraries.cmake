# Dependencies of the libraries as targets: tpplan::yaml, tpplan::re2, tpplan::sha. Included by this build, and
# installed for find_package(tpplan). @pre yaml-cpp, OpenSSL and PkgConfig were found. Sets TPPLAN_RE2_FLAGS to NOTFOUND
# if RE2 is missing.
if(TARGET tpplan::re2)
  return()
endif()

# RE2 since 2023 needs about ninety libraries of Abseil, in the order of its pkg-config file. Calls pkg-config once:
# pkg_check_modules calls it forty times, one second each.
if(NOT TPPLAN_RE2_FLAGS)
  execute_process(COMMAND ${PKG_CONFIG_EXECUTABLE} --static --cflags --libs re2 OUTPUT_VARIABLE flags RESULT_VARIABLE failed
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(failed)
    set(TPPLAN_RE2_FLAGS NOTFOUND)
    return()
  endif()
  separate_arguments(flags UNIX_COMMAND "${flags}")
  list(REVERSE flags)  # keep the last of duplicates, which follows all libraries that need it
  list(REMOVE_DUPLICATES flags)
  list(REVERSE flags)
  set(TPPLAN_RE2_FLAGS "${flags}" CACHE INTERNAL "What pkg-config says of RE2")
endif()
set(TPPLAN_RE2_COMPILE ${TPPLAN_RE2_FLAGS})
set(TPPLAN_RE2_LINK ${TPPLAN_RE2_FLAGS})
list(FILTER TPPLAN_RE2_COMPILE INCLUDE REGEX "^-[ID]")
list(FILTER TPPLAN_RE2_LINK EXCLUDE REGEX "^-[ID]")
add_library(tpplan::re2 INTERFACE IMPORTED)
set_target_properties(tpplan::re2 PROPERTIES INTERFACE_COMPILE_OPTIONS "${TPPLAN_RE2_COMPILE}" INTERFACE_LINK_LIBRARIES "${TPPLAN_RE2_LINK}")

add_library(tpplan::yaml INTERFACE IMPORTED)
if(TARGET yaml-cpp::yaml-cpp)
  set_target_properties(tpplan::yaml PROPERTIES INTERFACE_LINK_LIBRARIES yaml-cpp::yaml-cpp)
else()  # before 0.8
  set_target_properties(tpplan::yaml PROPERTIES INTERFACE_LINK_LIBRARIES yaml-cpp)
endif()

add_library(tpplan::sha INTERFACE IMPORTED)
set_target_properties(tpplan::sha PROPERTIES INTERFACE_LINK_LIBRARIES OpenSSL::Crypto)
