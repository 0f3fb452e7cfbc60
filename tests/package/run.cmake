# Installs the library, then builds and runs a user's program against it three times, each with other flags than the library's;
# then C programs with the shared library.
include(${CMAKE_CURRENT_LIST_DIR}/support.cmake)

file(REMOVE_RECURSE ${WORK_DIR})

# The C++ of docs/install.md as it stands there; a comment in it has what it prints.
file(READ ${SOURCE_DIR}/../../docs/install.md page)
string(REGEX MATCH "```cpp\n(.*)\n```\n\nThe library has" block "${page}")
set(program "${CMAKE_MATCH_1}")
if(program STREQUAL "")
  message(FATAL_ERROR "docs/install.md has no C++ program before \"The library has\"")
endif()
file(WRITE ${WORK_DIR}/page.cpp "${program}\n")
must_run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/prefix)
function(build_user flags)
  string(MAKE_C_IDENTIFIER "build_${flags}" folder)
  must_run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE_DIR} -B ${WORK_DIR}/${folder} -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix
           -DCMAKE_CXX_COMPILER=${CXX} -DUSER_FLAGS=${flags} -DPAGE_PROGRAM=${WORK_DIR}/page.cpp)
  must_run(${CMAKE_COMMAND} --build ${WORK_DIR}/${folder})
  must_run(${WORK_DIR}/${folder}/user)
  execute_process(COMMAND ${WORK_DIR}/${folder}/page OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
  string(STRIP "${printed}" printed)
  string(FIND "${program}" "// ${printed}\n" place)
  if(printed STREQUAL "" OR place LESS 0)
    message(FATAL_ERROR "The C++ program of docs/install.md prints \"${printed}\", which its comment does not say")
  endif()
endfunction()
foreach(flags "-O2" "-march=native -O2" "-fsanitize=address -O1")
  build_user("${flags}")
endforeach()
must_run(${WORK_DIR}/prefix/bin/bitmma --version)
file(GLOB_RECURSE driver ${WORK_DIR}/prefix/libcuda.so.1)
if(driver)
  must_run(${WORK_DIR}/prefix/bin/bitmma exec -- true)
endif()
# One component of what is installed; and one that is not there is refused by name.
must_run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE_DIR}/core_user -B ${WORK_DIR}/core_of_all -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix
         -DCMAKE_CXX_COMPILER=${CXX})
must_run(${CMAKE_COMMAND} --build ${WORK_DIR}/core_of_all)
must_run(${WORK_DIR}/core_of_all/core_user)
must_refuse_component(${WORK_DIR}/prefix no_such)

# Completions are what the installed program prints.
set(share ${WORK_DIR}/prefix/share)
foreach(row "bash-completion/completions/bitmma=completion bash" "zsh/site-functions/_bitmma=completion zsh"
            "fish/vendor_completions.d/bitmma.fish=completion fish")
  string(REGEX MATCH "^(.*)=(.*)$" row "${row}")
  set(path ${share}/${CMAKE_MATCH_1})
  separate_arguments(words UNIX_COMMAND "${CMAKE_MATCH_2}")
  execute_process(COMMAND ${WORK_DIR}/prefix/bin/bitmma ${words} OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
  file(READ ${path} installed)
  if(NOT installed STREQUAL printed OR installed STREQUAL "")
    message(FATAL_ERROR "${path} is not what bitmma ${CMAKE_MATCH_2} prints")
  endif()
endforeach()

if(HAS_SHARED)
  # The tree may be moved: nothing in it names where it was installed.
  file(RENAME ${WORK_DIR}/prefix ${WORK_DIR}/moved)
  file(GLOB_RECURSE config ${WORK_DIR}/moved/bitmma.pc)
  get_filename_component(libdir ${config} DIRECTORY)
  get_filename_component(libdir ${libdir} DIRECTORY)
  file(RELATIVE_PATH name ${WORK_DIR}/moved ${libdir})
  build_c_programs(${WORK_DIR}/moved ${name} ${WORK_DIR}/c LD_LIBRARY_PATH=${libdir})
endif()
