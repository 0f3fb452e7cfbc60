// SPDX-License-Identifier: MIT
#pragma once

#include "bitmma/analysis/explain.hpp"
#include "bitmma/analysis/report.hpp"

namespace bitmma {

/// The lines of print(explanation), with the tone of those about dropped bits and the recorded D; no tree.
Report describe_in_words(const Explanation& explanation);

}  // namespace bitmma
