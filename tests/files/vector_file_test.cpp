#include "bitmma/files/vector_file.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "bitmma/core/error.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/instruction/evidence.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

namespace {

constexpr std::string_view f16_wgmma = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16",
                           mxf4_warp =
                               "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0";

TensorFile golden_of(const Instruction& instruction, int64_t cases = 3) {
  return make_golden({.instruction = instruction, .cases = cases, .seed = 5, .distribution = Distribution::integers},
                     2);
}

Tcgen05Mma f16_tcgen05(int n) { return {.m = 128, .n = n}; }

/// A file of a legal instruction without the key that names its target.
TensorFile without_target(const Instruction& instruction) {
  TensorFile file = golden_of(instruction);
  file.erase_metadata("target");
  return file;
}

TensorFile with_key(TensorFile file, std::string_view key, std::string value) {
  file.set_metadata(key, std::move(value));
  return file;
}

/// Logical matrices alone.
TensorFile logical_part(const TensorFile& file) {
  TensorFile logical{.path = {}, .metadata = file.metadata, .tensors = {}};
  for (const char* name : {"a", "b", "c", "sfa", "sfb"}) {
    if (const Tensor* tensor = file.find(name)) logical.tensors.push_back(*tensor);
  }
  return logical;
}

Tensor u32_tensor(std::string name, const std::vector<uint32_t>& words) {
  std::vector<uint8_t> bytes;
  for (const uint32_t word : words) {
    for (int byte = 0; byte < 4; ++byte) bytes.push_back(static_cast<uint8_t>(word >> 8 * byte));
  }
  return Tensor::from_bytes(std::move(name), "U32", {static_cast<int64_t>(words.size())}, std::move(bytes));
}

/// The names of all tensors of the format.
std::set<std::string> all_tensor_names() {
  std::set<std::string> names{"a", "b", "c", "d", "sfa", "sfb"};
  for (const FieldInfo& field : state_fields) {
    names.emplace(field.name);
    if (!field.after.empty()) names.emplace(field.after);
  }
  for (const ImmediateInfo& immediate : all_immediates()) {
    if (immediate.by_case) names.emplace(immediate.name);
  }
  return names;
}

/// Those of them that mean nothing to the file's instruction, wherever it has A.
std::set<std::string> names_of_others(const VectorFile& vectors) {
  std::set<std::string> names = all_tensor_names();
  for (const OperandSource source : {OperandSource::smem, OperandSource::registers, OperandSource::tmem}) {
    const Instruction instruction = with_a_source(vectors.instruction, source);
    if (!violations_of(instruction, vectors.target).empty()) continue;
    for (const TensorRule& rule : tensor_rules(instruction, true)) names.erase(std::string(rule.name));
  }
  return names;
}

std::vector<Tensor> hostile_tensors(const std::string& name, int64_t cases) {
  const std::vector<uint8_t> bytes(static_cast<size_t>(16 * cases));
  const auto some = [&](size_t count) {
    return std::vector<uint8_t>(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
  };
  return {
      Tensor::from_bytes(name, "F32", {}, some(4)),
      Tensor::from_bytes(name, "U8", {}, some(1)),
      Tensor::from_bytes(name, "U32", {0}, {}),
      Tensor::from_bytes(name, "U8", {cases, 0}, {}),
      Tensor::from_bytes(name, "U8", {0, cases}, {}),
      Tensor::from_bytes(name, "U32", {1}, some(4)),
      Tensor::from_bytes(name, "U64", {cases - 1}, some(static_cast<size_t>(8 * (cases - 1)))),
      Tensor::from_bytes(name, "U32", {cases + 1}, some(static_cast<size_t>(4 * (cases + 1)))),
      Tensor::from_bytes(name, "F3_E1M1", {cases}, some(1)),
      Tensor::from_bytes(name, "U8", {cases, 1, 1, 1, 1, 1}, some(static_cast<size_t>(cases))),
  };
}

/// An instruction of each kind of file, of every family, and of every place of A.
std::vector<Instruction> an_instruction_of_each_kind() {
  Wgmma registers = std::get<Wgmma>(parse_instruction(f16_wgmma));
  registers.a_source = OperandSource::registers;
  Tcgen05Mma tensor_memory = f16_tcgen05(16);
  tensor_memory.a_source = OperandSource::tmem;
  return {parse_instruction(f16_wgmma),
          registers,
          parse_instruction("wgmma.mma_async.sp.sync.aligned.m64n8k64.f32.e4m3.e4m3"),
          parse_instruction(mxf4_warp),
          f16_tcgen05(16),
          tensor_memory,
          Tcgen05Mma{.kind = MmaKind::mxf8f6f4, .m = 128, .n = 16},
          parse_instruction("tcgen05.ld.sync.aligned.32x32b.x2.b32"),
          parse_instruction("tcgen05.st.sync.aligned.16x256b.x1.b32"),
          parse_instruction("tcgen05.cp.cta_group::1.128x256b"),
          parse_instruction("tcgen05.shift.cta_group::1.down")};
}

}  // namespace

TEST_CASE("the target of a file is what its key says") {
  const TensorFile file = golden_of(f16_tcgen05(16));
  CHECK(*file.find_metadata("target") == "sm_100a");
  CHECK(as_vector_file(file).target == Target::sm_100a);
  const VectorFile b300 = as_vector_file(with_key(file, "target", "sm_103a"));
  CHECK(b300.target == Target::sm_103a);
  CHECK(case_at(b300, 0).target == Target::sm_103a);
  CHECK(evidence_of(b300.instruction, b300.target) == Evidence::model_choice);
  CHECK(evidence_of(b300.instruction, Target::sm_100a) == Evidence::consistent_words);
  CHECK(*with_simulated_d(b300, {}, 1).find_metadata("target") == "sm_103a");
}

TEST_CASE("a target that nobody knows, or that does not have the instruction, is refused with the key") {
  const TensorFile file = golden_of(parse_instruction(f16_wgmma));
  for (const char* name : {"sm_91", "", "SM_91A", "blackwell"}) {
    INFO("\"" << name << "\"");
    CHECK_THROWS_MATCHES(as_vector_file(with_key(file, "target", name)), Error,
                         refused(illegal_value, "__metadata__ target"));
  }
  CHECK_THROWS_MATCHES(as_vector_file(with_key(file, "target", "sm_100a")), Error,
                       refused(unsupported_target, "target"));
  CHECK_THROWS_AS(as_vector_file(with_key(file, "target", "sm_90")), Error);
}

TEST_CASE("a target that was asked for stands in for a missing key and must not contradict one") {
  const TensorFile silent = without_target(f16_tcgen05(16));
  CHECK(as_vector_file(silent, {.target = Target::sm_103a}).target == Target::sm_103a);
  CHECK_THROWS_MATCHES(as_vector_file(silent, {.target = Target::sm_90a}), Error,
                       refused(unsupported_target, "target"));
  const TensorFile says = with_key(silent, "target", "sm_100a");
  CHECK(as_vector_file(says, {.target = Target::sm_100a}).target == Target::sm_100a);
  CHECK_THROWS_MATCHES(as_vector_file(says, {.target = Target::sm_103a}), Error,
                       refused(other_target, "__metadata__ target"));
}

TEST_CASE("files that name no target mean sm_90a, sm_100a, sm_103a or sm_120a by what they hold") {
  const auto target_of = [](const Instruction& instruction) {
    return as_vector_file(without_target(instruction)).target;
  };
  CHECK(target_of(parse_instruction(f16_wgmma)) == Target::sm_90a);
  CHECK(target_of(f16_tcgen05(16)) == Target::sm_100a);
  CHECK(target_of(Tcgen05Mma{.kind = MmaKind::i8}) == Target::sm_100a);
  CHECK(target_of(Tcgen05Mma{.kind = MmaKind::mxf4}) == Target::sm_100a);
  CHECK(target_of(Tcgen05Mma{.kind = MmaKind::mxf4, .k = 96}) == Target::sm_103a);
  CHECK(target_of(Tcgen05Mma{.kind = MmaKind::mxf4nvf4, .k = 96}) == Target::sm_103a);
  CHECK(target_of(parse_instruction(mxf4_warp)) == Target::sm_120a);
  CHECK(target_of(parse_instruction("tcgen05.ld.sync.aligned.32x32b.x2.b32")) == Target::sm_100a);
  CHECK(target_of(parse_instruction("tcgen05.cp.cta_group::1.128x256b")) == Target::sm_100a);
}

TEST_CASE("every file of the H200 is of sm_90a, and what is computed for it now names that") {
  const VectorFile vectors = read_vector_file(test::golden_files().front());
  CHECK(vectors.target == Target::sm_90a);
  CHECK(*with_simulated_d(vectors, {}, 1).find_metadata("target") == "sm_90a");
}

TEST_CASE("a file whose later cases need another target than its first one is of a target that has all of them") {
  Tcgen05Mma k64{.kind = MmaKind::mxf4}, k96{.kind = MmaKind::mxf4, .k = 96};
  TensorFile file = golden_of(k96, 2);
  std::erase_if(file.tensors,
                [](const Tensor& tensor) { return tensor.name.size() == 1 || tensor.name.starts_with("sf"); });
  file.erase_metadata("target");
  file.set(u32_tensor("idesc", {idesc_of(k64), idesc_of(k96)}));
  CHECK(as_vector_file(file).target == Target::sm_103a);
  CHECK_THROWS_MATCHES(as_vector_file(with_key(file, "target", "sm_100a")), Error,
                       refused(unsupported_target, "target"));
}

TEST_CASE("tensors with names that other instructions use are refused, and with x- they do not matter") {
  const test::TemporaryFolder folder;
  const int every = test::amount(43, 1, 1);
  int tried = 0, files = 0;
  for (const Instruction& instruction : an_instruction_of_each_kind()) {
    constexpr int64_t cases = 3;
    const TensorFile good = golden_of(instruction, cases);
    const VectorFile vectors = as_vector_file(good);
    const std::vector<Matrix> results{computed_d(case_at(vectors, 0)), computed_d(case_at(vectors, 1)),
                                      computed_d(case_at(vectors, 2))};
    for (const std::string& name : names_of_others(vectors)) {
      for (const Tensor& hostile : hostile_tensors(name, cases)) {
        if (tried++ % every != 0) continue;
        TensorFile file = good;
        file.set(hostile);
        INFO(print(instruction) << " with " << name << " " << hostile.dtype << " " << print_shape(hostile.shape));
        CHECK_THROWS_MATCHES(as_vector_file(file), Error,
                             refused(unknown_key, "tensor of a vector file of " + print(instruction)));
        Tensor free = hostile;
        free.name = "x-" + name;
        file = good;
        file.set(free);
        VectorFile read;
        try {
          read = as_vector_file(file);
        } catch (const Error& error) {
          FAIL_CHECK(error.what());
          break;
        }
        CHECK(read.cases == cases);
        CHECK(read.instruction == vectors.instruction);
        for (int64_t index = 0; index < cases; ++index) {
          const Case this_case = case_at(read, index), expected = case_at(vectors, index);
          REQUIRE(this_case.before == expected.before);
          REQUIRE(this_case.after == expected.after);
          REQUIRE(computed_d(this_case) == results[static_cast<size_t>(index)]);
        }
        CHECK(verify(read, 1).mismatches == 0);
        CHECK(compare(read, vectors).mismatches == 0);
        // Kept, as everything that means nothing here.
        write_simulated(folder.path("out"), read, {}, 1);
        const TensorFile out = read_tensor_file(folder.path("out"));
        const Tensor* kept = out.find(free.name);
        REQUIRE(kept);
        CHECK(kept->dtype == hostile.dtype);
        CHECK(kept->shape == hostile.shape);
        CHECK(kept->bytes == hostile.bytes);
        ++files;
      }
    }
  }
  CHECK(files > 1000 / every);
}

TEST_CASE("the same holds beside logical matrices alone") {
  for (const Instruction& instruction : {parse_instruction(f16_wgmma), parse_instruction(mxf4_warp)}) {
    constexpr int64_t cases = 3;
    const TensorFile good = logical_part(golden_of(instruction, cases));
    const VectorFile vectors = as_vector_file(good);
    REQUIRE_FALSE(vectors.has_state);
    for (const std::string& name : names_of_others(vectors)) {
      for (const Tensor& hostile : hostile_tensors(name, cases)) {
        TensorFile file = good;
        file.set(hostile);
        INFO(print(instruction) << " with " << name << " " << hostile.dtype << " " << print_shape(hostile.shape));
        CHECK_THROWS_MATCHES(as_vector_file(file), Error,
                             refused(unknown_key, "tensor of a vector file of " + print(instruction)));
        Tensor free = hostile;
        free.name = "x-" + name;
        file = good;
        file.set(free);
        VectorFile read;
        try {
          read = as_vector_file(file);
        } catch (const Error& error) {
          FAIL_CHECK(error.what());
          break;
        }
        CHECK_FALSE(read.has_state);
        for (int64_t index = 0; index < cases; ++index) {
          REQUIRE(computed_d(case_at(read, index)) == computed_d(case_at(vectors, index)));
        }
      }
    }
  }
}

TEST_CASE("a tensor that the instruction needs is refused by name when its dtype or shape is not the instruction's") {
  for (const Instruction& instruction : an_instruction_of_each_kind()) {
    constexpr int64_t cases = 3;
    const TensorFile good = golden_of(instruction, cases);
    for (const TensorRule& rule : tensor_rules(instruction, true)) {
      if (!good.find(rule.name)) continue;
      for (const Tensor& hostile : hostile_tensors(std::string(rule.name), cases)) {
        if (hostile.shape == good.find(rule.name)->shape && hostile.dtype == good.find(rule.name)->dtype) continue;
        TensorFile file = good;
        file.set(hostile);
        INFO(print(instruction) << " with " << rule.name << " " << hostile.dtype << " " << print_shape(hostile.shape));
        CHECK_THROWS_AS(as_vector_file(file), Error);
      }
      TensorFile file = good;
      file.erase(rule.name);
      INFO(print(instruction) << " without " << rule.name);
      // Without registers or Tensor Memory of A, A is asked for in shared memory.
      const bool says_where_a_is =
          rule.name == "a_tmem" || (rule.name == "a_regs" && !std::get_if<MmaSync>(&instruction));
      const std::string asked_for(says_where_a_is ? "a_desc" : rule.name);
      if (rule.required)
        CHECK_THROWS_MATCHES(as_vector_file(file), Error, refused(missing_input, "tensor " + asked_for));
      else CHECK_NOTHROW(as_vector_file(file));
    }
  }
}

TEST_CASE("logical matrices whose shape only the first case has are refused, not read past their end") {
  // The instruction descriptor of case 1 says N = 256, and there is Tensor Memory for it; b, c and d are of N = 8.
  TensorFile file = golden_of(f16_tcgen05(256), 2);
  const TensorFile narrow = golden_of(f16_tcgen05(8), 2);
  for (const char* name : {"a", "b", "c", "d"}) file.set(*narrow.find(name));
  file.set(u32_tensor("idesc", {idesc_of(f16_tcgen05(8)), idesc_of(f16_tcgen05(256))}));
  CHECK_THROWS_AS(as_vector_file(file), Error);
}

TEST_CASE("a file of another format, without its instruction or any tensor is refused with the key") {
  const TensorFile good = golden_of(parse_instruction(f16_wgmma));
  TensorFile file = good;
  file.erase_metadata("format");
  CHECK(as_vector_file(file).name() == f16_wgmma);
  CHECK_THROWS_MATCHES(as_vector_file(with_key(good, "format", "other")), Error,
                       refused(illegal_value, "__metadata__ format"));
  file = good;
  file.erase_metadata("instruction");
  CHECK_THROWS_MATCHES(as_vector_file(file), Error, refused(missing_instruction, "__metadata__ instruction"));
  CHECK(as_vector_file(file, {.instruction = f16_wgmma}).name() == f16_wgmma);
  file = good;
  file.tensors.clear();
  CHECK_THROWS_MATCHES(as_vector_file(file), Error, refused(illegal_value, "tensors"));
}

TEST_CASE("the refusals of a file that was read name its path") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("x.safetensors");
  write_tensor_file(path, with_key(golden_of(parse_instruction(f16_wgmma)), "target", "sm_91"));
  CHECK_THROWS_MATCHES(read_vector_file(path), Error,
                       refused(illegal_value, "$FOLDER/x.safetensors: __metadata__ target"));
}

