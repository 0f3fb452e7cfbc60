#include "bitmma/operators/c_function.hpp"

#include <fmt/format.h>

#include <cfenv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "bitmma/arithmetic/cpu_target.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/math/math_instruction.hpp"
#include "core/sha256.hpp"
#include "math/f32.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/ptx_interpreter.hpp"

using namespace bitmma;
using math::F32;
using math::Flush;

namespace {

/// Words next to these are where functions change their way, or end.
constexpr uint32_t boundaries[]{
    0x00000000, 0x00000001, 0x007FFFFF, 0x00800000, 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000,
    0x3F000000, 0x40000000, 0x40400000, 0x42FC0000, 0x43160000, 0x42B17218, 0x42CFF1B5, 0x41900000, 0x3ED1EB85,
    0x3F2AAAAB, 0x3F3504F3, 0x3FB504F3, 0x3F19999A, 0x41102CB4, 0x3F8060FE, 0x47CE4780, 0x3F490FDB, 0x4B000000,
    0x4B800000, 0x4F000000, 0x5F000000, 0x7E800000, 0x7F000000, 0x77F684DF, 0x3C000000, 0x41000000,
};

/// Random words of all magnitudes, more of those that functions are called with, and words next to the boundaries.
uint32_t argument(RandomStream& random) {
  const uint32_t word = random.word();
  switch (random.below(8)) {
    case 0: return word;
    case 1: return (word & 0x83FFFFFF) + 0x3D000000;  // 2^-5 to 2^3
    case 2: return (word & 0x80FFFFFF) + 0x3F000000;  // 1/2 to 2
    case 3: return (word & 0x87FFFFFF) + 0x3F800000;  // 1 to 65536
    case 4: return word & 0x807FFFFF;                 // subnormal
    case 5: return (word & 0x81F00000) + 0x3F000000;  // few bits: integers among them
    default: return (boundaries[random.below(std::size(boundaries))] | (word & 0x80000000)) + random.below(7) - 3;
  }
}

struct Arguments {
  std::vector<uint32_t> a, b;  // b is empty for functions of one operand
};

/// For two operands, some pairs that make a power as large or small as f32 has.
Arguments arguments_of(int operands, size_t count, uint64_t seed) {
  RandomStream random(seed, 0);
  Arguments made;
  for (size_t i = 0; i < count; ++i) {
    made.a.push_back(argument(random));
    if (operands < 2) continue;
    made.b.push_back(argument(random));
    if (i % 8 != 0) continue;
    // The host's log2 would give other machines other words.
    const double logarithm = std::bit_cast<float>(compute(parse_c_function("log2f"), made.a[i] & 0x7FFFFFFF));
    const double powers[]{128, -126, -149, -150};
    const double y = powers[random.below(4)] / logarithm;
    if (std::abs(y) < 1e30) made.b[i] = std::bit_cast<uint32_t>(static_cast<float>(y)) + random.below(9) - 4;
  }
  return made;
}

std::vector<uint32_t> results_of(const CFunction& function, const Arguments& arguments) {
  std::vector<uint32_t> results(arguments.a.size());
  compute(function, arguments.a, arguments.b, results);
  return results;
}

/// Every function that `module_of` has a kernel of, against the interpreter of its PTX. How many there were. Under
/// sanitizers each fifth of them is compared.
int compare_with_ptx(CCompiler compiler, const std::function<std::string(const CFunction&)>& module_of,
                     const std::function<std::string(const CFunction&)>& entry_of) {
  int compared = 0;
  for (const CFunction& function : c_functions()) {
    if (function.compiler != compiler) continue;
    if (compared++ % test::amount(5, 1, 1) != 0) continue;
    test::PtxKernel kernel(module_of(function), entry_of(function), function.operands);
    const Arguments arguments = arguments_of(function.operands, test::amount<size_t>(5000, 50000, 50000), 30);
    const std::vector<uint32_t> results = results_of(function, arguments);
    int64_t differing = 0;
    std::string first;
    for (size_t i = 0; i < results.size(); ++i) {
      const uint32_t a = arguments.a[i], b = function.operands > 1 ? arguments.b[i] : 0;
      const uint32_t expected = math::canonical(kernel.run(a, b));
      if (results[i] == expected) continue;
      if (differing++ == 0)
        first = fmt::format("{:#010x} {:#010x}: {:#010x}, PTX {:#010x}", a, b, results[i], expected);
    }
    INFO(print(function) << " of " << first);
    CHECK(differing == 0);
  }
  return compared;
}

}  // namespace

