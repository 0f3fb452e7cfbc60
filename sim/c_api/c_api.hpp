// SPDX-License-Identifier: MIT
// Shared by the functions of bitmma.h: the types behind handles, the only place that catches exceptions, and checks.
//
//   bitmma_status bitmma_state_erase(bitmma_state* state, const char* field) {
//     return guarded([&] { given(state, "state").value.erase(field_named(field)); });
//   }
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "../core/ieee_environment.hpp"
#include "bitmma.h"
#include "bitmma/core/error.hpp"
#include "bitmma/core/target.hpp"
#include "bitmma/formats/codes.hpp"
#include "bitmma/gemm/plan.hpp"
#include "bitmma/instruction/batch.hpp"
#include "bitmma/instruction/instruction.hpp"
#include "bitmma/instruction/state.hpp"

/// Keeps the last instruction that bitmma_mma found legal, without and with C, for the next call.
struct bitmma_instruction {
  bitmma::Instruction value;
  mutable std::mutex mutex = {};  // guards `prepared`: not every library has std::atomic<std::shared_ptr>
  mutable std::array<std::shared_ptr<const bitmma::PreparedMma>, 2> prepared = {};

  /// No other thread may use an instruction while it changes.
  void change(const bitmma::Instruction& to) {
    value = to;
    prepared = {};
  }
};
struct bitmma_state {
  bitmma::State value;
};
struct bitmma_plan {
  bitmma::GemmPlan value;
};
struct bitmma_plans {
  std::vector<bitmma_plan> values;
};

namespace bitmma::c_api {

/// Records the current exception as the last error of this thread.
bitmma_status record_failure() noexcept;

/// Runs `body` inside an IeeeEnvironment. An exception becomes the last error.
template <typename Body>
bitmma_status guarded(const Body& body) noexcept {
  try {
    in_ieee_environment(body);
    return BITMMA_OK;
  } catch (...) {
    return record_failure();
  }
}

[[noreturn]] void refuse_null(std::string_view name);

/// The object that an argument points to. For NULL, throws Error that names the argument.
template <typename T>
T& pointee(T* argument, std::string_view name) {
  if (!argument) refuse_null(name);
  return *argument;
}
std::string_view text_given(const char* argument, std::string_view name);

/// Convert to a value of the library. Throw Error if there is none.
Format format_of(bitmma_format format, std::string_view name);
Target target_of(const char* target, Target usual);
int threads_of(int threads);

constexpr bitmma_format c_format(Format format) { return static_cast<bitmma_format>(format); }

/// A product of two sizes. If it does not fit 64 bits, throws Error that names the size.
int64_t size_product(int64_t x, int64_t y, std::string_view name);

/// rows x cols codes in the caller's memory: if both strides are 0, the codes have no gaps. Throws Error if a distance
/// does not fit 64 bits.
CodeView code_view(const void* data, int64_t row_stride, int64_t col_stride, int64_t rows, int64_t cols, Format format,
                   std::string_view name);

/// The number of rows or columns.
int extent_of(int64_t extent, std::string_view name);
/// A matrix with a shape. For NULL and for illegal extents, throws Error that names the matrix.
Matrix matrix_given(const bitmma_matrix& from, std::string_view name);

/// Copies text into the caller's memory, as bitmma.h describes.
void write_text(std::string_view from, char* text, size_t size, size_t* length);

}  // namespace bitmma::c_api
