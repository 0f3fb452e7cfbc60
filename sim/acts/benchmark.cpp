// SPDX-License-Identifier: MIT
#include "bitmma/acts/benchmark.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/stimulus/random_operands.hpp"

namespace bitmma {
namespace {

/// K-major with the 128-byte swizzle, as in most programs; a narrower swizzle if a row of K is narrower.
OperandLayout layout_for(const Mma& mma) {
  const int row_bytes = mma.k * info(mma.b).bits / 8;
  OperandLayout layout;
  layout.swizzle = row_bytes >= 128  ? Swizzle::b128
                   : row_bytes == 64 ? Swizzle::b64
                   : row_bytes == 32 ? Swizzle::b32
                                     : Swizzle::none;
  return layout;
}

/// An instruction that represents a row of arithmetic.
struct Example {
  Instruction instruction;
  const AccumulatorModel* model;
};

/// A form's dense instruction for one CTA on a target: with the smallest measured shape or the largest, and with the
/// most scales if it has any. Nothing for moves, and if the form does not have the shape.
std::optional<Example> example_of(const Form& form, Target target, bool large) {
  std::vector<Instruction> all = instructions_of(form);
  if (!is_mma(all.front()) || !form.targets.contains(target)) return std::nullopt;
  const int n = large ? 256 : has_instruction_descriptor(all.front()) ? 16 : 8;
  const bool has_idesc = has_instruction_descriptor(all.front());
  if (!has_idesc) std::erase_if(all, [n](const Instruction& instruction) { return mma_of(instruction).n != n; });
  if (all.empty()) return std::nullopt;
  const auto scales_of = [](const Instruction& instruction) { return mma_of(instruction).scale_count; };
  Instruction instruction = *std::ranges::max_element(all, {}, scales_of);
  if (has_idesc) {
    const auto idesc = static_cast<uint32_t>(immediate_of(instruction, "idesc"));
    InstructionDescriptor descriptor = decode_instruction_descriptor(*form.kind, idesc);
    descriptor.n = n;
    if (*form.kind == MmaKind::mxf4nvf4 && scales_of(instruction) >= 4)
      descriptor.scale_type = Format::ue4m3;  // NVFP4, as in most programs
    instruction = with_immediate(instruction, "idesc", encode(descriptor));
  }
  return Example{instruction, &model_for(instruction, target)};
}

/// Among the examples of a row a dense one, with the most scales, the most terms and the fewest qualifiers.
const Example* find_example(const std::vector<Example>& examples, const AccumulatorModel& row) {
  const Example* best = nullptr;
  const auto rank = [](const Example& example) {
    const Mma mma = mma_of(example.instruction);
    return std::tuple(!mma.sparse, mma.scale_count, mma.k);
  };
  for (const Example& example : examples) {
    if (example.model == &row && (!best || rank(example) > rank(*best))) best = &example;
  }
  return best;
}

}  // namespace

std::vector<BenchCase> bench_cases() {
  std::vector<BenchCase> cases;
  std::map<std::pair<Target, bool>, std::vector<Example>> examples_of;  // many rows share a target
  for (const AccumulatorModel& row : accumulator_models()) {
    // Measures a row on its first target. Only mma.sync's rules differ between targets.
    const Target target = row.targets.first();
    const std::string_view scaling = row.scaling == Scaling::exact_groups ? " mxf4nvf4"
                                     : row.scaling == Scaling::whole_k    ? " mxf8f6f4"
                                                                          : "";
    for (const bool large : {false, true}) {
      const auto [place, is_new] = examples_of.try_emplace({target, large});
      std::vector<Example>& examples = place->second;
      if (is_new) {
        for (const Form& form : forms()) {
          if (const std::optional<Example> form_example = example_of(form, target, large))
            examples.push_back(*form_example);
        }
      }
      const Example* example = find_example(examples, row);
      if (!example) continue;
      const Mma mma = mma_of(example->instruction);
      const bool in_registers = mma.b_source == OperandSource::registers;
      const std::string where =
          in_registers && row.scaling == Scaling::none ? fmt::format(" {}", print(target)) : std::string();
      cases.push_back(
          {.name = fmt::format("{}{}{} {} -> {} m{}n{}k{}", print(row.family), scaling, where, info(mma.a).name,
                               info(mma.d).name, mma.m / mma.products, mma.n, mma.k / mma.products),
           .instruction = example->instruction,
           .target = target});
    }
  }
  return cases;
}

BenchMachine::BenchMachine(const Instruction& instruction) : BenchMachine(instruction, default_target(instruction)) {}

BenchMachine::BenchMachine(const Instruction& instruction, Target target)
    : instruction_(instruction),
      target_(target),
      prepared_(instruction, target),
      model_(model_for(instruction, target)),
      operands_(random_operands(instruction, target, Distribution::normal, 1, 0)) {
  const OperandLayout layout = layout_for(mma_of(instruction));
  before_ = place_operands(instruction, {.a = layout, .b = layout}, operands_, filler_stream(1, 0));
  state_ = before_;
  for (const FieldRule& rule : fields_of(instruction)) {
    if (rule.access != Access::read) written_.push_back(rule.field);
  }
  d_.resize(static_cast<size_t>(prepared_.words().d) * batch);
}

/// D becomes C of the next call, as in a loop over K. The chain restarts periodically, before the sums overflow.
void BenchMachine::begin_chain_again() {
  constexpr int chain = 64;
  if (++simulated_ % chain != 0) return;
  for (const Field field : written_) std::ranges::copy(before_.words(field), state_.writable_words(field).begin());
}

void BenchMachine::simulate() {
  begin_chain_again();
  execute(instruction_, target_, state_);
}

void BenchMachine::execute_prepared() {
  if (d_.empty()) {
    begin_chain_again();
    return prepared_.execute(state_);
  }
  const auto words = [&](Field field) -> RegisterView {
    return before_.has(field) ? before_.words(field).data() : nullptr;
  };
  prepared_.execute_batch(batch,
                          {.a = words(Field::a_regs),
                           .b = words(Field::b_regs),
                           .c = words(Field::accumulator),
                           .scale_a = words(Field::scale_a),
                           .scale_b = words(Field::scale_b)},
                          d_.data(), prepared_.words().d);
}

void BenchMachine::gather() const { static_cast<void>(gather_operands(instruction_, target_, before_)); }

void BenchMachine::multiply() const { static_cast<void>(multiply_accumulate(model_, operands_)); }

std::vector<BenchProduct> bench_products() {
  std::vector<BenchProduct> products;
  const auto add = [&](Target target, Format type, std::string_view how = {}) {
    products.push_back({.name = fmt::format("gemm {} {} -> f32{}", print(target), info(type).name, how),
                        .plan = flat_plan(target, type, type, Format::f32)});
  };
  for (const Format type : {Format::f16, Format::bf16, Format::tf32, Format::e4m3}) add(Target::sm_90a, type);
  add(Target::sm_90a, Format::e4m3, ", promoted every 128");
  products.back().plan.tensor().promotion = Promotion{};
  add(Target::sm_100a, Format::e4m3);
  add(Target::sm_80, Format::bf16);  // an instruction takes two steps
  return products;
}

GemmInputs BenchProduct::inputs() const {
  const Mma mma = mma_of(plan.tensor().instruction);
  GemmInputs inputs{.a = Matrix(mma.a, size, size), .b = Matrix(mma.b, size, size)};
  // The block of each instruction gets its own number.
  uint64_t number = 0;
  for (int row = 0; row < size; row += mma.m) {
    for (int k = 0; k < size; k += mma.k)
      set_block(inputs.a, row, k,
                random_operands(plan.tensor().instruction, plan.target, Distribution::normal, 1, number++).a);
  }
  for (int col = 0; col < size; col += mma.n) {
    for (int k = 0; k < size; k += mma.k)
      set_block(inputs.b, k, col,
                random_operands(plan.tensor().instruction, plan.target, Distribution::normal, 1, number++).b);
  }
  return inputs;
}

}  // namespace bitmma