TEST_CASE("immediates are metadata keys: their values are read, and those out of range are refused by name") {
  const TensorFile good = golden_of(parse_instruction(f16_wgmma));
  const Wgmma turned = std::get<Wgmma>(as_vector_file(with_key(good, "imm_scale_a", "-1")).instruction);
  CHECK(turned.negate_a);
  CHECK_FALSE(turned.negate_b);
  CHECK_FALSE(std::get<Wgmma>(as_vector_file(with_key(good, "scale_d", "0")).instruction).enable_input_d);
  CHECK_THROWS_MATCHES(as_vector_file(with_key(good, "imm_scale_a", "0")), Error,
                       refused(illegal_value, "imm_scale_a"));
  CHECK_THROWS_MATCHES(as_vector_file(with_key(good, "scale_d", "2")), Error, refused(illegal_value, "scale_d"));
  CHECK_THROWS_MATCHES(as_vector_file(with_key(good, "imm_trans_a", "yes")), Error,
                       refused(illegal_value, "__metadata__ imm_trans_a"));
  CHECK_THROWS_MATCHES(as_vector_file(with_key(good, "imm_trans_a", "")), Error,
                       refused(illegal_value, "__metadata__ imm_trans_a"));
}

TEST_CASE("tcgen05.mma's cases may differ in shape and immediates, and every case has its own") {
  Tcgen05Mma wide = f16_tcgen05(32), narrow = f16_tcgen05(16);
  narrow.enable_input_d = false, narrow.scale_input_d = 3;
  TensorFile file = golden_of(wide, 2);
  std::erase_if(file.tensors, [](const Tensor& tensor) { return tensor.name.size() == 1; });
  file.set(u32_tensor("idesc", {idesc_of(wide), idesc_of(narrow)}));
  file.set(Tensor::from_bytes("enable_input_d", "U8", {2}, {1, 0}));
  file.set(Tensor::from_bytes("scale_input_d", "U8", {2}, {0, 3}));
  const VectorFile vectors = as_vector_file(file);
  CHECK(vectors.instruction == Instruction(wide));
  CHECK(instruction_at(vectors, 0) == Instruction(wide));
  CHECK(instruction_at(vectors, 1) == Instruction(narrow));
  CHECK(case_at(vectors, 1).instruction == Instruction(narrow));
  file.set(Tensor::from_bytes("scale_input_d", "U8", {2}, {0, 16}));
  CHECK_THROWS_MATCHES(as_vector_file(file), Error, refused(illegal_value, "scale_input_d"));
  file.set(Tensor::from_bytes("scale_input_d", "U8", {2}, {0, 3}));
  file.set(u32_tensor("idesc", {idesc_of(wide), 0}));
  CHECK_THROWS_AS(as_vector_file(file), Error);
  file.erase("idesc");
  CHECK_THROWS_MATCHES(as_vector_file(file), Error, refused(missing_input, "tensor idesc"));
}