TEST_CASE("every C function is read back from its name, and others are refused") {
  std::set<std::string> names;
  for (const CFunction& function : c_functions()) {
    INFO(print(function));
    CHECK(names.insert(print(function)).second);
    CHECK(parse_c_function(print(function)) == function);
    CHECK_FALSE(function.source.empty());
  }
  CHECK(parse_c_function("expf").compiler == CCompiler::cuda_13);
  CHECK(parse_c_function("tl.exp").compiler == CCompiler::triton_3_6);
  CHECK(compute(parse_c_function("expf"), 0x41200000) == 0x46AC14EF);
  CHECK(compute(parse_c_function("expf@cuda_13_fast_math"), 0x41200000) == 0x46AC14F0);
  CHECK(compute(parse_c_function("tl.exp"), 0x41200000) == 0x46AC14F0);
  for (const std::string_view name : {"", "exp", "expf@", "expf@cuda_12", "__expf@cuda_13_fast_math", "expf "}) {
    INFO(name);
    CHECK_THROWS_AS(parse_c_function(name), Error);
  }
  std::vector<uint32_t> words(4), fewer(3);
  CHECK_THROWS_AS(compute(parse_c_function("expf"), words, words, words), Error);
  CHECK_THROWS_AS(compute(parse_c_function("powf"), words, {}, words), Error);
  CHECK_THROWS_AS(compute(parse_c_function("powf"), words, fewer, words), Error);
  CHECK_THROWS_AS(compute(CFunction{.name = "expf", .compiler = CCompiler::triton_3_6}, 0), Error);
}

TEST_CASE("the steps of a C function make its result, each of results of steps before it") {
  int with_steps = 0;
  for (const CFunction& function : c_functions()) {
    const Arguments arguments = arguments_of(function.operands, 300, 7);
    for (size_t i = 0; i < arguments.a.size(); ++i) {
      const uint32_t a = arguments.a[i], b = function.operands > 1 ? arguments.b[i] : 0,
                     result = compute(function, a, b);
      const std::vector<WordStep> steps = steps_of(function, a, b);
      INFO(fmt::format("{} of {:#010x} {:#010x}", print(function), a, b));
      for (size_t step = 0; step < steps.size(); ++step) {
        REQUIRE_FALSE(steps[step].operands.empty());
        for (const WordStep::Operand& operand : steps[step].operands) {
          REQUIRE(operand.from < static_cast<int>(step));
          if (operand.from >= 0)
            REQUIRE(math::canonical(operand.word) == steps[static_cast<size_t>(operand.from)].result);
          if (operand.from == WordStep::first_argument) REQUIRE(operand.word == a);
          if (operand.from == WordStep::second_argument) REQUIRE(operand.word == b);
        }
      }
      const bool is_made = std::ranges::find(steps, result, &WordStep::result) != steps.end();
      // Without a step that makes it, it is a constant: of a special case, or of one that saturates.
      const bool is_special = result == 0x7FFFFFFF || (result & 0x7FFFFFFF) == 0x7F800000 ||
                              (result & 0x7FFFFFFF) == 0 || (result & 0x7FFFFFFF) == 0x3F800000 || result == a ||
                              result == 0x80000000;
      CHECK((is_made || is_special));
      with_steps += is_made;
    }
  }
  CHECK(with_steps > 10000);
  const std::vector<WordStep> fast = steps_of(parse_c_function("__expf"), 0x41200000);
  REQUIRE(fast.size() == 2);
  CHECK(fast[0].operation == "mul");
  CHECK(fast[1].operation == "MUFU.EX2");
  CHECK(fast[1].result == compute(parse_c_function("__expf"), 0x41200000));
  CHECK_THROWS_AS(steps_of(CFunction{.name = "expf", .compiler = CCompiler::triton_3_6}, 0), Error);
}

