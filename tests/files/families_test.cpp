// Golden files of each family through every step: made, read, verified, damaged, repaired.
#include <array>
#include <cstdint>
#include <variant>
#include <vector>

#include "bitmma/files/compare.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/files/tensor_file.hpp"
#include "bitmma/files/vector_file.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/stimulus/random_operands.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/instructions.hpp"

using namespace bitmma;

namespace {

/// Targets that add by rows of their own.
std::vector<Target> adders() {
  std::vector<Target> all;
  for (const TargetInfo& row : targets) {
    if (row.adds_as == row.id) all.push_back(row.id);
  }
  return all;
}

}  // namespace

TEST_CASE("mma.sync: golden, verify, and the logical matrices give the same D, for every mnemonic and target") {
  const test::TemporaryFolder folder;
  int index = 0, tried = 0;
  for (const Instruction& plain : all_instructions(Family::mma_sync)) {
    CHECK(print(parse_instruction(print(plain))) == print(plain));
    CHECK(parse_instruction(print(plain)) == plain);
    MmaSync instruction = std::get<MmaSync>(plain);
    const Form& form = *find_form(plain);
    for (const Target target : adders()) {
      if (!form.targets.contains(target)) continue;
      ++index;
      if (index % test::amount(5, 1, 1) != 0) continue;
      ++tried;
      if (instruction.has_scales()) {
        const int scales = mma_of(instruction).scale_count, step = scales == 4 ? 4 : scales == 2 ? 2 : 1;
        instruction.byte_id_a = index % (4 / step) * step, instruction.byte_id_b = index / 3 % (4 / step) * step;
        instruction.thread_id_a = index % 2, instruction.thread_id_b = index / 2 % 4;
      }
      if (instruction.sparse) instruction.sparsity_selector = index % form.selectors;
      INFO(print(instruction) << " on " << print(target));
      REQUIRE(violations_of(instruction, target).empty());
      const GoldenRequest request{.instruction = instruction,
                                  .target = target,
                                  .cases = 2,
                                  .seed = static_cast<uint64_t>(index),
                                  .distribution = distributions[static_cast<size_t>(index) % distributions.size()].id};
      write_tensor_file(folder.path("x"), make_golden(request, 1));
      const VectorFile vectors = read_vector_file(folder.path("x"));
      REQUIRE(vectors.target == target);
      REQUIRE(vectors.instruction == Instruction(instruction));
      const Comparison result = verify(vectors, 1);
      const Mma mma = mma_of(instruction);
      REQUIRE(result.mismatches == 0);
      REQUIRE(result.outputs == 2 * mma.m * 8);
      // What is in registers is what was drawn; bits that hold no element are random and do not matter.
      const Operands drawn = random_operands(instruction, target, request.distribution, request.seed, 1),
                     read = gather_operands(instruction, target, case_at(vectors, 1).before);
      REQUIRE(*read.c == *drawn.c);
      REQUIRE(read.scales == drawn.scales);
      REQUIRE(read.selected_k == drawn.selected_k);
      REQUIRE(multiply_accumulate(model_for(instruction, target), read) ==
              multiply_accumulate(model_for(instruction, target), drawn));
      // Logical matrices alone are laid out and give the same.
      TensorFile logical = vectors.file;
      for (const char* name : {"a_regs", "b_regs", "c_regs", "d_regs", "scale_a", "scale_b", "metadata", "d"})
        logical.erase(name);
      // A stored zero may move within its chunk; beside NaN or infinity in B that changes D, and so may another order
      // of the terms where they are chained.
      if (instruction.sparse && (request.distribution == Distribution::bits ||
                                 request.distribution == Distribution::special || target != Target::sm_90a))
        continue;
      if (instruction.sparse && model_for(instruction, target).step_order == StepOrder::byte_pairs) continue;
      write_tensor_file(folder.path("logical"), logical);
      const TensorFile again = with_simulated_d(read_vector_file(folder.path("logical")), {}, 1);
      REQUIRE(again.find("d_regs")->bytes == vectors.file.find("d_regs")->bytes);
    }
  }
  CHECK(tried > test::amount(300, 1500, 1500));
}

