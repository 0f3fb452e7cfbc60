// SPDX-License-Identifier: MIT
#include "bitmma/math/c_function.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "../core/cpu_level.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"
#include "c_function_code.hpp"

namespace bitmma {
namespace {

/// results[i] of a[i], or of a[i] and b[i].
using CLoop = void (*)(const uint32_t* a, const uint32_t* b, uint32_t* results, std::size_t count);

template <math::Flush flush>
constexpr int operands_of(math::F32<flush> (*)(math::F32<flush>)) {
  return 1;
}
template <math::Flush flush>
constexpr int operands_of(math::F32<flush> (*)(math::F32<flush>, math::F32<flush>)) {
  return 2;
}

template <math::Flush flush>
uint32_t word_of(math::F32<flush> (*code)(math::F32<flush>), uint32_t a, const uint32_t*, std::size_t) {
  return math::canonical(code(math::F32<flush>::of(a)).word());
}
template <math::Flush flush>
uint32_t word_of(math::F32<flush> (*code)(math::F32<flush>, math::F32<flush>), uint32_t a, const uint32_t* b,
                 std::size_t i) {
  return math::canonical(code(math::F32<flush>::of(a), math::F32<flush>::of(b[i])).word());
}

// One source for all levels: whatever the loop calls is inlined into it, and becomes instructions of its level.
template <auto code>
[[gnu::flatten]] void baseline_loop(const uint32_t* a, const uint32_t* b, uint32_t* results, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) results[i] = word_of(code, a[i], b, i);
}
#if defined(__x86_64__)
template <auto code>
[[gnu::flatten, gnu::target("arch=x86-64-v3")]] void v3_loop(const uint32_t* a, const uint32_t* b, uint32_t* results,
                                                             std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) results[i] = word_of(code, a[i], b, i);
}
template <auto code>
[[gnu::flatten, gnu::target("arch=x86-64-v4")]] void v4_loop(const uint32_t* a, const uint32_t* b, uint32_t* results,
                                                             std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) results[i] = word_of(code, a[i], b, i);
}
template <auto code>
constexpr std::array<CLoop, cpu_levels.size()> loops_of{v4_loop<code>, v3_loop<code>, baseline_loop<code>};
#else
template <auto code>
constexpr std::array<CLoop, cpu_levels.size()> loops_of{baseline_loop<code>, baseline_loop<code>, baseline_loop<code>};
#endif

struct Row {
  CFunction function;
  std::array<CLoop, cpu_levels.size()> loops;  // by CpuLevel
};

using enum CCompiler;
using enum CFunctionEvidence;
using math::Flush;

template <auto code>
constexpr Row row(std::string_view name, CCompiler compiler, CFunctionEvidence evidence, std::string_view source) {
  return {.function = {.name = name,
                       .compiler = compiler,
                       .operands = operands_of(code),
                       .evidence = evidence,
                       .source = source},
          .loops = loops_of<code>};
}

// data/math has a digest a function, and what was compared.
constexpr std::string_view words = "PTX of nvcc 13.0, SASS of its ptxas; all 2^32 words of an H100 and an H200",
                           pairs = "PTX of nvcc 13.0, SASS of its ptxas; 16,000,000 random pairs of an H100",
                           triton = "PTX of Triton 3.6, SASS of its ptxas 12.8; all 2^32 words of an H200",
                           triton_pairs = "PTX of Triton 3.6; 16,000,000 random pairs of an H100 or an H200",
                           instruction = "one instruction: see math_instruction.hpp";

