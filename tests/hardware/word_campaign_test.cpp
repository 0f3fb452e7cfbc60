#include "bitmma/hardware/word_campaign.hpp"

#include <array>
#include <atomic>
#include <numeric>

#include "bitmma/core/error.hpp"
#include "bitmma/math/math_instruction.hpp"
#include "math/coefficients.hpp"
#include "math/mufu.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"
#include "support/ptxas.hpp"

using namespace bitmma;

namespace {

const std::vector<WordFunction>& functions() {
  static const std::vector<WordFunction> all = math_word_functions(Target::sm_90a);
  return all;
}

/// What the model says, as a GPU would.
std::vector<uint32_t> by_model(const WordFunction& function, const WordArguments& arguments) {
  std::vector<uint32_t> results(arguments.count);
  function.model(arguments, results);
  return results;
}

}  // namespace

TEST_CASE("a campaign over words tries every function, and tells a wrong one by its first word") {
  WordCampaignOptions options{.only = "f16", .arguments = 3000, .threads = 2, .source = "a model"};
  WordCampaignReport report = run_word_campaign(functions(), options, by_model);
  CHECK(report.rows.size() > 20);
  for (const WordCampaignRow& row : report.rows) {
    INFO(row.name);
    CHECK(row.differing == 0);
    CHECK(row.arguments == (row.exhaustive ? 65536 : 3000));
    CHECK(row.digest != 0);
  }
  const uint64_t digest = report.rows.front().digest;
  // One wrong word in each.
  report = run_word_campaign(functions(), options, [](const WordFunction& function, const WordArguments& arguments) {
    std::vector<uint32_t> results = by_model(function, arguments);
    results[2000] ^= 1;
    results[2500] ^= 1;
    return results;
  });
  for (const WordCampaignRow& row : report.rows) {
    INFO(row.name);
    CHECK(row.differing == 2);
    REQUIRE(row.first);
    CHECK((row.first->gpu ^ row.first->model) == 1);
    if (row.exhaustive) CHECK(row.first->a == 2000);
  }
  CHECK(report.rows.front().digest != digest);
  CHECK(print(describe(report, options, 1)).find("the GPU gives") != std::string::npos);
}

// Negative controls: a table of the unit that is wrong in one coefficient, by one.

namespace {

// Copies of the tables that tests change.
auto ex2_copy = math::ex2_quadratics, lg2_copy = math::lg2_quadratics, sin_copy = math::sin_quadratics;
auto rcp_copy = math::rcp_quadratics, rsqrt_copy = math::rsqrt_quadratics, sqrt_copy = math::sqrt_quadratics;
auto tanh_copy = math::tanh_quadratics;

/// A function of the special function unit, by its table and by the copy.
struct Unit {
  std::string instruction;  // .ftz: the unit's word alone
  std::span<math::Quadratic> copy;
  uint32_t (*by_table)(uint32_t);
  uint32_t (*by_copy)(uint32_t);
  int c0_shift;  // the grid of c0, in its unit: lower bits reach no output
  bool counts_turns = false;
};
const std::vector<Unit>& units() {
  using namespace math;
  static const std::vector<Unit> all{
      {"ex2.approx.ftz.f32", ex2_copy, mufu_ex2<ex2_quadratics>, mufu_ex2<ex2_copy>, 33},
      {"rcp.approx.ftz.f32", rcp_copy, mufu_rcp<rcp_quadratics>, mufu_rcp<rcp_copy>, 33},
      {"rsqrt.approx.ftz.f32", rsqrt_copy, mufu_rsq<rsqrt_quadratics>, mufu_rsq<rsqrt_copy>, 33},
      {"sqrt.approx.ftz.f32", sqrt_copy, mufu_sqrt<sqrt_quadratics>, mufu_sqrt<sqrt_copy>, 33},
      {"lg2.approx.ftz.f32", lg2_copy, mufu_lg2<lg2_quadratics>, mufu_lg2<lg2_copy>, 33},
      {"sin.approx.ftz.f32", sin_copy, mufu_sin<sin_quadratics>, mufu_sin<sin_copy>, 34, true},
      {"cos.approx.ftz.f32", sin_copy, mufu_cos<sin_quadratics>, mufu_cos<sin_copy>, 34, true},
      {"tanh.approx.f32", tanh_copy, mufu_tanh<tanh_quadratics>, mufu_tanh<tanh_copy>, 34}};
  return all;
}

/// Changes coefficient `which` of a triple.
void add_to(math::Quadratic& triple, const Unit& unit, int which, int difference) {
  if (which == 0) triple.c0 += int64_t{difference} * (int64_t{1} << unit.c0_shift);
  if (which == 1) triple.c1 += difference;
  if (which == 2) triple.c2 += difference;
}

}  // namespace

