#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/stimulus/random_case.hpp"
#include "bitmma/stimulus/random_operands.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/instructions.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;
using test::refusal_of;
using test::words_of;

namespace {

constexpr Target blackwell = Target::sm_100a;

/// A source without swizzle: 16-byte units, LBO between the two of a row, SBO between groups of 8 rows.
uint64_t plain_source() {
  return encode(
      SmemDescriptor{.target = blackwell, .strides = {.leading_dim_byte_offset = 128, .stride_dim_byte_offset = 256}});
}

}  // namespace

TEST_CASE("st and then ld give the registers back, in every shape, from every warp and lane base") {
  for (const Instruction& store : all_instructions(Family::tmem_move)) {
    TmemMove load = std::get<TmemMove>(store);
    if (load.kind != MoveKind::st) continue;
    load.kind = MoveKind::ld;
    for (int warp = 0; warp < 4; ++warp) {
      const State before =
          random_state(std::get<TmemMove>(store), Swizzle::none, RandomStream(3, static_cast<uint64_t>(warp)));
      State state = before;
      execute(store, blackwell, state);
      const std::vector<uint32_t> stored = words_of(state, Field::tmem), was = words_of(before, Field::tmem);
      state.erase(Field::regs);
      execute(load, blackwell, state);
      INFO(print(store));
      REQUIRE(words_of(state, Field::regs) == words_of(before, Field::regs));
      REQUIRE(words_of(state, Field::tmem) == stored);
      // And nothing else moved: as many cells differ at most as registers were written.
      int changed = 0;
      for (size_t i = 0; i < stored.size(); ++i) changed += stored[i] != was[i];
      REQUIRE(changed <= 32 * load.ldst.registers() * (load.ldst.pack_16b ? 2 : 1));
    }
  }
}

TEST_CASE("smem -> cp -> Tensor Memory -> mma -> ld: A*B + C through the instructions themselves") {
  // A (128 x 16 f16, 32 bytes a row) comes through shared memory and cp 128x256b, as TMEM wants it; C through st, D
  // through ld. All on one state.
  const Instruction instruction = tcgen05({.n = 32, .a_source = OperandSource::tmem});
  const Operands operands = random_operands(instruction, blackwell, Distribution::normal, 21, 0);
  State state = place_operands(instruction, {}, operands, filler_stream(21, 0));
  const int a_column = decode_tmem_address(state.word(Field::a_tmem)).column;
  const std::vector<uint32_t> expected_tmem = words_of(state, Field::tmem);
  const std::span<uint32_t> tmem = state.writable_words(Field::tmem);
  const auto cell = [&](int lane, int column) { return static_cast<size_t>(lane * state.columns() + column); };
  for (int lane = 0; lane < 128; ++lane) {
    for (int column = 0; column < 8; ++column) tmem[cell(lane, a_column + column)] = 0xDEADBEEF;
    for (int column = 0; column < 32; ++column) tmem[cell(lane, column)] = 0xDEADBEEF;
  }
  // A behind B in shared memory.
  const auto b_bytes = static_cast<size_t>(state.extent(Field::smem, 0));
  std::vector<uint8_t> image(state.bytes(Field::smem).begin(), state.bytes(Field::smem).end());
  image.resize(b_bytes + 4096);
  for (int row = 0; row < 128; ++row) {
    for (int k = 0; k < 16; ++k) {
      const size_t byte = b_bytes + static_cast<size_t>(row % 8 * 16 + row / 8 * 256 + k / 8 * 128 + k % 8 * 2);
      image[byte] = static_cast<uint8_t>(operands.a(row, k));
      image[byte + 1] = static_cast<uint8_t>(operands.a(row, k) >> 8);
    }
  }
  state.set(Field::smem, image, {static_cast<int64_t>(image.size())});
  state.set(Field::s_desc, plain_source() + b_bytes / 16);
  state.set(Field::taddr, state.number(Field::a_tmem));
  execute(parse_instruction("tcgen05.cp.cta_group::1.128x256b"), blackwell, state);
  const Instruction st = parse_instruction("tcgen05.st.sync.aligned.32x32b.x32.b32"),
                    ld = parse_instruction("tcgen05.ld.sync.aligned.32x32b.x32.b32");
  for (int warp = 0; warp < 4; ++warp) {
    std::vector<uint32_t> regs;
    for (int thread = 0; thread < 32; ++thread) {
      for (int col = 0; col < 32; ++col) regs.push_back((*operands.c)(32 * warp + thread, col));
    }
    state.set(Field::warp, static_cast<uint64_t>(warp));
    state.set(Field::taddr, encode(TmemAddress{32 * warp, 0}));
    state.set(Field::regs, regs, {32, 32});
    execute(st, blackwell, state);
  }
  REQUIRE(words_of(state, Field::tmem) == expected_tmem);
  execute(instruction, blackwell, state);
  const Matrix d = multiply_accumulate(model_for(instruction, blackwell), operands);
  for (int warp = 0; warp < 4; ++warp) {
    state.set(Field::warp, static_cast<uint64_t>(warp));
    state.set(Field::taddr, encode(TmemAddress{32 * warp, 0}));
    execute(ld, blackwell, state);
    const std::span<const uint32_t> regs = state.words(Field::regs);
    for (int thread = 0; thread < 32; ++thread) {
      for (int col = 0; col < 32; ++col)
        REQUIRE(regs[static_cast<size_t>(32 * thread + col)] == d(32 * warp + thread, col));
    }
  }
}

