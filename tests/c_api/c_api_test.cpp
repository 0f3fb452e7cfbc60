// The C API against the C++ one. tests/c_api/c99_test.c is a C program over it, ctypes_test.py a Python one.
#include <bitmma.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstring>
#include <map>

#include "bitmma/core/error.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/core/version.hpp"
#include "bitmma/formats/codes.hpp"
#include "bitmma/gemm/gemm.hpp"
#include "bitmma/instruction/batch.hpp"
#include "bitmma/instruction/evidence.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/math/cvt.hpp"
#include "bitmma/math/math_instruction.hpp"
#include "bitmma/operators/attention.hpp"
#include "bitmma/operators/c_function.hpp"
#include "bitmma/operators/quantize.hpp"
#include "bitmma/operators/rows.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/instructions.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;

namespace {

/// A handle that disappears with the test.
template <typename T, void (*destroy)(T*)>
struct Handle {
  T* value = nullptr;
  ~Handle() { destroy(value); }
  operator T*() const { return value; }
  T** operator&() { return &value; }
};
using InstructionHandle = Handle<bitmma_instruction, bitmma_instruction_destroy>;
using StateHandle = Handle<bitmma_state, bitmma_state_destroy>;
using PlanHandle = Handle<bitmma_plan, bitmma_plan_destroy>;

/// The violations of the last failure, as C shows them.
std::vector<Violation> last_violations() {
  std::vector<Violation> violations;
  for (size_t i = 0; i < bitmma_error_count(); ++i) {
    bitmma_violation violation{};
    REQUIRE(bitmma_error_at(i, &violation) == BITMMA_OK);
    const auto code = std::ranges::find(violation_codes, std::string_view(violation.code), &ViolationCodeInfo::name);
    REQUIRE(code != violation_codes.end());
    violations.push_back({.code = code->id,
                          .field = violation.field,
                          .seen = violation.seen,
                          .expected = violation.legal,
                          .fix = violation.fix,
                          .source = violation.source});
  }
  return violations;
}

/// The same instruction through the C API: its statement, which says where A comes from, then its immediates.
void make(const Instruction& instruction, InstructionHandle& handle) {
  REQUIRE(bitmma_instruction_parse(print(statement_of(instruction)).c_str(), &handle) == BITMMA_OK);
  for (const ImmediateInfo& row : immediates_of(instruction)) {
    const std::string name(row.name);
    INFO(name);
    REQUIRE(bitmma_instruction_set(handle, name.c_str(), immediate_of(instruction, row.name)) == BITMMA_OK);
  }
}

void set(const Buffer& buffer, bitmma_state* state) {
  const FieldInfo& row = info(buffer.field());
  const std::string name(row.name);
  if (row.is_number) {
    REQUIRE(bitmma_state_set_number(state, name.c_str(), buffer.number()) == BITMMA_OK);
    return;
  }
  const bool is_bytes = row.type == ElementType::u8;
  const void* elements = is_bytes ? static_cast<const void*>(buffer.bytes().data()) : buffer.words().data();
  const size_t size = is_bytes ? 1 : buffer.is_wide() ? 8 : 4;
  const auto put = buffer.field() == Field::smem ? bitmma_state_borrow_array : bitmma_state_set_array;
  REQUIRE(put(state, name.c_str(), elements, size, buffer.extents().size(), buffer.extents().begin()) == BITMMA_OK);
}

}  // namespace

TEST_CASE("the macros of bitmma.h are the version of the project") {
  const std::string macros = std::to_string(BITMMA_VERSION_MAJOR) + "." + std::to_string(BITMMA_VERSION_MINOR) + "." +
                             std::to_string(BITMMA_VERSION_PATCH);
  CHECK("bitmma " + macros == version());
  CHECK(bitmma_version() == macros);
}

TEST_CASE("bitmma.h has every format by its name, its bytes and its number") {
  for (const FormatInfo& row : formats) {
    const auto format = static_cast<bitmma_format>(row.id);
    CHECK(bitmma_format_name(format) == row.name);
    CHECK(bitmma_format_bytes(format) == static_cast<size_t>(code_bytes(row.id)));
    bitmma_format result = BITMMA_U32;
    CHECK(bitmma_format_named(std::string(row.name).c_str(), &result) == BITMMA_OK);
    CHECK(result == format);
    // More values than one piece has, in every format.
    std::vector<float> values(70000);
    for (size_t i = 0; i < values.size(); ++i) values[i] = i % 3 == 0 ? 1.0f : row.has_zero ? 0.0f : 0.5f;
    std::vector<uint8_t> codes(values.size() * bitmma_format_bytes(format));
    std::vector<float> back(values.size());
    REQUIRE(bitmma_from_floats(format, values.size(), values.data(), codes.data()) == BITMMA_OK);
    REQUIRE(bitmma_to_floats(format, values.size(), codes.data(), back.data()) == BITMMA_OK);
    CHECK(back == values);
    values.back() = 0.25f;
    if (row.kind == NumberKind::floating) continue;
    std::fill(codes.begin(), codes.end(), uint8_t{0xAB});
    CHECK(bitmma_from_floats(format, values.size(), values.data(), codes.data()) == BITMMA_ERROR_INVALID);
    CHECK(codes == std::vector<uint8_t>(codes.size(), 0xAB));
  }
}

TEST_CASE("an instruction of C runs as that of C++ on the state of every sample") {
  for (const Instruction& instruction : test::sample_instructions()) {
    INFO(print(instruction));
    InstructionHandle handle;
    make(instruction, handle);
    for (uint64_t seed = 0; seed < 3; ++seed) {
      const Case this_case = test::sample_case(instruction, seed);
      StateHandle state;
      REQUIRE(bitmma_state_create(&state) == BITMMA_OK);
      for (const Buffer& buffer : this_case.before.buffers()) set(buffer, state);
      const bitmma_status status = bitmma_execute(handle, nullptr, state);
      INFO(bitmma_last_error());
      REQUIRE(status == BITMMA_OK);
      State expected = this_case.before;
      execute(instruction, this_case.target, expected);
      for (const Buffer& buffer : expected.buffers()) {
        const FieldInfo& row = info(buffer.field());
        if (row.is_number) continue;
        bitmma_array array;
        REQUIRE(bitmma_state_get_array(state, std::string(row.after.empty() ? row.name : row.after).c_str(), &array) ==
                BITMMA_OK);
        const size_t bytes = row.type == ElementType::u8 ? buffer.bytes().size() : buffer.words().size_bytes();
        const void* words = row.type == ElementType::u8 ? static_cast<const void*>(buffer.bytes().data())
                                                        : static_cast<const void*>(buffer.words().data());
        CHECK(array.rank == buffer.extents().size());
        CHECK(std::equal(buffer.extents().begin(), buffer.extents().end(), array.extents));
        CHECK(std::memcmp(array.elements, words, bytes) == 0);
      }
    }
  }
}