TEST_CASE("C functions give what nvcc's PTX of them gives, instruction by instruction", "[rule:c-functions]") {
  const char* const setting = std::getenv("BITMMA_NVCC");
  const std::string nvcc = setting && *setting ? setting : "nvcc";
  if (test::output_of_command(nvcc + " --version 2> /dev/null").find("release 13.0") == std::string::npos) {
    WARN("NOT checked: nvcc 13.0 is not installed; BITMMA_NVCC names another place");
    return;
  }
  const test::TemporaryFolder folder;
  const auto compiled = [&](const std::string& flags) {
    const std::string path = folder.path("functions.ptx");
    test::output_of_command(fmt::format("{} -arch=sm_90a -ptx {} {} -o {} 2>&1", nvcc, flags,
                                        test::source_path("lab/c_functions.cu"), path));
    return test::read_text(path);
  };
  const std::string plain = compiled(""), fast = compiled("-use_fast_math -DBITMMA_FAST_MATH");
  const auto entry = [](const CFunction& function) { return fmt::format("bits_of_{}", function.name); };
  CHECK(compare_with_ptx(
            CCompiler::cuda_13, [&](const CFunction&) { return plain; }, entry) ==
        static_cast<int>(test::PtxKernel::entries(plain).size()));
  const int of_fast = compare_with_ptx(
      CCompiler::cuda_13_fast_math, [&](const CFunction&) { return fast; },
      [&](const CFunction& function) { return entry(function) + "_fast"; });
  CHECK(of_fast == static_cast<int>(test::PtxKernel::entries(fast).size()));
}

TEST_CASE("C functions give what Triton's PTX of them gives, instruction by instruction") {
  const char* const setting = std::getenv("BITMMA_TRITON_PYTHON");
  const std::string python = setting && *setting ? setting : "python3";
  const std::string version =
      test::output_of_command(python + " -c 'import triton; print(triton.__version__)' 2> /dev/null");
  if (!version.starts_with("3.6.")) {
    WARN("NOT checked: Triton 3.6 is not installed; BITMMA_TRITON_PYTHON names a Python that has it");
    return;
  }
  const test::TemporaryFolder folder;
  test::output_of_command(
      fmt::format("{} {} {} 2>&1", python, test::source_path("lab/c_functions_triton.py"), folder.path("")));
  const int compared = compare_with_ptx(
      CCompiler::triton_3_6,
      [&](const CFunction& function) { return test::read_text(folder.path(fmt::format("{}.ptx", function.name))); },
      [](const CFunction& c_function) {
        std::string name = fmt::format("bits_of_{}_triton", c_function.name);
        std::ranges::replace(name, '.', '_');
        return name;
      });
  CHECK(compared == 25);
}

TEST_CASE("C functions that are one instruction give what it gives") {
  constexpr std::pair<std::string_view, std::string_view> same[]{
      {"exp2f", "ex2.approx.f32"},
      {"rsqrtf", "rsqrt.approx.f32"},
      {"sqrtf", "sqrt.rn.f32"},
      {"division", "div.rn.f32"},
      {"reciprocal", "rcp.rn.f32"},
      {"__log2f", "lg2.approx.f32"},
      {"__sinf", "sin.approx.f32"},
      {"__cosf", "cos.approx.f32"},
      {"__tanhf", "tanh.approx.f32"},
      {"__fdividef", "div.approx.f32"},
      {"exp2f@cuda_13_fast_math", "ex2.approx.ftz.f32"},
      {"log2f@cuda_13_fast_math", "lg2.approx.ftz.f32"},
      {"tanhf@cuda_13_fast_math", "tanh.approx.f32"},
      {"sinf@cuda_13_fast_math", "sin.approx.ftz.f32"},
      {"cosf@cuda_13_fast_math", "cos.approx.ftz.f32"},
      {"rsqrtf@cuda_13_fast_math", "rsqrt.approx.ftz.f32"},
      {"sqrtf@cuda_13_fast_math", "sqrt.approx.ftz.f32"},
      {"division@cuda_13_fast_math", "div.approx.ftz.f32"},
      {"reciprocal@cuda_13_fast_math", "rcp.approx.ftz.f32"},
      {"tl.exp2", "ex2.approx.ftz.f32"},
      {"tl.sqrt", "sqrt.approx.ftz.f32"},
      {"tl.sqrt_rn", "sqrt.rn.f32"},
      {"tl.rsqrt", "rsqrt.approx.ftz.f32"},
      {"division@triton_3_6", "div.full.f32"},
      {"tl.div_rn", "div.rn.f32"},
  };
  for (const auto& [name, ptx] : same) {
    const CFunction& function = parse_c_function(name);
    const Arguments arguments = arguments_of(function.operands, 50000, 31);
    std::vector<uint32_t> expected(arguments.a.size());
    compute(parse_math_instruction(ptx), arguments.a, arguments.b, {}, expected);
    INFO(name);
    CHECK(results_of(function, arguments) == expected);
  }
}

