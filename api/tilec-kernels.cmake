# Kernels built at build time and linked into a target as a bundle.
#
#   tilec_add_kernels(app KERNELS gemm.tile:gemm BM=64,128 attention.tile:attention D=64,128
#                     [NAME kernels] [TARGETS h200 …] [TUNE model|tunes.toml] [SCHEDULE sequential]
#                     [RUNTIME tilec::tilec_rt_cuda] [PTXAS off] [DEPENDS prelude.tile …])
#
# KERNELS are the words of `tilec bundle`: a kernel, then its values, every combination of which is
# built. Files are relative to the current source folder; std/NAME.tile is the standard library's.
# The target can include NAME.h (functions KERNEL_launch, and NAME_open, which gives the bundle) and
# links RUNTIME, tilec::tilec_rt if nothing is said. Files that kernels import are named by DEPENDS,
# so that they are built again when those change.
function(tilec_add_kernels target)
  cmake_parse_arguments(A "" "NAME;TUNE;SCHEDULE;RUNTIME;PTXAS" "KERNELS;TARGETS;DEPENDS" ${ARGN})
  if(A_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tilec_add_kernels(${target}): there is no `${A_UNPARSED_ARGUMENTS}`; "
      "use KERNELS, NAME, TARGETS, TUNE, SCHEDULE, RUNTIME, PTXAS, DEPENDS")
  endif()
  if(NOT A_KERNELS)
    message(FATAL_ERROR "tilec_add_kernels(${target}): no KERNELS, such as gemm.tile:gemm")
  endif()
  if(NOT TARGET tilec::compiler)
    message(FATAL_ERROR "tilec_add_kernels(${target}): no `tilec` command beside the package; "
      "-DTILEC_COMMAND=FILE names one of this machine")
  endif()
  if(NOT A_NAME)
    set(A_NAME ${target}_kernels)
  endif()
  if(NOT A_RUNTIME)
    set(A_RUNTIME tilec::tilec_rt)
  endif()
  set(words)
  set(inputs)
  foreach(word IN LISTS A_KERNELS)
    if(word MATCHES "=" OR word MATCHES "^std/" OR IS_ABSOLUTE "${word}")
      list(APPEND words ${word})
    else()
      list(APPEND words ${CMAKE_CURRENT_SOURCE_DIR}/${word})
    endif()
    if(NOT word MATCHES "=" AND NOT word MATCHES "^std/")
      list(GET words -1 file)
      string(REGEX REPLACE ":[^:/]*$" "" file ${file})
      list(APPEND inputs ${file})
    endif()
  endforeach()
  foreach(file IN LISTS A_DEPENDS)
    get_filename_component(file ${file} ABSOLUTE)
    list(APPEND inputs ${file})
  endforeach()
  # A file of tunes that `tilec tune` wrote, relative to the current source folder.
  if(A_TUNE MATCHES "[./]" AND NOT A_TUNE MATCHES "^measure")
    get_filename_component(A_TUNE ${A_TUNE} ABSOLUTE)
    list(APPEND inputs ${A_TUNE})
  endif()
  set(options)
  if(A_TARGETS)
    string(REPLACE ";" "," targets "${A_TARGETS}")
    list(APPEND options --target=${targets})
  endif()
  foreach(option TUNE SCHEDULE PTXAS)
    if(A_${option})
      string(TOLOWER ${option} flag)
      list(APPEND options --${flag}=${A_${option}})
    endif()
  endforeach()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${A_NAME})
  file(MAKE_DIRECTORY ${folder})
  set(out ${folder}/${A_NAME})
  add_custom_command(OUTPUT ${out}.tilec ${out}.h ${out}.c
    COMMAND tilec::compiler bundle ${words} ${options} --name ${A_NAME}
      -o ${out}.tilec --header ${out}.h --c-source ${out}.c
    DEPENDS ${inputs} tilec::compiler
    COMMENT "tilec bundle ${A_NAME}" VERBATIM)
  set_source_files_properties(${out}.c PROPERTIES OBJECT_DEPENDS ${out}.tilec)
  target_sources(${target} PRIVATE ${out}.c ${out}.h)
  target_include_directories(${target} PRIVATE ${folder})
  target_link_libraries(${target} PRIVATE ${A_RUNTIME})
endfunction()
