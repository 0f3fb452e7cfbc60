// SPDX-License-Identifier: MIT
#include "bitmma/math/math_instruction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <unordered_set>

#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/formats/ieee.hpp"
#include "loops.hpp"
#include "mufu.hpp"
#include "place.hpp"

namespace bitmma {
namespace {

using math::infinity_f32;
using math::nan_f32;

struct OperationInfo {
  MathOperation id;
  std::string_view name;
  int operands;
};
constexpr auto operations = std::to_array<OperationInfo>({
    {MathOperation::add, "add", 2},
    {MathOperation::sub, "sub", 2},
    {MathOperation::mul, "mul", 2},
    {MathOperation::fma, "fma", 3},
    {MathOperation::div, "div", 2},
    {MathOperation::rcp, "rcp", 1},
    {MathOperation::sqrt, "sqrt", 1},
    {MathOperation::rsqrt, "rsqrt", 1},
    {MathOperation::ex2, "ex2", 1},
    {MathOperation::lg2, "lg2", 1},
    {MathOperation::sin, "sin", 1},
    {MathOperation::cos, "cos", 1},
    {MathOperation::tanh, "tanh", 1},
});
static_assert(are_in_enum_order(operations));

constexpr const OperationInfo& info(MathOperation operation) { return operations[static_cast<size_t>(operation)]; }

enum class Ftz : uint8_t { never, may, must };

/// A set of operations that tables can hold as a value.
class Operations {
 public:
  constexpr Operations(std::initializer_list<MathOperation> members) {
    for (const MathOperation member : members) mask_ |= 1u << static_cast<int>(member);
  }
  constexpr bool contains(MathOperation operation) const { return (mask_ >> static_cast<int>(operation) & 1) != 0; }

