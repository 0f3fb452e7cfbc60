// SPDX-License-Identifier: MIT
// Pictures of maps: to_text prints one for a terminal, to_svg as a table of coloured cells.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "bitmma/analysis/picture.hpp"
#include "bitmma/memory/map.hpp"

namespace bitmma {

/// The most lines, and elements across, that a picture shows. Nothing: a readable number for the map.
struct PictureSize {
  std::optional<int64_t> lines = {}, columns = {};
};

/// The picture of a map with its title and notes. The entries in `framed` get a frame and a note; if the first of them
/// would be outside, the picture starts further on. Throws Error for maps of more than 2^20 elements, for elements
/// below byte 0 and for a negative size.
Picture picture_of(const Map& map, std::span<const MapEntry> framed = {}, const PictureSize& size = {});

}  // namespace bitmma