TEST_CASE("there is a case for every index below their number, and none beside") {
  const VectorFile vectors = as_vector_file(golden_of(parse_instruction(f16_wgmma)));
  CHECK_NOTHROW(case_at(vectors, 0));
  CHECK_NOTHROW(case_at(vectors, 2));
  CHECK_THROWS_MATCHES(case_at(vectors, 3), Error, refused(illegal_value, "case"));
  CHECK_THROWS_MATCHES(case_at(vectors, -1), Error, refused(illegal_value, "case"));
}

TEST_CASE("a part of a file has those cases, and knows which case of the whole its first one is") {
  TensorFile file = golden_of(parse_instruction(f16_wgmma), 5);
  file.set(Tensor::from_bytes("x-mine", "U8", {5}, {1, 2, 3, 4, 5}));
  const VectorFile whole = as_vector_file(file), part = cases_of(whole, 1, 3), inner = cases_of(part, 1, 2);
  CHECK(part.cases == 3);
  CHECK(part.first_case == 1);
  CHECK(inner.first_case == 2);
  CHECK_FALSE(part.file.find("x-mine"));
  REQUIRE(tensors_without_cases(whole).size() == 1);
  CHECK(tensors_without_cases(whole)[0].name == "x-mine");
  for (int64_t index = 0; index < 2; ++index) {
    CHECK(case_at(inner, index).before == case_at(whole, index + 2).before);
    CHECK(case_at(inner, index).logical == case_at(whole, index + 2).logical);
  }
}

