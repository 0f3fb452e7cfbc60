// Plants every fault of the catalogue in random cases and requires that it is found; and that clean data has none.
#include "bitmma/analysis/diagnose.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <set>

#include "bitmma/core/parallel.hpp"
#include "bitmma/descriptor/zero_column_mask.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/stimulus/random_case.hpp"
#include "support/catch.hpp"

using namespace bitmma;

namespace {

struct Subject {
  Instruction instruction = Wgmma{};
  Distribution distribution = Distribution::normal;
  Placement placement = {};

  std::string name() const { return print(instruction); }
};

/// Subjects that between them can have every fault: both memories, registers, all majors, sparse, scaled, integers.
std::vector<Subject> subjects() {
  const OperandLayout padded{.swizzle = Swizzle::b64, .padding_bytes = 32, .start_bytes = 32};
  const ZeroColumnMask mask{.non_zero_mask = true, .skip_span = 2, .use_span = 3, .column_shift = 4};
  return {
      {.instruction = wgmma({.n = 32})},
      {.instruction = wgmma({.n = 64, .a = Format::bf16, .b = Format::bf16}),
       .distribution = Distribution::wide,
       .placement = {.a = padded, .b = {.major = Major::mn, .swizzle = Swizzle::b32}}},
      {.instruction =
           wgmma({.n = 32, .a = Format::e4m3, .b = Format::e5m2, .sparse = true, .a_source = OperandSource::registers}),
       .placement = {.b = {.start_bytes = 128, .base_offset = 3}}},
      {.instruction = wgmma({.n = 16, .d = Format::s32, .a = Format::s8, .b = Format::u8, .enable_input_d = false}),
       .distribution = Distribution::bits,
       .placement = {.a = {.swizzle = Swizzle::none}, .b = {.swizzle = Swizzle::b32}}},
      {.instruction = tcgen05({.kind = MmaKind::f16, .cta_group = 2, .m = 256, .n = 32, .scale_input_d = 3})},
      {.instruction = tcgen05(
           {.kind = MmaKind::f8f6f4, .n = 32, .d = Format::f16, .a = Format::e2m3, .b = Format::e3m2, .sparse = true})},
      {.instruction = tcgen05({.kind = MmaKind::mxf8f6f4, .n = 128, .a = Format::e4m3, .b = Format::e5m2})},
      {.instruction = tcgen05({.kind = MmaKind::mxf4nvf4, .n = 64, .scale_type = Format::ue4m3})},
      {.instruction =
           parse_instruction("mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0")},
      {.instruction = mma_sync({.d = Format::f16})},
      {.instruction = mma_sync({.a = Format::bf16, .sparse = true, .sparsity_selector = 1})},
      {.instruction = mma_sync({.a = Format::e4m3, .b = Format::e5m2})},
      {.instruction = mma_sync({.d = Format::s32, .a = Format::s8, .b = Format::u8, .sparse = true}),
       .distribution = Distribution::bits},
      {.instruction = mma_sync({.m = 8, .d = Format::s32, .a = Format::b1}), .distribution = Distribution::bits},
      {.instruction = mma_sync({.d = Format::f64, .a = Format::f64})},
      {.instruction = mma_sync({.m = 8})},
      {.instruction =
           tcgen05({.kind = MmaKind::tf32, .weight_stationary = true, .m = 64, .n = 64, .max_shift_code = 2}),
       .placement = {.b = {.major = Major::mn, .swizzle = Swizzle::b128_atom32}, .zero_column_mask = encode(mask)}},
      {.instruction = tcgen05({.kind = MmaKind::f16,
                               .n = 16,
                               .a = Format::bf16,
                               .b = Format::bf16,
                               .a_source = OperandSource::tmem,
                               .ashift = true})},
  };
}

/// Two cases of a subject; its number is the seed.
std::vector<Case> cases_of(const Subject& subject, size_t number) {
  const Instruction instruction = with_majors(subject.instruction, subject.placement.a, subject.placement.b);
  std::vector<Case> cases;
  for (uint64_t i = 0; i < 2; ++i) {
    cases.push_back(
        random_case(instruction, default_target(instruction), subject.placement, subject.distribution, number, i));
  }
  return cases;
}

/// D of every case in a program with these faults.
std::vector<Matrix> planted_d(std::span<const Case> cases, std::span<const std::string> ids) {
  std::vector<Matrix> planted;
  for (int64_t index = 0; index < static_cast<int64_t>(cases.size()); ++index) {
    planted.push_back(faulty_d(cases, index, ids));
  }
  return planted;
}

std::vector<Matrix> truth_of(std::span<const Case> cases) {
  std::vector<Matrix> truth;
  for (const Case& one : cases) truth.push_back(computed_d(one));
  return truth;
}

struct Score {
  int planted = 0, invisible = 0, first = 0, top_3 = 0;
  std::string missed;
};

bool names(const Finding& finding, const std::string& id) {
  return finding.faults.size() == 1 && finding.faults[0].id == id;
}

/// The rank of the planted fault: findings that fit exactly as well share a rank, as nothing can tell them apart.
int rank_of(const Diagnosis& diagnosis, const std::string& id) {
  int rank = 0;
  int64_t last_score = -1;
  for (const Finding& finding : diagnosis.findings) {
    const int64_t score = finding.wrong_explained - finding.right_broken;
    if (score != last_score) ++rank;
    last_score = score;
    if (names(finding, id)) return rank;
  }
  return 1000;
}

}  // namespace

