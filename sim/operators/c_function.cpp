// SPDX-License-Identifier: MIT
#include "bitmma/operators/c_function.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "../core/cpu_level.hpp"
#include "../math/compared.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"
#include "c_function_code.hpp"

namespace bitmma {

namespace {

using math::Flush;

/// Computes results[i] from a[i], or from a[i] and b[i].
using CLoop = void (*)(const uint32_t* a, const uint32_t* b, uint32_t* results, std::size_t count);

/// The number of operands of `Code`, a function of F32.
template <typename Code, typename F = math::F32<Flush::none>>
constexpr int operands_of = std::is_invocable_v<Code, F> ? 1 : 2;

template <Flush flush, typename Code>
math::F32<flush> result_of(math::F32<flush> a, math::F32<flush> b) {
  if constexpr (operands_of<Code> == 1) return Code()(a);
  else return Code()(a, b);
}

template <Flush flush, typename Code>
uint32_t word_of(uint32_t a, const uint32_t* b, std::size_t i) {
  using F = math::F32<flush>;
  return math::canonical(result_of<flush, Code>(F::of(a), operands_of<Code> == 1 ? F() : F::of(b[i])).word());
}

// One source for all levels: the compiler inlines all calls into the loop and uses the instructions of its level.
template <Flush flush, typename Code>
[[gnu::flatten]] void baseline_loop(const uint32_t* a, const uint32_t* b, uint32_t* results, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) results[i] = word_of<flush, Code>(a[i], b, i);
}
#if defined(__x86_64__)
template <Flush flush, typename Code>
[[gnu::flatten, gnu::target("arch=x86-64-v3")]] void v3_loop(const uint32_t* a, const uint32_t* b, uint32_t* results,
                                                             std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) results[i] = word_of<flush, Code>(a[i], b, i);
}
template <Flush flush, typename Code>
[[gnu::flatten, gnu::target("arch=x86-64-v4")]] void v4_loop(const uint32_t* a, const uint32_t* b, uint32_t* results,
                                                             std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) results[i] = word_of<flush, Code>(a[i], b, i);
}
template <Flush flush, typename Code>
constexpr std::array<CLoop, cpu_levels.size()> loops_of{v4_loop<flush, Code>, v3_loop<flush, Code>,
                                                        baseline_loop<flush, Code>};
#else
template <Flush flush, typename Code>
constexpr std::array<CLoop, cpu_levels.size()> loops_of{baseline_loop<flush, Code>, baseline_loop<flush, Code>,
                                                        baseline_loop<flush, Code>};
#endif

/// Computes the same and takes notes; returns the note of the result, or a negative number.
using CNoted = int (*)(uint32_t a, uint32_t b);
template <Flush flush, typename Code>
int noted_result(uint32_t a, uint32_t b) {
  using F = math::F32<flush.noted()>;
  F x = F::of(a), y = F::of(b);
  x.from = WordStep::first_argument;
  y.from = WordStep::second_argument;
  return result_of<flush.noted(), Code>(x, y).from;
}

struct FunctionRow {
  CFunction function;
  std::array<CLoop, cpu_levels.size()> loops;  // by CpuLevel
  CNoted noted;
};

using enum CCompiler;

template <Flush flush, typename Code>
constexpr FunctionRow row(std::string_view name, CCompiler compiler, Code) {
  return {.function = {.name = name,
                       .compiler = compiler,
                       .operands = operands_of<Code>,
                       .source = c_compilers[static_cast<std::size_t>(compiler)].source},
          .loops = loops_of<flush, Code>,
          .noted = noted_result<flush, Code>};
}