TEST_CASE("an instruction of C has the shape, the formats, the fields and the evidence of that of C++") {
  for (const Instruction& instruction : test::sample_instructions()) {
    INFO(print(instruction));
    InstructionHandle handle;
    make(instruction, handle);
    const Target target = default_target(instruction);
    CHECK(bitmma_instruction_target(handle) == print(target));
    CHECK(bitmma_instruction_check(handle, nullptr) == BITMMA_OK);
    bitmma_instruction_info info_of{};
    REQUIRE(bitmma_instruction_get_info(handle, &info_of) == BITMMA_OK);
    CHECK(static_cast<int>(info_of.family) == static_cast<int>(family_of(instruction)));
    size_t fields = 0;
    REQUIRE(bitmma_instruction_field_count(handle, &fields) == BITMMA_OK);
    const FieldRules rules = fields_of(instruction);
    CHECK(fields == rules.size());
    for (size_t i = 0; i < fields; ++i) {
      const FieldRule& rule = rules.begin()[i];
      bitmma_field field;
      REQUIRE(bitmma_instruction_field_at(handle, i, &field) == BITMMA_OK);
      CHECK(field.name == info(rule.field).name);
      CHECK((field.is_required != 0) == rule.required);
      CHECK(std::equal(rule.extents.begin(), rule.extents.end(), field.extents, field.extents + field.rank));
    }
    if (!is_mma(instruction)) {
      CHECK(info_of.d_bytes == 0);
      bitmma_evidence evidence = BITMMA_MEASURED;
      CHECK(bitmma_instruction_evidence(handle, nullptr, &evidence, nullptr) == BITMMA_ERROR_INVALID);
      continue;
    }
    const Mma mma = mma_of(instruction);
    CHECK((info_of.m == mma.m && info_of.n == mma.n && info_of.k == mma.k && info_of.products == mma.products));
    CHECK((info_of.stored_k == mma.stored_k() && info_of.sparse == mma.sparse));
    CHECK((info_of.scale_count == mma.scale_count && info_of.metadata_chunks == metadata_chunks(mma)));
    CHECK(static_cast<int>(info_of.a) == static_cast<int>(mma.a));
    CHECK(static_cast<int>(info_of.b) == static_cast<int>(mma.b));
    CHECK(static_cast<int>(info_of.c) == static_cast<int>(mma.c));
    CHECK(static_cast<int>(info_of.d) == static_cast<int>(mma.d));
    bitmma_evidence evidence = BITMMA_MEASURED;
    size_t choices = 0;
    REQUIRE(bitmma_instruction_evidence(handle, nullptr, &evidence, &choices) == BITMMA_OK);
    CHECK(static_cast<int>(evidence) == static_cast<int>(evidence_of(instruction, target)));
    CHECK(choices == choices_of(instruction, target).size());
    char rule[200] = "";
    REQUIRE(bitmma_rule_print(handle, nullptr, rule, sizeof rule, nullptr) == BITMMA_OK);
    CHECK(rule == print_rule(model_for(instruction, target)));
  }
}

TEST_CASE("bitmma_mma keeps what it found legal, and notices another target, C and another number") {
  InstructionHandle mma;
  REQUIRE(bitmma_instruction_parse("tcgen05.mma.cta_group::1.kind::f16", &mma) == BITMMA_OK);
  const auto fields = [](int m, int n) {
    return bitmma_tcgen05{
        .m = m, .n = n, .k = 0, .d = BITMMA_F32, .a = BITMMA_F16, .b = BITMMA_F16, .scale = BITMMA_F16};
  };
  const bitmma_tcgen05 wide = fields(128, 16), narrow = fields(64, 8), illegal = fields(128, 20);
  const std::vector<uint16_t> codes(128 * 16, 0x3C00);
  std::vector<float> c(128 * 16, 1), d(128 * 16);
  bitmma_operands operands{};
  operands.a.data = operands.b.data = codes.data();
  const auto run = [&](const char* target) { return bitmma_mma(mma, target, 1, &operands, d.data(), 1); };

  REQUIRE(bitmma_instruction_set_tcgen05(mma, &wide) == BITMMA_OK);
  REQUIRE(run(nullptr) == BITMMA_OK);
  CHECK(d == std::vector<float>(128 * 16, 16));
  operands.c.data = c.data();
  REQUIRE(run("sm_103a") == BITMMA_OK);
  CHECK(d == std::vector<float>(128 * 16, 17));
  CHECK(run("sm_90a") == BITMMA_ERROR_INVALID);
  REQUIRE(run("sm_100a") == BITMMA_OK);
  REQUIRE(bitmma_instruction_set(mma, "scale_input_d", 1) == BITMMA_OK);
  REQUIRE(run("sm_100a") == BITMMA_OK);
  CHECK(d == std::vector<float>(128 * 16, 16.5f));
  REQUIRE(bitmma_instruction_set(mma, "enable_input_d", 0) == BITMMA_OK);
  REQUIRE(bitmma_instruction_set(mma, "scale_input_d", 0) == BITMMA_OK);
  REQUIRE(run("sm_100a") == BITMMA_OK);
  CHECK(d == std::vector<float>(128 * 16, 16));
  REQUIRE(bitmma_instruction_set_tcgen05(mma, &narrow) == BITMMA_OK);
  std::fill(d.begin(), d.end(), -1.0f);
  REQUIRE(run("sm_100a") == BITMMA_OK);
  CHECK(std::count(d.begin(), d.end(), 16.0f) == 64 * 8);
  CHECK(std::count(d.begin(), d.end(), -1.0f) == 128 * 16 - 64 * 8);
  REQUIRE(bitmma_instruction_set_tcgen05(mma, &illegal) == BITMMA_OK);  // whether it is legal is asked later
  CHECK(run("sm_100a") == BITMMA_ERROR_INVALID);
  CHECK_THAT(last_violations(), test::refused(illegal_value, "n"));
}

