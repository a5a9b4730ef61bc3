# tilec_flags(TARGET): warnings and promises that everything is compiled with.
function(tilec_flags target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wno-missing-field-initializers
    -Wno-restrict -Wno-maybe-uninitialized)  # false positives of g++ 12
  if(TILEC_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  # The emulator and the interpreter promise bit-exact arithmetic: no silent contraction to FMA.
  target_compile_options(${target} PRIVATE -ffp-contract=off)
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR} PRIVATE ${PROJECT_BINARY_DIR})
endfunction()

# tilec_together(OUT NAME SOURCES …): files of this folder as a few translation units, so that the
# headers they share are read once, and what they instantiate is compiled once: eight files take the
# compiler as long as two or three alone. They are included by their paths from the root: the same
# bytes in every checkout, for ccache. Their names share one scope then: what two files of a library
# have for themselves has two names (tests/names_test.cc). An absolute path is a generated file and
# is compiled alone. An editor or a quick rebuild wants all of them alone: -DTILEC_TOGETHER=OFF, as
# in the preset `dev`.
option(TILEC_TOGETHER "compile files of a library or a test program together" ON)
function(tilec_together out name)
  set(alone ${ARGN})
  list(FILTER alone INCLUDE REGEX "^/")
  list(FILTER ARGN EXCLUDE REGEX "^/")
  list(LENGTH ARGN all)
  if(NOT TILEC_TOGETHER OR all LESS 2)
    set(${out} ${ARGN} ${alone} PARENT_SCOPE)
    return()
  endif()
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  math(EXPR units "(${all} + 7) / 8")
  math(EXPR each "(${all} + ${units} - 1) / ${units}")
  set(files)
  set(text)
  set(count 0)
  foreach(source IN LISTS ARGN)
    string(APPEND text "#include \"${folder}/${source}\"\n")
    math(EXPR count "${count} + 1")
    math(EXPR rest "${count} % ${each}")
    if(rest EQUAL 0 OR count EQUAL all)
      set(file ${CMAKE_CURRENT_BINARY_DIR}/${name}_${count}.cc)
      file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
      # g++ takes what a unit includes for headers, which should have no anonymous namespaces.
      set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS -Wno-subobject-linkage)
      list(APPEND files ${file})
      set(text)
    endif()
  endforeach()
  set(${out} ${files} ${alone} PARENT_SCOPE)
endfunction()

# Files into which tests/faults weaves switches. Its copies take the place of an archive's members,
# so these are units apart from their library's others.
set(tilec_faults ${PROJECT_SOURCE_DIR}/tests/faults/faults.def)
file(STRINGS ${tilec_faults} tilec_woven REGEX "\"[a-z]+/[a-z_/]*\\.cc\"")
list(TRANSFORM tilec_woven REPLACE ".*\"([a-z]+/[a-z_/]*\\.cc)\".*" "\\1")
list(REMOVE_DUPLICATES tilec_woven)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${tilec_faults})

# tilec_library(NAME SOURCES … [APART …] [DEPS …] [PRIVATE_DEPS …]): a static library with the house's
# flags. APART: files that are compiled alone: they have options of their own, or define macros that
# others would see.
function(tilec_library name)
  cmake_parse_arguments(A "" "" "SOURCES;APART;DEPS;PRIVATE_DEPS" ${ARGN})
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  set(woven)
  foreach(file IN LISTS tilec_woven)
    string(REGEX REPLACE "^${folder}/" "" file ${file})
    if(file IN_LIST A_SOURCES)
      list(APPEND woven ${file})
    endif()
  endforeach()
  list(REMOVE_ITEM A_SOURCES ${woven} "")
  tilec_together(sources ${name} ${A_SOURCES})
  tilec_together(woven ${name}_woven ${woven})
  add_library(tilec_${name} STATIC ${sources} ${woven} ${A_APART})
  tilec_flags(tilec_${name})
  target_link_libraries(tilec_${name} PUBLIC ${A_DEPS} PRIVATE ${A_PRIVATE_DEPS})
endfunction()

# tilec_test(NAME SOURCES … DEPS …): a GoogleTest program registered with CTest. SHARDS N: N entries,
# each with its share of the tests. APART: files that are compiled alone (they define macros).
function(tilec_test name)
  cmake_parse_arguments(A "" "SHARDS;LABEL" "SOURCES;APART;DEPS" ${ARGN})
  tilec_together(sources ${name} ${A_SOURCES})
  add_executable(${name} ${sources} ${A_APART})
  tilec_flags(${name})
  target_link_libraries(${name} PRIVATE ${A_DEPS} GTest::gtest GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE TILEC_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(NOT A_SHARDS)
    set(A_SHARDS 1)
  endif()
  math(EXPR last "${A_SHARDS} - 1")
  foreach(shard RANGE ${last})
    set(test ${name})
    if(shard GREATER 0)
      set(test ${name}.${shard})
    endif()
    add_test(NAME ${test} COMMAND ${name})
    set_tests_properties(${test} PROPERTIES TIMEOUT 600)
    if(A_SHARDS GREATER 1)
      set_tests_properties(${test} PROPERTIES
        ENVIRONMENT "GTEST_TOTAL_SHARDS=${A_SHARDS};GTEST_SHARD_INDEX=${shard}")
    endif()
    if(A_LABEL)
      set_tests_properties(${test} PROPERTIES LABELS ${A_LABEL})
    endif()
  endforeach()
endfunction()
