// SPDX-License-Identifier: MIT
// The faults that a case can have, with the effect of each on the case's parts.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "evaluate.hpp"

namespace bitmma {

struct FaultRow {
  Fault fault = {};
  /// Changes the parts of the fault's stage. Returns false if the fault cannot occur in the case.
  std::function<bool(const Subject&, Parts&)> apply = {};
};

/// The catalogue of a case, in the order of likelihood.
std::vector<FaultRow> catalogue_of(const Subject& subject);

/// The row with this id; nullptr if there is none.
const FaultRow* find_fault(std::span<const FaultRow> rows, std::string_view id);

}  // namespace bitmma
