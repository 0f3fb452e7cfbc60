// Plain matrices of people: tcgen05.mma without a descriptor, K loops over one tile, instructions one after the other.
#include <array>

#include "bitmma/core/error.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/place.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/instructions.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;
using test::refusal_of;

namespace {

/// Random codes of a type, as small numbers where the type has exponents: [1, rows, cols].
Tensor codes(std::string name, Format format, int rows, int cols, uint64_t seed, std::string_view dtype = {}) {
  const FormatInfo& row = info(format);
  const std::string_view stored = dtype.empty() ? row.dtype : dtype;
  RandomStream random(seed, 0);
  std::vector<uint8_t> bytes;
  for (int i = 0; i < rows * cols; ++i) {
    uint64_t code = random.word();
    if (row.bits < 64) code &= (uint64_t{1} << row.bits) - 1;
    if (format == Format::f16) code &= 0xBFFF;
    if (format == Format::f32 || format == Format::tf32) code = (code & 0x807FE000) | 0x3F800000;
    if (format == Format::ue8m0) code = 120 + code % 16;
    if (format == Format::ue4m3) code = 1 + code % 120;
    for (int byte = 0; byte < dtype_bytes(stored); ++byte) bytes.push_back(static_cast<uint8_t>(code >> 8 * byte));
  }
  return Tensor::from_bytes(std::move(name), std::string(stored), {1, rows, cols}, std::move(bytes));
}

struct Loop {
  std::string instruction;
  Format a, b, c;
  int m, n, k, steps;
  VectorFileDefaults types = {};
  int scales = 0;  // of a row, in one step
  Format scale_type = Format::ue8m0;
  bool k_major_only = false;
};

TensorFile file_of(const Loop& loop, bool with_c) {
  TensorFile file{.path = "loop", .metadata = {{"instruction", loop.instruction}}, .tensors = {}};
  file.set(codes("a", loop.a, loop.m, loop.k * loop.steps, 1));
  file.set(codes("b", loop.b, loop.k * loop.steps, loop.n, 2));
  if (with_c) file.set(codes("c", loop.c, loop.m, loop.n, 3));
  if (loop.scales > 0) {
    file.set(codes("sfa", loop.scale_type, loop.m, loop.scales * loop.steps, 4));
    file.set(codes("sfb", loop.scale_type, loop.scales * loop.steps, loop.n, 5));
  }
  return file;
}

const std::vector<Loop>& loops() {
  static const std::vector<Loop> all{
      {"wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16", Format::f16, Format::f16, Format::f32, 64, 16, 16, 8},
      {"wgmma.mma_async.sync.aligned.m64n16k16.f16.f16.f16", Format::f16, Format::f16, Format::f16, 64, 16, 16, 3},
      {"wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2",
       Format::e4m3,
       Format::e5m2,
       Format::f32,
       64,
       8,
       32,
       6,
       {},
       0,
       {},
       true},
      {"wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32",
       Format::tf32,
       Format::tf32,
       Format::f32,
       64,
       8,
       8,
       5,
       {},
       0,
       {},
       true},
      {"wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc",
       Format::b1,
       Format::b1,
       Format::s32,
       64,
       8,
       256,
       5,
       {},
       0,
       {},
       true},
      {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
       Format::bf16,
       Format::bf16,
       Format::f32,
       16,
       8,
       16,
       4,
       {},
       0,
       {},
       true},
      {"tcgen05.mma.cta_group::1.kind::f16", Format::f16, Format::f16, Format::f32, 128, 64, 16, 6},
      {"tcgen05.mma.cta_group::2.kind::f16", Format::bf16, Format::bf16, Format::f32, 256, 32, 16, 5},
      {"tcgen05.mma.cta_group::1.kind::i8", Format::s8, Format::u8, Format::s32, 64, 16, 32, 3},
      {"tcgen05.mma.cta_group::1.kind::f8f6f4",
       Format::e2m1,
       Format::e3m2,
       Format::f32,
       128,
       16,
       32,
       5,
       {.a_type = Format::e2m1, .b_type = Format::e3m2},
       0,
       {},
       true},
      {"tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X",
       Format::e2m1,
       Format::e2m1,
       Format::f32,
       128,
       16,
       64,
       4,
       {.sf_type = Format::ue4m3},
       4,
       Format::ue4m3,
       true},
      {"tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale",
       Format::e4m3,
       Format::e4m3,
       Format::f32,
       128,
       16,
       32,
       4,
       {},
       1,
       Format::ue8m0},
  };
  return all;
}

}  // namespace

