#include "bitmma/instruction/mma_sync.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <mutex>
#include <set>

#include "bitmma/core/parallel.hpp"
#include "bitmma/instruction/legality.hpp"
#include "bitmma/instruction/ptx_kernel.hpp"
#include "bitmma/io/golden.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

TEST_CASE("the fragments of mma.sync are those of the PTX figures, value by value") {
  // As the figures number them: value i of lane l, typed from the sheet and not from the code.
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, q = lane % 4;
    for (int i = 0; i < 16; ++i) {  // bytes: m16n8k32, and the stored A of m16n8k64
      CHECK(element_at(mma_a_fragment(8, 32), lane, i / 4, i % 4 * 8) ==
            MatrixPlace{g + 8 * (i >> 2 & 1), 4 * q + (i & 3) + 16 * (i >> 3)});
      const int chunk = (8 * q + 32 * (i >> 3) + 4 * (i >> 1 & 1)) / 4;
      CHECK(element_at(mma_a_fragment(8, 32), lane, i / 4, i % 4 * 8).col == 2 * chunk + (i & 1));
      CHECK(element_at(mma_b_fragment(8, 64), lane, i / 4, i % 4 * 8) ==
            MatrixPlace{g, 4 * q + (i & 3) + 16 * (i >> 2)});
    }
    for (int i = 0; i < 32; ++i) {  // packed fp4: m16n8k64, and the stored A of m16n8k128
      CHECK(element_at(mma_a_fragment(4, 64), lane, i / 8, i % 8 * 4) ==
            MatrixPlace{g + 8 * (i >> 3 & 1), 8 * q + (i & 7) + 32 * (i >> 4)});
      const int chunk = (16 * q + 64 * (i >> 4) + 8 * (i >> 2 & 1)) / 8;
      CHECK(element_at(mma_a_fragment(4, 64), lane, i / 8, i % 8 * 4).col == 4 * chunk + (i & 3));
      CHECK(element_at(mma_b_fragment(4, 128), lane, i / 8, i % 8 * 4) ==
            MatrixPlace{g, 8 * q + (i & 7) + 32 * (i >> 3)});
    }
    for (int i = 0; i < 4; ++i)
      CHECK(element_at(mma_d_fragment(), lane, i, 0) == MatrixPlace{g + 8 * (i >> 1), 2 * q + (i & 1)});
    for (int nibble = 0; nibble < 8; ++nibble) {
      const int row = g + 8 * (q & 1), chunk = nibble + 8 * (q >> 1);
      CHECK(ordered_metadata_place(row, chunk) == RegisterPlace{lane, 0, 4 * nibble});
    }
  }
  // The instruction of a famous question has 4, 2 and 4 registers, not 16 and 8.
  const Instruction instruction = parse_instruction(
      "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3");
  CHECK(a_fragment(instruction).registers() == 4);
  CHECK(b_fragment(instruction).registers() == 2);
  CHECK(d_fragment(instruction).registers() == 4);
  for (const Fragment& fragment :
       {mma_a_fragment(8, 32), mma_a_fragment(4, 64), mma_b_fragment(8, 32), mma_b_fragment(8, 64),
        mma_b_fragment(4, 64), mma_b_fragment(4, 128), mma_d_fragment()}) {
    for (int row = 0; row < fragment.rows; ++row) {
      for (int col = 0; col < fragment.cols; ++col) {
        const RegisterPlace place = place_of(fragment, row, col);
        REQUIRE(element_at(fragment, place.thread, place.reg, place.bit) == MatrixPlace{row, col});
      }
    }
  }
}

TEST_CASE(
    "mma.sync: golden, verify, and the logical matrices give the same D, for every mnemonic, id and distribution") {
  const test::TemporaryFolder folder;
  int index = 0;
  for (Instruction instruction : all_mma_sync_instructions()) {
    CHECK(print(parse_instruction(print(instruction))) == print(instruction));
    const int scales = instruction.scale_count(), step = scales == 4 ? 4 : scales == 2 ? 2 : 1;
    for (int round = 0; round < 3; ++round, ++index) {
      instruction.scale_a_id = index % (4 / step) * step, instruction.scale_b_id = index / 3 % (4 / step) * step;
      instruction.thread_a_id = index % 2, instruction.thread_b_id = index / 2 % 4;
      REQUIRE(violations_of(instruction).empty());
      const GoldenRequest request{.instruction = instruction,
                                  .cases = 2,
                                  .seed = static_cast<uint64_t>(index),
                                  .distribution = distributions[static_cast<size_t>(index) % distributions.size()].id};
      write_tensor_file(folder.path("x"), make_golden(request, 1));
      const VectorFile vectors = read_vector_file(folder.path("x"));
      INFO(print(instruction));
      REQUIRE(vectors.instruction.scale_a_id == instruction.scale_a_id);
      REQUIRE(vectors.instruction.thread_b_id == instruction.thread_b_id);
      const Comparison result = verify(vectors, 1);
      REQUIRE(result.mismatches == 0);
      REQUIRE(result.outputs == 2 * 16 * 8);
      // What is in registers is what was drawn; padding bits and other lanes are random and do not matter.
      const Operands drawn = random_operands(instruction, request.distribution, request.seed, 1),
                     read = gather_operands(instruction, case_at(vectors, 1).view());
      REQUIRE(read.a == drawn.a);
      REQUIRE(read.b == drawn.b);
      REQUIRE(*read.c == *drawn.c);
      REQUIRE(read.scales == drawn.scales);
      REQUIRE(read.selected_k == drawn.selected_k);
      // Logical matrices alone are laid out and give the same.
      TensorFile logical = vectors.file;
      for (const char* name : {"a_regs", "b_regs", "c_regs", "d_regs", "scale_a", "scale_b", "metadata", "d"})
        logical.erase(name);
      // A stored zero may move within its chunk; beside NaN or infinity in B that changes D, otherwise it does not.
      if (instruction.sparse &&
          (request.distribution == Distribution::bits || request.distribution == Distribution::special))
        continue;
      write_tensor_file(folder.path("logical"), logical);
      const TensorFile again = with_simulated_d(read_vector_file(folder.path("logical")), {}, {}, 1);
      REQUIRE(std::ranges::equal(again.find("d_regs")->bytes, vectors.file.find("d_regs")->bytes));
    }
  }
  CHECK(index == 3 * 2 * (2 * 25 + 2 + 1 + 1));
}

