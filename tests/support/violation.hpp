// What a refused request says.
#pragma once

#include <optional>

#include "bitmma/core/error.hpp"

namespace bitmma::test {

/// The first violation of the Error that `body` throws; nothing where it throws none.
template <typename Body>
std::optional<Violation> violation_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.violations().front();
  }
  return std::nullopt;
}

}  // namespace bitmma::test
