# pip compiles on the machine of a user. What reads and prints takes -O2, the loops over numbers keep -O3. Builds with tests
# have checked the format strings, and g++ collects garbage less often.
if(SKBUILD AND CMAKE_BUILD_TYPE STREQUAL Release AND NOT MSVC)
  target_compile_options(bitmma_objects PRIVATE -O2)
  target_compile_definitions(bitmma_settings INTERFACE FMT_CONSTEVAL=)
  target_compile_options(bitmma_settings INTERFACE $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=400000>)
endif()
