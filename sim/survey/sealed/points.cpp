// SPDX-License-Identifier: MIT
#include "points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "../../arithmetic/fused_sum.hpp"
#include "../cases.hpp"
#include "bitmma/arithmetic/multiply_accumulate.hpp"
#include "bitmma/instruction/case.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"

namespace bitmma::sealed {
namespace {

using namespace survey;

constexpr int outputs_compared = 256;  // outputs compared in a case of a rule: rows of D, different ones in each case

/// One value of a fact about a rule of addition.
struct Fact {
  std::string text = {};
  std::function<void(AccumulatorModel&)> set;
};
using Facts = std::vector<Fact>;

/// One fact for each value; `text` has a placeholder for it.
template <typename Set>
Facts facts_of(std::initializer_list<int> values, std::string_view text, Set set) {
  Facts facts;
  for (const int value : values) {
    facts.push_back(
        {fmt::format(fmt::runtime(text), value), [set, value](AccumulatorModel& model) { set(model, value); }});
  }
  return facts;
}

Facts fraction_bits(std::initializer_list<int> values) {
  return facts_of(values, "F = {}", [](AccumulatorModel& model, int bits) { model.fraction_bits = bits; });
}

Facts floors(std::initializer_list<int> values) {
  const auto set = [](AccumulatorModel& model, int floor) { model.floor_exponent = floor; };
  Facts facts = facts_of(values, "floor {}", set);
  facts.insert(facts.begin(), {"no floor", [](AccumulatorModel& model) { model.floor_exponent.reset(); }});
  return facts;
}

Facts output_bits(std::initializer_list<int> values) {
  return facts_of(values, "{} mantissa bits of D",
                  [](AccumulatorModel& model, int bits) { model.output_fraction_bits = bits; });
}

Facts roundings() {
  return {{"the sum is truncated", [](AccumulatorModel& model) { model.rounding = Rounding::toward_zero; }},
          {"the sum is rounded to the nearest even",
           [](AccumulatorModel& model) { model.rounding = Rounding::nearest_even; }}};
}

Facts roundings_of_f16() {
  Facts facts = roundings();
  facts.push_back({"the sum is truncated to f32, then rounded to the nearest even f16", [](AccumulatorModel& model) {
                     model.rounding = Rounding::nearest_even;
                     model.overrides.f16_through_f32 = true;
                   }});
  return facts;
}

/// 0: all terms in one sum.
Facts steps(std::initializer_list<int> values) {
  Facts facts;
  for (const int terms : values) {
    facts.push_back({terms == 0 ? "all terms in one sum" : fmt::format("a sum of {} terms after the other", terms),
                     [terms](AccumulatorModel& model) {
                       model.step_order = StepOrder::ascending;
                       model.terms_per_step = terms;
                     }});
  }
  return facts;
}

Facts byte_orders(int half) {
  Facts facts = steps({0, half});
  facts.push_back({"two sums, of k modulo 4 = 0 and 1, then of 2 and 3", [](AccumulatorModel& model) {
                     model.step_order = StepOrder::byte_pairs;
                     model.terms_per_step = 0;
                   }});
  return facts;
}

Facts places_of_c() {
  return {{"C is a term of the first sum", [](AccumulatorModel& model) { model.c_last = false; }},
          {"C is added last", [](AccumulatorModel& model) { model.c_last = true; }}};
}

Facts groups(std::initializer_list<int> values) {
  return facts_of(values, "exact groups of {} products",
                  [](AccumulatorModel& model, int terms) { model.group_terms = terms; });
}

/// The ways to align terms.
Facts alignments() {
  return {{"terms are truncated", [](AccumulatorModel&) {}},
          {"exponents of products are normalised",
           [](AccumulatorModel& model) { model.overrides.product_normalised = true; }},
          {"a product with a zero has an exponent",
           [](AccumulatorModel& model) { model.overrides.zero_product_has_exponent = true; }},
          {"terms are rounded down", [](AccumulatorModel& model) { model.overrides.align_toward_negative = true; }},
          {"C is added exactly", [](AccumulatorModel& model) { model.overrides.c_after_sum = true; }}};
}

/// Removes facts that no operands can reveal: a floor that is below every exponent, or at which nothing is dropped;
/// rounding to f32 before f16 if f32 holds every sum.
AccumulatorModel without_idle_facts(AccumulatorModel model, const Mma& mma) {
  const FormatInfo &a = info(mma.a), &b = info(mma.b), &d = info(mma.d), &scale = info(mma.scale_type);
  const bool scaled = mma.scale_count > 0;
  const int scales = scaled ? 2 * scale.min_exponent() : 0, of_products = a.min_exponent() + b.min_exponent() + scales,
            lowest = std::min(of_products, d.min_exponent()),
            unit = std::min(of_products - a.mantissa_bits - b.mantissa_bits - (scaled ? 2 * scale.mantissa_bits : 0),
                            d.min_exponent() - d.mantissa_bits);
  if (model.floor_exponent <= lowest || *model.floor_exponent - model.fraction_bits <= unit)
    model.floor_exponent.reset();
  constexpr int bits_above_largest = 8;  // sum bits above the exponent of the largest term
  if (model.fraction_bits + bits_above_largest <= info(Format::f32).mantissa_bits + 1)
    model.overrides.f16_through_f32 = false;
  return model;
}

Operands operands_of(const Asked& asked) { return gather_operands(asked.instruction, asked.target, asked.before); }

RuleRows rows_of_case(const Instruction& instruction, uint64_t number) {
  const Mma mma = mma_of(instruction);
  return rows_of(instruction, {.seed = sealed_seed, .case_index = number},
                 std::clamp(outputs_compared / mma.n, 1, mma.m));
}

/// The operands of the compared rows.
Operands compared_operands(const Asked& asked, uint64_t number) {
  const RuleRows rows = rows_of_case(asked.instruction, number);
  return block_of(operands_of(asked), rows.first, rows.count, 0, mma_of(asked.instruction).n);
}

/// Computes D of the compared rows from their operands.
using Product = std::function<Matrix(const Operands&)>;

Rival rival_of(std::string text, Product product) {
  return {std::move(text), [product = std::move(product)](const Asked& asked, uint64_t number) {
            return bytes_of(product(compared_operands(asked, number)));
          }};
}

Rival rival_of(std::string text, const AccumulatorModel& model) {
  return rival_of(std::move(text), [model](const Operands& operands) { return multiply_accumulate(model, operands); });
}

/// D with some codes replaced.
Rival rival_of(std::string text, const AccumulatorModel& model, std::function<uint32_t(uint32_t)> change) {
  return rival_of(std::move(text), [model, change = std::move(change)](const Operands& operands) {
    Matrix d = multiply_accumulate(model, operands);
    for (uint32_t& code : d.words()) code = change(code);
    return d;
  });
}

/// D if the sum uses C as `read` decodes it. Operands are finite.
Rival rival_of_c(std::string text, const AccumulatorModel& model, std::function<Decoded(Decoded)> read) {
  return rival_of(std::move(text), [model, read = std::move(read)](const Operands& operands) {
    Matrix d(model.output, operands.a.rows(), operands.b.cols());
    const Factors factors(operands);
    std::vector<ExactTerm> terms;
    for (int row = 0; row < d.rows(); ++row) {
      for (int col = 0; col < d.cols(); ++col) {
        factors.find_terms(row, col, terms);
        d(row, col) =
            sum_aligned(model, aligned_terms(model, terms), read(*exact_c(operands, row, col, model.output))).code;
      }
    }
    return d;
  });
}

class Points {
 public:
  explicit Points(Target target) : target_(target) {}

