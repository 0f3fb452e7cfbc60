// The steps that run 32 lanes in a loop, at each level of processors: floating-point instructions against layer math,
// and memory against its words.
#include <fmt/format.h>

#include <algorithm>

#include "bitmma/math/cvt.hpp"
#include "bitmma/math/math_instruction.hpp"
#include "core/cpu_level.hpp"
#include "run_kernel.hpp"
#include "support/catch.hpp"

using namespace bitmma;

namespace {

/// Calls test(level) for each level of this processor.
template <typename Test>
void at_each_level(const Test& test) {
  const CpuLevel before = cpu_level();
  for (const CpuLevelInfo& level : cpu_levels) {
    if (!has(level.id)) continue;
    CAPTURE(level.name);
    use_cpu_level(level.id);
    test();
  }
  use_cpu_level(before);
}

/// Words around every power of two and every edge of a narrower format, and random ones.
std::vector<uint32_t> words_of_floats(uint64_t seed, size_t count) {
  RandomStream random(seed, 0);
  std::vector<uint32_t> words;
  for (uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (const uint32_t mantissa :
         {0x000000u, 0x000001u, 0x000FFFu, 0x001000u, 0x001001u, 0x002000u, 0x003000u, 0x007FFFu, 0x008000u, 0x008001u,
          0x018000u, 0x400000u, 0x7FEFFFu, 0x7FF000u, 0x7FFFFFu})
      for (const uint32_t sign : {0u, 0x80000000u}) words.push_back(sign | exponent << 23 | mantissa);
  }
  while (words.size() < count) words.push_back(random.word());
  for (size_t i = words.size(); i > 1; --i) std::swap(words[i - 1], words[random.below(static_cast<uint32_t>(i))]);
  return words;
}

/// d[i] of an instruction that reads %r1 and %r2, 32-bit words.
std::vector<uint32_t> run_on(const std::string& body, const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  const PtxEntry kernel(
      ".version 8.6\n.target sm_90a\n.address_size 64\n"
      ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 d)\n{\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n"
      ".reg .b16 %h<9>;\n.reg .pred %p<9>;\nld.param.u64 %rd1, [a];\nld.param.u64 %rd2, [b];\nld.param.u64 %rd3, [d];\n"
      "mov.u32 %r4, %ctaid.x;\nmov.u32 %r5, %tid.x;\nmad.lo.u32 %r4, %r4, 256, %r5;\nmul.wide.u32 %rd4, %r4, 4;\n"
      "add.u64 %rd1, %rd1, %rd4;\nadd.u64 %rd2, %rd2, %rd4;\nadd.u64 %rd3, %rd3, %rd4;\nld.global.b32 %r1, [%rd1];\n"
      "ld.global.b32 %r2, [%rd2];\nmov.b32 %r3, 0;\n" +
      body + "\nst.global.b32 [%rd3], %r3;\nret;\n}\n");
  std::vector<uint32_t> first = a, second = b, d(a.size());
  launch(kernel, {.grid = {static_cast<int64_t>(a.size() / 256), 1, 1},
                  .block = {256, 1, 1},
                  .arguments = {test::memory(first), test::memory(second), test::memory(d)}});
  return d;
}

void require_same(const std::vector<uint32_t>& d, const std::vector<uint32_t>& expected, const std::vector<uint32_t>& a,
                  const std::vector<uint32_t>& b) {
  const auto at = static_cast<size_t>(std::ranges::mismatch(d, expected).in1 - d.begin());
  if (at < d.size())
    UNSCOPED_INFO(fmt::format("{:#x} and {:#x} give {:#x}, not {:#x}", a[at], b[at], d[at], expected[at]));
  REQUIRE(at == d.size());
}

}  // namespace

TEST_CASE("loops of approximate functions and quotients give the words of layer math at each level") {
  constexpr size_t count = 16'384;
  const std::vector<uint32_t> a = words_of_floats(1, count), b = words_of_floats(2, count);
  std::vector<uint32_t> expected(count);
  at_each_level([&] {
    for (const std::string name : {"div.full.f32", "div.full.ftz.f32", "div.approx.f32", "div.approx.ftz.f32",
                                   "ex2.approx.f32", "ex2.approx.ftz.f32", "rcp.approx.f32", "rcp.approx.ftz.f32",
                                   "rsqrt.approx.f32", "sqrt.approx.f32", "lg2.approx.f32", "lg2.approx.ftz.f32"}) {
      CAPTURE(name);
      const MathInstruction instruction = parse_math_instruction(name);
      const bool divides = instruction.operation == MathOperation::div;
      const std::vector<uint32_t> d = run_on(fmt::format("{} %r3, %r1{};", name, divides ? ", %r2" : ""), a, b);
      for (size_t i = 0; i < count; ++i) expected[i] = compute(instruction, a[i], divides ? b[i] : 0);
      require_same(d, expected, a, b);
    }
  });
}

