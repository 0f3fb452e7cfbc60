// SPDX-License-Identifier: MIT
#include "lz4.hpp"

#include <algorithm>
#include <cstddef>

namespace bitmma::driver {
namespace {

/// The length in four bits of the token, continued while bytes are 255. False at the end of the input.
bool read_length(std::span<const uint8_t> from, std::size_t& at, std::size_t& length) {
  if (length != 15) return true;
  for (uint8_t byte = 255; byte == 255; length += byte) {
    if (at == from.size()) return false;
    byte = from[at++];
  }
  return true;
}

}  // namespace

bool decompress_lz4(std::span<const uint8_t> from, std::span<uint8_t> to) {
  std::size_t at = 0, written = 0;
  while (at < from.size()) {
    const uint8_t token = from[at++];
    std::size_t literals = token >> 4;
    if (!read_length(from, at, literals) || literals > from.size() - at || literals > to.size() - written) return false;
    std::copy_n(from.begin() + std::ptrdiff_t(at), literals, to.begin() + std::ptrdiff_t(written));
    at += literals, written += literals;
    if (at == from.size()) return written == to.size();  // the last sequence has literals alone
    if (from.size() - at < 2) return false;
    const std::size_t distance = std::size_t(from[at]) + 256 * std::size_t(from[at + 1]);
    at += 2;
    std::size_t match = token & 15;
    if (!read_length(from, at, match)) return false;
    match += 4;
    if (distance == 0 || distance > written || match > to.size() - written) return false;
    for (; match > 0; --match, ++written) to[written] = to[written - distance];  // source and destination may overlap
  }
  return false;
}

}  // namespace bitmma::driver
