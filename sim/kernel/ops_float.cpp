// SPDX-License-Identifier: MIT
// Floating-point instructions: layer math computes every value, except for selections (min, max, comparisons), which
// round nothing.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "../math/loops.hpp"
#include "bitmma/core/bits.hpp"
#include "bitmma/formats/ieee.hpp"
#include "bitmma/math/cvt.hpp"
#include "bitmma/math/math_instruction.hpp"
#include "decode.hpp"
#include "float_loops.hpp"
#include "lanes.hpp"

namespace bitmma::kernel {
namespace {

using Kind = Operand::Kind;

bool is_pair(Type type) { return type == Type::f16x2 || type == Type::bf16x2; }
Format format_of(Type type) {
  switch (type) {
    case Type::f16:
    case Type::f16x2: return Format::f16;
    case Type::bf16:
    case Type::bf16x2: return Format::bf16;
    case Type::f64: return Format::f64;
    default: return Format::f32;
  }
}
uint64_t sign_bits(Type type) {
  if (type == Type::f32x2) return 0x8000000080000000;
  return is_pair(type) ? 0x80008000 : uint64_t{1} << (info(type).bits - 1);
}

// --- rounded and approximate instructions

struct MathDetails {
  MathInstruction instruction = {};
  math::RoundedLoop rounded = nullptr;
  math::Loop unit = nullptr;  // an approximate instruction of one operand, with .ftz
};

void run_rounded(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const MathDetails*>(op.details);
  uint32_t results[lanes];
  details.rounded(warp.lanes_of<const uint32_t>(op.a), warp.lanes_of<const uint32_t>(op.b),
                  warp.lanes_of<const uint32_t>(op.c), results, lanes);
  set_lanes(warp.lanes_of<uint32_t>(op.d), mask, results);
}

/// A word that an approximate instruction without .ftz scales before and after the unit, or one near these.
BITMMA_INLINE bool may_be_scaled(uint32_t word) {
  const uint32_t magnitude = word & 0x7FFFFFFF;
  const bool is_tiny = magnitude<0x00800000, is_huge = magnitude> 0x7E800000;  // 2^-126 and 2^126
  return is_tiny || is_huge || word > 0xC2FC0000;                              // below -126, for ex2
}

BITMMA_INLINE void run_unary(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const MathDetails*>(op.details);
  const auto* a = warp.lanes_of<const uint32_t>(op.a);
  uint32_t results[lanes];
  bool any = false;
  if (!details.instruction.ftz)
    for (int lane = 0; lane < lanes; ++lane) any |= may_be_scaled(a[lane]);
  if (details.unit && !any) details.unit(a, results, lanes);
  else compute(details.instruction, std::span(a, lanes), {}, {}, results);
  set_lanes(warp.lanes_of<uint32_t>(op.d), mask, results);
}

template <typename W>
void run_known(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const MathDetails*>(op.details);
  const auto *a = warp.lanes_of<const W>(op.a), *b = warp.lanes_of<const W>(op.b), *c = warp.lanes_of<const W>(op.c);
  auto* d = warp.lanes_of<W>(op.d);
  for_each_lane(mask, [&](int lane) {
    d[lane] = static_cast<W>(math::compute_known(details.instruction, a[lane], b[lane], c[lane]));
  });
}

bool is_nan(Format format, uint64_t code) { return decode(info(format), code).number == NumberClass::nan; }

/// The NaN of an f64 result on an H100, measured for pairs and triples of NaN, infinity and numbers: the last NaN
/// operand in the order of ptxas (Decoder::comes_later), made quiet. A quotient returns its first NaN, and an fma
/// prefers its second factor to its addend. The sign is that of the operand, even of a subtracted register. Without a
/// NaN operand the result is 0xFFF8000000000000.
uint64_t nan_of_f64(MathOperation operation, uint64_t a, uint64_t b, uint64_t c) {
  constexpr uint64_t quiet = uint64_t{1} << 51;
  const auto first_of = [&](std::initializer_list<uint64_t> operands) {
    for (const uint64_t operand : operands) {
      if (is_nan(Format::f64, operand)) return operand | quiet;
    }
    return uint64_t{0xFFF8000000000000};
  };
  switch (operation) {
    case MathOperation::fma: return first_of({b, c, a});
    case MathOperation::div: return first_of({a, b});
    case MathOperation::rcp:
    case MathOperation::sqrt: return first_of({a});
    default: return first_of({b, a});
  }
}

/// f64: IEEE 754 arithmetic in any rounding mode. `exchanged`: ptxas exchanges the first two operands.
template <bool exchanged>
void run_f64(Warp& warp, const Op& op, Mask mask) {
  const auto& instruction = static_cast<const MathDetails*>(op.details)->instruction;
  const auto *a = warp.lanes_of<const uint64_t>(op.a), *b = warp.lanes_of<const uint64_t>(op.b),
             *c = warp.lanes_of<const uint64_t>(op.c);
  auto* d = warp.lanes_of<uint64_t>(op.d);
  constexpr uint64_t sign = uint64_t{1} << 63, number_one = 0x3FF0000000000000;
  for_each_lane(mask, [&](int lane) {
    const uint64_t before[] = {a[lane], b[lane], c[lane]};  // d may be one of them
    switch (instruction.operation) {
      case MathOperation::add: d[lane] = ieee_add(Format::f64, a[lane], b[lane], instruction.rounding); break;
      case MathOperation::sub: d[lane] = ieee_add(Format::f64, a[lane], b[lane] ^ sign, instruction.rounding); break;
      case MathOperation::mul: d[lane] = ieee_mul(Format::f64, a[lane], b[lane], instruction.rounding); break;
      case MathOperation::fma: d[lane] = ieee_fma(Format::f64, a[lane], b[lane], c[lane], instruction.rounding); break;
      case MathOperation::div: d[lane] = ieee_div(Format::f64, a[lane], b[lane], instruction.rounding); break;
      case MathOperation::rcp: d[lane] = ieee_div(Format::f64, number_one, a[lane], instruction.rounding); break;
      default: d[lane] = ieee_sqrt(Format::f64, a[lane], instruction.rounding); break;
    }
    if (is_nan(Format::f64, d[lane])) {
      const auto& [a0, b0, c0] = before;
      d[lane] =
          exchanged ? nan_of_f64(instruction.operation, b0, a0, c0) : nan_of_f64(instruction.operation, a0, b0, c0);
    }
  });
}

/// f32x2: two f32 numbers in 64 bits.
void run_pair_of_f32(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const MathDetails*>(op.details);
  const uint32_t slots[3] = {op.a, op.b, op.c};
  uint32_t parts[3][lanes], results[2][lanes];
  for (const int half : {0, 1}) {
    for (size_t k = 0; k < 3; ++k) {
      const auto* words = warp.lanes_of<const uint64_t>(slots[k]);
      for (int lane = 0; lane < lanes; ++lane) parts[k][lane] = static_cast<uint32_t>(words[lane] >> 32 * half);
    }
    if (details.rounded) {
      details.rounded(parts[0], parts[1], parts[2], results[half], lanes);
      continue;
    }
    for (int lane = 0; lane < lanes; ++lane)
      results[half][lane] = static_cast<uint32_t>(
          math::compute_known(details.instruction, parts[0][lane], parts[1][lane], parts[2][lane]));
  }
  auto* d = warp.lanes_of<uint64_t>(op.d);
  for_each_lane(mask, [&](int lane) { d[lane] = uint64_t{results[1][lane]} << 32 | results[0][lane]; });
}

Run run_of(const MathInstruction& instruction, const MathDetails& details, Type type) {
  if (type == Type::f32x2) return run_pair_of_f32;
  if (details.rounded) return run_rounded;
  if (instruction.format == Format::f64) return run_known<uint64_t>;
  if (!instruction.x2 && instruction.format == Format::f32 && instruction.accuracy == MathAccuracy::approx &&
      operand_count(instruction.operation) == 1)
    return at_levels<run_unary>;
  if (const Run quotient = quotient_run(instruction)) return quotient;
  return run_known<uint32_t>;
}

void emit_math(Decoder& decoder, const MathInstruction& instruction, Type type, uint32_t d, uint32_t a, uint32_t b,
               uint32_t c) {
  const auto* details =
      decoder.keep(MathDetails{instruction, math::rounded_loop_of(instruction), math::loop_of(instruction)});
  Op& op = decoder.emit(run_of(instruction, *details, type));
  op.details = details;
  op.d = d, op.a = a, op.b = b, op.c = c;
}

constexpr uint32_t flip_32(uint32_t a, uint32_t sign) { return a ^ sign; }
constexpr uint64_t flip_pair(uint64_t a, uint64_t sign) { return a ^ sign; }
/// An fma keeps the operand's NaN: measured on an H100.
constexpr uint64_t flip_64(uint64_t a, uint64_t sign) { return (a & ~sign) > 0x7FF0000000000000 ? a : a ^ sign; }

uint32_t negated(Decoder& decoder, uint32_t slot, Type type) {
  const bool wide = info(type).bits > 32;
  const uint32_t d = decoder.scratch((wide ? 8 : 4) * lanes), sign = decoder.constant(sign_bits(type), wide ? 8 : 4);
  Op& op = decoder.emit(type == Type::f64 ? map<flip_64> : wide ? map<flip_pair> : map<flip_32>);
  op.d = d, op.a = slot, op.b = sign;
  return d;
}

/// The instruction of layer math, such as "fma.ftz.f32" for a mad or "add.ftz.f32" for a pair.
MathInstruction math_instruction_of(const PtxInstruction& instruction) {
  if (has_word(instruction, Word::other)) return parse_math_instruction(instruction.opcode);  // which refuses it
  PtxInstruction alike = instruction;
  std::vector<Word> words = instruction.words;
  if (words.front() == Word::mad) words.front() = Word::fma;
  if (words.back() == Word::f32x2) words.back() = Word::f32;  // both halves compute alike
  become(alike, std::move(words));
  return parse_math_instruction(alike.opcode);
}

/// Decodes the fma that replaces a sum and its product.
void decode_joined(Decoder& decoder, const PtxInstruction& sum, const Join& join, Type type) {
  const PtxInstruction& product = decoder.entry().instructions[static_cast<size_t>(join.product)];
  const bool is_f64 = type == Type::f64;  // math_instructions() has no f64 rows
  const MathInstruction of_product =
      is_f64 ? MathInstruction{.operation = MathOperation::mul, .format = Format::f64} : math_instruction_of(product);
  MathInstruction instruction = is_f64 ? of_product : math_instruction_of(sum);
  instruction.operation = MathOperation::fma;
  const size_t other = join.operand == 1 ? 2 : 1;
  const bool is_reciprocal = of_product.operation == MathOperation::rcp;  // 1 / x, scaled like a quotient
  uint32_t b = decoder.factor_slot(join, is_reciprocal ? 0 : 1, type);
  uint32_t a = is_reciprocal ? decoder.constant(0x3F800000, 4) : decoder.factor_slot(join, 0, type);
  uint32_t c = decoder.read(sum.operands[other], type);
  const uint32_t d = decoder.write(sum.operands[0], type);
  if (of_product.operation == MathOperation::div || is_reciprocal) {
    const MathInstruction quotient{.operation = MathOperation::div,
                                   .accuracy = is_reciprocal ? MathAccuracy::full : of_product.accuracy,
                                   .ftz = of_product.ftz};
    const uint32_t reciprocal = decoder.scratch(4 * lanes), dividend = decoder.scratch(4 * lanes);
    const auto* details = decoder.keep(MathDetails{quotient});
    Op& op = decoder.emit(quotient_factors_run(quotient));
    op.details = details;
    op.a = a, op.b = b, op.d = reciprocal, op.d2 = dividend;
    a = reciprocal, b = dividend;
  }
  if (join.negate_product) a = negated(decoder, a, type);
  if (join.negate_addend) c = negated(decoder, c, type);
  if (!is_f64) return emit_math(decoder, instruction, type, d, a, b, c);
  const bool is_exchanged = decoder.comes_later(product.operands[1], product.operands[2]);
  const auto* details = decoder.keep(MathDetails{instruction});
  Op& op = decoder.emit(is_exchanged ? run_f64<true> : run_f64<false>);
  op.details = details;
  op.d = d, op.a = a, op.b = b, op.c = c;
}

struct Rounded64 {
  Word name;
  MathOperation operation;
  size_t sources;
};
constexpr auto rounded_64 = std::to_array<Rounded64>({
    {Word::add, MathOperation::add, 2},
    {Word::sub, MathOperation::sub, 2},
    {Word::mul, MathOperation::mul, 2},
    {Word::fma, MathOperation::fma, 3},
    {Word::mad, MathOperation::fma, 3},
    {Word::div, MathOperation::div, 2},
    {Word::rcp, MathOperation::rcp, 1},
    {Word::sqrt, MathOperation::sqrt, 1},
});

bool decode_f64(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const auto row = std::ranges::find(rounded_64, instruction.row->name, &Rounded64::name);
  if (row == rounded_64.end() || words.take(Word::approx)) return false;
  const Word rounding = words.take_one({Word::rn, Word::rz, Word::rm, Word::rp});
  const bool may_omit = row->sources == 2 && row->name != Word::div;
  if (rounding == Word::none && !may_omit) decoder.refuse("without a rounding");
  MathInstruction math_instruction{.operation = row->operation, .format = Format::f64};
  math_instruction.rounding = rounding == Word::rz   ? Rounding::toward_zero
                              : rounding == Word::rm ? Rounding::toward_negative
                              : rounding == Word::rp ? Rounding::toward_positive
                                                     : Rounding::nearest_even;
  decoder.require_operands(instruction, row->sources + 1, row->sources + 1);
  uint32_t slots[3] = {};
  for (size_t i = 0; i < row->sources; ++i) slots[i] = decoder.read(instruction.operands[i + 1], Type::f64);
  decoder.keep_factors(slots, Type::f64);
  const bool commutes = row->sources >= 2 && math_instruction.operation != MathOperation::div;
  const bool is_exchanged = commutes && decoder.comes_later(instruction.operands[1], instruction.operands[2]);
  // ptxas adds the negative of a number, also if that is a NaN.
  if (const Operand* const number =
          math_instruction.operation == MathOperation::sub ? decoder.constant_of(instruction.operands[2]) : nullptr) {
    if (number->kind == Kind::integer || number->is_double) {
      math_instruction.operation = MathOperation::add;
      slots[1] = decoder.constant(number->value ^ uint64_t{1} << 63, 8);
    }
  }
  const uint32_t d = decoder.write(instruction.operands[0], Type::f64);
  const auto* details = decoder.keep(MathDetails{math_instruction});
  Op& op = decoder.emit(is_exchanged ? run_f64<true> : run_f64<false>);
  op.details = details;
  op.d = d, op.a = slots[0], op.b = slots[1], op.c = slots[2];
  return true;
}

// --- selections

uint64_t flushed(Format format, uint64_t code) {
  const FormatInfo& row = info(format);
  const uint64_t magnitude = code & ~row.sign_bit();
  return magnitude <= row.mantissa_mask() ? code & row.sign_bit() : code;
}
/// Codes in numerical order, with -0 below +0.
int64_t order_of(Format format, uint64_t code) {
  const FormatInfo& row = info(format);
  const auto magnitude = static_cast<int64_t>(code & ~row.sign_bit());
  return (code & row.sign_bit()) != 0 ? -magnitude - 1 : magnitude;
}
constexpr uint64_t nan_of(Format format) {
  return format == Format::f64 ? 0x7FFFFFFFFFFFFFFF : format == Format::f32 ? 0x7FFFFFFF : 0x7FFF;
}

/// neg and abs of a NaN: ptxas adds -0, and the adder returns its NaN; in f64 the operand made quiet, with its sign.
/// Measured on an H100: data/kernels/instructions.py.
uint64_t nan_after_sign_change(Format format, uint64_t operand) {
  return format == Format::f64 ? operand | uint64_t{1} << 51 : nan_of(format);
}

struct SelectDetails {
  Format format = Format::f32;
  bool is_max = false, ftz = false, propagates_nan = false, xor_sign = false, pair = false, three = false;
  bool absolute = false, negates = false, copies_sign = false;
};

uint64_t extreme_of(const SelectDetails& details, uint64_t a, uint64_t b) {
  const Format format = details.format;
  if (details.ftz) a = flushed(format, a), b = flushed(format, b);
  const uint64_t sign = info(format).sign_bit(), result_sign = (a ^ b) & sign;
  const bool a_nan = is_nan(format, a), b_nan = is_nan(format, b);
  if (details.xor_sign) a &= ~sign, b &= ~sign;
  uint64_t result = 0;
  if (a_nan && b_nan && format == Format::f64) return b | uint64_t{1} << 51;  // measured on an H100
  if ((a_nan && b_nan) || (details.propagates_nan && (a_nan || b_nan))) return nan_of(format);
  if (a_nan) result = b;
  else if (b_nan) result = a;
  else result = (order_of(format, a) < order_of(format, b)) != details.is_max ? a : b;
  return details.xor_sign ? (result & ~sign) | result_sign : result;
}

uint64_t selected(const SelectDetails& details, uint64_t a, uint64_t b) {
  const uint64_t sign = info(details.format).sign_bit();
  if (details.copies_sign) return (a & sign) | (b & ~sign);
  if (details.absolute || details.negates) {
    if (is_nan(details.format, a)) return nan_after_sign_change(details.format, a);
    if (details.ftz) a = flushed(details.format, a);
    return details.absolute ? a & ~sign : a ^ sign;
  }
  return extreme_of(details, a, b);
}

template <typename W>
void run_selected(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const SelectDetails*>(op.details);
  const auto *a = warp.lanes_of<const W>(op.a), *b = warp.lanes_of<const W>(op.b), *c = warp.lanes_of<const W>(op.c);
  auto* d = warp.lanes_of<W>(op.d);
  for_each_lane(mask, [&](int lane) {
    if (details.pair) {
      const uint64_t low = selected(details, a[lane] & 0xFFFF, b[lane] & 0xFFFF),
                     high = selected(details, a[lane] >> 16 & 0xFFFF, b[lane] >> 16 & 0xFFFF);
      d[lane] = static_cast<W>(low | high << 16);
      return;
    }
    uint64_t result = selected(details, a[lane], b[lane]);
    if (details.three) result = selected(details, result, c[lane]);
    d[lane] = static_cast<W>(result);
  });
}

constexpr bool is_nan_f32(uint32_t a) { return (a & 0x7FFFFFFF) > 0x7F800000; }
constexpr uint32_t absolute_f32(uint32_t a) { return is_nan_f32(a) ? 0x7FFFFFFF : a & 0x7FFFFFFF; }
constexpr uint32_t negated_f32(uint32_t a) { return is_nan_f32(a) ? 0x7FFFFFFF : a ^ 0x80000000; }
/// max and min of f32 without modifiers.
template <bool is_max>
constexpr uint32_t extreme_f32(uint32_t a, uint32_t b) {
  const bool a_nan = is_nan_f32(a), b_nan = is_nan_f32(b);
  const auto order = [](uint32_t x) { return static_cast<int32_t>(x ^ ((0 - (x >> 31)) & 0x7FFFFFFF)); };
  const uint32_t number = (order(a) < order(b)) != is_max ? a : b;
  return a_nan ? (b_nan ? 0x7FFFFFFF : b) : b_nan ? a : number;
}

void decode_selection(Decoder& decoder, const PtxInstruction& instruction, Words& words, Type type) {
  const Word name = words.name();
  SelectDetails select_details{.format = format_of(type), .pair = is_pair(type)};
  select_details.ftz = words.take(Word::ftz);
  const bool may_flush = type == Type::f32 || type == Type::f16 || type == Type::f16x2;
  if (select_details.ftz && (!may_flush || name == Word::copysign)) decoder.refuse("with .ftz");
  select_details.is_max = name == Word::max;
  select_details.absolute = name == Word::abs;
  select_details.negates = name == Word::neg;
  select_details.copies_sign = name == Word::copysign;
  if (name == Word::min || name == Word::max) {
    select_details.propagates_nan = words.take(Word::NaN);
    if (words.take(Word::xorsign)) {
      if (!words.take(Word::abs)) decoder.refuse("with .xorsign without .abs");
      select_details.xor_sign = true;
    }
    select_details.three = instruction.operands.size() == 4 && type == Type::f32;
    if (select_details.three && decoder.target() < Target::sm_100) decoder.refuse("of three numbers before sm_100");
    if ((select_details.propagates_nan || select_details.xor_sign) && type == Type::f64)
      decoder.refuse("with these modifiers");
  }
  const size_t sources = select_details.absolute || select_details.negates ? 1 : select_details.three ? 3 : 2;
  decoder.require_operands(instruction, sources + 1, sources + 1);
  uint32_t slots[3] = {};
  for (size_t i = 0; i < sources; ++i) slots[i] = decoder.read(instruction.operands[i + 1], type);
  // min and max of two NaNs return the second.
  if (type == Type::f64 && sources == 2 && !select_details.copies_sign &&
      decoder.comes_later(instruction.operands[1], instruction.operands[2]))
    std::swap(slots[0], slots[1]);
  const uint32_t d = decoder.write(instruction.operands[0], type);
  Run run = type == Type::f64 ? run_selected<uint64_t> : run_selected<uint32_t>;
  const bool plain = type == Type::f32 && !select_details.ftz && !select_details.propagates_nan &&
                     !select_details.xor_sign && !select_details.three && !select_details.copies_sign;
  if (plain)
    run = select_details.absolute  ? map<absolute_f32>
          : select_details.negates ? map<negated_f32>
          : select_details.is_max  ? map<extreme_f32<true>>
                                   : map<extreme_f32<false>>;
  const auto* details = decoder.keep(select_details);
  Op& op = decoder.emit(run);
  op.details = details;
  op.d = d, op.a = slots[0], op.b = slots[1], op.c = slots[2];
}

// --- comparisons

enum class Order : uint8_t { less, equal, greater, unordered };

Order order_between(Format format, bool ftz, uint64_t a, uint64_t b) {
  if (ftz) a = flushed(format, a), b = flushed(format, b);
  if (is_nan(format, a) || is_nan(format, b)) return Order::unordered;
  const uint64_t magnitude = ~info(format).sign_bit();
  if ((a & magnitude & low_mask(info(format).bits)) == 0 && (b & magnitude & low_mask(info(format).bits)) == 0)
    return Order::equal;
  const int64_t x = order_of(format, a), y = order_of(format, b);
  return x < y ? Order::less : x > y ? Order::greater : Order::equal;
}

/// A set of outcomes, one bit for each Order.
struct ComparisonInfo {
  Word name;
  uint8_t holds;
};
constexpr uint8_t less = 1, equal = 2, greater = 4, unordered = 8;
constexpr auto comparisons = std::to_array<ComparisonInfo>({
    {Word::eq, equal},
    {Word::ne, less | greater},
    {Word::lt, less},
    {Word::le, less | equal},
    {Word::gt, greater},
    {Word::ge, greater | equal},
    {Word::equ, equal | unordered},
    {Word::neu, less | greater | unordered},
    {Word::ltu, less | unordered},
    {Word::leu, less | equal | unordered},
    {Word::gtu, greater | unordered},
    {Word::geu, greater | equal | unordered},
    {Word::num, less | equal | greater},
    {Word::nan, unordered},
});

struct CompareDetails {
  Format format = Format::f32;
  bool ftz = false, pair = false;
  uint8_t holds = 0;
};

template <typename W>
void run_compare(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const CompareDetails*>(op.details);
  const auto *a = warp.lanes_of<const W>(op.a), *b = warp.lanes_of<const W>(op.b);
  Mask first = 0, second = 0;
  const auto holds = [&](uint64_t x, uint64_t y) {
    return (details.holds >> static_cast<int>(order_between(details.format, details.ftz, x, y)) & 1) != 0;
  };
  for_each_lane(mask, [&](int lane) {
    if (details.pair) {
      first |= Mask{holds(a[lane] & 0xFFFF, b[lane] & 0xFFFF)} << lane;
      second |= Mask{holds(a[lane] >> 16 & 0xFFFF, b[lane] >> 16 & 0xFFFF)} << lane;
    } else {
      first |= Mask{holds(a[lane], b[lane])} << lane;
    }
  });
  if (!details.pair) second = ~first;
  set_comparison(warp, op, mask, first, second);
}

/// f32, computed on the host: a comparison rounds nothing.
template <uint8_t holds, bool ftz>
BITMMA_INLINE bool compare_f32(uint32_t a, uint32_t b) {
  const auto flushed_f32 = [](uint32_t word) { return (word & 0x7F800000) != 0 ? word : word & 0x80000000; };
  const auto x = std::bit_cast<float>(ftz ? flushed_f32(a) : a), y = std::bit_cast<float>(ftz ? flushed_f32(b) : b);
  const bool is_less = x<y, is_equal = x == y, is_greater = x> y;
  const bool is_unordered = !(is_less | is_equal | is_greater);
  constexpr bool on_less = (holds & less) != 0, on_equal = (holds & equal) != 0, on_greater = (holds & greater) != 0,
                 on_unordered = (holds & unordered) != 0;
  return (on_less & is_less) | (on_equal & is_equal) | (on_greater & is_greater) | (on_unordered & is_unordered);
}
template <uint8_t outcomes, bool ftz>
BITMMA_INLINE void run_compare_f32(Warp& warp, const Op& op, Mask mask) {
  const Mask holds = test<compare_f32<outcomes, ftz>>(warp, op);
  set_comparison(warp, op, mask, holds, ~holds);
}
/// For each set of outcomes.
template <bool ftz>
constexpr auto compare_f32_runs = []<uint8_t... outcomes>(std::integer_sequence<uint8_t, outcomes...>) {
  return std::array{at_levels<run_compare_f32<outcomes, ftz>>...};
}
(std::make_integer_sequence<uint8_t, 16>());

struct ClassDetails {
  Format format = Format::f32;
  Word what = Word::number;
};
bool is_of_class(Format format, Word what, uint64_t code) {
  const FormatInfo& row = info(format);
  const uint64_t magnitude = code & ~row.sign_bit(), infinity = low_mask(row.bits - 1) & ~row.mantissa_mask();
  switch (what) {
    case Word::finite: return magnitude < infinity;
    case Word::infinite: return magnitude == infinity;
    case Word::number: return magnitude <= infinity;
    case Word::notanumber: return magnitude > infinity;
    case Word::normal:
      return magnitude < infinity && (magnitude > row.mantissa_mask() || magnitude == 0);  // so is zero
    default: return magnitude != 0 && magnitude <= row.mantissa_mask();
  }
}
template <typename W>
void run_testp(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const ClassDetails*>(op.details);
  Mask holds = 0;
  for_each_lane(mask, [&](int lane) {
    holds |= Mask{is_of_class(details.format, details.what, warp.lanes_of<const W>(op.a)[lane])} << lane;
  });
  set_mask(warp, op.d, mask, holds);
}

void decode_testp(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const auto type = words.take_type();
  const Word what =
      words.take_one({Word::finite, Word::infinite, Word::number, Word::notanumber, Word::normal, Word::subnormal});
  if (!type || what == Word::none) decoder.refuse("without a class and a type");
  decoder.require_operands(instruction, 2, 2);
  const uint32_t a = decoder.read(instruction.operands[1], *type), d = decoder.write_mask(instruction.operands[0]);
  const auto* details = decoder.keep(ClassDetails{.format = format_of(*type), .what = what});
  Op& op = decoder.emit(*type == Type::f64 ? run_testp<uint64_t> : run_testp<uint32_t>);
  op.details = details;
  op.a = a, op.d = d;
}

// --- cvt

struct CvtDetails {
  CvtInstruction instruction = {};
  int from_bits = 32, to_bits = 32;  // register widths
  int sources = 1;
  bool b_is_scale = false;
};

template <typename To, typename From>
constexpr RegisterWord<To> integer_of(RegisterWord<From> a) {
  return to_word<To>(static_cast<To>(static_cast<From>(a)));
}

/// cvt between integers without .sat drops or repeats bits.
template <typename From>
Run integer_cvt(CvtType to) {
  switch (to) {
    case CvtType::u16: return map<integer_of<uint16_t, From>>;
    case CvtType::s16: return map<integer_of<int16_t, From>>;
    case CvtType::u32: return map<integer_of<uint32_t, From>>;
    case CvtType::s32: return map<integer_of<int32_t, From>>;
    case CvtType::u64: return map<integer_of<uint64_t, From>>;
    case CvtType::s64: return map<integer_of<int64_t, From>>;
    default: return nullptr;
  }
}

void run_cvt(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const CvtDetails*>(op.details);
  CvtOperands operands[lanes];
  uint64_t results[lanes];
  const auto word = [&](uint32_t slot, int bits, int lane) {
    return bits > 32 ? warp.lanes_of<const uint64_t>(slot)[lane] : warp.lanes_of<const uint32_t>(slot)[lane];
  };
  for (int lane = 0; lane < lanes; ++lane) {
    operands[lane].a = word(op.a, details.from_bits, lane);
    if (details.sources > 1) operands[lane].b = word(op.b, details.from_bits, lane);
  }
  compute(details.instruction, std::span<const CvtOperands>(operands), results);
  const CvtTypeInfo& to = info(details.instruction.to);
  const bool extends = !to.format && to.is_signed && details.instruction.lanes == 1;
  for_each_lane(mask, [&](int lane) {
    uint64_t result = results[lane];
    if (extends && to.bits < 64 && (result >> (to.bits - 1) & 1) != 0) result |= ~low_mask(to.bits);
    if (details.to_bits > 32) warp.lanes_of<uint64_t>(op.d)[lane] = result;
    else warp.lanes_of<uint32_t>(op.d)[lane] = static_cast<uint32_t>(result & low_mask(details.to_bits));
  });
}

void require_target(const Decoder& decoder, TargetSet targets) {
  if (!targets.contains(decoder.target())) decoder.refuse(fmt::format("on {}", print(decoder.target())));
}

void decode_cvt(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  if (words.take(Word::pack)) return decode_cvt_pack(decoder, instruction, words);
  const CvtInstruction cvt = parse_cvt(instruction.opcode);
  require_target(decoder, targets_of(cvt));
  words.take_all();
  const std::vector<CvtOperand> wanted = operands_of(cvt);
  if (wanted.size() > 2 || cvt.scales > 0) decoder.refuse("with random bits, scales or more than two sources");
  decoder.require_operands(instruction, wanted.size() + 1, wanted.size() + 1);
  CvtDetails details{.instruction = cvt, .sources = static_cast<int>(wanted.size())};
  const auto type_for = [](int bits) { return bits > 32 ? Type::b64 : bits > 16 ? Type::b32 : Type::b16; };
  const auto type_of_source = [&](const CvtOperand& source) {  // a constant such as 0.0 is an f32
    return cvt.from == CvtType::f32 && source.bits == 32 ? Type::f32 : type_for(source.bits);
  };
  const uint32_t a = decoder.read_wide(instruction.operands[1], type_of_source(wanted[0]), details.from_bits);
  uint32_t b = a;
  if (wanted.size() > 1) {
    int bits = 0;
    b = decoder.read_wide(instruction.operands[2], type_of_source(wanted[1]), bits);
  }
  int slot_bits = 0;
  const uint32_t d = decoder.write_wide(instruction.operands[0], type_for(result_bits(cvt)), slot_bits);
  details.to_bits = slot_bits;
  if (instruction.operands[0].kind == Kind::reg && slot_bits <= 32)
    details.to_bits = info(decoder.type_of(instruction.operands[0])).bits;
  if (result_bits(cvt) > details.to_bits || wanted[0].bits > details.from_bits)
    decoder.refuse("with a register that is too narrow");
  Run run = nullptr;
  const CvtTypeInfo &to = info(cvt.to), &from = info(cvt.from);
  if (!to.format && !from.format && !cvt.sat && cvt.rounding == CvtRounding::none && to.bits == details.to_bits &&
      (from.bits > 32) == (details.from_bits > 32)) {
    switch (cvt.from) {
      case CvtType::u8: run = integer_cvt<uint8_t>(cvt.to); break;
      case CvtType::s8: run = integer_cvt<int8_t>(cvt.to); break;
      case CvtType::u16: run = integer_cvt<uint16_t>(cvt.to); break;
      case CvtType::s16: run = integer_cvt<int16_t>(cvt.to); break;
      case CvtType::u32: run = integer_cvt<uint32_t>(cvt.to); break;
      case CvtType::s32: run = integer_cvt<int32_t>(cvt.to); break;
      case CvtType::u64: run = integer_cvt<uint64_t>(cvt.to); break;
      default: run = integer_cvt<int64_t>(cvt.to); break;
    }
  }
  if (!run) run = cvt_run(cvt);
  const auto* kept = decoder.keep(details);
  Op& op = decoder.emit(run ? run : run_cvt);
  op.details = kept;
  op.d = d, op.a = a, op.b = b;
}

// --- add, sub and fma of f32 with f16 or bf16 sources

constexpr uint32_t f32_of_bf16(uint32_t a) { return a << 16; }
uint32_t f32_of_f16(uint32_t a) {
  return static_cast<uint32_t>(
      convert(Format::f16, a & 0xFFFF, Format::f32, Rounding::nearest_even, Overflow::infinity));
}

/// add, sub and fma whose last word is the type of their first sources, and f32 that of the last source and of the
/// result: the narrow numbers are f32 numbers, and the instruction rounds once. PTX ISA 8.6.
void decode_mixed(Decoder& decoder, const PtxInstruction& instruction, Words& words, Type type) {
  if (decoder.target() < Target::sm_100) decoder.refuse("before sm_100");
  PtxInstruction single = instruction;
  std::vector<Word> name = instruction.words;
  name.pop_back();
  become(single, std::move(name));
  const MathInstruction math_instruction = parse_math_instruction(single.opcode);
  if (math_instruction.ftz) decoder.refuse("with .ftz");
  words.take_all();
  const auto count = static_cast<size_t>(operand_count(math_instruction.operation));
  decoder.require_operands(instruction, count + 1, count + 1);
  uint32_t slots[3] = {};
  for (size_t i = 0; i < count; ++i) {
    const bool is_narrow = i + 1 < count;
    slots[i] = decoder.read(instruction.operands[i + 1], is_narrow ? type : Type::f32);
    if (!is_narrow) continue;
    const uint32_t wide = decoder.scratch(4 * lanes);
    Op& op = decoder.emit(type == Type::bf16 ? map<f32_of_bf16> : map<f32_of_f16>);
    op.d = wide, op.a = slots[i];
    slots[i] = wide;
  }
  for (size_t i = count; i < 3; ++i) slots[i] = slots[0];
  emit_math(decoder, math_instruction, Type::f32, decoder.write(instruction.operands[0], Type::f32), slots[0], slots[1],
            slots[2]);
}

/// rsqrt.approx.f64 as ptxas 13.0 computes it: one step of Newton's method from the GPU's reciprocal square root of the
/// upper word, which is rsqrt.approx.ftz.f64; subnormal numbers are scaled.
uint64_t rsqrt_f64(const MathInstruction& seed, uint64_t x) {
  constexpr uint64_t sign = uint64_t{1} << 63, infinity = 0x7FF0000000000000, half = 0x3FE0000000000000,
                     three_eighths = 0x3FD8000000000000, number_one = 0x3FF0000000000000,
                     scale = 0x4350000000000000 /* 2^54 */, root_of_scale = 0x41A0000000000000 /* 2^27 */;
  if ((x & ~sign) > infinity) return x | uint64_t{1} << 51;
  if ((x & ~sign) == 0) return x | infinity;
  if ((x & sign) != 0) return 0xFFF8000000000000;
  if (x == infinity) return 0;
  const bool is_scaled = x < uint64_t{1} << 52;
  if (is_scaled) x = ieee_mul(Format::f64, x, scale, Rounding::nearest_even);
  const auto mul = [](uint64_t a, uint64_t b) { return ieee_mul(Format::f64, a, b, Rounding::nearest_even); };
  const auto fma = [](uint64_t a, uint64_t b, uint64_t c) {
    return ieee_fma(Format::f64, a, b, c, Rounding::nearest_even);
  };
  const uint64_t y = math::compute_known(seed, x, 0, 0);
  const uint64_t error = fma(x, mul(y, y) ^ sign, number_one);
  const uint64_t root = fma(fma(error, three_eighths, half), mul(y, error), y);
  return is_scaled ? mul(root, root_of_scale) : root;
}
void run_rsqrt_f64(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const MathDetails*>(op.details);
  const auto* a = warp.lanes_of<const uint64_t>(op.a);
  auto* d = warp.lanes_of<uint64_t>(op.d);
  for_each_lane(mask, [&](int lane) { d[lane] = rsqrt_f64(details.instruction, a[lane]); });
}
void decode_rsqrt_f64(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  words.take_all();
  decoder.require_operands(instruction, 2, 2);
  const uint32_t a = decoder.read(instruction.operands[1], Type::f64),
                 d = decoder.write(instruction.operands[0], Type::f64);
  const auto* details = decoder.keep(MathDetails{parse_math_instruction("rsqrt.approx.ftz.f64"), nullptr});
  Op& op = decoder.emit(run_rsqrt_f64);
  op.details = details;
  op.d = d, op.a = a;
}

void decode_named(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const auto type = words.take_type();
  if (!type || !is_floating(*type)) decoder.refuse("without a floating-point type");
  decode_float(decoder, instruction, words, *type);
}

using namespace type_sets;
constexpr auto float_rows = std::to_array<Opcode>({
    {.name = Word::fma, .does = "a * b + c with one rounding", .decode = decode_named, .types = sums_of_floats},
    {.name = Word::rcp,
     .does = "the reciprocal 1 / a",
     .decode = decode_named,
     .types = singles,
     .scales_subnormal = true,
     .contraction = Contraction::reciprocal,
     .ends_block = is_slow_root},
    {.name = Word::sqrt,
     .does = "the square root",
     .decode = decode_named,
     .types = singles,
     .scales_subnormal = true,
     .ends_block = is_slow_root},
    {.name = Word::rsqrt,
     .does = "the reciprocal of the square root",
     .decode = decode_named,
     .types = singles,
     .scales_subnormal = true,
     .ends_block = is_slow_rsqrt},
    {.name = Word::ex2, .does = "2 to the power a", .decode = decode_named, .types = floats, .scales_subnormal = true},
    {.name = Word::lg2,
     .does = "the logarithm to base 2",
     .decode = decode_named,
     .types = TypeSet{Type::f32},
     .scales_subnormal = true},
    {.name = Word::sin, .does = "the sine", .decode = decode_named, .types = TypeSet{Type::f32}},
    {.name = Word::cos, .does = "the cosine", .decode = decode_named, .types = TypeSet{Type::f32}},
    {.name = Word::tanh, .does = "the hyperbolic tangent", .decode = decode_named, .types = floats},
    {.name = Word::copysign, .does = "b with the sign of a", .decode = decode_named, .types = singles},
    {.name = Word::testp, .does = "a predicate by the class of a number", .decode = decode_testp, .types = singles},
    {.name = Word::cvt, .does = "a number in another type", .decode = decode_cvt, .folds_if = is_folded_conversion},
});

}  // namespace

std::span<const Opcode> float_opcodes() { return float_rows; }

uint64_t add_f64(uint64_t a, uint64_t b) {
  const uint64_t sum = ieee_add(Format::f64, a, b);
  return is_nan(Format::f64, sum) ? nan_of_f64(MathOperation::add, a, b, 0) : sum;
}

uint64_t least_or_greatest(Type type, bool is_max, uint64_t a, uint64_t b) {
  return extreme_of({.format = format_of(type), .is_max = is_max}, a, b);
}

bool is_floating(Type type) { return info(type).kind == TypeClass::floating; }

void decode_float(Decoder& decoder, const PtxInstruction& instruction, Words& words, Type type) {
  const Word name = words.name();
  if (name == Word::min || name == Word::max || name == Word::abs || name == Word::neg || name == Word::copysign)
    return decode_selection(decoder, instruction, words, type);
  const auto join = decoder.fusions().of_sum.find(decoder.current());
  if (join != decoder.fusions().of_sum.end()) {
    words.take_all();
    return decode_joined(decoder, instruction, join->second, type);
  }
  if (type == Type::f64 && decode_f64(decoder, instruction, words)) return;
  if (type == Type::f32x2 && decoder.target() < Target::sm_100) decoder.refuse("before sm_100");
  if ((type == Type::f16 || type == Type::bf16) && has_word(instruction, Word::f32) &&
      (name == Word::add || name == Word::sub || name == Word::fma))
    return decode_mixed(decoder, instruction, words, type);
  if (is(instruction, {Word::rsqrt, Word::approx, Word::f64})) return decode_rsqrt_f64(decoder, instruction, words);
  const MathInstruction math_instruction = math_instruction_of(instruction);
  require_target(decoder, targets_of(math_instruction));
  words.take_all();
  const auto count = static_cast<size_t>(operand_count(math_instruction.operation));
  decoder.require_operands(instruction, count + 1, count + 1);
  uint32_t slots[3] = {};
  for (size_t i = 0; i < count; ++i) slots[i] = decoder.read(instruction.operands[i + 1], type);
  for (size_t i = count; i < 3; ++i) slots[i] = slots[0];
  decoder.keep_factors(slots, type);
  const uint32_t d = decoder.write(instruction.operands[0], type);
  emit_math(decoder, math_instruction, type, d, slots[0], slots[1], slots[2]);
}

void decode_float_compare(Decoder& decoder, const PtxInstruction& instruction, Words& words, Type type) {
  CompareDetails compare_details{.format = format_of(type), .pair = is_pair(type)};
  compare_details.ftz = words.take(Word::ftz);
  if (compare_details.ftz && type != Type::f32 && type != Type::f16 && type != Type::f16x2) decoder.refuse("with .ftz");
  const Combine combine = take_combine(words);
  for (const ComparisonInfo& row : comparisons) {
    if (words.take(row.name)) {
      compare_details.holds = row.holds;
      break;
    }
  }
  if (compare_details.holds == 0) decoder.refuse("without a comparison");
  const size_t operands = combine == Combine::none ? 3 : 4;
  decoder.require_operands(instruction, operands, operands);
  const Operand& result = instruction.operands[0];
  const bool has_two = result.kind == Kind::pair;
  if (compare_details.pair && !has_two) decoder.refuse("of pairs with one result");
  if (has_two && !compare_details.pair && (type == Type::f16 || type == Type::bf16))
    decoder.refuse("of one number with two results");
  const uint32_t a = decoder.read(instruction.operands[1], type), b = decoder.read(instruction.operands[2], type);
  const uint32_t c = combine == Combine::none ? 0 : decoder.read_mask(instruction.operands[3]);
  const uint32_t d = decoder.write_mask(has_two ? result.elements[0] : result),
                 d2 = has_two ? decoder.write_mask(result.elements[1]) : Op::no_slot;
  const auto* details = decoder.keep(compare_details);
  const auto& runs_f32 = compare_details.ftz ? compare_f32_runs<true> : compare_f32_runs<false>;
  Op& op = decoder.emit(type == Type::f64   ? Run{run_compare<uint64_t>}
                        : type == Type::f32 ? Run{runs_f32[compare_details.holds]}
                                            : Run{run_compare<uint32_t>});
  op.details = details;
  op.d = d, op.d2 = d2, op.a = a, op.b = b, op.c = c, op.combine = combine;
}

}  // namespace bitmma::kernel
