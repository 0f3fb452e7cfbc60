// tools/site/tables/rules.md, the table of rules of the site: every rule that the program follows, the row or function
// that holds it, where it is known from, and the tests that would notice if it broke. Tests name their rules with a
// tag: TEST_CASE("...", "[rule:floor]").
//
// BITMMA_UPDATE_DOCS=1 in the environment writes the table anew.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "support/catch.hpp"
#include "support/documents.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

struct Rule {
  std::string_view id, what, where, source;
};

constexpr std::string_view h200 = "measured on an H200: data/golden/sm_90a",
                           words = "published words of a B200: data/b200", cutlass = "CUTLASS: data/oracle",
                           choice = "model choice";

// one row a rule
// clang-format off
constexpr auto rules = std::to_array<Rule>({
    {"decode", "A code is sign, exponent and mantissa; subnormals are not normalised; tf32 drops 13 bits first",
     "formats/format.hpp", "IEEE 754-2019; OCP 8-bit and MX 1.0; PTX ISA 5.2.3"},
    {"rounding", "An exact value becomes a code by one rounding; subnormals are produced, overflow is decided after it",
     "formats/round.hpp", "IEEE 754-2019; PTX ISA 9.7.9.21; H200"},
    {"fused-sum", "All products and C are truncated to a multiple of 2^(e_max - F), added exactly, rounded once",
     "arithmetic/accumulator_model.cpp: fraction_bits", h200},
    {"product-exponent", "A product has the sum of its factors' exponents, also when it is 2 or more; a zero has none",
     "arithmetic/fused_sum.cpp", h200},
    {"floor", "e_max is at least emin(D) - 7", "arithmetic/accumulator_model.cpp: floor_exponent", h200},
    {"output-rounding", "f32 results are truncated, f16 results rounded to nearest even, from the sum itself",
     "arithmetic/accumulator_model.cpp: rounding", h200},
    {"fp8-13-bits", "Hopper's fp8 keeps 13 fraction bits inside and in the result",
     "arithmetic/accumulator_model.cpp: fraction_bits, output_fraction_bits", h200},
    {"zero", "A zero result is +0", "arithmetic/fused_sum.cpp", h200},
    {"nan", "NaN is 0x7FFFFFFF or 0x7FFF; infinity times zero and opposite infinities are NaN",
     "arithmetic/special_values.cpp", h200},
    {"integers", "Integers are summed exactly, then wrap, or with .satfinite are clamped once",
     "arithmetic/accumulator_model.cpp: integer", h200},
    {"popcount", "b1 counts positions where both bits are set", "arithmetic/accumulator_model.cpp: popcount", h200},
    {"steps", "D of a step of K is C of the next, where a row has steps",
     "arithmetic/accumulator_model.cpp: terms_per_step, step_order",
     "fp8 of mma.sync on Hopper measured on an H200; published outputs of Ada; MMA-Sim, arXiv 2511.10909"},
    {"ieee", "Multiply-adds and additions beside tensor cores are IEEE 754's: one rounding, no flushing",
     "formats/ieee.cpp", "IEEE 754-2019; SASS of ptxas; measured on an H200: data/golden/sm_90a/mma_sync"},
    {"mufu", "ex2, rcp, rsqrt, sqrt, lg2, sin, cos and tanh .approx: a quadratic from a table, a truncated square, 24 bits",
     "math/mufu.hpp", "Oberman and Siu, ARITH-17, 2005, for the design; outputs of an H100 and an H200; SASS of ptxas"},
    {"math", "Instructions beside them round once; .ftz flushes operands, and results below the normal "
     "numbers after rounding, then .sat and .relu clamp",
     "math/math_instruction.cpp", "PTX ISA 9.7.3, 9.7.4; words of an H100 and an H200: data/math"},
    {"c-functions", "C's functions on float are the operations that nvcc 13.0 and Triton 3.6 emit for them, each rounded once",
     "operators/c_function_code.hpp", "PTX and SASS of these compilers; outputs of an H100 and an H200: data/math"},
    {"quantize", "A quantiser is the f32 operations of its project, in their order: amax, scale, its rounding, the codes",
     "operators/recipes.cpp", "sources of the projects, and what their own code gives: data/quantize"},
    {"cvt", "A conversion takes the exact value, divides or multiplies it by the scale, and rounds once", "math/cvt.cpp",
     "PTX ISA 9.7.9.21; forms: ptxas 13.0 and 13.5; moves and tf32's .rna: their SASS; words of an H100 and an H200: data/math"},
    {"f64-nan", "f64 gives the NaN of b, else of the sum so far, else of a, made quiet; 0xFFF8000000000000 by default",
     "arithmetic/fma.cpp", "measured on an H200: data/golden/sm_90a/mma_sync"},
    {"products", "A whole product chains an instruction over K as a plan says; f32 between instructions is IEEE",
     "gemm/gemm.cpp", "recorded calls of cuBLAS on an H100: data/products"},
    {"padding", "kind::f8f6f4 of sm_120: the two padding bits below e2m1 count as mantissa",
     "instruction/mma_sync/mma_sync.cpp", "published words of an RTX 5070 Ti: data/published"},
    {"whole-k-scales", "mxf8f6f4: both scales' exponents are added to every product's",
     "arithmetic/accumulator_model.cpp: whole_k", words},
    {"groups-of-16", "mxf4 kinds: groups of 16 products exactly, aligned by their scales alone, F = 35, floor -139",
     "arithmetic/accumulator_model.cpp: exact_groups", words},
    {"scale-input-d", "tcgen05: C counts C * 2^-s exactly", "arithmetic/terms.cpp", choice},
    {"selection",
     "A stored element of a sparse A meets the column that its metadata names; undefined metadata as an H200 takes it",
     "memory/metadata.cpp", h200},
    {"swizzle", "The XOR takes bits of the absolute address, 16-byte units move", "layout/swizzle.hpp", h200},
    {"base-offset", "The base offset is subtracted from the row phase", "layout/swizzle.hpp", h200},
    {"canonical", "What LBO and SBO mean, by major-ness and swizzle", "layout/canonical.cpp",
     "PTX ISA 9.7.15.5.1.2.1.3; CUTLASS: data/oracle; H200"},
    {"lbo-of-wide-rows", "A row of K wider than the swizzle goes on at LBO", "layout/canonical.cpp: hardware_layout",
     h200},
    {"cute", "CuTe's notation means what CuTe means by it", "layout/cute.cpp", cutlass},
    {"cute-algebra", "Layout algebra gives CuTe's layouts, and what the definitions say", "layout/algebra.cpp", cutlass},
    {"scale-image", "Scales in tiles of 128 x 4", "layout/scale_image.hpp", cutlass},
    {"smem-descriptor", "The fields of shared-memory descriptors", "descriptor/smem_descriptor.cpp",
     "PTX ISA 9.7.15.5.1.2.2 and 9.7.16.4.1; CUTLASS: data/oracle"},
    {"instruction-descriptor", "The fields of tcgen05's instruction descriptors, by kind",
     "descriptor/instruction_descriptor.cpp", "PTX ISA 9.7.16.4.2; CUTLASS: data/oracle"},
    {"zero-column-mask", "Which columns of B count as zero", "descriptor/zero_column_mask.cpp",
     "PTX ISA 9.7.16.4.3 and its examples"},
    {"fragments", "Which thread holds which element in which register", "memory/fragment.cpp",
     "PTX ISA figures 148-155; CUTLASS: data/oracle"},
    {"metadata-registers", "Which register bits name the columns of a sparse A", "memory/metadata.cpp", h200},
    {"tensor-memory", "Layouts A to G of D, copies of A, metadata and scales in Tensor Memory",
     "memory/tmem.hpp: tmem_layouts", cutlass},
    {"ldst", "Which lanes and columns tcgen05.ld and .st move", "memory/tmem.hpp: ldst_shapes",
     "PTX ISA 9.7.16.8; CUTLASS"},
    {"ld-red", "redval of tcgen05.ld.red is the least or largest of a thread's registers; NaN as .NaN says",
     "instruction/tmem_move/reduction.cpp",
     "PTX ISA 9.4, 9.7.18.8.3; NaN without .NaN, -0 and the sign of .abs are a model choice"},
    {"cp", "Where tcgen05.cp puts its rows, and how it unpacks", "memory/tmem.hpp: cp_shapes",
     "PTX ISA 9.7.16.9.1; TVM"},
    {"shift", "tcgen05.shift and .ashift move lanes down by one in every 32", "memory/tmem.hpp: shifted_lane", choice},
    {"forms", "Which instructions exist, on which targets", "instruction/form.cpp",
     "PTX ISA 9.7.14 to 9.7.16; ptxas 13.0"},
    {"ptx-text", "How an instruction and its operands are written", "instruction/FAMILY/text.cpp",
     "PTX ISA 9.7.14 to 9.7.16; ptxas 13.0"},
    {"state", "Which buffers an instruction reads and writes, and that nothing else is touched",
     "instruction/FAMILY: fields", "PTX ISA 9.7.14 to 9.7.16"},
    {"lane-masks", "Disabled lanes and upper halves of f16 cells keep what they had",
     "instruction/tcgen05/tcgen05.cpp: scatter", "PTX ISA 9.7.16.10.9; the upper half is a model choice"},
    {"seed", "The same seed makes the same cases, on any machine", "stimulus/random_operands.cpp",
     "Salmon et al., SC 2011 (Philox); tests/stimulus/golden_hashes.csv"},
    {"evidence", "Nothing is called surer than its evidence, per target",
     "arithmetic/accumulator_model.cpp: evidence, proven_on", "docs/evidence.md"},
});
// clang-format on

