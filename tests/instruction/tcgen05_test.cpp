#include "bitmma/instruction/legality.hpp"
#include "bitmma/instruction/random_operands.hpp"
#include "bitmma/instruction/tcgen05_machine.hpp"
#include "bitmma/io/golden.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

struct Types {
  MmaKind kind;
  Format d, a, b;
  std::string scale_vec = "";
  Format scale_type = Format::ue8m0;
  int k = 0;
};

const std::vector<Types> types = {
    {MmaKind::f16, Format::f32, Format::f16, Format::f16},
    {MmaKind::f16, Format::f16, Format::f16, Format::f16},
    {MmaKind::f16, Format::f32, Format::bf16, Format::bf16},
    {MmaKind::tf32, Format::f32, Format::tf32, Format::tf32},
    {MmaKind::f8f6f4, Format::f32, Format::e4m3, Format::e5m2},
    {MmaKind::f8f6f4, Format::f16, Format::e2m3, Format::e3m2},
    {MmaKind::f8f6f4, Format::f32, Format::e2m1, Format::e4m3},
    {MmaKind::f8f6f4, Format::f32, Format::e3m2, Format::e2m1},
    {MmaKind::i8, Format::s32, Format::s8, Format::u8},
    {MmaKind::mxf8f6f4, Format::f32, Format::e4m3, Format::e5m2},
    {MmaKind::mxf8f6f4, Format::f32, Format::e2m1, Format::e3m2, ".block32"},
    {MmaKind::mxf4, Format::f32, Format::e2m1, Format::e2m1},
    {MmaKind::mxf4nvf4, Format::f32, Format::e2m1, Format::e2m1, ".scale_vec::2X"},
    {MmaKind::mxf4nvf4, Format::f32, Format::e2m1, Format::e2m1, ".scale_vec::4X", Format::ue4m3},
    {MmaKind::mxf4nvf4, Format::f32, Format::e2m1, Format::e2m1, ".block16"},
    {MmaKind::mxf4, Format::f32, Format::e2m1, Format::e2m1, ".block32", Format::ue8m0, 96},
    {MmaKind::mxf4nvf4, Format::f32, Format::e2m1, Format::e2m1, ".block16", Format::ue4m3, 96},
};

Instruction instruction_of(const Types& t, int m, int n, int cta_group, bool ws, bool sparse = false) {
  Instruction instruction{.family = Family::tcgen05,
                          .sparse = sparse,
                          .m = m,
                          .n = n,
                          .k = t.k,
                          .d = t.d,
                          .a = t.a,
                          .b = t.b,
                          .kind = t.kind,
                          .cta_group = cta_group,
                          .weight_stationary = ws,
                          .scale_vec = t.scale_vec,
                          .scale_type = t.scale_type};
  return with_idesc(instruction, idesc_of(instruction));
}

