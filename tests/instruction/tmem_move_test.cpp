#include "bitmma/instruction/tmem_move.hpp"

#include <set>

#include "bitmma/instruction/random_operands.hpp"
#include "bitmma/instruction/simulate.hpp"
#include "bitmma/instruction/tcgen05_machine.hpp"
#include "bitmma/io/golden.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

TmemMoveMachine machine_of(std::span<const uint32_t> tmem, int columns, int warp, uint32_t taddr) {
  return {.taddr = taddr, .warp = warp, .tmem = tmem, .columns = columns};
}

}  // namespace

TEST_CASE("every legal move prints and parses back, and golden, verify and simulate agree on it") {
  const test::TemporaryFolder folder;
  int count = 0;
  for (const TmemMove& move : all_legal_moves()) {
    INFO(print(move));
    TmemMove parsed = parse_tmem_move(print(move));
    parsed.half_split_offset = move.half_split_offset;
    REQUIRE(parsed == move);
    constexpr std::array modes{Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128};
    write_tensor_file(folder.path("x"),
                      make_golden(move, 2, static_cast<uint64_t>(count), modes[static_cast<size_t>(count) % 4]));
    const VectorFile vectors = read_vector_file(folder.path("x"));
    REQUIRE(vectors.move == move);
    REQUIRE(verify(vectors, 1).mismatches == 0);
    // A flipped bit is seen where it is, and simulate repairs it.
    TensorFile wrong = vectors.file;
    const Tensor& recorded = *vectors.file.find(vectors.d_tensor());
    std::vector<uint8_t> bytes(recorded.bytes.begin(), recorded.bytes.end());
    bytes[4] ^= 1;
    wrong.set(Tensor::from_bytes(std::string(vectors.d_tensor()), "U32", recorded.shape, bytes));
    write_tensor_file(folder.path("wrong"), wrong);
    const Comparison seen = verify(read_vector_file(folder.path("wrong")), 1);
    REQUIRE(seen.mismatches == 1);
    const OutputPlace& place = seen.first->place;
    if (move.kind == MoveKind::ld) {
      const int registers = move.ldst.registers();
      REQUIRE(place.reg == RegisterPlace{1 / registers, 1 % registers, 0});
    } else {
      REQUIRE(place.cell == TmemPlace{0, 0, 1, 0});
    }
    write_tensor_file(folder.path("repaired"), with_simulated_d(read_vector_file(folder.path("wrong")), {}, {}, 1));
    REQUIRE(verify(read_vector_file(folder.path("repaired")), 1).mismatches == 0);
    ++count;
  }
  CHECK(count == 2 * 2 * (8 + 8 + 7 + 6 + 8) + 2 * (6 * 3 + 1));
}

TEST_CASE("st and then ld give the registers back, in every shape, from every warp and lane base") {
  for (const TmemMove& store : all_legal_moves()) {
    if (store.kind != MoveKind::st) continue;
    TmemMove load = store;
    load.kind = MoveKind::ld;
    for (int warp = 0; warp < 4; ++warp) {
      TmemMoveState state = random_machine(store, Swizzle::none, RandomStream(3, static_cast<uint64_t>(warp)));
      TmemMoveMachine before = state.view();
      const TmemMoveResult stored = simulate(store, before);
      TmemMoveMachine after = before;
      after.tmem = stored.tmem;
      after.regs = {};
      INFO(print(store));
      REQUIRE(simulate(load, after).regs == state.regs);
      // And nothing else moved: as many cells differ at most as registers were written.
      int changed = 0;
      for (size_t i = 0; i < stored.tmem.size(); ++i) changed += stored.tmem[i] != state.tmem[i];
      REQUIRE(changed <= 32 * store.ldst.registers() * (store.ldst.pack_16b ? 2 : 1));
    }
  }
}

