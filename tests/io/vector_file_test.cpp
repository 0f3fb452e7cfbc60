#include "bitmma/io/vector_file.hpp"

#include <atomic>
#include <filesystem>

#include "bitmma/core/error.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/instruction/legality.hpp"
#include "bitmma/io/compare.hpp"
#include "bitmma/io/golden.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

TEST_CASE("every recorded D of the H200 is reproduced bit for bit") {
  Comparison total;
  const std::vector<std::string> files = test::golden_files();
  for (const std::string& path : files) {
    const Comparison one = verify(read_vector_file(path), hardware_threads());
    INFO(path);
    REQUIRE(one.mismatches == 0);
    REQUIRE(one.outputs > 0);
    total += one;
  }
  CHECK(files.size() >= 197);
  CHECK(total.cases >= 283);
  CHECK(total.outputs >= 543232);
}

TEST_CASE("verify sees a single wrong bit and says where it is") {
  VectorFile vectors =
      read_vector_file(test::source_path("data/golden/sm_90a/misc/misc_f32_f16_f16_sat0_sd0.safetensors"));
  const Tensor d_regs = *vectors.file.find("d_regs");
  std::vector<uint8_t> bytes(d_regs.bytes.begin(), d_regs.bytes.end());
  const size_t word = 512 + 37 * 4 + 2;  // case 1, thread 37, register 2 of 4
  bytes[word * 4 + 3] ^= 0x10;
  vectors.file.set(Tensor::from_bytes("d_regs", "U32", d_regs.shape, bytes));
  const Comparison result = verify(vectors, 2);
  CHECK(result.mismatches == 1);
  CHECK(result.cases_with_mismatches == 1);
  REQUIRE(result.first);
  CHECK(result.first->case_index == 1);
  CHECK(result.first->place.reg == RegisterPlace{37, 2, 0});
  CHECK(result.first->row == 16 + 1 + 8);
  CHECK(result.first->col == 2);
  CHECK((result.first->expected ^ result.first->actual) == 0x10000000);
}

TEST_CASE("golden then verify round-trips for every legal wgmma, all N, dense and sparse, A in both places") {
  const test::TemporaryFolder folder;
  const std::vector<Instruction> all = all_legal_instructions();
  std::atomic<int64_t> verified{0};
  parallel_for(all.size() * 2, hardware_threads(), [&](size_t i) {
    GoldenRequest request{
        .instruction = all[i / 2], .cases = 1, .seed = i, .distribution = distributions[i % distributions.size()].id};
    request.instruction.a_source = i % 2 ? OperandSource::registers : OperandSource::smem;
    const LegalForm& form = *find_legal_form(request.instruction);
    const Swizzle modes[]{Swizzle::none, Swizzle::b64, Swizzle::b128};
    const bool transposed = form.transpose && i % 4 >= 2;
    request.layout_a = {.major = transposed && i % 2 == 0 ? Major::mn : Major::k, .swizzle = modes[i % 3]};
    request.layout_b = {.major = transposed ? Major::mn : Major::k,
                        .swizzle = modes[i / 3 % 3],
                        .padding_bytes = static_cast<int64_t>(i % 2) * 16};
    if (request.instruction.sparse) request.instruction.sparsity_selector = static_cast<int>(i / 2) % form.selectors;
    const std::string path = folder.path(std::to_string(i));
    write_tensor_file(path, make_golden(request, 1));
    const VectorFile vectors = read_vector_file(path);
    const Comparison result = verify(vectors, 1);
    if (result.mismatches != 0 || result.outputs != 64 * request.instruction.n)
      throw std::runtime_error(path + " " + print(request.instruction));
    std::filesystem::remove(path);
    ++verified;
  });
  CHECK(verified == static_cast<int64_t>(all.size()) * 2);
}

