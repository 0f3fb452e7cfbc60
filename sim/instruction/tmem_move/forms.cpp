// SPDX-License-Identifier: MIT
// tcgen05.ld, .ld.red, .st, .cp and .shift: rules beyond the form table, unpublished points, and every
// mnemonic.
#include <fmt/format.h>

#include <algorithm>

#include "../family.hpp"

namespace bitmma::family {
namespace {

/// Checks the fields that only ld.red has.
void check_reduction(const TmemMove& move, InstructionChecker& check) {
  constexpr std::string_view source = "PTX ISA 9.4, 9.7.18.8.3; ptxas 13.5";
  const LoadReduction& reduction = move.reduction;
  if (move.kind != MoveKind::ld_red) {
    check.require(reduction == LoadReduction{}, "reduction", "present", "absent except with .ld.red", "", source);
    return;
  }
  const LdStShape shape = move.ldst.shape;
  check.require(shape == LdStShape::s32x32b || shape == LdStShape::s16x32bx2, "shape",
                std::string(ldst_shapes[static_cast<size_t>(shape)].name), "32x32b or 16x32bx2 with .red", "", source);
  check.require(move.ldst.num != 1, ".num", "x1", "x2..x128 with .red", "", source);
  check.require(!move.ldst.pack_16b, ".pack::16b", "present", "absent with .red", "", source);
  const Format type = reduction.type;
  check.require(type == Format::f32 || type == Format::u32 || type == Format::s32, "type", std::string(info(type).name),
                "f32, u32 or s32", "", source);
  if (type == Format::f32) return;
  check.require(!reduction.absolute, ".abs", "present", "absent except with .f32", "", source);
  check.require(!reduction.propagate_nan, ".NaN", "present", "absent except with .f32", "", source);
}

/// Every legal reduction.
std::vector<LoadReduction> reductions() {
  std::vector<LoadReduction> all;
  for (const auto operation : {ReduceOperation::min, ReduceOperation::max}) {
    for (const Format type : {Format::f32, Format::u32, Format::s32}) {
      for (const bool absolute : {false, true}) {
        for (const bool propagate_nan : {false, true}) {
          if (type != Format::f32 && (absolute || propagate_nan)) continue;
          all.push_back({.operation = operation, .absolute = absolute, .propagate_nan = propagate_nan, .type = type});
        }
      }
    }
  }
  return all;
}

std::vector<Instruction> loads_that_reduce() {
  std::vector<Instruction> all;
  for (const LdStShape shape : {LdStShape::s32x32b, LdStShape::s16x32bx2}) {
    for (int num = 2; num <= ldst_shapes[static_cast<size_t>(shape)].max_num; num *= 2) {
      for (const LoadReduction& reduction : reductions()) {
        all.push_back(TmemMove{.kind = MoveKind::ld_red, .ldst = {.shape = shape, .num = num}, .reduction = reduction});
      }
    }
  }
  return all;
}

}  // namespace

const Form* find(const TmemMove& instruction) {
  const auto row = std::ranges::find_if(
      forms(), [&](const Form& form) { return form.family == Family::tmem_move && form.move == instruction.kind; });
  return row == forms().end() ? nullptr : &*row;
}

std::vector<Violation> violations(const TmemMove& instruction, Target) {
  InstructionChecker check("PTX ISA 9.7.16.8 and 9.7.16.9");
  if (instruction.cta_group != 1 && instruction.cta_group != 2) {
    check.refuse("cta_group", std::to_string(instruction.cta_group), "1 or 2");
  }
  if (instruction.has_registers()) {
    try {
      bitmma::require_legal(instruction.ldst);
    } catch (const Error& error) {
      for (const Violation& violation : error.violations()) {
        check.refuse(violation.field, violation.seen, violation.expected, violation.fix, violation.source);
      }
    }
    if (instruction.half_split_offset != 0 && instruction.ldst.shape != LdStShape::s16x32bx2) {
      check.refuse("half-split offset", fmt::format("{:#x}", instruction.half_split_offset),
                   "0: only 16x32bx2 has one");
    }
  }
  check_reduction(instruction, check);
  if (instruction.ldst.split_columns != 0) {
    check.refuse("split", std::to_string(instruction.ldst.split_columns), "0: the half-split offset defines it");
  }
  const auto shapes = static_cast<int>(cp_shapes.size());
  if (instruction.kind == MoveKind::cp && (instruction.cp_shape < 0 || instruction.cp_shape >= shapes)) {
    check.refuse("shape of cp", std::to_string(instruction.cp_shape), fmt::format("0..{}", shapes - 1));
  }
  return check.take();
}

std::vector<Choice> choices(const TmemMove& instruction, Target, const State*) {
  if (instruction.kind == MoveKind::shift) return {Choice::shift_lanes};
  if (instruction.kind == MoveKind::st && instruction.ldst.pack_16b) {
    return {Choice::unpack_upper_halves};
  }
  if (instruction.kind == MoveKind::cp && instruction.source_format == CpSourceFormat::b4x16_p64) {
    return {Choice::fp4_codes_of_cp};
  }
  const LoadReduction& reduction = instruction.reduction;
  if (instruction.kind != MoveKind::ld_red || reduction.type != Format::f32) return {};
  // PTX defines the effect of .NaN, but not the other cases.
  std::vector<Choice> result;
  if (!reduction.propagate_nan) {
    result.push_back(Choice::redval_ignores_nan);
  }
  if (reduction.absolute) {
    result.push_back(Choice::redval_absolute);
  } else {
    result.push_back(Choice::redval_negative_zero);
  }
  return result;
}

std::vector<Instruction> instances_of_tmem_move(const Form& form) {
  if (form.move == MoveKind::ld_red) return loads_that_reduce();
  std::vector<Instruction> all;
  if (form.move == MoveKind::ld || form.move == MoveKind::st) {
    for (const LdStInfo& shape : ldst_shapes) {
      for (int num = 1; num <= shape.max_num; num *= 2) {
        for (const bool pack : {false, true}) {
          all.push_back(TmemMove{.kind = form.move, .ldst = {.shape = shape.id, .num = num, .pack_16b = pack}});
        }
      }
    }
    return all;
  }
  for (const int cta_group : {1, 2}) {
    if (form.move == MoveKind::shift) {
      all.push_back(TmemMove{.kind = form.move, .cta_group = cta_group});
      continue;
    }
    for (int shape = 0; shape < static_cast<int>(cp_shapes.size()); ++shape) {
      for (const auto format : {CpSourceFormat::none, CpSourceFormat::b4x16_p64, CpSourceFormat::b6x16_p32}) {
        all.push_back(TmemMove{.kind = form.move, .cta_group = cta_group, .cp_shape = shape, .source_format = format});
      }
    }
  }
  return all;
}

Instruction vary(const TmemMove& mnemonic, Target, int64_t, RandomStream&) { return mnemonic; }

}  // namespace bitmma::family
