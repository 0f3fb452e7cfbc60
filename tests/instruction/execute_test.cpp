#include "bitmma/instruction/execute.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "bitmma/arithmetic/cpu_target.hpp"
#include "bitmma/arithmetic/multiply_accumulate.hpp"
#include "bitmma/core/bits.hpp"
#include "bitmma/instruction/place.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/memory/smem.hpp"
#include "bitmma/stimulus/random_case.hpp"
#include "support/catch.hpp"
#include "support/instructions.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;
using test::refusal_of;

namespace {

/// Rows `first` .. `first + count - 1` of a matrix of which an instruction reads some columns at a time.
Matrix cols_of(const Matrix& matrix, int first, int count) { return block_of(matrix, 0, matrix.rows(), first, count); }
Matrix rows_of(const Matrix& matrix, int first, int count) { return block_of(matrix, first, count, 0, matrix.cols()); }

/// 128 lanes x `columns` words through tcgen05.st or .ld of the shape: every warp, and both halves of its lanes where
/// the shape has half of them. `words` holds lane after lane.
void move_lanes(State& state, MoveKind kind, LdStShape shape, int column, int columns, std::vector<uint32_t>& words) {
  const LdStInfo& row = ldst_shapes[static_cast<size_t>(shape)];
  const bool whole = shape == LdStShape::s32x32b;
  LdSt move{.shape = shape};
  const int columns_per_num = shape == LdStShape::s32x32b     ? 1
                              : shape == LdStShape::s16x32bx2 ? 2
                                                              : 2 * row.registers_per_num;
  move.num = columns / columns_per_num;
  REQUIRE(move.num * columns_per_num == columns);
  const Instruction instruction = tmem_move({.kind = kind, .ldst = move});
  const auto split = static_cast<int>(std::get<TmemMove>(instruction).half_split_offset);
  for (int warp = 0; warp < 4; ++warp) {
    for (int half = 0; half < (whole ? 1 : 2); ++half) {
      const int base = 32 * warp + 16 * half;
      const auto word_of = [&](int thread, int reg) -> uint32_t& {
        const TmemAddress place = move.place_of(thread, reg, 0);
        const int in_second = shape == LdStShape::s16x32bx2 && thread >= 16 ? split : 0;
        return words[static_cast<size_t>((base + place.lane) * columns + place.column + in_second)];
      };
      std::vector<uint32_t> registers;
      for (int thread = 0; thread < 32; ++thread) {
        for (int reg = 0; reg < move.registers(); ++reg) registers.push_back(word_of(thread, reg));
      }
      state.set(Field::warp, static_cast<uint64_t>(warp));
      state.set(Field::taddr, encode(TmemAddress{base, column}));
      if (kind == MoveKind::st) state.set(Field::regs, registers, {32, move.registers()});
      else state.erase(Field::regs);
      execute(instruction, Target::sm_100a, state);
      const auto loaded = state.words(Field::regs);
      for (int thread = 0; thread < 32; ++thread) {
        for (int reg = 0; reg < move.registers(); ++reg)
          word_of(thread, reg) = loaded[static_cast<size_t>(thread * move.registers() + reg)];
      }
    }
  }
}

}  // namespace

TEST_CASE("an instruction refuses the state of every other family, and leaves it as it was") {
  const std::vector<Instruction> all = test::sample_instructions();
  uint64_t seed = 0;
  for (const Instruction& owner : all) {
    const State state = test::sample_case(owner, seed++).before;
    for (const Instruction& other : all) {
      if (family_of(other) == family_of(owner)) continue;
      INFO(print(other) << " on a state of " << print(owner));
      const Target target = default_target(other);
      State changed = state;
      CHECK_THROWS_AS(execute(other, target, changed), Error);
      CHECK(changed == state);
      CHECK_THROWS_AS(result_of(other, target, state), Error);
      CHECK_THROWS_AS(gather_operands(other, target, state), Error);
      CHECK_THROWS_AS(warnings_of(other, target, state), Error);
      CHECK_FALSE(violations_of(other, state).empty());
    }
  }
}