TEST_CASE("cp puts every row into the lanes of its multicast, and unpacks 4- and 6-bit codes", "[rule:cp]") {
  std::vector<uint8_t> image(8192);
  for (size_t i = 0; i < image.size(); ++i)
    image[i] = static_cast<uint8_t>(i / 16 * 7 + i % 16);  // no swizzle: unit u begins with 7 u
  const auto run = [&](const char* text) {
    State state;
    state.set(Field::taddr, 4);
    state.set(Field::s_desc, plain_source());
    state.borrow(Field::smem, image, {8192});
    state.set(Field::tmem, std::vector<uint32_t>(128 * 32), {1, 128, 32});
    execute(parse_instruction(text), blackwell, state);
    return words_of(state, Field::tmem);
  };
  const auto first_byte = [&](const std::vector<uint32_t>& tmem, int lane) {
    return tmem[static_cast<size_t>(lane * 32 + 4)] & 0xFF;
  };
  const auto byte_of_row = [&](int row) { return static_cast<uint32_t>((row % 8 + row / 8 * 16) * 7 & 0xFF); };
  const auto x4 = run("tcgen05.cp.cta_group::1.32x128b.warpx4"),
             x02 = run("tcgen05.cp.cta_group::1.64x128b.warpx2::02_13"),
             x01 = run("tcgen05.cp.cta_group::1.64x128b.warpx2::01_23"), four = run("tcgen05.cp.cta_group::1.4x256b");
  for (int lane = 0; lane < 128; ++lane) {
    CHECK(first_byte(x4, lane) == byte_of_row(lane % 32));
    CHECK(first_byte(x02, lane) == byte_of_row(lane % 64));
    CHECK(first_byte(x01, lane) == byte_of_row(lane / 64 * 32 + lane % 32));
    CHECK(first_byte(four, lane) == (lane % 32 == 0 ? byte_of_row(lane / 32) : 0));
  }
  // Codes 0..15 packed: nibbles 4j, then at bits 5:2 of their bytes; six-bit codes at bits 5:0.
  std::fill(image.begin(), image.end(), 0xFF);
  for (int j = 0; j < 8; ++j) image[static_cast<size_t>(j)] = static_cast<uint8_t>(2 * j | (2 * j + 1) << 4);
  const auto b4 = run("tcgen05.cp.cta_group::1.128x128b.b8x16.b4x16_p64");
  CHECK(b4[4] == 0x0C080400);
  CHECK(b4[7] == 0x3C383430);
  std::fill(image.begin(), image.end(), 0xFF);
  for (int j = 0; j < 16; ++j) {
    for (int bit = 0; bit < 6; ++bit) {
      const int at = 6 * j + bit;
      uint8_t& byte = image[static_cast<size_t>(at / 8)];
      byte = static_cast<uint8_t>((byte & ~(1 << at % 8)) | (((3 * j) >> bit & 1) << at % 8));
    }
  }
  const auto b6 = run("tcgen05.cp.cta_group::1.128x128b.b8x16.b6x16_p32");
  CHECK(b6[4] == 0x09060300);
  CHECK(b6[7] == 0x2D2A2724);
}

