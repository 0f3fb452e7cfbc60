// Files that contradict themselves, a D of another type, whole tiles, and what is left of a file's origin.
#include <algorithm>

#include "bitmma/core/error.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

const std::string f16 = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16";

TensorFile golden(const std::string& mnemonic = f16, int64_t cases = 3) {
  TensorFile file = make_golden(
      {.instruction = parse_instruction(mnemonic), .cases = cases, .distribution = Distribution::normal}, 1);
  file.path = "file";
  return file;
}

/// The file with one bit of byte `at` of a tensor changed.
TensorFile with_flipped(TensorFile file, std::string_view name, size_t at) {
  const Tensor& old = *file.find(name);
  std::vector<uint8_t> bytes = old.bytes.copy();
  bytes.at(at) ^= 1;
  file.set(Tensor::from_bytes(old.name, old.dtype, old.shape, std::move(bytes)));
  return file;
}

std::vector<Violation> refusals(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.violations();
  }
  return {};
}

void check_contradiction(const VectorFile& vectors, std::string_view field) {
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { require_consistent(vectors, 2); }, [&] { verify(vectors, 1); }, [&] { compare(vectors, vectors); }}) {
    const std::vector<Violation> violations = refusals(call);
    REQUIRE(violations.size() == 1);
    CHECK(violations[0].code == ViolationCode::contradiction);
    CHECK(violations[0].field == "file: " + std::string(field));
  }
}

/// A, B, C of a K loop of `steps`.
TensorFile loop_matrices(int steps) {
  const Instruction instruction = parse_instruction(f16);
  TensorFile file{.path = "file", .metadata = {{"instruction", f16}}, .tensors = {}};
  const Operands operands = random_operands(instruction, Target::sm_90a, Distribution::normal, 7, 0);
  std::vector<uint8_t> a, b;
  for (int row = 0; row < 64; ++row) {
    for (int k = 0; k < 16 * steps; ++k)
      for (int byte = 0; byte < 2; ++byte)
        a.push_back(static_cast<uint8_t>(operands.a.code(row, (k + k / 16) % 16) >> 8 * byte));
  }
  for (int k = 0; k < 16 * steps; ++k) {
    for (int col = 0; col < 8; ++col)
      for (int byte = 0; byte < 2; ++byte)
        b.push_back(static_cast<uint8_t>(operands.b.code(k % 16, (col + k / 16) % 8) >> 8 * byte));
  }
  file.set(Tensor::from_bytes("a", "F16", {64, 16 * steps}, std::move(a)));
  file.set(Tensor::from_bytes("b", "F16", {16 * steps, 8}, std::move(b)));
  file.set(Tensor::from_bytes("c", "F32", {64, 8}, std::vector<uint8_t>(64 * 8 * 4)));
  return file;
}

/// Its steps as cases, with images and D.
TensorFile steps_of_loop(int steps) { return unroll_k(as_tiled_file(loop_matrices(steps)), {}).file; }

}  // namespace

TEST_CASE("plain matrices beside a state must be what the instruction reads, in every case") {
  CHECK(refusals([] { require_consistent(as_vector_file(golden())); }).empty());
  for (const std::string_view name : {"a", "b", "c"}) {
    INFO(name);
    const TensorFile file = golden();
    const VectorFile vectors = as_vector_file(with_flipped(file, name, file.find(name)->bytes.size() - 2));  // case 2
    check_contradiction(vectors, "tensor " + std::string(name));
  }
  // A changed image too, with all that differs counted.
  const VectorFile image = as_vector_file(with_flipped(golden(), "smem", 0));
  check_contradiction(image, "tensor a");
  // Scales and metadata.
  const TensorFile scaled = golden("tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale", 2);
  CHECK(refusals([&] { require_consistent(as_vector_file(scaled)); }).empty());
  check_contradiction(as_vector_file(with_flipped(scaled, "sfb", 1)), "tensor sfb");
  const TensorFile sparse = golden("wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16", 2);
  CHECK(refusals([&] { require_consistent(as_vector_file(sparse)); }).empty());
}

