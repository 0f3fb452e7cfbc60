# BITMMA_SANITIZE: ON for AddressSanitizer and UndefinedBehaviorSanitizer, thread for ThreadSanitizer, undefined for
# UndefinedBehaviorSanitizer alone, which ends the program by an instruction: it needs no library, and the code stays fast.
# Without the checks of each pointer, which are the most: the processor finds null pointers.
if(NOT BITMMA_SANITIZE)
  return()
endif()
set(bitmma_sanitizers address,undefined)
if(BITMMA_SANITIZE STREQUAL thread)
  set(bitmma_sanitizers thread)
elseif(BITMMA_SANITIZE STREQUAL undefined)
  target_compile_options(bitmma_settings INTERFACE -fsanitize=undefined -fno-sanitize=vptr,null,alignment,object-size
                         -fsanitize-trap=undefined)
  return()
elseif(NOT BITMMA_SANITIZE STREQUAL ON)
  message(FATAL_ERROR "BITMMA_SANITIZE = ${BITMMA_SANITIZE}: it is OFF, ON for the address and undefined sanitizers, undefined or thread")
endif()
target_compile_options(bitmma_settings INTERFACE -fsanitize=${bitmma_sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer)
target_link_options(bitmma_settings INTERFACE -fsanitize=${bitmma_sanitizers})
# With sanitizers g++ 12 takes members of an empty std::optional for uninitialised ones.
target_compile_options(bitmma_settings INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