/// Test names by the rules that their tags name.
std::map<std::string, std::set<std::string>> tests_by_rule() {
  std::map<std::string, std::set<std::string>> tests;
  const std::regex test_case(R"re(TEST_CASE\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+),\s*((?:"(?:\[[^\]]*\])+"\s*)+)\))re");
  const std::regex literal(R"re("((?:[^"\\]|\\.)*)")re"), tag(R"re(\[rule:([^\]]+)\])re");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(test::source_path("tests"))) {
    if (entry.path().extension() != ".cpp" || entry.path().filename() == "rules_test.cpp") continue;
    const std::string text = test::read_text(entry.path().string());
    const std::string file = std::filesystem::relative(entry.path(), test::source_path("tests")).string();
    for (std::sregex_iterator at(text.begin(), text.end(), test_case), end; at != end; ++at) {
      const std::string names = (*at)[1], quoted_tags = (*at)[2];
      std::string name, tags;
      for (std::sregex_iterator part(quoted_tags.begin(), quoted_tags.end(), literal); part != end; ++part) {
        tags += (*part)[1];
      }
      for (std::sregex_iterator part(names.begin(), names.end(), literal); part != end; ++part) name += (*part)[1];
      for (std::sregex_iterator match(tags.begin(), tags.end(), tag); match != end; ++match) {
        tests[(*match)[1]].insert(fmt::format("{} ({})", name, file));
      }
    }
  }
  return tests;
}