TEST_CASE("cases that are said to be steps of a K loop go on with the D of the step before") {
  TensorFile file = steps_of_loop(4);
  file.path = "file";
  CHECK(refusals([&] { require_consistent(as_vector_file(file)); }).empty());
  // A part of a file may begin inside a loop.
  TensorFile loops = steps_of_loop(2);
  for (Tensor& tensor : loops.tensors) {
    const std::vector<uint8_t> once = tensor.bytes.copy();
    std::vector<uint8_t> twice = once;
    twice.insert(twice.end(), once.begin(), once.end());
    tensor.shape[0] *= 2;
    tensor.bytes = TensorBytes(std::move(twice));
  }
  CHECK(verify(cases_of(as_vector_file(loops), 1, 2), 1).mismatches == 0);
  // A wrong D is no contradiction: it is for verify to find.
  TensorFile wrong = with_flipped(file, "d_regs", 2 * 128 * 4 * 4);
  wrong.erase("d");
  CHECK(verify(as_vector_file(wrong), 1).mismatches == 1);
  // Independent cases.
  TensorFile independent = golden(f16, 4);
  for (const char* steps : {"2", "4"}) {
    independent.set_metadata("k_loop", steps);
    check_contradiction(as_vector_file(independent), "__metadata__ k_loop");
  }
  independent.set_metadata("k_loop", "1");
  CHECK(refusals([&] { require_consistent(as_vector_file(independent)); }).empty());
  // Steps that read no C begin again.
  TensorFile cleared = file;
  cleared.set_metadata("scale_d", "0");
  for (const std::string_view name : {"c", "d", "d_regs"}) cleared.erase(name);
  CHECK(refusals([&] { require_consistent(as_vector_file(cleared)); }).front().code == ViolationCode::contradiction);
  // Loads have no K.
  TensorFile loads = golden("tcgen05.ld.sync.aligned.32x32b.x1.b32", 2);
  loads.set_metadata("k_loop", "2");
  CHECK(refusals([&] { require_consistent(as_vector_file(loads)); }).front().code == ViolationCode::contradiction);
}

TEST_CASE("steps with one D behind them all may keep the C of the first step, and no other") {
  TensorFile file = steps_of_loop(2);
  std::vector<uint8_t> d = file.find("d")->bytes.copy();
  d.erase(d.begin(), d.begin() + 64 * 8 * 4);
  for (const std::string_view name : {"a", "b", "c", "d", "d_regs"}) file.erase(name);
  file.set(Tensor::from_bytes("d", "F32", {64, 8}, d));
  CHECK(verify(as_tiled_file(file)).mismatches == 0);
  std::vector<uint8_t> c(2 * 128 * 4 * 4);
  file.set(Tensor::from_bytes("c_regs", "U32", {2, 128, 4}, c));
  CHECK(verify(as_tiled_file(file)).mismatches == 0);
  c.back() = 0x40;
  file.set(Tensor::from_bytes("c_regs", "U32", {2, 128, 4}, c));
  const VectorFile wrong = as_tiled_file(file);
  CHECK(refusals([&] { require_consistent(wrong); }).front().code == ViolationCode::contradiction);
  CHECK(refusals([&] { verify(wrong); }).front().code == ViolationCode::contradiction);
}