TEST_CASE("a campaign sees every coefficient of the special function unit that is wrong by one", "[rule:mufu][long]") {
  int controls = 0;
  for (const Unit& unit : units()) {
    WordFunction function = *std::ranges::find(functions(), unit.instruction, &WordFunction::name);
    function.exhaustive = false;
    WordCampaignOptions options{.arguments = 1 << 16, .source = "a changed table"};
    const uint64_t digest = run_word_campaign({function}, options, by_model).rows.at(0).digest;
    for (size_t index = 0; index < unit.copy.size(); ++index) {
      for (const int which : {0, 1, 2}) {
        const int difference = index % 2 == 0 ? 1 : -1;
        add_to(unit.copy[index], unit, which, difference);
        const uint32_t first = unit.counts_turns ? 0x3A000000 : 0x3B000000,
                       end = unit.counts_turns ? 0x3E800000 : 0x41000000;
        int64_t differing = 0;
        for (uint32_t word = first; word < end && differing == 0; word += 1009)
          differing += unit.by_copy(word) != unit.by_table(word);
        add_to(unit.copy[index], unit, which, -difference);
        INFO(unit.instruction << ", triple " << index << ", c" << which);
        CHECK(differing > 0);
        ++controls;
      }
    }
    // One of them as a campaign reports it: the count, the first word, another digest.
    const auto by_copy = [&](uint32_t word) { return unit.by_copy(unit.counts_turns ? math::turns_of(word) : word); };
    add_to(unit.copy[5], unit, 1, 1);
    const WordCampaignReport report =
        run_word_campaign({function}, options, [&](const WordFunction&, const WordArguments& arguments) {
          std::vector<uint32_t> results;
          for (const uint32_t word : arguments.a) results.push_back(by_copy(word));
          return results;
        });
    INFO(unit.instruction);
    CHECK(report.rows.at(0).differing > 0);
    CHECK(report.rows.at(0).digest != digest);
    REQUIRE(report.rows.at(0).first);
    CHECK(by_copy(report.rows.at(0).first->a) == report.rows.at(0).first->gpu);
    CHECK(print(describe(report, options, 1)).find("the GPU gives") != std::string::npos);
    add_to(unit.copy[5], unit, 1, -1);
  }
  CHECK(controls == 3 * (64 + 128 + 128 + 128 + 64 + 64 + 64 + 51));
}

TEST_CASE("a campaign over words tries conversions, those of 64 bits by halves, and the kernels of C's functions") {
  const std::vector<WordFunction> conversions = cvt_word_functions(Target::sm_90a);
  CHECK(conversions.size() > 200);
  const WordCampaignOptions options{.arguments = 500, .source = "a model"};
  std::vector<WordFunction> tried;
  for (size_t i = 0; i < conversions.size(); i += test::amount<size_t>(29, 1, 1)) tried.push_back(conversions[i]);
  const WordCampaignReport report = run_word_campaign(tried, options, by_model);
  CHECK(report.rows.size() == tried.size());
  CHECK(std::ranges::none_of(report.rows, [](const WordCampaignRow& row) { return row.differing > 0; }));
  const WordArguments words{.count = 2, .a = {0x00000000, 0x54442D18}, .b = {0x3FF00000, 0x400921FB}};
  const auto results_of = [&](std::string_view name) {
    return by_model(*std::ranges::find(conversions, name, &WordFunction::name), words);
  };
  CHECK(results_of("cvt.rn.f32.f64") == std::vector<uint32_t>{0x3F800000, 0x40490FDB});
  CHECK(results_of("cvt.f64.f32 high").size() == 2);

  const std::string nvcc("\0bits_of_expf\0bits_of_expf_fast\0bits_of_powf2", 45);
  const std::vector<WordFunction> c = c_word_functions({nvcc, "bits_of_tl_exp_triton"});
  REQUIRE(c.size() == 3);
  CHECK(c[0].entry == "bits_of_expf");
  CHECK(c[1].entry == "bits_of_expf_fast");
  CHECK(c[2].name == "tl.exp@triton_3_6");
  CHECK(word_kernel(c[0], Target::sm_90a, false).entry == "bits_of_expf");
  CHECK_THROWS_AS(c_word_functions({nvcc, "nothing"}), Error);
}

