// SPDX-License-Identifier: MIT
// Converts between states and the arrays that a kernel's parameters point to. A slot of an array holds its rows one
// after the other; rows of images and of Tensor Memory may be shorter in the state than in the kernel.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "bitmma/core/error.hpp"
#include "bitmma/hardware/ptx_kernel.hpp"

namespace bitmma {
namespace {

/// The buffer's elements as bytes, in the byte order of this machine, which is also the GPU's.
std::span<const uint8_t> bytes_of(const State& state, Field field) {
  if (info(field).type == ElementType::u8) return state.bytes(field);
  const std::span<const uint32_t> words = state.words(field);
  return {reinterpret_cast<const uint8_t*>(words.data()), words.size_bytes()};
}

/// The number of rows along the last extent.
int64_t rows_of(const FieldRule& rule) {
  int64_t rows = 1;
  for (size_t axis = 0; axis + 1 < rule.extents.size(); ++axis) rows *= rule.extents[axis];
  return rows;
}

/// Bytes in a row of the state's buffer. Throws Error if the buffer does not fit the kernel's array.
int64_t state_row_bytes(const KernelSlot& slot, const State& state) {
  const FieldRule& rule = slot.rule;
  const bool free = rule.extents[rule.extents.size() - 1] == -1;
  const int64_t bytes = static_cast<int64_t>(bytes_of(state, rule.field).size()), rows = rows_of(rule);
  const int64_t row = bytes / rows;
  if (bytes % rows == 0 && (free ? row <= slot.row_bytes : row == slot.row_bytes)) return row;
  throw Error({.code = ViolationCode::wrong_shape,
               .field = std::string(info(rule.field).name),
               .seen = fmt::format("{} bytes", bytes),
               .expected = fmt::format("{}{} bytes", free ? "up to " : "", rows * slot.row_bytes),
               .fix = fmt::format("its extents are [{}]", fmt::join(rule.extents, ", "))});
}

void write(const KernelSlot& slot, const State& state, uint8_t* to) {
  const FieldRule& rule = slot.rule;
  const FieldInfo& field = info(rule.field);
  if (!state.has(rule.field)) {
    if (!rule.required) return;
    throw Error({.code = ViolationCode::missing_input,
                 .field = std::string(field.name),
                 .seen = "(missing)",
                 .expected = std::string(rule.meaning)});
  }
  if (field.is_number) {
    const uint64_t number = state.number(rule.field);
    std::memcpy(to, &number, static_cast<size_t>(bytes_of(field.type)));  // the low bytes
    return;
  }
  const std::span<const uint8_t> bytes = bytes_of(state, rule.field);
  const auto row = static_cast<size_t>(state_row_bytes(slot, state));
  for (int64_t i = 0; i < rows_of(rule); ++i) {
    const auto from = bytes.subspan(static_cast<size_t>(i) * row, row);
    std::ranges::copy(from, to + i * slot.row_bytes);
  }
}

/// Reads the slot's buffer, from its first byte on, into `result`. `before` tells how many columns the buffer had.
void read(const KernelSlot& slot, std::span<const uint8_t> from, const State& before, State& result) {
  const FieldRule& rule = slot.rule;
  std::vector<int64_t> extents(rule.extents.begin(), rule.extents.end());
  if (extents.back() == -1) extents.back() = state_row_bytes(slot, before) / 4;
  const auto row_words = static_cast<size_t>(extents.back()) * (rule.wide ? 2 : 1);
  std::vector<uint32_t> words(static_cast<size_t>(rows_of(rule)) * row_words);
  for (size_t row = 0; row * row_words < words.size(); ++row) {
    const auto bytes = from.subspan(row * static_cast<size_t>(slot.row_bytes), 4 * row_words);
    std::memcpy(words.data() + row * row_words, bytes.data(), bytes.size());
  }
  const Extents shape{std::span<const int64_t>(extents)};
  if (!rule.wide) {
    result.set(rule.field, std::move(words), shape);
    return;
  }
  std::vector<uint64_t> elements(words.size() / 2);
  std::memcpy(elements.data(), words.data(), 8 * elements.size());
  result.set(rule.field, elements, shape);
}

}  // namespace

std::vector<std::vector<uint8_t>> launch_inputs(const Kernel& kernel, std::span<const State> cases) {
  std::vector<std::vector<uint8_t>> inputs;
  for (const KernelParameter& parameter : kernel.inputs) {
    const auto stride = static_cast<size_t>(parameter.bytes_per_case);
    std::vector<uint8_t>& bytes = inputs.emplace_back(stride * cases.size());
    for (size_t i = 0; i < cases.size(); ++i) {
      uint8_t* to = bytes.data() + i * stride;
      for (const KernelSlot& slot : parameter.slots) write(slot, cases[i], to + slot.offset_bytes);
      for (const auto& [number, offset_bytes] : parameter.numbers)
        std::memcpy(to + offset_bytes, &number, sizeof number);
    }
  }
  return inputs;
}

std::vector<State> launch_results(const Kernel& kernel, std::span<const State> cases, std::span<const uint8_t> output) {
  const auto stride = static_cast<size_t>(kernel.output.bytes_per_case);
  if (output.size() != stride * cases.size()) {
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = kernel.output.name,
                 .seen = fmt::format("{} bytes", output.size()),
                 .expected = fmt::format("{} bytes", stride * cases.size())});
  }
  std::vector<State> results(cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    for (const KernelSlot& slot : kernel.output.slots)
      read(slot, output.subspan(i * stride + static_cast<size_t>(slot.offset_bytes)), cases[i], results[i]);
  }
  return results;
}

}  // namespace bitmma
