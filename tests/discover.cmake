# The entries of ctest for a program of tests, one for each of its files and tags: their cases run in one process. Runs when
# the program is linked.
#   cmake -DPROGRAM=path -DLABEL=core -DTAGS=long,daily -DWITHOUT=name|name -DEMULATOR=.. -DWORK_DIR=.. -DOUT=file.cmake
#         -P discover.cmake
string(REPLACE "," ";" tags "${TAGS}")
list(TRANSFORM tags REPLACE "(.+)" "~[\\1]" OUTPUT_VARIABLE without)
list(JOIN without "" untagged)
string(REPLACE "|" ";" names "${WITHOUT}")
list(TRANSFORM names REPLACE "(.+)" "~\"\\1*\"")
list(JOIN names "" excluded)
set(text "")
foreach(tag ${tags} none)
  if(tag STREQUAL none)
    set(spec "${untagged}${excluded}")
    set(label "${LABEL}")
    set(suffix "")
  else()
    set(spec "[${tag}]${excluded}")
    set(label "${LABEL}.${tag}")
    set(suffix " [${tag}]")
  endif()
  execute_process(COMMAND ${EMULATOR} ${PROGRAM} --filenames-as-tags --list-tags "${spec}" OUTPUT_VARIABLE listed ERROR_VARIABLE error)
  string(REGEX MATCHALL "\\[#[^]]+\\]" files "${listed}")
  if(tag STREQUAL none AND NOT files)
    message(FATAL_ERROR "${PROGRAM} lists no tests: ${listed}${error}")
  endif()
  foreach(file ${files})
    string(REGEX REPLACE "[][#]" "" name "${file}")
    string(APPEND text "add_test([=[${LABEL}: ${name}${suffix}]=] ${EMULATOR} [=[${PROGRAM}]=] --filenames-as-tags --order decl [=[${file}${spec}]=])\n"
                       "set_tests_properties([=[${LABEL}: ${name}${suffix}]=] PROPERTIES LABELS ${label} TIMEOUT 900 "
                       "SKIP_RETURN_CODE 77 FAIL_REGULAR_EXPRESSION \"No tests ran\" WORKING_DIRECTORY [=[${WORK_DIR}]=])\n")
  endforeach()
endforeach()
file(WRITE "${OUT}" "${text}")