constexpr auto rows = std::to_array<Row>({
    row<math::exp<Flush::none>>("expf", cuda_13, measured, words),
    row<math::ex2<Flush::none>>("exp2f", cuda_13, measured, instruction),
    row<math::exp10<Flush::none>>("exp10f", cuda_13, measured, words),
    row<math::expm1<Flush::none>>("expm1f", cuda_13, measured, words),
    row<math::log<Flush::none>>("logf", cuda_13, measured, words),
    row<math::log2<Flush::none>>("log2f", cuda_13, measured, words),
    row<math::log10<Flush::none>>("log10f", cuda_13, measured, words),
    row<math::log1p<Flush::none>>("log1pf", cuda_13, measured, words),
    row<math::tanh<Flush::none>>("tanhf", cuda_13, measured, words),
    row<math::erf<Flush::none>>("erff", cuda_13, measured, words),
    row<math::sin<Flush::none>>("sinf", cuda_13, measured, words),
    row<math::cos<Flush::none>>("cosf", cuda_13, measured, words),
    row<math::pow>("powf", cuda_13, sampled, pairs),
    row<math::rsqrt<Flush::none>>("rsqrtf", cuda_13, measured, words),
    row<math::rounded_sqrt>("sqrtf", cuda_13, measured, words),
    row<math::rounded_quotient>("division", cuda_13, sampled, pairs),
    row<math::rounded_reciprocal>("reciprocal", cuda_13, measured, words),
    row<math::fast_exp<Flush::none>>("__expf", cuda_13, measured, words),
    row<math::fast_exp10<Flush::none>>("__exp10f", cuda_13, measured, words),
    row<math::fast_log<Flush::none>>("__logf", cuda_13, measured, words),
    row<math::lg2<Flush::none>>("__log2f", cuda_13, measured, instruction),
    row<math::fast_log10<Flush::none>>("__log10f", cuda_13, measured, words),
    row<math::fast_sin<Flush::none>>("__sinf", cuda_13, measured, instruction),
    row<math::fast_cos<Flush::none>>("__cosf", cuda_13, measured, instruction),
    row<math::fast_tanh<Flush::none>>("__tanhf", cuda_13, measured, instruction),
    row<math::fast_pow<Flush::none>>("__powf", cuda_13, sampled, pairs),
    row<math::quotient<Flush::none>>("__fdividef", cuda_13, sampled, pairs),
    row<math::sigmoid>("sigmoid", cuda_13, measured, words),
    row<math::silu>("silu", cuda_13, measured, words),
    row<math::gelu<Flush::none>>("gelu", cuda_13, measured, words),
    row<math::gelu_tanh<Flush::none>>("gelu_tanh", cuda_13, measured, words),

    row<math::fast_exp<Flush::all>>("expf", cuda_13_fast_math, measured, words),
    row<math::ex2<Flush::all>>("exp2f", cuda_13_fast_math, measured, instruction),
    row<math::fast_exp10<Flush::all>>("exp10f", cuda_13_fast_math, measured, words),
    row<math::expm1<Flush::all>>("expm1f", cuda_13_fast_math, measured, words),
    row<math::fast_log<Flush::all>>("logf", cuda_13_fast_math, measured, words),
    row<math::lg2<Flush::all>>("log2f", cuda_13_fast_math, measured, instruction),
    row<math::fast_log10<Flush::all>>("log10f", cuda_13_fast_math, measured, words),
    row<math::log1p<Flush::all>>("log1pf", cuda_13_fast_math, measured, words),
    row<math::fast_tanh<Flush::all>>("tanhf", cuda_13_fast_math, measured, instruction),
    row<math::erf<Flush::all>>("erff", cuda_13_fast_math, measured, words),
    row<math::fast_sin<Flush::all>>("sinf", cuda_13_fast_math, measured, instruction),
    row<math::fast_cos<Flush::all>>("cosf", cuda_13_fast_math, measured, instruction),
    row<math::fast_pow<Flush::all>>("powf", cuda_13_fast_math, sampled, pairs),
    row<math::rsqrt<Flush::all>>("rsqrtf", cuda_13_fast_math, measured, words),
    row<math::fast_sqrt<Flush::all>>("sqrtf", cuda_13_fast_math, measured, words),
    row<math::quotient<Flush::all>>("division", cuda_13_fast_math, sampled, pairs),
    row<math::fast_reciprocal<Flush::all>>("reciprocal", cuda_13_fast_math, measured, words),
    row<math::fast_sigmoid>("sigmoid", cuda_13_fast_math, measured, words),
    row<math::fast_silu>("silu", cuda_13_fast_math, measured, words),
    row<math::gelu<Flush::all>>("gelu", cuda_13_fast_math, measured, words),
    row<math::gelu_tanh<Flush::all>>("gelu_tanh", cuda_13_fast_math, measured, words),

    row<math::fast_exp<Flush::none>>("tl.exp", triton_3_6, measured, triton),
    row<math::ex2<Flush::all>>("tl.exp2", triton_3_6, measured, instruction),
    row<math::log<Flush::calls>>("tl.log", triton_3_6, measured, triton),
    row<math::log2<Flush::calls>>("tl.log2", triton_3_6, measured, triton),
    row<math::sin<Flush::calls>>("tl.sin", triton_3_6, measured, triton),
    row<math::cos<Flush::calls>>("tl.cos", triton_3_6, measured, triton),
    row<math::triton_erf>("tl.erf", triton_3_6, measured, triton),
    row<math::fast_sqrt<Flush::all>>("tl.sqrt", triton_3_6, measured, triton),
    row<math::rounded_sqrt>("tl.sqrt_rn", triton_3_6, measured, triton),
    row<math::rsqrt<Flush::all>>("tl.rsqrt", triton_3_6, measured, triton),
    row<math::triton_sigmoid>("tl.sigmoid", triton_3_6, measured, triton),
    row<math::triton_silu>("silu", triton_3_6, measured, triton),
    row<math::triton_reciprocal>("reciprocal", triton_3_6, measured, triton),
    row<math::full_quotient<Flush::none>>("division", triton_3_6, sampled, "2^30 random pairs on an H100"),
    row<math::rounded_quotient>("tl.div_rn", triton_3_6, sampled, triton_pairs),
    row<math::exp<Flush::calls>>("libdevice.exp", triton_3_6, measured, triton),
    row<math::exp10<Flush::calls>>("libdevice.exp10", triton_3_6, measured, triton),
    row<math::expm1<Flush::calls>>("libdevice.expm1", triton_3_6, measured, triton),
    row<math::log10<Flush::calls>>("libdevice.log10", triton_3_6, measured, triton),
    row<math::log1p<Flush::calls>>("libdevice.log1p", triton_3_6, measured, triton),
    row<math::pow_12>("libdevice.pow", triton_3_6, sampled, triton_pairs),
    row<math::tanh<Flush::calls>>("libdevice.tanh", triton_3_6, measured, triton),
    row<math::fast_exp<Flush::calls>>("libdevice.fast_expf", triton_3_6, measured, triton),
    row<math::fast_log<Flush::calls>>("libdevice.fast_logf", triton_3_6, measured, triton),
    row<math::fast_pow<Flush::calls>>("libdevice.fast_powf", triton_3_6, sampled, triton_pairs),
});