TEST_CASE("an instruction on a target that lacks it is refused with the targets that have it") {
  int count = 0;
  for (const Form& form : forms()) {
    const Instruction instruction = instructions_of(form).front();
    const Case this_case = test::sample_case(instruction, 1);
    for (const TargetInfo& target : targets) {
      if (targets_of(instruction).contains(target.id)) continue;
      INFO(form.name << " on " << target.name);
      State state = this_case.before;
      const std::vector<Violation> refusal = refusal_of([&] { execute(instruction, target.id, state); });
      CHECK_THAT(refusal, refused(unsupported_target, "target"));
      CHECK_THAT(refusal, refused(unsupported_target, "target"));
      CHECK(state == this_case.before);
      CHECK(refusal_of([&] { result_of(instruction, target.id, this_case.before); }) == refusal);
      CHECK(refusal_of([&] { random_case(instruction, target.id, {}, Distribution::normal, 1, 0); }) == refusal);
      ++count;
    }
  }
  CHECK(count > 35 * 28);
}

TEST_CASE("an illegal instruction is refused with every violation at once, and before anything is read") {
  const Instruction bad = Wgmma{.m = 128, .n = 12, .k = 8};
  State state;
  CHECK_THROWS_AS(execute(bad, Target::sm_90a, state), Error);
  const std::vector<Violation> refusal = refusal_of([&] { execute(bad, Target::sm_80, state); });
  for (const test::Refusal& part : std::vector<test::Refusal>{
           {illegal_value, "m"}, {illegal_value, "n"}, {illegal_value, "k"}, {unsupported_target, "target"}})
    CHECK_THAT(refusal, refused(part));
  CHECK(std::ranges::find(refusal, "smem", &Violation::field) == refusal.end());
}

TEST_CASE("execute leaves in the state what result_of says it will, for every sample and distribution") {
  for (const Instruction& instruction : test::sample_instructions()) {
    for (uint64_t seed = 0; seed < distributions.size(); ++seed) {
      const Case this_case = test::sample_case(instruction, seed);
      State state = this_case.before;
      const Matrix result = result_of(instruction, this_case.target, state);
      REQUIRE(state == this_case.before);
      execute(instruction, this_case.target, state);
      INFO(print(instruction));
      REQUIRE(recorded_result(instruction, state) == result);
      if (is_mma(instruction)) {
        const Operands operands = gather_operands(instruction, this_case.target, this_case.before);
        REQUIRE(result == multiply_accumulate(model_for(instruction, this_case.target), operands));
      }
    }
  }
}

TEST_CASE("a state that borrows its buffers gives the same bits, and its owner keeps its own") {
  for (const Instruction& instruction : test::sample_instructions()) {
    const Case this_case = test::sample_case(instruction, 2);
    const State owner = this_case.before;
    State looking;
    for (const Buffer& buffer : owner.buffers()) {
      if (info(buffer.field()).is_number) looking.set(buffer.field(), buffer.number());
      else if (info(buffer.field()).type == ElementType::u8)
        looking.borrow(buffer.field(), buffer.bytes(), buffer.extents());
      else looking.borrow(buffer.field(), buffer.words(), buffer.extents(), buffer.is_wide());
    }
    const State copy = looking;
    State owning = owner;
    execute(instruction, this_case.target, owning);
    execute(instruction, this_case.target, looking);
    CHECK(looking == owning);
    CHECK(owner == this_case.before);
    CHECK(copy == this_case.before);
  }
}

TEST_CASE("a model whose D is of another type than the instruction's is refused, and the state stays") {
  const Instruction f32 = parse_instruction("wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16"),
                    f16 = parse_instruction("wgmma.mma_async.sync.aligned.m64n32k16.f16.f16.f16");
  for (const auto& [instruction, other] : {std::pair(f32, f16), std::pair(f16, f32)}) {
    const State before = random_case(instruction, Target::sm_90a, {}, Distribution::normal, 1, 0).before;
    State after = before;
    CHECK_THROWS_AS(execute(instruction, Target::sm_90a, after, &model_for(other, Target::sm_90a)), Error);
    CHECK(std::ranges::equal(after.words(Field::accumulator), before.words(Field::accumulator)));
  }
}

