#include "bitmma/hardware/run_file.hpp"

#include <algorithm>

#include "bitmma/files/compare.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"

using namespace bitmma;

namespace {

/// A device that is right, and counts its launches.
struct ModelDevice {
  int launches = 0;
  std::vector<State> operator()(const Instruction& instruction, Target target, std::span<const State> cases) {
    ++launches;
    std::vector<State> after(cases.begin(), cases.end());
    for (State& state : after) execute(instruction, target, state);
    return after;
  }
};

}  // namespace

TEST_CASE("a file that a right device ran is the file that the model makes, for every family") {
  for (const Instruction& instruction :
       {parse_instruction("wgmma.mma_async.sp.sync.aligned.m64n16k32.f16.f16.f16"),
        parse_instruction("mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0"),
        parse_instruction("tcgen05.mma.cta_group::2.kind::f16"),
        parse_instruction("tcgen05.ld.sync.aligned.16x64b.x2.b32"),
        parse_instruction("tcgen05.shift.cta_group::1.down")}) {
    INFO(print(instruction));
    const VectorFile made = as_vector_file(make_golden({.instruction = instruction, .cases = 3, .seed = 6}, 1));
    ModelDevice device;
    const TensorFile result = run_file(made, std::ref(device), "a right device");
    CHECK(device.launches == 1);
    CHECK(*result.find_metadata("source") == "a right device");
    CHECK(result.tensors.size() == made.file.tensors.size());
    for (const Tensor& tensor : made.file.tensors) {
      INFO(tensor.name);
      REQUIRE(result.find(tensor.name));
      CHECK(result.find(tensor.name)->bytes == tensor.bytes);
    }
    CHECK(verify(as_vector_file(result), 1).mismatches == 0);
  }
}

TEST_CASE("cases with other immediates are another launch, and every result goes to its case") {
  const VectorFile made = as_vector_file(
      make_golden({.instruction = parse_instruction("tcgen05.mma.cta_group::1.kind::f16"), .cases = 4, .seed = 9}, 1));
  TensorFile file = made.file;
  file.set(Tensor::from_bytes("enable_input_d", "U8", {4}, {1, 0, 1, 0}));
  const VectorFile mixed = as_vector_file(file);
  ModelDevice device;
  const VectorFile result = as_vector_file(run_file(mixed, std::ref(device), "a right device"));
  CHECK(device.launches == 2);
  CHECK(verify(result, 1).mismatches == 0);
}

TEST_CASE("a file of logical matrices alone is laid out before it runs") {
  const VectorFile made = as_vector_file(make_golden({.instruction = Wgmma{.n = 16}, .cases = 2, .seed = 6}, 1));
  TensorFile logical = made.file;
  for (const std::string_view name : {"smem", "a_desc", "b_desc", "c_regs", "d_regs"}) logical.erase(name);
  ModelDevice device;
  const TensorFile result = run_file(as_vector_file(logical), std::ref(device), "a right device");
  REQUIRE(result.find("d_regs"));
  CHECK(result.find("d_regs")->bytes == made.file.find("d_regs")->bytes);
  CHECK(result.find("d")->bytes == made.file.find("d")->bytes);
}