 private:
  uint32_t mask_ = 0;
};

/// The forms that PTX has of some operations with one format.
struct MathForm {
  Operations operations;
  MathAccuracy accuracy;
  Format format;
  Ftz ftz;
  bool any_rounding = false;  // .rn .rz .rm .rp; otherwise .rn
  bool may_sat = false, may_relu = false, has_x2 = false;
  Target first = Target::sm_70;  // the first target with them; .relu needs sm_80 or later
};

using enum MathOperation;

constexpr std::array math_forms{
    MathForm{{add, sub, mul, fma}, MathAccuracy::rounded, Format::f32, Ftz::may, true, true},
    MathForm{{add, sub, mul}, MathAccuracy::rounded, Format::f16, Ftz::may, false, true, false, true},
    MathForm{
        {add, sub, mul}, MathAccuracy::rounded, Format::bf16, Ftz::never, false, false, false, true, Target::sm_90},
    MathForm{{fma}, MathAccuracy::rounded, Format::f16, Ftz::may, false, true, true, true},
    MathForm{{fma}, MathAccuracy::rounded, Format::bf16, Ftz::never, false, false, true, true, Target::sm_80},
    MathForm{{div, rcp, sqrt}, MathAccuracy::rounded, Format::f32, Ftz::may, true},
    MathForm{{div, rcp, sqrt, rsqrt, ex2, lg2, sin, cos}, MathAccuracy::approx, Format::f32, Ftz::may},
    MathForm{{rcp, rsqrt}, MathAccuracy::approx, Format::f64, Ftz::must},
    MathForm{{div}, MathAccuracy::full, Format::f32, Ftz::may},
    MathForm{{tanh}, MathAccuracy::approx, Format::f32, Ftz::never, false, false, false, false, Target::sm_75},
    MathForm{{ex2}, MathAccuracy::approx, Format::f16, Ftz::never, false, false, false, true, Target::sm_75},
    MathForm{{ex2}, MathAccuracy::approx, Format::bf16, Ftz::must, false, false, false, true, Target::sm_90},
    MathForm{{tanh}, MathAccuracy::approx, Format::f16, Ftz::never, false, false, false, true, Target::sm_75},
    MathForm{{tanh}, MathAccuracy::approx, Format::bf16, Ftz::never, false, false, false, true, Target::sm_90},
};

constexpr std::array ptx_roundings{Rounding::nearest_even, Rounding::toward_zero, Rounding::toward_negative,
                                   Rounding::toward_positive};

std::string_view suffix_of(Rounding rounding) {
  switch (rounding) {
    case Rounding::toward_zero: return ".rz";
    case Rounding::toward_negative: return ".rm";
    case Rounding::toward_positive: return ".rp";
    default: return ".rn";
  }
}

void add_instructions(const MathForm& form, MathOperation operation, std::vector<MathInstruction>& instructions) {
  for (const bool x2 : {false, true}) {
    for (const Rounding rounding : ptx_roundings) {
      for (const bool ftz : {false, true}) {
        for (const auto& [sat, relu] : {std::pair(false, false), std::pair(true, false), std::pair(false, true)}) {
          const bool has_rounding = rounding == Rounding::nearest_even || form.any_rounding;
          const bool has_ftz = ftz ? form.ftz != Ftz::never : form.ftz != Ftz::must;
          if ((x2 && !form.has_x2) || !has_rounding || !has_ftz || (sat && !form.may_sat) || (relu && !form.may_relu))
            continue;
          instructions.push_back({.operation = operation,
                                  .accuracy = form.accuracy,
                                  .rounding = rounding,
                                  .ftz = ftz,
                                  .sat = sat,
                                  .relu = relu,
                                  .format = form.format,
                                  .x2 = x2});
        }
      }
    }
  }
}

const std::map<std::string, MathInstruction, std::less<>>& instructions_by_name() {
  static const std::map<std::string, MathInstruction, std::less<>> names = [] {
    std::map<std::string, MathInstruction, std::less<>> by_name;
    for (const MathInstruction& instruction : math_instructions()) {
      const std::string name = print(instruction);
      by_name.emplace(name, instruction);
      // PTX lets add, sub and mul omit .rn.
      const size_t rounding = name.find(".rn");
      const bool may_omit =
          instruction.operation == add || instruction.operation == sub || instruction.operation == mul;
      if (may_omit && rounding != std::string::npos) by_name.emplace(std::string(name).erase(rounding, 3), instruction);
    }
    return by_name;
  }();
  return names;
}

uint64_t key_of(const MathInstruction& instruction) {
  uint64_t key = 0;
  for (const int field : {static_cast<int>(instruction.operation), static_cast<int>(instruction.accuracy),
                          static_cast<int>(instruction.rounding),
                          instruction.ftz | instruction.sat << 1 | instruction.relu << 2 | instruction.x2 << 3,
                          static_cast<int>(instruction.format)})
    key = key << 8 | (static_cast<uint64_t>(field) & 0xFF);
  return key;
}

void require_known(const MathInstruction& instruction) {
  static const std::unordered_set<uint64_t> known = [] {
    std::unordered_set<uint64_t> keys;
    for (const MathInstruction& math_instruction : math_instructions()) keys.insert(key_of(math_instruction));
    return keys;
  }();
  if (known.contains(key_of(instruction))) return;
  throw Error({.code = ViolationCode::unknown_name,
               .field = "instruction",
               .seen = print(instruction),
               .expected = "an instruction of math_instructions()"});
}

bool is_subnormal(const FormatInfo& format, uint64_t code) {
  const uint64_t magnitude = code & ~format.sign_bit();
  return magnitude != 0 && magnitude <= format.mantissa_mask();
}

uint64_t flushed(const FormatInfo& format, uint64_t code) {
  return is_subnormal(format, code) ? code & format.sign_bit() : code;
}

/// Applies .sat and .relu to a result.
uint64_t clamped(const MathInstruction& instruction, uint64_t code) {
  const FormatInfo& format = bitmma::info(instruction.format);
  const bool negative = (code & format.sign_bit()) != 0, nan = decode(format, code).number == NumberClass::nan;
  const uint64_t one = static_cast<uint64_t>(format.bias) << format.mantissa_bits;
  if (instruction.sat) return nan || negative ? 0 : std::min(code, one);
  if (instruction.relu && negative && !nan) return 0;
  return code;
}

uint64_t compute_rounded(const MathInstruction& instruction, uint64_t a, uint64_t b, uint64_t c) {
  const Format format = instruction.format;
  const FormatInfo& row = bitmma::info(format);
  if (instruction.ftz) {
    a = flushed(row, a);
    b = flushed(row, b);
    c = flushed(row, c);
  }
  const uint64_t one = static_cast<uint64_t>(row.bias) << row.mantissa_bits;
  const Rounding rounding = instruction.rounding;
  const Underflow underflow = instruction.ftz ? Underflow::flush : Underflow::gradual;
  const uint64_t result = [&] {
    switch (instruction.operation) {
      case add: return ieee_add(format, a, b, rounding, underflow);
      case sub: return ieee_add(format, a, b ^ row.sign_bit(), rounding, underflow);
      case mul: return ieee_mul(format, a, b, rounding, underflow);
      case fma: return ieee_fma(format, a, b, c, rounding, underflow);
      case div: return ieee_div(format, a, b, rounding, underflow);
      case rcp: return ieee_div(format, one, a, rounding, underflow);
      default: return ieee_sqrt(format, a, rounding);
    }
  }();
  return clamped(instruction, result);
}

uint32_t product(uint32_t a, uint32_t b, bool ftz = false) {
  return static_cast<uint32_t>(compute_rounded({.operation = mul, .ftz = ftz}, a, b, 0));
}

// Powers of two as f32 words.
constexpr uint32_t power_of_two(int exponent) { return static_cast<uint32_t>(exponent + 127) << 23; }

constexpr uint32_t magnitude_of(uint32_t word) { return word & 0x7FFFFFFF; }
/// |word| < 2^-126.
constexpr bool is_tiny(uint32_t word) { return magnitude_of(word) < power_of_two(-126); }
/// |word| > 2^126; false for NaN.
constexpr bool is_huge(uint32_t word) {
  return magnitude_of(word) > power_of_two(126) && magnitude_of(word) <= infinity_f32;
}

/// The factor for both operands of a division: without .ftz, it brings a subnormal divisor into the range of the unit;
/// .full also scales a large divisor.
uint32_t quotient_scale(const MathInstruction& instruction, uint32_t b) {
  if (instruction.accuracy == MathAccuracy::full && is_huge(b)) return power_of_two(-2);
  return !instruction.ftz && is_tiny(b) ? power_of_two(24) : math::one_f32;
}

std::pair<uint32_t, uint32_t> factors_of_quotient(const MathInstruction& instruction, uint32_t a, uint32_t b) {
  const bool ftz = instruction.ftz;
  const uint32_t scale = quotient_scale(instruction, b);
  const uint32_t scaled_a = scale == math::one_f32 ? a : product(a, scale, ftz);
  const uint32_t scaled_b = scale == math::one_f32 ? b : product(b, scale, ftz);
  return {math::mufu_rcp(scaled_b), scaled_a};
}

uint32_t approximate_quotient(const MathInstruction& instruction, uint32_t a, uint32_t b) {
  const auto [reciprocal, dividend] = factors_of_quotient(instruction, a, b);
  return product(reciprocal, dividend, instruction.ftz);
}

/// The factor that ptxas applies to the argument without .ftz if the argument or the result would be subnormal.
uint32_t argument_scale(MathOperation operation, uint32_t a) {
  if (operation == tanh) return math::one_f32;
  if (operation == ex2) {
    const bool small = (a >> 31) != 0 && a > 0xC2FC0000 && magnitude_of(a) <= infinity_f32;  // below -126
    return small ? power_of_two(-1) : math::one_f32;
  }
  if (operation == rcp && is_huge(a)) return power_of_two(-2);
  return is_tiny(a) ? power_of_two(24) : math::one_f32;
}

/// The steps that ptxas puts before the unit (SASS of CUDA 13 for sm_90a): radians become turns; without .ftz, a factor
/// brings an argument or a result that would be subnormal into the range of the unit.
uint32_t unit_argument(MathOperation operation, bool ftz, uint32_t a) {
  if (operation == sin || operation == cos) return math::turns_of(a);
  const uint32_t scale = ftz ? math::one_f32 : argument_scale(operation, a);
  return scale == math::one_f32 ? a : product(a, scale);
}

uint32_t unit_result(MathOperation operation, uint32_t argument) {
  switch (operation) {
    case ex2: return math::mufu_ex2(argument);
    case rcp: return math::mufu_rcp(argument);
    case rsqrt: return math::mufu_rsq(argument);
    case sqrt: return math::mufu_sqrt(argument);
    case lg2: return math::mufu_lg2(argument);
    case sin: return math::mufu_sin(argument);
    case cos: return math::mufu_cos(argument);
    default: return math::mufu_tanh(argument);
  }
}

/// The step that ptxas puts after the unit if it changed the argument: a factor, for lg2 a summand, for ex2 the result
/// itself.
uint32_t result_factor(MathOperation operation, uint32_t a) {
  switch (operation) {
    case rcp: return is_huge(a) ? power_of_two(-2) : power_of_two(24);
    case rsqrt: return power_of_two(12);
    case sqrt: return power_of_two(-12);
    default: return 0xC1C00000;  // - 24
  }
}
uint32_t after_unit(MathOperation operation, uint32_t a, uint32_t result) {
  if (operation == sin || operation == cos) return result;
  if (operation == ex2) return product(result, result);
  const uint32_t factor = result_factor(operation, a);
  return operation == lg2 ? static_cast<uint32_t>(ieee_add(Format::f32, result, factor)) : product(result, factor);
}

uint32_t approximate_f32(MathOperation operation, bool ftz, uint32_t a) {
  const uint32_t argument = unit_argument(operation, ftz, a);
  if (argument == a) return unit_result(operation, a);
  if (operation == ex2 && a >= 0xC3180000) return 0;  // -152: the square rounds to nothing
  return after_unit(operation, a, unit_result(operation, argument));
}

double number_of(uint32_t word) { return static_cast<double>(std::bit_cast<float>(word)); }
uint32_t flushed_f32(uint32_t word) { return static_cast<uint32_t>(flushed(bitmma::info(Format::f32), word)); }
uint32_t rounded_f32(double number) {
  return flushed_f32(static_cast<uint32_t>(
      convert(Format::f64, std::bit_cast<uint64_t>(number), Format::f32, Rounding::nearest_even, Overflow::infinity)));
}

/// A value from the C library, rounded once to f32. C libraries agree to four units in the last place of a double or
/// better. Throws Error for about one word in 2^25, for which two floats remain possible: no library decides a bit.
uint32_t rounded_library_value(MathOperation operation, uint32_t argument, double value) {
  const uint32_t low = rounded_f32(value * (1 - 0x1p-50)), high = rounded_f32(value * (1 + 0x1p-50));
  if (low == high || std::isnan(value)) return rounded_f32(value);
  throw Error({.field = fmt::format("{} of a constant", info(operation).name),
               .seen = print_bits(Format::f32, argument),
               .expected = "a result that is not within 2^-50 of the midpoint of two floats",
               .fix = "ptxas computes it at compile time, in an unknown way"});
}

/// The function that the unit approximates, rounded once. Quotients and roots use IEEE operations on double.
uint32_t exact_unit_result(MathOperation operation, uint32_t argument) {
  const double x = number_of(flushed_f32(argument));
  switch (operation) {
    case rcp: return rounded_f32(1 / x);
    case rsqrt: return rounded_f32(1 / std::sqrt(x));
    case sqrt: return rounded_f32(std::sqrt(x));
    case ex2: return rounded_library_value(operation, argument, std::exp2(x));
    case lg2: return rounded_library_value(operation, argument, std::log2(x));
    case sin: return rounded_library_value(operation, argument, std::sin(x));
    default: return rounded_library_value(operation, argument, std::cos(x));
  }
}

/// The word that the unit reads for a 16-bit format.
uint32_t word_of_16_bits(const MathInstruction& instruction, uint64_t a) {
  const uint64_t input = instruction.ftz ? flushed(bitmma::info(instruction.format), a) : a;
  return static_cast<uint32_t>(
      convert(instruction.format, input, Format::f32, Rounding::nearest_even, Overflow::infinity));
}

/// ex2 and tanh of the 16-bit formats: truncates the f32 word.
uint64_t approximate_16_bits(const MathInstruction& instruction, uint64_t a) {
  const FormatInfo& row = bitmma::info(instruction.format);
  const uint32_t result = unit_result(instruction.operation, word_of_16_bits(instruction, a));
  const uint64_t cut = convert(Format::f32, result, instruction.format, Rounding::toward_zero, Overflow::infinity);
  return instruction.ftz ? flushed(row, cut) : cut;
}

uint64_t compute_one(const MathInstruction& instruction, uint64_t a, uint64_t b, uint64_t c) {
  if (instruction.accuracy == MathAccuracy::rounded) return compute_rounded(instruction, a, b, c);
  if (instruction.format == Format::f64) {
    const auto upper = static_cast<uint32_t>(a >> 32);
    return uint64_t{instruction.operation == rcp ? math::mufu_rcp64h(upper) : math::mufu_rsq64h(upper)} << 32;
  }
  if (instruction.format != Format::f32) return approximate_16_bits(instruction, a);
  const auto word = static_cast<uint32_t>(a);
  if (instruction.operation == div) return approximate_quotient(instruction, word, static_cast<uint32_t>(b));
  return approximate_f32(instruction.operation, instruction.ftz, word);
}

/// Throws Error unless every operand of the instruction has `count` words, and all other operands none.
void require_lengths(const MathInstruction& instruction, const std::array<size_t, 3>& lengths, size_t count) {
  const auto operands = static_cast<size_t>(operand_count(instruction.operation));
  for (size_t i = 0; i < lengths.size(); ++i) {
    const size_t wanted = i < operands ? count : 0;
    if (lengths[i] == wanted) continue;
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = fmt::format("operand {} of {}", i + 1, print(instruction)),
                 .seen = counted(static_cast<int64_t>(lengths[i]), "word"),
                 .expected = counted(static_cast<int64_t>(wanted), "word")});
  }
}

}  // namespace