TEST_CASE("a d of another type is compared where each number is one of D's type") {
  const auto recorded = [](std::string dtype, const std::vector<uint64_t>& first, size_t size) {
    TensorFile file = loop_matrices(1);
    std::vector<uint8_t> bytes(64 * 8 * size);
    for (size_t i = 0; i < first.size(); ++i) {
      for (size_t byte = 0; byte < size; ++byte) bytes[i * size + byte] = static_cast<uint8_t>(first[i] >> 8 * byte);
    }
    file.set(Tensor::from_bytes("d", std::move(dtype), {64, 8}, std::move(bytes)));
    return as_vector_file(std::move(file));
  };
  const auto code = [](const VectorFile& vectors, int col) { return recorded_d(case_at(vectors, 0)).code(0, col); };
  const VectorFile half = recorded("F16", {0x3C00, 0x8000, 0x0001, 0x7C00}, 2);
  CHECK(code(half, 0) == 0x3F800000);
  CHECK(code(half, 1) == 0x80000000);
  CHECK(code(half, 2) == 0x33800000);  // 2^-24
  CHECK(code(half, 3) == 0x7F800000);
  CHECK(code(recorded("BF16", {0x4049}, 2), 0) == 0x40490000);
  CHECK(code(recorded("F64", {0xC000000000000000}, 8), 0) == 0xC0000000);
  // 1/3 in 53 bits, 2^200, an integer type.
  for (const auto& [dtype, word, size] :
       {std::tuple("F64", uint64_t{0x3FD5555555555555}, size_t{8}),
        std::tuple("F64", uint64_t{0x4C70000000000000}, size_t{8}), std::tuple("I64", uint64_t{1}, size_t{8})}) {
    const std::vector<Violation> violations = refusals([&] { recorded(dtype, {word}, size); });
    REQUIRE(violations.size() == 1);
    CHECK(violations[0].field == "file: tensor d");
    CHECK_THAT(violations[0].seen, ContainsSubstring(dtype));
    CHECK_THAT(violations[0].expected, ContainsSubstring("F32"));
  }
}

TEST_CASE("a whole tile is verified, compared and taken apart") {
  TensorFile file = loop_matrices(4);
  file.erase("c");
  const VectorFile plain = as_tiled_file(file);
  CHECK(plain.tiling == Tiling{.k = 4});
  CHECK(refusals([&] { verify(plain); }).size() == 1);  // no d
  const Matrix d = computed_tile(case_at(plain, 0));
  const VectorFile steps = as_vector_file(steps_of_loop(4));
  CHECK(d == recorded_d(case_at(steps, 3)));
  std::vector<uint8_t> bytes;
  for (const uint32_t word : d.words())
    for (int byte = 0; byte < 4; ++byte) bytes.push_back(static_cast<uint8_t>(word >> 8 * byte));
  file.set(Tensor::from_bytes("d", "F32", {64, 8}, bytes));
  const VectorFile right = as_tiled_file(file), wrong = as_tiled_file(with_flipped(file, "d", 4 * (8 * 17 + 5)));
  CHECK(verify(right).mismatches == 0);
  for (const Comparison& comparison : {verify(wrong), compare(right, wrong)}) {
    CHECK(comparison.mismatches == 1);
    CHECK(comparison.outputs == 512);
    CHECK(comparison.first->row == 17);
    CHECK(comparison.first->col == 5);
  }
  CHECK(different_inputs(right, wrong).empty());
  const VectorFile other = as_tiled_file(with_flipped(file, "a", 0));
  REQUIRE(different_inputs(right, other).size() == 1);
  CHECK(different_inputs(right, other)[0].name == "A");
  // Step by step, with the D of the step before.
  std::optional<Matrix> block;
  const Case whole = case_at(right, 0);
  for (int step = 0; step < 4; ++step) {
    const Case this_case = instruction_at(whole, 17, 5, step, block ? &*block : nullptr);
    CHECK(this_case.logical.d.has_value() == (step == 3));
    block = computed_d(this_case);
  }
  CHECK(*block == d);
  CHECK(refusals([&] { instruction_at(whole, 64, 0, 0); }).front().field == "row");
}