  /// A point for a rule: every combination of the facts. Combinations that no operands can separate occur once.
  void add_rule(std::string_view what, const Instruction& instruction, const std::vector<Facts>& axes) {
    if (!violations_of(instruction, target_).empty()) return;
    const Mma mma = mma_of(instruction);
    const AccumulatorModel& row = model_for(instruction, target_);
    std::vector<std::pair<std::string, AccumulatorModel>> models{{"", row}};
    models.front().second.overrides = {};
    for (const Facts& axis : axes) {
      std::vector<std::pair<std::string, AccumulatorModel>> more;
      for (const auto& [text, model] : models) {
        for (const Fact& fact : axis) {
          AccumulatorModel other = model;
          fact.set(other);
          more.emplace_back(text.empty() ? fact.text : fmt::format("{}; {}", text, fact.text), other);
        }
      }
      models = std::move(more);
    }
    Point point = rule_point(what, instruction);
    std::vector<AccumulatorModel> known;
    for (const auto& [text, model] : models) {
      const AccumulatorModel same = without_idle_facts(model, mma);
      if (std::ranges::find(known, same) != known.end()) continue;
      known.push_back(same);
      point.rivals.push_back(rival_of(text, model));
    }
    const auto ours = std::ranges::find(known, without_idle_facts(row, mma));
    if (ours == known.end())
      throw Error({.field = point.name, .seen = print_rule(row), .expected = "one of the answers of the point"});
    if (known.size() < 2)
      throw Error({.field = point.name, .seen = "1 answer", .expected = "2 or more that operands can tell apart"});
    std::swap(point.rivals.front(), point.rivals[static_cast<size_t>(ours - known.begin())]);
    points_.push_back(std::move(point));
  }

