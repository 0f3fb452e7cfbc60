# Neighbouring files include the same headers and instantiate the same templates. In groups this happens once, and a build from
# nothing takes a third less time. After a change a group compiles longer than a file, so developers of the library may prefer
# -DBITMMA_UNITY=OFF. Names in the unnamed namespaces of a group must differ.
option(BITMMA_UNITY "Compile the library in groups of files: faster from nothing, slower after a change" ON)
if(NOT BITMMA_UNITY)
  return()
endif()
set_target_properties(${bitmma_objects} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
# These two warn of what a neighbour has; builds without groups show a file's own. Linked last, so that they follow -Wshadow.
add_library(bitmma_unity_settings INTERFACE)
target_compile_options(bitmma_unity_settings INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage> -Wno-shadow)
foreach(objects ${bitmma_objects})
  target_link_libraries(${objects} PRIVATE bitmma_unity_settings)
endforeach()
# Files by themselves: the loops over numbers, which compile for several instruction sets and would keep their neighbours
# waiting. In a group, what the compiler inlines into them depends on the neighbours: loops over lanes lost a quarter of
# their speed.
set(alone kernel/executor.cpp kernel/float_loops.cpp kernel/lane_access.cpp kernel/ops_float.cpp kernel/ops_integer.cpp
          arithmetic/chain.cpp arithmetic/exact_steps.cpp arithmetic/fma_loops.cpp arithmetic/fused.cpp
          arithmetic/integers.cpp arithmetic/kernels/dispatch.cpp arithmetic/warp_product.cpp
          math/loops.cpp math/rounded_loops.cpp operators/c_function.cpp)
set(most_in_group 8)
foreach(name ${bitmma_built})
  list(APPEND unity_folders ${bitmma_${name}_folders})
endforeach()
foreach(folder ${unity_folders} instruction/mma_sync instruction/tcgen05 instruction/text instruction/tmem_move instruction/wgmma)
  file(GLOB_RECURSE paths RELATIVE ${PROJECT_SOURCE_DIR}/sim ${PROJECT_SOURCE_DIR}/sim/${folder}/*.cpp)
  if(folder STREQUAL instruction)  # those of its folders have groups of their own
    list(FILTER paths EXCLUDE REGEX "instruction/.*/")
  endif()
  list(REMOVE_ITEM paths ${alone})
  string(MAKE_C_IDENTIFIER ${folder} name)
  set(count 0)
  foreach(path ${paths})
    math(EXPR group "${count} / ${most_in_group}")
    math(EXPR count "${count} + 1")
    set_source_files_properties(sim/${path} PROPERTIES UNITY_GROUP ${name}_${group})
  endforeach()
endforeach()
