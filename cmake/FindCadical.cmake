# CaDiCaL in Debian: header and static library, no CMake configuration.
find_path(CADICAL_INCLUDE_DIR cadical.hpp)
find_library(CADICAL_LIBRARY cadical)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Cadical REQUIRED_VARS CADICAL_LIBRARY CADICAL_INCLUDE_DIR)
if(CADICAL_FOUND AND NOT TARGET Cadical::Cadical)
  add_library(Cadical::Cadical UNKNOWN IMPORTED)
  set_target_properties(Cadical::Cadical PROPERTIES IMPORTED_LOCATION "${CADICAL_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${CADICAL_INCLUDE_DIR}")
endif()