std::pair<uint32_t, uint32_t> math::quotient_factors(const MathInstruction& instruction, uint32_t a, uint32_t b) {
  return factors_of_quotient(instruction, a, b);
}

std::optional<uint32_t> math::folded_result(const MathInstruction& instruction, uint32_t a) {
  const MathOperation operation = instruction.operation;
  if (instruction.format != Format::f32 || instruction.accuracy != MathAccuracy::approx || operation == tanh ||
      operation == div)
    return std::nullopt;
  const bool is_turned = operation == sin || operation == cos;
  const uint32_t argument = is_turned ? a : unit_argument(operation, instruction.ftz, a);
  const uint32_t result = exact_unit_result(operation, argument);
  const bool is_lg2_of_zero = operation == lg2 && result == 0xFF800000;
  if (magnitude_of(result) > infinity_f32 || is_lg2_of_zero) return std::nullopt;
  if (argument == a) return result;
  if (operation == ex2 && a >= 0xC3180000) return 0;
  return after_unit(operation, a, result);
}

std::optional<std::pair<uint32_t, uint32_t>> math::folded_divisor(const MathInstruction& instruction, uint32_t b) {
  const uint32_t scale = quotient_scale(instruction, b);
  const uint32_t scaled = scale == one_f32 ? b : product(b, scale, instruction.ftz);
  const uint32_t reciprocal = exact_unit_result(rcp, scaled);
  if (magnitude_of(reciprocal) > infinity_f32) return std::nullopt;
  return std::pair(reciprocal, scale);
}

