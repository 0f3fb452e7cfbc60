// SPDX-License-Identifier: MIT
// data/sealed, built in: a program has no data folder. CMake makes the definition.
#pragma once

#include <span>

namespace bitmma {

struct SealedText {
  const char* target = nullptr;
  const char* text = nullptr;
};

extern const std::span<const SealedText> sealed_texts;

}  // namespace bitmma
