# Each private header alone: with no precompiled header, and none of its neighbours before it. (Sources are compiled without
# precompiled headers for 64-bit ARM.)
file(GLOB_RECURSE headers RELATIVE ${SOURCE_DIR} ${SOURCE_DIR}/sim/*.hpp ${SOURCE_DIR}/tools/bitmma/*.hpp)
file(REMOVE_RECURSE ${WORK_DIR})
set(units)
foreach(header ${headers})
  string(MAKE_C_IDENTIFIER ${header} name)
  file(WRITE ${WORK_DIR}/${name}.cpp "#include \"${SOURCE_DIR}/${header}\"\n")
  list(APPEND units ${WORK_DIR}/${name}.cpp)
endforeach()
string(REPLACE "|" ";" folders "${INCLUDES}")
list(REMOVE_ITEM folders /usr/include)  # named again it would come before the compiler's own
list(TRANSFORM folders PREPEND -isystem)
execute_process(COMMAND ${CXX} -std=c++20 -fsyntax-only -DFMT_HEADER_ONLY=1 -I${SOURCE_DIR}/include -I${SOURCE_DIR}/sim
                        ${folders} ${units}
                RESULT_VARIABLE result ERROR_VARIABLE errors)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "a file does not include what it needs:\n${errors}")
endif()
list(LENGTH units count)
message("${count} files compile alone")