TEST_CASE("operations on words of f32 are those of PTX's instructions") {
  const math::IeeeEnvironment environment;
  const Arguments arguments = arguments_of(2, 200000, 32), more = arguments_of(1, 200000, 33);
  int64_t differing = 0;
  const auto check = [&](std::string_view ptx, uint32_t result, uint32_t a, uint32_t b, uint32_t c) {
    static std::map<std::string_view, MathInstruction> parsed;
    if (!parsed.contains(ptx)) parsed[ptx] = parse_math_instruction(ptx);
    const uint64_t expected = compute(parsed[ptx], a, b, c);
    if (math::canonical(result) == expected) return;
    INFO(ptx << fmt::format(" of {:#x} {:#x} {:#x}: {:#x}, not {:#x}", a, b, c, result, expected));
    if (differing++ < 5) CHECK(math::canonical(result) == expected);
  };
  for (size_t i = 0; i < arguments.a.size(); ++i) {
    const uint32_t a = arguments.a[i], b = arguments.b[i], c = more.a[i];
    using None = F32<Flush::none>;
    using Calls = F32<Flush::calls>;
    using All = F32<Flush::all>;
    check("fma.rn.f32", fma(None::of(a), None::of(b), None::of(c)).word(), a, b, c);
    check("fma.rn.ftz.f32", fma(Calls::of(a), Calls::of(b), Calls::of(c)).word(), a, b, c);
    check("fma.rn.f32", joined(Calls::of(a), Calls::of(b), Calls::of(c)).word(), a, b, c);
    check("mul.rn.ftz.f32", mul_rn(Calls::of(a), Calls::of(b)).word(), a, b, 0);
    check("mul.rn.f32", (Calls::of(a) * Calls::of(b)).word(), a, b, 0);
    check("mul.rn.ftz.f32", (All::of(a) * All::of(b)).word(), a, b, 0);
    check("add.rn.ftz.f32", (All::of(a) + All::of(b)).word(), a, b, 0);
    check("sub.rn.f32", (None::of(a) - None::of(b)).word(), a, b, 0);
    check("add.rz.f32", add_one_toward_zero(None::of(a)).word(), a, 0x3F800000, 0);
    check("add.rz.ftz.f32", add_one_toward_zero(All::of(a)).word(), a, 0x3F800000, 0);
    check("ex2.approx.f32", ex2(None::of(a)).word(), a, 0, 0);
    check("lg2.approx.f32", lg2(None::of(a)).word(), a, 0, 0);
  }
  CHECK(differing == 0);
}