TEST_CASE("smem -> cp -> Tensor Memory -> mma -> ld: A*B + C through the instructions themselves") {
  // A (128 x 16 f16, 32 bytes a row) comes through shared memory and cp 128x256b, as TMEM wants it; C through st, D
  // through ld.
  Instruction instruction{.family = Family::tcgen05,
                          .m = 128,
                          .n = 32,
                          .d = Format::f32,
                          .a = Format::f16,
                          .b = Format::f16,
                          .kind = MmaKind::f16,
                          .a_source = OperandSource::tmem};
  instruction = with_idesc(instruction, idesc_of(instruction));
  const Operands operands = random_operands(instruction, Distribution::normal, 21, 0);
  Tcgen05State state = place_tcgen05(instruction, {}, {}, operands, filler_stream(21, 0));
  const TmemA a_map = a_in_tmem(instruction, state.registers.a_tmem);
  const std::vector<uint32_t> expected_tmem = state.tmem;
  const auto cell = [&](int lane, int column) -> size_t { return static_cast<size_t>(lane * state.columns + column); };
  for (int lane = 0; lane < 128; ++lane) {
    for (int column = 0; column < 8; ++column) state.tmem[cell(lane, a_map.address.column + column)] = 0xDEADBEEF;
    for (int column = 0; column < 32; ++column) state.tmem[cell(lane, column)] = 0xDEADBEEF;
  }
  // Rows of A without swizzle: 16-byte units, LBO between the two of a row, SBO between groups of 8 rows.
  std::vector<uint8_t> image(4096);
  for (int row = 0; row < 128; ++row) {
    for (int k = 0; k < 16; ++k) {
      const size_t byte = static_cast<size_t>(row % 8 * 16 + row / 8 * 256 + k / 8 * 128 + k % 8 * 2);
      image[byte] = static_cast<uint8_t>(operands.a(row, k));
      image[byte + 1] = static_cast<uint8_t>(operands.a(row, k) >> 8);
    }
  }
  const uint64_t s_desc =
      encode(SmemDescriptor{.arch = Arch::sm_100a,
                            .strides = {.leading_dim_byte_offset = 128, .stride_dim_byte_offset = 256},
                            .reserved = uint64_t{1} << 46});
  const TmemMove cp = parse_tmem_move("tcgen05.cp.cta_group::1.128x256b");
  state.tmem = simulate(cp, {.taddr = state.registers.a_tmem,
                             .s_desc = s_desc,
                             .smem = {std::span<const uint8_t>(image), {}},
                             .tmem = state.tmem,
                             .columns = state.columns})
                   .tmem;
  const TmemMove st = parse_tmem_move("tcgen05.st.sync.aligned.32x32b.x32.b32"),
                 ld = parse_tmem_move("tcgen05.ld.sync.aligned.32x32b.x32.b32");
  for (int warp = 0; warp < 4; ++warp) {
    std::vector<uint32_t> regs;
    for (int thread = 0; thread < 32; ++thread) {
      for (int col = 0; col < 32; ++col) regs.push_back((*operands.c)(32 * warp + thread, col));
    }
    TmemMoveMachine machine = machine_of(state.tmem, state.columns, warp, encode(TmemAddress{32 * warp, 0}));
    machine.regs = regs;
    state.tmem = simulate(st, machine).tmem;
  }
  REQUIRE(state.tmem == expected_tmem);
  const std::vector<uint32_t> after = simulate(instruction, state.view());
  const BitMatrix d = multiply_accumulate(model_for(instruction), operands);
  for (int warp = 0; warp < 4; ++warp) {
    const TmemMoveResult loaded =
        simulate(ld, machine_of(after, state.columns, warp, encode(TmemAddress{32 * warp, 0})));
    for (int thread = 0; thread < 32; ++thread) {
      for (int col = 0; col < 32; ++col)
        REQUIRE(loaded.regs[static_cast<size_t>(32 * thread + col)] == d(32 * warp + thread, col));
    }
  }
}