TEST_CASE("the same request gives the same bytes, for any number of threads") {
  const test::TemporaryFolder folder;
  const GoldenRequest request{
      .instruction = parse_instruction("wgmma.mma_async.sp.sync.aligned.m64n16k64.f32.e4m3.e5m2"),
      .cases = 9,
      .seed = 5,
      .distribution = Distribution::normal};
  write_tensor_file(folder.path("1"), make_golden(request, 1));
  write_tensor_file(folder.path("7"), make_golden(request, 7));
  const std::string bytes = test::read_text(folder.path("1"));
  CHECK(bytes == test::read_text(folder.path("7")));
  // On every machine: FNV-1a of all tensors. A change here breaks everybody's seeds.
  uint64_t hash = 14695981039346656037u;
  for (const Tensor& tensor : make_golden(request, 2).tensors) {
    for (const uint8_t byte : tensor.bytes) hash = (hash ^ byte) * 1099511628211u;
  }
  CHECK(hash == 0x3ea53c7de5be3602);
}

TEST_CASE("logical matrices alone are laid out, and give the same D as their golden file") {
  const test::TemporaryFolder folder;
  for (const char* mnemonic :
       {"wgmma.mma_async.sync.aligned.m64n24k16.f32.bf16.bf16", "wgmma.mma_async.sp.sync.aligned.m64n8k32.f16.f16.f16",
        "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc",
        "wgmma.mma_async.sync.aligned.m64n16k8.f32.tf32.tf32",
        "wgmma.mma_async.sync.aligned.m64n16k32.s32.s8.u8.satfinite"}) {
    const TensorFile golden = make_golden(
        {.instruction = parse_instruction(mnemonic), .cases = 3, .seed = 1, .distribution = Distribution::narrow}, 2);
    TensorFile logical;
    logical.metadata = {{"format", "bitmma-vectors-1"}, {"instruction", mnemonic}, {"extra", "kept"}};
    for (const char* name : {"a", "b", "c"}) logical.tensors.push_back(*golden.find(name));
    logical.tensors.push_back(Tensor::from_bytes("mine", "U8", {2}, {4, 2}));
    write_tensor_file(folder.path("logical"), logical);
    const VectorFile vectors = read_vector_file(folder.path("logical"));
    CHECK_FALSE(vectors.has_images);
    write_tensor_file(folder.path("out"), with_simulated_d(vectors, parse_operand_layout("k-major:none"),
                                                           parse_operand_layout("k-major:64"), 2));
    const VectorFile out = read_vector_file(folder.path("out"));
    CHECK(out.has_images);
    CHECK(verify(out, 1).mismatches == 0);
    const auto same = [](const Tensor* x, const Tensor* y) {
      return std::equal(x->bytes.begin(), x->bytes.end(), y->bytes.begin(), y->bytes.end());
    };
    INFO(mnemonic);
    CHECK(same(out.file.find("d"), golden.find("d")));
    CHECK(same(out.file.find("d_regs"), golden.find("d_regs")));
    CHECK(*out.file.find_metadata("extra") == "kept");
    CHECK(out.file.find("mine")->bytes.size() == 2);
    // A wrong logical d is seen even beside right registers.
    TensorFile wrong = out.file;
    std::vector<uint8_t> d(wrong.find("d")->bytes.begin(), wrong.find("d")->bytes.end());
    d[0] ^= 1;
    wrong.set(Tensor::from_bytes("d", wrong.find("d")->dtype, wrong.find("d")->shape, d));
    write_tensor_file(folder.path("wrong"), wrong);
    CHECK(verify(read_vector_file(folder.path("wrong")), 1).mismatches == 1);
  }
}

