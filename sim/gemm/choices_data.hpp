// SPDX-License-Identifier: MIT
// The contents of data/choices/cublas_13.1.txt, cublas_13.1_by_k.txt, cublas_13.1_grid.txt and
// cublas_13.1_batched.txt.
#pragma once

namespace bitmma {

extern const char* const choices_text;
extern const char* const choices_by_k_text;
extern const char* const choices_grid_text;
extern const char* const choices_batched_text;

}  // namespace bitmma