uint64_t math::compute_known(const MathInstruction& instruction, uint64_t a, uint64_t b, uint64_t c) {
  if (!instruction.x2) {
    const uint64_t mask = low_mask(bits_of(instruction.format));
    return compute_one(instruction, a & mask, b & mask, c & mask);
  }
  const uint64_t low = compute_one(instruction, a & 0xFFFF, b & 0xFFFF, c & 0xFFFF);
  return low | compute_one(instruction, a >> 16 & 0xFFFF, b >> 16 & 0xFFFF, c >> 16 & 0xFFFF) << 16;
}

const std::vector<MathInstruction>& math_instructions() {
  static const std::vector<MathInstruction> all = [] {
    std::vector<MathInstruction> instructions;
    for (const OperationInfo& operation : operations) {
      for (const MathForm& form : math_forms) {
        if (form.operations.contains(operation.id)) add_instructions(form, operation.id, instructions);
      }
    }
    return instructions;
  }();
  return all;
}

std::string print(const MathInstruction& instruction) {
  const std::string_view accuracy = instruction.accuracy == MathAccuracy::approx ? ".approx"
                                    : instruction.accuracy == MathAccuracy::full ? ".full"
                                                                                 : suffix_of(instruction.rounding);
  return fmt::format("{}{}{}{}{}.{}{}", info(instruction.operation).name, accuracy, instruction.ftz ? ".ftz" : "",
                     instruction.sat ? ".sat" : "", instruction.relu ? ".relu" : "",
                     bitmma::info(instruction.format).name, instruction.x2 ? "x2" : "");
}