std::string table(const std::map<std::string, std::set<std::string>>& tests) {
  std::string text;
  for (const Rule& rule : rules) {
    text += fmt::format("{}## {}\n\n{}.\n\n- in {}\n- source: {}\n", text.empty() ? "" : "\n", rule.id, rule.what,
                        rule.where, rule.source);
    if (const auto entry = tests.find(std::string(rule.id)); entry != tests.end()) {
      const size_t count = entry->second.size();
      text +=
          fmt::format("\n<details markdown=\"1\"><summary>{} {}</summary>\n\n", count, count == 1 ? "test" : "tests");
      for (const std::string& name : entry->second) text += fmt::format("- {}\n", name);
      text += "\n</details>\n";
    }
  }
  return text;
}

}  // namespace

TEST_CASE("the site's table of rules names every rule with its row, its source and its tests", "[unsanitized]") {
  const auto tests = tests_by_rule();
  for (const Rule& rule : rules) {
    INFO("rule " << rule.id);
    CHECK(tests.contains(std::string(rule.id)));
  }
  for (const auto& [id, names] : tests) {
    INFO("tag [rule:" << id << "] of " << *names.begin());
    CHECK(std::ranges::find(rules, std::string_view(id), &Rule::id) != rules.end());
  }
  test::check_table("rules", table(tests));
}