TEST_CASE("C functions do not depend on the floating-point environment of the host program, nor change it") {
  for (const CFunction& function : c_functions()) {
    const Arguments arguments = arguments_of(function.operands, 2000, 34);
    const std::vector<uint32_t> expected = results_of(function, arguments);
    INFO(print(function));
    std::fesetround(FE_UPWARD);
    const std::vector<uint32_t> upward = results_of(function, arguments);
    const uint32_t word = compute(function, arguments.a[7], function.operands > 1 ? arguments.b[7] : 0);
    const int rounding = std::fegetround();
    std::fesetround(FE_TONEAREST);
    CHECK(upward == expected);
    CHECK(word == expected[7]);
    CHECK(rounding == FE_UPWARD);
#if defined(__SSE2__)
    const unsigned before = _mm_getcsr(), flushing = before | 0x8040;  // flush to zero, denormals are zeros
    _mm_setcsr(flushing);
    const std::vector<uint32_t> flushed = results_of(function, arguments);
    const unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    CHECK(flushed == expected);
    CHECK(after == flushing);
#endif
  }
}

TEST_CASE("C functions give the same words at every level of the processor, one by one and in place") {
  struct BestAgain {
    ~BestAgain() { use_cpu_target(cpu_targets().front()); }
  } const after;
  for (const CFunction& function : c_functions()) {
    const Arguments arguments = arguments_of(function.operands, 4099, 35);
    const std::vector<uint32_t> expected = results_of(function, arguments);
    for (const std::string_view target : cpu_targets()) {
      use_cpu_target(target);
      std::vector<uint32_t> in_place = arguments.a;
      compute(function, in_place, arguments.b, in_place);
      INFO(print(function) << " on " << target);
      CHECK(in_place == expected);
      for (size_t i = 0; i < 99; ++i)
        CHECK(compute(function, arguments.a[i], function.operands > 1 ? arguments.b[i] : 0) == expected[i]);
    }
    use_cpu_target(cpu_targets().front());
  }
}