TEST_CASE("a computed D forgets where the recorded one came from, and keeps what says what the file is") {
  TensorFile file = golden();
  for (const char* key : {"gpu", "driver", "cuda", "date", "device", "host", "library", "kernel", "clock"})
    file.set_metadata(key, "of the GPU");
  file.set_metadata("source", "NVIDIA H100");
  file.set_metadata("title", "mine"), file.set_metadata("x-rig", "7");
  const TensorFile result = with_simulated_d(as_vector_file(file), {}, 1);
  CHECK(result.find_metadata("source")->starts_with("bitmma "));
  for (const auto& [key, value] : result.metadata) CHECK(value != "of the GPU");
  CHECK(*result.find_metadata("title") == "mine");
  CHECK(*result.find_metadata("x-rig") == "7");
  CHECK(result.find_metadata("seed"));
}

TEST_CASE("results of a file without the state that an instruction leaves are of that state, and stay") {
  const VectorFile mma = as_vector_file(golden("tcgen05.mma.cta_group::1.kind::f16", 1));
  const TensorFile load = golden("tcgen05.ld.sync.aligned.32x32b.x1.b32", 1);
  CHECK_FALSE(after(mma, load, {}).find("d_regs"));  // of its own tmem
  TensorFile without = load;
  without.erase("tmem");
  CHECK(after(mma, without, {}).find("d_regs"));
}

TEST_CASE("plain matrices in another order, packed or of another K are refused by the one to mend") {
  const auto refused = [](const std::string& mnemonic, std::vector<int64_t> a, std::vector<int64_t> b,
                          std::string_view dtype) {
    TensorFile file{.path = "file", .metadata = {{"instruction", mnemonic}}, .tensors = {}};
    const auto put = [&](const char* name, const std::vector<int64_t>& shape) {
      file.set(Tensor::from_bytes(name, std::string(dtype), shape,
                                  std::vector<uint8_t>(static_cast<size_t>(shape[0] * shape[1] * dtype_bytes(dtype)))));
    };
    put("a", a), put("b", b);
    std::vector<std::string> fields;
    for (const Violation& violation : refusals([&] { as_vector_file(file); }))
      fields.push_back(violation.field.substr(6));
    return fields;
  };
  using Fields = std::vector<std::string>;
  const std::string tcgen05 = "tcgen05.mma.cta_group::1.kind::f16",
                    fp4 = "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16";
  CHECK(refused(f16, {64, 16}, {8, 16}, "F16") == Fields{"tensor b shape"});
  CHECK(refused(f16, {64, 64}, {8, 64}, "F16") == Fields{"tensor b shape"});
  CHECK(refused(f16, {16, 64}, {16, 8}, "F16") == Fields{"tensor a shape"});
  CHECK(refused(f16, {64, 40}, {40, 8}, "F16") == Fields{"tensors a, b"});
  CHECK(refused(f16, {64, 64}, {48, 8}, "F16") == Fields{"tensor b shape"});
  CHECK(refused(f16, {64, 40}, {48, 8}, "F16") == Fields{"tensor a shape"});
  CHECK(refused(f16, {128, 64}, {64, 8}, "F16") == Fields{"tile"});
  CHECK(refused(tcgen05, {128, 16}, {24, 16}, "F16") == Fields{"tensor b shape"});
  CHECK(refused(fp4, {128, 32}, {32, 16}, "U8") == Fields{"tensor a shape", "tensor b shape"});
  CHECK(refused(fp4, {128, 64}, {32, 16}, "U8") == Fields{"tensor b shape"});
  CHECK(refused(fp4, {128, 32}, {64, 16}, "U8") == Fields{"tensor a shape"});
  // The scales are what lacks, whatever type is said of them.
  TensorFile unscaled{.path = "file", .metadata = {{"instruction", fp4}, {"sf_type", "ue4m3"}}, .tensors = {}};
  unscaled.set(Tensor::from_bytes("a", "U8", {128, 64}, std::vector<uint8_t>(128 * 64)));
  unscaled.set(Tensor::from_bytes("b", "U8", {64, 16}, std::vector<uint8_t>(64 * 16)));
  for (const Violation& violation : refusals([&] { as_vector_file(unscaled); }))
    CHECK((violation.field == "file: tensor sfa" || violation.field == "file: tensor sfb"));
}
