// Which products and sums ptxas joins: what bitmma computes, against what the SASS of the same kernels says.
#include <sstream>

#include "bitmma/formats/ieee.hpp"
#include "run_kernel.hpp"
#include "support/catch.hpp"
#include "support/ptxas.hpp"

using namespace bitmma;

namespace {

/// "(fma (neg x1) x2 (add x3 1.5))" of words x1, x2, ...
class Expression {
 public:
  Expression(std::string_view text, const std::vector<uint32_t>& inputs) : text_(text), inputs_(inputs) {}

  uint32_t value() {
    skip_spaces();
    if (text_[at_] != '(') return atom();
    ++at_;
    const std::string word = take_word();
    const bool flushes = word.ends_with(".ftz");
    std::vector<uint64_t> operands;
    for (skip_spaces(); text_[at_] != ')'; skip_spaces()) operands.push_back(value());
    ++at_;
    const auto flushed = [flushes](uint64_t x) { return flushes && (x & 0x7F800000) == 0 ? x & 0x80000000 : x; };
    const Underflow underflow = flushes ? Underflow::flush : Underflow::gradual;
    if (word == "neg") return static_cast<uint32_t>(operands[0] ^ 0x80000000);
    for (uint64_t& operand : operands) operand = flushed(operand);
    uint64_t result = 0;
    if (word.starts_with("mul"))
      result = ieee_mul(Format::f32, operands[0], operands[1], Rounding::nearest_even, underflow);
    else if (word.starts_with("add"))
      result = ieee_add(Format::f32, operands[0], operands[1], Rounding::nearest_even, underflow);
    else result = ieee_fma(Format::f32, operands[0], operands[1], operands[2], Rounding::nearest_even, underflow);
    return static_cast<uint32_t>(result);
  }

 private:
  void skip_spaces() {
    while (text_[at_] == ' ') ++at_;
  }
  std::string take_word() {
    const size_t end = text_.find_first_of(" )", at_);
    std::string word(text_.substr(at_, end - at_));
    at_ = std::min(end, text_.size());
    return word;
  }
  uint32_t atom() {
    const std::string word = take_word();
    if (word[0] == 'x') return inputs_.at(static_cast<size_t>(std::stoi(word.substr(1))));
    return std::bit_cast<uint32_t>(std::stof(word));
  }

  std::string_view text_;
  const std::vector<uint32_t>& inputs_;
  size_t at_ = 0;
};

}  // namespace

TEST_CASE("240 kernels give the words of their SASS: products and sums are joined where ptxas joins them") {
  const std::string ptx = test::read_text(test::source_path("data/kernels/fusions.ptx"));
  std::istringstream lines(test::read_text(test::source_path("data/kernels/fusions.txt")));
  std::map<std::string, std::vector<std::pair<size_t, std::string>>> outputs;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, place;
    words >> name >> place;
    outputs[name].emplace_back(std::stoul(place), line.substr(name.size() + place.size() + 2));
  }
  RandomStream random(17, 0);
  int compared = 0, unlike_without = 0;
  for (const auto& [name, stored] : outputs) {
    const size_t entry = ptx.find(".visible .entry " + name + "(");
    const std::string module =
        ptx.substr(0, ptx.find(".visible")) + ptx.substr(entry, ptx.find("}\n", entry) + 2 - entry);
    const PtxEntry joined(module), apart(module, {.fmad = false});
    for (int round = 0; round < 8; ++round) {
      std::vector<uint32_t> words(64);
      // Numbers near one: roundings differ in their last bits.
      for (size_t i = 1; i <= 6; ++i) words[i] = (random.word() & 0x807FFFFF) | (125 + random.word() % 4) << 23;
      std::vector<uint32_t> after = words, without = words;
      launch(joined, {.arguments = {test::memory(after)}});
      launch(apart, {.arguments = {test::memory(without)}});
      for (const auto& [place, text] : stored) {
        INFO(name << " " << place << " " << text);
        const uint32_t expected = Expression(text, words).value();
        CHECK(after[32 + place] == expected);
        ++compared;
        unlike_without += without[32 + place] != expected;
      }
    }
  }
  CHECK(outputs.size() >= 230);
  CHECK(compared > 4000);
  CHECK(unlike_without > 200);  // the inputs tell one rounding from two
}

