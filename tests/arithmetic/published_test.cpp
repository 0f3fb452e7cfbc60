// Outputs of real GPUs that others published, 120,000 of them: data/published/README.md. Each agrees with the row of
// its GPU, and rows that differ in one fact do not.
#include "support/published.hpp"

#include <fmt/format.h>

#include <map>
#include <sstream>

#include "support/catch.hpp"

using namespace bitmma;
using test::noticed;
using test::PublishedGroup;

namespace {

const int outputs_per_group = 2500 / test::matlab_step;

/// How many outputs the files hold of each GPU, input type and result type.
std::map<std::string, int> all_outputs() {
  // GPU, input types of results in f32, the same in f16
  const char* const gpus[][3]{{"V100", "fp16", "fp16"},
                              {"A2", "fp16 bf16 tf32", "fp16"},
                              {"A100", "fp16 bf16 tf32", "fp16"},
                              {"Ada", "fp16 bf16 tf32 e4m3 e5m2", "fp16 e4m3 e5m2"},
                              {"L40S", "fp16 bf16 tf32 e4m3 e5m2", "fp16"},
                              {"H100", "fp16 bf16 tf32 e4m3 e5m2", "fp16 e4m3 e5m2"},
                              {"H200", "fp16 bf16 tf32 e4m3 e5m2", "fp16 e4m3 e5m2"},
                              {"B200", "fp16 bf16 tf32 e4m3 e5m2", "fp16 e4m3 e5m2"}};
  std::map<std::string, int> outputs;
  for (const auto& [gpu, to_f32, to_f16] : gpus) {
    for (const auto& [result, types] : {std::pair("f32", to_f32), std::pair("f16", to_f16)}) {
      std::istringstream stream(types);
      for (std::string type; stream >> type;)
        outputs[fmt::format("{} {} -> {}", gpu, type, result)] = outputs_per_group;
    }
  }
  return outputs;
}

}  // namespace

TEST_CASE("120,000 published outputs of eight GPUs from Volta to Blackwell are what the rows of those GPUs compute",
          "[rule:fused-sum][rule:fp8-13-bits][rule:output-rounding][rule:steps]") {
  std::map<std::string, int> outputs;
  for (const PublishedGroup& group : test::matlab_groups()) {
    const test::Mismatches mismatches = mismatches_of(group.model, group);
    INFO(group.name << ", first mismatch: " << mismatches.first);
    CHECK(mismatches.count == 0);
    outputs[group.name] += group.outputs();
  }
  CHECK(outputs == all_outputs());
  int count = 0;
  for (const auto& [name, of_group] : outputs) count += of_group;
  CHECK(count == 120'000 / test::matlab_step);
}

TEST_CASE("published outputs refute a fraction bit more or less, other steps and another place of C",
          "[rule:fused-sum][rule:steps]") {
  int groups = 0;
  for (const PublishedGroup& group : test::matlab_groups()) {
    INFO(group.name);
    ++groups;
    const Mma mma = mma_of(group.instruction);
    const bool is_fp8 = info(mma.a).bits == 8;
    const bool as_f16 = group.model.step_order == StepOrder::byte_pairs;  // fp8 widened, two steps, C last
    if (mma.d == Format::f32) {
      // The values are about 1. Sums of their fp8 products never reach the 25th fraction bit, in any order.
      const bool can_tell = !as_f16;
      CHECK((noticed(group, [](AccumulatorModel& model) { --model.fraction_bits; }) > 0) == can_tell);
      CHECK((noticed(group, [](AccumulatorModel& model) { ++model.fraction_bits; }) > 0) == can_tell);
    }
    if (is_fp8 && group.target == Target::sm_89) {
      CHECK(noticed(group, [](AccumulatorModel& model) { model.terms_per_step = 0; }) > 0);
      CHECK(noticed(group, [](AccumulatorModel& model) { model.terms_per_step = 8; }) > 0);
    }
    if (as_f16) {
      CHECK(noticed(group, [](AccumulatorModel& model) { model.c_last = false; }) > 0);
      const int other_order = noticed(group, [](AccumulatorModel& model) {
        model.step_order = StepOrder::ascending;
        model.terms_per_step = 16;
      });
      CHECK((other_order > 0) == (mma.d == Format::f16));
    }
    if (mma.family == Family::wgmma) {
      const AccumulatorModel* const warp = find_accumulator_model(group.target, Family::mma_sync, mma.a, mma.b, mma.d);
      REQUIRE(warp);
      CHECK(mismatches_of(*warp, group).count > 0);
    }
  }
  CHECK(groups == 48);
}