TEST_CASE("ptxas and the table of mma.sync agree on sm_120a, both ways") {
  if (std::system("ptxas --version > /dev/null 2>&1") != 0) {
    WARN("ptxas is not installed: mma.sync was NOT checked against it");
    return;
  }
  const test::TemporaryFolder folder;
  const auto assembles = [&](const std::string& name, const std::string& ptx) {
    test::write_text(folder.path(name), ptx);
    return std::system(
               fmt::format("ptxas -arch=sm_120a -o /dev/null {} > /dev/null 2>&1", folder.path(name)).c_str()) == 0;
  };
  // All legal ones, with every id, as kernels of one module; the near misses one by one.
  std::string module;
  int count = 0;
  std::vector<Instruction> misses;
  for (const Instruction& plain : all_mma_sync_instructions()) {
    std::string statements;
    for (int ids = 0; ids < 4 * 4 * 2 * 4; ++ids) {
      Instruction one = plain;
      one.scale_a_id = ids % 4, one.scale_b_id = ids / 4 % 4, one.thread_a_id = ids / 16 % 2,
      one.thread_b_id = ids / 32;
      if (violations_of(one).empty())
        statements += ptx_statement(one) + "\n";
      else if (plain.a == plain.b && plain.a == Format::e2m1 && (ids < 16 || ids % 7 == 0))
        misses.push_back(one);
    }
    std::string kernel = ptx_kernel(plain, 0);
    const std::string first = ptx_statement(plain);
    kernel.replace(kernel.find(first), first.size(), statements);
    const size_t entry = kernel.find(".visible .entry ");
    if (module.empty()) module = kernel.substr(0, entry);
    kernel = kernel.substr(entry);
    module += kernel.replace(kernel.find(kernel_name), kernel_name.size(), fmt::format("{}_{}", kernel_name, count++));
  }
  CHECK(assembles("all.ptx", module));
  for (const MmaKind kind : {MmaKind::mxf8f6f4, MmaKind::mxf4, MmaKind::mxf4nvf4}) {
    for (const char* size : {"", ".scale_vec::1X", ".scale_vec::2X", ".scale_vec::4X"}) {
      for (const Format scale : {Format::ue8m0, Format::ue4m3}) {
        for (const Format type : {Format::e2m1, Format::e4m3}) {
          for (const int k : {32, 64, 128}) {
            for (const bool sparse : {false, true}) {
              const Instruction one{.family = Family::mma_sync,
                                    .sparse = sparse,
                                    .m = 16,
                                    .n = 8,
                                    .k = k,
                                    .d = Format::f32,
                                    .a = type,
                                    .b = type,
                                    .kind = kind,
                                    .scale_vec = size,
                                    .scale_type = scale,
                                    .a_source = OperandSource::registers};
              if (!violations_of(one).empty()) misses.push_back(one);
            }
          }
        }
      }
    }
  }
  for (const auto& change : std::vector<std::function<void(Instruction&)>>{
           [](Instruction& i) { i.d = Format::f16; }, [](Instruction& i) { i.n = 16; },
           [](Instruction& i) { i.thread_a_id = 2; }, [](Instruction& i) { i.thread_b_id = 4; },
           [](Instruction& i) { i.sparse = true, i.k = 64, i.sparsity_selector = 1; }}) {
    Instruction one =
        parse_instruction("mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e5m2.f32.ue8m0");
    change(one);
    REQUIRE(!violations_of(one).empty());
    misses.push_back(one);
  }
  std::mutex mutex;
  std::string taken;
  parallel_for(misses.size(), hardware_threads(), [&](size_t i) {
    if (!assembles(std::to_string(i) + ".ptx", ptx_kernel(misses[i], 0))) return;
    const std::lock_guard lock(mutex);
    taken += ptx_statement(misses[i]) + "\n";
  });
  CHECK(taken == "");
  CHECK(misses.size() > 150);
}