TEST_CASE("this ptxas joins what the recorded one did") {
  if (!test::require_ptxas("which products and sums it joins")) return;
  const std::string tool = "python3 " + test::source_path("lab/record_fusions.py") + " " +
                           test::source_path("data/kernels") + " --check 2>&1";
  const std::string answer = test::output_of_command(tool);
  if (answer == "same\n") return;
  if (answer == "differs\n") FAIL("this ptxas joins others: record them with lab/record_fusions.py");
  WARN("NOT checked: lab/record_fusions.py needs nvdisasm of CUDA, or BITMMA_NVDISASM");
}

TEST_CASE("a kernel tells which sums it joins, by which rule, and where the rule is not sure") {
  const PtxEntry kernel(test::module_of(
      "mul.f32 %f1, %f2, %f3;\nadd.f32 %f4, %f1, %f5;\nst.global.f32 [%rd1], %f4;\n"
      "mul.f32 %f6, %f2, %f3;\nadd.f32 %f7, %f6, %f5;\nst.global.f32 [%rd1], %f6;\nst.global.f32 [%rd1], %f7;"));
  REQUIRE(kernel.fusions().size() == 2);
  CHECK(kernel.fusions()[0].is_joined);
  CHECK(kernel.fusions()[0].rule == "one use");
  CHECK_FALSE(kernel.fusions()[1].is_joined);
  CHECK(kernel.fusions()[1].rule == "other use");
  CHECK_FALSE(kernel.fusions()[0].is_sure);  // the products are the same: ptxas may make them one
}

TEST_CASE("a product joins sums of other blocks where a factor is constant") {
  // Each as the SASS of ptxas 13.0 for sm_90a has it.
  struct Row {
    std::string_view product, behind, sum, rule;
    bool joins;
  };
  constexpr std::string_view of_parameter = "ld.param.f32 %f9, [scale];\n",
                             branch = "setp.gt.f32 %p1, %f2, %f3;\n@%p1 bra far;\nst.global.f32 [%rd1], %f2;\nfar:\n";
  for (const Row& row : std::initializer_list<Row>{
           {"mul.f32 %f1, %f2, 0f3F7FF972;", "", "add.f32 %f4, %f1, %f5;", "one use", true},
           {"mul.f32 %f1, 0f3F7FF972, %f2;", "", "sub.f32 %f4, %f5, %f1;", "one use", true},
           {"mul.f32 %f1, %f2, %f9;", "", "add.f32 %f4, %f1, %f5;", "one use", true},
           {"neg.f32 %f8, %f9;\nmul.f32 %f1, %f2, %f8;", "", "add.f32 %f4, %f1, %f5;", "one use", true},
           {"div.full.f32 %f1, %f2, 0f40400000;", "", "add.f32 %f4, %f1, %f5;", "one use", true},
           {"mul.f32 %f1, %f2, 0f3F7FF972;", "",
            "add.f32 %f6, %f1, %f3;\nst.global.f32 [%rd1], %f6;\nadd.f32 %f4, %f1, %f5;", "several uses", true},
           {"mul.f32 %f1, %f2, 0f3F7FF972;", "", "neg.f32 %f6, %f1;\nadd.f32 %f4, %f6, %f5;", "one use", true},
           {"mul.f32 %f1, %f2, 0f3F7FF972;", "st.global.f32 [%rd1], %f1;\n", "add.f32 %f4, %f1, %f5;", "other use",
            false},
           {"add.f32 %f8, %f9, 0f3F800000;\nmul.f32 %f1, %f2, %f8;", "", "add.f32 %f4, %f1, %f5;", "", false},
           {"div.full.f32 %f1, 0f40400000, %f2;", "", "add.f32 %f4, %f1, %f5;", "", false},
           {"div.approx.ftz.f32 %f1, 0f40400000, %f2;", "", "add.ftz.f32 %f4, %f1, %f5;", "quotient", true},
           {"div.approx.f32 %f1, 0f40400000, %f2;", "", "add.f32 %f4, %f1, %f5;", "", false},
           {"div.full.ftz.f32 %f1, 0f40400000, %f2;", "", "add.ftz.f32 %f4, %f1, %f5;", "", false},
           {"mul.f32 %f1, %f2, %f3;", "", "add.f32 %f4, %f1, %f5;", "", false},
           {"mul.f32 %f1, %f2, %f2;", "", "add.f32 %f4, %f1, %f5;", "", false}}) {
    std::string body(of_parameter);
    body += fmt::format("{}\n{}{}{}\nst.global.f32 [%rd1], %f4;", row.product, row.behind, branch, row.sum);
    INFO(body);
    std::string text = test::module_of(body);
    text.replace(text.find(".entry k("), 9, ".entry k(.param .f32 scale, ");
    const PtxEntry kernel(text);
    const bool is_told = !kernel.fusions().empty();
    CHECK((is_told && kernel.fusions().back().is_joined) == row.joins);
    if (is_told) CHECK(kernel.fusions().back().rule == row.rule);
  }
}

