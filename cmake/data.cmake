# Data that is compiled in, since a library has no data folder. A file of data belongs to the component that reads it.
function(bitmma_data component source)
  set(paths "")
  foreach(row ${ARGN})
    string(REPLACE "=" ";" row ${row})
    list(GET row 0 name)
    list(GET row 1 path)
    set(BITMMA_${name} "")
    if(path)
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
      file(READ ${path} BITMMA_${name})
    endif()
  endforeach()
  get_filename_component(file ${source} NAME)
  configure_file(sim/${source}.cpp.in ${file}.cpp @ONLY)
  set(bitmma_${component}_data ${bitmma_${component}_data} ${CMAKE_CURRENT_BINARY_DIR}/${file}.cpp PARENT_SCOPE)
endfunction()

# The catalogue of plans, and the recorded choices of libraries: those of a grid of shapes and of batches are 7 MB, more than
# the rest of the program, and a page that is loaded from a server does without.
option(BITMMA_CHOICES_GRID "Build in the recorded choices of cuBLAS for a grid of shapes and for batches" ON)
set(grid "")
set(batched "")
if(BITMMA_CHOICES_GRID)
  foreach(table grid batched)
    set(archive ${CMAKE_CURRENT_SOURCE_DIR}/data/choices/cublas_13.1_${table}.tar.xz)
    set(${table} ${CMAKE_CURRENT_BINARY_DIR}/cublas_13.1_${table}.txt)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${archive})
    if(${archive} IS_NEWER_THAN ${${table}})
      file(ARCHIVE_EXTRACT INPUT ${archive} DESTINATION ${CMAKE_CURRENT_BINARY_DIR} TOUCH)
    endif()
  endforeach()
endif()
bitmma_data(products gemm/catalogue_data PLANS_JSON=data/plans/plans.json KERNELS_JSON=data/plans/kernels.json
            TYPES_JSON=data/plans/types.json)
bitmma_data(products gemm/choices_data CHOICES_TXT=data/choices/cublas_13.1.txt
            CHOICES_GRID_TXT=${grid} CHOICES_BATCHED_TXT=${batched} CHOICES_BY_K_TXT=data/choices/cublas_13.1_by_k.txt)
# The facts that surveys confirmed.
bitmma_data(core instruction/confirmed_data CONFIRMED_JSON=data/surveys/confirmed.json)
# The tables of what GPUs gave for functions of words: evidence is never stronger than they are.
bitmma_data(core math/measured_data MATH_H100_CSV=data/math/h100.csv MATH_H200_CSV=data/math/h200.csv
            MATH_COMPARED_CSV=data/math/compared.csv)