TEST_CASE("instructions are made of named fields, and take other values of them") {
  InstructionHandle made;
  const bitmma_named_value fields[]{
      {"kind", "mxf8f6f4", 0}, {"a", "e2m1", 0}, {"n", nullptr, 16}, {"sparse", nullptr, 1}};
  REQUIRE(bitmma_instruction_make(BITMMA_TCGEN05_MMA, fields, 4, &made) == BITMMA_OK);
  bitmma_instruction_info info{};
  REQUIRE(bitmma_instruction_get_info(made, &info) == BITMMA_OK);
  CHECK((info.m == 128 && info.n == 16 && info.k == 64 && info.sparse && info.a == BITMMA_E2M1));
  const bitmma_named_value dense{"sparse", nullptr, 0};
  REQUIRE(bitmma_instruction_set_fields(made, &dense, 1) == BITMMA_OK);
  REQUIRE(bitmma_instruction_get_info(made, &info) == BITMMA_OK);
  CHECK((info.k == 32 && !info.sparse && info.n == 16));
  const bitmma_named_value of_warps{"kind", "mxf4nvf4", 0};
  InstructionHandle warps, move;
  REQUIRE(bitmma_instruction_make(BITMMA_MMA_SYNC, &of_warps, 1, &warps) == BITMMA_OK);
  REQUIRE(bitmma_instruction_make(BITMMA_TMEM_MOVE, nullptr, 0, &move) == BITMMA_OK);
  // Nothing is written where something is wrong.
  bitmma_instruction* nothing = nullptr;
  const bitmma_named_value wrong[]{{"n", nullptr, 12}, {"sparse", nullptr, 2}, {nullptr, nullptr, 0}};
  CHECK(bitmma_instruction_make(BITMMA_WGMMA, wrong, 1, &nothing) == BITMMA_ERROR_INVALID);
  CHECK_THAT(last_violations(), test::refused(illegal_value, "n"));
  CHECK(bitmma_instruction_make(BITMMA_WGMMA, wrong + 1, 1, &nothing) == BITMMA_ERROR_INVALID);
  CHECK(bitmma_instruction_make(BITMMA_WGMMA, wrong + 2, 1, &nothing) == BITMMA_ERROR_INVALID);
  CHECK(bitmma_instruction_make(BITMMA_WGMMA, nullptr, 1, &nothing) == BITMMA_ERROR_INVALID);
  CHECK(bitmma_instruction_make(9, nullptr, 0, &nothing) == BITMMA_ERROR_INVALID);
  CHECK(bitmma_instruction_set_fields(made, wrong + 1, 1) == BITMMA_ERROR_INVALID);
  CHECK(nothing == nullptr);
}

#ifndef BITMMA_SANITIZED  // AddressSanitizer ends the process where memory cannot be had
TEST_CASE("what no memory can hold is an error of its own, and the next call works") {
  PlanHandle plan;
  REQUIRE(bitmma_plan_flat("sm_90a", BITMMA_F16, BITMMA_F16, BITMMA_F32, &plan) == BITMMA_OK);
  const uint16_t code = 0x3C00;
  bitmma_gemm_inputs inputs{};
  inputs.a = {.data = &code, .format = BITMMA_F16, .rows = 1 << 25, .cols = 1 << 25, .row_stride = 0, .col_stride = 0};
  inputs.b = inputs.a;
  float d = -1;
  CHECK(bitmma_gemm(plan, &inputs, &d, 1) == BITMMA_ERROR_MEMORY);
  CHECK(std::string(bitmma_last_error()) == "out of memory");
  CHECK(bitmma_error_count() == 0);
  CHECK(d == -1);
  inputs.a.rows = inputs.a.cols = inputs.b.rows = inputs.b.cols = 1;
  CHECK(bitmma_gemm(plan, &inputs, &d, 1) == BITMMA_OK);
  CHECK(d == 1);
}
#endif

TEST_CASE("C computes floating-point instructions on arrays, in place too") {
  uint32_t words[] = {0x3E99999A, 0xBE99999A, 0x40490FDB};
  REQUIRE(bitmma_math("ex2.approx.ftz.f32", 3, words, nullptr, nullptr, words) == BITMMA_OK);
  CHECK(words[0] == 0x3F9D9624);
  CHECK(words[1] == 0x3F4FEFC6);
  CHECK(words[2] == 0x410D331D);
  uint32_t result = 7;
  const uint32_t one = 0x3F800000, two = 0x40000000;
  CHECK(bitmma_math("fma.rn.f32", 1, &two, &two, &one, &result) == BITMMA_OK);
  CHECK(result == 0x40A00000);
  CHECK(bitmma_math("fma.rn.f32", 0, nullptr, nullptr, nullptr, nullptr) == BITMMA_OK);
  const struct {
    const char* name;
    const uint32_t *a, *b, *c;
  } wrong[]{{"ex2", &one, nullptr, nullptr},
            {"ex2.approx.f32", nullptr, nullptr, nullptr},
            {"ex2.approx.f32", &one, &one, nullptr},
            {"fma.rn.f32", &one, &one, nullptr}};
  for (const auto& [name, a, b, c] : wrong) {
    INFO(name);
    CHECK(bitmma_math(name, 1, a, b, c, &result) == BITMMA_ERROR_INVALID);
    CHECK(result == 0x40A00000);
  }
  CHECK(bitmma_math("ex2.approx.f32", 1, &one, nullptr, nullptr, nullptr) == BITMMA_ERROR_INVALID);
  CHECK(bitmma_math(nullptr, 1, &one, nullptr, nullptr, &result) == BITMMA_ERROR_INVALID);
}

TEST_CASE("C quantises a matrix as C++ does, by every recipe") {
  RandomStream random(71, 0);
  std::vector<float> values(128 * 256);
  for (float& value : values) value = static_cast<float>(static_cast<int>(random.below(4001)) - 2000) / 64;
  const Matrix x = from_floats(Format::f32, 128, 256, values);
  const bitmma_matrix c_x{.data = values.data(), .format = BITMMA_F32, .rows = 128, .cols = 256};
  size_t recipes = 0;
  for (; const char* const name = bitmma_recipe_name(recipes); ++recipes) {
    INFO(name);
    const QuantizeRecipe& recipe = recipe_named(name);
    bitmma_quantized_info info{};
    REQUIRE(bitmma_quantize_get_info(name, 128, 256, &info) == BITMMA_OK);
    std::vector<uint8_t> codes(128 * 256 * bitmma_format_bytes(info.element), 0xA5), expected_codes(codes.size()),
        scales(static_cast<size_t>(info.scale_rows * info.scale_cols) * bitmma_format_bytes(info.scale), 0xA5),
        expected_scales(scales.size());
    float tensor_scale = -1;
    const char* const device = info.depends_on_torch_device ? "cpu" : nullptr;
    float* const second = info.has_tensor_scale ? &tensor_scale : nullptr;
    const bool takes_f32 = recipe.inputs.contains(Format::f32);
    CHECK(bitmma_quantize(name, &c_x, device, 2, codes.data(), scales.data(), second) ==
          (takes_f32 ? BITMMA_OK : BITMMA_ERROR_INVALID));
    if (!takes_f32) continue;
    const Quantized expected = quantize(recipe, x, device ? TorchDevice::cpu : TorchDevice::cuda);
    write_codes(expected.codes, expected_codes.data());
    write_codes(expected.scales, expected_scales.data());
    CHECK(codes == expected_codes);
    CHECK(scales == expected_scales);
    CHECK(info.block_cols == expected.block_cols);
    REQUIRE(expected.tensor_scale.has_value() == (second != nullptr));
    if (second) CHECK(std::bit_cast<uint32_t>(tensor_scale) == (*expected.tensor_scale)(0, 0));
  }
  CHECK(recipes == quantize_recipes().size());
}