MathInstruction parse_math_instruction(std::string_view ptx) {
  const auto& names = instructions_by_name();
  if (const auto entry = names.find(ptx); entry != names.end()) return entry->second;
  std::vector<std::string> same_operation;
  const std::string_view operation = ptx.substr(0, ptx.find('.'));
  for (const auto& [name, instruction] : names) {
    if (info(instruction.operation).name == operation) same_operation.push_back(name);
  }
  // What nvcc compiles for an operation without its words.
  std::string meant;
  for (const std::string_view words : {".approx.ftz.f32", ".rn.f32"}) {
    const std::string name = fmt::format("{}{}", operation, words);
    if (ptx == operation && meant.empty() && names.contains(name)) meant = name;
  }
  throw Error({.code = ViolationCode::unknown_name,
               .field = "instruction",
               .seen = shortened(printable(ptx)),
               .legal = same_operation.empty() ? row_names(operations) : same_operation,
               .fix = meant.empty() ? "" : fmt::format("did you mean {}?", meant),
               .source = "PTX ISA 9.7.3, 9.7.4"});
}

TargetSet targets_of(const MathInstruction& instruction) {
  require_known(instruction);
  const auto has = [&](const MathForm& form) {
    return form.operations.contains(instruction.operation) && form.accuracy == instruction.accuracy &&
           form.format == instruction.format;
  };
  const Target first = std::ranges::find_if(math_forms, has)->first;
  return TargetSet::from(instruction.relu ? std::max(first, Target::sm_80) : first);
}