TEST_CASE("each CTA of a pair copies its own image into its own Tensor Memory") {
  std::vector<uint8_t> images(2 * 2048, 0x11);
  std::fill(images.begin() + 2048, images.end(), 0x22);
  State state;
  state.set(Field::taddr, 0);
  state.set(Field::s_desc, encode(SmemDescriptor{.target = blackwell, .strides = {.stride_dim_byte_offset = 128}}));
  state.borrow(Field::smem, images, {2, 2048});
  state.set(Field::tmem, std::vector<uint32_t>(2 * 128 * 32), {2, 128, 32});
  execute(parse_instruction("tcgen05.cp.cta_group::2.128x128b"), blackwell, state);
  const std::span<const uint32_t> tmem = state.words(Field::tmem);
  for (size_t cell = 0; cell < tmem.size(); ++cell) {
    const uint32_t own = cell < tmem.size() / 2 ? 0x11111111 : 0x22222222;
    REQUIRE(tmem[cell] == (cell % 32 < 4 ? own : 0));
  }
}

TEST_CASE("shift moves 31 lanes of one partition down, in eight columns, and .ashift reads A as after it",
          "[rule:shift]") {
  const Instruction shift = parse_instruction("tcgen05.shift.cta_group::1.down");
  const Tcgen05Mma instruction{.n = 16, .a = Format::bf16, .a_source = OperandSource::tmem};
  State state = place_operands(instruction, {}, random_operands(instruction, blackwell, Distribution::normal, 5, 0),
                               filler_stream(5, 0));
  Tcgen05Mma ashift = instruction;
  ashift.ashift = true;
  const Matrix on_the_fly = result_of(ashift, blackwell, state);
  const std::vector<uint32_t> before = words_of(state, Field::tmem);
  for (int warp = 0; warp < 4; ++warp) {
    state.set(Field::taddr, state.number(Field::a_tmem) | static_cast<uint32_t>(32 * warp) << 16);
    execute(shift, blackwell, state);
  }
  const int column = decode_tmem_address(state.word(Field::a_tmem)).column;
  const std::span<const uint32_t> after = state.words(Field::tmem);
  for (int lane = 0; lane < 128; ++lane) {
    const int from = lane % 32 == 31 ? lane : lane + 1;
    CHECK(after[static_cast<size_t>(lane * state.columns() + column + 7)] ==
          before[static_cast<size_t>(from * state.columns() + column + 7)]);
    CHECK(after[static_cast<size_t>(lane * state.columns() + column - 1)] ==
          before[static_cast<size_t>(lane * state.columns() + column - 1)]);
  }
  CHECK(result_of(instruction, blackwell, state) == on_the_fly);
}

