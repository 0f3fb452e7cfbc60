// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>

#include "bitmma/core/version.hpp"
#include "bitmma/formats/matrix.hpp"
#include "c_api.hpp"

// bitmma_format lists the formats in the order of the table.
static_assert(BITMMA_S1Z4M11 + 1 == bitmma::formats.size());
static_assert(BITMMA_F16 == bitmma::c_api::c_format(bitmma::Format::f16));
static_assert(BITMMA_BF16 == bitmma::c_api::c_format(bitmma::Format::bf16));
static_assert(BITMMA_TF32 == bitmma::c_api::c_format(bitmma::Format::tf32));
static_assert(BITMMA_F32 == bitmma::c_api::c_format(bitmma::Format::f32));
static_assert(BITMMA_F64 == bitmma::c_api::c_format(bitmma::Format::f64));
static_assert(BITMMA_E4M3 == bitmma::c_api::c_format(bitmma::Format::e4m3));
static_assert(BITMMA_E5M2 == bitmma::c_api::c_format(bitmma::Format::e5m2));
static_assert(BITMMA_E2M3 == bitmma::c_api::c_format(bitmma::Format::e2m3));
static_assert(BITMMA_E3M2 == bitmma::c_api::c_format(bitmma::Format::e3m2));
static_assert(BITMMA_E2M1 == bitmma::c_api::c_format(bitmma::Format::e2m1));
static_assert(BITMMA_UE8M0 == bitmma::c_api::c_format(bitmma::Format::ue8m0));
static_assert(BITMMA_UE4M3 == bitmma::c_api::c_format(bitmma::Format::ue4m3));
static_assert(BITMMA_S8 == bitmma::c_api::c_format(bitmma::Format::s8));
static_assert(BITMMA_U8 == bitmma::c_api::c_format(bitmma::Format::u8));
static_assert(BITMMA_S4 == bitmma::c_api::c_format(bitmma::Format::s4));
static_assert(BITMMA_U4 == bitmma::c_api::c_format(bitmma::Format::u4));
static_assert(BITMMA_B1 == bitmma::c_api::c_format(bitmma::Format::b1));
static_assert(BITMMA_S32 == bitmma::c_api::c_format(bitmma::Format::s32));
static_assert(BITMMA_U32 == bitmma::c_api::c_format(bitmma::Format::u32));
static_assert(BITMMA_UE5M3 == bitmma::c_api::c_format(bitmma::Format::ue5m3));
static_assert(BITMMA_S1Z4M11 == bitmma::c_api::c_format(bitmma::Format::s1z4m11));

using namespace bitmma;
using namespace bitmma::c_api;

namespace {

/// The longest row of a matrix here: the functions convert codes in pieces.
constexpr size_t piece_size = 1 << 16;

bool is_format(bitmma_format format) { return static_cast<size_t>(format) < formats.size(); }

/// Throws Error unless the arrays exist and have a size.
void require_arrays(size_t count, size_t bytes, const void* values, const void* codes) {
  if (count == 0) return;
  size_product(static_cast<int64_t>(std::min<uint64_t>(count, INT64_MAX)),
               static_cast<int64_t>(std::max<size_t>(bytes, 4)), "count");
  if (!values) refuse_null("values");
  if (!codes) refuse_null("codes");
}

}  // namespace

extern "C" {

const char* bitmma_version(void) {
  static const std::string number = version().substr(std::strlen("bitmma "));
  return number.c_str();
}

const char* bitmma_format_name(bitmma_format format) {
  return is_format(format) ? formats[static_cast<size_t>(format)].name.data() : nullptr;
}

bitmma_status bitmma_format_named(const char* name, bitmma_format* format) {
  return guarded([&] {
    bitmma_format& to = pointee(format, "format");
    const std::string_view text = text_given(name, "name");
    const std::optional<Format> known = format_named(text);
    if (!known) {
      throw Error({.code = ViolationCode::unknown_name,
                   .field = "name",
                   .seen = std::string(text),
                   .expected = "a format, as PTX spells it: f16, e4m3, .."});
    }
    to = c_format(*known);
  });
}

size_t bitmma_format_bytes(bitmma_format format) {
  return is_format(format) ? static_cast<size_t>(code_bytes(static_cast<Format>(format))) : 0;
}

bitmma_status bitmma_from_floats(bitmma_format format, size_t count, const float* values, void* codes) {
  return guarded([&] {
    const Format type = format_of(format, "format");
    const auto bytes = static_cast<size_t>(code_bytes(type));
    require_arrays(count, bytes, values, codes);
    const auto for_all = [&](const auto& body) {
      for (size_t first = 0; first < count; first += piece_size) {
        const size_t size = std::min(piece_size, count - first);
        body(first, from_floats(type, 1, static_cast<int>(size), {values + first, size}));
      }
    };
    // Finds values without a code before it writes anything.
    if (count > piece_size) for_all([](size_t, const Matrix&) {});
    for_all(
        [&](size_t first, const Matrix& piece) { write_codes(piece, static_cast<uint8_t*>(codes) + first * bytes); });
  });
}

bitmma_status bitmma_to_floats(bitmma_format format, size_t count, const void* codes, float* values) {
  return guarded([&] {
    const Format type = format_of(format, "format");
    const auto bytes = static_cast<size_t>(code_bytes(type));
    require_arrays(count, bytes, values, codes);
    for (size_t first = 0; first < count; first += piece_size) {
      const size_t size = std::min(piece_size, count - first);
      const CodeView view{static_cast<const uint8_t*>(codes) + first * bytes, 0, static_cast<int64_t>(bytes)};
      std::ranges::copy(to_floats(matrix_of(type, 1, static_cast<int>(size), view)), values + first);
    }
  });
}

}  // extern "C"
