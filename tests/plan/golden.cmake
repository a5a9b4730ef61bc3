# One plan beside its golden:
# cmake -DTILEC=… -DCALL="FILE:KERNEL NAME=VALUE…" -DNAME=… -DGOLDEN=… -P golden.cmake
# ACCEPT=1 in the environment rewrites it.
separate_arguments(words UNIX_COMMAND "${CALL}")
execute_process(COMMAND ${TILEC} build ${words} --emit=plan --ptxas=off
  OUTPUT_VARIABLE plan ERROR_VARIABLE said RESULT_VARIABLE code)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "tilec build ${CALL} --emit=plan: ${said}")
endif()
if(DEFINED ENV{ACCEPT})
  file(WRITE ${GOLDEN} "${plan}")
endif()
file(READ ${GOLDEN} golden)
if(NOT plan STREQUAL golden)
  file(WRITE ${NAME}.plan "${plan}")
  message(FATAL_ERROR "the plan is not ${GOLDEN}: see ${NAME}.plan; ACCEPT=1 rewrites the golden")
endif()
