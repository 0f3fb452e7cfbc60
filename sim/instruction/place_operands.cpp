// SPDX-License-Identifier: MIT
#include "bitmma/instruction/place_operands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/memory/metadata.hpp"
#include "bitmma/memory/sparse_matrix.hpp"
#include "family.hpp"
#include "image_plan.hpp"

namespace bitmma {
namespace {

std::string shape_of(Format format, int rows, int cols) {
  return fmt::format("{} x {} {}", rows, cols, info(format).name);
}

void require_shape(family::InstructionChecker& check, std::string_view name, const Matrix& matrix, Format format,
                   int rows, int cols) {
  check.require(matrix.format() == format && matrix.rows() == rows && matrix.cols() == cols, name,
                shape_of(matrix.format(), matrix.rows(), matrix.cols()), shape_of(format, rows, cols));
}

/// Metadata can select only positions inside the chunk of the stored element.
void require_selection(family::InstructionChecker& check, const Mma& mma, std::span<const uint16_t> selected_k) {
  if (mma.products > 1) {
    check.require(std::ranges::equal(selected_k, family::positions_of_products(mma)), "selected_k", "other positions",
                  "matrices of four products");
    return;
  }
  const size_t stored_k = mma.sparse ? static_cast<size_t>(mma.stored_k()) : 0;
  const size_t entries = static_cast<size_t>(mma.m) * stored_k;
  if (selected_k.size() != entries) {
    check.refuse(
        "selected_k", fmt::format("{} entries", selected_k.size()),
        mma.sparse ? fmt::format("{}, one per stored element of A", entries) : "absent: the instruction is dense");
    return;
  }
  const SparsePattern& pattern = sparse_pattern(mma.a_container_bits, mma.sparsity_version);
  for (size_t i = 0; i < entries; ++i) {
    const int first = static_cast<int>(i % stored_k) / pattern.stored_per_chunk * pattern.chunk;
    if (selected_k[i] >= first && selected_k[i] < first + pattern.chunk) continue;
    check.refuse(fmt::format("selected_k[{}]", i), std::to_string(selected_k[i]),
                 fmt::format("{}..{}, the chunk of this element", first, first + pattern.chunk - 1));
    return;
  }
}

void require_operands(const Mma& mma, const Operands& operands) {
  family::InstructionChecker check("shapes of the instruction");
  require_shape(check, "a", operands.a, mma.a, mma.m, mma.stored_k());
  require_shape(check, "b", operands.b, mma.b, mma.k, mma.n);
  if (operands.c) require_shape(check, "c", *operands.c, mma.c, mma.m, mma.n);
  check.require(operands.scales.has_value() == (mma.scale_count > 0), "scales", operands.scales ? "given" : "(missing)",
                mma.scale_count > 0 ? "scales of A and B" : "absent: the instruction has no block scales");
  if (operands.scales && mma.scale_count > 0) {
    require_shape(check, "sfa", operands.scales->a, mma.scale_type, mma.m, mma.scale_count);
    require_shape(check, "sfb", operands.scales->b, mma.scale_type, mma.scale_count, mma.n);
  }
  require_selection(check, mma, operands.selected_k);
  check.require(!operands.swapped, "swapped", "true", "false: a and b must be named as in the instruction");
  check.throw_if_refused();
}

}  // namespace

namespace {

[[noreturn]] void refuse_layout(std::string_view text) {
  throw Error({.code = ViolationCode::malformed,
               .field = "layout",
               .seen = shortened(text),
               .expected = "k-major or mn-major (of A also m-major, of B n-major), a colon, then none, 32, 64, 128 or "
                           "128-atom32; then perhaps ,lbo= ,sbo= in "
                           "bytes and ,base= 0..7; then perhaps @ and a start in bytes. Bytes are multiples of 16",
               .fix = "for example k-major:128 or k-major:none,lbo=128,sbo=256@32"});
}

}  // namespace

OperandLayout parse_operand_layout(std::string_view text, std::optional<Role> operand) {
  const auto number = [&](std::string_view digits, int64_t unit, int64_t end) {
    int64_t value = 0;
    const auto [after, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc{} || after != digits.data() + digits.size() || value < 0 || value >= end ||
        value % unit != 0)
      refuse_layout(text);
    return value;
  };
  OperandLayout result;
  const size_t at = text.find('@');
  if (at != std::string_view::npos) result.start_bytes = number(text.substr(at + 1), 16, ImagePlan::window_bytes);
  std::string_view rest = text.substr(0, at);
  const auto next = [&](char end) {
    const size_t length = std::min(rest.find(end), rest.size());
    const std::string_view word = rest.substr(0, length);
    rest.remove_prefix(std::min(length + 1, rest.size()));
    return word;
  };
  std::string major(next(':'));  // "K-major" as PTX and CUTLASS write it
  std::ranges::transform(major, major.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const bool goes_on = !rest.empty();
  const std::optional<Swizzle> mode = swizzle_named(next(','));
  if (operand && major == (*operand == Role::a ? "n-major" : "m-major")) {
    throw Error({.field = "layout",
                 .seen = shortened(text),
                 .legal = {"k-major", *operand == Role::a ? "m-major" : "n-major"},
                 .fix = *operand == Role::a ? "A is M x K: N is an extent of B" : "B is K x N: M is an extent of A"});
  }
  const bool is_mn = major == "mn-major" || (operand && major == (*operand == Role::a ? "m-major" : "n-major"));
  if ((major != "k-major" && !is_mn) || !goes_on || !mode) refuse_layout(text);
  result.major = major == "k-major" ? Major::k : Major::mn;
  result.swizzle = *mode;
  while (!rest.empty()) {
    const std::string_view word = next(',');
    if (word.starts_with("lbo=")) result.leading_dim_byte_offset = number(word.substr(4), 16, ImagePlan::window_bytes);
    else if (word.starts_with("sbo="))
      result.stride_dim_byte_offset = number(word.substr(4), 16, ImagePlan::window_bytes);
    else if (word.starts_with("base=")) result.base_offset = static_cast<int>(number(word.substr(5), 1, 8));
    else refuse_layout(text);
  }
  return result;
}

Strides strides_of(const OperandLayout& layout, int element_bits, int rows, int cols) {
  Strides strides = minimal_strides(layout.major, info(layout.swizzle), element_bits, rows, cols, layout.padding_bytes);
  strides.leading_dim_byte_offset = layout.leading_dim_byte_offset.value_or(strides.leading_dim_byte_offset);
  strides.stride_dim_byte_offset = layout.stride_dim_byte_offset.value_or(strides.stride_dim_byte_offset);
  return strides;
}

Instruction with_majors(const Instruction& instruction, const OperandLayout& a, const OperandLayout& b) {
  return with_majors(instruction, a.major, b.major);
}

State place_operands(const Instruction& instruction, const Placement& placement, const Operands& operands,
                     RandomStream filler) {
  return family::dispatch(
      [&](const auto& alternative) -> State {
        if constexpr (requires { family::place(alternative, placement, operands, filler); }) {
          require_legal(instruction, default_target(instruction));
          require_operands(family::describe(alternative), operands);
          return family::place(alternative, placement, operands, filler);
        }
        throw Error({.code = ViolationCode::wrong_instruction,
                     .field = "instruction",
                     .seen = "a move",
                     .expected = "a matrix instruction"});
      },
      instruction);
}

Matrix logical_a(const Instruction& instruction, const Operands& operands) {
  const Mma mma = mma_of(instruction);
  family::InstructionChecker check("shapes of the instruction");
  require_shape(check, "a", operands.a, mma.a, mma.m, mma.stored_k());
  require_selection(check, mma, operands.selected_k);
  check.throw_if_refused();
  if (!mma.sparse) return operands.a;
  Matrix logical(mma.a, mma.m, mma.k);
  const int stored_k = mma.stored_k();
  for (int row = 0; row < mma.m; ++row) {
    for (int j = 0; j < stored_k; ++j) {
      logical(row,
              operands.selected_k[static_cast<size_t>(row) * static_cast<size_t>(stored_k) + static_cast<size_t>(j)]) =
          operands.a(row, j);
    }
  }
  return logical;
}

void compress_a(const Instruction& instruction, const Matrix& logical, Operands& operands) {
  const Mma mma = mma_of(instruction);
  family::InstructionChecker check("shapes of the instruction");
  require_shape(check, "a", logical, mma.a, mma.m, mma.a_cols());
  check.throw_if_refused();
  operands.selected_k.clear();
  if (!mma.sparse) {
    operands.a = logical;
    if (mma.products > 1) operands.selected_k = family::positions_of_products(mma);
    return;
  }
  const SparsePattern& pattern = sparse_pattern(mma.a_container_bits, mma.sparsity_version);
  CompressedMatrix compressed = compress(logical, pattern, SparseFill::lowest);
  operands.a = std::move(compressed.stored);
  const int chunks = mma.k / pattern.chunk;
  operands.selected_k =
      select(pattern, mma.m, mma.stored_k(), [&](int row, int chunk) {
        return compressed.nibbles[static_cast<size_t>(row) * static_cast<size_t>(chunks) + static_cast<size_t>(chunk)];
      }).k;
}

namespace family {

Matrix codes_of(Matrix containers, int container_bits) {
  const FormatInfo& format = info(containers.format());
  const int shift = container_shift(format.id, container_bits);
  const auto mask = static_cast<uint32_t>(low_mask(format.bits));
  for (uint32_t& word : containers.words()) word = word >> shift & mask;
  return containers;
}

Matrix containers_of(Matrix codes, int container_bits, RandomStream& filler) {
  const FormatInfo& format = info(codes.format());
  const int shift = container_shift(format.id, container_bits);
  const auto all = static_cast<uint32_t>(low_mask(container_bits)), used = static_cast<uint32_t>(low_mask(format.bits))
                                                                           << shift;
  for (uint32_t& word : codes.words()) word = word << shift | (filler.word() & all & ~used);
  return codes;
}

std::vector<uint16_t> positions_of_products(const Mma& mma) {
  std::vector<uint16_t> k;
  const int rows = mma.m / mma.products, depth = mma.k / mma.products;
  for (int row = 0; row < mma.m; ++row) {
    for (int j = 0; j < depth; ++j) k.push_back(static_cast<uint16_t>(row / rows * depth + j));
  }
  return k;
}

void set_bits(std::span<uint32_t> words, const RegisterPlace& place, int width_bits, uint32_t value) {
  uint32_t& word = words[static_cast<size_t>(place.thread)];
  const auto mask = static_cast<uint32_t>(low_mask(width_bits)) << place.bit;
  word = (word & ~mask) | (value << place.bit & mask);
}

std::vector<uint32_t> filled(int64_t count, RandomStream& filler) {
  std::vector<uint32_t> words(static_cast<size_t>(count));
  for (uint32_t& word : words) word = filler.word();
  return words;
}

}  // namespace family
}  // namespace bitmma