  /// A point for the NaN word and the sign of zero.
  void add_words(const Instruction& instruction) {
    if (!violations_of(instruction, target_).empty()) return;
    const AccumulatorModel& row = model_for(instruction, target_);
    AccumulatorModel signs = row, payloads = row;
    signs.overrides.zero_keeps_sign = true;
    payloads.overrides.c_nan_payload_passed = true;
    const FormatInfo& d = info(row.output);
    const auto is_nan = [d](uint32_t code) { return (code & ~d.sign_bit()) > *d.infinity(); };
    const auto quiet = static_cast<uint32_t>(*d.infinity() | 1u << (d.mantissa_bits - 1));
    Point point = rule_point("the words of NaN and of zero", instruction);
    const auto as_nan = [&](uint32_t word) { return [=](uint32_t code) { return is_nan(code) ? word : code; }; };
    const auto ones = static_cast<uint32_t>(*d.canonical_nan());
    point.rivals = {rival_of(fmt::format("NaN is {:#x}, zero +0", ones), row),
                    rival_of(fmt::format("NaN is {:#x}, zero +0", quiet), row, as_nan(quiet)),
                    rival_of(fmt::format("NaN is {:#x}, zero +0", quiet | d.sign_bit()), row,
                             as_nan(static_cast<uint32_t>(quiet | d.sign_bit()))),
                    rival_of(fmt::format("NaN is {:#x}, a zero keeps its sign", ones), signs),
                    rival_of(fmt::format("NaN is {:#x}, a zero keeps its sign", quiet), signs, as_nan(quiet)),
                    rival_of(fmt::format("NaN is {:#x} or C's own, zero +0", ones), payloads)};
    points_.push_back(std::move(point));
  }

  /// A point for a subnormal C with products of similar size.
  void add_subnormal_c(const Instruction& instruction) {
    if (!violations_of(instruction, target_).empty()) return;
    const AccumulatorModel& row = model_for(instruction, target_);
    Point point = rule_point("subnormal C", instruction);
    point.draw = [instruction, target = target_](uint64_t number) {
      RandomStream random(sealed_seed, number);
      Operands operands = bitmma::operands_of(instruction, target, floor_case(number));
      const uint64_t mantissa = info(operands.c->format()).mantissa_mask(),
                     sign = info(operands.c->format()).sign_bit();
      for (uint32_t& code : operands.c->words()) {
        const uint64_t any = random.word64();
        if ((any >> 40 & 3) != 0) code = static_cast<uint32_t>((any & mantissa) >> (any >> 50 & 15) | (any & sign));
      }
      return laid_out(instruction, target, operands, number);
    };
    const auto flushed = [](Decoded c) {
      c.significand = c.significand >> 23 == 0 ? 0 : c.significand;
      return c;
    };
    const auto normalised = [](Decoded c) {
      while (c.significand != 0 && c.significand >> 23 == 0) c.significand <<= 1, --c.exponent;
      return c;
    };
    point.rivals = {rival_of("its exponent is the smallest", row), rival_of_c("it is normalised", row, normalised),
                    rival_of_c("it is zero", row, flushed)};
    points_.push_back(std::move(point));
  }