TEST_CASE("C refuses to quantise what no recipe takes, and writes nothing") {
  const float finite[32] = {1}, infinite[32] = {INFINITY};
  uint8_t codes[32] = {7}, scales[2] = {7};
  float second = 7;
  const bitmma_matrix row{.data = finite, .format = BITMMA_F32, .rows = 1, .cols = 32};
  bitmma_matrix short_row = row, other_type = row, not_finite = row, nothing = row, negative = row;
  short_row.cols = 31, other_type.format = BITMMA_E4M3, not_finite.data = infinite, nothing.data = nullptr,
  negative.rows = -1;
  const struct {
    const char* recipe;
    const bitmma_matrix* x;
    const char* device;
    void *codes, *scales;
    float* tensor_scale;
    test::Refusal refusal;
  } wrong[]{{"none", &row, nullptr, codes, scales, nullptr, {unknown_name, "recipe"}},
            {"torchao_mxfp8_e4m3", &short_row, nullptr, codes, scales, nullptr, {illegal_value, "columns of x"}},
            {"torchao_mxfp8_e4m3", &other_type, nullptr, codes, scales, nullptr, {wrong_type, "type of x"}},
            {"torchao_mxfp8_e4m3", &not_finite, nullptr, codes, scales, nullptr, {illegal_value, "x(0, 0)"}},
            {"torchao_mxfp8_e4m3", &nothing, nullptr, codes, scales, nullptr, {missing_input, "x.data"}},
            {"torchao_mxfp8_e4m3", &negative, nullptr, codes, scales, nullptr, {illegal_value, "x.rows"}},
            {"torchao_mxfp8_e4m3", nullptr, nullptr, codes, scales, nullptr, {missing_input, "x"}},
            {"torchao_mxfp8_e4m3", &row, "cpu", codes, scales, nullptr, {no_effect, "torch_device"}},
            {"torchao_mxfp8_e4m3", &row, nullptr, nullptr, scales, nullptr, {missing_input, "codes"}},
            {"torchao_mxfp8_e4m3", &row, nullptr, codes, nullptr, nullptr, {missing_input, "scales"}},
            {"torchao_mxfp8_e4m3", &row, nullptr, codes, scales, &second, {no_effect, "tensor_scale"}},
            {"te_nvfp4", &row, nullptr, codes, scales, nullptr, {missing_input, "tensor_scale"}},
            {nullptr, &row, nullptr, codes, scales, nullptr, {missing_input, "recipe"}}};
  for (const auto& one_wrong : wrong) {
    INFO(one_wrong.refusal.field);
    CHECK(bitmma_quantize(one_wrong.recipe, one_wrong.x, one_wrong.device, 1, one_wrong.codes, one_wrong.scales,
                          one_wrong.tensor_scale) == BITMMA_ERROR_INVALID);
    CHECK_THAT(last_violations(), test::refused(one_wrong.refusal));
    CHECK((codes[0] == 7 && scales[0] == 7 && second == 7));
  }
  bitmma_quantized_info info{};
  CHECK(bitmma_quantize_get_info("te_nvfp4", 1, 17, &info) == BITMMA_ERROR_INVALID);
  CHECK(bitmma_quantize_get_info("te_nvfp4", 1, int64_t{1} << 40, &info) == BITMMA_ERROR_INVALID);
  CHECK(bitmma_quantize_get_info("te_nvfp4", 1, 16, nullptr) == BITMMA_ERROR_INVALID);
}

TEST_CASE("C computes operators as C++ does") {
  RandomStream random(72, 0);
  const auto random_matrix = [&](int rows, int cols) {
    std::vector<float> values(static_cast<size_t>(rows * cols));
    for (float& value : values) value = static_cast<float>(static_cast<int>(random.below(4001)) - 2000) / 1024;
    return from_floats(Format::f16, rows, cols, values);
  };
  std::vector<std::vector<uint16_t>> memory;
  const auto c_matrix_of = [&](const Matrix& matrix) {
    std::vector<uint16_t>& codes = memory.emplace_back(matrix.size());
    write_codes(matrix, codes.data());
    return bitmma_matrix{.data = codes.data(), .format = BITMMA_F16, .rows = matrix.rows(), .cols = matrix.cols()};
  };
  const Matrix x = random_matrix(5, 70), y = random_matrix(5, 70), weight = random_matrix(1, 70),
               bias = random_matrix(1, 70);
  const bitmma_matrix c_x = c_matrix_of(x), c_y = c_matrix_of(y), c_weight = c_matrix_of(weight),
                      c_bias = c_matrix_of(bias);
  std::vector<uint8_t> codes, expected;
  // Room for a result, and the bytes of what C++ gives.
  const auto room_for = [&](const Matrix& matrix) {
    expected.resize(matrix.size() * static_cast<size_t>(code_bytes(matrix.format())));
    write_codes(matrix, expected.data());
    codes.assign(expected.size(), 0xA5);
    return codes.data();
  };
  for (const bool logarithm : {false, true}) {
    for (const Format to : {Format::f16, Format::f32}) {
      void* const out = room_for(softmax(x, {.to = to, .logarithm = logarithm}));
      REQUIRE(bitmma_softmax(&c_x, to == Format::f16 ? BITMMA_F16 : BITMMA_F32, logarithm, 2, out) == BITMMA_OK);
      CHECK(codes == expected);
    }
  }
  const Norm layer = layer_norm(x, &weight, &bias, 0.5F), rms = rms_norm(x, nullptr, 0.5F);
  std::array<float, 5> mean{}, rstd{};
  void* out = room_for(layer.out);
  REQUIRE(bitmma_layer_norm(&c_x, &c_weight, &c_bias, 0.5F, 0, out, mean.data(), rstd.data()) == BITMMA_OK);
  CHECK(codes == expected);
  for (int row = 0; row < 5; ++row) {
    CHECK(std::bit_cast<uint32_t>(mean[static_cast<size_t>(row)]) == (*layer.mean)(row, 0));
    CHECK(std::bit_cast<uint32_t>(rstd[static_cast<size_t>(row)]) == layer.rstd(row, 0));
  }
  out = room_for(rms.out);
  REQUIRE(bitmma_rms_norm(&c_x, nullptr, 0.5F, 1, out, nullptr) == BITMMA_OK);
  CHECK(codes == expected);
  for (const RowReduction what : {RowReduction::sum, RowReduction::mean, RowReduction::amax, RowReduction::argmax}) {
    for (const bool over_rows : {false, true}) {
      const Matrix result = reduce(x, {.what = what, .over_rows = over_rows});
      out = room_for(result);
      const bitmma_format to = what == RowReduction::argmax ? BITMMA_S32 : BITMMA_F16;
      REQUIRE(bitmma_reduce(print(what).data(), &c_x, to, over_rows, 1, out) == BITMMA_OK);
      CHECK(codes == expected);
    }
  }
  size_t functions = 0;
  for (; const char* const name = bitmma_elementwise_name(functions); ++functions) {
    const bool of_two = elementwise_functions()[functions].operands == 2;
    out = room_for(elementwise(name, x, of_two ? &y : nullptr));
    REQUIRE(bitmma_elementwise(name, &c_x, of_two ? &c_y : nullptr, 1, out) == BITMMA_OK);
    CHECK(codes == expected);
  }
  CHECK(functions == elementwise_functions().size());

  const Matrix q = random_matrix(4 * 9, 16), k = random_matrix(2 * 21, 16), v = random_matrix(2 * 21, 16);
  const bitmma_matrix c_q = c_matrix_of(q), c_k = c_matrix_of(k), c_v = c_matrix_of(v);
  const AttentionShape shape{.heads = 4, .kv_heads = 2, .queries = 9, .keys = 21, .head_size = 16};
  const struct {
    AttentionOptions options;
    bitmma_attention_call call;
  } calls[]{
      {{}, {.heads = 4, .kv_heads = 2}},
      {{.causal = true, .scale = 0.5F, .window_left = 3},
       {.heads = 4, .kv_heads = 2, .causal = 1, .has_window = 1, .window_left = 3, .window_right = -1, .scale = 0.5F}},
      {{.window_left = 0, .window_right = 0, .splits = 1}, {.heads = 4, .kv_heads = 2, .has_window = 1, .splits = 1}},
      {{.kernel = AttentionKernel::memory_efficient, .causal = true},
       {.heads = 4, .kv_heads = 2, .backend = "efficient", .causal = 1}}};
  for (const auto& [options, call] : calls) {
    const Attention result = attention(attention_plan(shape, options), shape, q, k, v);
    std::array<float, 36> lse{};
    out = room_for(result.out);
    REQUIRE(bitmma_attention(&c_q, &c_k, &c_v, &call, 2, out, lse.data()) == BITMMA_OK);
    CHECK(codes == expected);
    for (int i = 0; i < 36; ++i)
      CHECK(std::bit_cast<uint32_t>(lse[static_cast<size_t>(i)]) == result.lse(i / 9, i % 9));
    CHECK(bitmma_attention(&c_q, &c_k, &c_v, &call, 2, out, nullptr) == BITMMA_OK);
  }
}