/// Every legal (types, form, M), at the first, a middle and the last N.
std::vector<Instruction> legal_instructions() {
  std::vector<Instruction> all;
  for (const Types& t : types) {
    for (const Tcgen05Form& form : tcgen05_forms()) {
      if (!form.kinds.contains(t.kind)) continue;
      for (const bool sparse : {false, true}) {
        if (sparse ? !form.sparse || t.k == 96 : !form.dense) continue;
        for (const int m : form.m) {
          std::vector<Instruction> of_m;
          for (int n = 8; n <= 256 && m; n += 8) {
            const Instruction instruction = instruction_of(t, m, n, form.cta_group, form.ws, sparse);
            if (tcgen05_violations(instruction).empty()) of_m.push_back(instruction);
          }
          if (of_m.empty()) continue;
          all.push_back(of_m.front());
          all.push_back(of_m[of_m.size() / 2]);
          all.push_back(of_m.back());
        }
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("tcgen05 mnemonics print and parse back, and wrong ones are refused") {
  for (const char* text :
       {"tcgen05.mma.cta_group::1.kind::f16", "tcgen05.mma.cta_group::2.kind::tf32",
        "tcgen05.mma.ws.cta_group::1.kind::i8.collector::b2::fill", "tcgen05.mma.sp.cta_group::1.kind::f8f6f4",
        "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X",
        "tcgen05.mma.sp.cta_group::2.kind::mxf8f6f4.block_scale.block32.collector::a::use",
        "tcgen05.mma.cta_group::1.kind::f16.ashift.collector::a::lastuse",
        "tcgen05.mma.cta_group::1.kind::f16.collector::a::lastuse"}) {
    CHECK(print(parse_instruction(text)) == text);
  }
  for (const auto& [text, message] :
       {std::pair("tcgen05.wait", ".mma, .ld, .st, .cp or .shift after tcgen05"),
        std::pair("tcgen05.mma.kind::f16", "it is mandatory"),
        std::pair("tcgen05.mma.cta_group::3.kind::f16", "cta_group::3"),
        std::pair("tcgen05.mma.cta_group::1.kind::bf16", "kind = kind::bf16"),
        std::pair("tcgen05.mma.cta_group::1.kind::mxf4", "always has scales"),
        std::pair("tcgen05.mma.cta_group::1.kind::f16.block_scale", "only the mx kinds have scales"),
        std::pair("tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::3X", "nothing more here"),
        std::pair("tcgen05.mma.cta_group::1.kind::f16.collector::b0::fill", "collector::a::fill")}) {
    CHECK_THROWS_WITH(parse_instruction(text), ContainsSubstring(message));
  }
}

TEST_CASE("M and N of every form are those of Table 39") {
  const Types f16{MmaKind::f16, Format::f32, Format::f16, Format::f16},
      i8{MmaKind::i8, Format::s32, Format::s8, Format::s8};
  const auto count = [](const Types& t, int m, int cta_group, bool ws) {
    int legal = 0;
    for (int n = 8; n <= 256; n += 8) legal += tcgen05_violations(instruction_of(t, m, n, cta_group, ws)).empty();
    return legal;
  };
  CHECK(count(f16, 64, 1, false) == 32);
  CHECK(count(f16, 128, 2, false) == 16);
  CHECK(count(f16, 256, 1, false) == 0);
  CHECK(count(f16, 32, 1, false) == 0);
  CHECK(count(f16, 32, 1, true) == 3);
  CHECK(count(f16, 128, 2, true) == 0);
  CHECK(count(i8, 128, 1, false) == 18);
  CHECK(count(i8, 256, 2, false) == 8);
  Instruction transposed =
      instruction_of({MmaKind::f8f6f4, Format::f32, Format::e4m3, Format::e4m3}, 128, 24, 1, false);
  transposed.imm_trans_b = 1;
  CHECK_THAT(tcgen05_violations(transposed).at(0).legal, ContainsSubstring("a multiple of 16"));
  transposed.a = Format::e2m1, transposed.imm_trans_a = 1;
  CHECK(tcgen05_violations(transposed).size() == 2);
}

TEST_CASE("what place_tcgen05 lays out is read back, and D is the product: every form, source and layout") {
  int index = 0;
  for (const Instruction& plain : legal_instructions()) {
    for (const OperandSource source : {OperandSource::smem, OperandSource::tmem}) {
      ++index;
      Instruction instruction = plain;
      instruction.a_source = source;
      instruction.scale_d = index % 3 != 0;
      const int scales = instruction.scale_count(), step = scales == 4 ? 4 : scales == 2 || scales == 6 ? 2 : 1;
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
      instruction = with_majors(instruction, a, b);
      if (!tcgen05_violations(instruction).empty()) continue;  // an N that an N-major 8-bit B cannot have
      INFO(print(instruction) << " M " << instruction.m << " N " << instruction.n << " " << info(instruction.a).name
                              << " x " << info(instruction.b).name);
      Operands operands =
          random_operands(instruction, distributions[static_cast<size_t>(index) % distributions.size()].id, 6,
                          static_cast<uint64_t>(index));
      const Tcgen05State state =
          place_tcgen05(instruction, a, b, operands, filler_stream(6, static_cast<uint64_t>(index)), mask);
      if (mask) {
        const std::vector<bool> zeroed = zeroed_columns(decode_zero_column_mask(*mask), instruction.m, instruction.n);
        for (int col = 0; col < instruction.n; ++col) {
          if (zeroed[static_cast<size_t>(col)]) operands.b.bits.col(col).setZero();
        }
      }
      const Operands back = gather_operands(instruction, state.view());
      REQUIRE(back.a == operands.a);
      REQUIRE(back.b == operands.b);
      REQUIRE(back.selected_k == operands.selected_k);
      REQUIRE(back.mixed.empty());
      REQUIRE(back.scales == operands.scales);
      REQUIRE(back.c.has_value() == operands.c.has_value());
      if (operands.c) REQUIRE(*back.c == *operands.c);
      const std::vector<uint32_t> after = simulate(instruction, state.view());
      REQUIRE(gather_d(instruction, state.registers.d_tmem, after, state.columns) ==
              multiply_accumulate(model_for(instruction), operands));
      Tcgen05State in_place = state;
      simulate_in_place(instruction, in_place.view(), in_place.tmem);
      REQUIRE(in_place.tmem == after);
    }
  }
  CHECK(index > 700);
}

TEST_CASE("st, mma, ld: A*B+C comes back through registers") {
  // Layout D, 128 x 16 f32: warp w of four reads lanes 32 w .. 32 w + 31 with 32x32b.x16.
  const Instruction instruction = instruction_of(types[0], 128, 16, 1, false);
  const Operands operands = random_operands(instruction, Distribution::normal, 8, 0);
  Tcgen05State state = place_tcgen05(instruction, {}, {}, operands, filler_stream(8, 0));
  const LdSt move{.shape = LdStShape::s32x32b, .num = 16};
  const auto each_register = [&](auto body) {
    for (int warp = 0; warp < 4; ++warp) {
      for (int thread = 0; thread < 32; ++thread) {
        for (int reg = 0; reg < move.registers(); ++reg) {
          const TmemAddress place = move.place_of(thread, reg, 0);
          body(32 * warp + thread, reg,
               static_cast<size_t>(32 * warp + place.lane) * static_cast<size_t>(state.columns) +
                   static_cast<size_t>(place.column));
        }
      }
    }
  };
  std::vector<uint32_t> registers(128 * 16);
  for (int row = 0; row < 128; ++row) {
    for (int col = 0; col < 16; ++col) registers[static_cast<size_t>(row * 16 + col)] = (*operands.c)(row, col);
  }
  each_register(
      [&](int thread, int reg, size_t cell) { state.tmem[cell] = registers[static_cast<size_t>(thread * 16 + reg)]; });
  const std::vector<uint32_t> after = simulate(instruction, state.view());
  const BitMatrix expected = multiply_accumulate(model_for(instruction), operands);
  each_register([&](int thread, int reg, size_t cell) { REQUIRE(after[cell] == expected(thread, reg)); });
}

TEST_CASE("disabled lanes keep what they had, and so do the upper halves of f16 cells and cells outside D") {
  const Instruction instruction = instruction_of(types[1], 64, 16, 1, false);  // f16 D, layout F
  const Operands operands = random_operands(instruction, Distribution::normal, 9, 0);
  Tcgen05State state = place_tcgen05(instruction, {}, {}, operands, filler_stream(9, 0));
  state.registers.disable_output_lane[1] = 0x00000003;  // lanes 32 and 33: rows 16 and 17
  const std::vector<uint32_t> after = simulate(instruction, state.view());
  int changed = 0;
  for (int lane = 0; lane < 128; ++lane) {
    for (int column = 0; column < state.columns; ++column) {
      const size_t cell = static_cast<size_t>(lane) * static_cast<size_t>(state.columns) + static_cast<size_t>(column);
      const bool in_d = lane % 32 < 16 && column < 16 && lane != 32 && lane != 33;
      REQUIRE(after[cell] >> 16 == state.tmem[cell] >> 16);
      if (!in_d) REQUIRE(after[cell] == state.tmem[cell]);
      changed += after[cell] != state.tmem[cell];
    }
  }
  CHECK(changed > 500);
}

TEST_CASE("unequal copies of A feed their own part of N") {
  Instruction instruction = instruction_of(types[0], 64, 64, 1, true);  // layout E: two copies
  instruction.a_source = OperandSource::tmem;
  const Operands first = random_operands(instruction, Distribution::normal, 10, 0);
  Operands second = first;
  second.a = random_operands(instruction, Distribution::normal, 10, 1).a;
  Tcgen05State state = place_tcgen05(instruction, {}, {}, first, filler_stream(10, 0));
  const Tcgen05State other = place_tcgen05(instruction, {}, {}, second, filler_stream(10, 0));
  std::copy(other.tmem.begin() + 64 * state.columns, other.tmem.end(),
            state.tmem.begin() + 64 * state.columns);  // lanes 64..127: copy 1, and D there (the same)
  const BitMatrix d = gather_d(instruction, state.registers.d_tmem, simulate(instruction, state.view()), state.columns);
  const BitMatrix left = multiply_accumulate(model_for(instruction), first),
                  right = multiply_accumulate(model_for(instruction), second);
  CHECK((d.bits.leftCols(32) == left.bits.leftCols(32)).all());
  CHECK((d.bits.rightCols(32) == right.bits.rightCols(32)).all());
}

TEST_CASE(
    "K = 96: rows of 48 bytes that pass the end of their 128 go on in a second buffer, from every start CUTLASS uses") {
  for (const int64_t start : {0, 48, 96, 16, 64, 112, 32, 80}) {
    const Instruction instruction = instruction_of(types.back(), 128, 64, 1, false);
    REQUIRE(instruction.k == 96);
    const OperandLayout layout{.start_bytes = start};
    const Operands operands = random_operands(instruction, Distribution::normal, 11, static_cast<uint64_t>(start));
    const Tcgen05State state = place_tcgen05(instruction, layout, layout, operands, filler_stream(11, 0));
    const SmemMatrix a = a_matrix(instruction, state.registers);
    CHECK(a.descriptor.leading_dim_absolute == (start + 48 > 128));
    const Operands back = gather_operands(instruction, state.view());
    CHECK(back.a == operands.a);
    CHECK(back.b == operands.b);
    // Row 9 by hand: byte kb of its 48 at start + kb of line 9, or past 128 at the beginning of line 9 of the second
    // buffer; then the XOR.
    const SmemMap map(a);
    for (int k = 0; k < 96; k += 2) {
      const int64_t position = start + k / 2, line = 9 % 8 * 128 + 9 / 8 * 1024;
      const int64_t linear =
          position < 128 ? position + line : a.descriptor.strides.leading_dim_byte_offset + position - 128 + line;
      REQUIRE(map.place_of(9, k) == SmemPlace{linear ^ (linear >> 7 & 7) << 4, 0});
    }
  }
  Instruction other = instruction_of(types[0], 128, 64, 1, false);
  Tcgen05State state = place_tcgen05(other, {}, {.swizzle = Swizzle::b64},
                                     random_operands(other, Distribution::normal, 1, 0), filler_stream(1, 0));
  state.registers.b_desc |= uint64_t{1} << 52;
  CHECK_THROWS_WITH(simulate(other, state.view()), ContainsSubstring("B leading_dim_mode = 1 (absolute address)"));
}

TEST_CASE("replicas of scales that differ feed their own lanes, and are warned about") {
  const Instruction instruction = instruction_of(types[9], 128, 32, 1, false);  // mxf8f6f4
  const Operands operands = random_operands(instruction, Distribution::narrow, 12, 0);
  Tcgen05State state = place_tcgen05(instruction, {}, {}, operands, filler_stream(12, 0));
  CHECK(warnings(instruction, state.view()).empty());
  // The scale of column 5 of B, doubled in the replica of lanes 64..95: rows 64..95 of D alone change.
  const TmemPlace place = scale_b_in_tmem(instruction, state.registers.scale_b_tmem).place_of(5, 0, 2);
  const std::vector<uint32_t> before = simulate(instruction, state.view());
  state.tmem[static_cast<size_t>(place.lane * state.columns + place.column)] += 1u << place.bit;
  const BitMatrix was = gather_d(instruction, 0, before, state.columns),
                  is = gather_d(instruction, 0, simulate(instruction, state.view()), state.columns);
  Operands doubled = operands;
  doubled.scales->b(0, 5) += 1;
  const BitMatrix other = multiply_accumulate(model_for(instruction), doubled);
  for (int row = 0; row < 128; ++row) {
    for (int col = 0; col < 32; ++col) REQUIRE(is(row, col) == (row / 32 == 2 ? other(row, col) : was(row, col)));
  }
  CHECK(warnings(instruction, state.view()).at(0).field == "copies");
}

TEST_CASE("bad tcgen05 machines get their message") {
  const Instruction instruction = instruction_of(types[3], 128, 16, 1, false);  // tf32
  const Tcgen05State good =
      place_tcgen05(instruction, {}, {}, random_operands(instruction, Distribution::normal, 1, 0), filler_stream(1, 0));
  const auto message = [&](auto change, Instruction with) -> std::string {
    Tcgen05State bad = good;
    change(bad);
    try {
      simulate(with, bad.view());
    } catch (const Error& error) {
      return error.what();
    }
    return "fine";
  };
  CHECK(message([](Tcgen05State&) {}, instruction) == "fine");
  CHECK_THAT(message([](Tcgen05State& s) { s.registers.d_tmem = 0x00100000; }, instruction),
             ContainsSubstring("D lane = 16"));
  CHECK_THAT(message([](Tcgen05State& s) { s.registers.d_tmem = 500; }, instruction), ContainsSubstring("500..515"));
  CHECK_THAT(message([](Tcgen05State& s) { s.registers.d_tmem = 20; }, instruction),
             ContainsSubstring("inside the 32 columns"));
  CHECK_THAT(message([](Tcgen05State& s) { s.columns = 31; }, instruction), ContainsSubstring("Tensor Memory"));
  CHECK_THAT(message([](Tcgen05State& s) { s.smem[0].resize(100); }, instruction),
             ContainsSubstring("shared-memory image of 100 bytes"));
  CHECK_THAT(
      message(
          [](Tcgen05State& s) { s.registers.a_desc = (s.registers.a_desc & ~(uint64_t{7} << 61)) | uint64_t{1} << 61; },
          instruction),
      ContainsSubstring("A swizzle = 128-atom32"));
  Instruction n_major = instruction;
  n_major.imm_trans_b = 1;
  CHECK_THAT(message([](Tcgen05State&) {}, n_major), ContainsSubstring("128-atom32 (code 1)"));
  CHECK_THROWS_WITH(with_idesc(instruction, idesc_of(instruction) | 4), ContainsSubstring("sparse bit"));
}

TEST_CASE("golden then verify round-trips for every form of tcgen05.mma, through files") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("x");
  int index = 0;
  for (const Instruction& plain : legal_instructions()) {
    if (++index % 3 != 1) continue;  // the first N of each; the others differ in N alone
    GoldenRequest request{
        .instruction = plain, .cases = 2, .seed = static_cast<uint64_t>(index), .distribution = Distribution::narrow};
    request.instruction.a_source = index % 2 ? OperandSource::smem : OperandSource::tmem;
    INFO(print(plain) << " M " << plain.m << " N " << plain.n);
    write_tensor_file(path, make_golden(request, 2));
    const VectorFile vectors = read_vector_file(path);
    REQUIRE(vectors.instruction.m == plain.m);
    const Comparison result = verify(vectors, 2);
    REQUIRE(result.mismatches == 0);
    REQUIRE(result.outputs == 2 * plain.m * plain.n);
    // A flipped bit is seen, and simulate repairs it.
    TensorFile wrong = vectors.file;
    const Tensor& after = *vectors.file.find("tmem_after");
    std::vector<uint8_t> bytes(after.bytes.begin(), after.bytes.end());
    bytes[0] ^= 1;
    wrong.set(Tensor::from_bytes("tmem_after", "U32", after.shape, bytes));
    write_tensor_file(folder.path("wrong"), wrong);
    const Comparison seen = verify(read_vector_file(folder.path("wrong")), 1);
    REQUIRE(seen.mismatches == 1);
    REQUIRE(seen.first->place.cell == TmemPlace{0, 0, 0, 0});
    write_tensor_file(folder.path("repaired"), with_simulated_d(read_vector_file(folder.path("wrong")), {}, {}, 1));
    REQUIRE(verify(read_vector_file(folder.path("repaired")), 1).mismatches == 0);
  }
}
