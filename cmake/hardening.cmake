# What distributions build their packages with: parsers of files from anywhere gain most. The sanitizers see more.
option(BITMMA_HARDEN "Build with stack protector, checked copies of glibc and symbols that are bound at the start" ON)
if(NOT BITMMA_HARDEN OR BITMMA_SANITIZE MATCHES "ON|thread" OR NOT CMAKE_SYSTEM_NAME STREQUAL Linux)
  return()
endif()
# Compilers of some distributions define _FORTIFY_SOURCE themselves.
target_compile_options(bitmma_settings INTERFACE -fstack-protector-strong
                       "$<$<CONFIG:Release>:SHELL:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2>")
target_link_options(bitmma_settings INTERFACE LINKER:-z,relro LINKER:-z,now)
# Loops over numbers read no text, and their extents were checked before: canaries there cost up to a quarter of a
# product. Linked last, so that it follows the option above.
add_library(bitmma_loop_settings INTERFACE)
target_compile_options(bitmma_loop_settings INTERFACE -fno-stack-protector)