TEST_CASE("C refuses operators of what they do not take, and writes nothing") {
  uint16_t codes[64] = {}, out[64] = {7};
  const bitmma_matrix x{.data = codes, .format = BITMMA_F16, .rows = 4, .cols = 8};
  bitmma_matrix nothing = x, other = x, narrow = x;
  nothing.data = nullptr, other.format = BITMMA_E4M3, narrow.cols = 4;
  const auto refuse = [&](bitmma_status status, const test::Refusal& refusal) {
    INFO(refusal.field);
    CHECK(status == BITMMA_ERROR_INVALID);
    CHECK_THAT(last_violations(), test::refused(refusal));
    CHECK(out[0] == 7);
  };
  const bitmma_attention_call three{.heads = 3}, window{.window_left = 2}, negative{.splits = -1},
      both{.backend = "efficient", .splits = 2}, below{.scale = -1};
  refuse(bitmma_attention(nullptr, &x, &x, nullptr, 1, out, nullptr), {missing_input, "q"});
  refuse(bitmma_attention(&x, &nothing, &x, nullptr, 1, out, nullptr), {missing_input, "k.data"});
  refuse(bitmma_attention(&x, &x, &narrow, nullptr, 1, out, nullptr), {wrong_shape, "shape of V"});
  refuse(bitmma_attention(&x, &x, &x, nullptr, 1, nullptr, nullptr), {missing_input, "out"});
  refuse(bitmma_attention(&x, &x, &x, &three, 1, out, nullptr), {wrong_shape, "heads"});
  refuse(bitmma_attention(&x, &x, &x, &window, 1, out, nullptr), {no_effect, "window_left, window_right"});
  refuse(bitmma_attention(&x, &x, &x, &negative, 1, out, nullptr), {illegal_value, "splits"});
  refuse(bitmma_attention(&x, &x, &x, &both, 1, out, nullptr), {illegal_value, "window or splits"});
  refuse(bitmma_attention(&x, &x, &x, &below, 1, out, nullptr), {illegal_value, "scale"});
  refuse(bitmma_softmax(&other, BITMMA_F16, 0, 1, out), {wrong_type, "type of x"});
  refuse(bitmma_softmax(&x, BITMMA_BF16, 0, 1, out), {wrong_type, "type of the result"});
  refuse(bitmma_softmax(&x, 99, 0, 1, out), {illegal_value, "to"});
  refuse(bitmma_softmax(&x, BITMMA_F16, 0, -1, out), {illegal_value, "threads"});
  refuse(bitmma_layer_norm(&x, nullptr, &x, 0, 1, out, nullptr, nullptr), {wrong_shape, "bias"});
  refuse(bitmma_layer_norm(&x, nullptr, nullptr, 0, 1, nullptr, nullptr, nullptr), {missing_input, "out"});
  refuse(bitmma_rms_norm(&x, &x, 0, 1, out, nullptr), {wrong_shape, "weight"});
  refuse(bitmma_reduce("median", &x, BITMMA_F16, 0, 1, out), {illegal_value, "reduction"});
  refuse(bitmma_reduce("argmax", &x, BITMMA_F16, 0, 1, out), {wrong_type, "to"});
  refuse(bitmma_reduce("amax", &x, BITMMA_F32, 0, 1, out), {wrong_type, "type of the result"});
  refuse(bitmma_reduce(nullptr, &x, BITMMA_F16, 0, 1, out), {missing_input, "reduction"});
  refuse(bitmma_elementwise("slu", &x, nullptr, 1, out), {illegal_value, "function"});
  refuse(bitmma_elementwise("add", &x, nullptr, 1, out), {illegal_value, "y"});
  refuse(bitmma_elementwise("exp", &x, &x, 1, out), {illegal_value, "y"});
}

