# Writes the C++ file that says which commit is built, if it would change. Outside a checkout, or
# without git, there is none: the same sources give the same program.
#
#   cmake -DOUT=FILE -DSOURCE=FOLDER -P commit.cmake
set(commit "")
if(EXISTS ${SOURCE}/.git)
  execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --exclude=* --abbrev=7
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(commit "")
  endif()
endif()
set(text "// Written by tools/commit.cmake.\nnamespace tilec::tools {\n\nconst char* BuildCommit();\nconst char* BuildCommit() { return \"${commit}\"; }\n\n}  // namespace tilec::tools\n")
set(old "")
if(EXISTS ${OUT})
  file(READ ${OUT} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${OUT} "${text}")
endif()
