// SPDX-License-Identifier: MIT
// Operands that a recorded product need not hold: tools/record_products.py and this file make the same ones from a
// seed.
//
//   element i of a stream is word i mod 4 of the Philox4x32-10 block i / 4: counter (block, stream, 0), key seed
//   its value is (low half - high half) * 2^-14, a triangle over (-4, 4), rounded to the type to nearest even
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

/// These rows of an operand with `cols` elements a row: (row, col) is element row * cols + col. `format` is f16, bf16,
/// tf32, f32, f64, s8 or one of 8 bits and less; tf32 gives whole f32 words.
Matrix generated_rows(Format format, std::span<const int64_t> rows, int cols, uint64_t seed, GeneratedStream stream);

}  // namespace bitmma
