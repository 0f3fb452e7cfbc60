# What `bitmma exec` adds to the environment of a program: the auditor that finds our libraries, the hooks of compilers,
# and the programs `ptxas` and `nvcc` that stand in front of NVIDIA's.
add_library(bitmma_audit MODULE ${PROJECT_SOURCE_DIR}/tools/exec/hooks/audit.cpp)
add_library(bitmma_preload MODULE ${PROJECT_SOURCE_DIR}/tools/exec/hooks/compilers.cpp ${PROJECT_SOURCE_DIR}/sim/driver/link_ptx.cpp)
foreach(target bitmma_audit bitmma_preload)
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/cuda)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/sim)
  target_link_libraries(${target} PRIVATE bitmma_settings ${CMAKE_DL_LIBS})
  # No sanitizer's library is loaded before these.
  target_compile_options(${target} PRIVATE -O2 -foptimize-sibling-calls -fno-sanitize=all)
  target_link_options(${target} PRIVATE -fno-sanitize=all -static-libstdc++ -static-libgcc)
  install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/bitmma/cuda)
endforeach()
foreach(program nvcc ptxas)
  configure_file(${PROJECT_SOURCE_DIR}/tools/exec/hooks/${program} ${PROJECT_BINARY_DIR}/cuda/bin/${program} COPYONLY)
  install(PROGRAMS ${PROJECT_SOURCE_DIR}/tools/exec/hooks/${program} DESTINATION ${CMAKE_INSTALL_LIBDIR}/bitmma/cuda/bin)
endforeach()
