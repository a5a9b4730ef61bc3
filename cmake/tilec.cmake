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
endfunction()

function(tilec_library name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(tilec_${name} STATIC ${A_SOURCES})
  tilec_flags(tilec_${name})
  target_link_libraries(tilec_${name} PUBLIC ${A_DEPS} PRIVATE ${A_PRIVATE_DEPS})
endfunction()

# tilec_test(NAME SOURCES … DEPS …): a GoogleTest program registered with CTest.
function(tilec_test name)
  cmake_parse_arguments(A "" "SHARDS;LABEL" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  tilec_flags(${name})
  target_link_libraries(${name} PRIVATE ${A_DEPS} GTest::gtest GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE TILEC_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  # Long ones in shares that run beside each other.
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
