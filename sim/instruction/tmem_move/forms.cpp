// tcgen05.ld, .st, .cp and .shift: what must hold beyond the form table, what nobody has published, every mnemonic.
#include <fmt/format.h>

#include <algorithm>

#include "../family.hpp"

namespace bitmma::family {

const Form* find(const TmemMove& instruction) {
  const auto row = std::ranges::find_if(
      forms(), [&](const Form& form) { return form.family == Family::tmem_move && form.move == instruction.kind; });
  return row == forms().end() ? nullptr : &*row;
}

std::vector<Violation> violations(const TmemMove& instruction, Target) {
  Checker check("PTX ISA 9.7.16.8 and 9.7.16.9");
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
  if (instruction.ldst.split_columns != 0) {
    check.refuse("split", std::to_string(instruction.ldst.split_columns), "0: the half-split offset says it");
  }
  const auto shapes = static_cast<int>(cp_shapes.size());
  if (instruction.kind == MoveKind::cp && (instruction.cp_shape < 0 || instruction.cp_shape >= shapes)) {
    check.refuse("shape of cp", std::to_string(instruction.cp_shape), fmt::format("0..{}", shapes - 1));
  }
  return check.take();
}

std::vector<Choice> choices(const TmemMove& instruction, Target, const State*) {
  if (instruction.kind == MoveKind::shift)
    return {{"only the 32 lanes of the address move, down by one, the last stays"}};
  if (instruction.kind == MoveKind::st && instruction.ldst.pack_16b) {
    return {{".unpack::16b keeps the upper halves of its cells"}};
  }
  if (instruction.kind == MoveKind::cp && instruction.source_format == CpSourceFormat::b4x16_p64) {
    return {{"4-bit codes land in bits 5:2 of their bytes, where A's are read"}};
  }
  return {};
}

std::vector<Instruction> instances_of_tmem_move(const Form& form) {
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
