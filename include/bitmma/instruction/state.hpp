// SPDX-License-Identifier: MIT
// The state on which instructions act: named typed buffers for registers, images of shared memory, Tensor Memory,
// descriptors and addresses. Each family lists the buffers that it reads and writes in one table of fields, from which
// the schema of vector files, GPU launches, random filling and documentation derive.
//
//   State state;
//   state.set(Field::b_desc, 0x4000004000010000);
//   state.set(Field::accumulator, std::vector<uint32_t>(128 * 4), {128, 4});   thread-major
//   state.borrow(Field::smem, image, {4096});                                  a view: the image must outlive the state
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/core/table.hpp"
#include "bitmma/instruction/instruction.hpp"

namespace bitmma {

enum class Field : uint8_t {
  // clang-format off
  smem, tmem,
  a_desc, b_desc, s_desc,                                              // shared-memory descriptors
  d_tmem, a_tmem, metadata_tmem, scale_a_tmem, scale_b_tmem, taddr,    // addresses in Tensor Memory
  warp, disable_output_lane, zero_column_mask,
  a_regs, b_regs, metadata, scale_a, scale_b,                          // registers that the instruction reads
  accumulator,                                                         // C before and D after
  regs,                                                                // for tcgen05.ld and .st
  redval,                                                              // for tcgen05.ld.red
  // clang-format on
};

enum class ElementType : uint8_t { u8, u32, u64 };
constexpr int bytes_of(ElementType type) { return type == ElementType::u8 ? 1 : type == ElementType::u32 ? 4 : 8; }

struct FieldInfo {
  Field id;
  std::string_view name;        // name of its tensor in vector files, before the instruction
  std::string_view after = {};  // name of its tensor after the instruction; empty: it is only read
  ElementType type = ElementType::u32;
  bool is_number = false;  // one number; the others are arrays
};

inline constexpr auto state_fields = std::to_array<FieldInfo>({
    // one row a field
    // clang-format off
    {.id = Field::smem, .name = "smem", .type = ElementType::u8},
    {.id = Field::tmem, .name = "tmem", .after = "tmem_after"},
    {.id = Field::a_desc, .name = "a_desc", .type = ElementType::u64, .is_number = true},
    {.id = Field::b_desc, .name = "b_desc", .type = ElementType::u64, .is_number = true},
    {.id = Field::s_desc, .name = "s_desc", .type = ElementType::u64, .is_number = true},
    {.id = Field::d_tmem, .name = "d_tmem", .is_number = true},
    {.id = Field::a_tmem, .name = "a_tmem", .is_number = true},
    {.id = Field::metadata_tmem, .name = "metadata_tmem", .is_number = true},
    {.id = Field::scale_a_tmem, .name = "scale_a_tmem", .is_number = true},
    {.id = Field::scale_b_tmem, .name = "scale_b_tmem", .is_number = true},
    {.id = Field::taddr, .name = "taddr", .is_number = true},
    {.id = Field::warp, .name = "warp", .type = ElementType::u8, .is_number = true},
    {.id = Field::disable_output_lane, .name = "disable_output_lane"},
    {.id = Field::zero_column_mask, .name = "zero_column_mask", .type = ElementType::u64, .is_number = true},
    {.id = Field::a_regs, .name = "a_regs"},
    {.id = Field::b_regs, .name = "b_regs"},
    {.id = Field::metadata, .name = "metadata"},
    {.id = Field::scale_a, .name = "scale_a"},
    {.id = Field::scale_b, .name = "scale_b"},
    {.id = Field::accumulator, .name = "c_regs", .after = "d_regs"},
    {.id = Field::regs, .name = "regs", .after = "d_regs"},
    {.id = Field::redval, .name = "redval", .after = "d_redval"},
    // clang-format on
});
constexpr const FieldInfo& info(Field field) { return state_fields[static_cast<std::size_t>(field)]; }

static_assert(are_in_enum_order(state_fields));

/// Up to four extents of an array, the slowest first: {128, 4}. Empty for a single number.
class Extents {
 public:
  static constexpr std::size_t most = 4;

  constexpr Extents() = default;
  /// Throws Error for more than four.
  constexpr Extents(std::initializer_list<int64_t> extents) : Extents(std::span<const int64_t>(extents)) {}
  constexpr explicit Extents(std::span<const int64_t> extents) {
    if (extents.size() > most)
      throw Error(
          {.code = ViolationCode::wrong_shape, .field = "extents", .seen = "more than four", .expected = "up to four"});
    for (const int64_t extent : extents) values_[rank_++] = extent;
  }

  constexpr std::size_t size() const { return rank_; }
  constexpr bool empty() const { return rank_ == 0; }
  constexpr int64_t operator[](std::size_t axis) const { return values_[axis]; }
  constexpr const int64_t* begin() const { return values_.data(); }
  constexpr const int64_t* end() const { return values_.data() + rank_; }
  bool operator==(const Extents&) const = default;

