// SPDX-License-Identifier: MIT
// The guard and the mnemonic in the text of a PTX statement.
#pragma once

#include <algorithm>
#include <string_view>

namespace bitmma {

/// The statement behind "@p" or "@!p", without spaces in front.
inline std::string_view without_guard(std::string_view text) {
  constexpr std::string_view spaces = " \t\n\v\f\r";
  const auto skip_spaces = [&] { text.remove_prefix(std::min(text.find_first_not_of(spaces), text.size())); };
  skip_spaces();
  if (!text.starts_with('@')) return text;
  text.remove_prefix(std::min(text.find_first_of(spaces), text.size()));
  skip_spaces();
  return text;
}

/// The mnemonic of a statement without guard.
inline std::string_view mnemonic_in(std::string_view bare) {
  return bare.substr(0, bare.find_first_of(" \t\n\v\f\r{[,;"));
}

}  // namespace bitmma
