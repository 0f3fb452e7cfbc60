#include "bitmma/math/math_instruction.hpp"
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
        "ex2.approx.ftz.f32 (0xff800000 = -inf): 0x00000000 = 0\n");
  done = test::run({"math", "fma.rn.f32", "2", "3", "-1", "--json"});
  CHECK(done.out.find("\"result\": \"0x40a00000\"") != std::string::npos);
  done = test::run({"math", "ex2.approx.f16x2", "0x3c004000"});
  CHECK(done.out.find("0x40004400 = (4, 2)") != std::string::npos);
  done = test::run({"math", "rcp.approx.ftz.f32", "3", "--explain"});
  CHECK(done.out.find("quadratic        64 of rcp") != std::string::npos);
  done = test::run({"math", "--list"});
  CHECK(std::ranges::count(done.out, '\n') == std::ssize(math_instructions()));
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
                                                {"math", "--list", "ex2.approx.f32"}}) {
    const Outcome done = test::run(words);
    INFO(done.err);
    CHECK(done.code == 2);
    CHECK(done.out.empty());
  }
}