int operand_count(MathOperation operation) { return info(operation).operands; }

int result_bits(const MathInstruction& instruction) { return bits_of(instruction.format) * (instruction.x2 ? 2 : 1); }

uint64_t compute(const MathInstruction& instruction, uint64_t a, uint64_t b, uint64_t c) {
  require_known(instruction);
  return math::compute_known(instruction, a, b, c);
}

void compute(const MathInstruction& instruction, std::span<const uint32_t> a, std::span<const uint32_t> b,
             std::span<const uint32_t> c, std::span<uint32_t> results) {
  require_known(instruction);
  if (instruction.format == Format::f64) {
    throw Error({.code = ViolationCode::wrong_type,
                 .field = "instruction",
                 .seen = print(instruction),
                 .expected = "words of 32 bits or fewer",
                 .fix = "use the function for words of 64 bits"});
  }
  require_lengths(instruction, {a.size(), b.size(), c.size()}, results.size());
  if (const math::Loop loop = math::loop_of(instruction)) {
    loop(a.data(), results.data(), results.size());
    if (instruction.ftz) return;
    // The loop implements .ftz. Without .ftz, some words need another path.
    for (size_t i = 0; i < results.size(); ++i) {
      const bool below = instruction.operation == ex2 && (a[i] >> 31) != 0 && a[i] > 0xC2FC0000;
      const bool above = instruction.operation == rcp && is_huge(a[i]);
      if (below || above || is_tiny(a[i])) results[i] = approximate_f32(instruction.operation, false, a[i]);
    }
    return;
  }
  if (const math::RoundedLoop loop = math::rounded_loop_of(instruction))
    return math::run(loop, a.data(), b.data(), c.data(), results.data(), results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    results[i] =
        static_cast<uint32_t>(math::compute_known(instruction, a[i], b.empty() ? 0 : b[i], c.empty() ? 0 : c[i]));
  }
}

void compute(const MathInstruction& instruction, std::span<const uint64_t> a, std::span<const uint64_t> b,
             std::span<const uint64_t> c, std::span<uint64_t> results) {
  require_known(instruction);
  require_lengths(instruction, {a.size(), b.size(), c.size()}, results.size());
  for (size_t i = 0; i < results.size(); ++i)
    results[i] = math::compute_known(instruction, a[i], b.empty() ? 0 : b[i], c.empty() ? 0 : c[i]);
}