const Row& row_of(const CFunction& function) {
  const auto found = std::ranges::find(rows, function, &Row::function);
  if (found != rows.end()) return *found;
  throw Error({.code = ViolationCode::unknown_name,
               .field = "function",
               .seen = print(function),
               .expected = "a function of c_functions()"});
}

void run(const Row& found, const uint32_t* a, const uint32_t* b, uint32_t* results, std::size_t count) {
  const math::IeeeEnvironment environment;
  found.loops[static_cast<std::size_t>(cpu_level())](a, b, results, count);
}

}  // namespace

const std::vector<CFunction>& c_functions() {
  static const std::vector<CFunction> all = [] {
    std::vector<CFunction> functions;
    for (const Row& one : rows) functions.push_back(one.function);
    return functions;
  }();
  return all;
}

std::string_view print(CFunctionEvidence evidence) {
  constexpr std::array<std::string_view, 3> names{"compiled", "sampled", "measured"};
  return names[static_cast<std::size_t>(evidence)];
}

std::string print(const CFunction& function) {
  return fmt::format("{}@{}", function.name, c_compilers[static_cast<std::size_t>(function.compiler)].name);
}

const CFunction& parse_c_function(std::string_view text) {
  const auto is_named = [text](const CFunction& one) { return text == one.name || text == print(one); };
  const auto found = std::ranges::find_if(c_functions(), is_named);
  if (found != c_functions().end()) return *found;
  std::vector<std::string> names;
  for (const CFunction& one : c_functions()) names.push_back(print(one));
  const std::string near = nearest(text, names);
  throw Error({.code = ViolationCode::unknown_name,
               .field = "function",
               .seen = shortened(printable(text)),
               .legal = names,
               .fix = near.empty() ? "" : fmt::format("did you mean {}?", near)});
}

uint32_t compute(const CFunction& function, uint32_t a, uint32_t b) {
  uint32_t result = 0;
  run(row_of(function), &a, &b, &result, 1);
  return result;
}

void compute(const CFunction& function, std::span<const uint32_t> a, std::span<const uint32_t> b,
             std::span<uint32_t> results) {
  const Row& found = row_of(function);
  const std::array given{a, b};
  for (int i = 0; i < 2; ++i) {
    const std::size_t wanted = i < function.operands ? results.size() : 0;
    if (given[static_cast<std::size_t>(i)].size() == wanted) continue;
    throw Error({.field = fmt::format("operand {} of {}", i + 1, print(function)),
                 .seen = counted(static_cast<int64_t>(given[static_cast<std::size_t>(i)].size()), "word"),
                 .expected = counted(static_cast<int64_t>(wanted), "word")});
  }
  run(found, a.data(), b.data(), results.data(), results.size());
}

}  // namespace bitmma
