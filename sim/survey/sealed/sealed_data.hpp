// SPDX-License-Identifier: MIT
// The contents of data/sealed, compiled in: an installed program has no data folder. CMake generates the definition.
#pragma once

#include <span>

namespace bitmma {

struct SealedText {
  const char* target = nullptr;
  const char* text = nullptr;
};

extern const std::span<const SealedText> sealed_texts;

}  // namespace bitmma
