# Installs the library, then builds and runs a user's program against it three times, each with other flags than the library's.
function(must_run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed: ${ARGN}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
must_run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/prefix)
foreach(flags "-O2" "-march=native -O2" "-fsanitize=address -O1")
  string(MAKE_C_IDENTIFIER "build${flags}" folder)
  must_run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE_DIR} -B ${WORK_DIR}/${folder} -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix
           -DCMAKE_CXX_COMPILER=${CXX} -DUSER_FLAGS=${flags})
  must_run(${CMAKE_COMMAND} --build ${WORK_DIR}/${folder})
  must_run(${WORK_DIR}/${folder}/user)
endforeach()
must_run(${WORK_DIR}/prefix/bin/bitmma --version)