TEST_CASE("every fault of the catalogue, planted in random cases, is found") {
  const std::vector<Subject> all = subjects();
  std::set<std::string> kinds;
  Score total;
  constexpr int every = BITMMA_ORACLE_OUTPUTS >= 1'000'000 ? 1 : 12;  // the sanitizers take a sample
  std::mutex mutex;
  parallel_for(all.size(), hardware_threads(), [&](size_t number) {
    const std::vector<Case> cases = cases_of(all[number], number);
    const std::vector<Matrix> truth = truth_of(cases);
    Score score;
    int number_of_fault = static_cast<int>(number);
    for (const Fault& fault : fault_catalogue(cases)) {
      if (++number_of_fault % every != 0) continue;
      std::vector<Matrix> planted;
      try {
        planted = planted_d(cases, std::array{fault.id});
      } catch (const Error&) {
        continue;  // a case cannot have it, such as a start before the image
      }
      ++score.planted;
      if (planted == truth) {
        ++score.invisible;
        continue;
      }
      const Diagnosis diagnosis = diagnose(cases, planted, {.max_findings = 100, .pairs = false});
      const int rank = rank_of(diagnosis, fault.id);
      score.first += rank == 1 && diagnosis.findings.front().explains_all;
      score.top_3 += rank <= 3;
      if (rank > 1) score.missed += all[number].name() + ": " + fault.id + " at rank " + std::to_string(rank) + "\n";
      const std::lock_guard lock(mutex);
      kinds.insert(fault.id.substr(0, fault.id.find_last_of('.')));
    }
    const std::lock_guard lock(mutex);
    total.planted += score.planted, total.invisible += score.invisible, total.first += score.first,
        total.top_3 += score.top_3, total.missed += score.missed;
  });
  const int visible = total.planted - total.invisible;
  INFO(total.planted << " planted, " << total.invisible << " change nothing, " << total.first << " found first\n"
                     << total.missed);
  CHECK(total.first >= visible * 95 / 100 - (every > 1));
  CHECK(total.top_3 == visible);
  CHECK(visible > 400 / every);
  CHECK(total.invisible < total.planted / 5);
}

TEST_CASE("clean data has no fault, whatever it is") {
  const std::vector<Subject> all = subjects();
  for (size_t number = 0; number < all.size(); ++number) {
    const std::vector<Case> cases = cases_of(all[number], number);
    const Diagnosis diagnosis = diagnose(cases, truth_of(cases));
    INFO(all[number].name());
    CHECK(diagnosis.wrong == 0);
    CHECK(diagnosis.findings.empty());
  }
}

TEST_CASE("two faults together are found where one does not explain") {
  struct Planted {
    size_t subject;
    std::string first, second;
  };
  const std::vector<Planted> table = {{0, "b.swizzle.64", "d.rows_8"},
                                      {0, "a.negate", "c.cleared"},
                                      {0, "a.start.+32", "b.type.bf16"},
                                      {0, "b.rows_8", "adder.fma_chain"},
                                      {1, "a.xor_on_offset", "c.cleared"},
                                      {0, "b.strides_exchanged", "d.cols_1"},
                                      {2, "metadata.reversed", "b.base_offset.0"},
                                      {4, "d.rows_128", "c.no_scale"},
                                      {7, "scale_a.type", "b.nibbles"},
                                      {7, "a.layout.64", "scale_b.blocks_reversed"}};
  for (const Planted& pair : table) {
    const std::vector<Case> cases = cases_of(subjects()[pair.subject], pair.subject);
    const std::array ids{pair.first, pair.second};
    const Diagnosis diagnosis = diagnose(cases, planted_d(cases, ids));
    INFO(pair.first << " and " << pair.second);
    REQUIRE(!diagnosis.findings.empty());
    CHECK(diagnosis.findings.front().explains_all);
    const auto both = std::ranges::find_if(diagnosis.findings, [&](const Finding& finding) {
      std::set<std::string> found;
      for (const Fault& fault : finding.faults) found.insert(fault.id);
      return found == std::set(ids.begin(), ids.end());
    });
    REQUIRE(both != diagnosis.findings.end());
    CHECK(both->explains_all);
  }
  // And once by hand: the search does not only agree with itself.
  const std::vector<Case> cases = cases_of(subjects()[0], 0);
  std::vector<Matrix> planted;
  for (const Case& one : cases) {
    Operands operands = operands_of(one);
    operands.negate_b = true;
    operands.c.reset();
    planted.push_back(multiply_accumulate(model_for(one.instruction, one.target), operands));
  }
  const Diagnosis diagnosis = diagnose(cases, planted);
  REQUIRE(!diagnosis.findings.empty());
  CHECK(diagnosis.findings.front().explains_all);
}

TEST_CASE("random bits are explained by nothing, and bad requests are refused") {
  const std::vector<Case> cases = cases_of(subjects()[0], 0);
  std::vector<Matrix> noise = truth_of(cases);
  RandomStream random(99, 0);
  for (Matrix& one : noise) {
    for (int row = 0; row < one.rows(); ++row) {
      for (int col = 0; col < one.cols(); ++col) one(row, col) = random.word();
    }
  }
  const Diagnosis diagnosis = diagnose(cases, noise);
  CHECK(diagnosis.findings.empty());
  CHECK(diagnosis.tried > 1000);
  CHECK_THROWS_WITH(diagnose(cases, std::span(noise).first(1)), ContainsSubstring("cases = 1: legal is 2"));
  noise[0] = Matrix(Format::f16, 64, 32);
  CHECK_THROWS_WITH(diagnose(cases, noise), ContainsSubstring("64 x 32 f16: legal is 64 x 32 f32"));
  CHECK_THROWS_WITH(faulty_d(cases, 0, std::array{std::string("nonsense")}), ContainsSubstring("nonsense"));
}
