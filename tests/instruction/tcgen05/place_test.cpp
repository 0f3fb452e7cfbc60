#include <array>

#include "bitmma/descriptor/zero_column_mask.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/stimulus/random_operands.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"
#include "support/instructions.hpp"

using namespace bitmma;

TEST_CASE("what a tcgen05.mma is laid out as is read back, and D is the product: every form, source and layout") {
  const int every = test::amount(23, 1, 1);  // a prime: the remainders of the index have all values nevertheless
  int index = 0;
  for (const Tcgen05Mma& plain : test::tcgen05_mmas()) {
    const Target target = default_target(plain);
    for (const OperandSource source : {OperandSource::smem, OperandSource::tmem}) {
      if (++index % every != 0) continue;
      Tcgen05Mma instruction = plain;
      instruction.a_source = source;
      instruction.enable_input_d = index % 3 != 0;
      const int scales = mma_of(instruction).scale_count, step = scales == 4 ? 4 : scales == 2 || scales == 6 ? 2 : 1;
      if (scales > 0)
        instruction.scale_a_id = index % (4 / step) * step, instruction.scale_b_id = index / 2 % (4 / step) * step;
      if (plain.sparse && (plain.kind == MmaKind::f16 || plain.kind == MmaKind::tf32))
        instruction.sparsity_selector = index % 4;
      const bool scales_d = (plain.kind == MmaKind::f16 || plain.kind == MmaKind::tf32) && !plain.weight_stationary;
      if (scales_d && index % 2 == 0) instruction.scale_input_d = index % 16;
      const bool layout_c = plain.sparse && plain.m == 128 && plain.cta_group == 2;
      if (source == OperandSource::tmem && plain.m >= 128 && !plain.weight_stationary && scales == 0 && !layout_c)
        instruction.ashift = index % 4 == 0;
      std::optional<uint64_t> mask;
      if (plain.weight_stationary && index % 2 == 0) {
        instruction.max_shift_code = index % 4;
        const int limit = std::min(max_shift_columns(instruction.max_shift_code), plain.m == 32 ? 16 : 32);
        mask = encode(ZeroColumnMask{.start_count = {index % 7, 3, 0, 1},
                                     .first_span = {index % 2, 1, 0, 1},
                                     .non_zero_mask = index % 4 != 0,
                                     .skip_span = index % 5,
                                     .use_span = index % 9,
                                     .column_shift = index % (limit + 1)});
      }
      constexpr std::array modes{Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128};
      const bool may_transpose = info(plain.a).bits >= 8 && info(plain.b).bits >= 8 && index % 2 == 0;
      const auto layout = [&](int turn) {
        const Major major = may_transpose && turn % 4 >= 2 ? Major::mn : Major::k;
        return OperandLayout{.major = major,
                             .swizzle = major == Major::mn && plain.kind == MmaKind::tf32
                                            ? Swizzle::b128_atom32
                                            : modes[static_cast<size_t>(turn) % 4],
                             .padding_bytes = turn % 3 * 16,
                             .start_bytes = turn % 5 * 16,
                             .base_offset = turn % 8};
      };
      const OperandLayout a = source == OperandSource::tmem ? OperandLayout{} : layout(index), b = layout(index / 3);
      instruction = std::get<Tcgen05Mma>(with_majors(instruction, a, b));
      if (!violations_of(instruction, target).empty()) continue;  // an N that an N-major 8-bit B cannot have
      INFO(print(instruction) << " M " << instruction.m << " N " << instruction.n << " " << info(instruction.a).name
                              << " x " << info(instruction.b).name);
      Operands operands =
          random_operands(instruction, target, distributions[static_cast<size_t>(index) % distributions.size()].id, 6,
                          static_cast<uint64_t>(index));
      const State state = place_operands(instruction, {.a = a, .b = b, .zero_column_mask = mask}, operands,
                                         filler_stream(6, static_cast<uint64_t>(index)));
      if (mask) {
        const std::vector<bool> zeroed = zeroed_columns(decode_zero_column_mask(*mask), instruction.m, instruction.n);
        for (int col = 0; col < instruction.n; ++col) {
          if (!zeroed[static_cast<size_t>(col)]) continue;
          for (int k = 0; k < instruction.k; ++k) operands.b(k, col) = 0;
        }
      }
      const Operands back = gather_operands(instruction, target, state);
      REQUIRE(back.a == operands.a);
      REQUIRE(back.b == operands.b);
      REQUIRE(back.selected_k == operands.selected_k);
      REQUIRE(back.mixed.empty());
      REQUIRE(back.scales == operands.scales);
      REQUIRE(back.c.has_value() == operands.c.has_value());
      if (operands.c) REQUIRE(*back.c == *operands.c);
      State after = state;
      execute(instruction, target, after);
      REQUIRE(recorded_result(instruction, after) == multiply_accumulate(model_for(instruction, target), operands));
      REQUIRE(result_of(instruction, target, state) == recorded_result(instruction, after));
      // Only cells of D were written.
      State restored = after;
      const std::span<uint32_t> cells = restored.writable_words(Field::tmem);
      const TmemD d{.layout = find_tmem_layout(instruction.m, instruction.cta_group, instruction.weight_stationary,
                                               instruction.sparse),
                    .n = instruction.n};
      for (int row = 0; row < instruction.m; ++row) {
        for (int col = 0; col < instruction.n; ++col) {
          const TmemPlace place = d.place_of(row, col);
          const auto cell = static_cast<size_t>((place.cta * tmem_lanes + place.lane) * state.columns() + place.column);
          cells[cell] = state.words(Field::tmem)[cell];
        }
      }
      REQUIRE(restored == state);
    }
  }
  CHECK(index > 700);
}

TEST_CASE(
    "everything that a tcgen05.mma needs in Tensor Memory fits from column 0, in as many columns as alloc gives") {
  for (const Tcgen05Mma& plain : test::tcgen05_mmas()) {
    const Instruction instruction = with_a_source(plain, OperandSource::tmem);
    const Target target = default_target(instruction);
    const State state = place_operands(
        instruction, {}, random_operands(instruction, target, Distribution::normal, 1, 0), filler_stream(1, 0));
    const int columns = state.columns();
    REQUIRE(columns >= 32);
    REQUIRE(columns <= tmem_columns);
    REQUIRE((columns & (columns - 1)) == 0);
    REQUIRE(state.number(Field::d_tmem) == 0);
    // No copies that differ, no metadata or strides that look wrong; ue8m0 for NVFP4, and an N that CUTLASS does not
    // use, are what the test asks for.
    for (const Violation& warning : warnings_of(instruction, target, state)) {
      REQUIRE((warning.field == "scale_type" || (warning.field == "n" && plain.n % 16 != 0)));
    }
  }
}
