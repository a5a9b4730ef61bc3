# find_package(tilec) gives
#   tilec::tilec      the compiler as a library, with the runtime in it
#   tilec::tilec_rt   the runtime: bundles, GPUs, the emulator; tilec::tilec_rt_cuda: without emulator
#   tilec::compiler   the `tilec` command, where it is installed
#   tilec_add_kernels(…)   kernels built ahead of time and linked in (tilec-kernels.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/tilec-targets.cmake)
if(NOT TARGET tilec::compiler)
  # The command of this package; for a package of another machine, one of this machine: TILEC_COMMAND.
  get_filename_component(tilec_prefix ${CMAKE_CURRENT_LIST_DIR} ABSOLUTE)
  foreach(step 1 2 3 4)  # lib/cmake/tilec, or lib/TRIPLET/cmake/tilec
    get_filename_component(tilec_prefix ${tilec_prefix} DIRECTORY)
    find_program(TILEC_COMMAND tilec PATHS ${tilec_prefix}/bin NO_DEFAULT_PATH)
  endforeach()
  unset(tilec_prefix)
  if(TILEC_COMMAND)
    add_executable(tilec::compiler IMPORTED)
    set_target_properties(tilec::compiler PROPERTIES IMPORTED_LOCATION ${TILEC_COMMAND})
  endif()
endif()
include(${CMAKE_CURRENT_LIST_DIR}/tilec-kernels.cmake)