TEST_CASE("a K loop is the instruction over and over, from one tile in shared memory, in every layout") {
  for (const Loop& loop : loops()) {
    for (const std::string layout :
         {"k-major:128", "k-major:64", "k-major:32", "k-major:none", "mn-major:128", "mn-major:none"}) {
      if (loop.k_major_only && layout.starts_with("mn")) continue;
      INFO(loop.instruction << " " << layout);
      const Placement placement{.a = parse_operand_layout(layout), .b = parse_operand_layout(layout)};
      const TensorFile file = file_of(loop, true);
      const VectorFile whole = as_tiled_file(file, loop.types);
      REQUIRE(is_k_loop(whole));
      CHECK(whole.tiling == Tiling{.k = loop.steps});
      const VectorFile vectors = unroll_k(whole, placement);
      REQUIRE(vectors.cases == loop.steps);
      CHECK(verify(vectors, 1).mismatches == 0);
      // D of the matrices, step by step, without any image.
      const Tensor& a = *file.find("a");
      const auto size = static_cast<size_t>(dtype_bytes(a.dtype)), cols = static_cast<size_t>(loop.k * loop.steps);
      for (size_t col = 0; col < cols; ++col) {  // of row 3
        uint64_t code = 0;
        for (size_t byte = 0; byte < size; ++byte)
          code |= uint64_t{a.bytes.view()[(3 * cols + col) * size + byte]} << 8 * byte;
        const int step = static_cast<int>(col) / loop.k;
        REQUIRE(case_at(vectors, step).logical.a->code(3, static_cast<int>(col) % loop.k) == code);
      }
      Matrix d = *case_at(vectors, 0).logical.c;
      for (int step = 0; step < loop.steps; ++step) {
        Case this_case = case_at(vectors, step);
        if (this_case.before.has(Field::smem))
          CHECK(std::ranges::equal(this_case.before.bytes(Field::smem), case_at(vectors, 0).before.bytes(Field::smem)));
        this_case.before = {};
        this_case.logical.c = d;
        d = computed_d(this_case);
        CHECK(d == *this_case.logical.d);
        CHECK(d == recorded_d(case_at(vectors, step)));
      }
      CHECK(d == computed_tile(case_at(whole, 0)));
      CHECK(warnings_of(case_at(vectors, loop.steps - 1)).empty());
    }
  }
}

TEST_CASE("descriptors of a K loop advance inside the swizzle, then to the next column of atoms") {
  const Loop& loop = loops()[0];
  const VectorFile vectors = unroll_k(as_tiled_file(file_of(loop, true)), {.a = parse_operand_layout("k-major:128"),
                                                                           .b = parse_operand_layout("k-major:128")});
  std::vector<int64_t> starts;
  for (int step = 0; step < loop.steps; ++step)
    starts.push_back(decode_smem_descriptor(Target::sm_90a, case_at(vectors, step).before.number(Field::a_desc))
                         .start_address_bytes);
  // 64 columns of f16 are 128 bytes; a column of atoms of 64 rows has 8192.
  CHECK(starts == std::vector<int64_t>{0, 32, 64, 96, 8192, 8224, 8256, 8288});
}

TEST_CASE("without C the first step does not read it") {
  for (const Loop& loop : {loops()[0], loops()[6]}) {
    TensorFile file = file_of(loop, false);
    if (loop.instruction.starts_with("wgmma")) file.set_metadata("scale_d", "0");
    const VectorFile vectors = unroll_k(as_tiled_file(file), {});
    CHECK(verify(vectors, 1).mismatches == 0);
    TensorFile zeros = file_of(loop, true);
    zeros.set(Tensor::from_bytes("c", "F32", {1, loop.m, loop.n},
                                 std::vector<uint8_t>(static_cast<size_t>(4 * loop.m * loop.n))));
    const VectorFile with_zeros = unroll_k(as_tiled_file(zeros), {});
    CHECK(recorded_d(case_at(vectors, loop.steps - 1)) == recorded_d(case_at(with_zeros, loop.steps - 1)));
  }
}

TEST_CASE("D without C is D with zeros as C, for every wgmma and whatever the signs of its products") {
  int instructions = 0;
  for (const Instruction& listed : all_instructions(Family::wgmma)) {
    const Mma mma = mma_of(listed);
    if (mma.n != 8) continue;
    ++instructions;
    for (const Distribution distribution : {Distribution::bits, Distribution::special}) {
      Operands operands = random_operands(listed, default_target(listed), distribution, 7, 0);
      INFO(print(listed));
      const AccumulatorModel model = model_for(listed, default_target(listed));
      operands.c.reset();
      const Matrix without = multiply_accumulate(model, operands);
      operands.c = Matrix(mma.c, mma.m, mma.n);
      CHECK(multiply_accumulate(model, operands) == without);
      if (mma.d == Format::s32) continue;
      // Products that are all -0.
      std::ranges::fill(operands.a.words(), from_floats(mma.a, 1, 1, std::array{-0.0f})(0, 0));
      std::ranges::fill(operands.b.words(), from_floats(mma.b, 1, 1, std::array{1.0f})(0, 0));
      const Matrix zeros = multiply_accumulate(model, operands);
      operands.c.reset();
      CHECK(multiply_accumulate(model, operands) == zeros);
    }
  }
  CHECK(instructions > 20);
}

