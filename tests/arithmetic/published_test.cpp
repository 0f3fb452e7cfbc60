// Outputs of real GPUs that others published, 120,000 of them: data/published/README.md. Each agrees with the row of
// its GPU, and rows that differ in one fact do not.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <sstream>

#include "bitmma/arithmetic/multiply_accumulate.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/word_lists.hpp"

using namespace bitmma;

namespace {

/// A GPU and the input types of its outputs, by the type of the result.
struct Gpu {
  std::string_view name;
  Target target;
  std::string_view to_f32, to_f16;
};

// one row a GPU
// clang-format off
constexpr auto gpus = std::to_array<Gpu>({
    {.name = "V100", .target = Target::sm_70, .to_f32 = "fp16", .to_f16 = "fp16"},
    {.name = "A2", .target = Target::sm_86, .to_f32 = "fp16 bf16 tf32", .to_f16 = "fp16"},
    {.name = "A100", .target = Target::sm_80, .to_f32 = "fp16 bf16 tf32", .to_f16 = "fp16"},
    {.name = "Ada", .target = Target::sm_89, .to_f32 = "fp16 bf16 tf32 e4m3 e5m2", .to_f16 = "fp16 e4m3 e5m2"},
    {.name = "L40S", .target = Target::sm_89, .to_f32 = "fp16 bf16 tf32 e4m3 e5m2", .to_f16 = "fp16"},
    {.name = "H100", .target = Target::sm_90a, .to_f32 = "fp16 bf16 tf32 e4m3 e5m2", .to_f16 = "fp16 e4m3 e5m2"},
    {.name = "H200", .target = Target::sm_90a, .to_f32 = "fp16 bf16 tf32 e4m3 e5m2", .to_f16 = "fp16 e4m3 e5m2"},
    {.name = "B200", .target = Target::sm_100a, .to_f32 = "fp16 bf16 tf32 e4m3 e5m2", .to_f16 = "fp16 e4m3 e5m2"},
});
// clang-format on

constexpr int outputs_per_group = 2500;

std::string name_of(std::string_view gpu, std::string_view type, std::string_view result) {
  return fmt::format("{} {} -> {}", gpu, type, result);
}

/// How many outputs the files hold of each GPU, input type and result type.
std::map<std::string, int> all_outputs() {
  std::map<std::string, int> outputs;
  for (const Gpu& gpu : gpus) {
    for (const auto& [result, types] : {std::pair("f32", gpu.to_f32), std::pair("f16", gpu.to_f16)}) {
      std::istringstream stream{std::string(types)};
      for (std::string type; stream >> type;) outputs[name_of(gpu.name, type, result)] = outputs_per_group;
    }
  }
  return outputs;
}

/// The outputs of one GPU, input type and result type.
struct Group {
  std::string name;
  Target target = Target::sm_70;
  Format input = Format::f16, result = Format::f32;
  /// Hopper's fp8 -> f32 outputs: they have 13 fraction bits and are the same for another c. That is what wgmma gives
  /// without c, and not mma.sync, which has no fp8 tensor core there.
  bool is_wgmma = false;
  Matrix a = {}, b = {};                 // output i: row i of A, column i of B
  std::vector<uint32_t> c = {}, d = {};  // codes of `result`