TEST_CASE("execute computes in the accumulator what matrices give, special values and disabled lanes included") {
  std::vector<Instruction> instructions;
  for (const std::string_view types : {"k16.f32.f16.f16", "k16.f32.bf16.bf16", "k16.f16.f16.f16", "k8.f32.tf32.tf32",
                                       "k32.f32.e4m3.e5m2", "k32.f16.e4m3.e4m3", "k32.s32.s8.u8"}) {
    for (const int n : {8, 24, 32, 96, 256})
      instructions.push_back(parse_instruction(fmt::format("wgmma.mma_async.sync.aligned.m64n{}{}", n, types)));
  }
  for (const test::Tcgen05Types& types : test::tcgen05_types()) {
    if (types.scale_vec != ScaleVec::unwritten) continue;
    for (const auto& [m, n, ctas] : {std::tuple(128, 256, 1), std::tuple(128, 48, 1), std::tuple(64, 64, 1),
                                     std::tuple(128, 96, 2), std::tuple(256, 64, 2)}) {
      const Instruction instruction = test::tcgen05_mma(types, m, n, ctas);
      if (violations_of(instruction, Target::sm_100a).empty() && mma_of(instruction).scale_count == 0)
        instructions.push_back(instruction);
    }
  }
  const std::string_view usual = cpu_target();
  RandomStream random(11, 0);
  for (const Instruction& instruction : instructions) {
    const Target target = default_target(instruction);
    const AccumulatorModel& model = model_for(instruction, target);
    for (size_t i = 0; i < distributions.size(); ++i) {
      State before = random_case(instruction, target, {}, static_cast<Distribution>(i), 5, i).before;
      const Field field = before.has(Field::tmem) ? Field::tmem : Field::accumulator;
      const std::span<uint32_t> words = before.writable_words(field);
      // Some special values of f32 in C; everywhere in the last state.
      for (size_t j = 0; j < (i % 3 == 0 ? 0 : i % 3 == 1 ? 5 : words.size()); ++j) {
        uint32_t& word = words[i % 3 == 1 ? random.below(static_cast<uint32_t>(words.size())) : j];
        word = i % 3 == 1 ? random.word() | 0x7F800000 : random.word();
      }
      const Matrix c = recorded_result(instruction, before);
      Matrix expected = multiply_accumulate(model, gather_operands(instruction, target, before));
      const PlaceMap places(instruction, target, before, Role::d);
      const std::span<const uint32_t> disabled = before.words(Field::disable_output_lane);
      for (int row = 0; row < c.rows() && !disabled.empty(); ++row) {
        for (int col = 0; col < c.cols(); ++col) {
          const auto place = std::get<TmemPlace>(places.place_of(row, col));
          if ((disabled[static_cast<size_t>(4 * place.cta + place.lane / 32)] >> place.lane % 32 & 1) != 0)
            expected(row, col) = c(row, col);
        }
      }
      for (const std::string_view cpu : cpu_targets()) {
        use_cpu_target(cpu);
        State after = before;
        execute(instruction, target, after);
        CAPTURE(print(instruction), i, cpu);
        REQUIRE(recorded_result(instruction, after) == expected);
      }
      use_cpu_target(usual);
    }
  }
}

TEST_CASE("another row of arithmetic can be asked what it would compute") {
  const Instruction instruction = Wgmma{.a = Format::e4m3, .b = Format::e4m3};
  const Case this_case = test::sample_case(instruction, 2);
  AccumulatorModel wider = model_for(instruction, this_case.target);
  wider.fraction_bits = 25, wider.output_fraction_bits = 23;
  const Operands operands = gather_operands(instruction, this_case.target, this_case.before);
  const Matrix d = result_of(instruction, this_case.target, this_case.before, &wider);
  CHECK(d == multiply_accumulate(wider, operands));
  CHECK(d != result_of(instruction, this_case.target, this_case.before));
  State state = this_case.before;
  execute(instruction, this_case.target, state, &wider);
  CHECK(recorded_result(instruction, state) == d);
}

TEST_CASE("C is not read when the instruction does not take D as input, NaN there included") {
  const Instruction instruction = Wgmma{.enable_input_d = false};
  State state = place_operands(
      instruction, {}, random_operands(instruction, Target::sm_90a, Distribution::integers, 1, 0), filler_stream(1, 0));
  const Matrix d = result_of(instruction, Target::sm_90a, state);
  std::ranges::fill(state.writable_words(Field::accumulator), 0x7FC00000);
  CHECK(result_of(instruction, Target::sm_90a, state) == d);
  state.erase(Field::accumulator);
  CHECK(result_of(instruction, Target::sm_90a, state) == d);
  execute(instruction, Target::sm_90a, state);
  CHECK(recorded_result(instruction, state) == d);
}

