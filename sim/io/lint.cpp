#include "bitmma/io/lint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "bitmma/core/error.hpp"

namespace bitmma {
namespace {

struct Operand {
  std::string_view name;
  SmemMatrix matrix;
  Format format;
};

/// The operands in shared memory.
std::vector<Operand> smem_operands(const VectorFile& vectors, int64_t index) {
  std::vector<Operand> operands;
  if (!vectors.has_images || vectors.move) return operands;
  if (vectors.is_tcgen05()) {
    const Tcgen05Case one = tcgen05_case_at(vectors, index);
    if (one.instruction.a_source == OperandSource::smem)
      operands.push_back({"A", a_matrix(one.instruction, one.state.registers), one.instruction.a});
    operands.push_back({"B", b_matrix(one.instruction, one.state.registers), one.instruction.b});
  } else if (vectors.instruction.family == Family::wgmma) {
    const VectorCase one = case_at(vectors, index);
    if (vectors.instruction.a_source == OperandSource::smem)
      operands.push_back({"A", a_matrix(vectors.instruction, one.registers.a_desc), vectors.instruction.a});
    operands.push_back({"B", b_matrix(vectors.instruction, one.registers.b_desc), vectors.instruction.b});
  }
  return operands;
}

std::set<int64_t> bytes_of(const Operand& operand) {
  const SmemMap map(operand.matrix);
  std::set<int64_t> bytes;
  const int width = std::max(1, operand.matrix.element_bits / 8);
  for (int row = 0; row < operand.matrix.rows; ++row) {
    for (int col = 0; col < operand.matrix.cols; ++col) {
      for (int i = 0; i < width; ++i) bytes.insert(map.place_of(row, col).byte + i);
    }
  }
  return bytes;
}

bool same_map(const SmemMatrix& x, const SmemMatrix& y) {
  const SmemMap a(x), b(y);
  for (int row = 0; row < x.rows; ++row) {
    for (int col = 0; col < x.cols; ++col) {
      if (!(a.place_of(row, col) == b.place_of(row, col))) return false;
    }
  }
  return true;
}

void lint_operand(std::vector<Violation>& found, const Operand& operand, const std::set<int64_t>& bytes,
                  int64_t image_bytes) {
  const SmemMatrix& matrix = operand.matrix;
  const int64_t expected = int64_t{matrix.rows} * matrix.cols * matrix.element_bits / 8;
  const auto used = static_cast<int64_t>(bytes.size());
  if (used < expected) {
    found.push_back({.field = fmt::format("{} bytes", operand.name),
                     .seen = fmt::format("{} for {} bytes of elements", used, expected),
                     .legal = "a byte of its own for every element",
                     .fix = "rows overlap: a stride is too small",
                     .source = "the map itself"});
  }
  if (!bytes.empty() && *bytes.rbegin() >= image_bytes) {
    const auto beyond = std::distance(bytes.lower_bound(image_bytes), bytes.end());
    found.push_back({.field = fmt::format("{} reads", operand.name),
                     .seen = fmt::format("{} bytes past the image of {}", beyond, image_bytes),
                     .legal = "inside the image",
                     .fix = "a stride or the start address is too large, or the image too small",
                     .source = "the map itself"});
  }
  const Strides strides = matrix.descriptor.strides;
  const Strides natural =
      minimal_strides(matrix.major, info(matrix.descriptor.swizzle), matrix.element_bits, matrix.rows, matrix.cols);
  for (const auto& [name, value, member] :
       {std::tuple("leading_dim_byte_offset", strides.leading_dim_byte_offset, &Strides::leading_dim_byte_offset),
        std::tuple("stride_dim_byte_offset", strides.stride_dim_byte_offset, &Strides::stride_dim_byte_offset)}) {
    SmemMatrix other = matrix;
    other.descriptor.strides.*member = value + 4096;
    if (value <= 16 || value == natural.*member || matrix.descriptor.leading_dim_absolute || !same_map(matrix, other))
      continue;
    found.push_back({.field = fmt::format("{} {}", operand.name, name),
                     .seen = std::to_string(value),
                     .legal = "anything: it changes nothing for this tile",
                     .fix = "the tile has one step in that direction, or the mode ignores the field",
                     .source = "the map itself"});
  }
}

void lint_numbers(std::vector<Violation>& found, const BitMatrix& matrix, std::string_view name) {
  if (info(matrix.format).kind != NumberKind::floating) return;
  int64_t nan = 0, infinite = 0;
  for (int row = 0; row < matrix.rows(); ++row) {
    for (int col = 0; col < matrix.cols(); ++col) {
      const NumberClass number = decode(matrix.format, matrix(row, col)).number;
      nan += number == NumberClass::nan, infinite += number == NumberClass::infinity;
    }
  }
  if (nan + infinite == 0) return;
  found.push_back({.field = fmt::format("{} values", name),
                   .seen = fmt::format("{} NaN, {} infinities", nan, infinite),
                   .legal = "finite numbers, ordinarily",
                   .fix = "uninitialised memory, or another type than the bits were written as",
                   .source = "the values read"});
}

void lint_scales(std::vector<Violation>& found, const BitMatrix& scales, std::string_view name) {
  const FormatInfo& format = info(scales.format);
  int64_t nan = 0, tiny = 0;
  for (int row = 0; row < scales.rows(); ++row) {
    for (int col = 0; col < scales.cols(); ++col) {
      const Decoded value = decode(format, scales(row, col));
      nan += value.number == NumberClass::nan;
      tiny += value.number == NumberClass::finite &&
              (format.has_zero ? value.significand < 1u << format.mantissa_bits : scales(row, col) == 0);
    }
  }
  const auto count = static_cast<int64_t>(scales.bits.size());
  if (nan > 0)
    found.push_back({.field = fmt::format("scales of {}", name),
                     .seen = fmt::format("{} of {} NaN", nan, count),
                     .legal = "numbers",
                     .fix = "every product of their blocks is NaN",
                     .source = "the values read"});
  if (tiny == count) {
    found.push_back({.field = fmt::format("scales of {}", name),
                     .seen = format.has_zero ? "all zero or subnormal" : "all 2^-127",
                     .legal = "numbers around 1, ordinarily",
                     .fix = "never written, or ue8m0 and ue4m3 confused",
                     .source = "the values read"});
  }
}

}  // namespace

std::vector<Violation> lint(const VectorFile& vectors, int64_t index) {
  std::vector<Violation> found;
  try {
    found = warnings_at(vectors, index);
  } catch (const Error& error) {
    found = error.violations();
  }
  if (vectors.move) return found;
  std::vector<Operand> operands;
  try {
    operands = smem_operands(vectors, index);
  } catch (const Error&) {
    return found;  // said above
  }
  const Tensor* smem = vectors.file.find("smem");
  const int64_t image_bytes = smem ? smem->shape.back() : 0;
  std::vector<std::set<int64_t>> bytes;
  for (const Operand& operand : operands) {
    bytes.push_back(bytes_of(operand));
    lint_operand(found, operand, bytes.back(), image_bytes);
  }
  if (bytes.size() == 2) {
    std::vector<int64_t> both;
    std::ranges::set_intersection(bytes[0], bytes[1], std::back_inserter(both));
    if (!both.empty()) {
      found.push_back({.field = "A and B",
                       .seen = fmt::format("{} bytes read as both, from byte {:#x}", both.size(), both.front()),
                       .legal = "separate tiles",
                       .fix = "a start address is wrong, or one tile is larger than thought",
                       .source = "the maps themselves"});
    }
  }
  try {
    Operands read;
    if (!vectors.has_images) {
      read = logical_operands(vectors, index);
    } else if (vectors.is_tcgen05()) {
      const Tcgen05Case one = tcgen05_case_at(vectors, index);
      read = gather_operands(one.instruction, one.view());
    } else {
      read = gather_operands(vectors.instruction, case_at(vectors, index).view());
    }
    lint_numbers(found, read.a, "A");
    lint_numbers(found, read.b, "B");
    if (read.c) lint_numbers(found, *read.c, "C");
    if (read.scales) lint_scales(found, read.scales->a, "A"), lint_scales(found, read.scales->b, "B");
  } catch (const Error& error) {
    for (const Violation& violation : error.violations()) {
      if (std::ranges::find(found, violation) == found.end()) found.push_back(violation);
    }
  }
  return found;
}

}  // namespace bitmma