  bool is_fp8() const { return info(input).bits == 8; }
};

uint32_t converted(Format from, uint32_t code, Format to) {
  return static_cast<uint32_t>(convert(from, code, to, Rounding::nearest_even, Overflow::infinity));
}

/// The code of a value that the files write as an f32 word.
uint32_t exact_code(Format format, uint32_t f32_word) {
  const uint32_t code = converted(Format::f32, f32_word, format);
  if (converted(format, code, Format::f32) != f32_word)
    FAIL(print_bits(Format::f32, f32_word) << " is no " << info(format).name);
  return code;
}

/// A set of inputs, which several groups share.
using Vectors = std::vector<std::pair<std::vector<uint32_t>, std::vector<uint32_t>>>;

Group group_of(const test::CsvRow& row, const Vectors& inputs) {
  const std::string &gpu = row.at("gpu"), &type = row.at("type"), &result = row.at("result");
  const auto found = std::ranges::find(gpus, std::string_view(gpu), &Gpu::name);
  REQUIRE(found != gpus.end());
  Group group{.name = name_of(gpu, type, result),
              .target = found->target,
              .input = type == "fp16" ? Format::f16 : format_named(type).value(),
              .result = format_named(result).value()};
  group.is_wgmma = group.target == Target::sm_90a && group.is_fp8() && group.result == Format::f32;
  const int outputs = static_cast<int>(inputs.size()), terms = static_cast<int>(inputs.at(0).first.size());
  group.a = Matrix(group.input, outputs, terms), group.b = Matrix(group.input, terms, outputs);
  for (int i = 0; i < outputs; ++i) {
    const auto& [a, b] = inputs[static_cast<size_t>(i)];
    for (int k = 0; k < terms; ++k) {
      group.a(i, k) = exact_code(group.input, a.at(static_cast<size_t>(k)));
      group.b(k, i) = exact_code(group.input, b.at(static_cast<size_t>(k)));
    }
  }
  return group;
}

std::vector<Group> published_groups() {
  std::map<std::string, Vectors> inputs;
  test::for_each_csv_row(test::oracle_path("matlab_inputs.csv"), [&](const test::CsvRow& row) {
    inputs[row.at("inputs")].emplace_back(test::hex_words(row.at("a")), test::hex_words(row.at("b")));
  });
  std::vector<Group> groups;
  test::for_each_csv_row(test::oracle_path("matlab_outputs.csv"), [&](const test::CsvRow& row) {
    const std::string name = name_of(row.at("gpu"), row.at("type"), row.at("result"));
    if (groups.empty() || groups.back().name != name) groups.push_back(group_of(row, inputs.at(row.at("inputs"))));
    Group& group = groups.back();
    // Where the result is f16, the GPUs got c rounded to f16.
    group.c.push_back(converted(Format::f32, test::hex_words(row.at("c")).at(0), group.result));
    group.d.push_back(exact_code(group.result, test::hex_words(row.at("d")).at(0)));
  });
  for (const Group& group : groups) REQUIRE(group.d.size() == static_cast<size_t>(group.a.rows()));
  return groups;
}

AccumulatorModel model_of(const Group& group, Family family) {
  // wmma on Volta is made of m8n8k4.
  const bool quad_pairs = group.target == Target::sm_70;
  const AccumulatorModel* const model =
      find_accumulator_model(group.target, family, group.input, group.input, group.result, Scaling::none, quad_pairs);
  REQUIRE(model);
  return *model;
}
AccumulatorModel model_of(const Group& group) {
  return model_of(group, group.is_wgmma ? Family::wgmma : Family::mma_sync);
}

struct Mismatches {
  int count = 0;
  std::string first = "none";
};

/// Outputs that `model` computes otherwise than the GPU. They are the diagonals of small products, which take the loops
/// that whole instructions take.
Mismatches mismatches_of(const AccumulatorModel& model, const Group& group) {
  constexpr int side = 16;
  Mismatches found;
  const int outputs = group.a.rows(), terms = group.a.cols();
  for (int first = 0; first < outputs; first += side) {
    const int count = std::min(side, outputs - first);
    Operands operands{.a = block_of(group.a, first, count, 0, terms), .b = block_of(group.b, 0, terms, first, count)};
    if (model.family == Family::mma_sync) {
      operands.c = Matrix(group.result, count, count);
      for (int i = 0; i < count; ++i) (*operands.c)(i, i) = group.c[static_cast<size_t>(first + i)];
    }
    const Matrix d = multiply_accumulate(model, operands);
    for (int i = 0; i < count; ++i) {
      const uint32_t published = group.d[static_cast<size_t>(first + i)];
      if (d(i, i) == published) continue;
      if (found.count++ == 0) {
        found.first = fmt::format("output {}: {}, the GPU {}", first + i, print_bits(group.result, d(i, i)),
                                  print_bits(group.result, published));
      }
    }
  }
  return found;
}

/// How many outputs notice that the model of their group is changed.
int noticed(const Group& group, const std::function<void(AccumulatorModel&)>& change) {
  AccumulatorModel model = model_of(group);
  change(model);
  return mismatches_of(model, group).count;
}

}  // namespace

TEST_CASE("120,000 published outputs of eight GPUs from Volta to Blackwell are what the rows of those GPUs compute",
          "[rule:fused-sum][rule:fp8-13-bits][rule:output-rounding][rule:steps]") {
  std::map<std::string, int> outputs;
  for (const Group& group : published_groups()) {
    const Mismatches found = mismatches_of(model_of(group), group);
    INFO(group.name << ", first mismatch: " << found.first);
    CHECK(found.count == 0);
    outputs[group.name] += group.a.rows();
  }
  CHECK(outputs == all_outputs());
  int count = 0;
  for (const auto& [name, of_group] : outputs) count += of_group;
  CHECK(count == 120'000);
}

TEST_CASE("published outputs refute a fraction bit more or less, other steps and another place of C",
          "[rule:fused-sum][rule:steps]") {
  int groups = 0;
  for (const Group& group : published_groups()) {
    INFO(group.name);
    ++groups;
    const bool as_f16 = model_of(group).step_order == StepOrder::byte_pairs;  // fp8 widened, two steps, C last
    const bool is_ada_fp8 = group.is_fp8() && group.target == Target::sm_89;
    if (group.result == Format::f32) {
      // The values are about 1. Sums of their fp8 products never reach the 25th fraction bit, in any order.
      const bool can_tell = !as_f16;
      CHECK((noticed(group, [](AccumulatorModel& model) { --model.fraction_bits; }) > 0) == can_tell);
      CHECK((noticed(group, [](AccumulatorModel& model) { ++model.fraction_bits; }) > 0) == can_tell);
    }
    if (is_ada_fp8) {
      CHECK(noticed(group, [](AccumulatorModel& model) { model.terms_per_step = 0; }) > 0);
      CHECK(noticed(group, [](AccumulatorModel& model) { model.terms_per_step = 8; }) > 0);
    }
    if (as_f16) {
      CHECK(noticed(group, [](AccumulatorModel& model) { model.c_last = false; }) > 0);
      const int other_order = noticed(group, [](AccumulatorModel& model) {
        model.step_order = StepOrder::ascending;
        model.terms_per_step = 16;
      });
      CHECK((other_order > 0) == (group.result == Format::f16));
    }
    if (group.is_wgmma) CHECK(mismatches_of(model_of(group, Family::mma_sync), group).count > 0);
  }
  CHECK(groups == 48);
}
