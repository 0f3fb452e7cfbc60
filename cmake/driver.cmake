# libcuda.so.1 of component driver: what `bitmma exec` lets programs load in place of NVIDIA's driver.
# names.csv becomes a table and, for each symbol that no source defines, a weak function that refuses.
set(names ${PROJECT_SOURCE_DIR}/sim/driver/names.csv)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${names})
file(STRINGS ${names} rows REGEX "^cu")
set(functions "")
set(table "")
set(aliases "")
foreach(row ${rows})
  string(REGEX MATCH "^([^,]+),([^,]+),([^,]+),(.*)$" row "${row}")
  if("${CMAKE_MATCH_4}" STREQUAL "")
    string(APPEND functions "[[gnu::weak]] int ${CMAKE_MATCH_3}() { return bitmma_refuse_call(\"${CMAKE_MATCH_3}\"); }\n")
  else()
    string(APPEND functions "int ${CMAKE_MATCH_3}();\n")
    string(APPEND aliases "${CMAKE_MATCH_3} = ${CMAKE_MATCH_4};\n")
  endif()
  string(APPEND table "    {\"${CMAKE_MATCH_1}\", \"${CMAKE_MATCH_3}\", ${CMAKE_MATCH_2}, reinterpret_cast<void*>(&${CMAKE_MATCH_3})},\n")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/cuda_names.cpp @ONLY CONTENT
"// Made of sim/driver/names.csv.
#include <array>

#include \"${PROJECT_SOURCE_DIR}/sim/driver/names.hpp\"

extern \"C\" {
@functions@}

std::span<const bitmma::driver::ApiSymbol> bitmma::driver::api_symbols() {
  static const auto symbols = std::to_array<ApiSymbol>({
@table@  });
  return symbols;
}
")
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/cuda_aliases.ld @ONLY CONTENT "@aliases@")

add_library(bitmma_cuda SHARED $<TARGET_OBJECTS:bitmma_driver_objects> ${CMAKE_CURRENT_BINARY_DIR}/cuda_names.cpp)
set_target_properties(bitmma_cuda PROPERTIES OUTPUT_NAME cuda SOVERSION 1 LINKER_LANGUAGE CXX
                                             LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/cuda)
target_include_directories(bitmma_cuda PRIVATE ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(bitmma_cuda PRIVATE bitmma_settings ${CMAKE_CURRENT_BINARY_DIR}/cuda_aliases.ld)
foreach(used ${bitmma_driver_uses})
  target_link_libraries(bitmma_cuda PRIVATE bitmma_${used})
endforeach()
# A program may have a C++ library of its own, older than this one.
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_LINK_OPTIONS -static-libstdc++ -static-libgcc)
check_cxx_source_compiles("#include <string>\nint main(int, char** words) { return std::string(words[0]).empty(); }" BITMMA_HAS_STATIC_LIBSTDCXX)
unset(CMAKE_REQUIRED_LINK_OPTIONS)
if(BITMMA_HAS_STATIC_LIBSTDCXX AND NOT BITMMA_SANITIZE)
  target_link_options(bitmma_cuda PRIVATE -static-libstdc++ -static-libgcc)
endif()
if(NOT BITMMA_SANITIZE)
  target_link_options(bitmma_cuda PRIVATE LINKER:--no-undefined)
endif()
# Functions of its own run when the process ends, and a static runtime closes the library before.
target_link_options(bitmma_cuda PRIVATE LINKER:-z,nodelete)
target_link_options(bitmma_cuda PRIVATE LINKER:-Bsymbolic-functions LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/cuda.map)
set_target_properties(bitmma_cuda PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/cuda.map)
install(TARGETS bitmma_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/bitmma/cuda NAMELINK_SKIP)

include(cmake/runtime.cmake)
include(cmake/hooks.cmake)