constexpr auto rows = std::to_array<FunctionRow>({
    row<Flush::none>("expf", cuda_13, [](auto x) { return math::exp(x); }),
    row<Flush::none>("exp2f", cuda_13, [](auto x) { return math::ex2(x); }),
    row<Flush::none>("exp10f", cuda_13, [](auto x) { return math::exp10(x); }),
    row<Flush::none>("expm1f", cuda_13, [](auto x) { return math::expm1(x); }),
    row<Flush::none>("logf", cuda_13, [](auto x) { return math::log(x); }),
    row<Flush::none>("log2f", cuda_13, [](auto x) { return math::log2(x); }),
    row<Flush::none>("log10f", cuda_13, [](auto x) { return math::log10(x); }),
    row<Flush::none>("log1pf", cuda_13, [](auto x) { return math::log1p(x); }),
    row<Flush::none>("tanhf", cuda_13, [](auto x) { return math::tanh(x); }),
    row<Flush::none>("erff", cuda_13, [](auto x) { return math::erf(x); }),
    row<Flush::none>("sinf", cuda_13, [](auto x) { return math::sin(x); }),
    row<Flush::none>("cosf", cuda_13, [](auto x) { return math::cos(x); }),
    row<Flush::none>("powf", cuda_13, [](auto x, auto y) { return math::pow(x, y); }),
    row<Flush::none>("rsqrtf", cuda_13, [](auto x) { return math::rsqrt(x); }),
    row<Flush::none>("sqrtf", cuda_13, [](auto x) { return math::rounded_sqrt(x); }),
    row<Flush::none>("division", cuda_13, [](auto x, auto y) { return math::rounded_quotient(x, y); }),
    row<Flush::none>("reciprocal", cuda_13, [](auto x) { return math::rounded_reciprocal(x); }),
    row<Flush::none>("__expf", cuda_13, [](auto x) { return math::fast_exp(x); }),
    row<Flush::none>("__exp10f", cuda_13, [](auto x) { return math::fast_exp10(x); }),
    row<Flush::none>("__logf", cuda_13, [](auto x) { return math::fast_log(x); }),
    row<Flush::none>("__log2f", cuda_13, [](auto x) { return math::lg2(x); }),
    row<Flush::none>("__log10f", cuda_13, [](auto x) { return math::fast_log10(x); }),
    row<Flush::none>("__sinf", cuda_13, [](auto x) { return math::fast_sin(x); }),
    row<Flush::none>("__cosf", cuda_13, [](auto x) { return math::fast_cos(x); }),
    row<Flush::none>("__tanhf", cuda_13, [](auto x) { return math::fast_tanh(x); }),
    row<Flush::none>("__powf", cuda_13, [](auto x, auto y) { return math::fast_pow(x, y); }),
    row<Flush::none>("__fdividef", cuda_13, [](auto x, auto y) { return math::quotient(x, y); }),
    row<Flush::none>("sigmoid", cuda_13, [](auto x) { return math::sigmoid(x); }),
    row<Flush::none>("silu", cuda_13, [](auto x) { return math::silu(x); }),
    row<Flush::none>("gelu", cuda_13, [](auto x) { return math::gelu(x); }),
    row<Flush::none>("gelu_tanh", cuda_13, [](auto x) { return math::gelu_tanh(x); }),

    row<Flush::all>("expf", cuda_13_fast_math, [](auto x) { return math::fast_exp(x); }),
    row<Flush::all>("exp2f", cuda_13_fast_math, [](auto x) { return math::ex2(x); }),
    row<Flush::all>("exp10f", cuda_13_fast_math, [](auto x) { return math::fast_exp10(x); }),
    row<Flush::all>("expm1f", cuda_13_fast_math, [](auto x) { return math::expm1(x); }),
    row<Flush::all>("logf", cuda_13_fast_math, [](auto x) { return math::fast_log(x); }),
    row<Flush::all>("log2f", cuda_13_fast_math, [](auto x) { return math::lg2(x); }),
    row<Flush::all>("log10f", cuda_13_fast_math, [](auto x) { return math::fast_log10(x); }),
    row<Flush::all>("log1pf", cuda_13_fast_math, [](auto x) { return math::log1p(x); }),
    row<Flush::all>("tanhf", cuda_13_fast_math, [](auto x) { return math::fast_tanh(x); }),
    row<Flush::all>("erff", cuda_13_fast_math, [](auto x) { return math::erf(x); }),
    row<Flush::all>("sinf", cuda_13_fast_math, [](auto x) { return math::fast_sin(x); }),
    row<Flush::all>("cosf", cuda_13_fast_math, [](auto x) { return math::fast_cos(x); }),
    row<Flush::all>("powf", cuda_13_fast_math, [](auto x, auto y) { return math::fast_pow(x, y); }),
    row<Flush::all>("rsqrtf", cuda_13_fast_math, [](auto x) { return math::rsqrt(x); }),
    row<Flush::all>("sqrtf", cuda_13_fast_math, [](auto x) { return math::fast_sqrt(x); }),
    row<Flush::all>("division", cuda_13_fast_math, [](auto x, auto y) { return math::quotient(x, y); }),
    row<Flush::all>("reciprocal", cuda_13_fast_math, [](auto x) { return math::fast_reciprocal(x); }),
    row<Flush::all>("sigmoid", cuda_13_fast_math, [](auto x) { return math::fast_sigmoid(x); }),
    row<Flush::all>("silu", cuda_13_fast_math, [](auto x) { return math::fast_silu(x); }),
    row<Flush::all>("gelu", cuda_13_fast_math, [](auto x) { return math::gelu(x); }),
    row<Flush::all>("gelu_tanh", cuda_13_fast_math, [](auto x) { return math::gelu_tanh(x); }),

    row<Flush::none>("tl.exp", triton_3_6, [](auto x) { return math::fast_exp(x); }),
    row<Flush::all>("tl.exp2", triton_3_6, [](auto x) { return math::ex2(x); }),
    row<Flush::calls>("tl.log", triton_3_6, [](auto x) { return math::log(x); }),
    row<Flush::calls>("tl.log2", triton_3_6, [](auto x) { return math::log2(x); }),
    row<Flush::calls>("tl.sin", triton_3_6, [](auto x) { return math::sin(x); }),
    row<Flush::calls>("tl.cos", triton_3_6, [](auto x) { return math::cos(x); }),
    row<Flush::calls>("tl.erf", triton_3_6, [](auto x) { return math::triton_erf(x); }),
    row<Flush::all>("tl.sqrt", triton_3_6, [](auto x) { return math::fast_sqrt(x); }),
    row<Flush::none>("tl.sqrt_rn", triton_3_6, [](auto x) { return math::rounded_sqrt(x); }),
    row<Flush::all>("tl.rsqrt", triton_3_6, [](auto x) { return math::rsqrt(x); }),
    row<Flush::none>("tl.sigmoid", triton_3_6, [](auto x) { return math::triton_sigmoid(x); }),
    row<Flush::none>("silu", triton_3_6, [](auto x) { return math::triton_silu(x); }),
    row<Flush::none>("reciprocal", triton_3_6, [](auto x) { return math::triton_reciprocal(x); }),
    row<Flush::none>("division", triton_3_6, [](auto x, auto y) { return math::full_quotient(x, y); }),
    row<Flush::none>("tl.div_rn", triton_3_6, [](auto x, auto y) { return math::rounded_quotient(x, y); }),
    row<Flush::calls>("libdevice.exp", triton_3_6, [](auto x) { return math::exp(x); }),
    row<Flush::calls>("libdevice.exp10", triton_3_6, [](auto x) { return math::exp10(x); }),
    row<Flush::calls>("libdevice.expm1", triton_3_6, [](auto x) { return math::expm1(x); }),
    row<Flush::calls>("libdevice.log10", triton_3_6, [](auto x) { return math::log10(x); }),
    row<Flush::calls>("libdevice.log1p", triton_3_6, [](auto x) { return math::log1p(x); }),
    row<Flush::calls>("libdevice.pow", triton_3_6, [](auto x, auto y) { return math::pow_12(x, y); }),
    row<Flush::calls>("libdevice.tanh", triton_3_6, [](auto x) { return math::tanh(x); }),
    row<Flush::calls>("libdevice.fast_expf", triton_3_6, [](auto x) { return math::fast_exp(x); }),
    row<Flush::calls>("libdevice.fast_logf", triton_3_6, [](auto x) { return math::fast_log(x); }),
    row<Flush::calls>("libdevice.fast_powf", triton_3_6, [](auto x, auto y) { return math::fast_pow(x, y); }),
});