TEST_CASE("moves outside what a warp, Tensor Memory or the image has are refused, and move nothing") {
  const std::vector<uint8_t> image(8192);
  constexpr uint64_t desc = uint64_t{1} << 46;
  struct Numbers {
    uint32_t taddr = 0;
    std::optional<int> warp = {};
    std::optional<uint64_t> s_desc = {};
    size_t image_bytes = 8192;
  };
  const auto refusal = [&](const char* text, const Numbers& numbers) {
    const Instruction instruction = parse_instruction(text);
    State state;
    state.set(Field::tmem, std::vector<uint32_t>(128 * 32, 0xABCD), {1, 128, 32});
    state.set(Field::taddr, numbers.taddr);
    if (numbers.warp) state.set(Field::warp, static_cast<uint64_t>(*numbers.warp));
    if (numbers.s_desc) {
      state.set(Field::s_desc, *numbers.s_desc);
      state.borrow(Field::smem, std::span(image).first(numbers.image_bytes),
                   {static_cast<int64_t>(numbers.image_bytes)});
    }
    const State before = state;
    const std::vector<Violation> violations = refusal_of([&] { execute(instruction, blackwell, state); });
    if (!violations.empty()) CHECK(state == before);
    return violations;
  };
  CHECK(refusal("tcgen05.ld.sync.aligned.32x32b.x32.b32", {.taddr = 0x00200000, .warp = 1}).empty());
  CHECK_THAT(refusal("tcgen05.ld.sync.aligned.32x32b.x32.b32", {.taddr = 0x00200000, .warp = 0}),
             refused(illegal_value, "taddr lane"));
  CHECK(refusal("tcgen05.ld.sync.aligned.32x32b.x32.b32", {.taddr = 0, .warp = 7}).size() == 1);
  CHECK_THAT(refusal("tcgen05.ld.sync.aligned.32x32b.x32.b32", {.taddr = 0x00100000, .warp = 0}),
             refused(illegal_value, "taddr lane"));
  CHECK_THAT(refusal("tcgen05.ld.sync.aligned.16x64b.x1.b32", {.taddr = 0x00080000, .warp = 0}),
             refused(illegal_value, "taddr lane"));
  CHECK_THAT(refusal("tcgen05.ld.sync.aligned.16x64b.x32.b32", {.taddr = 0, .warp = 0}),
             refused(illegal_value, "columns"));
  CHECK_THAT(refusal("tcgen05.ld.sync.aligned.16x64b.x1.b32", {.taddr = 0, .warp = 4}), refused(illegal_value, "warp"));
  CHECK_THAT(refusal("tcgen05.st.sync.aligned.16x64b.x1.b32", {.taddr = 0, .warp = 0}), refused(missing_input, "regs"));
  CHECK_THAT(refusal("tcgen05.cp.cta_group::1.128x128b", {.taddr = 0x00010000, .s_desc = desc}),
             refused(illegal_value, "taddr lane"));
  CHECK_THAT(refusal("tcgen05.cp.cta_group::1.4x256b", {.taddr = 0x00200000, .s_desc = desc}),
             refused(illegal_value, "taddr lane"));
  CHECK_THAT(refusal("tcgen05.cp.cta_group::1.128x128b", {.taddr = 30, .s_desc = desc}),
             refused(illegal_value, "columns"));
  CHECK_THAT(refusal("tcgen05.cp.cta_group::1.128x128b", {.taddr = 0, .s_desc = desc, .image_bytes = 100}),
             refused(illegal_value, "the source element row 6, k 4"));
  CHECK_THAT(refusal("tcgen05.cp.cta_group::1.128x128b", {.taddr = 0, .s_desc = uint64_t{3} << 61}),
             refused(illegal_value, "swizzle of descriptor 0x6000000000000000"));
  CHECK_THAT(refusal("tcgen05.shift.cta_group::1.down", {.taddr = 0x00010000}), refused(illegal_value, "taddr lane"));
  CHECK_THAT(refusal("tcgen05.shift.cta_group::1.down", {.taddr = 25}), refused(illegal_value, "columns"));
  // Two CTAs have 128 lanes each.
  CHECK_THAT(refusal("tcgen05.shift.cta_group::2.down", {.taddr = 0}), refused(wrong_shape, "tmem"));
  State short_regs = test::sample_case(TmemMove{.kind = MoveKind::st}, 0).before;
  short_regs.set(Field::regs, std::vector<uint32_t>(31), {31, 1});
  CHECK_THAT(refusal_of([&] { execute(TmemMove{.kind = MoveKind::st}, blackwell, short_regs); }),
             refused(wrong_shape, "regs"));
}

TEST_CASE("the second piece of 16x32bx2 goes where the offset says, and never to another warp") {
  TmemMove store{.kind = MoveKind::st, .ldst = {.shape = LdStShape::s16x32bx2}};
  State state;
  state.set(Field::taddr, encode(TmemAddress{64, 3}));
  state.set(Field::warp, 2);
  std::vector<uint32_t> regs(32);
  for (size_t i = 0; i < regs.size(); ++i) regs[i] = static_cast<uint32_t>(1000 + i);
  state.set(Field::regs, regs, {32, 1});
  state.set(Field::tmem, std::vector<uint32_t>(128 * 32), {1, 128, 32});
  for (const auto& [offset, lane, column] :
       {std::tuple(1u, 64, 4), std::tuple(20u, 64, 23), std::tuple(16u << 16, 80, 3)}) {
    store.half_split_offset = offset;
    State after = state;
    execute(store, blackwell, after);
    for (int thread = 0; thread < 32; ++thread) {
      const auto cell = static_cast<size_t>(thread < 16 ? (64 + thread) * 32 + 3 : (lane + thread - 16) * 32 + column);
      REQUIRE(after.words(Field::tmem)[cell] == regs[static_cast<size_t>(thread)]);
    }
  }
  for (const uint32_t offset : {32u << 16, 17u << 16, 0xFFFFu << 16}) {
    store.half_split_offset = offset;
    CHECK_THAT(refusal_of([&] { execute(store, blackwell, state); }), refused(illegal_value, "half-split offset"));
  }
  store.half_split_offset = 29;
  CHECK_THAT(refusal_of([&] { execute(store, blackwell, state); }), refused(illegal_value, "columns"));
}

