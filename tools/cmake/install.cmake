# What `cmake --install` puts where, by GNUInstallDirs: programs with manual pages and completions, the library that reads shards, plans, schemas and the problem matcher; and for
# find_package(tpplan) libraries, headers and targets. --component runtime or development takes one half; the Python package
# is installed by --component python alone, for the wheel (tools/scripts/package).
include(CMakePackageConfigHelpers)
set(TPPLAN_DATA ${CMAKE_INSTALL_DATADIR}/tpplan)
set(TPPLAN_PACKAGE ${CMAKE_INSTALL_LIBDIR}/cmake/tpplan)

install(TARGETS tpplan_core tpplan_compiler EXPORT tpplanTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(DIRECTORY lib/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tpplan COMPONENT development FILES_MATCHING PATTERN "*.h" PATTERN "*.def"
  REGEX "/lib/exec$" EXCLUDE  # the executor's, which is a program
  PATTERN explain EXCLUDE PATTERN templates EXCLUDE)
install(EXPORT tpplanTargets NAMESPACE tpplan:: DESTINATION ${TPPLAN_PACKAGE} COMPONENT development)
write_basic_package_version_file(tpplanConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES tools/cmake/tpplanConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/tpplanConfigVersion.cmake DESTINATION ${TPPLAN_PACKAGE} COMPONENT development)
install(FILES tools/cmake/libraries.cmake DESTINATION ${TPPLAN_PACKAGE} RENAME tpplanLibraries.cmake COMPONENT development)

install(DIRECTORY plans schemas DESTINATION ${TPPLAN_DATA} COMPONENT runtime)
install(FILES .github/actions/tpplan/problem-matcher.json DESTINATION ${TPPLAN_DATA} COMPONENT runtime)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
install(DIRECTORY tools/python/tpplan DESTINATION ${TPPLAN_DATA}/python COMPONENT python EXCLUDE_FROM_ALL
  FILES_MATCHING PATTERN "*.py" PATTERN __pycache__ EXCLUDE)
if(NOT TPPLAN_PROGRAMS)
  return()
endif()
install(TARGETS tpplan tpplan-exec EXPORT tpplanTargets RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
# The library that reads shards, with its header, for programs in C and for Python: by its name alone, and not by targets.
install(TARGETS tpplan_load LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
install(FILES lib/exec/load/tpplan_load.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT runtime)

# Programs write their own manual pages and completions.
function(tpplan_writes program file folder)  # tpplan_writes(PROGRAM FILE FOLDER ARGUMENTS...)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/shell/${file})
  add_custom_command(OUTPUT ${output} COMMAND ${program} ${ARGN} > ${output} DEPENDS ${program} VERBATIM)
  install(FILES ${output} DESTINATION ${folder} COMPONENT runtime)
  set_property(GLOBAL APPEND PROPERTY TPPLAN_WRITTEN ${output})
endfunction()
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/shell)
foreach(program tpplan tpplan-exec)
  tpplan_writes(${program} ${program}.1 ${CMAKE_INSTALL_MANDIR}/man1 man)
  tpplan_writes(${program} ${program} ${CMAKE_INSTALL_DATADIR}/bash-completion/completions completion bash)
  tpplan_writes(${program} _${program} ${CMAKE_INSTALL_DATADIR}/zsh/site-functions completion zsh)
  tpplan_writes(${program} ${program}.fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d completion fish)
endforeach()
get_property(TPPLAN_WRITTEN GLOBAL PROPERTY TPPLAN_WRITTEN)
add_custom_target(tpplan_shell_files ALL DEPENDS ${TPPLAN_WRITTEN})
include(${CMAKE_CURRENT_LIST_DIR}/package.cmake)
