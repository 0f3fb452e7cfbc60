// SPDX-License-Identifier: MIT
// Operands that a file of a recorded product can omit: lab/record_products.py and this file generate the same ones
// from a seed.
//
//   element i of a stream is word i mod 4 of the Philox4x32-10 block i / 4: counter (block, stream, 0), key seed
//   its value is (low half - high half) * 2^-14, a triangular distribution over (-4, 4), rounded to nearest even
//   s8: the top byte. f64: the whole signed word * 2^-29
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "bitmma/formats/matrix.hpp"

namespace bitmma {

/// The value of the key `generator` in files of recorded products.
inline constexpr std::string_view generator_name = "philox4x32-10/triangle";

/// Streams of one product.
enum class GeneratedStream : uint32_t { a, b, c, bias };

/// These rows of an operand with `cols` elements per row: (row, col) is element row * cols + col. `format` is f16,
/// bf16, tf32, f32, f64, s8 or an 8-bit or narrower format; tf32 returns whole f32 words.
Matrix generated_rows(Format format, std::span<const int64_t> rows, int cols, uint64_t seed, GeneratedStream stream);

}  // namespace bitmma