TEST_CASE("a campaign over words refuses what it cannot do, and stops when asked") {
  WordCampaignOptions options{.only = "no such", .arguments = 0, .seconds = -1, .threads = 0};
  try {
    run_word_campaign(functions(), options, by_model);
    FAIL("not refused");
  } catch (const Error& error) {
    CHECK(error.violations().size() == 4);
  }
  options = {.only = "tanh.approx.f16", .arguments = 10};
  CHECK_THROWS_AS(run_word_campaign(functions(), options,
                                    [](const WordFunction&, const WordArguments&) { return std::vector<uint32_t>(3); }),
                  Error);
  options.stop = [] { return true; };
  const WordCampaignReport report = run_word_campaign(functions(), options, by_model);
  CHECK(report.stopped);
  CHECK(report.rows.empty());
}

TEST_CASE("the digest of words depends on every word and place, not on the order of summing") {
  std::vector<uint32_t> words(1000);
  std::iota(words.begin(), words.end(), 7u);
  const uint64_t all = word_digest(5, words);
  const std::span<const uint32_t> view(words);
  CHECK(word_digest(5, view.first(300)) + word_digest(305, view.subspan(300)) == all);
  std::swap(words[1], words[2]);
  CHECK(word_digest(5, words) != all);
  CHECK(word_digest(6, view) != all);
}

TEST_CASE("the kernel of a function of words takes its arguments from arrays, or from their index") {
  const auto named = [](std::string_view name) { return *std::ranges::find(functions(), name, &WordFunction::name); };
  const Kernel index = word_kernel(named("ex2.approx.ftz.f32"), Target::sm_90a, false);
  CHECK(index.text.find("ex2.approx.ftz.f32 y, a;") != std::string::npos);
  CHECK(index.text.find("add.u32 a, a, index;") != std::string::npos);
  const Kernel arrays = word_kernel(named("fma.rn.relu.bf16"), Target::sm_90a, true);
  CHECK(arrays.inputs.size() == 3);
  CHECK(arrays.text.find("fma.rn.relu.bf16 hy, ha, hb, hc;") != std::string::npos);
}

TEST_CASE("ptxas assembles the kernel of every function of words, on an H100 and a B200", "[daily]") {
  if (!test::require_ptxas("kernels of functions of words")) return;
  for (const Target target : {Target::sm_90a, Target::sm_100a}) {
    std::vector<test::PtxModule> modules;
    std::vector<WordFunction> all = math_word_functions(target);
    const std::vector<WordFunction> conversions = cvt_word_functions(target);
    all.insert(all.end(), conversions.begin(), conversions.end());
    for (const WordFunction& function : all) {
      if (function.version > test::ptxas_isa()) continue;  // this ptxas does not read it
      for (const bool with_arrays : {false, true}) {
        if (with_arrays || function.operands == 1)
          modules.push_back({.text = word_kernel(function, target, with_arrays).text, .target = target});
      }
    }
    const std::vector<char> takes = test::ptxas_takes(modules, 20);
    for (size_t i = 0; i < modules.size(); ++i) {
      INFO(modules[i].text);
      CHECK(takes[i]);
    }
  }
}
