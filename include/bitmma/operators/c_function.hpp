// SPDX-License-Identifier: MIT
// Functions of C's <math.h> on float as compilers for NVIDIA GPUs compile them, bit for bit. They are straight-line
// code around the instructions of math_instruction.hpp: the same name gives other results with other compiler flags.
//
//   compute(parse_c_function("expf"), 0x41200000)                     e^10 by CUDA's expf: 0x46AC14EF
//   compute(parse_c_function("expf@cuda_13_fast_math"), 0x41200000)   with -use_fast_math: 0x46AC14F0
//   compute(parse_c_function("tl.exp"), 0x41200000)                   in a Triton kernel: 0x46AC14F0
//
// Source: the PTX and SASS that the compilers emit for sm_90a; see math/evidence.hpp for comparisons with a GPU. NaN
// results are 0x7FFFFFFF. A kernel that adds to a result may differ: if a function ends with a product without
// a rounding modifier, the compiler contracts it with the sum into one fma, as in `sigmoid`.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/table.hpp"
#include "bitmma/core/target.hpp"
#include "bitmma/math/evidence.hpp"
#include "bitmma/math/word_step.hpp"

namespace bitmma {

enum class CCompiler : uint8_t {
  cuda_13,            // nvcc 13.0 without flags; PyTorch's eager kernels are compiled this way
  cuda_13_fast_math,  // nvcc 13.0 -use_fast_math
  triton_3_6,         // Triton 3.6 with the library that it links
};

struct CCompilerInfo {
  CCompiler id = CCompiler::cuda_13;
  std::string_view name = {};
  std::string_view source = {};
};
inline constexpr auto c_compilers = std::to_array<CCompilerInfo>({
    {CCompiler::cuda_13, "cuda_13", "PTX of nvcc 13.0, SASS of its ptxas"},
    {CCompiler::cuda_13_fast_math, "cuda_13_fast_math", "PTX of nvcc 13.0, SASS of its ptxas"},
    {CCompiler::triton_3_6, "triton_3_6", "PTX of Triton 3.6, SASS of its ptxas 12.8"},
});
static_assert(are_in_enum_order(c_compilers));

struct CFunction {
  std::string_view name = {};  // as programs call it: "expf", "__expf", "tl.exp", "libdevice.tanh"
  CCompiler compiler = CCompiler::cuda_13;
  int operands = 1;              // 1 or 2
  std::string_view source = {};  // the code that was read

  bool operator==(const CFunction&) const = default;
};

/// All supported functions, by compiler.
const std::vector<CFunction>& c_functions();

/// "expf@cuda_13".
std::string print(const CFunction& function);
/// The inverse; a name alone is its first row. Throws Error, which lists the nearest names.
const CFunction& parse_c_function(std::string_view text);

/// The result for one word each; the second operand is ignored if the function has only one. It neither depends on nor
/// changes the caller's floating-point environment. Throws Error if the function is not one of c_functions().
uint32_t compute(const CFunction& function, uint32_t a, uint32_t b = 0);

/// results[i] for a[i] and b[i], vectorised where possible; `results` may be `a`. Functions with one operand take an
/// empty b. Throws Error if a length differs from that of `results`.
void compute(const CFunction& function, std::span<const uint32_t> a, std::span<const uint32_t> b,
             std::span<uint32_t> results);

/// The f32 operations in compute(function, a, b) that lead to its result or that integer code reads, in order. Integer
/// code, such as building a power of two from an exponent, is not shown: its result appears as a constant. Throws Error
/// if the function is not one of c_functions().
std::vector<WordStep> steps_of(const CFunction& function, uint32_t a, uint32_t b = 0);

/// The evidence for a result. The functions are compiled for sm_90a: on other targets it is assumed.
EvidenceOfWords evidence_of(const CFunction& function, Target target);

}  // namespace bitmma