TEST_CASE("cp puts every row into the lanes of its multicast, and unpacks 4- and 6-bit codes") {
  std::vector<uint8_t> image(8192);
  for (size_t i = 0; i < image.size(); ++i)
    image[i] = static_cast<uint8_t>(i / 16 * 7 + i % 16);  // no swizzle: unit u begins with 7 u
  const uint64_t s_desc =
      encode(SmemDescriptor{.arch = Arch::sm_100a,
                            .strides = {.leading_dim_byte_offset = 128, .stride_dim_byte_offset = 256},
                            .reserved = uint64_t{1} << 46});
  const std::vector<uint32_t> zero(128 * 32);
  const auto run = [&](const char* text) {
    return simulate(parse_tmem_move(text), {.taddr = 4,
                                            .s_desc = s_desc,
                                            .smem = {std::span<const uint8_t>(image), {}},
                                            .tmem = zero,
                                            .columns = 32})
        .tmem;
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

TEST_CASE("shift moves 31 lanes of one partition down, in eight columns, and .ashift reads A as after it") {
  const TmemMove shift = parse_tmem_move("tcgen05.shift.cta_group::1.down");
  Instruction instruction{.family = Family::tcgen05,
                          .m = 128,
                          .n = 16,
                          .d = Format::f32,
                          .a = Format::bf16,
                          .b = Format::bf16,
                          .kind = MmaKind::f16,
                          .a_source = OperandSource::tmem};
  instruction = with_idesc(instruction, idesc_of(instruction));
  Tcgen05State state =
      place_tcgen05(instruction, {}, {}, random_operands(instruction, Distribution::normal, 5, 0), filler_stream(5, 0));
  Instruction ashift = instruction;
  ashift.ashift = true;
  const std::vector<uint32_t> on_the_fly = simulate(ashift, state.view());
  const std::vector<uint32_t> before = state.tmem;
  for (int warp = 0; warp < 4; ++warp) {
    state.tmem = simulate(shift, {.taddr = state.registers.a_tmem | static_cast<uint32_t>(32 * warp) << 16,
                                  .tmem = state.tmem,
                                  .columns = state.columns})
                     .tmem;
  }
  const int column = decode_tmem_address(state.registers.a_tmem).column;
  for (int lane = 0; lane < 128; ++lane) {
    const int from = lane % 32 == 31 ? lane : lane + 1;
    CHECK(state.tmem[static_cast<size_t>(lane * state.columns + column + 7)] ==
          before[static_cast<size_t>(from * state.columns + column + 7)]);
    CHECK(state.tmem[static_cast<size_t>(lane * state.columns + column - 1)] ==
          before[static_cast<size_t>(lane * state.columns + column - 1)]);
  }
  CHECK(gather_d(instruction, state.registers.d_tmem, simulate(instruction, state.view()), state.columns) ==
        gather_d(instruction, state.registers.d_tmem, on_the_fly, state.columns));
}

TEST_CASE("moves outside what a warp, Tensor Memory or the image has are refused") {
  const std::vector<uint32_t> tmem(128 * 32);
  const std::vector<uint8_t> image(100);
  const auto message = [&](const char* text, TmemMoveMachine machine) -> std::string {
    machine.tmem = tmem;
    machine.columns = 32;
    try {
      simulate(parse_tmem_move(text), machine);
    } catch (const Error& error) {
      return error.what();
    }
    return "fine";
  };
  CHECK(message("tcgen05.ld.sync.aligned.32x32b.x32.b32", {.taddr = 0x00200000, .warp = 1}) == "fine");
  CHECK_THAT(message("tcgen05.ld.sync.aligned.32x32b.x32.b32", {.taddr = 0x00200000, .warp = 0}),
             ContainsSubstring("warp 0 of a warpgroup reaches these lanes only"));
  CHECK_THAT(message("tcgen05.ld.sync.aligned.32x32b.x32.b32", {.taddr = 0x00100000, .warp = 0}),
             ContainsSubstring("taddr lane = 16: legal is a multiple of 32"));
  CHECK_THAT(message("tcgen05.ld.sync.aligned.16x64b.x1.b32", {.taddr = 0x00080000, .warp = 0}),
             ContainsSubstring("taddr lane = 8: legal is a multiple of 16"));
  CHECK_THAT(message("tcgen05.ld.sync.aligned.16x64b.x32.b32", {.taddr = 0, .warp = 0}),
             ContainsSubstring("columns = 0..63"));
  CHECK_THAT(message("tcgen05.ld.sync.aligned.16x64b.x1.b32", {.taddr = 0, .warp = 4}),
             ContainsSubstring("warp = 4: legal is 0..3"));
  CHECK_THAT(message("tcgen05.st.sync.aligned.16x64b.x1.b32", {.taddr = 0, .warp = 0}),
             ContainsSubstring("regs = 0: legal is 32"));
  CHECK_THAT(message("tcgen05.cp.cta_group::1.128x128b", {.taddr = 0x00010000, .s_desc = uint64_t{1} << 46}),
             ContainsSubstring("taddr lane = 1: legal is 0"));
  CHECK_THAT(message("tcgen05.cp.cta_group::1.4x256b", {.taddr = 0x00200000, .s_desc = uint64_t{1} << 46}),
             ContainsSubstring("legal is 0..31"));
  CHECK_THAT(message("tcgen05.cp.cta_group::1.128x128b", {.taddr = 30, .s_desc = uint64_t{1} << 46}),
             ContainsSubstring("columns = 30..33"));
  CHECK_THAT(message("tcgen05.cp.cta_group::1.128x128b",
                     {.taddr = 0, .s_desc = uint64_t{1} << 46, .smem = {std::span<const uint8_t>(image), {}}}),
             ContainsSubstring("image of 100 bytes"));
  CHECK_THAT(message("tcgen05.cp.cta_group::1.128x128b", {.taddr = 0, .s_desc = uint64_t{3} << 61}),
             ContainsSubstring("swizzle of descriptor"));
  CHECK_THAT(message("tcgen05.shift.cta_group::1.down", {.taddr = 0x00010000}), ContainsSubstring("a multiple of 32"));
  CHECK_THAT(message("tcgen05.shift.cta_group::1.down", {.taddr = 25}), ContainsSubstring("columns = 25..32"));
  CHECK_THAT(message("tcgen05.shift.cta_group::2.down", {.taddr = 0}), ContainsSubstring("2 CTAs of 128 lanes"));
}