TEST_CASE("every legal move prints and parses back, and golden, verify and simulate agree on it") {
  const test::TemporaryFolder folder;
  int count = 0;
  for (const Instruction& instruction : all_instructions(Family::tmem_move)) {
    const TmemMove& move = std::get<TmemMove>(instruction);
    INFO(print(instruction));
    REQUIRE(parse_instruction(print(instruction)) == instruction);
    constexpr std::array modes{Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128};
    const GoldenRequest request{.instruction = instruction,
                                .cases = 2,
                                .seed = static_cast<uint64_t>(count),
                                .placement = {.a = {.swizzle = modes[static_cast<size_t>(count) % 4]}}};
    write_tensor_file(folder.path("x"), make_golden(request, 1));
    const VectorFile vectors = read_vector_file(folder.path("x"));
    REQUIRE(vectors.instruction == instruction);
    REQUIRE(verify(vectors, 1).mismatches == 0);
    // A flipped bit is seen where it is, and simulate repairs it.
    TensorFile wrong = vectors.file;
    const Tensor& recorded = *vectors.file.find(vectors.d_tensor());
    std::vector<uint8_t> bytes = recorded.bytes.copy();
    bytes[4] ^= 1;
    wrong.set(Tensor::from_bytes(std::string(vectors.d_tensor()), "U32", recorded.shape, bytes));
    write_tensor_file(folder.path("wrong"), wrong);
    const Comparison seen = verify(read_vector_file(folder.path("wrong")), 1);
    REQUIRE(seen.mismatches == 1);
    if (move.loads()) {
      const int registers = move.ldst.registers();
      REQUIRE(seen.first->place == Place(RegisterPlace{1 / registers, 1 % registers, 0}));
    } else {
      REQUIRE(seen.first->place == Place(TmemPlace{0, 0, 1, 0}));
    }
    write_tensor_file(folder.path("repaired"), with_simulated_d(read_vector_file(folder.path("wrong")), {}, 1));
    REQUIRE(verify(read_vector_file(folder.path("repaired")), 1).mismatches == 0);
    ++count;
  }
  CHECK(count == 2 * 2 * (8 + 8 + 7 + 6 + 8) + 2 * (6 * 3 + 1) + 168);
}

TEST_CASE("golden then verify round-trips for every form of tcgen05.mma, through files") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("x");
  int index = 0;
  for (const Tcgen05Mma& plain : test::tcgen05_mmas()) {
    if (++index % 3 != 1) continue;  // the first N of each; the others differ in N alone
    const GoldenRequest request{
        .instruction = with_a_source(plain, index % 2 ? OperandSource::smem : OperandSource::tmem),
        .cases = 2,
        .seed = static_cast<uint64_t>(index),
        .distribution = Distribution::narrow};
    INFO(print(plain) << " M " << plain.m << " N " << plain.n);
    write_tensor_file(path, make_golden(request, 2));
    const VectorFile vectors = read_vector_file(path);
    REQUIRE(mma_of(vectors.instruction).m == plain.m);
    REQUIRE(vectors.instruction == request.instruction);
    REQUIRE(vectors.target == default_target(plain));
    const Comparison result = verify(vectors, 2);
    REQUIRE(result.mismatches == 0);
    REQUIRE(result.outputs == 2 * plain.m * plain.n);
    // A flipped bit is seen, and simulate repairs it.
    TensorFile wrong = vectors.file;
    const Tensor& after = *vectors.file.find("tmem_after");
    std::vector<uint8_t> bytes = after.bytes.copy();
    bytes[0] ^= 1;
    wrong.set(Tensor::from_bytes("tmem_after", "U32", after.shape, bytes));
    write_tensor_file(folder.path("wrong"), wrong);
    const Comparison seen = verify(read_vector_file(folder.path("wrong")), 1);
    REQUIRE(seen.mismatches == 1);
    REQUIRE(seen.first->place == Place(TmemPlace{0, 0, 0, 0}));
    write_tensor_file(folder.path("repaired"), with_simulated_d(read_vector_file(folder.path("wrong")), {}, 1));
    REQUIRE(verify(read_vector_file(folder.path("repaired")), 1).mismatches == 0);
  }
}