TEST_CASE("loops of conversions give the words of layer math at each level") {
  constexpr size_t count = 65'536;
  std::vector<uint32_t> a = words_of_floats(3, count), b = words_of_floats(4, count);
  std::vector<uint32_t> all_of_16_bits(count);
  for (size_t i = 0; i < count; ++i) all_of_16_bits[i] = static_cast<uint32_t>(i);
  struct Conversion {
    std::string name;
    int sources = 1;
    bool is_narrow_source = false, is_narrow_result = false;
  };
  std::vector<uint32_t> expected(count);
  at_each_level([&] {
    for (const Conversion& conversion : {Conversion{"cvt.rn.f16.f32", 1, false, true},
                                         {"cvt.rn.bf16.f32", 1, false, true},
                                         {"cvt.rn.f16x2.f32", 2},
                                         {"cvt.rn.bf16x2.f32", 2},
                                         {"cvt.f32.f16", 1, true},
                                         {"cvt.f32.bf16", 1, true},
                                         {"cvt.rn.f32.s32"},
                                         {"cvt.rn.f32.u32"},
                                         {"cvt.rzi.s32.f32"}}) {
      CAPTURE(conversion.name);
      const CvtInstruction instruction = parse_cvt(conversion.name);
      const std::vector<uint32_t>& words = conversion.is_narrow_source ? all_of_16_bits : a;
      const std::string before = conversion.is_narrow_source ? "cvt.u16.u32 %h1, %r1;\n" : "",
                        after = conversion.is_narrow_result ? "\ncvt.u32.u16 %r3, %h2;" : "";
      const auto d =
          run_on(fmt::format("{}{} {}, {}{};{}", before, conversion.name, conversion.is_narrow_result ? "%h2" : "%r3",
                             conversion.is_narrow_source ? "%h1" : "%r1", conversion.sources > 1 ? ", %r2" : "", after),
                 words, b);
      for (size_t i = 0; i < count; ++i)
        expected[i] = static_cast<uint32_t>(compute(instruction, {.a = words[i], .b = b[i]}));
      require_same(d, expected, words, b);
    }
  });
}

TEST_CASE("comparisons of f32 are those of their numbers at each level") {
  constexpr size_t count = 16'384;
  std::vector<uint32_t> a = words_of_floats(5, count), b = words_of_floats(6, count);
  for (size_t i = 0; i < count; i += 5) b[i] = a[i];
  for (size_t i = 1; i < count; i += 5) b[i] = a[i] ^ 0x80000000;
  const auto flushed = [](uint32_t word) { return (word & 0x7F800000) == 0 ? word & 0x80000000 : word; };
  std::vector<uint32_t> expected(count);
  at_each_level([&] {
    for (const std::string ftz : {"", ".ftz"}) {
      for (const std::string how :
           {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"}) {
        CAPTURE(how, ftz);
        const std::vector<uint32_t> d =
            run_on(fmt::format("setp.{}{}.f32 %p1|%p2, %r1, %r2;\nselp.b32 %r3, 1, 0, %p1;\n"
                               "@%p2 add.u32 %r3, %r3, 2;",
                               how, ftz),
                   a, b);
        for (size_t i = 0; i < count; ++i) {
          const auto x = std::bit_cast<float>(ftz.empty() ? a[i] : flushed(a[i])),
                     y = std::bit_cast<float>(ftz.empty() ? b[i] : flushed(b[i]));
          const bool is_nan = x != x || y != y, is_or_unordered = how.size() == 3 && how[2] == 'u';
          const std::string order = how.substr(0, 2);
          const bool holds = how == "num"    ? !is_nan
                             : how == "nan"  ? is_nan
                             : is_nan        ? is_or_unordered
                             : order == "eq" ? x == y
                             : order == "ne" ? x != y
                             : order == "lt" ? x < y
                             : order == "le" ? x <= y
                             : order == "gt" ? x > y
                                             : x >= y;
          expected[i] = holds ? 1 : 2;
        }
        require_same(d, expected, a, b);
      }
    }
  });
}
