// SPDX-License-Identifier: MIT
// Integers, bits, predicates and moves.
#include <fmt/format.h>

#include <bit>
#include <limits>

#include "decode.hpp"
#include "lanes.hpp"

namespace bitmma::kernel {
namespace {

using Kind = Operand::Kind;

template <typename T>
using Unsigned = std::make_unsigned_t<T>;
template <typename T>
using Signed = std::make_signed_t<T>;
__extension__ using Wide = unsigned __int128;
__extension__ using SignedWide = __int128;
/// The type of twice the width.
template <typename T>
struct Twice;
template <>
struct Twice<uint16_t> {
  using Type = uint32_t;
};
template <>
struct Twice<int16_t> {
  using Type = int32_t;
};
template <>
struct Twice<uint32_t> {
  using Type = uint64_t;
};
template <>
struct Twice<int32_t> {
  using Type = int64_t;
};
template <>
struct Twice<uint64_t> {
  using Type = Wide;
};
template <>
struct Twice<int64_t> {
  using Type = SignedWide;
};
template <typename T>
using TwiceAs = typename Twice<T>::Type;

// T is the instruction's type; words are register contents.
template <typename T>
constexpr RegisterWord<T> add_of(RegisterWord<T> a, RegisterWord<T> b) {
  return to_word<T>(static_cast<T>(a + b));
}
template <typename T>
constexpr RegisterWord<T> sub_of(RegisterWord<T> a, RegisterWord<T> b) {
  return to_word<T>(static_cast<T>(a - b));
}
template <typename T>
constexpr RegisterWord<T> add_sat_of(RegisterWord<T> a, RegisterWord<T> b) {
  const int64_t sum = int64_t{static_cast<int32_t>(a)} + static_cast<int32_t>(b);
  return static_cast<uint32_t>(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum);
}
template <typename T>
constexpr RegisterWord<T> sub_sat_of(RegisterWord<T> a, RegisterWord<T> b) {
  const int64_t sum = int64_t{static_cast<int32_t>(a)} - static_cast<int32_t>(b);
  return static_cast<uint32_t>(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum);
}
template <typename T>
constexpr TwiceAs<T> product_of(RegisterWord<T> a, RegisterWord<T> b) {
  return static_cast<TwiceAs<T>>(static_cast<TwiceAs<T>>(static_cast<T>(a)) *
                                 static_cast<TwiceAs<T>>(static_cast<T>(b)));
}
template <typename T>
constexpr RegisterWord<T> mul_lo_of(RegisterWord<T> a, RegisterWord<T> b) {
  return to_word<T>(static_cast<T>(a * b));
}
template <typename T>
constexpr RegisterWord<T> mul_hi_of(RegisterWord<T> a, RegisterWord<T> b) {
  return to_word<T>(static_cast<T>(product_of<T>(a, b) >> (8 * sizeof(T))));
}
template <typename T>
constexpr RegisterWord<TwiceAs<T>> mul_wide_of(RegisterWord<T> a, RegisterWord<T> b) {
  return to_word(product_of<T>(a, b));
}
template <typename T>
constexpr RegisterWord<T> mad_lo_of(RegisterWord<T> a, RegisterWord<T> b, RegisterWord<T> c) {
  return to_word<T>(static_cast<T>(a * b + c));
}
template <typename T>
constexpr RegisterWord<T> mad_hi_of(RegisterWord<T> a, RegisterWord<T> b, RegisterWord<T> c) {
  return add_of<T>(mul_hi_of<T>(a, b), c);
}
template <typename T>
constexpr RegisterWord<TwiceAs<T>> mad_wide_of(RegisterWord<T> a, RegisterWord<T> b, RegisterWord<TwiceAs<T>> c) {
  return add_of<TwiceAs<T>>(mul_wide_of<T>(a, b), c);
}
template <typename T>
constexpr RegisterWord<T> mul24_of(RegisterWord<T> a, RegisterWord<T> b) {
  if constexpr (std::is_signed_v<T>) {
    return static_cast<RegisterWord<T>>((int64_t{static_cast<int32_t>(a << 8)} >> 8) *
                                        (int64_t{static_cast<int32_t>(b << 8)} >> 8));
  }
  return static_cast<RegisterWord<T>>(uint64_t{a & 0xFFFFFF} * (b & 0xFFFFFF));
}
template <typename T>
constexpr RegisterWord<T> mad24_of(RegisterWord<T> a, RegisterWord<T> b, RegisterWord<T> c) {
  return mul24_of<T>(a, b) + c;
}
/// Division by zero returns all ones, as on GPUs; PTX leaves it undefined.
template <typename T>
constexpr RegisterWord<T> div_of(RegisterWord<T> a, RegisterWord<T> b) {
  const T x = static_cast<T>(a), y = static_cast<T>(b);
  if (y == 0) return to_word<T>(static_cast<T>(~Unsigned<T>{0}));
  if constexpr (std::is_signed_v<T>) {
    if (y == -1) return to_word<T>(static_cast<T>(Unsigned<T>{0} - static_cast<Unsigned<T>>(x)));
  }
  return to_word<T>(static_cast<T>(x / y));
}
template <typename T>
constexpr RegisterWord<T> rem_of(RegisterWord<T> a, RegisterWord<T> b) {
  const T x = static_cast<T>(a), y = static_cast<T>(b);
  if (y == 0) return a;
  if constexpr (std::is_signed_v<T>) {
    if (y == -1) return 0;
  }
  return to_word<T>(static_cast<T>(x % y));
}
template <typename T>
constexpr RegisterWord<T> min_of(RegisterWord<T> a, RegisterWord<T> b) {
  return static_cast<T>(a) < static_cast<T>(b) ? a : b;
}
template <typename T>
constexpr RegisterWord<T> max_of(RegisterWord<T> a, RegisterWord<T> b) {
  return static_cast<T>(a) > static_cast<T>(b) ? a : b;
}
template <typename T>
constexpr RegisterWord<T> min_relu_of(RegisterWord<T> a, RegisterWord<T> b) {
  return static_cast<T>(min_of<T>(a, b)) < 0 ? 0 : min_of<T>(a, b);
}
template <typename T>
constexpr RegisterWord<T> max_relu_of(RegisterWord<T> a, RegisterWord<T> b) {
  return static_cast<T>(max_of<T>(a, b)) < 0 ? 0 : max_of<T>(a, b);
}
template <typename T>
constexpr RegisterWord<T> abs_of(RegisterWord<T> a) {
  return static_cast<T>(a) < 0 ? to_word<T>(static_cast<T>(RegisterWord<T>{0} - a)) : a;
}
template <typename T>
constexpr RegisterWord<T> neg_of(RegisterWord<T> a) {
  return to_word<T>(static_cast<T>(RegisterWord<T>{0} - a));
}
template <typename T>
constexpr RegisterWord<T> sad_of(RegisterWord<T> a, RegisterWord<T> b, RegisterWord<T> c) {
  const RegisterWord<T> difference = static_cast<T>(a) < static_cast<T>(b) ? b - a : a - b;
  return to_word<T>(static_cast<T>(c + difference));
}
template <typename T>
constexpr RegisterWord<T> and_of(RegisterWord<T> a, RegisterWord<T> b) {
  return a & b;
}
template <typename T>
constexpr RegisterWord<T> or_of(RegisterWord<T> a, RegisterWord<T> b) {
  return a | b;
}
template <typename T>
constexpr RegisterWord<T> xor_of(RegisterWord<T> a, RegisterWord<T> b) {
  return a ^ b;
}
template <typename T>
constexpr RegisterWord<T> not_of(RegisterWord<T> a) {
  return to_word<T>(static_cast<T>(~a));
}
template <typename T>
constexpr RegisterWord<T> cnot_of(RegisterWord<T> a) {
  return a == 0 ? 1 : 0;
}
template <typename T>
constexpr RegisterWord<T> shl_of(RegisterWord<T> a, uint32_t count) {
  return count >= 8 * sizeof(T) ? 0 : to_word<T>(static_cast<T>(a << count));
}
template <typename T>
constexpr RegisterWord<T> shr_of(RegisterWord<T> a, uint32_t count) {
  const uint32_t last = 8 * sizeof(T) - 1;
  if (count > last)
    return std::is_signed_v<T> && static_cast<T>(a) < 0 ? to_word<T>(static_cast<T>(~RegisterWord<T>{0})) : 0;
  return to_word<T>(static_cast<T>(static_cast<T>(a) >> count));
}
template <typename T>
constexpr uint32_t popc_of(RegisterWord<T> a) {
  return static_cast<uint32_t>(std::popcount(a));
}
template <typename T>
constexpr uint32_t clz_of(RegisterWord<T> a) {
  return static_cast<uint32_t>(std::countl_zero(a));
}
template <typename T>
constexpr RegisterWord<T> brev_of(RegisterWord<T> a) {
  RegisterWord<T> reversed = 0;
  for (size_t i = 0; i < 8 * sizeof(T); ++i) reversed |= (a >> i & 1) << (8 * sizeof(T) - 1 - i);
  return reversed;
}
template <typename T>
constexpr uint32_t bfind_of(RegisterWord<T> a) {
  const RegisterWord<T> bits = std::is_signed_v<T> && static_cast<T>(a) < 0 ? ~a : a;
  return bits == 0 ? ~uint32_t{0}
                   : static_cast<uint32_t>(8 * sizeof(T) - 1) - static_cast<uint32_t>(std::countl_zero(bits));
}
template <typename T>
constexpr uint32_t bfind_shift_of(RegisterWord<T> a) {
  const uint32_t position = bfind_of<T>(a);
  return position == ~uint32_t{0} ? position : static_cast<uint32_t>(8 * sizeof(T) - 1) - position;
}
/// PTX ISA, bfe: position and length are the low bytes of their operands.
template <typename T>
constexpr RegisterWord<T> bfe_of(RegisterWord<T> a, uint32_t position, uint32_t length) {
  const int most = 8 * sizeof(T) - 1, from = static_cast<int>(position & 0xFF), count = static_cast<int>(length & 0xFF);
  const bool sign = std::is_signed_v<T> && count != 0 && ((a >> std::min(from + count - 1, most)) & 1) != 0;
  RegisterWord<T> result = from > most ? 0 : a >> from;
  if (count <= most) {
    const RegisterWord<T> mask = (RegisterWord<T>{1} << count) - 1;
    result &= mask;
    const int held = std::min(count, most + 1 - std::min(from, most + 1));
    if (sign) result |= ~(held > most ? ~RegisterWord<T>{0} : (RegisterWord<T>{1} << held) - 1);
  } else if (sign && from > 0) {
    result |= from > most ? ~RegisterWord<T>{0} : ~(~RegisterWord<T>{0} >> from);
  }
  return result;
}
template <typename T>
constexpr RegisterWord<T> bfi_of(RegisterWord<T> a, RegisterWord<T> b, uint32_t position, uint32_t length) {
  const uint32_t size = 8 * sizeof(T), from = position & 0xFF, count = length & 0xFF;
  if (from >= size || count == 0) return b;
  const RegisterWord<T> mask = (count >= size ? ~RegisterWord<T>{0} : (RegisterWord<T>{1} << count) - 1) << from;
  return (b & ~mask) | (a << from & mask);
}
constexpr uint32_t shf_l_wrap(uint32_t a, uint32_t b, uint32_t c) {
  return static_cast<uint32_t>(((uint64_t{b} << 32 | a) << (c & 31)) >> 32);
}
constexpr uint32_t shf_r_wrap(uint32_t a, uint32_t b, uint32_t c) {
  return static_cast<uint32_t>((uint64_t{b} << 32 | a) >> (c & 31));
}
constexpr uint32_t shf_l_clamp(uint32_t a, uint32_t b, uint32_t c) {
  return c >= 32 ? a : static_cast<uint32_t>(((uint64_t{b} << 32 | a) << c) >> 32);
}
constexpr uint32_t shf_r_clamp(uint32_t a, uint32_t b, uint32_t c) {
  return c >= 32 ? b : static_cast<uint32_t>((uint64_t{b} << 32 | a) >> c);
}
constexpr uint32_t prmt_of(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t bytes = uint64_t{b} << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t pick = selector >> 4 * i & 0xF;
    const auto byte = static_cast<uint8_t>(bytes >> 8 * (pick & 7));
    const uint32_t value = (pick & 8) != 0 ? ((byte & 0x80) != 0 ? 0xFF : 0) : byte;
    result |= value << 8 * i;
  }
  return result;
}
/// .f4e .b4e .rc8 .ecl .ecr .rc16: PTX ISA, prmt, the table of modes.
template <int mode>
constexpr uint32_t prmt_mode_of(uint32_t a, uint32_t b, uint32_t c) {
  constexpr uint16_t selectors[6][4] = {{0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
                                        {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333},
                                        {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};
  return prmt_of(a, b, selectors[mode][c & 3]);
}
template <bool a_signed, bool b_signed>
constexpr uint32_t dp4a_of(uint32_t a, uint32_t b, uint32_t c) {
  for (int i = 0; i < 4; ++i) {
    const auto x = static_cast<uint8_t>(a >> 8 * i), y = static_cast<uint8_t>(b >> 8 * i);
    const int p = a_signed ? static_cast<int8_t>(x) : x, q = b_signed ? static_cast<int8_t>(y) : y;
    c += static_cast<uint32_t>(p * q);
  }
  return c;
}
template <bool a_signed, bool b_signed, bool high>
constexpr uint32_t dp2a_of(uint32_t a, uint32_t b, uint32_t c) {
  for (int i = 0; i < 2; ++i) {
    const auto x = static_cast<uint16_t>(a >> 16 * i);
    const auto y = static_cast<uint8_t>(b >> (8 * i + (high ? 16 : 0)));
    const int p = a_signed ? static_cast<int16_t>(x) : x, q = b_signed ? static_cast<int8_t>(y) : y;
    c += static_cast<uint32_t>(p * q);
  }
  return c;
}
constexpr uint32_t bmsk_clamp(uint32_t a, uint32_t b) {
  const uint32_t from = std::min(a, 32u), to = from + std::min(b, 32u);
  return static_cast<uint32_t>(((uint64_t{1} << std::min(to, 32u)) - 1) & ~((uint64_t{1} << from) - 1));
}
constexpr uint32_t bmsk_wrap(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>(((uint64_t{1} << (b & 31)) - 1) << (a & 31));
}

/// The low `bits` bits of a, extended. PTX ISA, szext.
template <bool clamps, bool is_signed_value>
constexpr uint32_t szext_of(uint32_t a, uint32_t b) {
  const uint32_t bits = clamps ? std::min(b, 32u) : b & 31;
  if (bits == 0) return 0;
  const auto shifted = a << (32 - bits);
  return is_signed_value ? static_cast<uint32_t>(static_cast<int32_t>(shifted) >> (32 - bits)) : shifted >> (32 - bits);
}

/// a and b clamped to `bits` bits, b below a, and with `appends` c above both. PTX ISA, cvt.pack.
template <int bits, bool is_signed_type, bool appends>
constexpr uint32_t cvt_pack_of(uint32_t a, uint32_t b, uint32_t c) {
  constexpr int32_t least = is_signed_type ? -(1 << (bits - 1)) : 0;
  constexpr int32_t most = (1 << (is_signed_type ? bits - 1 : bits)) - 1;
  const auto clamped = [least, most](uint32_t x) {
    return static_cast<uint32_t>(std::clamp(static_cast<int32_t>(x), least, most)) & ((1U << bits) - 1);
  };
  const uint32_t both = clamped(a) << bits | clamped(b);
  return appends ? both | static_cast<uint32_t>(uint64_t{c} << (2 * bits)) : both;
}

/// The place of the set bit number `offset` from bit `base` on, upwards or for a negative number downwards; 0: bit
/// `base` itself. PTX ISA, fns.
constexpr uint32_t fns_of(uint32_t word, uint32_t base, uint32_t offset) {
  const auto number = static_cast<int64_t>(static_cast<int32_t>(offset));
  int64_t left = number < 0 ? -number : number;
  for (int64_t at = base; at >= 0 && at < 32; at += number < 0 ? -1 : 1) {
    if ((word >> at & 1) != 0 && --left <= 0) return static_cast<uint32_t>(at);
    if (number == 0) break;
  }
  return ~uint32_t{0};
}

void lop3(Warp& warp, const Op& op, Mask mask) {
  const auto* a = warp.lanes_of<const uint32_t>(op.a);
  const auto* b = warp.lanes_of<const uint32_t>(op.b);
  const auto* c = warp.lanes_of<const uint32_t>(op.c);
  uint32_t results[lanes] = {};
  for (int minterm = 0; minterm < 8; ++minterm) {
    if ((op.immediate >> minterm & 1) == 0) continue;
    const uint32_t not_a = (minterm & 4) != 0 ? 0 : all_lanes, not_b = (minterm & 2) != 0 ? 0 : all_lanes,
                   not_c = (minterm & 1) != 0 ? 0 : all_lanes;
    for (int lane = 0; lane < lanes; ++lane) results[lane] |= (a[lane] ^ not_a) & (b[lane] ^ not_b) & (c[lane] ^ not_c);
  }
  auto* d = warp.lanes_of<uint32_t>(op.d);
  for_each_lane(mask, [&](int lane) { d[lane] = results[lane]; });
}

// CC.CF is one bit for each lane: the carry of the sum. A difference is a + ~b + 1, so that the flag is 1 if there is
// no borrow, and subc adds the flag in place of the 1 (measured on an H100: data/kernels/instructions.py).
template <typename W>
W sum_with_carry(Warp& warp, const Op& op, int lane, W a, W b, bool carry_in) {
  const Wide sum = Wide{a} + b + carry_in;
  if (op.writes_carry) {
    const bool carry_out = (sum >> (8 * sizeof(W)) & 1) != 0;
    warp.carry = (warp.carry & ~(uint64_t{1} << lane)) | uint64_t{carry_out} << lane;
  }
  return static_cast<W>(sum);
}
template <typename T, bool subtracts, bool reads>
void add_carry(Warp& warp, const Op& op, Mask mask) {
  const auto *a = warp.lanes_of<const T>(op.a), *b = warp.lanes_of<const T>(op.b);
  auto* d = warp.lanes_of<T>(op.d);
  for_each_lane(mask, [&](int lane) {
    const bool carry_in = reads ? (warp.carry >> lane & 1) != 0 : subtracts;
    d[lane] = sum_with_carry<T>(warp, op, lane, a[lane], subtracts ? ~b[lane] : b[lane], carry_in);
  });
}
template <typename T, bool high, bool reads>
void mad_carry(Warp& warp, const Op& op, Mask mask) {
  const auto *a = warp.lanes_of<const RegisterWord<T>>(op.a), *b = warp.lanes_of<const RegisterWord<T>>(op.b),
             *c = warp.lanes_of<const RegisterWord<T>>(op.c);
  auto* d = warp.lanes_of<RegisterWord<T>>(op.d);
  for_each_lane(mask, [&](int lane) {
    const RegisterWord<T> product = high ? mul_hi_of<T>(a[lane], b[lane]) : mul_lo_of<T>(a[lane], b[lane]);
    d[lane] = sum_with_carry<RegisterWord<T>>(warp, op, lane, product, c[lane], reads && (warp.carry >> lane & 1) != 0);
  });
}

/// The function for a 16-, 32- or 64-bit type: function_of(T()) for its integer T.
template <typename FunctionOf>
Run for_integer(Type type, const FunctionOf& function_of) {
  switch (type) {
    case Type::u16:
    case Type::b16: return function_of(uint16_t());
    case Type::s16: return function_of(int16_t());
    case Type::u32:
    case Type::b32: return function_of(uint32_t());
    case Type::s32: return function_of(int32_t());
    case Type::u64:
    case Type::b64: return function_of(uint64_t());
    case Type::s64: return function_of(int64_t());
    default: return nullptr;
  }
}
/// The same for the types that have one of twice their width.
template <typename FunctionOf>
Run for_narrow(Type type, const FunctionOf& function_of) {
  switch (type) {
    case Type::u16: return function_of(uint16_t());
    case Type::s16: return function_of(int16_t());
    case Type::u32: return function_of(uint32_t());
    case Type::s32: return function_of(int32_t());
    default: return nullptr;
  }
}

Type require_type(Decoder& decoder, Words& words) {
  const auto type = words.take_type();
  if (!type) decoder.refuse("without a type that is known");
  return *type;
}

/// Emits an Op whose sources have type `type` and whose d has type `result`.
void emit_words(Decoder& decoder, const PtxInstruction& instruction, Run run, Type type, size_t sources, Type result) {
  if (!run) decoder.refuse(std::string("of .") + std::string(info(type).name));
  decoder.require_operands(instruction, sources + 1, sources + 1);
  uint32_t slots[4] = {};
  for (size_t i = 0; i < sources; ++i) slots[i] = decoder.read(instruction.operands[i + 1], type);
  const uint32_t d = decoder.write(instruction.operands[0], result);
  Op& op = decoder.emit(run);
  op.d = d, op.a = slots[0], op.b = slots[1], op.c = slots[2], op.e = slots[3];
}

using MaskFunction = Mask (*)(Mask a, Mask b);
template <MaskFunction f>
void map_masks(Warp& warp, const Op& op, Mask mask) {
  set_mask(warp, op.d, mask, f(warp.mask_of(op.a), warp.mask_of(op.b)));
}
constexpr Mask mask_and(Mask a, Mask b) { return a & b; }
constexpr Mask mask_or(Mask a, Mask b) { return a | b; }
constexpr Mask mask_xor(Mask a, Mask b) { return a ^ b; }
constexpr Mask mask_not(Mask a, Mask) { return ~a; }
constexpr Mask same_mask(Mask a, Mask) { return a; }

/// Decodes and, or, xor, not and mov of predicates. False if the type is not .pred.
bool decode_masks(Decoder& decoder, const PtxInstruction& instruction, Words& words, Run run, size_t sources) {
  if (!words.take(Word::pred)) return false;
  decoder.require_operands(instruction, sources + 1, sources + 1);
  const uint32_t a = decoder.read_mask(instruction.operands[1]);
  const uint32_t b = sources == 2 ? decoder.read_mask(instruction.operands[2]) : a;
  const uint32_t d = decoder.write_mask(instruction.operands[0]);
  Op& op = decoder.emit(run);
  op.d = d, op.a = a, op.b = b;
  return true;
}

/// The sums of both halves; s16x2 and u16x2 wrap identically.
constexpr uint32_t pair_add(uint32_t a, uint32_t b) {
  return ((a & 0xFFFF0000) + (b & 0xFFFF0000)) | ((a + b) & 0xFFFF);
}

void decode_add(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  // PTX has no sub for pairs.
  if (words.name() == Word::add && words.take_one({Word::s16x2, Word::u16x2}) != Word::none)
    return emit_words(decoder, instruction, map<pair_add>, Type::b32, 2, Type::b32);
  const Type type = require_type(decoder, words);
  if (is_floating(type)) return decode_float(decoder, instruction, words, type);
  const bool subtracts = words.name() == Word::sub;
  if (words.take(Word::cc)) {
    const bool wide = bytes_of(type) == 8;
    Run run = wide ? (subtracts ? add_carry<uint64_t, true, false> : add_carry<uint64_t, false, false>)
                   : (subtracts ? add_carry<uint32_t, true, false> : add_carry<uint32_t, false, false>);
    if (bytes_of(type) < 4) run = nullptr;
    emit_words(decoder, instruction, run, type, 2, type);
    decoder.program().ops.back().writes_carry = true;
    return;
  }
  Run run = subtracts ? for_integer(type, []<typename T>(T) -> Run { return map<sub_of<T>>; })
                      : for_integer(type, []<typename T>(T) -> Run { return map<add_of<T>>; });
  if (words.take(Word::sat))
    run = type != Type::s32 ? Run{} : subtracts ? map<sub_sat_of<int32_t>> : map<add_sat_of<int32_t>>;
  emit_words(decoder, instruction, run, type, 2, type);
}

void decode_addc(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const Type type = require_type(decoder, words);
  const bool writes = words.take(Word::cc), subtracts = words.name() == Word::subc, wide = bytes_of(type) == 8;
  Run run = wide ? (subtracts ? add_carry<uint64_t, true, true> : add_carry<uint64_t, false, true>)
                 : (subtracts ? add_carry<uint32_t, true, true> : add_carry<uint32_t, false, true>);
  if (bytes_of(type) < 4 || is_floating(type)) run = nullptr;
  emit_words(decoder, instruction, run, type, 2, type);
  decoder.program().ops.back().writes_carry = writes;
}

Type twice(Type type) {
  switch (type) {
    case Type::u16: return Type::u32;
    case Type::s16: return Type::s32;
    case Type::u32: return Type::u64;
    case Type::s32: return Type::s64;
    default: throw Refusal{"with .wide of this type"};
  }
}

void decode_mul(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const Type type = require_type(decoder, words);
  if (is_floating(type)) return decode_float(decoder, instruction, words, type);
  if (words.take(Word::wide))
    return emit_words(decoder, instruction, for_narrow(type, []<typename T>(T) -> Run { return map<mul_wide_of<T>>; }),
                      type, 2, twice(type));
  if (words.take(Word::hi))
    return emit_words(decoder, instruction, for_integer(type, []<typename T>(T) -> Run { return map<mul_hi_of<T>>; }),
                      type, 2, type);
  if (!words.take(Word::lo)) decoder.refuse("without .lo, .hi or .wide");
  emit_words(decoder, instruction, for_integer(type, []<typename T>(T) -> Run { return map<mul_lo_of<T>>; }), type, 2,
             type);
}

void decode_mad(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const Type type = require_type(decoder, words);
  if (is_floating(type)) return decode_float(decoder, instruction, words, type);
  decoder.require_operands(instruction, 4, 4);
  if (words.take(Word::wide)) {
    const Type result = twice(type);
    const uint32_t a = decoder.read(instruction.operands[1], type), b = decoder.read(instruction.operands[2], type),
                   c = decoder.read(instruction.operands[3], result),
                   d = decoder.write(instruction.operands[0], result);
    Op& op = decoder.emit(for_narrow(type, []<typename T>(T) -> Run { return map<mad_wide_of<T>>; }));
    op.d = d, op.a = a, op.b = b, op.c = c;
    return;
  }
  const bool high = words.take(Word::hi);
  if (!high && !words.take(Word::lo)) decoder.refuse("without .lo, .hi or .wide");
  const bool reads = words.name() == Word::madc, writes = words.take(Word::cc);
  if (reads || writes) {
    Run run = nullptr;
    if (type == Type::u32)
      run = high ? (reads ? mad_carry<uint32_t, true, true> : mad_carry<uint32_t, true, false>)
                 : (reads ? mad_carry<uint32_t, false, true> : mad_carry<uint32_t, false, false>);
    if (type == Type::s32)
      run = high ? (reads ? mad_carry<int32_t, true, true> : mad_carry<int32_t, true, false>)
                 : (reads ? mad_carry<int32_t, false, true> : mad_carry<int32_t, false, false>);
    if (type == Type::u64)
      run = high ? (reads ? mad_carry<uint64_t, true, true> : mad_carry<uint64_t, true, false>)
                 : (reads ? mad_carry<uint64_t, false, true> : mad_carry<uint64_t, false, false>);
    if (type == Type::s64)
      run = high ? (reads ? mad_carry<int64_t, true, true> : mad_carry<int64_t, true, false>)
                 : (reads ? mad_carry<int64_t, false, true> : mad_carry<int64_t, false, false>);
    emit_words(decoder, instruction, run, type, 3, type);
    decoder.program().ops.back().writes_carry = writes;
    return;
  }
  emit_words(decoder, instruction,
             high ? for_integer(type, []<typename T>(T) -> Run { return map<mad_hi_of<T>>; })
                  : for_integer(type, []<typename T>(T) -> Run { return map<mad_lo_of<T>>; }),
             type, 3, type);
}

void decode_24(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const Type type = require_type(decoder, words);
  if (!words.take(Word::lo)) decoder.refuse("without .lo");
  const bool adds = words.name() == Word::mad24;
  Run run = type == Type::u32   ? (adds ? map<mad24_of<uint32_t>> : map<mul24_of<uint32_t>>)
            : type == Type::s32 ? (adds ? map<mad24_of<int32_t>> : map<mul24_of<int32_t>>)
                                : Run{};
  emit_words(decoder, instruction, run, type, adds ? 3 : 2, type);
}

void decode_div(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const Type type = require_type(decoder, words);
  if (is_floating(type)) return decode_float(decoder, instruction, words, type);
  emit_words(decoder, instruction,
             words.name() == Word::rem ? for_integer(type, []<typename T>(T) -> Run { return map<rem_of<T>>; })
                                       : for_integer(type, []<typename T>(T) -> Run { return map<div_of<T>>; }),
             type, 2, type);
}

/// s16x2 and u16x2, each half by itself.
template <typename T, bool is_max, bool relu>
constexpr uint32_t pair_extreme(uint32_t a, uint32_t b) {
  uint32_t result = 0;
  for (int half = 0; half < 2; ++half) {
    const uint32_t x = a >> 16 * half & 0xFFFF, y = b >> 16 * half & 0xFFFF;
    uint32_t best = is_max ? max_of<T>(x, y) : min_of<T>(x, y);
    if (relu && static_cast<int16_t>(best) < 0) best = 0;
    result |= best << 16 * half;
  }
  return result;
}

void decode_extreme(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const bool is_max = words.name() == Word::max;
  if (const Word pair = words.take_one({Word::s16x2, Word::u16x2}); pair != Word::none) {
    const bool relu = words.take(Word::relu);
    const Run run = pair == Word::u16x2 ? (relu     ? Run{}
                                           : is_max ? map<pair_extreme<uint16_t, true, false>>
                                                    : map<pair_extreme<uint16_t, false, false>>)
                    : relu
                        ? (is_max ? map<pair_extreme<int16_t, true, true>> : map<pair_extreme<int16_t, false, true>>)
                        : (is_max ? map<pair_extreme<int16_t, true, false>> : map<pair_extreme<int16_t, false, false>>);
    return emit_words(decoder, instruction, run, Type::b32, 2, Type::b32);
  }
  const Type type = require_type(decoder, words);
  if (is_floating(type)) return decode_float(decoder, instruction, words, type);
  Run run = is_max ? for_integer(type, []<typename T>(T) -> Run { return map<max_of<T>>; })
                   : for_integer(type, []<typename T>(T) -> Run { return map<min_of<T>>; });
  if (words.take(Word::relu))
    run = type != Type::s32 ? Run{} : is_max ? map<max_relu_of<int32_t>> : map<min_relu_of<int32_t>>;
  emit_words(decoder, instruction, run, type, 2, type);
}

void decode_abs(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const Type type = require_type(decoder, words);
  if (is_floating(type)) return decode_float(decoder, instruction, words, type);
  Run run =
      words.name() == Word::neg ? for_integer(type, []<typename T>(T) -> Run { return map<neg_of<T>>; }) : nullptr;
  if (words.name() == Word::abs)
    run = type == Type::s16   ? map<abs_of<int16_t>>
          : type == Type::s32 ? map<abs_of<int32_t>>
          : type == Type::s64 ? map<abs_of<int64_t>>
                              : Run{};
  emit_words(decoder, instruction, run, type, 1, type);
}

void decode_sad(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const Type type = require_type(decoder, words);
  emit_words(decoder, instruction, for_integer(type, []<typename T>(T) -> Run { return map<sad_of<T>>; }), type, 3,
             type);
}

void decode_logic(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const Word name = words.name();
  if (decode_masks(decoder, instruction, words,
                   name == Word::and_  ? map_masks<mask_and>
                   : name == Word::or_ ? map_masks<mask_or>
                                       : map_masks<mask_xor>,
                   2))
    return;
  const Type type = require_type(decoder, words);
  emit_words(decoder, instruction,
             name == Word::and_  ? for_integer(type, []<typename T>(T) -> Run { return map<and_of<T>>; })
             : name == Word::or_ ? for_integer(type, []<typename T>(T) -> Run { return map<or_of<T>>; })
                                 : for_integer(type, []<typename T>(T) -> Run { return map<xor_of<T>>; }),
             type, 2, type);
}

void decode_not(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  if (words.name() == Word::not_ && decode_masks(decoder, instruction, words, map_masks<mask_not>, 1)) return;
  const Type type = require_type(decoder, words);
  emit_words(decoder, instruction,
             words.name() == Word::not_ ? for_integer(type, []<typename T>(T) -> Run { return map<not_of<T>>; })
                                        : for_integer(type, []<typename T>(T) -> Run { return map<cnot_of<T>>; }),
             type, 1, type);
}

void decode_shift(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const Type type = require_type(decoder, words);
  decoder.require_operands(instruction, 3, 3);
  const Run run = words.name() == Word::shl ? for_integer(type, []<typename T>(T) -> Run { return map<shl_of<T>>; })
                                            : for_integer(type, []<typename T>(T) -> Run { return map<shr_of<T>>; });
  if (!run) decoder.refuse("of this type");
  const uint32_t a = decoder.read(instruction.operands[1], type), b = decoder.read(instruction.operands[2], Type::u32),
                 d = decoder.write(instruction.operands[0], type);
  Op& op = decoder.emit(run);
  op.d = d, op.a = a, op.b = b;
}

void decode_shf(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  if (words.take_type() != Type::b32) decoder.refuse("without .b32");
  const bool left = words.take(Word::l);
  if (!left && !words.take(Word::r)) decoder.refuse("without .l or .r");
  const bool wrap = words.take(Word::wrap);
  if (!wrap && !words.take(Word::clamp)) decoder.refuse("without .wrap or .clamp");
  emit_words(decoder, instruction,
             left ? (wrap ? map<shf_l_wrap> : map<shf_l_clamp>) : (wrap ? map<shf_r_wrap> : map<shf_r_clamp>),
             Type::b32, 3, Type::b32);
}

/// The predicate of lop3.or and lop3.and: whether the word is not zero, with another predicate.
template <bool is_or>
void test_word(Warp& warp, const Op& op, Mask mask) {
  const auto* a = warp.lanes_of<const uint32_t>(op.a);
  Mask holds = 0;
  for (int lane = 0; lane < lanes; ++lane) holds |= Mask{a[lane] != 0} << lane;
  set_mask(warp, op.d, mask, is_or ? holds | warp.mask_of(op.c) : holds & warp.mask_of(op.c));
}

void decode_lop3(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  if (words.take_type() != Type::b32) decoder.refuse("without .b32");
  if (const Word combine = words.take_one({Word::or_, Word::and_}); combine != Word::none) {
    decoder.require_operands(instruction, 6, 6);
    const Operand& result = instruction.operands[0];
    if (result.kind != Kind::pair) decoder.refuse("without a predicate as its second result");
    if (instruction.operands[4].kind != Kind::integer) decoder.refuse("with a table that is not constant");
    const uint32_t a = decoder.read(instruction.operands[1], Type::b32),
                   b = decoder.read(instruction.operands[2], Type::b32),
                   c = decoder.read(instruction.operands[3], Type::b32), q = decoder.read_mask(instruction.operands[5]),
                   d = decoder.write(result.elements[0], Type::b32), p = decoder.write_mask(result.elements[1]);
    Op& op = decoder.emit(lop3);
    op.d = d, op.a = a, op.b = b, op.c = c;
    op.immediate = static_cast<int64_t>(instruction.operands[4].value & 0xFF);
    Op& test = decoder.emit(combine == Word::or_ ? test_word<true> : test_word<false>);
    test.d = p, test.a = d, test.c = q;
    return;
  }
  decoder.require_operands(instruction, 5, 5);
  if (instruction.operands[4].kind != Kind::integer) decoder.refuse("with a table that is not constant");
  const uint32_t a = decoder.read(instruction.operands[1], Type::b32),
                 b = decoder.read(instruction.operands[2], Type::b32),
                 c = decoder.read(instruction.operands[3], Type::b32),
                 d = decoder.write(instruction.operands[0], Type::b32);
  Op& op = decoder.emit(lop3);
  op.d = d, op.a = a, op.b = b, op.c = c;
  op.immediate = static_cast<int64_t>(instruction.operands[4].value & 0xFF);
}

void decode_prmt(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  if (words.take_type() != Type::b32) decoder.refuse("without .b32");
  const Word mode = words.take_one({Word::f4e, Word::b4e, Word::rc8, Word::ecl, Word::ecr, Word::rc16});
  const Run run = mode == Word::none  ? map<prmt_of>
                  : mode == Word::f4e ? map<prmt_mode_of<0>>
                  : mode == Word::b4e ? map<prmt_mode_of<1>>
                  : mode == Word::rc8 ? map<prmt_mode_of<2>>
                  : mode == Word::ecl ? map<prmt_mode_of<3>>
                  : mode == Word::ecr ? map<prmt_mode_of<4>>
                                      : map<prmt_mode_of<5>>;
  emit_words(decoder, instruction, run, Type::b32, 3, Type::b32);
}

void decode_count(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const Type type = require_type(decoder, words);
  const Word name = words.name();
  const Run run = name == Word::popc ? for_integer(type, []<typename T>(T) -> Run { return map<popc_of<T>>; })
                                     : for_integer(type, []<typename T>(T) -> Run { return map<clz_of<T>>; });
  emit_words(decoder, instruction, bytes_of(type) < 4 ? nullptr : run, type, 1, Type::u32);
}

void decode_bfind(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const Type type = require_type(decoder, words);
  const Run run = words.take(Word::shiftamt)
                      ? for_integer(type, []<typename T>(T) -> Run { return map<bfind_shift_of<T>>; })
                      : for_integer(type, []<typename T>(T) -> Run { return map<bfind_of<T>>; });
  emit_words(decoder, instruction, bytes_of(type) < 4 ? nullptr : run, type, 1, Type::u32);
}

void decode_brev(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const Type type = require_type(decoder, words);
  emit_words(decoder, instruction,
             bytes_of(type) < 4 ? nullptr : for_integer(type, []<typename T>(T) -> Run { return map<brev_of<T>>; }),
             type, 1, type);
}

void decode_bfe(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const Type type = require_type(decoder, words);
  decoder.require_operands(instruction, 4, 4);
  const Run run = for_integer(type, []<typename T>(T) -> Run { return map<bfe_of<T>>; });
  if (!run || bytes_of(type) < 4) decoder.refuse("of this type");
  const uint32_t a = decoder.read(instruction.operands[1], type), b = decoder.read(instruction.operands[2], Type::u32),
                 c = decoder.read(instruction.operands[3], Type::u32), d = decoder.write(instruction.operands[0], type);
  Op& op = decoder.emit(run);
  op.d = d, op.a = a, op.b = b, op.c = c;
}

void decode_bfi(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const Type type = require_type(decoder, words);
  decoder.require_operands(instruction, 5, 5);
  const Run run = for_integer(type, []<typename T>(T) -> Run { return map<bfi_of<T>>; });
  if (!run || bytes_of(type) < 4) decoder.refuse("of this type");
  const uint32_t a = decoder.read(instruction.operands[1], type), b = decoder.read(instruction.operands[2], type),
                 c = decoder.read(instruction.operands[3], Type::u32),
                 e = decoder.read(instruction.operands[4], Type::u32), d = decoder.write(instruction.operands[0], type);
  Op& op = decoder.emit(run);
  op.d = d, op.a = a, op.b = b, op.c = c, op.e = e;
}

void decode_dot(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const bool by_four = words.name() == Word::dp4a, high = !by_four && words.take(Word::hi);
  if (!by_four && !high && !words.take(Word::lo)) decoder.refuse("without .lo or .hi");
  const auto b_type = words.take_type(), a_type = words.take_type();
  const auto is_word = [](std::optional<Type> type) { return type == Type::u32 || type == Type::s32; };
  if (!is_word(a_type) || !is_word(b_type)) decoder.refuse("of these types");
  const bool a = is_signed(*a_type), b = is_signed(*b_type);
  Run run = a ? (b ? map<dp4a_of<true, true>> : map<dp4a_of<true, false>>)
              : (b ? map<dp4a_of<false, true>> : map<dp4a_of<false, false>>);
  if (!by_four && high)
    run = a ? (b ? map<dp2a_of<true, true, true>> : map<dp2a_of<true, false, true>>)
            : (b ? map<dp2a_of<false, true, true>> : map<dp2a_of<false, false, true>>);
  if (!by_four && !high)
    run = a ? (b ? map<dp2a_of<true, true, false>> : map<dp2a_of<true, false, false>>)
            : (b ? map<dp2a_of<false, true, false>> : map<dp2a_of<false, false, false>>);
  emit_words(decoder, instruction, run, Type::b32, 3, Type::b32);
}

void decode_bmsk(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  if (words.take_type() != Type::b32) decoder.refuse("without .b32");
  const bool clamps = words.take(Word::clamp);
  if (!clamps && !words.take(Word::wrap)) decoder.refuse("without .clamp or .wrap");
  emit_words(decoder, instruction, clamps ? map<bmsk_clamp> : map<bmsk_wrap>, Type::b32, 2, Type::b32);
}

void decode_szext(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const bool is_signed_value = words.take_type() == Type::s32, clamps = words.take(Word::clamp);
  if (!clamps && !words.take(Word::wrap)) decoder.refuse("without .clamp or .wrap");
  emit_words(decoder, instruction,
             clamps ? (is_signed_value ? map<szext_of<true, true>> : map<szext_of<true, false>>)
                    : (is_signed_value ? map<szext_of<false, true>> : map<szext_of<false, false>>),
             Type::b32, 2, Type::b32);
}

template <int bits, bool appends>
Run cvt_pack_run(bool is_signed_type) {
  return is_signed_type ? map<cvt_pack_of<bits, true, appends>> : map<cvt_pack_of<bits, false, appends>>;
}

void decode_fns(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  words.take_type();
  emit_words(decoder, instruction, map<fns_of>, Type::b32, 3, Type::b32);
}

enum class Comparison : uint8_t { eq, ne, lt, le, gt, ge };
template <typename T, Comparison how>
constexpr bool compare(RegisterWord<T> a, RegisterWord<T> b) {
  const T x = static_cast<T>(a), y = static_cast<T>(b);
  switch (how) {
    case Comparison::eq: return x == y;
    case Comparison::ne: return x != y;
    case Comparison::lt: return x < y;
    case Comparison::le: return x <= y;
    case Comparison::gt: return x > y;
    default: return x >= y;
  }
}

template <auto f>
BITMMA_INLINE void set_predicate(Warp& warp, const Op& op, Mask mask) {
  const Mask holds = test<f>(warp, op);
  set_comparison(warp, op, mask, holds, ~holds);
}

template <typename T>
Run comparison_of(Word how) {
  using enum Comparison;
  if (how == Word::eq) return at_levels<set_predicate<compare<T, eq>>>;
  if (how == Word::ne) return at_levels<set_predicate<compare<T, ne>>>;
  if (how == Word::lt || how == Word::lo) return at_levels<set_predicate<compare<T, lt>>>;
  if (how == Word::le || how == Word::ls) return at_levels<set_predicate<compare<T, le>>>;
  if (how == Word::gt || how == Word::hi) return at_levels<set_predicate<compare<T, gt>>>;
  return at_levels<set_predicate<compare<T, ge>>>;
}

void decode_setp(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const Type type = require_type(decoder, words);
  if (is_floating(type)) return decode_float_compare(decoder, instruction, words, type);
  const Combine combine = take_combine(words);
  const Word how = words.take_one(
      {Word::eq, Word::ne, Word::lt, Word::le, Word::gt, Word::ge, Word::lo, Word::ls, Word::hi, Word::hs});
  if (how == Word::none) decoder.refuse("without a comparison");
  const size_t operands = combine == Combine::none ? 3 : 4;
  decoder.require_operands(instruction, operands, operands);
  const bool is_unsigned = how == Word::lo || how == Word::ls || how == Word::hi || how == Word::hs;
  Run run = nullptr;
  switch (type) {
    case Type::u16:
    case Type::b16: run = comparison_of<uint16_t>(how); break;
    case Type::s16: run = comparison_of<int16_t>(how); break;
    case Type::u32:
    case Type::b32: run = comparison_of<uint32_t>(how); break;
    case Type::s32: run = comparison_of<int32_t>(how); break;
    case Type::u64:
    case Type::b64: run = comparison_of<uint64_t>(how); break;
    case Type::s64: run = comparison_of<int64_t>(how); break;
    default: decoder.refuse("of this type");
  }
  const bool is_of_bits = info(type).kind == TypeClass::bits;
  if (is_unsigned && (is_signed(type) || is_of_bits)) decoder.refuse("an unsigned comparison of a signed type");
  if (is_of_bits && how != Word::eq && how != Word::ne) decoder.refuse("an order of bits");
  const Operand& result = instruction.operands[0];
  const bool has_two = result.kind == Kind::pair;
  const uint32_t a = decoder.read(instruction.operands[1], type), b = decoder.read(instruction.operands[2], type);
  const uint32_t c = combine == Combine::none ? 0 : decoder.read_mask(instruction.operands[3]);
  const uint32_t d = decoder.write_mask(has_two ? result.elements[0] : result),
                 d2 = has_two ? decoder.write_mask(result.elements[1]) : Op::no_slot;
  Op& op = decoder.emit(run);
  op.d = d, op.d2 = d2, op.a = a, op.b = b, op.c = c, op.combine = combine;
}

template <typename W>
BITMMA_INLINE void select_words(Warp& warp, const Op& op, Mask mask) {
  const auto *a = warp.lanes_of<const W>(op.a), *b = warp.lanes_of<const W>(op.b);
  auto* d = warp.lanes_of<W>(op.d);
  const Mask takes_a = warp.mask_of(op.c);
  W results[lanes];
  for (int lane = 0; lane < lanes; ++lane) results[lane] = (takes_a >> lane & 1) != 0 ? a[lane] : b[lane];
  set_lanes(d, mask, results);
}
void decode_selp(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  decoder.require_operands(instruction, 4, 4);
  const Type type = require_type(decoder, words);
  const uint32_t a = decoder.read(instruction.operands[1], type), b = decoder.read(instruction.operands[2], type),
                 c = decoder.read_mask(instruction.operands[3]), d = decoder.write(instruction.operands[0], type);
  Op& op = decoder.emit(bytes_of(type) == 8 ? at_levels<select_words<uint64_t>> : at_levels<select_words<uint32_t>>);
  op.d = d, op.a = a, op.b = b, op.c = c;
}

template <typename T>
constexpr RegisterWord<T> same(RegisterWord<T> a) {
  return a;
}
/// Low and high halves of words.
constexpr uint32_t low_half(uint32_t a) { return a & 0xFFFF; }
constexpr uint32_t high_half(uint32_t a) { return a >> 16; }
constexpr uint32_t low_word(uint64_t a) { return static_cast<uint32_t>(a); }
constexpr uint32_t high_word(uint64_t a) { return static_cast<uint32_t>(a >> 32); }
constexpr uint32_t join_halves(uint32_t a, uint32_t b) { return (a & 0xFFFF) | b << 16; }
constexpr uint64_t join_words(uint32_t a, uint32_t b) { return uint64_t{b} << 32 | a; }
constexpr uint32_t quarter_of_64(uint64_t a, uint32_t which) { return static_cast<uint32_t>(a >> 16 * which & 0xFFFF); }
constexpr uint64_t join_quarters(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return uint64_t{a & 0xFFFF} | uint64_t{b & 0xFFFF} << 16 | uint64_t{c & 0xFFFF} << 32 | uint64_t{d & 0xFFFF} << 48;
}
constexpr uint32_t join_byte_pair(uint32_t a, uint32_t b) { return (a & 0xFF) | (b & 0xFF) << 8; }
constexpr uint32_t byte_of(uint32_t a, uint32_t which) { return a >> 8 * which & 0xFF; }
constexpr uint32_t join_bytes(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return (a & 0xFF) | (b & 0xFF) << 8 | (c & 0xFF) << 16 | (d & 0xFF) << 24;
}

/// Between registers of 128 bits and two of 64.
template <bool from_wide, bool to_wide>
void move_128(Warp& warp, const Op& op, Mask mask) {
  const auto *a = warp.lanes_of<const uint64_t>(op.a), *b = warp.lanes_of<const uint64_t>(op.b);
  auto *d = warp.lanes_of<uint64_t>(op.d), *e = to_wide ? nullptr : warp.lanes_of<uint64_t>(op.d2);
  const auto stride = [](bool wide, int lane) { return wide ? 2 * lane : lane; };
  for_each_lane(mask, [&](int lane) {
    const uint64_t low = a[stride(from_wide, lane)], high = from_wide ? a[2 * lane + 1] : b[lane];
    d[stride(to_wide, lane)] = low;
    if constexpr (to_wide) d[2 * lane + 1] = high;
    else e[lane] = high;
  });
}

/// mov between one register and a vector of narrower ones.
void decode_unpack(Decoder& decoder, const PtxInstruction& instruction, Type type) {
  const auto& parts = instruction.operands[0].elements;
  if (type == Type::b128 && parts.size() == 2) {
    const uint32_t a = decoder.read(instruction.operands[1], Type::b128), d = decoder.write(parts[0], Type::b64),
                   e = decoder.write(parts[1], Type::b64);
    Op& op = decoder.emit(move_128<true, false>);
    op.a = a, op.d = d, op.d2 = e;
    return;
  }
  uint32_t a = decoder.read(instruction.operands[1], type);
  const auto part = [&](size_t i, Run run, Type narrow, bool by_number) {
    const uint32_t d = decoder.write(parts[i], narrow), which = by_number ? decoder.constant(i, 4) : 0;
    Op& op = decoder.emit(run);
    op.a = a, op.b = which, op.d = d;
  };
  if (bytes_of(type) == 4 && parts.size() == 2) {
    // A part may be the source register itself.
    const bool overwrites = parts[0].kind == Kind::reg && instruction.operands[1].kind == Kind::reg &&
                            parts[0].reg == instruction.operands[1].reg;
    if (overwrites) decoder.refuse("into the register that is read");
    part(0, map<low_half>, Type::b16, false);
    part(1, map<high_half>, Type::b16, false);
  } else if (bytes_of(type) == 8 && parts.size() == 2) {
    part(0, map<low_word>, Type::b32, false);
    part(1, map<high_word>, Type::b32, false);
  } else if (bytes_of(type) == 8 && parts.size() == 4) {
    for (size_t i = 0; i < 4; ++i) part(i, map<quarter_of_64>, Type::b16, true);
  } else if ((bytes_of(type) == 4 && parts.size() == 4) || (bytes_of(type) == 2 && parts.size() == 2)) {
    for (size_t i = 0; i < parts.size(); ++i) part(i, map<byte_of>, Type::b8, true);
  } else {
    decoder.refuse("a vector of this size");
  }
}

void decode_pack(Decoder& decoder, const PtxInstruction& instruction, Type type) {
  const auto& parts = instruction.operands[1].elements;
  const int bits = info(type).bits;
  if (type == Type::b128 && parts.size() == 2) {
    const uint32_t a = decoder.read(parts[0], Type::b64), b = decoder.read(parts[1], Type::b64),
                   d = decoder.write(instruction.operands[0], Type::b128);
    Op& op = decoder.emit(move_128<false, true>);
    op.a = a, op.b = b, op.d = d;
    return;
  }
  Run run = nullptr;
  Type narrow = Type::b16;
  if (bits == 32 && parts.size() == 2) run = map<join_halves>;
  else if (bits == 64 && parts.size() == 2) run = map<join_words>, narrow = Type::b32;
  else if (bits == 64 && parts.size() == 4) run = map<join_quarters>;
  else if (bits == 32 && parts.size() == 4) run = map<join_bytes>, narrow = Type::b8;
  else if (bits == 16 && parts.size() == 2) run = map<join_byte_pair>, narrow = Type::b8;
  else decoder.refuse("a vector of this size");
  uint32_t slots[4] = {};
  for (size_t i = 0; i < parts.size(); ++i) slots[i] = decoder.read(parts[i], narrow);
  const uint32_t d = decoder.write(instruction.operands[0], type);
  Op& op = decoder.emit(run);
  op.d = d, op.a = slots[0], op.b = slots[1], op.c = slots[2], op.e = slots[3];
}

void decode_mov(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  decoder.require_operands(instruction, 2, 2);
  if (decode_masks(decoder, instruction, words, map_masks<same_mask>, 1)) return;
  const Type type = require_type(decoder, words);
  const bool is_split = instruction.operands[0].kind == Kind::vector || instruction.operands[1].kind == Kind::vector;
  if (is_split && info(type).kind != TypeClass::bits) decoder.refuse("of a vector and this type");
  if (instruction.operands[0].kind == Kind::vector) return decode_unpack(decoder, instruction, type);
  if (instruction.operands[1].kind == Kind::vector) return decode_pack(decoder, instruction, type);
  const uint32_t a = decoder.read(instruction.operands[1], type), d = decoder.write(instruction.operands[0], type);
  Op& op = decoder.emit(type == Type::b128    ? Run{move_128<true, true>}
                        : bytes_of(type) == 8 ? Run{map<same<uint64_t>>}
                                              : Run{map<same<uint32_t>>});
  op.a = a, op.d = d;
}

// --- set

struct SetDetails {
  uint32_t yes = 0, second_yes = 0;  // the word of a comparison that holds; of the second of a pair
};
void run_set(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const SetDetails*>(op.details);
  const Mask first = warp.mask_of(op.a), second = details.second_yes == 0 ? 0 : warp.mask_of(op.b);
  for_each_lane(mask, [&](int lane) {
    warp.lanes_of<uint32_t>(op.d)[lane] =
        ((first >> lane & 1) != 0 ? details.yes : 0) | ((second >> lane & 1) != 0 ? details.second_yes : 0);
  });
}

/// The word of true: 1.0 of a floating-point type, all bits of another. Nothing for a type that set does not give.
std::optional<uint32_t> true_word(Type type) {
  switch (type) {
    case Type::u16:
    case Type::s16: return 0xFFFF;
    case Type::u32:
    case Type::s32: return 0xFFFFFFFF;
    case Type::f32: return 0x3F800000;
    case Type::f16: return 0x3C00;
    case Type::bf16: return 0x3F80;
    case Type::f16x2: return 0x3C003C00;
    case Type::bf16x2: return 0x3F803F80;
    default: return std::nullopt;
  }
}

/// "set.lt.and.u32.f32 d, a, b, p;" compares as setp.lt.and.f32 does. The last word is the type of the sources, the one
/// before it that of the result.
void decode_set(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const auto source = words.take_type(), result = words.take_type();
  const auto yes = result ? true_word(*result) : std::nullopt;
  if (!source || !yes) decoder.refuse("of these types");
  const bool is_of_pairs = *source == Type::f16x2 || *source == Type::bf16x2, is_pair = bytes_of(*result) == 4;
  const bool is_narrow = *source == Type::f16 || *source == Type::bf16;
  const bool is_own = *result == *source;  // of f16, bf16 and their pairs
  if (is_of_pairs ? !is_pair || (*result == Type::f32) || (is_floating(*result) && !is_own)
                  : is_floating(*result) && *result != Type::f32 && !(is_narrow && is_own))
    decoder.refuse("of these types");
  if (bytes_of(*result) == 2 && !is_narrow) decoder.refuse("of these types");
  decoder.require_operands(instruction, 3, 4);
  PtxInstruction comparison = instruction;
  std::vector<Word> name = instruction.words;
  name.front() = Word::setp;
  name.erase(name.end() - 2);
  become(comparison, std::move(name));
  const Operand sink{.kind = Kind::sink};
  comparison.operands.front() = is_of_pairs ? Operand{.kind = Kind::pair, .elements = {sink, sink}} : sink;
  Words of_comparison(comparison);
  decode_setp(decoder, comparison, of_comparison);
  if (const std::string left = of_comparison.left(); !left.empty()) decoder.refuse(fmt::format("with {}", left));
  words.take_all();
  const Op compared = decoder.program().ops.back();
  const auto* details = decoder.keep(
      SetDetails{.yes = is_of_pairs ? *yes & 0xFFFF : *yes, .second_yes = is_of_pairs ? *yes & 0xFFFF0000 : 0});
  const uint32_t d = decoder.write(instruction.operands[0], *result);
  Op& op = decoder.emit(run_set);
  op.details = details;
  op.d = d, op.a = compared.d, op.b = compared.d2;
}

using namespace type_sets;
constexpr auto integer_rows = std::to_array<Opcode>({
    {.name = Word::add,
     .does = "the sum a + b",
     .decode = decode_add,
     .types = integers | sums_of_floats,
     .contraction = Contraction::sum,
     .folds = integers | singles},
    {.name = Word::sub,
     .does = "the difference a - b",
     .decode = decode_add,
     .types = integers | sums_of_floats,
     .contraction = Contraction::difference,
     .folds = integers | singles},
    {.name = Word::addc, .does = "the sum a + b and the carry flag", .decode = decode_addc, .types = wide_integers},
    {.name = Word::subc,
     .does = "the difference a - b with the borrow of the carry flag",
     .decode = decode_addc,
     .types = wide_integers},
    {.name = Word::mul,
     .does = "the product a * b: its low half, high half, or all of it",
     .decode = decode_mul,
     .types = integers | sums_of_floats,
     .contraction = Contraction::product,
     .folds = integers | singles,
     .folds_if = is_folded_product},
    {.name = Word::mad, .does = "a * b + c", .decode = decode_mad, .types = integers | singles, .folds = integers},
    {.name = Word::madc, .does = "a * b + c and the carry flag", .decode = decode_mad, .types = wide_integers},
    {.name = Word::mul24,
     .does = "the product of the low 24 bits of a and b",
     .decode = decode_24,
     .types = TypeSet{Type::u32, Type::s32}},
    {.name = Word::mad24,
     .does = "the product of the low 24 bits of a and b, plus c",
     .decode = decode_24,
     .types = TypeSet{Type::u32, Type::s32}},
    {.name = Word::div,
     .does = "the quotient a / b",
     .decode = decode_div,
     .types = integers | singles,
     .contraction = Contraction::quotient,
     .ends_block = is_slow_division},
    {.name = Word::rem,
     .does = "the remainder of a / b",
     .decode = decode_div,
     .types = integers,
     .ends_block = is_slow_division},
    {.name = Word::min,
     .does = "the smaller of the operands",
     .decode = decode_extreme,
     .types = integers | floats,
     .is_idempotent = true,
     .folds = integers | singles,
     .folds_if = has_two_sources},
    {.name = Word::max,
     .does = "the greater of the operands",
     .decode = decode_extreme,
     .types = integers | floats,
     .is_idempotent = true,
     .folds = integers | singles,
     .folds_if = has_two_sources},
    {.name = Word::abs,
     .does = "the absolute value",
     .decode = decode_abs,
     .types = signed_integers | floats,
     .passes = Passes::absolute,
     .folds = signed_integers | singles | TypeSet{Type::f16x2}},
    {.name = Word::neg,
     .does = "the negative",
     .decode = decode_abs,
     .types = signed_integers | floats,
     .passes = Passes::negated,
     .folds = signed_integers | floats},
    {.name = Word::sad, .does = "c + |a - b|", .decode = decode_sad, .types = integers, .folds = integers},
    {.name = Word::and_,
     .does = "the bits that both operands have",
     .decode = decode_logic,
     .types = bits_16_to_64 | TypeSet{Type::pred},
     .passing_operands = 2,
     .folds = bits_16_to_64 | TypeSet{Type::pred}},
    {.name = Word::or_,
     .does = "the bits that one of the operands has",
     .decode = decode_logic,
     .types = bits_16_to_64 | TypeSet{Type::pred},
     .passing_operands = 2,
     .folds = bits_16_to_64 | TypeSet{Type::pred}},
    {.name = Word::xor_,
     .does = "the bits that exactly one operand has",
     .decode = decode_logic,
     .types = bits_16_to_64 | TypeSet{Type::pred},
     .passing_operands = 2,
     .folds = bits_16_to_64 | TypeSet{Type::pred}},
    {.name = Word::not_,
     .does = "the bits inverted",
     .decode = decode_not,
     .types = bits_16_to_64 | TypeSet{Type::pred},
     .passing_operands = 1,
     .folds = bits_16_to_64 | TypeSet{Type::pred}},
    {.name = Word::cnot,
     .does = "1 if a is 0, otherwise 0",
     .decode = decode_not,
     .types = bits_16_to_64,
     .folds = bits_16_to_64},
    {.name = Word::shl,
     .does = "a shifted left by b bits",
     .decode = decode_shift,
     .types = bits_16_to_64,
     .passing_operands = 1,
     .folds = bits_16_to_64},
    {.name = Word::shr,
     .does = "a shifted right by b bits, filled with the sign of a signed type",
     .decode = decode_shift,
     .types = bits_16_to_64 | integers,
     .passing_operands = 1,
     .folds = bits_16_to_64 | integers},
    {.name = Word::shf,
     .does = "32 bits of the pair b:a, shifted left or right by c",
     .decode = decode_shf,
     .types = TypeSet{Type::b32},
     .passing_operands = 2,
     .folds = TypeSet{Type::b32}},
    {.name = Word::lop3,
     .does = "a bitwise function of three words, by a table of 8 bits",
     .decode = decode_lop3,
     .types = TypeSet{Type::b32},
     .passing_operands = 3},
    {.name = Word::prmt,
     .does = "four bytes picked from the pair b:a",
     .decode = decode_prmt,
     .types = TypeSet{Type::b32},
     .passing_operands = 2},
    {.name = Word::popc,
     .does = "the number of one bits",
     .decode = decode_count,
     .types = bits_32_and_64,
     .folds = bits_32_and_64},
    {.name = Word::clz,
     .does = "the number of leading zero bits",
     .decode = decode_count,
     .types = bits_32_and_64,
     .folds = bits_32_and_64},
    {.name = Word::bfind,
     .does = "the place of the highest bit that is not the sign",
     .decode = decode_bfind,
     .types = wide_integers,
     .folds = wide_integers},
    {.name = Word::brev,
     .does = "the bits in reverse order",
     .decode = decode_brev,
     .types = bits_32_and_64,
     .passing_operands = 1,
     .folds = bits_32_and_64},
    {.name = Word::bfe,
     .does = "a bit field of a, extended by its sign for a signed type",
     .decode = decode_bfe,
     .types = wide_integers,
     .passing_operands = 1,
     .folds = wide_integers},
    {.name = Word::bfi,
     .does = "b with a bit field replaced by a",
     .decode = decode_bfi,
     .types = bits_32_and_64,
     .passing_operands = 2,
     .folds = bits_32_and_64},
    {.name = Word::dp4a,
     .does = "c plus the products of four bytes",
     .decode = decode_dot,
     .types = TypeSet{Type::u32, Type::s32}},
    {.name = Word::dp2a,
     .does = "c plus the products of two halves with two bytes",
     .decode = decode_dot,
     .types = TypeSet{Type::u32, Type::s32}},
    {.name = Word::szext,
     .does = "the low b bits of a, sign- or zero-extended",
     .decode = decode_szext,
     .types = TypeSet{Type::u32, Type::s32}},
    {.name = Word::fns, .does = "the place of the n-th set bit", .decode = decode_fns, .types = TypeSet{Type::b32}},
    {.name = Word::bmsk, .does = "a mask of b bits from bit a on", .decode = decode_bmsk, .types = TypeSet{Type::b32}},
    {.name = Word::setp,
     .does = "a predicate by a comparison, combined with another predicate",
     .decode = decode_setp,
     .types = scalars | floats,
     .may_drop = may_drop,
     .folds = scalars},
    {.name = Word::selp,
     .does = "a or b, as a predicate says",
     .decode = decode_selp,
     .types = scalars,
     .passing_operands = 2,
     .selects = true,
     .folds = scalars},
    {.name = Word::mov,
     .does = "a copy of a register, a number or an address; packs and unpacks vectors",
     .decode = decode_mov,
     .types = scalars | TypeSet{Type::pred, Type::b128},
     .passing_operands = 1,
     .passes = Passes::value,
     .folds = scalars | TypeSet{Type::pred, Type::b128}},
    {.name = Word::set,
     .does = "a number by a comparison: all bits, 1.0 or 0",
     .decode = decode_set,
     .types = scalars | floats},
});

}  // namespace

void decode_cvt_pack(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  struct Row {
    Word type;
    bool is_signed_type;
    Run (*appending)(bool);
    Run (*single)(bool);
  };
  static constexpr auto rows = std::to_array<Row>({
      {Word::u16, false, nullptr, cvt_pack_run<16, false>},
      {Word::s16, true, nullptr, cvt_pack_run<16, false>},
      {Word::u8, false, cvt_pack_run<8, true>, nullptr},
      {Word::s8, true, cvt_pack_run<8, true>, nullptr},
      {Word::u4, false, cvt_pack_run<4, true>, nullptr},
      {Word::s4, true, cvt_pack_run<4, true>, nullptr},
      {Word::u2, false, cvt_pack_run<2, true>, nullptr},
      {Word::s2, true, cvt_pack_run<2, true>, nullptr},
  });
  if (!words.take(Word::sat)) decoder.refuse("without .sat");
  const bool appends = words.take(Word::b32);
  if (!words.take(Word::s32)) decoder.refuse("of other types than .s32");
  for (const Row& row : rows) {
    const auto run = appends ? row.appending : row.single;
    if (!run || !words.take(row.type)) continue;
    return emit_words(decoder, instruction, run(row.is_signed_type), Type::b32, appends ? 3 : 2, Type::b32);
  }
  decoder.refuse("to this type");
}

std::span<const Opcode> integer_opcodes() { return integer_rows; }

}  // namespace bitmma::kernel
