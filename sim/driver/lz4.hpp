// SPDX-License-Identifier: MIT
// The LZ4 block format, in which CUDA 12 and `nvcc --compress-mode=speed` store the entries of fat binaries.
// Source: the LZ4 project, doc/lz4_Block_format.md.
#pragma once

#include <cstdint>
#include <span>

namespace bitmma::driver {

/// Fills `to` with the decompressed bytes. False for bytes that are not a block of this size.
bool decompress_lz4(std::span<const uint8_t> from, std::span<uint8_t> to);

}  // namespace bitmma::driver