  /// A point for the floor of exact groups: a positive group near D's smallest number, and a negative one so far below
  /// it that the floor decides whether it contributes. There is no other term: any C has a larger exponent.
  void add_floor_of_groups(const Instruction& instruction, const Facts& floors) {
    const size_t before = points_.size();
    add_rule("floor", instruction, {floors});
    if (points_.size() == before) return;
    points_.back().draw = [instruction, target = target_](uint64_t number) {
      RandomStream random(sealed_seed, number);
      Operands operands = bitmma::operands_of(instruction, target, {.seed = sealed_seed, .case_index = number});
      const auto fill = [](Matrix& matrix, auto code_of) {
        for (int row = 0; row < matrix.rows(); ++row) {
          for (int col = 0; col < matrix.cols(); ++col) matrix.set_code(row, col, code_of(row, col));
        }
      };
      constexpr uint32_t one = 2, sign = 8;  // of e2m1
      constexpr int bias = 127;              // of ue8m0
      const int block = operands.a.cols() / operands.scales->a.cols();
      const auto any = [&] { return 1 + random.below(7); };
      fill(operands.a, [&](int, int k) { return k == 0 ? one : k == block ? any() | sign : 0; });
      fill(operands.b, [&](int k, int) { return k == 0 ? one : any(); });
      fill(*operands.c, [](int, int) { return 0u; });
      fill(operands.scales->a,
           [&](int, int j) { return static_cast<uint32_t>(bias + (j == 0 ? -70 : random.between(-95, -85))); });
      fill(operands.scales->b, [&](int j, int) {
        return static_cast<uint32_t>(bias + (j == 0 ? random.between(-77, -68) : random.between(-85, -79)));
      });
      return laid_out(instruction, target, operands, number);
    };
  }

  /// A point for sums that exceed 32 bits.
  void add_overflow(const Instruction& instruction) {
    if (!violations_of(instruction, target_).empty()) return;
    const AccumulatorModel& row = model_for(instruction, target_);
    const bool clamps = mma_of(instruction).saturate;
    Point point = rule_point(clamps ? "sums beyond 32 bits, with saturation" : "sums beyond 32 bits", instruction);
    const auto with = [row](bool saturate) {
      return [row, saturate](Operands operands) {
        operands.saturate = saturate;
        return multiply_accumulate(row, operands);
      };
    };
    point.rivals = {rival_of("they wrap", with(false)), rival_of("they are clamped", with(true))};
    if (clamps) std::swap(point.rivals[0], point.rivals[1]);
    points_.push_back(std::move(point));
  }

  void add_question(const Question& question) {
    if (!question.targets.contains(target_) && !question.targets.contains(info(target_).adds_as)) return;
    if (!violations_of(question.instruction, target_).empty() || question.answers.size() < 2) return;
    Point point{.name = std::string(question.name), .instruction = question.instruction, .target = target_};
    Hash name;
    name.add(std::vector<uint8_t>(point.name.begin(), point.name.end()));
    point.draw = [question, target = target_, seed = sealed_seed ^ name.value()](uint64_t number) {
      RandomStream random(seed, number);
      return question.ask(question, target, random);
    };
    point.left = [](const Asked& asked, uint64_t, const State& after) {
      return written_bytes(asked.instruction, after);
    };
    for (const Answer& answer : question.answers) {
      point.rivals.push_back({std::string(answer.text), [after = answer.after](const Asked& asked, uint64_t) {
                                return written_bytes(asked.instruction, after(asked));
                              }});
    }
    points_.push_back(std::move(point));
  }

  std::vector<Point> take() { return std::move(points_); }

 private:
  /// A case of the floor probe.
  static RuleCase floor_case(uint64_t number) {
    constexpr uint64_t kinds = 10, floor = 3;
    return {.seed = sealed_seed, .case_index = number * kinds + floor};
  }

  static Asked laid_out(const Instruction& instruction, Target target, const Operands& operands, uint64_t number) {
    return {instruction, target, rule_state({.instruction = instruction}, operands, sealed_seed, number)};
  }

  /// A point without answers. Its probes use the formats only, not the row.
  Point rule_point(std::string_view what, const Instruction& instruction) const {
    Point point{
        .name = fmt::format("{}: {}", what, name_of(instruction)), .instruction = instruction, .target = target_};
    point.draw = [instruction, target = target_](uint64_t number) {
      const RuleCase one{.seed = sealed_seed, .case_index = number};
      return laid_out(instruction, target, bitmma::operands_of(instruction, target, one), number);
    };
    point.left = [](const Asked& asked, uint64_t number, const State& after) {
      const Matrix d = recorded_d(
          {.instruction = asked.instruction, .target = asked.target, .before = asked.before, .after = after});
      return bytes_of(seen_in(rows_of_case(asked.instruction, number), operands_of(asked), d).d);
    };
    return point;
  }

