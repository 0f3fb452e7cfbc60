#include "bitmma/files/golden.hpp"

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "bitmma/core/error.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/files/compare.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

TEST_CASE("golden then verify round-trips for every legal wgmma, all N, dense and sparse, A in both places") {
  const test::TemporaryFolder folder;
  const std::vector<Instruction> all = all_instructions(Family::wgmma);
  std::atomic<int64_t> verified{0};
  // Under sanitizers files far apart, which have every distribution, layout and place of A nevertheless: 67 is a prime.
  const size_t every = test::amount<size_t>(67, 1, 1), files = (all.size() * 2 + every - 1) / every;
  parallel_for(files, hardware_threads(), [&](size_t file) {
    const size_t i = file * every;
    Wgmma instruction = std::get<Wgmma>(all[i / 2]);
    instruction.a_source = i % 2 ? OperandSource::registers : OperandSource::smem;
    const Form& form = *find_form(instruction);
    if (instruction.sparse) instruction.sparsity_selector = static_cast<int>(i / 2) % form.selectors;
    const Swizzle modes[]{Swizzle::none, Swizzle::b64, Swizzle::b128};
    const bool transposed = form.transpose && i % 4 >= 2;
    const GoldenRequest request{
        .instruction = instruction,
        .cases = 1,
        .seed = i,
        .distribution = distributions[i % distributions.size()].id,
        .placement = {.a = {.major = transposed && i % 2 == 0 ? Major::mn : Major::k, .swizzle = modes[i % 3]},
                      .b = {.major = transposed ? Major::mn : Major::k,
                            .swizzle = modes[i / 3 % 3],
                            .padding_bytes = static_cast<int64_t>(i % 2) * 16}}};
    const std::string path = folder.path(std::to_string(i));
    write_tensor_file(path, make_golden(request, 1));
    const VectorFile vectors = read_vector_file(path);
    const Comparison result = verify(vectors, 1);
    if (result.mismatches != 0 || result.outputs != 64 * instruction.n)
      throw std::runtime_error(path + " " + print(request.instruction));
    std::filesystem::remove(path);
    ++verified;
  });
  constexpr size_t legal_mnemonics = 1074;
  CHECK(all.size() == legal_mnemonics);
  CHECK(verified == static_cast<int64_t>(files));
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
    for (const uint8_t byte : tensor.bytes.view()) hash = (hash ^ byte) * 1099511628211u;
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
    logical.metadata = {{"format", "bitmma-vectors-1"}, {"instruction", mnemonic}, {"x-extra", "kept"}};
    for (const char* name : {"a", "b", "c"}) logical.tensors.push_back(*golden.find(name));
    logical.tensors.push_back(Tensor::from_bytes("x-mine", "U8", {2}, {4, 2}));
    write_tensor_file(folder.path("logical"), logical);
    const VectorFile vectors = read_vector_file(folder.path("logical"));
    CHECK_FALSE(vectors.has_state);
    const Placement placement{.a = parse_operand_layout("k-major:none"), .b = parse_operand_layout("k-major:64")};
    write_tensor_file(folder.path("out"), with_simulated_d(vectors, placement, 2));
    const VectorFile out = read_vector_file(folder.path("out"));
    CHECK(out.has_state);
    CHECK(verify(out, 1).mismatches == 0);
    const auto same = [](const Tensor* x, const Tensor* y) { return x->bytes == y->bytes; };
    INFO(mnemonic);
    CHECK(same(out.file.find("d"), golden.find("d")));
    CHECK(same(out.file.find("d_regs"), golden.find("d_regs")));
    CHECK(*out.file.find_metadata("x-extra") == "kept");
    CHECK(out.file.find("x-mine")->bytes.size() == 2);
    // A wrong logical d is seen even beside right registers.
    TensorFile wrong = out.file;
    std::vector<uint8_t> d = wrong.find("d")->bytes.copy();
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
    // States, and logical matrices alone that have to be laid out; a tensor that does not come by case stays whole.
    TensorFile states = make_golden(request, 2), logical;
    states.set(Tensor::from_bytes("x-mine", "U8", {2}, {4, 2}));
    logical.metadata = states.metadata;
    for (const char* name : {"a", "b", "c", "x-mine"}) logical.tensors.push_back(*states.find(name));
    for (const TensorFile* input : {&states, &logical}) {
      write_tensor_file(folder.path("input"), *input);
      const VectorFile vectors = read_vector_file(folder.path("input"));
      write_tensor_file(folder.path("whole"), with_simulated_d(vectors, {}, 2));
      int64_t done = 0;
      write_simulated(folder.path("batches"), vectors, {}, 2, [&](int64_t cases) { done = cases; });
      CHECK(done == 53);
      const TensorFile whole = read_tensor_file(folder.path("whole")),
                       batches = read_tensor_file(folder.path("batches"));
      CHECK(whole.metadata == batches.metadata);
      REQUIRE(whole.tensors.size() == batches.tensors.size());
      for (const Tensor& tensor : whole.tensors) {
        const Tensor* const other = batches.find(tensor.name);
        REQUIRE(other);
        CHECK(other->shape == tensor.shape);
        CHECK(other->bytes == tensor.bytes);
      }
    }
  }
  const GoldenRequest copies{.instruction = parse_instruction("tcgen05.cp.cta_group::2.128x256b"),
                             .cases = 37,
                             .seed = 3,
                             .placement = {.a = {.swizzle = Swizzle::b64}}};
  write_tensor_file(folder.path("whole"), make_golden(copies, 2));
  write_golden(folder.path("batches"), copies, 2);
  CHECK(same());
  CHECK(verify(read_vector_file(folder.path("batches")), 2).mismatches == 0);
}

