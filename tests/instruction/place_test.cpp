#include "bitmma/instruction/place.hpp"

#include "bitmma/core/bits.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/stimulus/random_case.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"
#include "support/instructions.hpp"

using namespace bitmma;

namespace {

/// The bits that stand at a place of the state.
uint32_t read(const Instruction& instruction, const State& state, Field registers, const Place& place, int width_bits) {
  const auto mask = static_cast<uint32_t>(low_mask(width_bits));
  if (const auto* smem = std::get_if<SmemRead>(&place)) {
    const std::span<const uint8_t> image = state.image(smem->cta, mma_of(instruction).cta_group);
    uint64_t bits = 0;
    for (int byte = 0; byte * 8 < smem->place.bit + width_bits; ++byte)
      bits |= uint64_t{image[static_cast<size_t>(smem->place.byte + byte)]} << 8 * byte;
    return static_cast<uint32_t>(bits >> smem->place.bit) & mask;
  }
  if (const auto* reg = std::get_if<RegisterPlace>(&place)) {
    const auto per_thread = static_cast<int>(state.extent(registers, 1));
    if (reg->reg == per_thread) return state.words(Field::redval)[static_cast<size_t>(reg->thread)] & mask;
    return state.words(registers)[static_cast<size_t>(reg->thread * per_thread + reg->reg)] >> reg->bit & mask;
  }
  const auto& cell = std::get<TmemPlace>(place);
  const auto index = static_cast<size_t>((cell.cta * tmem_lanes + cell.lane) * state.columns() + cell.column);
  return state.words(Field::tmem)[index] >> cell.bit & mask;
}

}  // namespace

TEST_CASE("every place of an operand holds the code that gather reads there, in every family") {
  std::vector<Instruction> instructions = test::sample_instructions();
  for (const Tcgen05Mma& instruction : test::tcgen05_mmas()) {
    if (instruction.n > 64) continue;
    instructions.emplace_back(instruction);
    instructions.push_back(with_a_source(instruction, OperandSource::tmem));
  }
  instructions.emplace_back(Tcgen05Mma{.n = 16, .a_source = OperandSource::tmem, .ashift = true});
  instructions.emplace_back(Wgmma{.transpose_a = true, .transpose_b = true});
  uint64_t seed = 0;
  for (const Instruction& instruction : instructions) {
    // Codes of 64 bits have tests of their own.
    if (!is_mma(instruction) || mma_of(instruction).d == Format::f64) continue;
    if (++seed % test::amount(4, 1, 1) != 0) continue;
    const Mma mma = mma_of(instruction);
    const OperandLayout a{.major = mma.a_major}, b{.major = mma.b_major, .padding_bytes = 16};
    const Case this_case =
        random_case(instruction, default_target(instruction), {.a = a, .b = b}, Distribution::bits, 1, seed);
    const State& state = this_case.before;
    const Operands operands = gather_operands(instruction, this_case.target, state);
    INFO(print(instruction) << " M " << mma.m << " N " << mma.n);
    const PlaceMap of_a(instruction, this_case.target, state, Role::a),
        of_b(instruction, this_case.target, state, Role::b), of_d(instruction, this_case.target, state, Role::d);
    for (int row = 0; row < mma.m; ++row) {
      for (int col = 0; col < mma.stored_k(); ++col)
        REQUIRE(read(instruction, state, Field::a_regs, of_a.place_of(row, col), info(mma.a).bits) ==
                operands.a(row, col));
      for (int col = 0; col < mma.n && mma.c == mma.d; ++col)
        REQUIRE(read(instruction, state, Field::accumulator, of_d.place_of(row, col), info(mma.d).bits) ==
                (*operands.c)(row, col));
    }
    for (int k = 0; k < mma.k; ++k) {
      for (int col = 0; col < mma.n; ++col)
        REQUIRE(read(instruction, state, Field::b_regs, of_b.place_of(k, col), info(mma.b).bits) == operands.b(k, col));
    }
  }
  CHECK(seed > 200);
}

TEST_CASE("every place of a move's result holds the word that it left") {
  uint64_t seed = 0;
  for (const Instruction& instruction : test::sample_instructions()) {
    if (is_mma(instruction)) continue;
    const Case this_case = test::sample_case(instruction, seed++);
    const PlaceMap map(instruction, this_case.target, this_case.before, Role::d);
    State after = this_case.before;
    execute(instruction, this_case.target, after);
    const Matrix words = recorded_result(instruction, after);
    for (int row = 0; row < words.rows(); ++row) {
      for (int col = 0; col < words.cols(); ++col)
        REQUIRE(read(instruction, after, Field::regs, map.place_of(row, col), 32) == words(row, col));
    }
  }
}

TEST_CASE("the operands in shared memory are those with descriptors") {
  for (const Instruction& instruction : test::sample_instructions()) {
    const Case this_case = test::sample_case(instruction, 0);
    const std::vector<SmemOperand> operands = smem_operands(instruction, this_case.target, this_case.before);
    size_t expected = 0;
    if (is_mma(instruction)) {
      const Mma mma = mma_of(instruction);
      expected = (mma.a_source == OperandSource::smem) + (mma.b_source == OperandSource::smem);
      for (const SmemOperand& operand : operands) {
        const bool is_a = operand.role == Role::a;
        CHECK(operand.matrix.rows == (is_a ? mma.m : mma.n) / mma.cta_group);
        CHECK(operand.matrix.cols == (is_a ? mma.stored_k() : mma.k));
        CHECK(operand.matrix.element_bits == (is_a ? mma.a_container_bits : mma.b_container_bits));
        CHECK(encode(operand.matrix.descriptor) == this_case.before.number(is_a ? Field::a_desc : Field::b_desc));
      }
    }
    CHECK(operands.size() == expected);
  }
}

TEST_CASE("places print as people write them") {
  CHECK(print(Place(SmemRead{.linear = 0x400, .place = {.byte = 0x480}})) == "byte 0x480 (unswizzled 0x400)");
  CHECK(print(Place(SmemRead{.cta = 1, .linear = 0x400, .place = {.byte = 0x400, .bit = 4}})) ==
        "odd CTA, byte 0x400 bit 4");
  CHECK(print(Place(RegisterPlace{38, 3, 0})) == "thread 38 register 3 bit 0");
  CHECK(print(Place(TmemPlace{0, 17, 5, 0})) == "lane 17 column 5 bit 0");
  CHECK(print(Place(TmemPlace{1, 17, 5, 16})) == "odd CTA, lane 17 column 5 bit 16");
}
