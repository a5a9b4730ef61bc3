include(${CMAKE_CURRENT_LIST_DIR}/at_once.cmake)

# tilec_library(NAME SOURCES … [DEPS …] [PRIVATE_DEPS …]): a static library with the house's flags.
function(tilec_flags target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wno-missing-field-initializers
    -Wno-restrict -Wno-maybe-uninitialized)  # false positives of g++ 12
  if(TILEC_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  # The emulator and the interpreter promise bit-exact arithmetic: no silent contraction to FMA.
  target_compile_options(${target} PRIVATE -ffp-contract=off)
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR} PRIVATE ${PROJECT_BINARY_DIR})
  tilec_ahead(${target} ${ARGN})
endfunction()

function(tilec_library name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(tilec_${name} STATIC ${A_SOURCES})
  tilec_flags(tilec_${name})
  target_link_libraries(tilec_${name} PUBLIC ${A_DEPS} PRIVATE ${A_PRIVATE_DEPS})
  tilec_at_once(tilec_${name} ${A_SOURCES})
endfunction()

# tilec_together(OUT NAME SOURCES …): files of this folder as a few translation units, so that the
# headers they share are read once: eight tests take the compiler as long as two or three alone.
# They are included by their paths from the root: the same bytes in every checkout, for ccache.
# Their names share one scope then: helpers of two files have two names. An editor or a quick
# rebuild wants them apart: -DTILEC_TOGETHER=OFF.
option(TILEC_TOGETHER "compile test files of a folder together" ON)
function(tilec_together out name)
  list(LENGTH ARGN all)
  if(NOT TILEC_TOGETHER OR all LESS 2)
    set(${out} ${ARGN} PARENT_SCOPE)
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
      list(APPEND files ${file})
      set(text)
    endif()
  endforeach()
  set(${out} ${files} PARENT_SCOPE)
endfunction()

# tilec_test(NAME SOURCES … DEPS …): a GoogleTest program registered with CTest. SHARDS N: N entries,
# each with its share of the tests. APART: files that are compiled alone (they define macros).
function(tilec_test name)
  cmake_parse_arguments(A "" "SHARDS;LABEL" "SOURCES;APART;DEPS" ${ARGN})
  tilec_together(sources ${name} ${A_SOURCES})
  add_executable(${name} ${sources} ${A_APART})
  tilec_flags(${name} test)
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
