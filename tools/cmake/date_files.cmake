# CPack runs this: gives all files of a package the date SOURCE_DATE_EPOCH, whenever they were built.
if(NOT "$ENV{SOURCE_DATE_EPOCH}" STREQUAL "")
  file(GLOB_RECURSE files LIST_DIRECTORIES ON ${CPACK_TEMPORARY_DIRECTORY}/*)
  execute_process(COMMAND touch --no-dereference --date=@$ENV{SOURCE_DATE_EPOCH} ${files} COMMAND_ERROR_IS_FATAL ANY)
endif()
