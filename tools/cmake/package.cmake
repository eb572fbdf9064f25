# Contents of packages (tools/scripts/package): the component `runtime`, with the licences of statically linked
# libraries. CPack writes the archive and the .deb; tools/python/write_wheel.py writes the wheel from the same install
# rules.

# One licence file per package, as in Debian and Ubuntu.
if(TPPLAN_STATIC_LINK)
  string(REGEX MATCH "^[0-9]+" compiler "${CMAKE_CXX_COMPILER_VERSION}")
  set(packages libcli11-dev libfmt-dev libspdlog-dev nlohmann-json3-dev libyaml-cpp-dev libre2-dev libssl-dev libc6-dev libstdc++-${compiler}-dev)
  if(TPPLAN_RE2_LINK MATCHES "absl")
    list(APPEND packages libabsl-dev)
  endif()
  foreach(package IN LISTS packages)
    get_filename_component(file /usr/share/doc/${package}/copyright REALPATH)
    if(EXISTS ${file})
      install(FILES ${file} DESTINATION ${CMAKE_INSTALL_DOCDIR}/licenses RENAME ${package} COMPONENT runtime)
    endif()
  endforeach()
  set(file ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES}/../../../EULA.txt)
  if(TPPLAN_CUDA_COMPILER AND EXISTS ${file})
    install(FILES ${file} DESTINATION ${CMAKE_INSTALL_DOCDIR}/licenses RENAME cuda COMPONENT runtime)
  endif()
endif()

string(TOLOWER "${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}" CPACK_SYSTEM_NAME)
set(CPACK_GENERATOR TGZ DEB)
set(CPACK_MONOLITHIC_INSTALL ON)
set(CPACK_INSTALL_CMAKE_PROJECTS "${CMAKE_BINARY_DIR};tpplan;runtime;/")
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/date_files.cmake)
set(CPACK_PACKAGE_NAME tpplan)
set(CPACK_PACKAGE_VENDOR tpplan)
set(CPACK_PACKAGE_CONTACT "The tpplan maintainers")
set(CPACK_PACKAGE_FILE_NAME tpplan-${PROJECT_VERSION}-${CPACK_SYSTEM_NAME})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "compiler and type checker for tensor-parallel plans")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Reads what a model is and how it is cut up, proves that the cut is legal and
that the sharded step computes what the unsharded one does, and writes a
sharding manifest. tpplan-exec puts weights where the manifest says.")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
include(CPack)
