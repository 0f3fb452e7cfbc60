#include "bitmma/math/cvt.hpp"
#include "bitmma/math/math_instruction.hpp"
#include "bitmma/operators/c_function.hpp"
#include "run.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using test::Outcome;

TEST_CASE("math computes codes and numbers, and explains the special function unit") {
  Outcome done = test::run({"math", "ex2.approx.ftz.f32", "0x3e99999a", "0.3", "0xff800000"});
  CHECK(done.code == 0);
  CHECK(done.out ==
        "ex2.approx.ftz.f32 (0x3e99999a = 0.30000001192092896): 0x3f9d9624 = 1.2311444282531738\n"
        "ex2.approx.ftz.f32 (0x3e99999a = 0.30000001192092896): 0x3f9d9624 = 1.2311444282531738\n"
        "ex2.approx.ftz.f32 (0xff800000 = -inf): 0x00000000 = 0\n"
        "  sm_90a, measured: all 2^32 words of an H100 and an H200\n");
  done = test::run({"math", "fma.rn.f32", "2", "3", "-1", "--json"});
  CHECK(done.out.find("\"result\": \"0x40a00000\"") != std::string::npos);
  done = test::run({"math", "ex2.approx.f16x2", "0x3c004000"});
  CHECK(done.out.find("0x40004400 = (4, 2)") != std::string::npos);
  done = test::run({"math", "rcp.approx.ftz.f32", "3", "--explain"});
  CHECK(done.out.find("quadratic        64 of rcp") != std::string::npos);
  done = test::run({"math", "--list"});
  CHECK(std::ranges::count(done.out, '\n') ==
        std::ssize(math_instructions()) + std::ssize(cvt_instructions()) + std::ssize(c_functions()));
}

TEST_CASE("math computes conversions and functions of C, and says from where the results are known") {
  Outcome done = test::run({"math", "cvt.rn.satfinite.e4m3x2.f32", "456", "1", "0xc3e40000", "-0.0"});
  INFO(done.err);
  CHECK(done.out ==
        "cvt.rn.satfinite.e4m3x2.f32 (0x43e40000 = 456, 0x3f800000 = 1): 0x7e38 = (1, 448)\n"
        "cvt.rn.satfinite.e4m3x2.f32 (0xc3e40000 = -456, 0x80000000 = -0): 0xfe80 = (-0, -448)\n"
        "  sm_90a, sampled: 2,000,000 random pairs of an H200; sm_89 or higher, PTX 8.1 or later: PTX ISA 9.7.9.21; "
        "ptxas 13.0 and 13.5\n");
  const std::vector<std::pair<std::vector<std::string>, std::string>> lines{
      {{"cvt.rn.f16.f32", "0x3f800000"}, "cvt.rn.f16.f32 (0x3f800000 = 1): 0x3c00 = 1\n"},
      {{"cvt.rzi.s8.f32", "-3.7"}, ": 0xfd = -3\n"},
      {{"cvt.rn.f32.s8", "-128"}, "(0x80 = -128): 0xc3000000 = -128\n"},
      {{"cvt.rn.f64.u64", "18446744073709551615"}, "(0xffffffffffffffff = 18446744073709551615): 0x43f0000000000000"},
      {{"cvt.rn.f16x2.e4m3x2", "0x7e38"}, "(0x7e38 = (1, 448)): 0x5f003c00 = (1, 448)\n"},
      {{"cvt.rn.satfinite.e2m1x2.f32", "6", "0.5"}, ": 0x71 = (0.5, 6)\n"},
      {{"cvt.rs.bf16x2.f32", "0x3f800001", "0x3f800001", "0xffff0000"}, ": 0x3f813f80"},
      {{"cvt.rn.scaled::n2::ue8m0.bf16x2.e4m3x2", "0x3838", "0x807f"}, "0x807f = (1, 2)): 0x40003f80 = (1, 2)\n"},
      {{"expf", "10"}, "expf@cuda_13 (0x41200000 = 10): 0x46ac14ef"},
      {{"expf@cuda_13_fast_math", "10"}, "0x46ac14f0"},
      {{"tl.exp", "0x41200000"}, "tl.exp@triton_3_6 (0x41200000 = 10): 0x46ac14f0"},
      {{"division", "1", "3"}, "(0x3f800000 = 1, 0x40400000 = 3): 0x3eaaaaab"},
      {{"expf", "10"}, "\n  sm_90a, measured: all 2^32 words of an H100 and an H200; PTX of nvcc 13.0"},
      {{"ex2.approx.f32", "-inf"}, "(0xff800000 = -inf): 0x00000000 = 0\n"},
      {{"ex2.approx.f32", "-.5"}, "(0xbf000000 = -0.5): 0x3f3504f2"},
      {{"cvt.rzi.s32.f32", "-infinity"}, ": 0x80000000 = -2147483648\n"},
      {{"rcp.approx.ftz.f64", "3"}, "(0x4008000000000000 = 3): 0x3fd55555"},
      {{"fma.rn.f32", "1", "2", "3", "--target", "H100"}, "\n  sm_90a, sampled: 8,000,000 random triples of an H200\n"},
      {{"add.rn.f32", "1", "2", "--target", "sm_100a"}, "\n  sm_100a, documented: IEEE 754"},
      {{"expf", "1", "--target", "sm_80"}, "\n  sm_80, assumed: as compiled for sm_90a"},
  };
  for (const auto& [words, line] : lines) {
    std::vector<std::string> all{"math"};
    all.insert(all.end(), words.begin(), words.end());
    done = test::run(all);
    INFO(done.out << done.err);
    CHECK(done.out.find(line) != std::string::npos);
  }
  done = test::run({"math", "expf", "10", "--json"});
  for (const char* part : {"\"function\": \"expf@cuda_13\"", "\"evidence\": \"measured\"", "\"source\": \"PTX of nvcc",
                           "\"target\": \"sm_90a\"", "\"evidence_source\": \"all 2^32 words of an H100 and an H200\""})
    CHECK(done.out.find(part) != std::string::npos);
  done = test::run({"math", "cvt.rn.satfinite.tf32.f32", "1", "--json"});
  CHECK(done.out.find("\"sm_100\"") != std::string::npos);
  CHECK(done.out.find("\"sm_90\"") == std::string::npos);
}

