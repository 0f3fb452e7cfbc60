#include "bitmma/io/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "bitmma/core/error.hpp"
#include "bitmma/instruction/evidence.hpp"
#include "bitmma/instruction/legality.hpp"

namespace bitmma {
namespace {

ReadPlace smem_place(const SmemMatrix& matrix, int cta, int row, int col, Format format) {
  const SmemMap map(matrix);
  const SmemPlace place = code_place(map.place_of(row, col), matrix.element_bits, info(format).bits);
  return {.smem = ReadPlace::Smem{.cta = cta, .linear = map.linear_of(row, col), .place = place},
          .reg = std::nullopt,
          .tmem = std::nullopt};
}

ReadPlace in_register(RegisterPlace place, int shift = 0) {
  place.bit += shift;
  return {.smem = std::nullopt, .reg = place, .tmem = std::nullopt};
}

/// The operands of one case, and its instruction.
std::pair<Instruction, Operands> operands_at(const VectorFile& vectors, int64_t index) {
  if (!vectors.has_images) return {vectors.instruction, logical_operands(vectors, index)};
  if (!vectors.is_tcgen05())
    return {vectors.instruction, gather_operands(vectors.instruction, case_at(vectors, index).view())};
  const Tcgen05Case one = tcgen05_case_at(vectors, index);
  return {one.instruction, gather_operands(one.instruction, one.view())};
}

/// One output's operands alone, so that D is cheap.
Operands operands_of_output(const Operands& operands, int row, int col) {
  Operands one = operands;
  const auto stored = static_cast<size_t>(operands.a.cols());
  one.a.bits = operands.a.bits.row(row).eval();
  one.b.bits = operands.b.bits.col(col).eval();
  if (operands.c) one.c->bits = operands.c->bits.block(row, col, 1, 1).eval();
  if (!operands.selected_k.empty()) {
    const auto first = operands.selected_k.begin() + static_cast<std::ptrdiff_t>(stored * static_cast<size_t>(row));
    one.selected_k.assign(first, first + static_cast<std::ptrdiff_t>(stored));
  }
  one.mixed.clear();
  for (MixedTerm mixed : operands.mixed) {
    if (mixed.row != row) continue;
    mixed.row = 0;
    one.mixed.push_back(mixed);
  }
  if (operands.scales) {
    one.scales->a.bits = operands.scales->a.bits.row(row).eval();
    one.scales->b.bits = operands.scales->b.bits.col(col).eval();
  }
  return one;
}

/// +-magnitude * 2^exponent in units of 2^quantum, the rest dropped.
struct Kept {
  int64_t units = 0;
  bool loses_bits = false;
};
Kept keep(const Exact& value, int quantum) {
  const int shift = value.exponent - quantum;
  uint64_t units = 0;
  bool loses = false;
  if (value.magnitude == 0) return {};
  if (shift >= 0) {
    units = value.magnitude << shift;
  } else {
    units = -shift > 63 ? 0 : value.magnitude >> -shift;
    loses = -shift > 63 || (units << -shift) != value.magnitude;
  }
  const auto kept = static_cast<int64_t>(units);
  return {.units = value.negative ? -kept : kept, .loses_bits = loses};
}

/// (code - exact) in units of the last place of `code`.
std::optional<double> error_in_ulp(Format format, uint32_t code, const ExactSum& exact) {
  const FormatInfo& row = info(format);
  const Decoded value = decode(row, code);
  if (value.number != NumberClass::finite) return std::nullopt;
  ExactSum difference;
  difference.add(
      {.negative = value.negative, .magnitude = value.significand, .exponent = value.exponent - row.mantissa_bits});
  difference -= exact;
  return std::ldexp(difference.approximate(), row.mantissa_bits - value.exponent);
}

void explain_groups(Explanation& e, const AccumulatorModel& model, const Operands& one,
                    const std::vector<ExactTerm>& terms) {
  const int stored = one.a.cols(), chunks = one.scales->a.cols(), groups = stored / group_size;
  const int scale_fraction = 2 * info(one.scales->a.format).mantissa_bits;
  std::vector<Exact> totals;
  for (int g = 0; g < groups; ++g) {
    const int chunk = g * chunks / groups, first = g * group_size;
    ExplainedGroup group{.first_term = first, .scale_a = one.scales->a(0, chunk), .scale_b = one.scales->b(chunk, 0)};
    bool something = false;
    for (int j = first; j < first + group_size; ++j) {
      const ExactTerm& term = terms[static_cast<size_t>(j)];
      const auto quarters = static_cast<int64_t>(uint64_t{term.a.significand << term.a.exponent} *
                                                 (term.b.significand << term.b.exponent));
      something |= quarters != 0;
      group.sum_quarters += term.a.negative != term.b.negative ? -quarters : quarters;
    }
    const Decoded sa = *terms[static_cast<size_t>(first)].scale_a, sb = *terms[static_cast<size_t>(first)].scale_b;
    if (something && sa.significand != 0 && sb.significand != 0) group.exponent = sa.exponent + sb.exponent;
    totals.push_back(
        {.negative = group.sum_quarters < 0,
         .magnitude = static_cast<uint64_t>(std::abs(group.sum_quarters)) * sa.significand * sb.significand,
         .exponent = sa.exponent + sb.exponent - 2 - scale_fraction});
    if (group.exponent && *group.exponent > e.max_exponent)
      e.max_exponent = *group.exponent, e.max_exponent_by = fmt::format("the scales of group {}", g);
    e.groups.push_back(group);
  }
  e.quantum = e.max_exponent - model.fraction_bits;
  for (int g = 0; g < groups; ++g) {
    const Kept kept = keep(totals[static_cast<size_t>(g)], e.quantum);
    e.groups[static_cast<size_t>(g)].kept = kept.units;
    e.groups[static_cast<size_t>(g)].loses_bits = kept.loses_bits;
    e.sum += kept.units;
  }
}

void explain_products(Explanation& e, const AccumulatorModel& model, const std::vector<ExactTerm>& terms) {
  for (size_t j = 0; j < terms.size(); ++j) {
    if (terms[j].product.magnitude == 0) continue;
    int exponent = terms[j].a.exponent + terms[j].b.exponent;
    if (terms[j].scale_a) exponent += terms[j].scale_a->exponent + terms[j].scale_b->exponent;
    e.terms[j].exponent = exponent;
    if (exponent > e.max_exponent) e.max_exponent = exponent, e.max_exponent_by = fmt::format("k = {}", terms[j].k);
  }
  e.quantum = e.max_exponent - model.fraction_bits;
  for (size_t j = 0; j < terms.size(); ++j) {
    const Kept kept = keep(terms[j].product, e.quantum);
    e.terms[j].kept = kept.units;
    e.terms[j].loses_bits = kept.loses_bits;
    e.sum += kept.units;
  }
}

void explain_floats(Explanation& e, const AccumulatorModel& model, const Operands& one) {
  const std::vector<ExactTerm> terms = exact_terms(one, 0, 0);
  const std::optional<Decoded> c = exact_c(one, 0, 0);
  for (size_t j = 0; j < terms.size(); ++j) {
    e.terms[j].product = terms[j].product;
    e.terms[j].special = !terms[j].is_finite();
  }
  e.special = special_result(model.output, terms, c);
  if (!e.special) {
    e.max_exponent = model.floor_exponent;
    e.max_exponent_by = "the floor";
    if (c && c->significand != 0) {
      e.c_exponent = c->exponent;
      if (c->exponent > e.max_exponent) e.max_exponent = c->exponent, e.max_exponent_by = "C";
    }
    if (model.scaling == Scaling::groups_of_16)
      explain_groups(e, model, one, terms);
    else
      explain_products(e, model, terms);
    if (c) {
      const Kept kept = keep({.negative = c->negative,
                              .magnitude = c->significand,
                              .exponent = c->exponent - info(model.output).mantissa_bits},
                             e.quantum);
      e.c_kept = kept.units;
      e.c_loses_bits = kept.loses_bits;
      e.sum += kept.units;
    }
    const ExactSum exact = exact_sum(model.output, terms, c);
    e.exact = exact.print();
    e.exact_value = exact.approximate();
    e.error_ulp = error_in_ulp(model.output, e.d, exact);
  }
  for (const WhatIf& what_if : what_ifs(model, one.a.format, one.b.format)) {
    const uint32_t d = compute(what_if, one, model.output)(0, 0);
    e.alternatives.push_back(
        {.name = what_if.name,
         .d = d,
         .same = d == e.d,
         .error_ulp = e.special ? std::nullopt : error_in_ulp(model.output, d, exact_sum(model.output, terms, c))});
  }
}

std::string ulp_text(const std::optional<double>& error) {
  return error ? fmt::format("{:+.4g} ulp", *error) : "not finite";
}

}  // namespace

std::string print(const ReadPlace& place) {
  if (place.smem) {
    const auto& smem = *place.smem;
    return fmt::format("{}byte {:#x}{}{}", smem.cta ? "odd CTA, " : "", smem.place.byte,
                       smem.place.bit ? fmt::format(" bit {}", smem.place.bit) : "",
                       smem.linear == smem.place.byte ? "" : fmt::format(" (unswizzled {:#x})", smem.linear));
  }
  if (place.reg) return fmt::format("thread {} register {} bit {}", place.reg->thread, place.reg->reg, place.reg->bit);
  return fmt::format("{}lane {} column {} bit {}", place.tmem->cta ? "odd CTA, " : "", place.tmem->lane,
                     place.tmem->column, place.tmem->bit);
}

std::optional<ReadPlace> a_place(const VectorFile& vectors, int64_t index, int row, int stored) {
  const Instruction& instruction = vectors.instruction;
  if (!vectors.has_images) return std::nullopt;
  if (!vectors.is_tcgen05()) {
    const int shift = instruction.family == Family::mma_sync
                          ? container_shift(instruction.a, instruction.container_bits(instruction.a))
                          : 0;
    if (instruction.a_source == OperandSource::registers)
      return in_register(place_of(a_fragment(instruction), row, stored), shift);
    return smem_place(a_matrix(instruction, case_at(vectors, index).registers.a_desc), 0, row, stored, instruction.a);
  }
  const Tcgen05Case one = tcgen05_case_at(vectors, index);
  if (one.instruction.a_source == OperandSource::smem) {
    const int rows = one.instruction.m / one.instruction.cta_group;
    return smem_place(a_matrix(one.instruction, one.state.registers), row / rows, row % rows, stored,
                      one.instruction.a);
  }
  const TmemA map = a_in_tmem(one.instruction, one.state.registers.a_tmem);
  TmemPlace place = map.place_of(row, stored);
  if (one.instruction.ashift) place.lane = shifted_lane(place.lane);
  place.bit += container_shift(one.instruction.a, map.element_bits);
  return ReadPlace{.smem = std::nullopt, .reg = std::nullopt, .tmem = place};
}

std::optional<ReadPlace> b_place(const VectorFile& vectors, int64_t index, int k, int col) {
  const Instruction& instruction = vectors.instruction;
  if (!vectors.has_images) return std::nullopt;
  if (instruction.family == Family::mma_sync)
    return in_register(place_of(b_fragment(instruction), col, k),
                       container_shift(instruction.b, instruction.container_bits(instruction.b)));
  if (!vectors.is_tcgen05())
    return smem_place(b_matrix(instruction, case_at(vectors, index).registers.b_desc), 0, col, k, instruction.b);
  const Tcgen05Case one = tcgen05_case_at(vectors, index);
  const SmemMatrix matrix = b_matrix(one.instruction, one.state.registers);
  const int columns = one.instruction.n / one.instruction.cta_group;
  return smem_place(matrix, col / columns, col % columns + matrix.rows - columns, k,
                    one.instruction.b);  // behind the column shift
}

std::optional<ReadPlace> c_place(const VectorFile& vectors, int64_t index, int row, int col) {
  if (!vectors.has_images) return std::nullopt;
  if (!vectors.is_tcgen05()) return in_register(place_of(d_fragment(vectors.instruction), row, col));
  const Tcgen05Case one = tcgen05_case_at(vectors, index);
  return ReadPlace{.smem = std::nullopt,
                   .reg = std::nullopt,
                   .tmem = d_in_tmem(one.instruction, one.state.registers.d_tmem).place_of(row, col)};
}

Explanation explain(const VectorFile& vectors, int64_t index, int row, int col) {
  if (vectors.move)
    throw Error({.field = "instruction",
                 .seen = vectors.name(),
                 .legal = "a matrix instruction",
                 .fix = "it moves bits and computes nothing; bitmma layout ldst shows where"});
  if (index < 0 || index >= vectors.cases)
    throw Error({.field = "--case", .seen = std::to_string(index), .legal = fmt::format("0..{}", vectors.cases - 1)});
  const auto [instruction, operands] = operands_at(vectors, index);
  if (row < 0 || row >= instruction.m || col < 0 || col >= instruction.n) {
    throw Error({.field = "--row, --col",
                 .seen = fmt::format("{}, {}", row, col),
                 .legal = fmt::format("0..{}, 0..{}", instruction.m - 1, instruction.n - 1)});
  }
  const AccumulatorModel& model = model_for(instruction);
  const Operands one = operands_of_output(operands, row, col);
  Explanation e{.instruction = vectors.name(),
                .rule = print_rule(model),
                .evidence = evidence_of(instruction),
                .a = instruction.a,
                .b = instruction.b,
                .d_format = instruction.d,
                .row = row,
                .col = col};
  for (int j = 0; j < one.a.cols(); ++j) {
    const int k = one.selected_k.empty() ? j : one.selected_k[static_cast<size_t>(j)];
    e.terms.push_back({.k = k,
                       .a_bits = one.a(0, j),
                       .b_bits = one.b(k, 0),
                       .a_place = a_place(vectors, index, row, j),
                       .b_place = b_place(vectors, index, k, col)});
  }
  if (one.c) e.c_bits = (*one.c)(0, 0), e.c_place = c_place(vectors, index, row, col);
  if (one.scales) {
    e.scale_type = one.scales->a.format;
    e.scale_a = one.scales->a(0, 0), e.scale_b = one.scales->b(0, 0);
  }
  e.d = multiply_accumulate(model, one)(0, 0);
  if (vectors.has_recorded_d()) e.recorded_d = recorded_d(vectors, index)(row, col);
  if (model.arithmetic == Arithmetic::fused_sum) {
    explain_floats(e, model, one);
    return e;
  }
  e.integer = true;
  for (ExplainedTerm& term : e.terms) {
    const bool bits = model.arithmetic == Arithmetic::popcount;
    term.kept = bits ? int64_t{term.a_bits & term.b_bits & 1}
                     : decode_integer(e.a, term.a_bits) * decode_integer(e.b, term.b_bits);
    e.sum += term.kept;
  }
  if (e.c_bits) e.c_kept = decode_integer(e.d_format, *e.c_bits), e.sum += e.c_kept;
  e.exact = std::to_string(e.sum);
  e.exact_value = static_cast<double>(e.sum);
  return e;
}

std::string print(const Explanation& e) {
  std::vector<std::vector<std::string>> table;
  const auto kept_text = [](int64_t kept, bool loses) {
    return fmt::format("{}{}", kept, loses ? " (bits dropped)" : "");
  };
  const bool places = !e.terms.empty() && e.terms.front().a_place.has_value(), grouped = !e.groups.empty();
  std::string text =
      fmt::format("{}, row {}, col {}\nrule: {}; {}\n\n", e.instruction, e.row, e.col, e.rule, print(e.evidence));
  for (size_t j = 0; j < e.terms.size(); ++j) {
    const ExplainedTerm& term = e.terms[j];
    if (grouped && j % group_size == 0) {
      const ExplainedGroup& group = e.groups[j / group_size];
      text += fmt::format("group {}: sum {} exactly, scales {} ({}) and {} ({}), ", j / group_size,
                          static_cast<double>(group.sum_quarters) / 4, print_bits(*e.scale_type, group.scale_a),
                          print_value(*e.scale_type, group.scale_a), print_bits(*e.scale_type, group.scale_b),
                          print_value(*e.scale_type, group.scale_b));
      text += group.exponent
                  ? fmt::format("exponent {}, kept {}\n", *group.exponent, kept_text(group.kept, group.loses_bits))
                  : "counts as nothing\n";
    }
    if (e.integer ? term.kept == 0 : term.product.magnitude == 0 && !term.special) continue;  // a zero changes nothing
    text += fmt::format("  k {:>3}  a {} ({}) x b {} ({})", term.k, print_bits(e.a, term.a_bits),
                        print_value(e.a, term.a_bits), print_bits(e.b, term.b_bits), print_value(e.b, term.b_bits));
    if (term.exponent) text += fmt::format("  e {}", *term.exponent);
    if (!grouped && !e.special) text += fmt::format("  kept {}", kept_text(term.kept, term.loses_bits));
    text += '\n';
    if (places) text += fmt::format("         a from {}; b from {}\n", print(*term.a_place), print(*term.b_place));
  }
  if (e.c_bits) {
    text += fmt::format("  C      {} ({})", print_bits(e.d_format, *e.c_bits), print_value(e.d_format, *e.c_bits));
    if (e.c_exponent) text += fmt::format("  e {}", *e.c_exponent);
    if (!e.special) text += fmt::format("  kept {}", kept_text(e.c_kept, e.c_loses_bits));
    if (e.c_place) text += fmt::format("\n         from {}", print(*e.c_place));
    text += '\n';
  }
  text += "terms that are zero are not shown\n\n";
  if (e.special)
    text += fmt::format("NaN or infinity among the operands decides: {}\n", print_value(e.d_format, *e.special));
  else if (e.integer)
    text += fmt::format("sum {}\n", e.sum);
  else
    text += fmt::format("largest exponent {} by {}; terms are multiples of 2^{}\nsum of what is kept: {} * 2^{}\n",
                        e.max_exponent, e.max_exponent_by, e.quantum, e.sum, e.quantum);
  text += fmt::format("D = {} ({})\n", print_bits(e.d_format, e.d), print_value(e.d_format, e.d));
  if (e.recorded_d)
    text += *e.recorded_d == e.d ? "the recorded D is the same\n"
                                 : fmt::format("the recorded D is {} ({})\n", print_bits(e.d_format, *e.recorded_d),
                                               print_value(e.d_format, *e.recorded_d));
  if (!e.special && !e.integer)
    text += fmt::format("exact: {} = {:.17g}; D is off by {}\n", e.exact, e.exact_value, ulp_text(e.error_ulp));
  for (const Alternative& other : e.alternatives) {
    text +=
        fmt::format("{}: {} ({}){}{}\n", other.name, print_bits(e.d_format, other.d), print_value(e.d_format, other.d),
                    e.special ? "" : ", " + ulp_text(other.error_ulp), other.same ? ", the same" : "");
  }
  return text;
}

}  // namespace bitmma
