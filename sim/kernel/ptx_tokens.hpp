// SPDX-License-Identifier: MIT
// The tokens of PTX text, with their lines.
//
//   @%p1 ld.shared::cta.v2.f32 {%f1, %f2}, [%r1+8];
//   @  %p1  ld.shared::cta.v2.f32  {  %f1  ,  %f2  }  ,  [  %r1  +  8  ]  ;
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace bitmma::kernel {

struct Token {
  enum class Kind : uint8_t { word, number, text, mark, end };
  Kind kind = Kind::end;
  std::string_view spelling = {};  // for a string: without its quotes
  int line = 0;
};

/// The last token is `end`. Throws Error, with the line, for characters illegal in PTX and for unterminated text.
std::vector<Token> tokens_of(std::string_view text);

}  // namespace bitmma::kernel