TEST_CASE("a factor that is written from itself is no constant") {
  for (const std::string_view factor : {"neg.f32 %f9, %f9;\n", "mov.f32 %f8, %f9;\nmov.f32 %f9, %f8;\n"}) {
    const PtxEntry kernel(test::module_of(std::string(factor) +
                                          "mul.f32 %f1, %f2, %f9;\nsetp.gt.f32 %p1, %f2, %f3;\n@%p1 bra far;\n"
                                          "st.global.f32 [%rd1], %f2;\nfar:\nadd.f32 %f4, %f1, %f5;\n"
                                          "st.global.f32 [%rd1], %f4;"));
    CHECK(kernel.fusions().empty());
  }
}

TEST_CASE("a product of a loop whose factor changes is not sure to join a sum behind the loop") {
  const PtxEntry kernel(test::module_of(
      "mov.u32 %r1, 0;\nmov.f32 %f2, %f6;\nagain:\nmul.f32 %f1, %f2, 0f3F7FF972;\nadd.f32 %f2, %f2, %f3;\n"
      "add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 9;\n@%p1 bra again;\n"
      "add.f32 %f4, %f1, %f5;\nst.global.f32 [%rd1], %f4;"));
  REQUIRE(kernel.fusions().size() == 1);
  CHECK(kernel.fusions()[0].is_joined);
  CHECK_FALSE(kernel.fusions()[0].is_sure);  // ptxas unrolls it, and does not join
}

TEST_CASE("a product with a constant factor that stays is not sure to stay for a sum of another block") {
  const PtxEntry kernel(
      test::module_of("mul.f32 %f1, %f2, 0f3F7FF972;\nst.global.f32 [%rd1], %f1;\nsetp.gt.f32 %p1, %f2, %f3;\n"
                      "@%p1 bra far;\nst.global.f32 [%rd1], %f2;\nfar:\nadd.f32 %f4, %f1, %f5;\n"
                      "st.global.f32 [%rd1], %f4;"));
  REQUIRE(kernel.fusions().size() == 1);
  CHECK_FALSE(kernel.fusions()[0].is_joined);
  CHECK_FALSE(kernel.fusions()[0].is_sure);
}

TEST_CASE("a product that its own block reads otherwise is not sure to stay for a sum of another block") {
  const auto fusions = [](std::string_view own_use) {
    const PtxEntry kernel(test::module_of("mul.f32 %f1, %f2, %f3;\n" + std::string(own_use) +
                                          "setp.gt.f32 %p1, %f2, %f3;\n@%p1 bra far;\nadd.f32 %f4, %f3, %f1;\n"
                                          "st.global.f32 [%rd1], %f4;\nfar:\nst.global.f32 [%rd1], %f2;"));
    return kernel.fusions();
  };
  // An H200 had the bits of the joined sum, in a kernel of lab/record_kernels.py draw 9000.
  const auto doubted = fusions("fma.rn.f32 %f5, %f3, %f1, %f2;\nst.global.f32 [%rd1], %f5;\n");
  REQUIRE(doubted.size() == 1);
  CHECK((doubted[0].rule == "other block" && !doubted[0].is_joined && !doubted[0].is_sure));
  CHECK(fusions("").empty());
}

TEST_CASE("a product that other blocks read is not sure to stay where its sum is read in other blocks alone") {
  const auto is_sure = [](std::string_view behind_sum) {
    const PtxEntry kernel(test::module_of("mul.f32 %f1, %f2, %f3;\nadd.f32 %f4, %f1, %f5;\n" + std::string(behind_sum) +
                                          "setp.gt.f32 %p1, %f2, %f3;\n@%p1 bra far;\nst.global.f32 [%rd1], %f2;\n"
                                          "far:\nfma.rn.f32 %f6, %f1, %f2, %f4;\nst.global.f32 [%rd1], %f6;"));
    REQUIRE(kernel.fusions().size() == 1);
    CHECK(kernel.fusions()[0].rule == "other block");
    return kernel.fusions()[0].is_sure;
  };
  CHECK_FALSE(is_sure(""));
  CHECK(is_sure("st.global.f32 [%rd1], %f4;\n"));
}