TEST_CASE("simulate replaces what a GPU recorded and forgets the GPU, but keeps what it does not know") {
  const test::TemporaryFolder folder;
  VectorFile vectors = read_vector_file(test::golden_files().front());
  vectors.file.set_metadata("driver", "580");
  vectors.file.set_metadata("x-unknown", "x");
  const TensorFile out = with_simulated_d(vectors, {}, 1);
  CHECK(out.find_metadata("source")->starts_with("bitmma "));
  CHECK_FALSE(out.find_metadata("driver"));
  CHECK(*out.find_metadata("x-unknown") == "x");
  CHECK(*out.find_metadata("seed") == *vectors.file.find_metadata("seed"));
}

TEST_CASE("cases 3 and 4 of a seed are the same whether the file begins with them or with case 0") {
  for (const char* mnemonic :
       {"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", "tcgen05.st.sync.aligned.16x64b.x4.b32",
        "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0"}) {
    GoldenRequest request{.instruction = parse_instruction(mnemonic), .cases = 5, .seed = 9};
    const VectorFile all = as_vector_file(make_golden(request, 2));
    request.first_case = 3, request.cases = 2;
    const VectorFile part = as_vector_file(make_golden(request, 2));
    INFO(mnemonic);
    CHECK(*part.file.find_metadata("first_case") == "3");
    for (int64_t index = 0; index < 2; ++index) {
      const Case this_case = case_at(all, 3 + index), other = case_at(part, index);
      CHECK(this_case.before == other.before);
      CHECK(this_case.after == other.after);
      CHECK(this_case.logical == other.logical);
    }
  }
}

TEST_CASE("golden files of all families name seed, first case, source and target, and verify") {
  for (const auto& [mnemonic, target] :
       {std::pair("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", "sm_90a"),
        std::pair("mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0", "sm_120a"),
        std::pair("tcgen05.mma.cta_group::1.kind::f16", "sm_100a"),
        std::pair("tcgen05.shift.cta_group::1.down", "sm_100a")}) {
    const TensorFile file = make_golden({.instruction = parse_instruction(mnemonic), .cases = 2, .seed = 77}, 2);
    INFO(mnemonic);
    CHECK(*file.find_metadata("format") == vector_format);
    CHECK(*file.find_metadata("seed") == "77");
    CHECK(*file.find_metadata("first_case") == "0");
    CHECK(*file.find_metadata("target") == target);
    CHECK(file.find_metadata("source")->starts_with("bitmma "));
    CHECK((file.find_metadata("distribution") != nullptr) == is_mma(parse_instruction(mnemonic)));
    CHECK(verify(as_vector_file(file), 2).mismatches == 0);
  }
}

TEST_CASE("a request that is not legal is refused with everything that is wrong, and nothing is written") {
  const test::TemporaryFolder folder;
  const Instruction good = parse_instruction("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16");
  Wgmma bad = std::get<Wgmma>(good);
  bad.n = 12;
  CHECK_THROWS_MATCHES(make_golden({.instruction = bad, .cases = 0}, 1), Error,
                       refused(illegal_value, "n") && refused(illegal_value, "cases"));
  CHECK_THROWS_MATCHES(make_golden({.instruction = good, .target = Target::sm_100a}, 1), Error,
                       refused(unsupported_target, "target"));
  CHECK_THROWS_AS(make_golden({.instruction = good, .placement = {.a = {.padding_bytes = 8}}}, 1), Error);
  CHECK_THROWS_AS(write_golden(folder.path("x"), {.instruction = bad}, 1), Error);
  CHECK_FALSE(std::filesystem::exists(folder.path("x")));
}

TEST_CASE("a file with states is laid out already, and one of logical matrices gets the states that were asked for") {
  const Instruction instruction = parse_instruction("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16");
  const TensorFile golden = make_golden({.instruction = instruction, .cases = 2, .seed = 4}, 1);
  const VectorFile with_state = as_vector_file(golden);
  CHECK(laid_out(with_state, {.a = {.major = Major::mn}}).instruction == with_state.instruction);
  TensorFile logical = golden;
  std::erase_if(logical.tensors, [](const Tensor& tensor) { return tensor.name.size() > 1; });
  const VectorFile placed = laid_out(as_vector_file(logical), {.a = {.major = Major::mn}, .b = {.major = Major::mn}});
  CHECK(placed.has_state);
  CHECK(std::get<Wgmma>(placed.instruction).transpose_a);
  CHECK(std::get<Wgmma>(placed.instruction).transpose_b);
  CHECK(*placed.file.find_metadata("imm_trans_b") == "1");
  for (int64_t index = 0; index < 2; ++index) {
    CHECK(operands_of(case_at(placed, index)) == operands_of(case_at(with_state, index)));
  }
}
