#include "bench_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/stimulus/random_operands.hpp"
#include "flags.hpp"

namespace bitmma::cli {
namespace {

/// K-major with the 128-byte swizzle, as most programs have it; narrower where a row of K is.
OperandLayout layout_for(const Mma& mma) {
  const int row_bytes = mma.k * info(mma.b).bits / 8;
  OperandLayout layout;
  layout.swizzle = row_bytes >= 128  ? Swizzle::b128
                   : row_bytes == 64 ? Swizzle::b64
                   : row_bytes == 32 ? Swizzle::b32
                                     : Swizzle::none;
  return layout;
}

/// What stands for a row of arithmetic.
struct Example {
  Instruction instruction;
  const AccumulatorModel* model;
};

/// A form's dense instruction of one CTA: of the smallest shape that is measured or the largest, and with the most
/// scales where it has some. Nothing for moves, and where the form does not have the shape.
std::optional<Example> example_of(const Form& form, bool large) {
  std::vector<Instruction> all = instructions_of(form);
  if (!is_mma(all.front())) return std::nullopt;
  const bool has_idesc = has_descriptor(all.front());
  const int n = large ? 256 : has_idesc ? 16 : 8;
  if (!has_idesc) std::erase_if(all, [n](const Instruction& one) { return mma_of(one).n != n; });
  if (all.empty()) return std::nullopt;
  const auto scales_of = [](const Instruction& one) { return mma_of(one).scale_count; };
  Instruction instruction = *std::ranges::max_element(all, {}, scales_of);
  if (has_idesc) {
    const auto idesc = static_cast<uint32_t>(immediate_of(instruction, "idesc"));
    InstructionDescriptor descriptor = decode_instruction_descriptor(form.kind, idesc);
    descriptor.n = n;
    if (scales_of(instruction) == 4) descriptor.scale_type = Format::ue4m3;  // NVFP4, as most programs have it
    instruction = with_immediate(instruction, "idesc", encode(descriptor));
  }
  return Example{instruction, &model_for(instruction, form.targets.first())};
}

/// Of the examples that add by a row the one with the most scales.
const Example* find_example(const std::vector<Example>& examples, const AccumulatorModel& row) {
  const Example* found = nullptr;
  for (const Example& one : examples) {
    if (one.model != &row) continue;
    if (!found || mma_of(one.instruction).scale_count > mma_of(found->instruction).scale_count) found = &one;
  }
  return found;
}

}  // namespace

std::vector<BenchCase> bench_cases() {
  std::array<std::vector<Example>, 2> examples;  // small and large
  for (const Form& form : forms()) {
    for (const size_t large : {0, 1}) {
      const std::optional<Example> one = example_of(form, large == 1);
      // A row is measured on its first target.
      if (one && one->model->targets.first() == form.targets.first()) examples[large].push_back(*one);
    }
  }
  std::vector<BenchCase> cases;
  for (const AccumulatorModel& row : accumulator_models()) {
    const std::string_view scaling = row.scaling == Scaling::groups_of_16 ? " mxf4nvf4"
                                     : row.scaling == Scaling::whole_k    ? " mxf8f6f4"
                                                                          : "";
    for (const std::vector<Example>& of_size : examples) {
      const Example* example = find_example(of_size, row);
      if (!example) continue;
      const Mma mma = mma_of(example->instruction);
      cases.push_back({.name = fmt::format("{}{} {} -> {} m{}n{}k{}", print(row.family), scaling, info(mma.a).name,
                                           info(mma.d).name, mma.m, mma.n, mma.k),
                       .instruction = example->instruction,
                       .target = row.targets.first()});
    }
  }
  return cases;
}

BenchMachine::BenchMachine(const Instruction& instruction) : BenchMachine(instruction, default_target(instruction)) {}

BenchMachine::BenchMachine(const Instruction& instruction, Target target)
    : instruction_(instruction),
      target_(target),
      model_(model_for(instruction, target)),
      operands_(random_operands(instruction, target, Distribution::normal, 1, 0)) {
  const OperandLayout layout = layout_for(mma_of(instruction));
  before_ = place_operands(instruction, {.a = layout, .b = layout}, operands_, filler_stream(1, 0));
  state_ = before_;
  for (const FieldRule& rule : fields_of(instruction)) {
    if (rule.access != Access::read) written_.push_back(rule.field);
  }
}

void BenchMachine::simulate() {
  // D is C of the next call, as in a loop over K. Every so often all begins anew, before the sums overflow.
  constexpr int chain = 64;
  if (++simulated_ % chain == 0) {
    for (const Field field : written_) {
      std::ranges::copy(before_.words(field), state_.writable_words(field).begin());
    }
  }
  execute(instruction_, target_, state_);
}

void BenchMachine::gather() const { static_cast<void>(gather_operands(instruction_, target_, before_)); }

void BenchMachine::multiply() const { static_cast<void>(multiply_accumulate(model_, operands_)); }

}  // namespace bitmma::cli