TEST_CASE("K of one instruction, a K that is no multiple, and files with states are no loop") {
  Loop loop = loops()[0];
  loop.steps = 1;
  const VectorFile single = as_tiled_file(file_of(loop, true));
  CHECK_FALSE(is_k_loop(single));
  CHECK_THROWS_AS(unroll_k(single, {}), Error);
  loop.k = 24;
  CHECK_THROWS_AS(as_tiled_file(file_of(loop, true)), Error);
  TensorFile file = file_of(loops()[0], true);
  file.set(Tensor::from_bytes("c_regs", "U32", {1, 128, 8}, std::vector<uint8_t>(4096)));
  CHECK_THROWS_AS(as_tiled_file(file), Error);
  Loop large = loops()[0];
  large.steps = 200;
  CHECK_THAT(refusal_of([&] { unroll_k(as_tiled_file(file_of(large, true)), {}); }), refused(too_large, "tile"));
}

TEST_CASE("tcgen05.mma of plain matrices: shape from extents, types from dtypes, keys or the caller") {
  const auto vectors = [](const Loop& loop, VectorFileDefaults types = {}) {
    Loop step = loop;
    step.steps = 1;
    return as_vector_file(file_of(step, true), types);
  };
  const VectorFile bf16 = vectors(loops()[7]);
  const auto& mma = std::get<Tcgen05Mma>(bf16.instruction);
  CHECK(mma.m == 256);
  CHECK(mma.n == 32);
  CHECK(mma.a == Format::bf16);
  CHECK(mma.b == Format::bf16);
  CHECK_FALSE(bf16.has_state);
  const VectorFile with_states = laid_out(bf16, {});
  CHECK(computed_d(case_at(with_states, 0)) == computed_d(case_at(bf16, 0)));
  CHECK(with_states.file.find("idesc"));
  CHECK_THAT(refusal_of([&] { vectors(loops()[9]); }), refused(missing_type, "loop: __metadata__ a_type"));
  CHECK(std::get<Tcgen05Mma>(vectors(loops()[9], loops()[9].types).instruction).b == Format::e3m2);
  CHECK_THAT(refusal_of([&] { vectors(loops()[10]); }), refused(missing_type, "loop: __metadata__ sf_type"));
  CHECK_THAT(refusal_of([&] { vectors(loops()[6], {.a_type = Format::e4m3}); }),
             refused(illegal_value, "loop: __metadata__ a_type"));
  TensorFile keyed = file_of(loops()[6], true);
  keyed.set_metadata("a_type", "bf16");
  CHECK_THAT(refusal_of([&] { as_vector_file(keyed, {.a_type = Format::f16}); }),
             refused(illegal_value, "loop: __metadata__ a_type"));
}

TEST_CASE("an instruction after another begins with the state that it left") {
  const auto golden = [](std::string_view text) {
    return make_golden({.instruction = parse_instruction(text), .cases = 2}, 1);
  };
  const TensorFile st = golden("tcgen05.st.sync.aligned.16x64b.x4.b32"),
                   ld = golden("tcgen05.ld.sync.aligned.16x64b.x4.b32");
  TensorFile second = ld;
  for (const std::string_view same : {"taddr", "warp"}) second.set(*st.find(same));
  const TensorFile chained = after(as_vector_file(st), second, {});
  CHECK(chained.find("tmem")->bytes == st.find("tmem_after")->bytes);
  // What was stored is what is loaded.
  const VectorFile loaded = as_vector_file(with_simulated_d(as_vector_file(chained), {}, 1));
  CHECK(loaded.file.find("d_regs")->bytes == st.find("regs")->bytes);
  const TensorFile mma = golden("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16");
  const TensorFile added = after(as_vector_file(mma), mma, {});
  CHECK(added.find("c_regs")->bytes == mma.find("d_regs")->bytes);
  CHECK_THAT(refusal_of([&] { after(as_vector_file(st), mma, {}); }), refused(illegal_value, ""));
  // More columns of Tensor Memory than the instruction before had: the others stay.
  const TensorFile wide = golden("tcgen05.ld.sync.aligned.32x32b.x128.b32");
  const TensorFile widened = after(as_vector_file(st), wide, {});
  const Tensor &all = *widened.find("tmem"), &own = *wide.find("tmem"), &left = *st.find("tmem_after");
  REQUIRE(all.shape == own.shape);
  REQUIRE(left.shape[3] < own.shape[3]);
  const auto row = [](const Tensor& tensor, size_t index) {
    const auto bytes = static_cast<size_t>(4 * tensor.shape[3]);
    return tensor.bytes.view().subspan(index * bytes, bytes);
  };
  for (const size_t lane : {0, 77, 255}) {
    const auto first = static_cast<size_t>(4 * left.shape[3]);
    CHECK(std::ranges::equal(row(all, lane).first(first), row(left, lane)));
    CHECK(std::ranges::equal(row(all, lane).subspan(first), row(own, lane).subspan(first)));
  }
  CHECK_FALSE(widened.find("d_regs"));
  TensorFile without = st;
  without.erase("tmem_after");
  CHECK_THAT(refusal_of([&] { after(as_vector_file(without), ld, {}); }), refused(illegal_value, ""));
}
