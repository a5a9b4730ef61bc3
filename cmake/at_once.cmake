# A build from nothing, once: what a clean checkout costs in CI. Each file of a library reads 70,000
# lines of headers, the standard library's above all, and instantiates what its neighbour does. Here
# several files of a library are one translation unit, and headers that nobody changes are compiled
# ahead: two thirds of the time (docs/testing.md). It is no build to work in: a change compiles its
# neighbours again, ccache finds nothing of it, and names of two files share one scope.
# scripts/check asks for it where nothing was ever compiled, and builds apart what fails together.
option(TILEC_AT_ONCE "files of a library together and headers ahead: a build from nothing" OFF)
# Libraries that stay apart: what is linked into small programs member by member, variants of one
# text for several processors, entries that another file declares by a table.
set(TILEC_APART "" CACHE STRING "libraries whose files are not compiled together, beside those listed")
set(tilec_apart_libraries backend_image conformance emulator_units runtime shim support)
set(tilec_apart_files)  # set below

if(TILEC_AT_ONCE)
  # Files of which tests/faults weaves copies: members of their own, which a copy replaces.
  file(STRINGS ${PROJECT_SOURCE_DIR}/tests/faults/faults.def woven REGEX "\"[a-z]+/[a-z_/]*\\.cc\"")
  foreach(line IN LISTS woven)
    string(REGEX MATCH "\"([a-z]+/[a-z_/]*\\.cc)\"" match "${line}")
    list(APPEND tilec_apart_files ${CMAKE_MATCH_1})
  endforeach()
  list(REMOVE_DUPLICATES tilec_apart_files)
  # What g++ 12 says of strings once it no longer knows that a header is the system's, and of classes
  # of a header that keep what only their own file knows.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overflow>
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overread> $<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds>
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  # What LLVM's users and fmt's define, for all: headers that were compiled without would not do for
  # them. Where they do not for another reason, they are read as ever.
  add_compile_definitions(__STDC_CONSTANT_MACROS __STDC_FORMAT_MACROS __STDC_LIMIT_MACROS
    $<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-error=invalid-pch>)
  # For libraries, for programs, whose code goes to other places, and for tests by GoogleTest.
  set(nothing ${PROJECT_BINARY_DIR}/nothing.cc)  # a target has a source
  file(CONFIGURE OUTPUT ${nothing} CONTENT "int main() { return 0; }\n")
  add_library(tilec_headers OBJECT ${nothing})
  add_executable(tilec_program_headers ${nothing})
  set(ahead tilec_headers tilec_program_headers)
  if(TILEC_TESTS)
    add_executable(tilec_test_headers ${nothing})
    target_link_libraries(tilec_test_headers PRIVATE GTest::gtest)
    target_precompile_headers(tilec_test_headers PRIVATE <gtest/gtest.h>)
    list(APPEND ahead tilec_test_headers)
  endif()
  foreach(target IN LISTS ahead)
    target_link_libraries(${target} PRIVATE fmt::fmt)
    target_precompile_headers(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/ahead.h)
  endforeach()
endif()

# tilec_names(TYPES OTHERS WORDS FILE): what stands at the left edge of a file and has a name (types and
# constants; aliases and functions), and the words that could be one of the former.
function(tilec_names types others words file)
  file(READ ${file} text)
  set(name "[A-Za-z0-9_]+")
  string(REGEX MATCHALL "\n(class|struct|union|enum class|enum) ${name} " a "${text}")
  string(REGEX MATCHALL "\n[a-z][^]\n=({;[]*[ *&]k[A-Z][A-Za-z0-9]*" b "${text}")
  string(REGEX MATCHALL "\n(using|namespace) ${name} =" c "${text}")
  string(REGEX MATCHALL "\n[A-Za-z][^]\n=({;[]*[ *&]${name}\\(" d "${text}")
  set(a ${a} ${b})
  set(c ${c} ${d})
  list(TRANSFORM a REPLACE "^.*[ *&](${name}) ?$" "\\1")
  list(TRANSFORM c REPLACE "^.*[ *&](${name})( =|\\()$" "\\1")
  string(REGEX MATCHALL "${name}" w "${text}")
  list(FILTER w INCLUDE REGEX "^k?[A-Z]")
  list(REMOVE_DUPLICATES w)
  set(${types} ${a} PARENT_SCOPE)
  set(${others} ${c} PARENT_SCOPE)
  set(${words} ${w} PARENT_SCOPE)
endfunction()

# tilec_common(OUT A B): whether two lists have an element in common.
function(tilec_common out a b)
  set(${out} FALSE PARENT_SCOPE)
  foreach(element IN LISTS ${a})
    if(element IN_LIST ${b})
      set(${out} TRUE PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# tilec_at_once(TARGET SOURCES …): its files a dozen at a time: each with the first dozen that has
# room, defines none of its names, and uses none of its types' and constants' in another sense. A type
# of its own that a header of the folder has, too, keeps a file alone.
function(tilec_at_once target)
  string(REPLACE tilec_ "" name ${target})
  if(NOT TILEC_AT_ONCE OR name IN_LIST tilec_apart_libraries OR target IN_LIST TILEC_APART)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  file(GLOB_RECURSE headers ${CMAKE_CURRENT_SOURCE_DIR}/*.h)
  set(header_types)
  foreach(header IN LISTS headers)
    tilec_names(types others words ${header})
    list(APPEND header_types ${types})
  endforeach()
  set(groups)
  foreach(source IN LISTS ARGN)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    if("${folder}/${source}" IN_LIST tilec_apart_files OR options OR IS_ABSOLUTE ${source})
      continue()  # a file without a group is compiled alone
    endif()
    tilec_names(types others words ${CMAKE_CURRENT_SOURCE_DIR}/${source})
    tilec_common(in_header types header_types)
    if(in_header)
      continue()
    endif()
    set(joined)
    foreach(group IN LISTS groups)
      list(LENGTH files_${group} many)
      if(many LESS 12)
        tilec_common(a others others_${group})
        tilec_common(b types words_${group})
        tilec_common(c types_${group} words)
        if(NOT a AND NOT b AND NOT c)
          set(joined ${group})
          break()
        endif()
      endif()
    endforeach()
    if(NOT joined)
      list(LENGTH groups joined)
      math(EXPR joined "${joined} + 1")
      list(APPEND groups ${joined})
    endif()
    list(APPEND files_${joined} ${source})
    list(APPEND types_${joined} ${types})
    list(APPEND others_${joined} ${others})
    list(APPEND words_${joined} ${words})
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${joined})
  endforeach()
endfunction()

# tilec_ahead(TARGET [KIND]): reads cmake/ahead.h compiled; KIND is `test` of a test by GoogleTest. Not
# what is compiled as no other is.
function(tilec_ahead target)
  if(NOT TILEC_AT_ONCE OR target MATCHES "^tilec_emulator(_units)?$")
    return()
  endif()
  get_target_property(type ${target} TYPE)
  if(ARGN)
    target_precompile_headers(${target} REUSE_FROM tilec_${ARGN}_headers)
  elseif(type STREQUAL EXECUTABLE)
    target_precompile_headers(${target} REUSE_FROM tilec_program_headers)
  else()
    target_precompile_headers(${target} REUSE_FROM tilec_headers)
  endif()
endfunction()
