#include "bench_case.hpp"

#include <fmt/format.h>

#include "bitmma/instruction/mma_sync.hpp"
#include "bitmma/instruction/place.hpp"
#include "bitmma/instruction/random_operands.hpp"

namespace bitmma::cli {
namespace {

constexpr Swizzle layout_swizzle = Swizzle::b128;

/// K-major with the 128-byte swizzle, as most programs have it; narrower where a row of K is.
OperandLayout layout_for(const Instruction& instruction) {
  OperandLayout layout;
  const int row_bytes = instruction.k * info(instruction.b).bits / 8;
  layout.swizzle = row_bytes >= 128  ? layout_swizzle
                   : row_bytes == 64 ? Swizzle::b64
                   : row_bytes == 32 ? Swizzle::b32
                                     : Swizzle::none;
  return layout;
}

Instruction wgmma(const AccumulatorModel& row, Format input, int n) {
  const int k = input == Format::b1 ? 256 : 256 / info(input).bits;
  Instruction instruction{.n = n, .k = k, .d = row.output, .a = input, .b = input};
  if (input == Format::b1) instruction.bit_operation = ".and.popc";
  return instruction;
}

Instruction tcgen05(const AccumulatorModel& row, Format input, int n) {
  const bool grouped = row.scaling == Scaling::groups_of_16;
  const std::string kind = grouped                           ? "mxf4nvf4.block_scale.scale_vec::4X"
                           : row.scaling == Scaling::whole_k ? "mxf8f6f4.block_scale.scale_vec::1X"
                           : row.output == Format::s32       ? "i8"
                           : info(input).bits == 32          ? "tf32"
                           : info(input).bits == 16          ? "f16"
                                                             : "f8f6f4";
  Instruction instruction = parse_instruction("tcgen05.mma.cta_group::1.kind::" + kind);
  instruction.m = 128, instruction.n = n, instruction.d = row.output, instruction.a = instruction.b = input;
  if (grouped) instruction.scale_type = Format::ue4m3;
  return with_idesc(instruction, idesc_of(instruction));
}

Instruction mma_sync(const AccumulatorModel& row) {
  return parse_instruction(
      row.scaling == Scaling::groups_of_16
          ? "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3"
          : "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0");
}

}  // namespace

std::vector<BenchCase> bench_cases() {
  std::vector<BenchCase> cases;
  for (const AccumulatorModel& row : accumulator_models()) {
    Format input = Format::f16;
    for (const FormatInfo& format : formats) {
      if (!row.inputs.contains(format.id)) continue;
      input = format.id;
      break;
    }
    for (const int n : {row.family == Family::tcgen05 ? 16 : 8, 256}) {
      if (row.family == Family::mma_sync && n != 8) continue;
      const Instruction instruction = row.family == Family::wgmma     ? wgmma(row, input, n)
                                      : row.family == Family::tcgen05 ? tcgen05(row, input, n)
                                                                      : mma_sync(row);
      std::string scaling = row.scaling == Scaling::groups_of_16 ? " mxf4nvf4"
                            : row.scaling == Scaling::whole_k    ? " mxf8f6f4"
                                                                 : "";
      cases.push_back({.name = fmt::format("{}{} {} -> {} m{}n{}k{}", print(row.family), scaling, info(input).name,
                                           info(row.output).name, instruction.m, instruction.n, instruction.k),
                       .instruction = instruction});
    }
  }
  return cases;
}

BenchMachine::BenchMachine(const Instruction& instruction)
    : instruction_(instruction), operands_(random_operands(instruction, Distribution::normal, 1, 0)) {
  const OperandLayout layout = layout_for(instruction);
  if (instruction.family == Family::tcgen05) {
    tcgen05_ = place_tcgen05(instruction, layout, layout, operands_, filler_stream(1, 0));
    tmem_after_ = tcgen05_.tmem;
  } else {
    state_ = place_operands(instruction, plan_placement(instruction, layout, layout), operands_, filler_stream(1, 0));
  }
}

void BenchMachine::simulate() const {
  if (instruction_.family == Family::tcgen05)
    simulate_in_place(instruction_, tcgen05_.view(), tmem_after_);
  else
    static_cast<void>(bitmma::simulate(instruction_, state_.view()));
}

void BenchMachine::gather() const {
  if (instruction_.family == Family::tcgen05)
    static_cast<void>(gather_operands(instruction_, tcgen05_.view()));
  else
    static_cast<void>(gather_operands(instruction_, state_.view()));
}

void BenchMachine::multiply() const { static_cast<void>(multiply_accumulate(model_for(instruction_), operands_)); }

}  // namespace bitmma::cli
