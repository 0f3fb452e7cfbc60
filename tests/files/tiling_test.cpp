#include "bitmma/files/tiling.hpp"

#include "bitmma/files/compare.hpp"
#include "support/case_files.hpp"
#include "support/catch.hpp"
#include "support/violation.hpp"

using namespace bitmma;

namespace {

constexpr const char* small_wgmma = "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16";
constexpr const char* small_tcgen05 = "tcgen05.mma.cta_group::1.kind::f16";

}  // namespace

TEST_CASE("plain matrices are tiled by the instruction of their file; one instruction is the tiling 1 x 1 x 1") {
  const VectorFile single = as_tiled_file(test::plain_file("file", small_wgmma, 64, 16, 16));
  CHECK(single.tiling == Tiling{});
  CHECK(tiling_of(case_at(single, 0)).is_one_instruction());
  const VectorFile tiled = as_tiled_file(test::plain_file("file", small_wgmma, 128, 48, 32));
  CHECK(tiled.tiling == Tiling{.m = 2, .n = 3, .k = 2});
  CHECK_FALSE(tiled.has_state);
  const Case whole = case_at(tiled, 0);
  CHECK(tiling_of(whole) == tiled.tiling);
  const Matrix d = computed_tile(whole);
  CHECK(d == computed_tile(whole, 4));
  CHECK(d.rows() == 128);
  CHECK(d.cols() == 48);
  // The block at (64, 32): its own A and B, and D of step 0 as C of step 1.
  const Matrix first = computed_d(instruction_at(whole, 70, 33, 0));
  CHECK(computed_d(instruction_at(whole, 70, 33, 1, &first)) == block_of(d, 64, 64, 32, 16));
  for (const auto& [row, col, step, field] :
       {std::tuple(128, 0, 0, "row"), std::tuple(0, -1, 0, "col"), std::tuple(0, 0, 2, "step")}) {
    const auto refused = test::violation_of([&] { (void)instruction_at(whole, row, col, step); });
    REQUIRE(refused);
    CHECK(refused->field == field);
  }
  Case odd = whole;
  odd.logical.b = Matrix(Format::f16, 32, 24);
  CHECK(test::violation_of([&] { (void)tiling_of(odd); })->field == "tile");
}

TEST_CASE("M and N of an instruction with a descriptor are the largest legal ones that divide those of the matrices") {
  const auto shape_of = [](const std::string& mnemonic, int m, int n) {
    const Mma mma = mma_of(as_tiled_file(test::plain_file("file", mnemonic, m, n, 32)).instruction);
    return std::pair(mma.m, mma.n);
  };
  CHECK(shape_of(small_tcgen05, 256, 512) == std::pair(128, 256));  // M = 256 takes two CTAs
  CHECK(shape_of(small_tcgen05, 192, 24) == std::pair(64, 24));     // M = 128 has N in steps of 16
  CHECK(shape_of("tcgen05.mma.cta_group::2.kind::f16", 256, 96) == std::pair(256, 96));
  CHECK(shape_of("tcgen05.mma.ws.cta_group::1.kind::f16", 96, 192) == std::pair(32, 64));
  const auto refused = test::violation_of([&] { (void)shape_of(small_tcgen05, 96, 16); });
  REQUIRE(refused);
  CHECK(refused->field == "file: tile");
}

TEST_CASE("a tile that reads no C ignores one, as an instruction does") {
  TensorFile file = test::plain_file("file", small_wgmma, 64, 16, 32);
  const Matrix without = computed_tile(case_at(as_tiled_file(file), 0));
  file.set(Tensor::from_bytes("c", "F32", {64, 16}, std::vector<uint8_t>(64 * 16 * 4, 0x40)));
  CHECK(computed_tile(case_at(as_tiled_file(file), 0)) != without);
  file.set_metadata("scale_d", "0");
  const VectorFile unread = as_tiled_file(file);
  CHECK(computed_tile(case_at(unread, 0)) == without);
  const VectorFile steps = unroll_k(unread, {});
  CHECK(recorded_d(case_at(steps, 1)) == without);
}

TEST_CASE("parts of a tiled file keep their numbers, whether matrices or steps are stored") {
  TensorFile file = test::plain_file("file", small_wgmma, 64, 16, 32);
  for (const char* name : {"a", "b"}) {
    const Tensor& tensor = *file.find(name);
    std::vector<uint8_t> bytes = tensor.bytes.copy();
    const std::vector<uint8_t> other(bytes.rbegin(), bytes.rend());  // a second case
    bytes.insert(bytes.end(), other.begin(), other.end());
    for (uint8_t& byte : bytes) byte &= 0xBF;  // no exponent is that of infinity
    file.set(Tensor::from_bytes(name, "F16", {2, tensor.shape[0], tensor.shape[1]}, std::move(bytes)));
  }
  const VectorFile matrices = as_tiled_file(file);
  REQUIRE(matrices.cases == 2);
  TensorFile of_steps = unroll_k(matrices, {}).file;
  const Tensor d = *of_steps.find("d");
  for (const std::string_view name : {"a", "b", "c", "d", "d_regs"}) of_steps.erase(name);
  std::vector<uint8_t> last;
  const size_t size = d.bytes.size() / 4;
  for (const size_t step : {size_t{1}, size_t{3}}) {
    const std::vector<uint8_t> part = d.bytes.part(step * size, size).copy();
    last.insert(last.end(), part.begin(), part.end());
  }
  of_steps.set(Tensor::from_bytes("d", "F32", {2, 64, 16}, std::move(last)));
  const VectorFile steps = as_tiled_file(of_steps);
  CHECK(steps.tiling == Tiling{.k = 2});
  CHECK(verify(steps).mismatches == 0);
  for (const VectorFile& vectors : {matrices, steps}) {
    const VectorFile part = cases_of(vectors, 1, 1);
    CHECK(part.cases == 1);
    CHECK(part.first_case == 1);
    CHECK(case_at(part, 0).logical.a == case_at(matrices, 1).logical.a);
    CHECK(case_at(part, 0).logical.b == case_at(matrices, 1).logical.b);
  }
  CHECK(verify(cases_of(steps, 1, 1)).mismatches == 0);
  // A tile as a file, from cases alone.
  VectorBuilder builder(matrices.instruction, matrices.target);
  for (int64_t index = 0; index < 2; ++index) builder.add(case_at(matrices, index));
  const VectorFile built = as_tiled_file(std::move(builder).finish({}));
  CHECK(built.tiling == matrices.tiling);
  CHECK(case_at(built, 1).logical == case_at(matrices, 1).logical);
}
