# Runs SCRIPT, with an ARGUMENT if there is one, with the bootstrapped PYTHON; a missing Triton is a failure that says what to do.
set(advice "Triton is not installed in .deps/venv; run scripts/bootstrap.sh --triton")
if(NOT EXISTS ${PYTHON})
  message(FATAL_ERROR "${advice}")
endif()
execute_process(COMMAND ${PYTHON} -c "from importlib.util import find_spec as f; assert f('triton') and f('numpy')"
  RESULT_VARIABLE missing ERROR_QUIET)
if(missing)
  message(FATAL_ERROR "${advice}")
endif()
execute_process(COMMAND ${PYTHON} -B ${SCRIPT} ${ARGUMENT} COMMAND_ERROR_IS_FATAL ANY)