TEST_CASE("C computes what C++ does for every conversion, function of C and instruction of f64") {
  std::vector<uint64_t> a, b, results(64), expected(64);
  for (uint64_t i = 0; i < results.size(); ++i) {
    a.push_back(i * 0x9E3779B97F4A7C15);
    b.push_back(i * 0xD1B54A32D192ED03);
  }
  for (const CvtInstruction& instruction : cvt_instructions()) {
    INFO(print(instruction));
    std::vector<const uint64_t*> pointers;
    std::vector<std::span<const uint64_t>> spans;
    for (size_t i = 0; i < operands_of(instruction).size(); ++i) {
      spans.emplace_back(i % 2 == 0 ? a : b);
      pointers.push_back(spans.back().data());
    }
    compute(instruction, std::span(std::as_const(spans)), expected);
    const std::string name = print(instruction);
    REQUIRE(bitmma_cvt(name.c_str(), results.size(), pointers.size(), pointers.data(), results.data()) == BITMMA_OK);
    REQUIRE(results == expected);
  }
  std::vector<uint32_t> x(64), y(64), seen(64), wanted(64);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<uint32_t>(a[i] >> 32);
    y[i] = static_cast<uint32_t>(b[i] >> 32);
  }
  for (const CFunction& function : c_functions()) {
    INFO(print(function));
    const bool has_two = function.operands == 2;
    compute(function, x, has_two ? std::span<const uint32_t>(y) : std::span<const uint32_t>(), wanted);
    REQUIRE(bitmma_c_function(print(function).c_str(), 64, x.data(), has_two ? y.data() : nullptr, seen.data()) ==
            BITMMA_OK);
    REQUIRE(seen == wanted);
  }
  for (const MathInstruction& instruction : math_instructions()) {
    INFO(print(instruction));
    const int operands = operand_count(instruction.operation);
    REQUIRE(bitmma_math_64(print(instruction).c_str(), 64, a.data(), operands > 1 ? b.data() : nullptr,
                           operands > 2 ? a.data() : nullptr, results.data()) == BITMMA_OK);
    for (size_t i = 0; i < results.size(); ++i) REQUIRE(results[i] == compute(instruction, a[i], b[i], a[i]));
  }
}

TEST_CASE("C's conversions and functions compute in place, and refuse without writing") {
  uint64_t words[] = {0x43E40000, 0x3F800000};
  const uint64_t upper[] = {0x3F800000, 0xBF800000};
  const uint64_t* const operands[] = {words, upper};
  REQUIRE(bitmma_cvt("cvt.rn.satfinite.e4m3x2.f32", 2, 2, operands, words) == BITMMA_OK);
  CHECK(words[0] == 0x7E38);
  CHECK(words[1] == 0x38B8);
  uint64_t third = 0x4008000000000000;  // 3
  REQUIRE(bitmma_math_64("rcp.approx.ftz.f64", 1, &third, nullptr, nullptr, &third) == BITMMA_OK);
  CHECK(third == compute(parse_math_instruction("rcp.approx.ftz.f64"), 0x4008000000000000));
  uint32_t ten = 0x41200000;
  REQUIRE(bitmma_c_function("expf", 1, &ten, nullptr, &ten) == BITMMA_OK);
  CHECK(ten == 0x46AC14EF);
  CHECK(bitmma_cvt("cvt.rn.f16.f32", 0, 1, operands, nullptr) == BITMMA_OK);
  CHECK(bitmma_c_function("expf", 0, nullptr, nullptr, nullptr) == BITMMA_OK);

  const uint64_t* const missing[] = {upper, nullptr};
  uint64_t result = 7;
  for (const auto& [name, count, pointers] :
       {std::tuple("cvt.f16.f32", size_t{1}, operands),
        {nullptr, size_t{1}, operands},
        {"cvt.rn.f16.f32", size_t{2}, operands},
        {"cvt.rn.f16x2.f32", size_t{1}, operands},
        {"cvt.rn.f16x2.f32", size_t{2}, missing},
        {"cvt.rn.f16x2.f32", size_t{2}, static_cast<const uint64_t* const*>(nullptr)}}) {
    CHECK(bitmma_cvt(name, 1, count, pointers, &result) == BITMMA_ERROR_INVALID);
    CHECK(result == 7);
  }
  CHECK(bitmma_cvt("cvt.rn.f16.f32", 1, 1, operands, nullptr) == BITMMA_ERROR_INVALID);
  const uint32_t x = 0x3F800000;
  uint32_t word = 7;
  for (const auto& [name, a, b] : {std::tuple("expg", &x, static_cast<const uint32_t*>(nullptr)),
                                   {nullptr, &x, nullptr},
                                   {"expf", nullptr, nullptr},
                                   {"expf", &x, &x},
                                   {"powf", &x, nullptr}}) {
    CHECK(bitmma_c_function(name, 1, a, b, &word) == BITMMA_ERROR_INVALID);
    CHECK(word == 7);
  }
  CHECK(bitmma_math("rcp.approx.ftz.f64", 1, &x, nullptr, nullptr, &word) == BITMMA_ERROR_INVALID);
  CHECK(bitmma_math_64("rcp.approx.ftz.f64", 1, upper, upper, nullptr, &result) == BITMMA_ERROR_INVALID);
}

TEST_CASE("bias, C and the numbers of rows reach a whole product") {
  const Matrix a = from_floats(Format::f16, 2, 3, std::vector<float>{1, 2, 3, 4, 5, 6}),
               b = from_floats(Format::f16, 3, 2, std::vector<float>{1, 2, 3, 4, 5, 6}),
               c = from_floats(Format::f32, 2, 2, std::vector<float>{1, 2, 3, 4}),
               bias = from_floats(Format::f32, 1, 2, std::vector<float>{10, 20});
  const std::string json = R"({"instruction": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "target": "sm_80",
    "epilogue": [{"op": "alpha_beta", "alpha": 2, "beta": 3}, {"op": "bias"}], "output": {"type": "f32"}})";
  PlanHandle plan;
  const bitmma_status status = bitmma_plan_parse(json.c_str(), &plan);
  INFO(bitmma_last_error());
  REQUIRE(status == BITMMA_OK);
  const Matrix expected = gemm(parse_plan(json), {.a = a, .b = b, .c = c, .bias = bias});
  const std::vector<uint16_t> a_codes(a.words().begin(), a.words().end()), b_codes(b.words().begin(), b.words().end());
  bitmma_gemm_inputs inputs{};
  inputs.a = {a_codes.data(), BITMMA_F16, 2, 3, 0, 0}, inputs.b = {b_codes.data(), BITMMA_F16, 3, 2, 0, 0};
  inputs.c = {c.words().data(), BITMMA_F32, 2, 2, 0, 0}, inputs.bias = {bias.words().data(), BITMMA_F32, 1, 2, 0, 0};
  const int64_t rows[] = {5, 9};
  inputs.row_numbers = rows, inputs.whole_m = 10;
  uint32_t d[4] = {};
  CHECK(bitmma_gemm(plan, &inputs, d, 1) == BITMMA_OK);
  INFO(bitmma_last_error());
  CHECK(std::equal(expected.words().begin(), expected.words().end(), d, d + 4));
  const bitmma_call call{.target = "sm_1", .split_count = 0, .alpha = 1, .beta = 1, .relu = 0};
  bitmma_plans* plans = nullptr;
  CHECK(bitmma_plans_named("flat", &inputs, BITMMA_F32, &call, &plans) == BITMMA_ERROR_INVALID);
  CHECK(plans == nullptr);
}