namespace {

/// redval of one thread, in floating point of the machine and without a line of the library.
uint32_t redval_of(const LoadReduction& reduction, const std::vector<uint32_t>& words) {
  const bool least = reduction.operation == ReduceOperation::min;
  if (reduction.type == Format::u32) return least ? *std::ranges::min_element(words) : *std::ranges::max_element(words);
  if (reduction.type == Format::s32) {
    const auto less = [](uint32_t a, uint32_t b) { return static_cast<int32_t>(a) < static_cast<int32_t>(b); };
    return least ? *std::ranges::min_element(words, less) : *std::ranges::max_element(words, less);
  }
  uint32_t best = 0x7FFFFFFF;
  for (const uint32_t word : words) {
    const float raw = std::bit_cast<float>(word), value = reduction.absolute ? std::fabs(raw) : raw;
    if (std::isnan(value) && reduction.propagate_nan) return 0x7FFFFFFF;
    if (std::isnan(value)) continue;
    const auto is_better = [&](float than) {
      if (value == than) return value == 0 && std::signbit(value) == least && std::signbit(than) != least;
      return least ? value < than : value > than;
    };
    if (best == 0x7FFFFFFF || is_better(std::bit_cast<float>(best))) best = std::bit_cast<uint32_t>(value);
  }
  return best;
}

}  // namespace

TEST_CASE("redval of ld.red is the least or largest register of each thread, and the registers are those of ld",
          "[rule:ld-red]") {
  int nans = 0, negative_zeros = 0;
  for (const Instruction& instruction : all_instructions(Family::tmem_move)) {
    const TmemMove& red = std::get<TmemMove>(instruction);
    if (red.kind != MoveKind::ld_red) continue;
    INFO(print(instruction));
    State state = test::sample_case(instruction, static_cast<uint64_t>(red.ldst.num)).before, plain = state;
    execute(instruction, Target::sm_103a, state);
    TmemMove load = red;
    load.kind = MoveKind::ld, load.reduction = {};
    execute(load, Target::sm_103a, plain);
    REQUIRE(words_of(state, Field::regs) == words_of(plain, Field::regs));
    const std::vector<uint32_t> regs = words_of(state, Field::regs), redval = words_of(state, Field::redval);
    REQUIRE(redval.size() == 32);
    for (size_t thread = 0; thread < 32; ++thread) {
      const auto first = regs.begin() + static_cast<std::ptrdiff_t>(thread) * red.ldst.num;
      REQUIRE(redval[thread] == redval_of(red.reduction, {first, first + red.ldst.num}));
      nans += redval[thread] == 0x7FFFFFFF;
      negative_zeros += redval[thread] == 0x80000000;
    }
  }
  CHECK(nans > 100);  // the corners are met
  CHECK(negative_zeros > 0);
}

TEST_CASE("redval: known values of zeros, NaN, infinities and signs", "[rule:ld-red]") {
  constexpr uint32_t zero = 0, minus_zero = 0x80000000, one = 0x3F800000, minus_two = 0xC0000000, inf = 0x7F800000,
                     minus_inf = 0xFF800000, nan = 0x7FC00001, canonical = 0x7FFFFFFF;
  const auto redval = [](const char* tail, const std::vector<uint32_t>& words) {
    State state;
    state.set(Field::taddr, 0);
    state.set(Field::warp, 0);
    std::vector<uint32_t> tmem(128 * 32);
    std::ranges::copy(words, tmem.begin());
    state.set(Field::tmem, std::move(tmem), {1, 128, 32});
    execute(parse_instruction(fmt::format("tcgen05.ld.red.sync.aligned.32x32b.x{}.{}", words.size(), tail)),
            Target::sm_103a, state);
    return state.words(Field::redval)[0];
  };
  CHECK(redval("min.f32", {one, minus_two}) == minus_two);
  CHECK(redval("max.f32", {one, minus_two}) == one);
  CHECK(redval("min.abs.f32", {one, minus_two}) == one);
  CHECK(redval("max.abs.f32", {one, minus_two}) == 0x40000000);
  CHECK(redval("min.f32", {zero, minus_zero}) == minus_zero);
  CHECK(redval("max.f32", {minus_zero, zero}) == zero);
  CHECK(redval("min.abs.f32", {minus_zero, minus_zero}) == zero);
  CHECK(redval("min.f32", {nan, one, minus_inf, inf}) == minus_inf);
  CHECK(redval("max.f32", {nan, one, minus_inf, inf}) == inf);
  CHECK(redval("max.NaN.f32", {nan, one, minus_inf, inf}) == canonical);
  CHECK(redval("min.abs.NaN.f32", {0xFFC00001, one}) == canonical);
  CHECK(redval("max.f32", {nan, 0xFF800001}) == canonical);
  CHECK(redval("min.u32", {minus_two, one}) == one);
  CHECK(redval("min.s32", {minus_two, one}) == minus_two);
  CHECK(redval("max.u32", {minus_two, one}) == minus_two);
}