// The words that the comparisons with PTX confirmed, for machines without these compilers.
TEST_CASE("C functions give the words that were recorded", "[rule:c-functions]") {
  const std::map<std::string, std::string> recorded{
      {"expf@cuda_13", "b0b9b8d6f050973f"},
      {"exp2f@cuda_13", "e38009419aae7d2e"},
      {"exp10f@cuda_13", "0c7906b75104dfd2"},
      {"expm1f@cuda_13", "40161af47bd88fa6"},
      {"logf@cuda_13", "6c78ffa3c16f9a38"},
      {"log2f@cuda_13", "eddbb9eb8fbdfde8"},
      {"log10f@cuda_13", "6dcad586d2cd4fca"},
      {"log1pf@cuda_13", "5a9389180ea5e377"},
      {"tanhf@cuda_13", "22a067929c6174f7"},
      {"erff@cuda_13", "3d1fc78ede601e0f"},
      {"sinf@cuda_13", "90d29a5ff9296b6c"},
      {"cosf@cuda_13", "8dd937691e6f8e18"},
      {"powf@cuda_13", "23b7598a7f345aef"},
      {"rsqrtf@cuda_13", "50a9f044d24a036c"},
      {"sqrtf@cuda_13", "6997dd0a63fbba77"},
      {"division@cuda_13", "4383e6d18aeac113"},
      {"reciprocal@cuda_13", "21c34a1fee488c98"},
      {"__expf@cuda_13", "557779b5776e7d58"},
      {"__exp10f@cuda_13", "9d44f587e9217b09"},
      {"__logf@cuda_13", "b42f63096e1afb01"},
      {"__log2f@cuda_13", "2ef2a19fbcddf1f2"},
      {"__log10f@cuda_13", "eaaa76d21c550b9d"},
      {"__sinf@cuda_13", "cfb4ab2214abdb6d"},
      {"__cosf@cuda_13", "525e5d6b21eff160"},
      {"__tanhf@cuda_13", "a1eeee379641a9df"},
      {"__powf@cuda_13", "520070704d396cec"},
      {"__fdividef@cuda_13", "b14f190253d90865"},
      {"sigmoid@cuda_13", "da2c9dc445a04982"},
      {"silu@cuda_13", "c118821f4366ac00"},
      {"gelu@cuda_13", "1612b6de9972c370"},
      {"gelu_tanh@cuda_13", "0c57ad087607b86d"},
      {"expf@cuda_13_fast_math", "847e14898480a527"},
      {"exp2f@cuda_13_fast_math", "1d2f8e25248a06c4"},
      {"exp10f@cuda_13_fast_math", "dbcc95eea8bdaf5a"},
      {"expm1f@cuda_13_fast_math", "d8647442d56dc6d0"},
      {"logf@cuda_13_fast_math", "831c924ed9702802"},
      {"log2f@cuda_13_fast_math", "d2a8a74426da89e5"},
      {"log10f@cuda_13_fast_math", "35cc12e7a2b22f47"},
      {"log1pf@cuda_13_fast_math", "71773dd1e16b6fac"},
      {"tanhf@cuda_13_fast_math", "a1eeee379641a9df"},
      {"erff@cuda_13_fast_math", "7b61921a6978e666"},
      {"sinf@cuda_13_fast_math", "cfb4ab2214abdb6d"},
      {"cosf@cuda_13_fast_math", "525e5d6b21eff160"},
      {"powf@cuda_13_fast_math", "83fe14d3ca920783"},
      {"rsqrtf@cuda_13_fast_math", "e2ae82ef941cb61b"},
      {"sqrtf@cuda_13_fast_math", "27a57822cf3e4622"},
      {"division@cuda_13_fast_math", "185aa865384e4920"},
      {"reciprocal@cuda_13_fast_math", "1cab2cfc3bf6a54a"},
      {"sigmoid@cuda_13_fast_math", "68f7f3281b301107"},
      {"silu@cuda_13_fast_math", "4c57890956673bc2"},
      {"gelu@cuda_13_fast_math", "38551176cd57d6ec"},
      {"gelu_tanh@cuda_13_fast_math", "ec83595215a761fd"},
      {"tl.exp@triton_3_6", "557779b5776e7d58"},
      {"tl.exp2@triton_3_6", "1d2f8e25248a06c4"},
      {"tl.log@triton_3_6", "6c78ffa3c16f9a38"},
      {"tl.log2@triton_3_6", "eddbb9eb8fbdfde8"},
      {"tl.sin@triton_3_6", "ffa164083cfdbf32"},
      {"tl.cos@triton_3_6", "8dd937691e6f8e18"},
      {"tl.erf@triton_3_6", "423cc242562a8eff"},
      {"tl.sqrt@triton_3_6", "27a57822cf3e4622"},
      {"tl.sqrt_rn@triton_3_6", "6997dd0a63fbba77"},
      {"tl.rsqrt@triton_3_6", "e2ae82ef941cb61b"},
      {"tl.sigmoid@triton_3_6", "38edb783a6fad4b3"},
      {"silu@triton_3_6", "696e1a089083cdde"},
      {"reciprocal@triton_3_6", "38439cf42853965d"},
      {"division@triton_3_6", "bb2017bf0a1d1280"},
      {"tl.div_rn@triton_3_6", "4383e6d18aeac113"},
      {"libdevice.exp@triton_3_6", "b0b9b8d6f050973f"},
      {"libdevice.exp10@triton_3_6", "0c7906b75104dfd2"},
      {"libdevice.expm1@triton_3_6", "05a46ce08c8e0704"},
      {"libdevice.log10@triton_3_6", "6dcad586d2cd4fca"},
      {"libdevice.log1p@triton_3_6", "376ccc61dc0156c5"},
      {"libdevice.pow@triton_3_6", "42526aa4c262db53"},
      {"libdevice.tanh@triton_3_6", "98048e7f1c894af0"},
      {"libdevice.fast_expf@triton_3_6", "847e14898480a527"},
      {"libdevice.fast_logf@triton_3_6", "831c924ed9702802"},
      {"libdevice.fast_powf@triton_3_6", "879f78a1e2b22475"},
  };
  CHECK(recorded.size() == c_functions().size());
  for (const CFunction& function : c_functions()) {
    std::string bytes;
    for (const uint32_t word : results_of(function, arguments_of(function.operands, 100000, 36))) {
      for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(word >> shift & 255);
    }
    INFO(print(function));
    CHECK(sha256(bytes).substr(0, 16) ==
          (recorded.contains(print(function)) ? recorded.at(print(function)) : "not recorded"));
  }
}