std::optional<MufuSteps> mufu_steps(const MathInstruction& instruction, uint64_t a, uint64_t b) {
  require_known(instruction);
  if (instruction.accuracy == MathAccuracy::rounded || instruction.x2 || instruction.format == Format::f64)
    return std::nullopt;
  const bool divides = instruction.operation == div, of_16_bits = instruction.format != Format::f32;
  const MathOperation operation = divides ? rcp : instruction.operation;
  std::vector<WordStep> before, behind;
  const auto step = [](std::string_view name, std::initializer_list<WordStep::Operand> operands, uint32_t result) {
    return WordStep{.operation = name, .operands = operands, .result = result};
  };
  const auto word = static_cast<uint32_t>(a), divisor = static_cast<uint32_t>(b);
  const WordStep::Operand first{word, WordStep::first_argument}, second{divisor, WordStep::second_argument};
  uint32_t argument = 0, dividend = word;
  if (divides) {
    argument = divisor;
    if (const uint32_t scale = quotient_scale(instruction, divisor); scale != math::one_f32) {
      argument = product(divisor, scale, instruction.ftz);
      dividend = product(word, scale, instruction.ftz);
      before = {step("mul", {second, {scale}}, argument), step("mul", {first, {scale}}, dividend)};
    }
  } else if (of_16_bits) {
    argument = word_of_16_bits(instruction, a);
    before = {step("cvt", {first}, argument)};
  } else {
    argument = unit_argument(operation, instruction.ftz, word);
    const bool turns = operation == sin || operation == cos;
    if (turns) before = {step("mul.rz", {first, {math::turns_per_radian}}, argument)};
    else if (argument != word) before = {step("mul", {first, {argument_scale(operation, word)}}, argument)};
  }
  const std::optional<math::Place> place = math::place_of(operation, argument);
  if (!place) return std::nullopt;
  const math::Quadratic& quadratic = *place->quadratic;
  const uint32_t of_unit = unit_result(operation, argument);
  const auto result = static_cast<uint32_t>(math::compute_known(instruction, a, b, 0));
  const WordStep::Operand made{of_unit, WordStep::unit_result};
  if (divides) {
    behind = {step("mul", {made, {dividend, before.empty() ? WordStep::first_argument : 1}}, result)};
  } else if (of_16_bits) {
    behind = {step("cvt.rz", {made}, result)};
  } else if (!before.empty() && operation != sin && operation != cos) {
    const std::string_view name = operation == lg2 ? "add" : "mul";
    behind = {step(name, {made, operation == ex2 ? made : WordStep::Operand{result_factor(operation, word)}}, result)};
  }
  return MufuSteps{
      .before = std::move(before),
      .argument = argument,
      .table = place->table,
      .index = place->index,
      .x = place->x,
      .c0 = quadratic.c0,
      .c1 = quadratic.c1,
      .c2 = quadratic.c2,
      .square = math::truncated_square(place->x),
      .value = operation == rcp ? math::at_16_bits(quadratic, place->x / 2) : math::at(quadratic, place->x),
      .unit = place->unit,
      .unit_result = of_unit,
      .behind = std::move(behind),
      .result = result};
}

std::optional<std::pair<uint64_t, uint64_t>> neighbours_of(const MathInstruction& instruction, uint64_t a, uint64_t b,
                                                           uint64_t c) {
  require_known(instruction);
  if (instruction.accuracy != MathAccuracy::rounded || instruction.x2) return std::nullopt;
  const uint64_t mask = low_mask(bits_of(instruction.format));
  MathInstruction down = instruction, up = instruction;
  for (MathInstruction* math_instruction : {&down, &up}) math_instruction->sat = math_instruction->relu = false;
  down.rounding = Rounding::toward_negative;
  up.rounding = Rounding::toward_positive;
  return std::pair(compute_rounded(down, a & mask, b & mask, c & mask),
                   compute_rounded(up, a & mask, b & mask, c & mask));
}

}  // namespace bitmma