TEST_CASE("files written a few cases at a time are the files written whole") {
  const test::TemporaryFolder folder;
  const auto same = [&] { return test::read_text(folder.path("whole")) == test::read_text(folder.path("batches")); };
  // More cases than a batch has, and not a multiple of it.
  for (const char* mnemonic : {"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16",
                               "wgmma.mma_async.sp.sync.aligned.m64n8k64.f32.e4m3.e5m2"}) {
    const GoldenRequest request{
        .instruction = parse_instruction(mnemonic), .cases = 53, .seed = 5, .distribution = Distribution::normal};
    write_tensor_file(folder.path("whole"), make_golden(request, 2));
    write_golden(folder.path("batches"), request, 2);
    CHECK(same());
    // Images, and logical matrices alone that have to be laid out; a tensor that does not come by case stays whole.
    TensorFile images = make_golden(request, 2), logical;
    images.set(Tensor::from_bytes("mine", "U8", {2}, {4, 2}));
    images.set(
        Tensor::from_bytes("warp", "F3_E1M1", {53}, {1, 2, 3}));  // a name of another instruction, anything in it
    logical.metadata = images.metadata;
    for (const char* name : {"a", "b", "c", "mine", "warp"}) logical.tensors.push_back(*images.find(name));
    for (const TensorFile* input : {&images, &logical}) {
      write_tensor_file(folder.path("input"), *input);
      const VectorFile vectors = read_vector_file(folder.path("input"));
      write_tensor_file(folder.path("whole"), with_simulated_d(vectors, {}, {}, 2));
      int64_t done = 0;
      write_simulated(folder.path("batches"), vectors, {}, {}, 2, [&](int64_t cases) { done = cases; });
      CHECK(done == 53);
      const TensorFile whole = read_tensor_file(folder.path("whole")),
                       batches = read_tensor_file(folder.path("batches"));
      CHECK(whole.metadata == batches.metadata);
      REQUIRE(whole.tensors.size() == batches.tensors.size());
      for (const Tensor& tensor : whole.tensors) {
        const Tensor* const other = batches.find(tensor.name);
        REQUIRE(other);
        CHECK(other->shape == tensor.shape);
        CHECK(std::ranges::equal(other->bytes, tensor.bytes));
      }
    }
  }
  const TmemMove move = parse_tmem_move("tcgen05.cp.cta_group::2.128x256b");
  write_tensor_file(folder.path("whole"), make_golden(move, 37, 3, Swizzle::b64));
  write_golden(folder.path("batches"), move, 37, 3, Swizzle::b64);
  CHECK(same());
  CHECK(verify(read_vector_file(folder.path("batches")), 2).mismatches == 0);
}

TEST_CASE("batches that are not alike are refused, and nothing is written") {
  const test::TemporaryFolder folder;
  const auto make = [](int64_t first) {
    TensorFile file;
    file.tensors.push_back(Tensor::from_bytes("x", first == 0 ? "U8" : "I8", {2}, {1, 2}));
    return file;
  };
  write_case_batches(folder.path("good"), 2, make);
  CHECK(read_tensor_file(folder.path("good")).find("x")->bytes.size() == 2);
  REQUIRE_THROWS_WITH(write_case_batches(folder.path("bad"), 4, make), ContainsSubstring("tensor x") &&
                                                                           ContainsSubstring("I8 [2] from case 2 on") &&
                                                                           ContainsSubstring("U8 [2], as before"));
  CHECK_FALSE(std::filesystem::exists(folder.path("bad")));
}

TEST_CASE("simulate replaces what a GPU recorded and forgets the GPU, but keeps what it does not know") {
  const test::TemporaryFolder folder;
  VectorFile vectors = read_vector_file(test::golden_files().front());
  vectors.file.set_metadata("driver", "580");
  vectors.file.set_metadata("unknown", "x");
  const TensorFile out = with_simulated_d(vectors, {}, {}, 1);
  CHECK(out.find_metadata("source")->starts_with("bitmma "));
  CHECK_FALSE(out.find_metadata("driver"));
  CHECK(*out.find_metadata("unknown") == "x");
  CHECK(*out.find_metadata("seed") == *vectors.file.find_metadata("seed"));
}

TEST_CASE("reading outside the image is an error of that file, not a result") {
  VectorFile vectors =
      read_vector_file(test::source_path("data/golden/sm_90a/misc/misc_f32_f16_f16_sat0_sd0.safetensors"));
  const std::vector<uint8_t> descriptor{0xFF, 0x3F, 0, 0, 0, 0, 0, 0, 0xFF, 0x3F, 0, 0, 0, 0, 0, 0};
  vectors.file.set(Tensor::from_bytes("b_desc", "U64", {2}, descriptor));
  CHECK_THROWS_WITH(verify(vectors, 2), ContainsSubstring("B element row 0, k 0") && ContainsSubstring("4096 bytes"));
}
