# The wheel's bill of materials (PEP 770, CycloneDX 1.6): the projects whose code is compiled into it, in the versions that
# CMake found.
set(bitmma_parts "")
foreach(row "Eigen3|eigen|MPL-2.0" "fmt|fmt|MIT" "nlohmann_json|nlohmann-json|MIT" "CLI11|cli11|BSD-3-Clause"
            "nanobind|nanobind|BSD-3-Clause")
  string(REPLACE "|" ";" row "${row}")
  list(GET row 0 package)
  list(GET row 1 name)
  list(GET row 2 license)
  set(version "${BITMMA_${package}_VERSION}")
  if(package STREQUAL nanobind)
    set(version "${nanobind_VERSION}")
  endif()
  if(version STREQUAL "")
    message(FATAL_ERROR "The bill of materials lacks the version of ${package}")
  endif()
  list(APPEND bitmma_parts "{\"type\": \"library\", \"name\": \"${name}\", \"version\": \"${version}\", \
\"licenses\": [{\"license\": {\"id\": \"${license}\"}}], \"purl\": \"pkg:generic/${name}@${version}\"}")
endforeach()
list(JOIN bitmma_parts ",\n    " bitmma_parts)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/bitmma.cdx.json "{
  \"bomFormat\": \"CycloneDX\",
  \"specVersion\": \"1.6\",
  \"version\": 1,
  \"metadata\": {\"component\": {\"type\": \"application\", \"name\": \"bitmma\", \"version\": \"${PROJECT_VERSION}\", \
\"licenses\": [{\"license\": {\"id\": \"MIT\"}}], \"purl\": \"pkg:pypi/bitmma@${PROJECT_VERSION}\"}},
  \"components\": [
    ${bitmma_parts}
  ]
}
")
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/bitmma.cdx.json DESTINATION ${SKBUILD_METADATA_DIR}/sboms COMPONENT python)