const FunctionRow& row_of(const CFunction& function) {
  const auto row = std::ranges::find(rows, function, &FunctionRow::function);
  if (row != rows.end()) return *row;
  throw Error({.code = ViolationCode::unknown_name,
               .field = "function",
               .seen = print(function),
               .expected = "a function of c_functions()"});
}

void run(const FunctionRow& row, const uint32_t* a, const uint32_t* b, uint32_t* results, std::size_t count) {
  const math::IeeeEnvironment environment;
  at_cpu_level(row.loops)(a, b, results, count);
}

}  // namespace

const std::vector<CFunction>& c_functions() {
  static const std::vector<CFunction> all = [] {
    std::vector<CFunction> functions;
    for (const FunctionRow& row : rows) functions.push_back(row.function);
    return functions;
  }();
  return all;
}

std::string print(const CFunction& function) {
  return fmt::format("{}@{}", function.name, c_compilers[static_cast<std::size_t>(function.compiler)].name);
}

const CFunction& parse_c_function(std::string_view text) {
  const auto is_named = [text](const CFunction& function) { return text == function.name || text == print(function); };
  const auto match = std::ranges::find_if(c_functions(), is_named);
  if (match != c_functions().end()) return *match;
  std::vector<std::string> names, alone;
  for (const CFunction& function : c_functions()) {
    names.push_back(print(function));
    alone.emplace_back(function.name);
  }
  const bool has_compiler = text.find('@') != std::string_view::npos;
  const std::string near = nearest(text, has_compiler ? names : alone);
  throw Error({.code = ViolationCode::unknown_name,
               .field = "function",
               .seen = shortened(printable(text)),
               .expected = "a C function as a compiler translates it, such as expf@cuda_13 or tl.exp",
               .fix = near.empty() ? "bitmma math --list shows all" : fmt::format("did you mean {}?", near)});
}

