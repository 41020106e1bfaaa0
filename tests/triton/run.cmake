# Runs SCRIPT with the bootstrapped PYTHON.
if(NOT EXISTS ${PYTHON})
  message(FATAL_ERROR "There is no ${PYTHON}; run scripts/bootstrap.sh --triton")
endif()
execute_process(COMMAND ${PYTHON} -B ${SCRIPT} COMMAND_ERROR_IS_FATAL ANY)