TEST_CASE("plain matrices multiply as the same matrices in a state do") {
  uint64_t seed = 0;
  for (const Instruction& sample : test::sample_instructions()) {
    if (!is_mma(sample)) continue;
    for (const bool with_c : {false, true}) {
      const Instruction instruction = with_enable_input_d(sample, with_c);
      if (!with_c && family_of(instruction) == Family::mma_sync) continue;  // always reads C
      // No infinities: a stored zero moves within its chunk when it is compressed again.
      const Case this_case = random_case(instruction, default_target(instruction), {}, Distribution::narrow, seed++, 0);
      const BlockScales scales{this_case.logical.scale_a.value_or(Matrix{}),
                               this_case.logical.scale_b.value_or(Matrix{})};
      const Matrix d =
          multiply(instruction, this_case.target, *this_case.logical.a, *this_case.logical.b,
                   with_c ? &*this_case.logical.c : nullptr, this_case.logical.scale_a ? &scales : nullptr);
      INFO(print(instruction));
      CHECK(d == result_of(instruction, this_case.target, this_case.before));
    }
  }
  const Instruction instruction = Wgmma{};
  const Matrix a(Format::f16, 64, 16), b(Format::f16, 16, 8);
  CHECK(multiply(instruction, a, b) == Matrix(Format::f32, 64, 8));
  CHECK_THAT(refusal_of([&] { multiply(instruction, b, b); }), refused(wrong_shape, "a"));
  CHECK_THAT(refusal_of([&] { multiply(instruction, a, a); }), refused(wrong_shape, "b"));
  CHECK_THAT(refusal_of([&] { multiply(instruction, a.as(Format::bf16), b); }), refused(wrong_shape, "a"));
  CHECK_THAT(refusal_of([&] { multiply(Wgmma{.n = 12}, a, b); }), refused(illegal_value, "n"));
  CHECK_THAT(refusal_of([&] { multiply(TmemMove{}, a, b); }), refused(wrong_instruction, "instruction"));
}

TEST_CASE(
    "st, mma with A in Tensor Memory, ld: one state gives the bits of operands laid out directly, in every shape") {
  const Instruction mma = tcgen05({.n = 16, .a_source = OperandSource::tmem});
  const Target target = Target::sm_100a;
  for (const LdStInfo& shape : ldst_shapes) {
    INFO(shape.name);
    const Operands operands = random_operands(mma, target, Distribution::cancel, 17, static_cast<uint64_t>(shape.id));
    const State direct = place_operands(mma, {}, operands, filler_stream(17, 0));
    const Matrix expected = result_of(mma, target, direct);
    REQUIRE(expected == multiply_accumulate(model_for(mma, target), operands));
    // Only shared memory and addresses are taken over: everything in Tensor Memory comes through registers.
    State state = direct;
    std::ranges::fill(state.writable_words(Field::tmem), 0xDEADBEEF);
    std::vector<uint32_t> a, c, d(128 * 16);
    for (int row = 0; row < 128; ++row) {
      for (int k = 0; k < 16; k += 2) a.push_back(operands.a(row, k) | operands.a(row, k + 1) << 16);
      for (int col = 0; col < 16; ++col) c.push_back((*operands.c)(row, col));
    }
    const int a_column = decode_tmem_address(state.word(Field::a_tmem)).column;
    move_lanes(state, MoveKind::st, shape.id, a_column, 8, a);
    move_lanes(state, MoveKind::st, shape.id, 0, 16, c);
    execute(mma, target, state);
    move_lanes(state, MoveKind::ld, shape.id, 0, 16, d);
    REQUIRE(std::ranges::equal(d, expected.words()));
  }
}

TEST_CASE("a tcgen05 chain on one state is the product of the whole K, D of a step being C of the next") {
  const Target target = Target::sm_100a;
  Tcgen05Mma step{.n = 32};
  State state;
  Matrix d;
  for (int i = 0; i < 3; ++i) {
    step.enable_input_d = i > 0;
    Operands operands = random_operands(step, target, Distribution::narrow, 5, static_cast<uint64_t>(i));
    const State placed = place_operands(step, {}, operands, filler_stream(5, static_cast<uint64_t>(i)));
    if (i == 0) state = placed;
    for (const Field field : {Field::a_desc, Field::b_desc}) state.set(field, placed.number(field));
    state.borrow(Field::smem, placed.bytes(Field::smem), {placed.extent(Field::smem, 0)});
    if (i > 0) operands.c = d;
    d = multiply_accumulate(model_for(step, target), operands);
    execute(step, target, state);
    REQUIRE(recorded_result(step, state) == d);
    state.erase(Field::smem);
  }
}