namespace {

using KernelHandle = Handle<bitmma_kernel, bitmma_kernel_destroy>;

std::string module_of_data(const char* name) { return test::read_text(test::source_path("data/kernels/") + name); }

}  // namespace

TEST_CASE("kernels run from C as from C++, with numbers, memory and tensor maps") {
  const std::string cuda = module_of_data("cuda.ptx"), bulk = module_of_data("bulk.ptx");
  const bitmma_kernel_options scan_options{.entry = "scan", .target = "H100", .sass = nullptr, .no_fmad = 0};
  KernelHandle scan;
  REQUIRE(bitmma_kernel_create(cuda.c_str(), &scan_options, &scan) == BITMMA_OK);
  CHECK(bitmma_kernel_parameter_count(scan) == 2);
  CHECK(bitmma_kernel_parameter_bytes(scan, 1) == 8);
  CHECK(bitmma_kernel_parameter_bytes(scan, 2) == 0);
  std::vector<int32_t> x(64, 3), sums(64);
  bitmma_kernel_argument arguments[4]{};
  arguments[0].memory = x.data(), arguments[0].memory_bytes = 256;
  arguments[1].memory = sums.data(), arguments[1].memory_bytes = 256, arguments[1].is_unwritten = 1;
  bitmma_launch launch{};
  launch.block[0] = 64, launch.dynamic_shared_bytes = 256, launch.arguments = arguments, launch.argument_count = 2;
  uint64_t instructions = 0;
  REQUIRE(bitmma_kernel_launch(scan, &launch, &instructions) == BITMMA_OK);
  CHECK(instructions == 6659);
  CHECK(sums[63] == 192);

  const bitmma_kernel_options ring_options{.entry = "ring", .target = nullptr, .sass = nullptr, .no_fmad = 0};
  KernelHandle ring;
  const std::string cooperative = module_of_data("cooperative.ptx");
  REQUIRE(bitmma_kernel_create(cooperative.c_str(), &ring_options, &ring) == BITMMA_OK);
  std::vector<uint32_t> words(4);
  bitmma_kernel_argument p{};
  p.memory = words.data(), p.memory_bytes = 16;
  bitmma_launch of_ring{};
  of_ring.grid[0] = 2, of_ring.arguments = &p, of_ring.argument_count = 1;
  CHECK(bitmma_kernel_launch(ring, &of_ring, nullptr) == BITMMA_ERROR_INVALID);
  of_ring.cooperative = 1;
  REQUIRE(bitmma_kernel_launch(ring, &of_ring, nullptr) == BITMMA_OK);
  CHECK(words == std::vector<uint32_t>{100, 101, 101, 1100});

  const bitmma_kernel_options product_options{.entry = "tma_product", .target = nullptr, .sass = nullptr, .no_fmad = 0};
  KernelHandle product;
  REQUIRE(bitmma_kernel_create(bulk.c_str(), &product_options, &product) == BITMMA_OK);
  std::vector<uint16_t> a(64 * 64, 0x3F80), b(64 * 64, 0x4000);
  std::vector<float> d(64 * 64);
  bitmma_tensor_map operand{.rank = 2,
                            .element_bytes = 2,
                            .sizes = {64, 64},
                            .strides_bytes = {128},
                            .box = {64, 64},
                            .element_strides = {},
                            .swizzle_bytes = 128,
                            .fills_with_nan = 0};
  bitmma_tensor_map result = operand;
  result.element_bytes = 4, result.strides_bytes[0] = 256, result.swizzle_bytes = 0;
  const int32_t k = 64;
  arguments[0] = {nullptr, a.data(), 8192, 0, 0, &operand}, arguments[1] = {nullptr, b.data(), 8192, 0, 0, &operand};
  arguments[2] = {nullptr, d.data(), 16384, 0, 0, &result}, arguments[3] = {&k, nullptr, 0, 0, 0, nullptr};
  bitmma_launch of_product{};
  of_product.block[0] = 128, of_product.arguments = arguments, of_product.argument_count = 4;
  const bitmma_status status = bitmma_kernel_launch(product, &of_product, nullptr);
  INFO(bitmma_last_error());
  REQUIRE(status == BITMMA_OK);
  CHECK(std::ranges::all_of(d, [](float element) { return element == 128.0f; }));
}

