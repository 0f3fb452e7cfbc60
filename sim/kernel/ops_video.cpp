// SPDX-License-Identifier: MIT
// Video instructions. PTX ISA, sections "Scalar Video Instructions", on a word or a part of it, and "SIMD Video
// Instructions", on two 16-bit or four 8-bit numbers in a word.
//
//   vadd.s32.u32.s32.sat.max %r3, %r1.b0, %r2.h1, %r4;    r3 = max(r4, r1.b0 + r2.h1)
//   vabsdiff4.u32.u32.u32.add %r3, %r1, %r2, %r4;         r3 = r4 + the sum of |r1[i] - r2[i]|
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "bitmma/core/bits.hpp"
#include "decode.hpp"
#include "lanes.hpp"

namespace bitmma::kernel {
namespace {

using Kind = Operand::Kind;

enum class Video : uint8_t { add, sub, average, absolute_difference, min, max, set, shift_left, shift_right, multiply };

struct VideoRow {
  Word name;
  Video operation;
  int parts;  // numbers in a word
};
constexpr auto video_instructions = std::to_array<VideoRow>({
    {Word::vadd2, Video::add, 2},
    {Word::vadd4, Video::add, 4},
    {Word::vsub2, Video::sub, 2},
    {Word::vsub4, Video::sub, 4},
    {Word::vavrg2, Video::average, 2},
    {Word::vavrg4, Video::average, 4},
    {Word::vabsdiff2, Video::absolute_difference, 2},
    {Word::vabsdiff4, Video::absolute_difference, 4},
    {Word::vmin2, Video::min, 2},
    {Word::vmin4, Video::min, 4},
    {Word::vmax2, Video::max, 2},
    {Word::vmax4, Video::max, 4},
    {Word::vset2, Video::set, 2},
    {Word::vset4, Video::set, 4},
});

struct VideoDetails {
  Video operation = Video::add;
  int parts = 4;
  bool a_signed = false, b_signed = false, d_signed = false;
  bool saturates = false, accumulates = false;
  Word comparison = Word::none;  // of vset
  // Of each part of the result: the part of {b, a} that is its operand, and whether it is written; others are c's.
  std::array<uint8_t, 4> a_places = {}, b_places = {};
  uint8_t writes = 0;
};

bool holds(Word comparison, int64_t a, int64_t b) {
  switch (comparison) {
    case Word::eq: return a == b;
    case Word::ne: return a != b;
    case Word::lt: return a < b;
    case Word::le: return a <= b;
    case Word::gt: return a > b;
    default: return a >= b;
  }
}

/// The operation on two numbers of `bits` bits, before it is stored.
int64_t value_of(const VideoDetails& details, int64_t a, int64_t b) {
  switch (details.operation) {
    case Video::add: return a + b;
    case Video::sub: return a - b;
    case Video::average: {
      // Rounds half away from zero for signed sums, up for unsigned ones. PTX ISA, vavrg2.
      const int64_t sum = a + b;
      return sum >= 0 ? (sum + 1) >> 1 : sum >> 1;
    }
    case Video::absolute_difference: return a > b ? a - b : b - a;
    case Video::min: return std::min(a, b);
    case Video::max: return std::max(a, b);
    case Video::set: return holds(details.comparison, a, b) ? 1 : 0;
    default: return 0;
  }
}

/// A number of `bits` bits.
constexpr int64_t extended(uint64_t code, int bits, bool is_signed) {
  const uint64_t low = code & low_mask(bits);
  return is_signed ? static_cast<int64_t>(low << (64 - bits)) >> (64 - bits) : static_cast<int64_t>(low);
}
constexpr int64_t saturated(int64_t value, int bits, bool is_signed) {
  return is_signed ? std::clamp(value, -(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1)
                   : std::clamp<int64_t>(value, 0, static_cast<int64_t>(low_mask(bits)));
}

void run_video(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const VideoDetails*>(op.details);
  const auto *a = warp.lanes_of<const uint32_t>(op.a), *b = warp.lanes_of<const uint32_t>(op.b),
             *c = warp.lanes_of<const uint32_t>(op.c);
  auto* d = warp.lanes_of<uint32_t>(op.d);
  const int bits = 32 / details.parts;
  for_each_lane(mask, [&](int lane) {
    const uint64_t both = uint64_t{b[lane]} << 32 | a[lane];
    const auto number = [&](uint8_t place, bool is_signed) { return extended(both >> bits * place, bits, is_signed); };
    uint32_t word = 0;
    int64_t sum = extended(c[lane], 32, details.d_signed);
    for (size_t part = 0; part < static_cast<size_t>(details.parts); ++part) {
      const int shift = bits * static_cast<int>(part);
      if ((details.writes >> part & 1) == 0) {
        word |= c[lane] & static_cast<uint32_t>(low_mask(bits) << shift);
        continue;
      }
      int64_t value = value_of(details, number(details.a_places[part], details.a_signed),
                               number(details.b_places[part], details.b_signed));
      sum += value;
      if (details.saturates) value = saturated(value, bits, details.d_signed);
      word |= static_cast<uint32_t>(static_cast<uint64_t>(value) & low_mask(bits)) << shift;
    }
    d[lane] = details.accumulates ? static_cast<uint32_t>(sum) : word;
  });
}

/// The digits of a selector such as h10 or b3210, that of part 0 first; -1: it has none. `most`: of a digit.
std::optional<std::vector<int>> digits_of(std::string_view selector, char letter, int most) {
  if (selector.size() < 2 || selector.front() != letter) return std::nullopt;
  std::vector<int> digits;
  for (size_t i = selector.size(); i-- > 1;) {
    if (selector[i] < '0' || selector[i] > '0' + most) return std::nullopt;
    digits.push_back(selector[i] - '0');
  }
  return digits;
}

/// From which parts of {b, a} the operand of each part comes.
void take_places(const Decoder& decoder, const Operand& operand, int parts, std::array<uint8_t, 4>& places) {
  if (operand.selector.empty()) return;
  const auto digits = digits_of(operand.selector, parts == 2 ? 'h' : 'b', 2 * parts - 1);
  if (!digits || std::ssize(*digits) != parts) decoder.refuse(fmt::format("with .{} of a register", operand.selector));
  std::ranges::copy(*digits, places.begin());
}

void decode_video(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const auto row = std::ranges::find(video_instructions, words.name(), &VideoRow::name);
  VideoDetails details{.operation = row->operation, .parts = row->parts};
  details.accumulates = words.take(Word::add);
  details.saturates = words.take(Word::sat);
  if (details.operation == Video::set) {
    details.comparison = words.take_one({Word::eq, Word::ne, Word::lt, Word::le, Word::gt, Word::ge});
    if (details.comparison == Word::none) decoder.refuse("without a comparison");
    if (details.saturates) decoder.refuse("with .sat");
  }
  if (details.accumulates && details.saturates) decoder.refuse("with .sat and .add");
  // .dtype.atype.btype; vset has the types of a and b alone. take_type() takes the last one first.
  const bool has_d = details.operation != Video::set;
  std::array<bool, 3> is_signed_type{};
  for (size_t i = 3; i-- > (has_d ? 0U : 1U);) {
    const auto type = words.take_type();
    if (type != Type::u32 && type != Type::s32) decoder.refuse("of another type than .u32 and .s32");
    is_signed_type[i] = type == Type::s32;
  }
  details.d_signed = is_signed_type[0], details.a_signed = is_signed_type[1], details.b_signed = is_signed_type[2];
  decoder.require_operands(instruction, 4, 4);
  const std::span<const Operand> operands = instruction.operands;
  for (uint8_t i = 0; i < details.parts; ++i)
    details.a_places[i] = i, details.b_places[i] = static_cast<uint8_t>(details.parts + i);
  take_places(decoder, operands[1], details.parts, details.a_places);
  take_places(decoder, operands[2], details.parts, details.b_places);
  details.writes = static_cast<uint8_t>(low_mask(details.parts));
  if (const std::string& selector = operands[0].selector; !selector.empty()) {
    const auto written = digits_of(selector, details.parts == 2 ? 'h' : 'b', details.parts - 1);
    if (!written || !std::ranges::is_sorted(*written) || std::ranges::adjacent_find(*written) != written->end())
      decoder.refuse(fmt::format("with .{} of its result", selector));
    details.writes = 0;
    for (const int part : *written) details.writes |= static_cast<uint8_t>(1 << part);
  }
  const uint32_t a = decoder.read_part(operands[1], Type::u32), b = decoder.read_part(operands[2], Type::u32),
                 c = decoder.read(operands[3], Type::u32), d = decoder.write_part(operands[0], Type::u32);
  const auto* kept = decoder.keep(details);
  Op& op = decoder.emit(run_video);
  op.details = kept;
  op.a = a, op.b = b, op.c = c, op.d = d;
}

// --- scalar video instructions

constexpr auto scalar_instructions = std::to_array<VideoRow>({
    {Word::vadd, Video::add, 1},
    {Word::vsub, Video::sub, 1},
    {Word::vabsdiff, Video::absolute_difference, 1},
    {Word::vmin, Video::min, 1},
    {Word::vmax, Video::max, 1},
    {Word::vshl, Video::shift_left, 1},
    {Word::vshr, Video::shift_right, 1},
    {Word::vmad, Video::multiply, 1},
    {Word::vset, Video::set, 1},
});

/// The bits of a word that a selector names.
struct VideoPart {
  int begin = 0, bits = 32;
};
std::optional<VideoPart> part_named(std::string_view selector) {
  if (selector.empty()) return VideoPart{};
  if (selector.size() != 2) return std::nullopt;
  const int index = selector[1] - '0', bits = selector[0] == 'b' ? 8 : selector[0] == 'h' ? 16 : 0;
  if (bits == 0 || index < 0 || index >= 32 / bits) return std::nullopt;
  return VideoPart{.begin = index * bits, .bits = bits};
}

struct ScalarVideoDetails {
  Video operation = Video::add;
  bool a_signed = false, b_signed = false, d_signed = false;
  VideoPart a = {}, b = {}, d = {};
  bool saturates = false, wraps = false;
  Word second = Word::none;      // .add, .min or .max with c
  Word comparison = Word::none;  // of vset
  // Of vmad: the signs of a * b and of c, .po, and the shift of the sum.
  bool negates_product = false, negates_c = false, plus_one = false;
  int scale = 0;
};

// PTX gives intermediate results 33 bits. GPUs from sm_50 on run what ptxas makes of these instructions; in the SASS of
// ptxas 13.0 for sm_90 it differs from the PTX ISA in the points that the functions below name.

/// .sat. ptxas saturates the result of a shift as a word; an unsigned word that is too large wraps; and a negative
/// number becomes the greatest one of a part.
int64_t saturated_result(const ScalarVideoDetails& details, int64_t value, bool shifts) {
  if (shifts || (details.d.bits == 32 && details.d_signed)) return saturated(value, 32, details.d_signed);
  if (details.d.bits == 32) return value < 0 ? 0 : extended(static_cast<uint64_t>(value), 32, false);
  const auto most = static_cast<int64_t>(low_mask(details.d.bits - (details.d_signed ? 1 : 0)));
  return value < 0 || value > most ? most : value;
}

/// .min and .max with c. ptxas compares 64 bits, of a sum, a difference and a saturated shift those of the word as a
/// signed number.
int64_t chosen(const ScalarVideoDetails& details, int64_t value, int64_t c) {
  const bool shifts = details.operation == Video::shift_left || details.operation == Video::shift_right;
  if (details.operation == Video::add || details.operation == Video::sub || (shifts && details.saturates))
    value = extended(static_cast<uint64_t>(value), 32, true);
  const bool is_less = details.d_signed ? value < c : static_cast<uint64_t>(value) < static_cast<uint64_t>(c);
  return is_less == (details.second == Word::min) ? value : c;
}

/// ptxas computes shifts to the left that saturate in 34 bits.
int64_t shifted(const ScalarVideoDetails& details, int64_t a, int64_t b) {
  const int64_t count = details.wraps ? b & 31 : std::min<int64_t>(b, 32);
  if (details.operation == Video::shift_right) return a >> count;
  const uint64_t left = static_cast<uint64_t>(a) << count;
  return details.saturates ? extended(left, 34, true) : static_cast<int64_t>(left);
}

/// vmad: a * b + c in 64 bits, shifted. ptxas takes words and c as signed.
int64_t product_sum(const ScalarVideoDetails& details, int64_t a, int64_t b, uint32_t c) {
  const bool is_signed = details.a_signed || details.b_signed || details.negates_product || details.negates_c;
  const auto word = [](int64_t x) { return static_cast<uint64_t>(extended(static_cast<uint64_t>(x), 32, true)); };
  const uint64_t product = word(a) * word(b), addend = word(c);
  const uint64_t sum = (details.negates_product ? 0 - product : product) + (details.negates_c ? 0 - addend : addend) +
                       (details.plus_one ? 1 : 0);
  const int64_t result =
      is_signed ? static_cast<int64_t>(sum) >> details.scale : static_cast<int64_t>(sum >> details.scale);
  return details.saturates ? saturated(result, 32, is_signed) : result;
}

void run_scalar_video(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const ScalarVideoDetails*>(op.details);
  const auto *a = warp.lanes_of<const uint32_t>(op.a), *b = warp.lanes_of<const uint32_t>(op.b),
             *c = warp.lanes_of<const uint32_t>(op.c);
  auto* d = warp.lanes_of<uint32_t>(op.d);
  const VideoDetails plain{.operation = details.operation, .comparison = details.comparison};
  for_each_lane(mask, [&](int lane) {
    const int64_t x = extended(a[lane] >> details.a.begin, details.a.bits, details.a_signed),
                  y = extended(b[lane] >> details.b.begin, details.b.bits, details.b_signed);
    if (details.operation == Video::multiply) {
      d[lane] = static_cast<uint32_t>(product_sum(details, x, y, c[lane]));
      return;
    }
    const bool shifts = details.operation == Video::shift_left || details.operation == Video::shift_right;
    int64_t value = shifts ? shifted(details, x, y) : value_of(plain, x, y);
    if (details.saturates) value = saturated_result(details, value, shifts);
    const int64_t z = extended(c[lane], 32, details.d_signed);
    if (details.second == Word::add) value += z;
    else if (details.second != Word::none) value = chosen(details, value, z);
    // ptxas puts the upper half of the result there.
    if (details.d.begin == 16 && details.d.bits == 16) value >>= 16;
    const auto written = static_cast<uint32_t>(low_mask(details.d.bits) << details.d.begin);
    const uint32_t kept = details.d.bits < 32 ? c[lane] & ~written : 0;
    d[lane] = kept | (static_cast<uint32_t>(value) << details.d.begin & written);
  });
}

void decode_scalar_video(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  ScalarVideoDetails details{.operation =
                                 std::ranges::find(scalar_instructions, words.name(), &VideoRow::name)->operation};
  const bool is_shift = details.operation == Video::shift_left || details.operation == Video::shift_right,
             is_product = details.operation == Video::multiply, is_comparison = details.operation == Video::set;
  details.saturates = !is_comparison && words.take(Word::sat);
  if (is_comparison) {
    details.comparison = words.take_one({Word::eq, Word::ne, Word::lt, Word::le, Word::gt, Word::ge});
    if (details.comparison == Word::none) decoder.refuse("without a comparison");
  }
  if (is_shift) {
    details.wraps = words.take(Word::wrap);
    if (!details.wraps && !words.take(Word::clamp)) decoder.refuse("without .clamp or .wrap");
  }
  if (is_product) {
    details.plus_one = words.take(Word::po);
    details.scale = words.take(Word::shr7) ? 7 : words.take(Word::shr15) ? 15 : 0;
  } else {
    details.second = words.take_one({Word::add, Word::min, Word::max});
  }
  std::array<bool, 3> is_signed_type{};
  for (size_t i = 3; i-- > (is_comparison ? 1U : 0U);) {
    const auto type = words.take_type();
    if (type != Type::u32 && type != Type::s32) decoder.refuse("of another type than .u32 and .s32");
    is_signed_type[i] = type == Type::s32;
  }
  details.d_signed = is_signed_type[is_comparison ? 1 : 0];  // vset has no type of d: ptxas takes that of a
  details.a_signed = is_signed_type[1], details.b_signed = is_signed_type[2];
  if (is_shift && details.b_signed) decoder.refuse("with a signed number of bits");
  const std::span<const Operand> operands = instruction.operands;
  if (operands.empty()) decoder.refuse("without operands");
  const bool merges = !operands[0].selector.empty(), takes_c = is_product || merges || details.second != Word::none;
  const size_t count = takes_c ? 4 : 3;
  decoder.require_operands(instruction, count, count);
  if (merges && (is_product || details.second != Word::none)) decoder.refuse("with a part of its result");
  const auto part = [&](const Operand& operand) {
    const auto named = part_named(operand.selector);
    if (!named) decoder.refuse(fmt::format("with .{} of a register", operand.selector));
    if (operand.negated && !is_product) decoder.refuse("a negated operand here");
    return *named;
  };
  details.d = part(operands[0]), details.a = part(operands[1]), details.b = part(operands[2]);
  if (takes_c && part(operands[3]).bits != 32) decoder.refuse("with a part of c");
  details.negates_product = operands[1].negated != operands[2].negated;
  details.negates_c = takes_c && operands[3].negated;
  // PTX ISA, vmad: of the product and of c, at most one has a sign; .po has none.
  if ((details.negates_product && details.negates_c) ||
      (details.plus_one && (operands[1].negated || operands[2].negated || details.negates_c)))
    decoder.refuse("with these signs");
  const uint32_t a = decoder.read_part(operands[1], Type::u32), b = decoder.read_part(operands[2], Type::u32),
                 c = takes_c ? decoder.read_part(operands[3], Type::u32) : decoder.constant(0, 4),
                 d = decoder.write_part(operands[0], Type::u32);
  const auto* kept = decoder.keep(details);
  Op& op = decoder.emit(run_scalar_video);
  op.details = kept;
  op.a = a, op.b = b, op.c = c, op.d = d;
}

constexpr auto video_rows = [] {
  std::array<Opcode, video_instructions.size() + scalar_instructions.size()> rows{};
  for (size_t i = 0; i < video_instructions.size(); ++i) {
    rows[i] = {.name = video_instructions[i].name,
               .does = "an operation on each of the 8-bit or 16-bit numbers of a word",
               .decode = decode_video};
  }
  for (size_t i = 0; i < scalar_instructions.size(); ++i) {
    rows[video_instructions.size() + i] = {.name = scalar_instructions[i].name,
                                           .does = "an operation on words or parts of them, and a second one with c",
                                           .decode = decode_scalar_video};
  }
  return rows;
}();

}  // namespace

std::span<const Opcode> video_opcodes() { return video_rows; }

}  // namespace bitmma::kernel