uint32_t compute(const CFunction& function, uint32_t a, uint32_t b) {
  uint32_t result = 0;
  run(row_of(function), &a, &b, &result, 1);
  return result;
}

void compute(const CFunction& function, std::span<const uint32_t> a, std::span<const uint32_t> b,
             std::span<uint32_t> results) {
  const FunctionRow& row = row_of(function);
  const std::array operands{a, b};
  for (int i = 0; i < 2; ++i) {
    const std::size_t wanted = i < function.operands ? results.size() : 0;
    if (operands[static_cast<std::size_t>(i)].size() == wanted) continue;
    throw Error({.field = fmt::format("operand {} of {}", i + 1, print(function)),
                 .seen = counted(static_cast<int64_t>(operands[static_cast<std::size_t>(i)].size()), "word"),
                 .expected = counted(static_cast<int64_t>(wanted), "word")});
  }
  run(row, a.data(), b.data(), results.data(), results.size());
}

std::vector<WordStep> steps_of(const CFunction& function, uint32_t a, uint32_t b) {
  const FunctionRow& row = row_of(function);
  std::vector<math::Note> notes;
  const int last = [&] {
    const math::IeeeEnvironment environment;
    math::notes = &notes;
    const int note = row.noted(a, b);
    math::notes = nullptr;
    return note;
  }();
  // Code without branches computes both alternatives: only the notes that lead to the result count.
  const auto at = [](int note) { return static_cast<std::size_t>(note); };
  std::vector<bool> leads(notes.size());
  if (last >= 0) leads[at(last)] = true;
  for (std::size_t i = notes.size(); i-- > 0;) {
    leads[i] = leads[i] || notes[i].is_read;
    for (const math::Note::Operand& operand : notes[i].operands)
      if (leads[i] && operand.from >= 0) leads[at(operand.from)] = true;
  }
  std::vector<int> place(notes.size(), WordStep::constant);
  std::vector<WordStep> steps;
  for (std::size_t i = 0; i < notes.size(); ++i) {
    if (!leads[i]) continue;
    place[i] = static_cast<int>(steps.size());
    WordStep step{.operation = notes[i].operation, .result = math::canonical(notes[i].result)};
    for (const math::Note::Operand& operand : notes[i].operands)
      step.operands.push_back(
          {.word = operand.word, .from = operand.from >= 0 ? place[at(operand.from)] : operand.from});
    steps.push_back(std::move(step));
  }
  return steps;
}

EvidenceOfWords evidence_of(const CFunction& function, Target target) {
  const bool is_compiled_for = info(target).chip == Target::sm_90;
  return math::compared_or(
      print(function), function.operands, target,
      {.level = is_compiled_for ? WordEvidence::compiled : WordEvidence::assumed,
       .source = is_compiled_for ? std::string(function.source) : "as compiled for sm_90a and measured there"});
}

}  // namespace bitmma
