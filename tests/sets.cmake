# Which tests are built. The smaller sets are for builds in which all of them would take too long.
#   all
#   threads     what several threads do at once; for ThreadSanitizer
#   platform    what another processor could do differently: seeds, formats, arithmetic, layouts, files. Without GMP, which
#               cross compilers rarely have
set(BITMMA_TEST_SET all CACHE STRING "Tests to build: all, threads or platform")
set(BITMMA_TESTS_WITHOUT "" CACHE STRING "Beginnings of the names of tests that are left out, separated by |")
set(bitmma_support support/documents.cpp support/files.cpp support/instructions.cpp support/main.cpp support/messages.cpp
                   support/process.cpp support/published.cpp support/word_lists.cpp)
if(BITMMA_TEST_SET STREQUAL threads)
  set(bitmma_test_sources
      survey/find_rule_test.cpp support/mutants.cpp
      core/parallel_test.cpp
      files/compare_test.cpp files/file_test.cpp files/golden_test.cpp
      gemm/gemm_test.cpp oracle/slow_dot.cpp
      hardware/campaign_test.cpp
      instruction/batch_test.cpp
      threads_test.cpp
      cli/run.cpp)
elseif(BITMMA_TEST_SET STREQUAL platform)
  set(bitmma_test_sources
      arithmetic/accumulator_model_test.cpp arithmetic/exact_steps_test.cpp arithmetic/fma_test.cpp arithmetic/multiply_accumulate_test.cpp
      arithmetic/published_words_test.cpp arithmetic/vector_test.cpp
      core/bits_test.cpp core/random_test.cpp
      descriptor/instruction_descriptor_test.cpp descriptor/smem_descriptor_test.cpp
      files/compare_test.cpp files/file_test.cpp acts/product_file_test.cpp
      formats/codes_test.cpp formats/format_test.cpp formats/matrix_test.cpp formats/round_test.cpp
      gemm/chain_test.cpp gemm/f32_test.cpp
      instruction/batch_test.cpp
      math/math_instruction_test.cpp operators/c_function_test.cpp support/ptx_interpreter.cpp
      memory/fragment_test.cpp memory/mma_sync_fragments_test.cpp
      cli/golden_hash_test.cpp
      cli/run.cpp)
elseif(NOT BITMMA_TEST_SET STREQUAL all)
  message(FATAL_ERROR "BITMMA_TEST_SET = ${BITMMA_TEST_SET}: it is all, threads or platform")
endif()
