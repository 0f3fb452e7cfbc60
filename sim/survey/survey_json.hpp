// SPDX-License-Identifier: MIT
// The JSON of surveys.
#pragma once

#include "../core/json_reader.hpp"
#include "bitmma/survey/survey.hpp"

namespace bitmma::survey {

/// More levels than any of these files needs.
inline constexpr int most_depth = 8;

/// How a process ended. Throws Error for an unknown text.
SurveyEnd end_of(const JsonReader& reader, const char* key);

}  // namespace bitmma::survey