TEST_CASE("modules, memory and launches by bytes from C as from C++") {
  constexpr const char* ptx = R"(
.version 8.0
.target sm_90a
.address_size 64
.visible .global .align 4 .u32 count = 7;
.visible .entry add(.param .u64 p, .param .u32 n) {
  .reg .b32 %r<4>;
  .reg .b64 %rd<3>;
  .shared .b32 s[1];
  ld.param.u64 %rd1, [p];
  ld.param.u32 %r1, [n];
  ld.global.u32 %r2, [count];
  add.u32 %r3, %r1, %r2;
  st.global.u32 [count], %r3;
  st.global.u32 [%rd1], %r3;
  mov.u32 %r1, %tid.x;
  st.shared.u32 [s], %r1;
  ret;
})";
  Handle<bitmma_module, bitmma_module_destroy> module;
  Handle<bitmma_memory, bitmma_memory_destroy> memory;
  KernelHandle add;
  REQUIRE(bitmma_module_create(ptx, &module) == BITMMA_OK);
  CHECK(bitmma_module_entry(module, 0) == std::string("add"));
  CHECK(bitmma_module_entry(module, 1) == nullptr);
  REQUIRE(bitmma_kernel_of_module(module, nullptr, &add) == BITMMA_OK);
  CHECK(bitmma_kernel_parameter_offset(add, 1) == 8);
  CHECK(bitmma_kernel_all_parameter_bytes(add) == 12);
  REQUIRE(bitmma_memory_create(&memory) == BITMMA_OK);
  uint64_t x = 0;
  REQUIRE(bitmma_memory_allocate(memory, 4, &x) == BITMMA_OK);
  CHECK(x % 512 == 0);
  uint32_t word = 0;
  CHECK(bitmma_memory_read(memory, x, &word, 4) == BITMMA_ERROR_INVALID);  // nobody has written it
  uint8_t parameters[12];
  const uint32_t five = 5;
  std::memcpy(parameters, &x, 8), std::memcpy(parameters + 8, &five, 4);
  bitmma_launch launch{};
  launch.memory = memory, launch.parameters = parameters, launch.parameter_bytes = 12;
  REQUIRE(bitmma_kernel_launch(add, &launch, nullptr) == BITMMA_OK);
  REQUIRE(bitmma_kernel_launch(add, &launch, nullptr) == BITMMA_OK);
  REQUIRE(bitmma_memory_read(memory, x, &word, 4) == BITMMA_OK);
  CHECK(word == 17);
  uint64_t address = 0;
  int64_t bytes = 0;
  void* data = nullptr;
  REQUIRE(bitmma_memory_variable(memory, module, "count", &address, &bytes, &data) == BITMMA_OK);
  CHECK(bytes == 4);
  const uint32_t hundred = 100;
  REQUIRE(bitmma_memory_write(memory, address, &hundred, 4) == BITMMA_OK);
  CHECK(std::memcmp(data, &hundred, 4) == 0);
  // The address of the host is that of the device.
  uint32_t host[2] = {0, 0};
  const auto own = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(host));
  REQUIRE(bitmma_memory_map(memory, own, host, 8, 0) == BITMMA_OK);
  const uint64_t second = own + 4;
  std::memcpy(parameters, &second, 8);
  REQUIRE(bitmma_kernel_launch(add, &launch, nullptr) == BITMMA_OK);
  CHECK(host[1] == 105);
  CHECK(bitmma_memory_free(memory, own) == BITMMA_OK);
  CHECK(bitmma_kernel_launch(add, &launch, nullptr) == BITMMA_ERROR_INVALID);  // out of bounds now
  CHECK(bitmma_memory_free(memory, own) == BITMMA_ERROR_INVALID);
  CHECK(bitmma_memory_allocate_at(memory, x, 1) == BITMMA_ERROR_INVALID);
  CHECK(bitmma_memory_allocate_at(memory, 0x10000, 1) == BITMMA_OK);
  CHECK(bitmma_memory_allocate(memory, -1, &x) == BITMMA_ERROR_INVALID);
  CHECK(bitmma_memory_map(memory, 0x20000, nullptr, 8, 0) == BITMMA_ERROR_INVALID);
  CHECK(bitmma_memory_variable(memory, module, "nothing", &address, nullptr, nullptr) == BITMMA_ERROR_INVALID);
  CHECK(bitmma_memory_variable(nullptr, module, "count", &address, nullptr, nullptr) == BITMMA_ERROR_INVALID);
  // Races are what the launch says.
  std::memcpy(parameters, &x, 8);
  launch.block[0] = 64;
  CHECK(bitmma_kernel_launch(add, &launch, nullptr) == BITMMA_ERROR_INVALID);
  std::array<char, 1000> warnings{};
  size_t length = 0;
  launch.warnings = warnings.data(), launch.warnings_size = warnings.size(), launch.warnings_length = &length;
  launch.grid[0] = 2;
  launch.races = BITMMA_RACES_OFF;
  CHECK(bitmma_kernel_launch(add, &launch, nullptr) == BITMMA_OK);
  CHECK_THAT(warnings.data(), ContainsSubstring("blocks that use the same bytes"));
  CHECK(length == std::strlen(warnings.data()));
  launch.warnings = nullptr;
  CHECK(bitmma_kernel_launch(add, &launch, nullptr) == BITMMA_ERROR_INVALID);
  launch.warnings_size = 0;
  CHECK(bitmma_kernel_launch(add, &launch, nullptr) == BITMMA_OK);
  launch.parameter_bytes = 8;
  CHECK(bitmma_kernel_launch(add, &launch, nullptr) == BITMMA_ERROR_INVALID);
  launch.parameters = nullptr;
  CHECK(bitmma_kernel_launch(add, &launch, nullptr) == BITMMA_ERROR_INVALID);
  bitmma_tensor_map map{};
  map.rank = 1, map.element_bytes = 4, map.sizes[0] = 16, map.box[0] = 16;
  uint8_t encoded[128] = {};
  CHECK(bitmma_tensor_map_encode(&map, 0x1000, encoded) == BITMMA_OK);
  CHECK(std::ranges::any_of(encoded, [](uint8_t byte) { return byte != 0; }));
  CHECK(bitmma_tensor_map_encode(&map, 0x1001, encoded) == BITMMA_ERROR_INVALID);
  CHECK(bitmma_tensor_map_encode(&map, 0x1000, nullptr) == BITMMA_ERROR_INVALID);
  CHECK(bitmma_module_create("no PTX", &module) == BITMMA_ERROR_INVALID);
}

TEST_CASE("what is not sure of a kernel, and bad kernels, arguments and launches from C") {
  const std::string cuda = module_of_data("cuda.ptx");
  bitmma_kernel* kernel = nullptr;
  CHECK(bitmma_kernel_create("no PTX", nullptr, &kernel) == BITMMA_ERROR_INVALID);
  CHECK(bitmma_kernel_create(nullptr, nullptr, &kernel) == BITMMA_ERROR_INVALID);
  CHECK(bitmma_kernel_create(cuda.c_str(), nullptr, &kernel) == BITMMA_ERROR_INVALID);  // names one of nine
  CHECK(bitmma_kernel_create(cuda.c_str(), nullptr, nullptr) == BITMMA_ERROR_INVALID);
  CHECK(kernel == nullptr);
  const bitmma_kernel_options options{.entry = "scan", .target = nullptr, .sass = nullptr, .no_fmad = 0};
  KernelHandle scan;
  REQUIRE(bitmma_kernel_create(cuda.c_str(), &options, &scan) == BITMMA_OK);
  size_t length = 7;
  CHECK(bitmma_kernel_warnings(scan, nullptr, 0, &length) == BITMMA_OK);
  CHECK(length == 0);
  int32_t words[64] = {};
  const bitmma_tensor_map no_map{};
  const auto refused = [&](const bitmma_kernel_argument& first, int64_t block) {
    const bitmma_kernel_argument arguments[]{first, {nullptr, words, 256, 0, 0, nullptr}};
    bitmma_launch launch{};
    launch.block[0] = block, launch.dynamic_shared_bytes = 256;
    launch.arguments = arguments, launch.argument_count = 2;
    return bitmma_kernel_launch(scan, &launch, nullptr) == BITMMA_ERROR_INVALID;
  };
  CHECK(refused({nullptr, words, 8, 0, 0, nullptr}, 64));  // out of bounds
  CHECK(refused({nullptr, nullptr, 8, 0, 0, nullptr}, 64));
  CHECK(refused({nullptr, words, -1, 0, 0, nullptr}, 64));
  CHECK(refused({nullptr, words, 256, 0, 0, &no_map}, 64));
  CHECK(refused({words, words, 256, 0, 0, nullptr}, 64));
  CHECK(refused({nullptr, words, 256, 0, 0, nullptr}, 2048));
  const bitmma_launch none{};
  CHECK(bitmma_kernel_launch(scan, &none, nullptr) == BITMMA_ERROR_INVALID);
  CHECK(bitmma_kernel_launch(nullptr, &none, nullptr) == BITMMA_ERROR_INVALID);
  CHECK(bitmma_kernel_launch(scan, nullptr, nullptr) == BITMMA_ERROR_INVALID);
}