 private:
  std::array<int64_t, most> values_{};
  std::size_t rank_ = 0;
};

/// One buffer. An array of 64-bit elements is wide: it has two words per element, the low one first.
class Buffer {
 public:
  explicit Buffer(Field field) : field_(field) {}

  Field field() const { return field_; }
  const Extents& extents() const { return extents_; }
  uint64_t number() const { return number_; }
  bool is_wide() const { return wide_; }
  std::span<const uint8_t> bytes() const { return own_bytes_.empty() ? bytes_ : std::span<const uint8_t>(own_bytes_); }
  std::span<const uint32_t> words() const {
    return own_words_.empty() ? words_ : std::span<const uint32_t>(own_words_);
  }
  bool operator==(const Buffer& other) const;

 private:
  friend class State;
  Field field_;
  Extents extents_ = {};
  uint64_t number_ = 0;
  bool wide_ = false;
  std::vector<uint8_t> own_bytes_ = {};
  std::vector<uint32_t> own_words_ = {};
  std::span<const uint8_t> bytes_ = {};
  std::span<const uint32_t> words_ = {};
};

/// Buffers by field. A copy owns what the original owns, and borrows what the original borrows.
class State {
 public:
  /// Sets a number. Throws Error if the field is an array, or if the number does not fit its type.
  void set(Field field, uint64_t number);
  /// Sets an array, its elements in the order of `extents`. Throws Error if the field has another type, or if the
  /// number of elements does not match the extents.
  void set(Field field, std::vector<uint8_t> bytes, Extents extents);
  void set(Field field, std::vector<uint32_t> words, Extents extents);
  void set(Field field, const std::vector<uint64_t>& elements, Extents extents);
  /// The same as a view: the memory of `bytes` or `words` must outlive the state. Nothing is written through the view.
  void borrow(Field field, std::span<const uint8_t> bytes, Extents extents);
  void borrow(Field field, std::span<const uint32_t> words, Extents extents, bool wide = false);
  void erase(Field field);

  bool has(Field field) const { return find(field) != nullptr; }
  bool empty() const { return buffers_.empty(); }
  const std::vector<Buffer>& buffers() const { return buffers_; }
  /// Throws Error if the state lacks the field.
  uint64_t number(Field field) const;
  uint32_t word(Field field) const { return static_cast<uint32_t>(number(field)); }
  /// Empty if the state lacks the field.
  std::span<const uint8_t> bytes(Field field) const;
  std::span<const uint32_t> words(Field field) const;
  /// Extent `axis` of an array, 0 if the state lacks it; negative axes count from the last.
  int64_t extent(Field field, int axis) const;

  /// Mutable words of `field`; borrowed words are copied first. Throws Error if there is no such buffer, and for
  /// numbers and bytes.
  std::span<uint32_t> writable_words(Field field);
  /// Makes `field` an array of these extents, uninitialised: the caller writes every word.
  std::span<uint32_t> overwrite_words(Field field, const Extents& extents);

  /// Shared memory of one CTA: all of it, or the half of the even or odd CTA of a pair.
  std::span<const uint8_t> image(int cta, int ctas) const;
  /// Columns of Tensor Memory.
  int columns() const { return static_cast<int>(extent(Field::tmem, -1)); }

  bool operator==(const State& other) const;

 private:
  const Buffer* find(Field field) const;
  Buffer& find_or_add(Field field);

  std::vector<Buffer> buffers_;
};

/// How an instruction uses a field.
enum class Access : uint8_t { read, write, read_write };

/// One row of an instruction's field table.
struct FieldRule {
  Field field = Field::smem;
  Access access = Access::read;
  bool required = true;  // false: it may be absent
  bool wide = false;     // an array of 64-bit elements
  Extents extents = {};  // extents of an array; -1 allows any positive number
  std::string_view meaning = {};
};

/// The field table of one instruction: at most 12 rows, without allocation, because every execution needs it.
class FieldRules {
 public:
  static constexpr std::size_t most = 12;

  constexpr FieldRules() = default;
  constexpr FieldRules(std::initializer_list<FieldRule> rules) {
    for (const FieldRule& rule : rules) push_back(rule);
  }
  constexpr void push_back(const FieldRule& rule) { rules_.at(size_++) = rule; }
  constexpr std::size_t size() const { return size_; }
  constexpr const FieldRule* begin() const { return rules_.data(); }
  constexpr const FieldRule* end() const { return rules_.data() + size_; }

 private:
  std::array<FieldRule, most> rules_{};
  std::size_t size_ = 0;
};

/// The buffers that the instruction reads and writes.
FieldRules fields_of(const Instruction& instruction);

/// Every buffer that is missing from `state`, or has the wrong size, for the instruction to run.
std::vector<Violation> violations_of(const Instruction& instruction, const State& state);

}  // namespace bitmma
