// SPDX-License-Identifier: MIT
// The plan of one chain over K: which instruction of a target multiplies these types and block scales.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bitmma/core/error.hpp"
#include "bitmma/gemm/gemm.hpp"
#include "bitmma/instruction/form.hpp"
#include "gemm_inside.hpp"

namespace bitmma {

std::optional<MmaSync> mma_sync_for(Target target, Format d, Format a, Format b) {
  const MmaSync whole{.d = d, .a = a, .b = b};
  for (const MmaSync& instruction :
       {whole, MmaSync{.d = d, .a = a, .b = b, .k = whole.k / 2}, MmaSync{.m = 8, .d = d, .a = a, .b = b}}) {
    if (violations_of(Instruction(instruction), target).empty()) return instruction;
  }
  return std::nullopt;
}

namespace {

/// The target's largest instruction for these types; nothing if it has none.
std::optional<Instruction> instruction_for(Target target, Format a, Format b) {
  const bool is_integer = info(a).kind == NumberKind::integer;
  const Format accumulator = is_integer ? Format::s32 : a == Format::f64 ? Format::f64 : Format::f32;
  const MmaKind kind = a == Format::tf32                       ? MmaKind::tf32
                       : a == Format::f16 || a == Format::bf16 ? MmaKind::f16
                       : is_integer                            ? MmaKind::i8
                                                               : MmaKind::f8f6f4;
  for (const Instruction& instruction :
       {Instruction(Wgmma{.n = 256, .d = accumulator, .a = a, .b = b}),
        Instruction(Tcgen05Mma{.kind = kind, .d = accumulator, .a = a, .b = b}),
        Instruction(mma_sync_for(target, accumulator, a, b).value_or(MmaSync{.d = accumulator, .a = a, .b = b})),
        Instruction(MmaSync{.kind = MmaKind::f8f6f4, .d = accumulator, .a = a, .b = b})}) {
    if (violations_of(instruction, target).empty()) return instruction;
  }
  return std::nullopt;
}

}  // namespace

GemmPlan flat_plan(Target target, Format a, Format b, Format output) {
  if (const std::optional<Instruction> instruction = instruction_for(target, a, b)) {
    const bool is_integer = info(a).kind == NumberKind::integer;
    return {.name = "flat",
            .target = target,
            .chain = TensorCoreChain{.instruction = *instruction},
            .output = is_integer ? Format::s32 : output};
  }
  std::string legal, able;
  for (const FormatInfo& x : formats) {
    for (const FormatInfo& y : formats) {
      if (instruction_for(target, x.id, y.id))
        legal += fmt::format("{}{} x {}", legal.empty() ? "" : ", ", x.name, y.name);
    }
  }
  for (const TargetInfo& row : targets) {
    if (instruction_for(row.id, a, b)) able += fmt::format("{}{}", able.empty() ? "" : ", ", row.name);
  }
  std::string fix = "whole products use only some of the types that single instructions multiply";
  if (!able.empty()) fix = fmt::format("target {} multiplies these", able);
  else if (a == Format::b1 || b == Format::b1) fix = "convert the bits to int8 or float16, as a library would";
  else if (a == Format::s32 || b == Format::s32) fix = "tensor cores multiply integers of 8 bits: convert to int8";
  else if (a != b && (instruction_for(target, a, a) || instruction_for(target, b, b)))
    fix = fmt::format("convert one matrix: a library multiplies {} by {}, or {} by {}", info(a).name, info(a).name,
                      info(b).name, info(b).name);
  throw Error({.code = ViolationCode::wrong_type,
               .field = "types",
               .seen = fmt::format("{} x {} on {}", info(a).name, info(b).name, print(target)),
               .expected = legal.empty() ? "a target with an instruction for these types" : legal,
               .fix = std::move(fix)});
}

namespace {

/// The target's instruction that applies the block scales of these inputs; nothing if it has none.
std::optional<Instruction> scaling_instruction_for(Target target, const GemmInputs& inputs) {
  const Format a = inputs.a.format(), b = inputs.b.format(), scale = inputs.sfa->format();
  for (const auto& [kind, vec] : {std::pair(MmaKind::mxf4, ScaleVec::unwritten),
                                  {MmaKind::mxf4nvf4, ScaleVec::x4},
                                  {MmaKind::mxf8f6f4, ScaleVec::unwritten}}) {
    for (const Instruction& instruction :
         {Instruction(Tcgen05Mma{.kind = kind, .a = a, .b = b, .scale_vec = vec, .scale_type = scale}),
          Instruction(MmaSync{.kind = kind, .a = a, .b = b, .scale_vec = vec, .scale_type = scale})}) {
      if (!violations_of(instruction, target).empty()) continue;
      const Mma mma = mma_of(instruction);
      const int size = mma.k / mma.scale_count;
      if ((inputs.a.cols() + size - 1) / size == inputs.sfa->cols()) return instruction;
    }
  }
  return std::nullopt;
}

}  // namespace

bool multiplies(Target target, const GemmInputs& inputs) {
  return scales_in_instruction(inputs) ? scaling_instruction_for(target, inputs).has_value()
                                       : instruction_for(target, inputs.a.format(), inputs.b.format()).has_value();
}

void require_both_scales(const GemmInputs& inputs) {
  if (inputs.sfa.has_value() == inputs.sfb.has_value()) return;
  throw Error({.code = ViolationCode::missing_input,
               .field = inputs.sfa ? "sfb" : "sfa",
               .seen = "(missing)",
               .expected = "block scales of both operands"});
}

GemmPlan flat_plan(Target target, const GemmInputs& inputs, Format output) {
  require_both_scales(inputs);
  if (!scales_in_instruction(inputs)) return flat_plan(target, inputs.a.format(), inputs.b.format(), output);
  if (const std::optional<Instruction> instruction = scaling_instruction_for(target, inputs))
    return {.name = "flat", .target = target, .chain = TensorCoreChain{.instruction = *instruction}, .output = output};
  const auto targets_with = [&](const GemmInputs& gemm_inputs) {
    std::vector<std::string> able;
    for (const TargetInfo& row : targets) {
      if (scaling_instruction_for(row.id, gemm_inputs)) able.emplace_back(row.name);
    }
    return able;
  };
  const auto text = [](const Matrix& scales) {
    return fmt::format("{} x {} {}", scales.rows(), scales.cols(), info(scales.format()).name);
  };
  const std::string operands = fmt::format("{} x {}", info(inputs.a.format()).name, info(inputs.b.format()).name);
  if (std::vector<std::string> able = targets_with(inputs); !able.empty()) {
    throw Error({.code = ViolationCode::unsupported_target,
                 .field = "target",
                 .seen = std::string(print(target)),
                 .legal = std::move(able),
                 .fix = fmt::format("a type that {} multiplies with block scales {}", operands, text(*inputs.sfa))});
  }
  std::vector<std::string> legal;
  GemmInputs other{.a = Matrix(inputs.a.format(), 1, inputs.a.cols()),
                   .b = Matrix(inputs.b.format(), inputs.a.cols(), 1)};
  for (const Format type : {Format::ue8m0, Format::ue4m3}) {
    for (const int size : {32, 16}) {
      other.sfa = Matrix(type, inputs.a.rows(), (inputs.a.cols() + size - 1) / size);
      if (!targets_with(other).empty()) legal.push_back(text(*other.sfa));
    }
  }
  if (legal.empty()) {
    throw Error({.field = "types",
                 .seen = operands + " with block scales",
                 .expected = "operands of 8 bits and less: e4m3, e5m2, e2m3, e3m2 and e2m1",
                 .fix = "scale_a and scale_b are the scales of a library, in float32"});
  }
  throw Error(
      {.field = "sfa",
       .seen = text(*inputs.sfa),
       .legal = std::move(legal),
       .fix = fmt::format("one scale per row and block of 32 or 16 of K = {}, for {}", inputs.a.cols(), operands)});
}

}  // namespace bitmma
