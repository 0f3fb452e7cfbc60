# Loops over numbers, which keep -O3 and take other flags than what reads and prints.
file(GLOB_RECURSE bitmma_loop_sources CONFIGURE_DEPENDS sim/arithmetic/*.cpp sim/formats/*.cpp sim/math/*.cpp)
foreach(path operators/c_function.cpp instruction/execute.cpp instruction/place_operands.cpp instruction/state.cpp memory/smem.cpp)
  list(APPEND bitmma_loop_sources ${PROJECT_SOURCE_DIR}/sim/${path})
endforeach()
# These parse untrusted text.
foreach(path evidence math_instruction place)
  list(REMOVE_ITEM bitmma_loop_sources ${PROJECT_SOURCE_DIR}/sim/math/${path}.cpp)
endforeach()
