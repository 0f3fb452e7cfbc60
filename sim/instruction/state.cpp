// SPDX-License-Identifier: MIT
#include "bitmma/instruction/state.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bitmma/core/bits.hpp"
#include "family.hpp"

namespace bitmma {
namespace {

std::string print(const Extents& extents) { return fmt::format("[{}]", fmt::join(extents, ", ")); }

/// The number of elements for these extents; -1 if it overflows or an extent is negative.
int64_t elements_of(const Extents& extents) {
  int64_t count = 1;
  for (const int64_t extent : extents) {
    if (extent < 0 || extent > (int64_t{1} << 40) || (extent > 0 && count > (int64_t{1} << 40) / extent)) return -1;
    count *= extent;
  }
  return count;
}

void require_array(Field field, bool of_bytes, size_t elements, const Extents& extents) {
  const FieldInfo& row = info(field);
  if (row.is_number || (row.type == ElementType::u8) != of_bytes) {
    throw Error({.code = ViolationCode::wrong_type,
                 .field = std::string(row.name),
                 .seen = of_bytes ? "bytes" : "words",
                 .expected = row.is_number ? "one number"
                             : of_bytes    ? "words"
                                           : "bytes"});
  }
  const int64_t count = elements_of(extents);
  const auto size = static_cast<int64_t>(elements);
  if (count >= 0 && size == count) return;
  throw Error({.code = ViolationCode::wrong_shape,
               .field = std::string(row.name),
               .seen = fmt::format("{} elements", elements),
               .expected = print(extents)});
}

bool fits(const FieldRule& rule, const Buffer& buffer) {
  const Extents& extents = buffer.extents();
  if (extents.size() != rule.extents.size() || buffer.is_wide() != rule.wide) return false;
  for (size_t i = 0; i < extents.size(); ++i) {
    if (rule.extents[i] == -1 ? extents[i] < 1 : extents[i] != rule.extents[i]) return false;
  }
  return true;
}

void check_buffer(const FieldRule& rule, bool required, const State& state, std::vector<Violation>& violations) {
  const auto buffer = std::ranges::find(state.buffers(), rule.field, &Buffer::field);
  if (buffer == state.buffers().end()) {
    if (!required) return;
    violations.push_back({.code = ViolationCode::missing_input,
                          .field = std::string(info(rule.field).name),
                          .seen = "(missing)",
                          .expected = std::string(rule.meaning)});
  } else if (!fits(rule, *buffer)) {
    violations.push_back({.code = ViolationCode::wrong_shape,
                          .field = std::string(info(rule.field).name),
                          .seen = print(buffer->extents()) + (buffer->is_wide() ? " of 64 bits" : ""),
                          .expected = print(rule.extents) + (rule.wide ? " of 64 bits" : ""),
                          .fix = std::ranges::count(rule.extents, -1) ? "-1 stands for any positive number" : ""});
  }
}

}  // namespace

bool Buffer::operator==(const Buffer& other) const {
  return field_ == other.field_ && extents_ == other.extents_ && number_ == other.number_ && wide_ == other.wide_ &&
         std::ranges::equal(bytes(), other.bytes()) && std::ranges::equal(words(), other.words());
}

void State::set(Field field, uint64_t number) {
  const FieldInfo& row = info(field);
  const uint64_t largest = low_mask(8 * bytes_of(row.type));
  if (!row.is_number || number > largest) {
    throw Error({.field = std::string(row.name),
                 .seen = std::to_string(number),
                 .expected = row.is_number ? fmt::format("0..{:#x}", largest) : "an array"});
  }
  find_or_add(field).number_ = number;
}

void State::set(Field field, std::vector<uint8_t> bytes, Extents extents) {
  require_array(field, true, bytes.size(), extents);
  Buffer& buffer = find_or_add(field);
  buffer.own_bytes_ = std::move(bytes), buffer.bytes_ = {}, buffer.extents_ = std::move(extents);
}

void State::set(Field field, std::vector<uint32_t> words, Extents extents) {
  require_array(field, false, words.size(), extents);
  Buffer& buffer = find_or_add(field);
  buffer.own_words_ = std::move(words), buffer.words_ = {}, buffer.extents_ = extents, buffer.wide_ = false;
}

void State::set(Field field, const std::vector<uint64_t>& elements, Extents extents) {
  require_array(field, false, elements.size(), extents);
  Buffer& buffer = find_or_add(field);
  buffer.own_words_.clear(), buffer.words_ = {}, buffer.extents_ = extents, buffer.wide_ = true;
  for (const uint64_t element : elements) {
    buffer.own_words_.push_back(static_cast<uint32_t>(element));
    buffer.own_words_.push_back(static_cast<uint32_t>(element >> 32));
  }
}

void State::borrow(Field field, std::span<const uint8_t> bytes, Extents extents) {
  require_array(field, true, bytes.size(), extents);
  Buffer& buffer = find_or_add(field);
  buffer.own_bytes_.clear(), buffer.bytes_ = bytes, buffer.extents_ = std::move(extents);
}

void State::borrow(Field field, std::span<const uint32_t> words, Extents extents, bool wide) {
  require_array(field, false, wide && words.size() % 2 == 0 ? words.size() / 2 : words.size(), extents);
  Buffer& buffer = find_or_add(field);
  buffer.own_words_.clear(), buffer.words_ = words, buffer.extents_ = extents, buffer.wide_ = wide;
}

void State::erase(Field field) {
  std::erase_if(buffers_, [&](const Buffer& buffer) { return buffer.field() == field; });
}

uint64_t State::number(Field field) const {
  if (const Buffer* buffer = find(field)) return buffer->number();
  throw Error({.code = ViolationCode::missing_input,
               .field = std::string(info(field).name),
               .seen = "(missing)",
               .expected = "a number of the state"});
}

std::span<const uint8_t> State::bytes(Field field) const {
  const Buffer* buffer = find(field);
  return buffer ? buffer->bytes() : std::span<const uint8_t>{};
}

std::span<const uint32_t> State::words(Field field) const {
  const Buffer* buffer = find(field);
  return buffer ? buffer->words() : std::span<const uint32_t>{};
}

int64_t State::extent(Field field, int axis) const {
  const Buffer* buffer = find(field);
  if (!buffer) return 0;
  const auto rank = static_cast<int>(buffer->extents().size());
  const int index = axis < 0 ? rank + axis : axis;
  return index >= 0 && index < rank ? buffer->extents()[static_cast<size_t>(index)] : 0;
}

std::span<uint32_t> State::writable_words(Field field) {
  if (!has(field)) {
    throw Error({.code = ViolationCode::missing_input,
                 .field = std::string(info(field).name),
                 .seen = "(missing)",
                 .expected = "a buffer to write to"});
  }
  if (info(field).is_number || info(field).type == ElementType::u8) {
    throw Error({.code = ViolationCode::wrong_type,
                 .field = std::string(info(field).name),
                 .seen = info(field).is_number ? "a number" : "bytes",
                 .expected = "a buffer of words",
                 .fix = "use set() to change it"});
  }
  Buffer& buffer = find_or_add(field);
  if (buffer.own_words_.empty()) buffer.own_words_.assign(buffer.words_.begin(), buffer.words_.end());
  return buffer.own_words_;
}

std::span<uint32_t> State::overwrite_words(Field field, const Extents& extents) {
  Buffer& buffer = find_or_add(field);
  buffer.words_ = {};
  buffer.wide_ = false;
  buffer.own_words_.resize(static_cast<size_t>(std::max<int64_t>(0, elements_of(extents))));
  buffer.extents_ = extents;
  return buffer.own_words_;
}

std::span<const uint8_t> State::image(int cta, int ctas) const {
  const std::span<const uint8_t> all = bytes(Field::smem);
  if (ctas == 1) return cta == 0 ? all : std::span<const uint8_t>{};
  const size_t half = all.size() / 2;
  return all.subspan(cta == 0 ? 0 : half, half);
}

bool State::operator==(const State& other) const {
  return buffers_.size() == other.buffers_.size() && std::ranges::all_of(buffers_, [&](const Buffer& buffer) {
           const Buffer* twin = other.find(buffer.field());
           return twin && *twin == buffer;
         });
}

const Buffer* State::find(Field field) const {
  const auto buffer = std::ranges::find(buffers_, field, &Buffer::field);
  return buffer == buffers_.end() ? nullptr : &*buffer;
}

Buffer& State::find_or_add(Field field) {
  const auto buffer = std::ranges::find(buffers_, field, &Buffer::field);
  return buffer == buffers_.end() ? buffers_.emplace_back(field) : *buffer;
}

FieldRules fields_of(const Instruction& instruction) {
  return family::dispatch([](const auto& alternative) { return family::fields(alternative); }, instruction);
}

std::vector<Violation> violations_of(const Instruction& instruction, const State& state) {
  // The sizes of buffers are defined only for a legal instruction.
  std::vector<Violation> violations = violations_of(instruction, default_target(instruction));
  if (!violations.empty()) return violations;
  return family::violations_of_read(instruction, fields_of(instruction), state);
}

std::vector<Violation> family::violations_of_read(const Instruction& instruction, const FieldRules& rules,
                                                  const State& state) {
  std::vector<Violation> violations;
  for (const FieldRule& rule : rules) {
    if (rule.access != Access::write) check_buffer(rule, rule.required, state, violations);
  }
  if (!violations.empty()) return violations;
  return family::dispatch([&](const auto& alternative) { return family::state_violations(alternative, state); },
                          instruction);
}

std::vector<Violation> family::violations_of_written(const Instruction& instruction, const State& state) {
  std::vector<Violation> violations;
  for (const FieldRule& rule : fields_of(instruction)) {
    if (rule.access != Access::read) check_buffer(rule, true, state, violations);
  }
  return violations;
}

}  // namespace bitmma
