// SPDX-License-Identifier: MIT
// Pictures of maps: to_text makes them text for a terminal, to_svg tables of coloured cells.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "bitmma/analysis/picture.hpp"
#include "bitmma/memory/map.hpp"

namespace bitmma {

/// Lines and elements across that a picture has at most. Nothing: what is readable of such a map.
struct PictureSize {
  std::optional<int64_t> lines = {}, columns = {};
};

/// The picture of a map with its title and notes. The entries in `framed` are framed, each with a note; a picture that
/// would not show the first of them begins further on. Throws Error for maps of more than 2^20 elements, for elements
/// below byte 0 and for a negative size.
Picture picture_of(const Map& map, std::span<const MapEntry> framed = {}, const PictureSize& size = {});

}  // namespace bitmma
