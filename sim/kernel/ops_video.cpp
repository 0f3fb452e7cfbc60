// SPDX-License-Identifier: MIT
// SIMD video instructions: two 16-bit or four 8-bit numbers in a word. PTX ISA, section "SIMD Video Instructions".
//
//   vabsdiff4.u32.u32.u32.add %r3, %r1, %r2, %r4;    r3 = r4 + the sum of |r1[i] - r2[i]|
#include <algorithm>
#include <array>

#include "bitmma/core/bits.hpp"
#include "decode.hpp"
#include "lanes.hpp"

namespace bitmma::kernel {
namespace {

using Kind = Operand::Kind;

enum class Video : uint8_t { add, sub, average, absolute_difference, min, max, set };

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
  }
  return 0;
}

void run_video(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const VideoDetails*>(op.details);
  const auto *a = warp.lanes_of<const uint32_t>(op.a), *b = warp.lanes_of<const uint32_t>(op.b),
             *c = warp.lanes_of<const uint32_t>(op.c);
  auto* d = warp.lanes_of<uint32_t>(op.d);
  const int bits = 32 / details.parts;
  const auto number = [&](uint32_t word, int part, bool is_signed) {
    const auto code = static_cast<int64_t>(word >> bits * part & low_mask(bits));
    return is_signed && (code >> (bits - 1) & 1) != 0 ? code - (int64_t{1} << bits) : code;
  };
  const int64_t least = details.d_signed ? -(int64_t{1} << (bits - 1)) : 0,
                most = details.d_signed ? (int64_t{1} << (bits - 1)) - 1 : (int64_t{1} << bits) - 1;
  for_each_lane(mask, [&](int lane) {
    uint32_t word = 0;
    int64_t sum = details.d_signed ? int64_t{static_cast<int32_t>(c[lane])} : int64_t{c[lane]};
    for (int part = 0; part < details.parts; ++part) {
      int64_t value =
          value_of(details, number(a[lane], part, details.a_signed), number(b[lane], part, details.b_signed));
      sum += value;
      if (details.saturates) value = std::clamp(value, least, most);
      word |= static_cast<uint32_t>(static_cast<uint64_t>(value) & low_mask(bits)) << bits * part;
    }
    d[lane] = details.accumulates ? static_cast<uint32_t>(sum) : word;
  });
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
  const uint32_t a = decoder.read(instruction.operands[1], Type::u32),
                 b = decoder.read(instruction.operands[2], Type::u32),
                 c = decoder.read(instruction.operands[3], Type::u32),
                 d = decoder.write(instruction.operands[0], Type::u32);
  const auto* kept = decoder.keep(details);
  Op& op = decoder.emit(run_video);
  op.details = kept;
  op.a = a, op.b = b, op.c = c, op.d = d;
}

constexpr auto video_rows = [] {
  std::array<Opcode, video_instructions.size()> rows{};
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = {.name = video_instructions[i].name,
               .does = "an operation on each of the 8-bit or 16-bit numbers of a word",
               .decode = decode_video};
  }
  return rows;
}();

}  // namespace

std::span<const Opcode> video_opcodes() { return video_rows; }

}  // namespace bitmma::kernel
