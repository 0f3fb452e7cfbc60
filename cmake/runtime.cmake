# libcudart.so.12 and libcudart.so.13 over libcuda.so.1: what `bitmma exec` lets programs load that were linked with
# nvcc -cudart shared. names.csv becomes the list of what each exports and, for each name that no source defines, a weak
# function that refuses.
set(names ${PROJECT_SOURCE_DIR}/tools/exec/runtime/names.csv)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${names})
file(STRINGS ${names} rows REGEX "^(cuda|__cuda)")
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/exec/runtime/*.cpp)
foreach(major 12 13)
  set(refusals "")
  set(aliases "")
  set(exports "")
  foreach(row ${rows})
    string(REGEX MATCH "^([^,]+),([^,]*),(.*)$" row "${row}")
    set(name ${CMAKE_MATCH_1})
    set(same_as "${CMAKE_MATCH_3}")
    if(NOT CMAKE_MATCH_2 STREQUAL "" AND NOT CMAKE_MATCH_2 EQUAL major)
      continue()
    endif()
    string(APPEND exports "    ${name};\n")
    if(same_as STREQUAL "")
      string(APPEND refusals "[[gnu::weak]] int ${name}() { return bitmma_refuse_call(\"${name}\"); }\n")
    else()
      list(APPEND aliases LINKER:--defsym=${name}=${same_as})
    endif()
  endforeach()
  set(made ${CMAKE_CURRENT_BINARY_DIR}/cudart_${major})
  file(CONFIGURE OUTPUT ${made}.cpp @ONLY CONTENT
"// Made of tools/exec/runtime/names.csv.
extern \"C\" {
int bitmma_refuse_call(const char* name);
@refusals@}
")
  file(CONFIGURE OUTPUT ${made}.map @ONLY CONTENT
"libcudart.so.@major@ {
  global:
@exports@  local: *;
};
")
  add_library(bitmma_cudart_${major} SHARED ${sources} ${made}.cpp)
  # Not SOVERSION: both would have the link libcudart.so.
  set_target_properties(bitmma_cudart_${major} PROPERTIES OUTPUT_NAME cudart SUFFIX .so.${major} NO_SONAME ON
                        LINKER_LANGUAGE CXX LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/cuda
                        BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN" LINK_DEPENDS ${made}.map)
  target_compile_definitions(bitmma_cudart_${major} PRIVATE BITMMA_CUDART_MAJOR=${major})
  target_include_directories(bitmma_cudart_${major} PRIVATE ${PROJECT_SOURCE_DIR}/sim)
  target_link_libraries(bitmma_cudart_${major} PRIVATE bitmma_settings bitmma_cuda)
  if(BITMMA_HAS_STATIC_LIBSTDCXX AND NOT BITMMA_SANITIZE)
    target_link_options(bitmma_cudart_${major} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
  target_link_options(bitmma_cudart_${major} PRIVATE ${aliases} LINKER:-soname=libcudart.so.${major}
                      LINKER:-Bsymbolic-functions LINKER:--version-script=${made}.map)
  install(TARGETS bitmma_cudart_${major} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/bitmma/cuda)
endforeach()