TEST_CASE("scales that tcgen05.cp copies to Tensor Memory scale the product as scales that were there") {
  const Target target = Target::sm_100a;
  struct Row {
    Tcgen05Mma mma;
    int scales;
  };
  for (const Row& row : {Row{{.kind = MmaKind::mxf8f6f4, .n = 64, .scale_a_id = 1, .scale_b_id = 2}, 1},
                         Row{{.kind = MmaKind::mxf4, .n = 96, .scale_a_id = 2}, 2},
                         Row{{.kind = MmaKind::mxf4nvf4, .n = 128, .scale_type = Format::ue4m3}, 4}}) {
    const Instruction mma = tcgen05(row.mma);
    INFO(print(mma));
    REQUIRE(mma_of(mma).scale_count == row.scales);
    const Operands operands = random_operands(mma, target, Distribution::wide, 23, static_cast<uint64_t>(row.scales));
    const State direct = place_operands(mma, {}, operands, filler_stream(23, 0));
    State state = direct;
    // As PTX 9.7.16.10.7 has it: the scales of row r in lane r % 32 and column r / 32, from byte id on.
    const int operand_bytes = static_cast<int>(state.extent(Field::smem, 0));
    std::vector<uint8_t> image(state.bytes(Field::smem).begin(), state.bytes(Field::smem).end());
    image.resize(static_cast<size_t>(operand_bytes + 2 * 512), 0xA5);
    const auto put = [&](int start, int outer, int byte, uint32_t code) {
      image[static_cast<size_t>(start + outer % 32 * 16 + outer / 32 * 4 + byte)] = static_cast<uint8_t>(code);
    };
    for (int j = 0; j < row.scales; ++j) {
      for (int m = 0; m < 128; ++m) put(operand_bytes, m, row.mma.scale_a_id + j, operands.scales->a(m, j));
      for (int n = 0; n < row.mma.n; ++n) put(operand_bytes + 512, n, row.mma.scale_b_id + j, operands.scales->b(j, n));
    }
    state.set(Field::smem, image, {static_cast<int64_t>(image.size())});
    const std::span<uint32_t> tmem = state.writable_words(Field::tmem);
    for (int lane = 0; lane < 128; ++lane) {
      for (const Field field : {Field::scale_a_tmem, Field::scale_b_tmem}) {
        for (int column = 0; column < 4; ++column)
          tmem[static_cast<size_t>(lane * state.columns() + static_cast<int>(direct.number(field)) + column)] =
              0x3C3C3C3C;
      }
    }
    REQUIRE(recorded_result(mma, state) == recorded_result(mma, direct));  // D is where it was
    REQUIRE(result_of(mma, target, state) != result_of(mma, target, direct));
    const Instruction copy = parse_instruction("tcgen05.cp.cta_group::1.32x128b.warpx4");
    for (const auto& [start, address] :
         {std::pair(operand_bytes, Field::scale_a_tmem), std::pair(operand_bytes + 512, Field::scale_b_tmem)}) {
      state.set(Field::taddr, direct.number(address));
      state.set(Field::s_desc,
                encode(SmemDescriptor{
                    .target = target, .start_address_bytes = start, .strides = {.stride_dim_byte_offset = 128}}));
      execute(copy, target, state);
    }
    CHECK(gather_operands(mma, target, state).scales == operands.scales);
    CHECK(warnings_of(mma, target, state).empty());
    execute(mma, target, state);
    CHECK(recorded_result(mma, state) == result_of(mma, target, direct));
    CHECK(recorded_result(mma, state) == multiply_accumulate(model_for(mma, target), operands));
  }
}

