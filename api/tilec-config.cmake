# find_package(tilec) gives the target tilec::tilec.
include(${CMAKE_CURRENT_LIST_DIR}/tilec-targets.cmake)
