# Rules for `cmake --install`, in the folders of GNUInstallDirs. The component `runtime` has programs, manual pages,
# completions, libtpplan_load, plans, schemas and the problem matcher. `development` has libraries, headers and targets
# for find_package(tpplan). The Python package is installed only by `--component python`, for the wheel
# (tools/scripts/package).
include(CMakePackageConfigHelpers)
set(TPPLAN_DATA ${CMAKE_INSTALL_DATADIR}/tpplan)
set(TPPLAN_PACKAGE ${CMAKE_INSTALL_LIBDIR}/cmake/tpplan)

install(TARGETS tpplan_core tpplan_compiler EXPORT tpplanTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(DIRECTORY lib/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tpplan COMPONENT development FILES_MATCHING PATTERN "*.h" PATTERN "*.def"
  REGEX "/lib/exec$" EXCLUDE  # only tpplan-exec uses these
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
# libtpplan_load with its header, for C programs and for Python. They find it by file name, so it has no CMake target.
install(TARGETS tpplan_load LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
install(FILES lib/exec/load/tpplan_load.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT runtime)

# The programs print their manual pages and completions.
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
