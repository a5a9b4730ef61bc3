# TILEC_PYTHON: the Python that tests run; of the first on the path and the system's the one that has
# numpy, so that a Python of somebody's own does not hide what scripts/install_deps installed. Empty
# where there is none.
if(NOT TILEC_PYTHON)
  find_program(TILEC_FIRST_PYTHON NAMES python3)
  mark_as_advanced(TILEC_FIRST_PYTHON)
  set(chosen ${TILEC_FIRST_PYTHON})
  foreach(candidate ${TILEC_FIRST_PYTHON} /usr/bin/python3)
    if(EXISTS ${candidate})
      execute_process(COMMAND ${candidate} -c "import numpy" RESULT_VARIABLE status
        OUTPUT_QUIET ERROR_QUIET)
      if(status EQUAL 0)
        set(chosen ${candidate})
        break()
      endif()
    endif()
  endforeach()
  if(chosen)
    set(TILEC_PYTHON ${chosen} CACHE FILEPATH "the Python that tests run" FORCE)
  endif()
endif()
