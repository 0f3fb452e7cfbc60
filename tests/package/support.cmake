# Runs a command, which must end well.
function(must_run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "failed: ${command}")
  endif()
endfunction()

# find_package with a component that the installed library does not have ends with its name.
function(must_refuse_component prefix name)
  execute_process(COMMAND ${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE_DIR}/core_user -B ${WORK_DIR}/refused -DCMAKE_PREFIX_PATH=${prefix}
                          -DCMAKE_CXX_COMPILER=${CXX} -DCOMPONENT=${name}
                  RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE said)
  if(result EQUAL 0 OR NOT said MATCHES "no component ${name} here")
    message(FATAL_ERROR "component ${name} is not refused by name: ${said}")
  endif()
endfunction()

# C programs over an installed library below `prefix`: by find_package, and by pkg-config with both libraries.
# Says "NOT checked" where there is no pkg-config. `environment`: how programs find the shared library.
function(build_c_programs prefix libdir folder environment)
  must_run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE_DIR}/c_user -B ${folder}/by_cmake -DCMAKE_PREFIX_PATH=${prefix}
           -DCMAKE_C_COMPILER=${CC})
  must_run(${CMAKE_COMMAND} --build ${folder}/by_cmake)
  must_run(${CMAKE_COMMAND} -E env ${environment} ${folder}/by_cmake/c_user)

  find_program(PKG_CONFIG NAMES pkg-config pkgconf)
  if(NOT PKG_CONFIG)
    message("NOT checked: there is no pkg-config")
    return()
  endif()
  foreach(kind shared static)
    set(flags --cflags --libs bitmma)
    set(link "")
    if(kind STREQUAL static)
      list(PREPEND flags --static)
      set(link -static)
    endif()
    execute_process(COMMAND ${CMAKE_COMMAND} -E env PKG_CONFIG_LIBDIR=${prefix}/${libdir}/pkgconfig ${PKG_CONFIG} ${flags}
                    OUTPUT_VARIABLE found RESULT_VARIABLE result OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT result EQUAL 0 OR NOT found MATCHES "${prefix}")
      message(FATAL_ERROR "pkg-config ${flags} says '${found}', which does not lie in ${prefix}")
    endif()
    separate_arguments(found UNIX_COMMAND "${found}")
    must_run(${CC} -std=c99 -Wall -Wextra -Wpedantic -Werror ${SOURCE_DIR}/c_user/c_user.c -o ${folder}/by_pkg_config_${kind}
             ${link} ${found})
    must_run(${CMAKE_COMMAND} -E env ${environment} ${folder}/by_pkg_config_${kind})
  endforeach()
endfunction()
