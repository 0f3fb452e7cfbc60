# pip compiles on the machine of a user: what reads and prints takes -O2, which compiles a quarter faster; the loops over
# numbers keep -O3. They need no precompiled header, which is one of -O2.
if(NOT SKBUILD OR NOT CMAKE_BUILD_TYPE STREQUAL Release OR MSVC)
  return()
endif()
target_compile_options(bitmma_objects PRIVATE -O2)
file(GLOB_RECURSE bitmma_wheel_loops CONFIGURE_DEPENDS sim/arithmetic/*.cpp sim/formats/*.cpp sim/math/*.cpp)
list(APPEND bitmma_wheel_loops sim/instruction/execute.cpp sim/instruction/place_operands.cpp sim/instruction/state.cpp
            sim/memory/smem.cpp)
foreach(path ${bitmma_wheel_loops})
  set_property(SOURCE ${path} APPEND PROPERTY COMPILE_OPTIONS -O3)
  set_source_files_properties(${path} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endforeach()
