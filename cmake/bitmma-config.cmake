# find_package(bitmma 0.2 REQUIRED)                        bitmma::bitmma, static; bitmma::shared, where it was built
# find_package(bitmma 0.2 REQUIRED COMPONENTS shared)      fails where it was not
#
# C++ programs link either. C programs link bitmma::shared; for bitmma::bitmma their project enables CXX as well.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
include(${CMAKE_CURRENT_LIST_DIR}/bitmma-targets.cmake)
set(bitmma_static_FOUND TRUE)
set(bitmma_shared_FOUND FALSE)
if(TARGET bitmma::shared)
  set(bitmma_shared_FOUND TRUE)
endif()
foreach(component ${bitmma_FIND_COMPONENTS})
  if(bitmma_FIND_REQUIRED_${component} AND NOT bitmma_${component}_FOUND)
    set(bitmma_FOUND FALSE)
    set(bitmma_NOT_FOUND_MESSAGE "bitmma has no component ${component} here; its components are static and shared")
  endif()
endforeach()