TEST_CASE("math refuses what is no instruction, no operand, or one too few") {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"math"},
                                                {"math", "ex2"},
                                                {"math", "ex2.approx.f32"},
                                                {"math", "ex2.approx.f32", "x"},
                                                {"math", "ex2.approx.f32", "0x1ffffffff"},
                                                {"math", "ex2.approx.f16", "0x10000"},
                                                {"math", "add.rn.f32", "1"},
                                                {"math", "add.rn.f32", "1", "2", "3"},
                                                {"math", "ex2.approx.f16x2", "0.5"},
                                                {"math", "cvt.f16.f32", "1"},
                                                {"math", "cvt.rn.f16.f32"},
                                                {"math", "cvt.rn.f16x2.f32", "1"},
                                                {"math", "cvt.rn.f16x2.e4m3x2", "1"},
                                                {"math", "cvt.rn.f16x2.e4m3x2", "0x10000"},
                                                {"math", "cvt.rn.f32.s8", "128"},
                                                {"math", "cvt.rn.f32.u8", "-1"},
                                                {"math", "cvt.rn.f32.s32", "1.5"},
                                                {"math", "ex2.approx.f32", "0x3c00"},
                                                {"math", "cvt.rn.f16.f32", "0x1"},
                                                {"math", "ex2.approx.f32", "-in"},
                                                {"math", "cvt.rn.satfinite.e2m1x2.f32", "1", "1", "--target", "sm_90a"},
                                                {"math", "tanh.approx.bf16", "1", "--target", "sm_80"},
                                                {"math", "expf", "1", "--target", "sm_1"},
                                                {"math", "expf@cuda_12", "1"},
                                                {"math", "expf", "1e"},
                                                {"math", "powf", "1"},
                                                {"math", "--list", "ex2.approx.f32"}}) {
    const Outcome done = test::run(words);
    INFO(done.err);
    CHECK(done.code == 2);
    CHECK(done.out.empty());
  }
}

TEST_CASE("math explains conversions, functions of C, rounded instructions, and what stands around the unit") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> lines{
      {{"cvt.rn.satfinite.e4m3x2.f32", "3.3", "1"},
       "  a = 3.299999952316284  between 0x45 = 3.25 and 0x46 = 3.5, rounded to nearest, ties to even: 0x45 = 3.25\n  "
       "b = 1  exact: 0x38 = 1\n"},
      {{"cvt.rn.satfinite.e4m3x2.f32", "1e6", "inf"}, "  a = 1000000  beyond all codes: 0x7e = 448\n"},
      {{"cvt.rzi.u8.f32", "-1"}, "beyond all codes: 0x00 = 0\n"},
      {{"cvt.rn.relu.bf16.f32", "-3"}, "exact: 0xc040 = -3; .relu makes it 0\n"},
      {{"cvt.u8.s32", "-1"}, "0xff = 255: the lower 8 bits\n"},
      {{"cvt.rs.bf16x2.f32", "0x3f800001", "0x3f800001", "0xffff0000"},
       "16 random bits 0xffff added below the last bit"},
      {{"cvt.rn.scaled::n2::ue8m0.bf16x2.e4m3x2", "0x3838", "0x807f"}, "  a = 1 * 2^1  exact: 0x4000 = 2\n"},
      {{"__expf", "10"},
       "   #1  mul(a = 10, 1.4426950216293335) = 0x4166d4ca = 14.426950454711914\n"
       "   #2  MUFU.EX2(#1 = 14.426950454711914) = 0x46ac14f0 = 22026.46875\n"},
      {{"powf", "-inf", "2"}, "add(a = -inf, a = -inf) = 0xff800000 = -inf\n"},
      {{"add.rn.f32", "1", "1e-9"},
       "  the exact result lies between 0x3f800000 = 1 and 0x3f800001 = 1.0000001192092896, and is rounded once\n"},
      {{"mul.rz.f32", "2", "3"}, "  the exact result is 0x40c00000 = 6\n"},
      {{"rsqrt.approx.f32", "0x00400000"}, "  before the unit  mul(a = 5.877471754111438e-39, 16777216) = 0x0c000000"},
      {{"rsqrt.approx.f32", "0x00400000"}, "  after the unit   mul(MUFU = "},
      {{"ex2.approx.f16", "0.3"}, "  before the unit  cvt(a = "},
      {{"ex2.approx.f16", "0.3"}, "  after the unit   cvt.rz(MUFU = "},
      {{"div.full.f32", "3", "0x7f000001"}, "  before the unit  mul(b = 1.7014120374287884e+38, 0.25)"},
  };
  for (const auto& [words, line] : lines) {
    std::vector<std::string> all{"math", "--explain"};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome done = test::run(all);
    INFO(done.out << done.err);
    CHECK(done.code == 0);
    CHECK(done.out.find(line) != std::string::npos);
  }
  const Outcome near = test::run({"math", "expg", "1"});
  CHECK(near.code == 2);
  CHECK(near.err.find("did you mean expf?") != std::string::npos);
}
