// How much a test computes of what could take hours: a number per build and run.
#pragma once

#include <cstdlib>
#include <string_view>

namespace bitmma::test {

/// What the sanitizers compute (they are ten to thirty times as slow), what each run of the tests does, and what a run
/// with BITMMA_TESTS=whole does: tools/test-daily.
template <class T>
T amount([[maybe_unused]] T sanitized, [[maybe_unused]] T usual, [[maybe_unused]] T whole) {
#ifdef BITMMA_SANITIZED
  return sanitized;
#else
  const char* setting = std::getenv("BITMMA_TESTS");
  return setting && std::string_view(setting) == "whole" ? whole : usual;
#endif
}

}  // namespace bitmma::test