TEST_CASE("cases that are built into a file are read back as they were, in every family") {
  for (const Instruction& instruction : an_instruction_of_each_kind()) {
    const VectorFile vectors = as_vector_file(golden_of(instruction));
    VectorBuilder builder(vectors.instruction, vectors.target);
    for (int64_t index = 0; index < vectors.cases; ++index) builder.add(case_at(vectors, index));
    const VectorFile again = as_vector_file(std::move(builder).finish({{"x-mine", "x"}}));
    INFO(print(instruction));
    CHECK(*again.file.find_metadata("x-mine") == "x");
    CHECK(again.target == vectors.target);
    REQUIRE(again.cases == vectors.cases);
    for (int64_t index = 0; index < vectors.cases; ++index) {
      const Case this_case = case_at(vectors, index), other = case_at(again, index);
      CHECK(this_case.instruction == other.instruction);
      CHECK(this_case.before == other.before);
      CHECK(this_case.after == other.after);
      CHECK(this_case.logical == other.logical);
    }
    const VectorFile single = as_vector_file(single_case_file(case_at(vectors, 2), {}));
    CHECK(single.cases == 1);
    CHECK(case_at(single, 0).before == case_at(vectors, 2).before);
  }
}

TEST_CASE("cases with different parts do not make a file") {
  const VectorFile vectors = as_vector_file(golden_of(parse_instruction(f16_wgmma)));
  VectorBuilder builder(vectors.instruction, vectors.target);
  Case this_case = case_at(vectors, 0);
  builder.add(this_case);
  this_case.after.reset();
  builder.add(this_case);
  CHECK_THROWS_MATCHES(std::move(builder).finish({}), Error, refused(illegal_value, "tensor d_regs"));
}

