// SPDX-License-Identifier: MIT
// Sums of exact groups of 16 products of e2m1 (mxf4, mxf4nvf4). Operands become 16-bit numbers and scales a significand
// with an exponent; the hot loop (kernels/groups.hpp) does the rest.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "budget.hpp"
#include "group_operands.hpp"
#include "product.hpp"
#include "slow_path.hpp"
#include "whole_rows.hpp"

namespace bitmma {
namespace {

/// The value of a code of e2m1, in halves.
constexpr int16_t halves_of(uint32_t code) {
  static_assert(info(Format::e2m1).bits == 4 && info(Format::e2m1).bias == 1 && info(Format::e2m1).mantissa_bits == 1);
  const auto number = static_cast<int>(code & 7);
  const int magnitude = number < 4 ? number : number < 6 ? 2 * (number - 2) : 4 * (number - 4);  // 0 1 2 3 4 6 8 12
  return static_cast<int16_t>((code & 8) != 0 ? -magnitude : magnitude);
}

/// Values of an e2m1 matrix in halves, rows padded with zeros.
void take_halves(const Matrix& matrix, int stride, bool negate, kernels::Array<int16_t>& halves) {
  halves.resize(static_cast<size_t>(matrix.rows()) * stride);
  const int cols = matrix.cols();
  const uint32_t flip = negate ? 8 : 0;
  for (int row = 0; row < matrix.rows(); ++row) {
    int16_t* const to = halves.data() + static_cast<size_t>(row) * stride;
    const uint32_t* const codes = matrix.row(row).data();
    for (int col = 0; col < cols; ++col) to[col] = halves_of(codes[col] ^ flip);
    std::fill(to + cols, to + stride, int16_t{0});
  }
}

/// Combines two rows into words of 32 bits.
void take_pairs(const kernels::Array<int16_t>& rows, int count, int stride, kernels::Array<int32_t>& pairs) {
  pairs.resize(static_cast<size_t>(count / 2) * stride);
  for (int row = 0; row < count; row += 2) {
    const int16_t *const lower = rows.data() + static_cast<size_t>(row) * stride, *const upper = lower + stride;
    int32_t* const to = pairs.data() + static_cast<size_t>(row / 2) * stride;
    for (int col = 0; col < stride; ++col) to[col] = (lower[col] & 0xFFFF) | upper[col] * 0x10000;
  }
}

/// Marks the non-zero terms of each group, one bit each.
void find_nonzero_of_rows(const kernels::Array<int16_t>& halves, int rows, int groups, kernels::Array<int32_t>& masks) {
  masks.resize(static_cast<size_t>(rows) * groups);
  const int16_t* term = halves.data();
  for (int32_t& mask : masks) {
    mask = 0;
    for (int bit = 0; bit < group_size; ++bit) mask |= static_cast<int32_t>(*term++ != 0) << bit;
  }
}

void find_nonzero_of_cols(const kernels::Array<int16_t>& halves, int stride, int groups,
                          kernels::Array<int32_t>& masks) {
  masks.assign(static_cast<size_t>(groups) * stride, 0);
  for (int k = 0; k < groups * group_size; ++k) {
    const int16_t* const row = halves.data() + static_cast<size_t>(k) * stride;
    int32_t* const to = masks.data() + static_cast<size_t>(k / group_size) * stride;
    for (int col = 0; col < stride; ++col) to[col] |= static_cast<int32_t>(row[col] != 0) << k % group_size;
  }
}

/// Scales of every group: the scale of a chunk is repeated for each of its groups.
struct GroupScales {
  std::vector<kernels::Scale> a;                        // rows x groups
  kernels::Array<int32_t> b_significands, b_exponents;  // groups x stride
};

/// Returns true if any scale is NaN.
bool take_scales(const BlockScales& scales, int groups, int stride, GroupScales& taken) {
  const int rows = scales.a.rows(), cols = scales.b.cols(), chunks = scales.a.cols();
  const auto &of_a = scales_of(scales.a.format()), &of_b = scales_of(scales.b.format());
  taken.a.resize(static_cast<size_t>(rows) * groups);
  taken.b_significands.assign(static_cast<size_t>(groups) * stride, 0);
  taken.b_exponents.assign(static_cast<size_t>(groups) * stride, 0);
  bool any_nan = false;
  for (int g = 0; g < groups; ++g) {
    const int chunk = g * chunks / groups;
    for (int row = 0; row < rows; ++row) {
      const kernels::Scale& scale = of_a[scales.a(row, chunk)];
      taken.a[static_cast<size_t>(row) * groups + g] = scale;
      any_nan |= scale.nan;
    }
    const size_t first = static_cast<size_t>(g) * stride;
    for (int col = 0; col < cols; ++col) {
      const kernels::Scale& scale = of_b[scales.b(chunk, col)];
      taken.b_significands[first + col] = scale.significand, taken.b_exponents[first + col] = scale.exponent;
      any_nan |= scale.nan;
    }
  }
  return any_nan;
}

/// Buffers for sums of groups, one set per thread.
struct Workspace {
  kernels::Array<int16_t> a, b;
  kernels::Array<int32_t> b_pairs, a_nonzero, b_nonzero;
  GroupScales scales;
};

}  // namespace

const std::array<kernels::Scale, 256>& scales_of(Format format) {
  const auto table_of = [](Format of) {
    std::array<kernels::Scale, 256> table;
    for (uint32_t code = 0; code < table.size(); ++code) {
      const Decoded value = decode(of, code);
      table[code] = {
          .significand = static_cast<int32_t>(value.significand << (scale_fraction_bits - info(of).mantissa_bits)),
          .exponent = value.significand == 0 ? kernels::exponent_of_zero : value.exponent,
          .nan = value.number == NumberClass::nan};
    }
    return table;
  };
  static const std::array ue8m0 = table_of(Format::ue8m0), ue4m3 = table_of(Format::ue4m3),
                          ue5m3 = table_of(Format::ue5m3);
  switch (format) {
    case Format::ue8m0: return ue8m0;
    case Format::ue4m3: return ue4m3;
    case Format::ue5m3: return ue5m3;
    default: throw std::logic_error(fmt::format("{} is no format of block scales", info(format).name));
  }
}

const std::array<E2m1Pair, 256>& e2m1_pairs() {
  static constexpr std::array<E2m1Pair, 256> table = [] {
    std::array<E2m1Pair, 256> pairs;
    for (uint32_t both = 0; both < pairs.size(); ++both) {
      const int16_t first = halves_of(both & 15), second = halves_of(both >> 4);
      pairs[both] = {.halves = (first & 0xFFFF) | second * 0x10000, .nonzero = int{first != 0} | int{second != 0} << 1};
    }
    return pairs;
  }();
  return table;
}

Matrix grouped_product(const AccumulatorModel& model, const Operands& operands) {
  const int rows = operands.a.rows(), cols = operands.b.cols(), terms = operands.a.cols(), groups = terms / group_size,
            stride = kernels::round_up(cols, kernels::decoded_numbers);
  // Hypotheses take the slow path.
  if (model.group_terms != group_size || !groups_fit(model.fraction_bits, groups) ||
      kernels::loop_of(model) != kernels::LoopId::f32_toward_zero)
    return slow_product(model, operands);

  thread_local Workspace workspace;
  auto& [a, b, b_pairs, a_nonzero, b_nonzero, scales] = workspace;
  take_halves(operands.a, terms, operands.negate_a, a);
  take_halves(operands.b, stride, operands.negate_b, b);
  const bool dense = operands.selected_k.empty();
  find_nonzero_of_rows(a, dense ? rows : 0, groups, a_nonzero);
  find_nonzero_of_cols(b, stride, dense ? groups : 0, b_nonzero);
  take_pairs(b, dense ? terms : 0, stride, b_pairs);
  bool special = take_scales(*operands.scales, groups, stride, scales);
  Accumulator accumulator(model.output, rows, cols, operands.c, kernels::other_codes);
  special |=
      kernels::kernels().sum_groups({.a = a.data(),
                                     .b = b.data(),
                                     .b_pairs = b_pairs.data(),
                                     .b_stride = stride,
                                     .selected_k = dense ? nullptr : operands.selected_k.data(),
                                     .a_nonzero = a_nonzero.data(),
                                     .b_nonzero = b_nonzero.data(),
                                     .a_scales = scales.a.data(),
                                     .b_significands = scales.b_significands.data(),
                                     .b_exponents = scales.b_exponents.data(),
                                     .rows = rows,
                                     .cols = cols,
                                     .terms = terms,
                                     .c = accumulator.c(),
                                     .c_scale = operands.scale_input_d,
                                     .fraction_bits = model.fraction_bits,
                                     .floor_exponent = kernels::floor_of(model),
                                     .output = kernels::OutputConstants(info(model.output), model.output_fraction_bits),
                                     .d = accumulator.d(),
                                     .d_stride = accumulator.stride()});
  Matrix d = accumulator.take_d();
  if (special) replace_special_outputs(model, operands, d);
  return d;
}

}  // namespace bitmma
