// The evidence for functions of words: those of math and C functions have their rows in the same tables.
#include "bitmma/math/evidence.hpp"

#include <fmt/format.h>

#include <set>
#include <sstream>

#include "bitmma/core/error.hpp"
#include "bitmma/operators/c_function.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

/// The names in the first column of a table of data/math, without what stands behind a space.
std::set<std::string> functions_of(const std::string& file, std::string_view ending = "") {
  std::istringstream lines(test::read_text(test::source_path("data/math/" + file)));
  std::set<std::string> names;
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    if (line.ends_with(ending)) names.insert(line.substr(0, line.find_first_of(" ,")));
  }
  return names;
}

/// Calls `body(name, function, targets)` for every function of words.
template <typename Body>
void for_each_function(const Body& body) {
  for (const MathInstruction& instruction : math_instructions())
    body(print(instruction), instruction, targets_of(instruction));
  for (const CvtInstruction& instruction : cvt_instructions())
    body(print(instruction), instruction, targets_of(instruction));
  for (const CFunction& function : c_functions()) body(print(function), function, TargetSet::from(Target::sm_70));
}

}  // namespace

TEST_CASE("a function is measured or sampled where a table of data/math has it, on no other GPU, and nowhere else") {
  const std::set<std::string> h100 = functions_of("h100.csv"), h200 = functions_of("h200.csv"),
                              all = functions_of("compared.csv", ",all"),
                              random = functions_of("compared.csv", ",random");
  std::set<std::string> known;
  int measured = 0, sampled = 0;
  for_each_function([&](const std::string& name, const auto& function, TargetSet with) {
    INFO(name);
    known.insert(name);
    const bool of_f64 = name.ends_with(".f64") && name.find("approx") != std::string::npos;
    for (const TargetInfo& target : bitmma::targets) {
      if (!with.contains(target.id)) continue;
      const EvidenceOfWords evidence = evidence_of(function, target.id);
      REQUIRE_FALSE(evidence.source.empty());
      if (target.chip != Target::sm_90) {
        CHECK(evidence.level > WordEvidence::sampled);
        continue;
      }
      const bool has_all = ((h100.contains(name) || h200.contains(name)) && !of_f64) || all.contains(name);
      const bool has_some = of_f64 || random.contains(name);
      CHECK((evidence.level == WordEvidence::measured) == has_all);
      CHECK((evidence.level == WordEvidence::sampled) == (has_some && !has_all));
      measured += evidence.level == WordEvidence::measured;
      sampled += evidence.level == WordEvidence::sampled;
      if (!has_all || all.contains(name)) continue;
      CHECK((evidence.source.find("H100") != std::string::npos) == h100.contains(name));
      CHECK((evidence.source.find("H200") != std::string::npos) == h200.contains(name));
    }
  });
  CHECK(measured > 300);
  CHECK(sampled > 500);
  for (const std::set<std::string>* table : {&h100, &h200, &all, &random}) {
    for (const std::string& name : *table) {
      INFO(name);
      CHECK(known.contains(name));  // no row is of a function that there is not
    }
  }
}

TEST_CASE("evidence says what was compared, or what the result rests on") {
  const auto of = [](const auto& function, Target target = Target::sm_90a) {
    const EvidenceOfWords evidence = evidence_of(function, target);
    return fmt::format("{}: {}", print(evidence.level), evidence.source);
  };
  CHECK(of(parse_math_instruction("ex2.approx.f32")) == "measured: all 2^32 words of an H100 and an H200");
  CHECK(of(parse_math_instruction("ex2.approx.f32"), Target::sm_90) == of(parse_math_instruction("ex2.approx.f32")));
  CHECK(of(parse_math_instruction("ex2.approx.f16")) == "measured: all 65,536 words of an H100 and an H200");
  CHECK(of(parse_math_instruction("rcp.approx.ftz.f64")) == "sampled: 2,109,440 words of an H100");
  CHECK(of(parse_math_instruction("add.rn.f32")) == "sampled: 8,000,000 random pairs of an H200");
  CHECK(of(parse_math_instruction("fma.rn.f32")) == "sampled: 8,000,000 random triples of an H200");
  CHECK(of(parse_math_instruction("add.rn.f32"), Target::sm_100a) == "documented: IEEE 754; PTX ISA 9.7.3 and 9.7.4");
  CHECK(
      of(parse_math_instruction("ex2.approx.f16x2")).starts_with("documented: each half as ex2.approx.f16 (PTX ISA)"));
  CHECK(of(parse_math_instruction("ex2.approx.f32"), Target::sm_100a).starts_with("assumed: as on sm_90a"));
  CHECK(of(parse_cvt("cvt.rn.f32.f64")) == "sampled: 2,000,000 random words of an H200");
  CHECK(of(parse_cvt("cvt.rn.f16.f32"), Target::sm_80).starts_with("documented: PTX ISA 9.7.9.21"));
  CHECK(of(parse_cvt("cvt.rn.satfinite.e2m1x2.f32"), Target::sm_100a).starts_with("documented: PTX ISA"));
  CHECK(of(parse_cvt("cvt.rn.f16x2.ue5m3x2"), Target::sm_107a).starts_with("compiled: ptxas 13.5"));
  CHECK(of(parse_c_function("gelu")) == "measured: all 2^32 words of an H200");
  CHECK(of(parse_c_function("powf")) == "sampled: 16,000,000 random pairs of an H100");
  CHECK(of(parse_c_function("expf"), Target::sm_80).starts_with("assumed"));
  for (const auto& [name, target] : {std::pair("tanh.approx.bf16", Target::sm_80),
                                     {"fma.rn.relu.f16", Target::sm_75},
                                     {"ex2.approx.f16", Target::sm_70}}) {
    INFO(name);
    CHECK_THROWS_AS(evidence_of(parse_math_instruction(name), target), Error);
  }
  CHECK_THROWS_AS(evidence_of(parse_cvt("cvt.rn.satfinite.e2m1x2.f32"), Target::sm_90a), Error);
}