  /// The mnemonic, and the types that only a descriptor states.
  static std::string name_of(const Instruction& instruction) {
    if (!shape_and_types_of(instruction)) return print(instruction);
    const Mma mma = mma_of(instruction);
    return fmt::format("{}, K = {}, {}.{}.{}{}", print(instruction), mma.k, info(mma.d).name, info(mma.a).name,
                       info(mma.b).name, mma.scale_count == 0 ? "" : fmt::format(", {}", info(mma.scale_type).name));
  }

  Target target_;
  std::vector<Point> points_ = {};
};

void add_hopper(Points& points) {
  const Wgmma f16_to_f16{.d = Format::f16}, bf16{.a = Format::bf16, .b = Format::bf16},
      tf32{.a = Format::tf32, .b = Format::tf32}, fp8{.a = Format::e4m3, .b = Format::e5m2},
      fp8_to_f16{.d = Format::f16, .a = Format::e5m2, .b = Format::e5m2};
  points.add_rule("F and alignment", Wgmma{}, {fraction_bits({23, 24, 25, 26, 27}), alignments()});
  points.add_rule("F and floor", bf16, {fraction_bits({24, 25, 26}), floors({-126, -132, -133, -134})});
  points.add_rule("F and steps", tf32, {fraction_bits({24, 25, 26}), steps({0, 4})});
  points.add_rule("F, floor and rounding", f16_to_f16,
                  {fraction_bits({23, 24, 25, 26}), floors({-20, -21, -22}), roundings_of_f16()});
  points.add_rule("F and mantissa bits", fp8, {fraction_bits({12, 13, 14, 24, 25, 26}), output_bits({13, 14, 23})});
  points.add_rule("F and rounding", fp8_to_f16, {fraction_bits({12, 13, 14, 25}), roundings_of_f16()});
  points.add_rule("F and steps", Wgmma{.sparse = true}, {fraction_bits({24, 25, 26}), steps({0, 8})});
  points.add_rule("F and steps", MmaSync{}, {fraction_bits({23, 24, 25, 26}), steps({0, 4, 8})});
  points.add_rule("F, floor and rounding", MmaSync{.d = Format::f16},
                  {fraction_bits({23, 24, 25, 26}), floors({-20, -21, -22}), roundings_of_f16()});
  points.add_rule("order of bytes", MmaSync{.a = Format::e4m3, .b = Format::e4m3},
                  {byte_orders(16), places_of_c(), fraction_bits({13, 24, 25})});
  points.add_rule("order of bytes", MmaSync{.d = Format::f16, .a = Format::e5m2, .b = Format::e5m2},
                  {byte_orders(16), places_of_c(), fraction_bits({13, 25})});
  points.add_words(Wgmma{});
  points.add_words(MmaSync{.d = Format::f16});
  points.add_subnormal_c(bf16);
  points.add_subnormal_c(MmaSync{.a = Format::bf16, .b = Format::bf16});
  for (const bool saturate : {false, true})
    points.add_overflow(Wgmma{.d = Format::s32, .a = Format::s8, .b = Format::s8, .saturate = saturate});
}

/// Kinds and types of tcgen05.mma in one CTA, M = 128.
void add_tcgen05(Points& points) {
  const auto floors_of_f16 = floors({-20, -21, -22}), floors_of_f32 = floors({-126, -132, -133, -134}),
             floors_of_groups = floors({-133, -138, -139, -140});
  const auto with_types = [](Tcgen05Mma mma, Format d, Format a, Format b) {
    mma.d = d, mma.a = a, mma.b = b;
    return mma;
  };
  const Tcgen05Mma f16{.n = 16}, tf32{.kind = MmaKind::tf32, .n = 16}, f8{.kind = MmaKind::f8f6f4, .n = 16},
      mxf8{.kind = MmaKind::mxf8f6f4, .n = 16}, mxf4{.kind = MmaKind::mxf4, .n = 16, .scale_vec = ScaleVec::x2},
      nvf4{.kind = MmaKind::mxf4nvf4, .n = 16, .scale_type = Format::ue4m3},
      nvf4_of_ue8m0{.kind = MmaKind::mxf4nvf4, .n = 16};
  const Tcgen05Mma bf16 = with_types(f16, Format::f32, Format::bf16, Format::bf16),
                   f16_to_f16 = with_types(f16, Format::f16, Format::f16, Format::f16);

  points.add_rule("F, floor and rounding of D f16", f16_to_f16,
                  {fraction_bits({23, 24, 25, 26}), floors_of_f16, roundings_of_f16()});
  for (const auto& [a, b] :
       {std::pair(Format::e5m2, Format::e5m2), {Format::e4m3, Format::e4m3}, {Format::e2m1, Format::e4m3}}) {
    points.add_rule("F and rounding of D f16", with_types(f8, Format::f16, a, b),
                    {fraction_bits({13, 14, 23, 24, 25, 26}), roundings_of_f16()});
  }
  points.add_rule("F and alignment", f16, {fraction_bits({23, 24, 25, 26, 27}), alignments()});
  points.add_rule("F and floor", bf16, {fraction_bits({24, 25, 26}), floors_of_f32});
  points.add_rule("F and floor", tf32, {fraction_bits({24, 25, 26}), floors_of_f32});
  points.add_rule("F and steps", tf32, {fraction_bits({24, 25, 26}), steps({0, 4})});
  points.add_rule("F and mantissa bits", f8, {fraction_bits({13, 14, 24, 25, 26}), output_bits({13, 23})});
  points.add_rule("F and steps", f8, {fraction_bits({13, 25}), steps({0, 8, 16})});
  points.add_rule("F and floor", mxf8, {fraction_bits({24, 25, 26}), floors_of_f32});
  points.add_rule("groups and F", mxf4, {groups({8, 16, 32}), fraction_bits({34, 35, 36})});
  points.add_rule("groups and F", nvf4, {groups({4, 8, 16}), fraction_bits({34, 35, 36})});
  for (const auto& mma : {mxf4, nvf4_of_ue8m0}) points.add_floor_of_groups(mma, floors_of_groups);
  const auto sparse = [](Tcgen05Mma mma) {
    return Tcgen05Mma{.kind = mma.kind,
                      .n = mma.n,
                      .d = mma.d,
                      .a = mma.a,
                      .b = mma.b,
                      .sparse = true,
                      .scale_vec = mma.scale_vec,
                      .scale_type = mma.scale_type};
  };
  points.add_rule("sparse A: F and steps", sparse(f16), {fraction_bits({24, 25, 26}), steps({0, 8})});
  points.add_rule("sparse A: F and steps", sparse(tf32), {fraction_bits({24, 25, 26}), steps({0, 4})});
  points.add_rule("sparse A: F and steps", sparse(f8), {fraction_bits({13, 24, 25, 26}), steps({0, 16})});
  points.add_rule("sparse A: F and steps", sparse(mxf8), {fraction_bits({24, 25, 26}), steps({0, 16})});
  points.add_rule("sparse A: F and steps", sparse(mxf4), {fraction_bits({34, 35, 36}), steps({0, 32})});
  points.add_rule("sparse A: F and steps", sparse(nvf4), {fraction_bits({34, 35, 36}), steps({0, 32})});
  points.add_rule("sparse A: F, floor and rounding of D f16", sparse(f16_to_f16),
                  {fraction_bits({24, 25, 26}), floors_of_f16, roundings_of_f16()});
  points.add_rule("K = 96: sums, groups and F",
                  Tcgen05Mma{.kind = MmaKind::mxf4, .n = 16, .k = 96, .scale_vec = ScaleVec::block32},
                  {steps({0, 32, 64}), groups({16, 32}), fraction_bits({34, 35, 36})});
  points.add_rule(
      "K = 96: sums, groups and F",
      Tcgen05Mma{
          .kind = MmaKind::mxf4nvf4, .n = 16, .k = 96, .scale_vec = ScaleVec::block16, .scale_type = Format::ue4m3},
      {steps({0, 16, 32, 48, 64}), groups({8, 16}), fraction_bits({34, 35, 36})});
  points.add_rule("two CTAs: F and steps", Tcgen05Mma{.cta_group = 2, .m = 256, .n = 32},
                  {fraction_bits({24, 25, 26}), steps({0, 8})});
  points.add_rule(".ws: F and steps", Tcgen05Mma{.weight_stationary = true, .m = 32, .n = 64},
                  {fraction_bits({24, 25, 26}), steps({0, 8})});
  for (const Tcgen05Mma& mma : {f16, f16_to_f16, mxf8, nvf4_of_ue8m0}) points.add_words(mma);
  for (const Tcgen05Mma& mma : {bf16, tf32, mxf8}) points.add_subnormal_c(mma);
  for (const bool saturate : {false, true})
    points.add_overflow(Tcgen05Mma{.kind = MmaKind::i8, .n = 16, .saturate = saturate});
}

/// mma.sync of consumer Blackwell.
void add_consumer(Points& points) {
  const auto floors_of_f32 = floors({-126, -132, -133, -134}), floors_of_groups = floors({-133, -138, -139, -140});
  const MmaSync f8{.kind = MmaKind::f8f6f4}, f8_to_f16{.kind = MmaKind::f8f6f4, .d = Format::f16},
      mxf8{.kind = MmaKind::mxf8f6f4}, mxf4{.kind = MmaKind::mxf4, .scale_vec = ScaleVec::x2},
      nvf4{.kind = MmaKind::mxf4nvf4}, bf16{.a = Format::bf16, .b = Format::bf16};
  points.add_rule("F and steps", MmaSync{}, {fraction_bits({23, 24, 25, 26}), steps({0, 4, 8})});
  points.add_rule("F, floor and rounding of D f16", MmaSync{.d = Format::f16},
                  {fraction_bits({23, 24, 25, 26}), floors({-20, -21, -22}), roundings_of_f16()});
  points.add_rule("F and floor", bf16, {fraction_bits({24, 25, 26}), floors_of_f32});
  points.add_rule("F and mantissa bits", f8, {fraction_bits({13, 14, 24, 25, 26}), output_bits({13, 23})});
  points.add_rule("order of bytes", f8, {byte_orders(16), places_of_c(), fraction_bits({13, 25})});
  points.add_rule("F and rounding of D f16", f8_to_f16, {fraction_bits({13, 24, 25, 26}), roundings_of_f16()});
  points.add_rule("F and floor", mxf8, {fraction_bits({24, 25, 26}), floors_of_f32});
  points.add_rule("groups and F", mxf4, {groups({8, 16, 32}), fraction_bits({34, 35, 36})});
  points.add_rule("groups and F", nvf4, {groups({4, 8, 16}), fraction_bits({34, 35, 36})});
  points.add_floor_of_groups(mxf4, floors_of_groups);
  points.add_rule("sparse A: F and steps", MmaSync{.sparse = true}, {fraction_bits({24, 25, 26}), steps({0, 8})});
  points.add_rule("sparse A: F and steps", MmaSync{.kind = MmaKind::f8f6f4, .sparse = true},
                  {fraction_bits({13, 24, 25, 26}), steps({0, 16})});
  points.add_rule("sparse A: F and steps", MmaSync{.kind = MmaKind::mxf4nvf4, .sparse = true},
                  {fraction_bits({34, 35, 36}), steps({0, 32})});
  for (const MmaSync& mma : {MmaSync{}, f8_to_f16, mxf8}) points.add_words(mma);  // ue4m3 groups have no -0
  for (const MmaSync& mma : {bf16, mxf8}) points.add_subnormal_c(mma);
}

}  // namespace

std::vector<Point> points_of(Target target) {
  Points points(target);
  switch (info(target).adds_as) {
    case Target::sm_90a: add_hopper(points); break;
    case Target::sm_120a: add_consumer(points); break;
    default:
      if (info(target).smem_descriptor != SmemDescriptorVersion::none) add_tcgen05(points);
  }
  for (const Question& question : questions()) points.add_question(question);
  return points.take();
}

uint32_t hash_of(const std::vector<uint8_t>& left) {
  Hash hash;
  hash.add(left);
  return static_cast<uint32_t>(hash.value() ^ hash.value() >> 32);
}

}  // namespace bitmma::sealed