TEST_CASE(
    "results replace tensors of the same names and name their source, and provenance of the old ones is forgotten") {
  TensorFile file = golden_of(parse_instruction(f16_wgmma), 1);
  for (const char* key : {"driver", "cuda", "date"}) file.set_metadata(key, "old");
  file.set_metadata("x-unknown", "kept");
  const VectorFile vectors = as_vector_file(file);
  CHECK(wants_logical_d(vectors));
  Case this_case = case_at(vectors, 0);
  this_case.after->writable_words(Field::accumulator)[0] ^= 1;
  const TensorFile out = with_results(vectors, std::vector{this_case}, "someone else");
  CHECK(*out.find_metadata("source") == "someone else");
  CHECK(*out.find_metadata("x-unknown") == "kept");
  for (const char* key : {"driver", "cuda", "date"}) CHECK_FALSE(out.find_metadata(key));
  const VectorFile changed = as_vector_file(out);
  CHECK(changed.source() == "someone else");
  CHECK(case_at(changed, 0).before == this_case.before);
  CHECK(case_at(changed, 0).after == this_case.after);
}

TEST_CASE("what the format does not have is kept, and nobody who asks for cases sees it") {
  TensorFile file = golden_of(parse_instruction(f16_wgmma), 2);
  file.set(Tensor::from_bytes("x-mine", "U8", {2}, {1, 2}));
  file.set_metadata("x-extra", "kept");
  const VectorFile vectors = as_vector_file(file);
  CHECK(vectors.file.find("x-mine"));
  const VectorFile part = known_part(vectors);
  CHECK_FALSE(part.file.find("x-mine"));
  CHECK_FALSE(part.file.find_metadata("x-extra"));
  CHECK(part.source() == vectors.source());
  CHECK(part.cases == 2);
  for (int64_t index = 0; index < 2; ++index) CHECK(case_at(part, index).before == case_at(vectors, index).before);
}

TEST_CASE("a case that a file does not have is refused, however it is asked for") {
  const VectorFile vectors = as_vector_file(golden_of(f16_tcgen05(16), 2));
  for (const int64_t index : {int64_t{-1}, int64_t{2}, std::numeric_limits<int64_t>::max()}) {
    CHECK_THROWS_MATCHES(case_at(vectors, index), Error, refused(illegal_value, "case"));
    CHECK_THROWS_MATCHES(instruction_at(vectors, index), Error, refused(illegal_value, "case"));
  }
}

TEST_CASE("the source of a file cannot speak to a terminal") {
  CHECK(as_vector_file(with_key(golden_of(parse_instruction(f16_wgmma)), "source", "a \x1b[2J GPU")).source() ==
        "a \\x1b[2J GPU");
}
