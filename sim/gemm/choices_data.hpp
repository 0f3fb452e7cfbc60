// SPDX-License-Identifier: MIT
// The contents of data/choices/cublas_13.1.txt.
#pragma once

namespace bitmma {

extern const char* const choices_text;

}  // namespace bitmma