TEST_CASE("a wgmma chain over K = 64 is four steps that move the descriptors by 32 bytes, as chained by hand") {
  // A 64 x 64 and B 64 x 24 of f16, whole rows of 128 bytes under the 128B swizzle. B lies as N x K.
  constexpr int m = 64, n = 24, k = 64;
  const Target target = Target::sm_90a;
  for (const Distribution distribution : {Distribution::narrow, Distribution::cancel, Distribution::special}) {
    for (const OperandSource source : {OperandSource::smem, OperandSource::registers}) {
      const Wgmma step{.n = n, .a_source = source};
      std::vector<Operands> parts;
      for (uint64_t i = 0; i < 4; ++i) parts.push_back(random_operands(step, target, distribution, 31, i));
      Matrix a(Format::f16, m, k), b(Format::f16, k, n);
      for (int i = 0; i < 4; ++i) {
        set_block(a, 0, 16 * i, parts[static_cast<size_t>(i)].a);
        set_block(b, 16 * i, 0, parts[static_cast<size_t>(i)].b);
      }
      std::vector<uint8_t> image(16384, 0x7E);
      const auto descriptor = [](int64_t start) {
        return SmemDescriptor{.start_address_bytes = start,
                              .strides = {.leading_dim_byte_offset = 16, .stride_dim_byte_offset = 1024},
                              .swizzle = Swizzle::b128};
      };
      const SmemMatrix a_matrix{.descriptor = descriptor(0), .rows = m, .cols = k},
          b_matrix{.descriptor = descriptor(8192), .rows = n, .cols = k};
      scatter(a, SmemMap(a_matrix), image, "A");
      scatter(transposed(b), SmemMap(b_matrix), image, "B");
      // Row 9, k = 20 by hand: byte 40 of a row of 128, whose 16-byte unit is XORed with the row's place in its eight.
      const size_t byte = 9 * 128 + (((40 / 16) ^ (9 % 8)) * 16 + 40 % 16);
      REQUIRE((image[byte] | image[byte + 1] << 8) == static_cast<int>(a(9, 20)));

      State state;
      state.set(Field::smem, image, {static_cast<int64_t>(image.size())});
      const Fragment fragment = wgmma_d_fragment(Format::f32, n), a_fragment = wgmma_a_fragment(Format::f16, 16);
      std::vector<uint32_t> registers(static_cast<size_t>(fragment.words()), 0x7FC00001);
      state.set(Field::accumulator, registers, {128, fragment.registers()});
      Matrix d;
      for (int i = 0; i < 4; ++i) {
        Wgmma wgmma = step;
        wgmma.enable_input_d = i > 0;  // the first step does not read what is in the registers
        if (source == OperandSource::smem) {
          state.set(Field::a_desc, encode(a_matrix.descriptor) + static_cast<uint64_t>(2 * i));
        } else {
          std::vector<uint32_t> a_regs(static_cast<size_t>(a_fragment.words()));
          scatter(cols_of(a, 16 * i, 16), a_fragment, a_regs, "a_regs");
          state.set(Field::a_regs, a_regs, {128, 4});
        }
        state.set(Field::b_desc, encode(b_matrix.descriptor) + static_cast<uint64_t>(2 * i));
        execute(wgmma, target, state);
        Operands operands{.a = cols_of(a, 16 * i, 16), .b = rows_of(b, 16 * i, 16)};
        if (i > 0) operands.c = d;
        d = multiply_accumulate(model_for(wgmma, target), operands);
        REQUIRE(recorded_result(wgmma, state) == d);
      }
    }
  }
}

TEST_CASE("the words that a move leaves are its result: registers after ld, Tensor Memory after the others") {
  for (const Instruction& instruction : test::sample_instructions()) {
    const auto* move = std::get_if<TmemMove>(&instruction);
    if (!move) continue;
    const Case this_case = test::sample_case(instruction, 4);
    const Matrix result = result_of(instruction, this_case.target, this_case.before);
    CHECK(result.format() == Format::u32);
    if (move->loads()) {
      CHECK(result.rows() == 32);
      CHECK(result.cols() == move->ldst.registers() + (move->kind == MoveKind::ld_red ? 1 : 0));
    } else {
      CHECK(result.rows() == 128 * move->cta_group);
      CHECK(result.cols() == this_case.before.columns());
    }
    CHECK_THROWS_AS(gather_operands(instruction, this_case.target, this_case.before), Error);
    CHECK_THROWS_AS(model_for(instruction, this_case.target), Error);
  }
}

TEST_CASE("a result that the state does not hold is not read") {
  CHECK_THROWS_AS(recorded_result(Wgmma{}, {}), Error);
  CHECK_THROWS_AS(recorded_result(MmaSync{}, {}), Error);
  CHECK_THROWS_AS(recorded_result(Tcgen05Mma{}, {}), Error);
  CHECK_THROWS_AS(recorded_result(TmemMove{}, {}), Error);
  CHECK_THROWS_AS(recorded_result(TmemMove{.kind = MoveKind::st}, {}), Error);
  State of_one_cta;
  of_one_cta.set(Field::d_tmem, 0);
  of_one_cta.set(Field::tmem, std::vector<uint32_t>(128 * 64), {1, 128, 64});
  CHECK_NOTHROW(recorded_result(Tcgen05Mma{}, of_one_cta));
  CHECK_THROWS_AS(recorded_result(Tcgen05Mma{.cta_group = 2}, of_one_cta), Error);
}
