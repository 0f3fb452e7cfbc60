# The shared library for C99 and what calls C: the objects of the static one, and only the functions of bitmma.h outside.
add_library(bitmma_shared SHARED ${bitmma_all_objects})
add_library(bitmma::shared ALIAS bitmma_shared)
set_target_properties(bitmma_shared PROPERTIES
  OUTPUT_NAME bitmma EXPORT_NAME shared LINKER_LANGUAGE CXX
  # While the major version is 0, a minor version may change the interface.
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_include_directories(bitmma_shared PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# A C program needs neither C++ nor threads to link it.
target_link_libraries(bitmma_shared PRIVATE $<BUILD_INTERFACE:bitmma_settings> Threads::Threads ${CMAKE_DL_LIBS})
if(UNIX AND NOT APPLE)
  # Calls inside the library go straight to their functions, not through a table that others could change.
  target_link_options(bitmma_shared PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/bitmma.map
                                            LINKER:-Bsymbolic-functions)
  set_target_properties(bitmma_shared PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/bitmma.map)
endif()
