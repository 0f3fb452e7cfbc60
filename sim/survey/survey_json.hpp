// SPDX-License-Identifier: MIT
// What the JSON of surveys and of sealed predictions has in common.
#pragma once

#include "../core/json_reader.hpp"
#include "bitmma/survey/survey.hpp"

namespace bitmma::survey {

/// More levels than any file of these has.
inline constexpr int most_depth = 8;

/// How a process ended. Throws Error for another text.
SurveyEnd end_of(const JsonReader& reader, const char* key);

}  // namespace bitmma::survey
