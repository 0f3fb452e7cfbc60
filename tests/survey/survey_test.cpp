#include "bitmma/survey/survey.hpp"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <set>

#include "../../sim/hardware/child.hpp"
#include "../../sim/survey/cases.hpp"
#include "../../sim/survey/questions.hpp"
#include "bitmma/core/version.hpp"
#include "bitmma/instruction/evidence.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

namespace {

constexpr Target surveyed_targets[]{Target::sm_80,   Target::sm_89,   Target::sm_90a,  Target::sm_100a, Target::sm_103a,
                                    Target::sm_107a, Target::sm_110a, Target::sm_120a, Target::sm_121a};
constexpr SurveyEffort little{.most_result_bytes = 16000, .random_outputs = 2000};

/// A device that follows the model, with another row of arithmetic where there is one.
Executor device_of(std::optional<AccumulatorModel> row = std::nullopt) {
  return [row](const Instruction& instruction, Target target, std::span<const State> cases) {
    std::vector<State> after(cases.begin(), cases.end());
    for (State& state : after) execute(instruction, target, state, row ? &*row : nullptr);
    return after;
  };
}

SurveyReport report_of(Target target) {
  return {
      .gpu = "NVIDIA Test", .target = target, .driver = "1.2", .cuda = "13.0", .date = "2026-11-23", .version = "v"};
}

SurveyUnit unit_named(Target target, std::string_view part) {
  for (const SurveyUnit& unit : survey_units(target)) {
    if (unit.name.find(part) != std::string::npos) return unit;
  }
  throw std::runtime_error("no unit is named " + std::string(part));
}

SurveyFinding finding_for(const SurveyUnit& unit, const Executor& device) {
  SurveyReport report = report_of(unit.target);
  report.records.push_back(survey_unit(unit, report.seed, device, little));
  return finding_of(report, unit);
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += text + "\n";
  return all;
}

}  // namespace

TEST_CASE("a survey asks about every rule, question and move that a target has, each once") {
  for (const Target target : surveyed_targets) {
    INFO(print(target));
    const std::vector<SurveyUnit> units = survey_units(target);
    std::set<std::string> names;
    std::set<const AccumulatorModel*> models;
    for (const SurveyUnit& unit : units) {
      CHECK(violations_of(unit.instruction, target).empty());
      CHECK_FALSE(reads_kept_operand(unit.instruction));
      CHECK(names.insert(unit.name).second);
      if (unit.ask == SurveyAsk::rule) models.insert(&model_for(unit.instruction, target));
    }
    // Every row of arithmetic that an instruction of the target follows.
    std::set<const AccumulatorModel*> rows;
    std::set<std::string> moves, moves_asked;
    for (const Form& form : forms()) {
      if (!form.targets.contains(target)) continue;
      for (const Instruction& instruction : instructions_of(form)) {
        if (violations_of(instruction, target).empty() && is_mma(instruction))
          rows.insert(&model_for(instruction, target));
        if (!is_mma(instruction) && violations_of(instruction, target).empty())
          moves.insert("bits: " + print(instruction));
      }
    }
    CHECK(models == rows);
    for (const std::string& move : moves) CHECK(names.contains(move));
  }
}

TEST_CASE("every choice about places has a question, and every question can tell its answers apart", "[long]") {
  std::set<Choice> choices;
  std::set<std::string_view> names;
  for (const survey::Question& question : survey::questions()) {
    CHECK(names.insert(question.name).second);
    if (question.choice) choices.insert(*question.choice);
    for (const Target target : surveyed_targets) {
      if (!question.targets.contains(target)) continue;
      SurveyUnit unit = unit_named(target, "question: " + std::string(question.name));
      if (question.choice) {
        RandomStream random(1, 2);
        const survey::Trial trial = question.ask(question, target, random);
        const std::vector<Choice> shown = choices_of(trial.instruction, target, trial.before);
        INFO(question.name << " on " << print(target) << " is about: " << print(*question.choice));
        CHECK(std::ranges::find(shown, *question.choice) != shown.end());
      }
      // A device that does what an answer says is found to do just that.
      for (const survey::Answer& answer : question.answers) {
        INFO(question.name << " on " << print(target) << ": " << answer.text);
        const Executor device = [&](const Instruction& instruction, Target on, std::span<const State> cases) {
          std::vector<State> after;
          for (const State& state : cases) after.push_back(answer.after({instruction, on, state}));
          return after;
        };
        const SurveyFinding finding = finding_for(unit, device);
        CHECK(finding.answer == answer.text);
        const bool ours = &answer == question.answers.data();
        CHECK(finding.verdict == (ours ? SurveyVerdict::confirmed : SurveyVerdict::refuted));
        CHECK((finding.mismatches == 0) == ours);
      }
      // A device that does something else is found to do neither.
      const Executor strange = [&](const Instruction& instruction, Target on, std::span<const State> cases) {
        std::vector<State> after;
        for (const State& state : cases) {
          after.push_back(question.answers.front().after({instruction, on, state}));
          for (const Field field : {Field::accumulator, Field::tmem, Field::regs, Field::redval}) {
            if (after.back().has(field)) after.back().writable_words(field)[0] ^= 0x40;
          }
        }
        return after;
      };
      CHECK(finding_for(unit, strange).verdict == SurveyVerdict::unknown);
    }
  }
  // Choices that decide values are asked about as rules; these are about places and bits.
  for (const Target target : surveyed_targets) {
    for (const Form& form : forms()) {
      if (!form.targets.contains(target)) continue;
      for (const Instruction& instruction : instructions_of(form)) {
        if (!violations_of(instruction, target).empty()) continue;
        for (const Choice choice : choices_of(instruction, target)) {
          INFO(print(instruction) << ": " << print(choice));
          CHECK((is_arithmetic(choice) || choices.contains(choice) || choice == Choice::f64_nan_words));
        }
      }
    }
  }
}

/// Moves operands in Tensor Memory with move(original, words), and checks that the answer gives the same D all the
/// same. `columns` from `first` on hold what is moved.
void check_answer_reads(std::string_view question_name, std::string_view answer_text, Field address, int columns,
                        const std::function<void(std::span<const uint32_t>, std::span<uint32_t>, int)>& move) {
  const auto& all = survey::questions();
  const auto question = std::ranges::find(all, question_name, &survey::Question::name);
  REQUIRE(question != all.end());
  const auto answer = std::ranges::find(question->answers, answer_text, &survey::Answer::text);
  REQUIRE(answer != question->answers.end());
  RandomStream random(3, 4);
  survey::Trial trial = question->ask(*question, Target::sm_100a, random);
  const int first = static_cast<int>(trial.before.word(address) & 0xFFFF), width = trial.before.columns();
  const std::vector<uint32_t> expected = [&] {
    State after = trial.before;
    execute(trial.instruction, trial.target, after);
    const auto words = after.words(Field::tmem);
    return std::vector<uint32_t>(words.begin(), words.end());
  }();
  const State original = trial.before;
  move(original.words(Field::tmem), trial.before.writable_words(Field::tmem), first);
  const State after = answer->after(trial);
  int64_t differing = 0, changed = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto column = static_cast<int>(i % static_cast<size_t>(width));
    if (column >= first && column < first + columns) continue;
    differing += after.words(Field::tmem)[i] != expected[i];
    changed += expected[i] != original.words(Field::tmem)[i];
  }
  INFO(question_name << ": " << answer_text);
  CHECK(differing == 0);
  CHECK(changed > 0);
}

TEST_CASE("an answer about places reads operands where it says") {
  // Rows of A in half partitions have lanes 32 i + 0..15.
  const auto metadata_to = [](auto lane_of) {
    return [lane_of](std::span<const uint32_t> from, std::span<uint32_t> to, int first) {
      const size_t width = from.size() / 128;
      for (size_t row = 0; row < 64; ++row) {
        for (size_t column = static_cast<size_t>(first); column < static_cast<size_t>(first) + 2; ++column)
          to[lane_of(row) * width + column] = from[(row / 16 * 32 + row % 16) * width + column];
      }
    };
  };
  const std::string_view halves = "metadata of half partitions";
  check_answer_reads(halves, "it lies in lanes 0..63, row after row", Field::metadata_tmem, 2,
                     metadata_to([](size_t row) { return row; }));
  check_answer_reads(halves, "it lies in the upper halves of the partitions", Field::metadata_tmem, 2,
                     metadata_to([](size_t row) { return row / 16 * 32 + 16 + row % 16; }));

  // Scales of 64 columns of B: two by two, columns 32..63 have lanes 64..127; else the next cells of all partitions.
  check_answer_reads("scales of B over two CTAs", "all columns in all four partitions", Field::scale_b_tmem, 2,
                     [](std::span<const uint32_t> from, std::span<uint32_t> to, int first) {
                       const size_t width = from.size() / 256, base = static_cast<size_t>(first);
                       for (size_t cta = 0; cta < 2; ++cta) {
                         for (size_t col = 0; col < 64; ++col) {
                           const size_t from_lane = cta * 128 + col / 32 * 64 + col % 32;
                           for (size_t partition = 0; partition < 4; ++partition) {
                             uint32_t& word = to[(cta * 128 + partition * 32 + col % 32) * width + base + col / 32];
                             word = (word & ~0xFFu) | (from[from_lane * width + base] & 0xFF);
                           }
                         }
                       }
                     });
}

TEST_CASE("a device that follows a row confirms it, and one that does not is refuted by the fact that is wrong",
          "[long]") {
  struct Wrong {
    std::string_view unit, fact;
    Target target;
    AccumulatorModel (*change)(AccumulatorModel);
  };
  const Wrong wrong[]{
      {"rule: wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", "fraction bits", Target::sm_90a,
       [](AccumulatorModel row) { return row.fraction_bits = 24, row; }},
      {"rule: wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3", "mantissa bits kept", Target::sm_90a,
       [](AccumulatorModel row) { return row.output_fraction_bits = 23, row; }},
      {"rule: wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16", "rounding", Target::sm_90a,
       [](AccumulatorModel row) { return row.rounding = Rounding::toward_zero, row; }},
      {"rule: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "terms per step", Target::sm_90a,
       [](AccumulatorModel row) { return row.terms_per_step = 8, row; }},
      {"rule: mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "floor", Target::sm_90a,
       [](AccumulatorModel row) { return row.floor_exponent = -126, row; }},
      {"rule: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "c", Target::sm_80,
       [](AccumulatorModel row) { return row.c_last = true, row; }},
      {"rule: tcgen05.mma.cta_group::1.kind::f8f6f4 m64n8k32 f32.e4m3.e4m3", "fraction bits", Target::sm_100a,
       [](AccumulatorModel row) { return row.fraction_bits = 13, row; }},
      {"rule: tcgen05.mma.cta_group::1.kind::mxf4.block_scale", "aligned terms", Target::sm_100a,
       [](AccumulatorModel row) { return row.group_terms = 32, row; }},
      {"rule: mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X", "aligned terms",
       Target::sm_120a, [](AccumulatorModel row) { return row.group_terms = 8, row; }},
  };
  for (const Wrong& mistake : wrong) {
    INFO(mistake.unit);
    const SurveyUnit unit = unit_named(mistake.target, mistake.unit);
    const AccumulatorModel& row = model_for(unit.instruction, mistake.target);
    const SurveyFinding right = finding_for(unit, device_of());
    INFO(right.answer << "\n" << joined(right.details));
    CHECK(right.verdict == SurveyVerdict::confirmed);
    CHECK(right.mismatches == 0);
    CHECK(right.answer == print_rule(row));
    // The hardware differs from the row, or the row from the hardware.
    const AccumulatorModel other = mistake.change(row);
    const SurveyFinding refuted = finding_for(unit, device_of(other));
    INFO(refuted.answer << "\n" << joined(refuted.details));
    CHECK(refuted.verdict == SurveyVerdict::refuted);
    CHECK(refuted.mismatches > 0);
    CHECK_THAT(joined(refuted.details), Catch::Contains(std::string(mistake.fact) + ": the row says"));
    SurveyReport report = report_of(mistake.target);
    report.records.push_back(survey_unit(unit, report.seed, device_of(), little));
    const SurveyFinding wrong_row = finding_of(report, unit, true, &other);
    CHECK(wrong_row.verdict == SurveyVerdict::refuted);
    CHECK_THAT(joined(wrong_row.details), Catch::Contains(std::string(mistake.fact) + ": the row says"));
  }
}

TEST_CASE("what moves data, and where operands lie, is compared bit for bit") {
  const SurveyUnit unit = unit_named(Target::sm_100a, "bits: tcgen05.ld.sync.aligned.16x64b.x4");
  CHECK(finding_for(unit, device_of()).verdict == SurveyVerdict::confirmed);
  const Executor wrong = [](const Instruction& instruction, Target target, std::span<const State> cases) {
    std::vector<State> after = device_of()(instruction, target, cases);
    after.back().writable_words(Field::regs)[5] ^= 1;
    return after;
  };
  const SurveyFinding finding = finding_for(unit, wrong);
  CHECK(finding.verdict == SurveyVerdict::unknown);
  CHECK(finding.mismatches == 1);
}

TEST_CASE("a device that fails, answers too little or lies costs one unit, and says so") {
  const SurveyUnit unit = unit_named(Target::sm_90a, "rule: wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16");
  const SurveyFinding failed =
      finding_for(unit, [](const Instruction&, Target, std::span<const State>) -> std::vector<State> {
        throw Error({.field = "GPU: cuLaunchKernel", .seen = "an illegal instruction", .expected = "success"});
      });
  CHECK(failed.verdict == SurveyVerdict::not_run);
  CHECK_THAT(failed.answer, Catch::Contains("failed: ") && Catch::Contains("an illegal instruction"));
  CHECK(finding_for(unit, [](const Instruction&, Target, std::span<const State>) {
          return std::vector<State>();
        }).verdict == SurveyVerdict::not_run);
  // Noise follows no rule.
  const SurveyFinding noise =
      finding_for(unit, [](const Instruction& instruction, Target target, std::span<const State> cases) {
        std::vector<State> after = device_of()(instruction, target, cases);
        RandomStream random(1, 2);
        for (State& state : after) {
          for (uint32_t& word : state.writable_words(Field::accumulator)) word = random.word();
        }
        return after;
      });
  CHECK(noise.verdict == SurveyVerdict::unknown);
}

TEST_CASE("a report is a file and comes back the same, and what was changed in it is noticed") {
  const test::TemporaryFolder folder;
  SurveyReport report = report_of(Target::sm_90a);
  report.seed = 7, report.units = 3;
  const SurveyUnit unit = unit_named(Target::sm_90a, "rule: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
  const SurveyUnit question = unit_named(Target::sm_90a, "question: base offset, wgmma");
  const Executor slightly_wrong = [](const Instruction& instruction, Target target, std::span<const State> cases) {
    std::vector<State> after = device_of()(instruction, target, cases);
    if (after.size() > 10) after[10].writable_words(Field::accumulator)[3] ^= 1;
    return after;
  };
  report.records.push_back(survey_unit(unit, report.seed, slightly_wrong, little));
  report.records.push_back(survey_unit(question, report.seed, device_of(), little));
  report.records.push_back({.unit = "rule: nobody", .end = SurveyEnd::timed_out, .message = "stopped", .seconds = 60});
  CHECK(report.records[0].random_mismatches == 1);
  CHECK(report.records[0].first_mismatch == 10);
  const std::string path = folder.path("r.safetensors");
  write_tensor_file(path, to_file(report));
  const SurveyReport again = read_survey(read_tensor_file(path));
  CHECK(again.gpu == report.gpu);
  CHECK(again.seed == 7);
  CHECK(again.units == 3);
  REQUIRE(again.records.size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    const SurveyRecord &a = report.records[i], &b = again.records[i];
    CHECK(a.unit == b.unit);
    CHECK(a.instruction == b.instruction);
    CHECK(a.end == b.end);
    CHECK(a.cases == b.cases);
    CHECK(a.facts == b.facts);
    CHECK(a.results == b.results);
    CHECK(a.inputs_hash == b.inputs_hash);
    CHECK(a.random_hash == b.random_hash);
    CHECK(a.first_mismatch_results == b.first_mismatch_results);
  }
  CHECK(finding_of(again, unit).verdict == SurveyVerdict::unknown);  // the rule fits, one random output does not
  CHECK(finding_of(again, unit).mismatches == 1);
  CHECK(finding_of(again, question).verdict == SurveyVerdict::confirmed);
  // Another seed makes other cases; a result that was changed is a mismatch; a unit that is asked differently is read
  // by nobody.
  SurveyReport changed = again;
  changed.seed = 8;
  CHECK(finding_of(changed, question).verdict == SurveyVerdict::unreadable);
  changed = again;
  changed.records[1].results[0] ^= 1;
  CHECK(finding_of(changed, question).verdict == SurveyVerdict::unknown);
  changed = again;
  changed.records[0].instruction += " x=1";
  CHECK(finding_of(changed, unit).verdict == SurveyVerdict::unreadable);
  changed = again;
  changed.records[0].results.pop_back();
  CHECK(finding_of(changed, unit).verdict == SurveyVerdict::unreadable);
  // Without random cases nothing is known about bits, and a search that was cut off has found nothing.
  changed = report_of(Target::sm_100a);
  const SurveyUnit bits = unit_named(Target::sm_100a, "bits: tcgen05.ld.sync.aligned.16x64b.x4");
  changed.records.push_back(survey_unit(bits, changed.seed, device_of(), little));
  CHECK(finding_of(changed, bits).verdict == SurveyVerdict::confirmed);
  changed.records[0].random_cases = 0;
  CHECK(finding_of(changed, bits).verdict == SurveyVerdict::undecided);
  changed = report_of(Target::sm_90a);
  changed.seed = 7;
  changed.records.push_back(survey_unit(unit, 7, device_of(), {.most_result_bytes = 1500, .random_outputs = 2000}));
  CHECK_FALSE(changed.records[0].settled);
  CHECK(finding_of(changed, unit).verdict == SurveyVerdict::undecided);
  // Whatever it says of itself.
  changed.records[0].settled = true;
  CHECK(finding_of(changed, unit).verdict == SurveyVerdict::undecided);
}

namespace {
/// The record without its cases from the `count`th on, as if the search had ended there.
void cut(SurveyReport& report, const SurveyUnit& unit, size_t count) {
  SurveyRecord& record = report.records[0];
  const size_t bytes = record.results.size() / record.cases.size();
  record.cases.resize(count);
  record.results.resize(count * bytes);
  survey::Hash inputs;
  for (size_t i = 0; i < count; ++i) {
    inputs.add(survey::rule_state(unit, operands_of(unit.instruction, unit.target, record.cases[i]), report.seed, i));
  }
  record.inputs_hash = inputs.value();
}
}  // namespace

TEST_CASE("a report that leaves out what tells rules apart decides nothing, and its claims promote nothing") {
  const SurveyUnit unit = unit_named(Target::sm_80, "rule: mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32");
  SurveyReport report = report_of(unit.target);
  report.records.push_back(survey_unit(unit, report.seed, device_of(), {.random_outputs = 2000}));
  const SurveyFinding whole = finding_of(report, unit), compared = finding_of(report, unit, false);
  CHECK((whole.verdict == SurveyVerdict::confirmed && whole.searched));
  CHECK((compared.verdict == SurveyVerdict::confirmed && !compared.searched));
  for (const std::string& detail : compared.details) CHECK_FALSE(detail.starts_with("open: "));
  REQUIRE(report.records[0].cases.size() > 40);
  const size_t first = RuleSearch(unit.instruction, unit.target, report.seed).first_cases().size();
  SurveyReport shorter = report;
  cut(shorter, unit, first);
  SurveyFinding finding = finding_of(shorter, unit);
  INFO(joined(finding.details));
  CHECK(finding.verdict == SurveyVerdict::undecided);
  CHECK_THAT(joined(finding.details), Catch::Contains("other cases would distinguish the remaining rules"));
  cut(shorter, unit, 1);
  finding = finding_of(shorter, unit);
  CHECK((finding.verdict == SurveyVerdict::undecided && !finding.searched));
  CHECK_THAT(joined(finding.details), Catch::Contains("some cases with which every search begins are missing"));
  AccumulatorModel other = model_for(unit.instruction, unit.target);
  other.fraction_bits = 5;
  finding = finding_of(shorter, unit, true, &other);
  CHECK((finding.verdict == SurveyVerdict::unknown && finding.mismatches > 0));
  CHECK(finding.answer.starts_with("not the rule of the row"));
  // What differs in random cases is news whatever the search says.
  shorter.records[0].random_hash ^= 1;
  CHECK(finding_of(shorter, unit).verdict == SurveyVerdict::unknown);
  // Random cases that another version made say nothing about a GPU; old reports do not tell.
  *report.records[0].random_inputs_hash ^= 1;
  CHECK(finding_of(report, unit).verdict == SurveyVerdict::unreadable);
  report.records[0].random_inputs_hash.reset();
  CHECK(finding_of(report, unit).verdict == SurveyVerdict::confirmed);
  report.records.push_back(report.records[0]);
  CHECK_THROWS_MATCHES(read_survey(to_file(report)), Error, refused(illegal_value, ": records[1].unit"));
}

TEST_CASE("integers that a device clamps where the instruction wraps are named") {
  const SurveyUnit unit = unit_named(Target::sm_80, "rule: mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32");
  const Executor clamping = [](const Instruction& instruction, Target target, std::span<const State> cases) {
    std::vector<State> after(cases.begin(), cases.end());
    auto other = std::get<MmaSync>(instruction);
    other.saturate = true;
    for (State& state : after) execute(other, target, state);
    return after;
  };
  const SurveyFinding finding = finding_for(unit, clamping);
  CHECK(finding.verdict == SurveyVerdict::refuted);
  CHECK_THAT(joined(finding.details),
             Catch::Contains("sums beyond 32 bits: the row says wrap, the results say are clamped once"));
}

TEST_CASE("files that are no reports are refused with the place that is wrong") {
  SurveyReport report = report_of(Target::sm_90a);
  report.records.push_back({.unit = "u", .instruction = "i", .question_cases = 1, .results = {1, 2, 3}});
  TensorFile good = to_file(report);
  CHECK_NOTHROW(read_survey(good));
  good.erase_metadata("digest");  // changed headers get to the field that is wrong
  const auto with = [&](std::string_view key, std::string value) {
    TensorFile file = good;
    file.set_metadata(key, std::move(value));
    return file;
  };
  using Catch::Contains;
  CHECK_THROWS_MATCHES(read_survey(TensorFile{}), Error, refused(malformed, ": format"));
  CHECK_THROWS_MATCHES(read_survey(with("format", "bitmma-vectors-1")), Error, refused(malformed, ": format"));
  CHECK_THROWS_MATCHES(read_survey(with("target", "sm_1")), Error, refused(malformed, ": target"));
  CHECK_THROWS_MATCHES(read_survey(with("seed", "-1")), Error, refused(malformed, ": seed"));
  CHECK_THROWS_MATCHES(read_survey(with("units", "1e9")), Error, refused(malformed, ": units"));
  CHECK_THROWS_MATCHES(read_survey(with("records", "{}")), Error, refused(malformed, ": records"));
  CHECK_THROWS_MATCHES(read_survey(with("records", "[{")), Error, refused(malformed, ": records"));
  CHECK_THROWS_MATCHES(read_survey(with("records", "[7]")), Error, refused(illegal_value, ": records[0]"));
  CHECK_THROWS_MATCHES(read_survey(with("records", std::string(1'000'000, '['))), Error,
                       refused(malformed, ": records"));
  CHECK_THROWS_MATCHES(
      read_survey(with("records", "[{\"unit\":" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}]")),
      Error, refused(malformed, ": records"));
  const auto record = [&](const std::string& more) {
    return with("records", R"([{"unit":"u","instruction":"i","end":"answered","seconds":1)" + more + "}]");
  };
  CHECK_THROWS_MATCHES(read_survey(record("")), Error, refused(malformed, ": results"));
  CHECK_THROWS_MATCHES(read_survey(record(R"(,"result_bytes":4,"inputs_hash":"0x0000000000000000")")), Error,
                       refused(illegal_value, ": records[0].result_bytes"));
  CHECK_THROWS_MATCHES(read_survey(record(R"(,"result_bytes":-1,"inputs_hash":"0x0000000000000000")")), Error,
                       refused(illegal_value, ": records[0].result_bytes"));
  CHECK_THROWS_MATCHES(read_survey(record(R"(,"result_bytes":3,"inputs_hash":"7")")), Error,
                       refused(illegal_value, ": records[0].inputs_hash"));
  CHECK_THROWS_MATCHES(read_survey(record(R"(,"cases":[[9,0,0]])")), Error,
                       refused(illegal_value, ": records[0].cases"));
  CHECK_THROWS_MATCHES(read_survey(record(R"(,"cases":[[0,-1,0]])")), Error,
                       refused(illegal_value, ": records[0].cases"));
  CHECK_THROWS_MATCHES(read_survey(record(R"(,"random":{"unit":0})")), Error,
                       refused(missing_input, ": records[0].random.outputs"));
  CHECK_THROWS_MATCHES(read_survey(record(R"(,"random":[])")), Error, refused(illegal_value, ": records[0].random"));
  CHECK_THROWS_MATCHES(read_survey(record(R"(,"facts":[{"fact":1}])")), Error, refused(illegal_value, ": facts.fact"));
  CHECK_NOTHROW(read_survey(record(
      R"(,"question_cases":1,"result_bytes":3,"inputs_hash":"0x00000000000000ff","results_hash":"0xd0aa6218672cf5ab")")));
  CHECK_THROWS_MATCHES(
      read_survey(
          record(R"(,"result_bytes":3,"inputs_hash":"0x00000000000000ff","results_hash":"0x0000000000000000")")),
      Error, refused(illegal_value, ": records[0].results_hash"));
}

namespace {

TensorFile changed(TensorFile file, const std::vector<std::pair<std::string, std::string>>& keys) {
  for (const auto& [key, value] : keys) {
    if (value.empty()) file.erase_metadata(key);
    else file.set_metadata(key, value);
  }
  return file;
}

/// What the Error says; empty when the report is read.
std::vector<Violation> refusal_of(const TensorFile& file) {
  return test::refusal_of([&] { read_survey(file); });
}

constexpr std::string_view small_rule = "rule: mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32";

}  // namespace

TEST_CASE("a rehearsal does not become a report of a GPU by a changed header") {
  using Catch::Contains;
  const TensorFile rehearsal =
      to_file(run_survey_unit(unit_named(Target::sm_89, small_rule).name, {.rehearse = Target::sm_89}, little));
  REQUIRE(read_survey(rehearsal).is_rehearsal());
  CHECK_THAT(refusal_of(changed(rehearsal, {{"target", "sm_80"}, {"source", "NVIDIA A100"}})),
             refused(malformed, ": driver") && refused(malformed, ": cuda") && refused(malformed, ": date") &&
                 refused(malformed, ": records") && refused(malformed, ": digest"));
  const std::vector<std::pair<std::string, std::string>> as_of_a_gpu{
      {"source", "NVIDIA A100"}, {"driver", "580.1"}, {"cuda", "13.0"}, {"date", "2026-11-23"}};
  CHECK_THAT(refusal_of(changed(rehearsal, as_of_a_gpu)),
             refused(malformed, ": records") && refused(malformed, ": digest"));
  TensorFile without_digest = changed(rehearsal, as_of_a_gpu);
  without_digest.erase_metadata("digest");
  CHECK(refusal_of(without_digest).size() == 1);
  // Any one key.
  for (const auto& [key, value] : rehearsal.metadata) {
    INFO(key);
    CHECK_FALSE(refusal_of(changed(rehearsal, {{key, key == "target"    ? "sm_80"
                                                     : key == "records" ? "[]"
                                                                        : "7"}}))
                    .empty());
  }
  // A rehearsal of a version without digest and marks is one all the same.
  TensorFile old = changed(rehearsal, {{"digest", ""}});
  std::string records = *old.find_metadata("records");
  const std::string mark = R"(,"rehearsal":1)";
  REQUIRE(records.find(mark) != std::string::npos);
  records.erase(records.find(mark), mark.size());
  old.set_metadata("records", records);
  CHECK(read_survey(old).is_rehearsal());
}

TEST_CASE("a report of a GPU has the version of its driver and of CUDA, and its date, and any changed key is noticed") {
  using Catch::Contains;
  SurveyReport report = report_of(Target::sm_80);
  report.records.push_back(survey_unit(unit_named(Target::sm_80, small_rule), 0, device_of(), little));
  const TensorFile whole = to_file(report);
  CHECK(refusal_of(whole).empty());
  for (const auto& [key, value] : whole.metadata) {
    INFO(key);
    const std::string other = key == "target" ? "sm_86" : key == "driver" ? "1.3" : key == "cuda" ? "12.9" : "8";
    CHECK_THAT(refusal_of(changed(whole, {{key, other}})),
               refused(malformed, key == "format" || key == "records" || key == "date" ? ": " + key : ": digest"));
  }
  const TensorFile old = changed(whole, {{"digest", ""}});
  CHECK(refusal_of(old).empty());
  CHECK(refusal_of(changed(old, {{"driver", "unknown"}})).empty());  // where the kernel does not tell
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{{"driver", "none"},
                                                                                   {"driver", "580"},
                                                                                   {"driver", ""},
                                                                                   {"driver", "."},
                                                                                   {"cuda", "none"},
                                                                                   {"cuda", ""},
                                                                                   {"date", "none"},
                                                                                   {"date", "2026-11"},
                                                                                   {"date", ""},
                                                                                   {"source", ""}}) {
    INFO(key << " = " << value);
    CHECK_THAT(refusal_of(changed(old, {{key, value}})), refused(malformed, ": " + key));
  }
  // Nor does it become a rehearsal.
  CHECK_THAT(refusal_of(changed(old, {{"source", std::string(rehearsal_gpu)}})),
             refused(malformed, ": driver") && refused(malformed, ": cuda") && refused(malformed, ": date"));
}

TEST_CASE("records of units that the target does not have are told, and keep the report from promoting anything") {
  const SurveyUnit unit = unit_named(Target::sm_80, small_rule);
  SurveyReport report = report_of(Target::sm_75);
  report.records.push_back(survey_unit(unit, report.seed, device_of(), little));
  report.records.push_back({.unit = "bits: nothing", .instruction = "i"});
  const std::vector<SurveyFinding> findings = findings_of(report, false, 1);
  REQUIRE(findings.size() == survey_units(Target::sm_75).size() + 2);
  const SurveyFinding &rule = findings[findings.size() - 2], &bits = findings.back();
  CHECK((rule.unit == unit.name && rule.ask == SurveyAsk::rule && rule.verdict == SurveyVerdict::unreadable));
  CHECK_THAT(rule.answer, Catch::Contains("sm_75 has no such unit"));
  CHECK((bits.ask == SurveyAsk::bits && bits.verdict == SurveyVerdict::unreadable));
  CHECK(confirmed_by(report, findings).empty());
}

TEST_CASE("a record that contradicts itself is refused") {
  using Catch::Contains;
  const SurveyUnit unit = unit_named(Target::sm_80, small_rule);
  SurveyReport report = report_of(Target::sm_80);
  report.version = version();
  const SurveyRecord honest = survey_unit(unit, 0, device_of(), little);
  const SurveyRecord question = survey_unit(unit_named(Target::sm_80, "question: "), 0, device_of(), little);
  const SurveyRecord bits = [&] {
    SurveyRecord record = survey_unit(unit_named(Target::sm_90a, "bits: "), 0, device_of(), {.random_outputs = 1000});
    REQUIRE(record.end == SurveyEnd::answered);
    return record;
  }();
  const auto refusal = [&](const SurveyRecord& of, const std::function<void(SurveyRecord&)>& change) {
    SurveyReport survey_report = report;
    survey_report.records.push_back(of);
    REQUIRE(refusal_of(to_file(survey_report)).empty());
    change(survey_report.records[0]);
    return refusal_of(to_file(survey_report));
  };
  // Fields of one record.
  CHECK_THAT(refusal(honest, [](auto& record) { record.message = "an illegal instruction"; }),
             refused(illegal_value, ": records[0].message"));
  for (const SurveyEnd end : {SurveyEnd::timed_out, SurveyEnd::crashed}) {
    CHECK_THAT(refusal(honest, [&](auto& record) { record.end = end; }), refused(illegal_value, ": records[0].end"));
  }
  CHECK(refusal(honest, [](auto& record) { record.end = SurveyEnd::failed; }).empty());  // after all of that
  CHECK_THAT(refusal(honest, [](auto& record) { record.cases.clear(); }),
             refused(illegal_value, ": records[0].result_bytes"));
  CHECK_THAT(refusal(honest, [](auto& record) { record.seconds = -1; }),
             refused(illegal_value, ": records[0].seconds"));
  CHECK_THAT(refusal(honest, [](auto& record) { record.question_cases = 1; }),
             refused(illegal_value, ": records[0].question_cases"));
  CHECK_THAT(refusal(question, [&](auto& record) { record.cases = honest.cases; }),
             refused(illegal_value, ": records[0].cases"));
  CHECK_THAT(refusal(question, [&](auto& record) { record.facts = honest.facts; }),
             refused(illegal_value, ": records[0].facts"));
  CHECK_THAT(refusal(question, [](auto& record) { record.settled = false; }),
             refused(illegal_value, ": records[0].settled"));
  CHECK_THAT(
      refusal(question, [](auto& record) { record.random_outputs = record.random_cases = record.random_compared = 1; }),
      refused(illegal_value, ": records[0].random"));
  CHECK_THAT(refusal(bits, [](auto& record) { record.results = {1}, record.question_cases = 1; }),
             refused(illegal_value, ": records[0].question_cases"));
  CHECK_THAT(refusal(bits, [](auto& record) { record.random_outputs = 0; }),
             refused(illegal_value, ": records[0].random.outputs"));
  CHECK_THAT(refusal(bits, [](auto& record) { record.random_compared = record.random_cases - 1; }),
             refused(illegal_value, ": records[0].random.compared"));
  CHECK_THAT(refusal(bits, [](auto& record) { record.random_mismatches = record.random_compared + 1; }),
             refused(illegal_value, ": records[0].random.mismatches"));
  CHECK_THAT(refusal(bits, [](auto& record) { record.random_mismatches = 5; }),
             refused(illegal_value, ": records[0].random.mismatches"));
  CHECK_THAT(refusal(bits, [](auto& record) { record.first_mismatch = 0; }),
             refused(illegal_value, ": records[0].random.first_mismatch"));

  // Counts, first difference and hash, once the cases are made again.
  const CampaignUnit random = campaign_unit_of(unit.instruction, unit.target, 0, honest.random_unit, 2000);
  const Matrix d = result_of(unit.instruction, unit.target, random.cases[2].state);
  const auto finding_after = [&](const std::function<void(SurveyRecord&)>& change,
                                 const AccumulatorModel* row = nullptr) {
    SurveyReport survey_report = report;
    change(survey_report.records.emplace_back(honest));
    return finding_of(survey_report, unit, false, row);
  };
  const auto check_unreadable = [&](std::string_view why, const std::function<void(SurveyRecord&)>& change) {
    const SurveyFinding finding = finding_after(change);
    CHECK(finding.verdict == SurveyVerdict::unreadable);
    CHECK_THAT(finding.answer, Contains(std::string(why)));
  };
  const auto say_first = [&](SurveyRecord& record, int64_t mismatches) {
    record.random_mismatches = mismatches, record.first_mismatch = 2;
    record.first_mismatch_results = survey::bytes_of(d);
  };
  CHECK(finding_after([](SurveyRecord&) {}).verdict == SurveyVerdict::confirmed);
  check_unreadable("random outputs were compared, but its cases have", [](auto& record) { ++record.random_compared; });
  check_unreadable("names no such case", [](auto& record) { record.random_mismatches = 5; });
  check_unreadable("states that random case 2 differs, but its results equal the model's",
                   [&](auto& record) { say_first(record, 5); });
  check_unreadable("the hash matches the model's results, but the results of random case 2 do not",
                   [&](auto& record) { say_first(record, 5), record.first_mismatch_results[0] ^= 1; });
  check_unreadable("not the size of D",
                   [&](auto& record) { say_first(record, 5), record.first_mismatch_results.push_back(0); });
  check_unreadable("states that 1 random outputs differ, but 2 of case 2 differ", [&](auto& record) {
    say_first(record, 1), record.random_hash ^= 1;
    record.first_mismatch_results[0] ^= 1, record.first_mismatch_results[4] ^= 1;
  });
  // The model of another version may have differed where this one does not.
  report.version = "another";
  const SurveyFinding corrected = finding_after([&](auto& record) { say_first(record, 5); });
  CHECK(corrected.verdict == SurveyVerdict::confirmed);
  CHECK_THAT(joined(corrected.details), Contains("differed from the model of another, but not from this version's: 5"));
  // Results of a question are as many as its cases write.
  SurveyReport with_question = report;
  with_question.records.push_back(question);
  with_question.records[0].results.pop_back();
  CHECK(finding_of(with_question, unit_named(Target::sm_80, question.unit), false).verdict ==
        SurveyVerdict::unreadable);
}

TEST_CASE("a process that takes too long is stopped, one that crashes is told") {
  const test::TemporaryFolder folder;
  const std::string errors = folder.path("errors");
  const ChildEnd slow = run_child({"sh", "-c", "sleep 100"}, 0.2, errors);
  CHECK(slow.timed_out);
  CHECK_FALSE(slow.unstoppable);
  CHECK(run_child({"sh", "-c", "kill -SEGV $$"}, 20, errors).signal == SIGSEGV);
  CHECK(run_child({"sh", "-c", "echo wrong >&2; exit 3"}, 20, errors).exit_code == 3);
  CHECK(test::read_text(errors) == "wrong\n");
  CHECK_THROWS_MATCHES(run_child({folder.path("none")}, 1, errors), Error, refused(illegal_value, "process"));
  CHECK_THROWS_MATCHES(run_child({}, 1, errors), Error, refused(missing_input, "command"));
}

TEST_CASE("a survey runs units in processes, goes on where it was stopped, and survives hangs and crashes", "[long]") {
  const test::TemporaryFolder folder;
  SurveyOptions options{.path = folder.path("r.safetensors"),
                        .jobs = 2,
                        .only = "m16n8k8.row.col.f32",
                        .command = {BITMMA_PROGRAM, "survey", "unit", "--seed", "5", "--rehearse", "sm_90a"}};
  const SurveyReport first = run_survey(options, 5);
  CHECK(first.is_rehearsal());
  CHECK(first.records.size() >= 3);
  for (const SurveyRecord& record : first.records) CHECK(record.end == SurveyEnd::answered);
  const auto findings = findings_of(first, true, 2);
  CHECK(std::ranges::count(findings, SurveyVerdict::confirmed, &SurveyFinding::verdict) == std::ssize(first.records));
  CHECK(confirmed_by(first, findings).empty());  // a rehearsal is evidence of nothing
  // Nothing is left to do; more is added.
  int calls = 0;
  CHECK(run_survey(options, 5, [&](const SurveyProgress&) { ++calls; }).records.size() == first.records.size());
  CHECK(calls == 0);
  options.only = "m16n8k8.row.col.f";
  CHECK(run_survey(options, 5).records.size() > first.records.size());
  // Another seed, or another GPU, is another survey.
  SurveyOptions other = options;
  other.command[4] = "6";
  CHECK_THROWS_MATCHES(run_survey(other, 6), Error, refused(illegal_value, "$FOLDER/r.safetensors: seed"));
  other = options;
  other.command[6] = "sm_80";
  CHECK_THROWS_MATCHES(run_survey(other, 5), Error, refused(illegal_value, "$FOLDER/r.safetensors: target"));
  other = options;
  other.only = "zzz";
  CHECK_THROWS_MATCHES(run_survey(other, 5), Error, refused(unknown_name, "only"));

  // A program that knows who it is, and then hangs, crashes or says nothing.
  const auto script = [&](const std::string& unit) {
    return std::vector<std::string>{"sh",
                                    "-c",
                                    "if [ -z \"$4\" ]; then exec " BITMMA_PROGRAM
                                    " survey unit --seed 5 --rehearse sm_90a '' -o \"$6\"; fi; " +
                                        unit,
                                    "x",
                                    "1",
                                    "2",
                                    "3"};
  };
  for (const auto& [does, end] : {std::pair("sleep 100", SurveyEnd::timed_out),
                                  {"kill -SEGV $$", SurveyEnd::crashed},
                                  {"echo 'error: nothing works' >&2; exit 2", SurveyEnd::failed},
                                  {"true", SurveyEnd::failed}}) {
    INFO(does);
    SurveyOptions bad = options;
    bad.path = folder.path(std::string(print(end)) + does[0] + ".safetensors");
    bad.only = "rule: mma.sync.aligned.m16n8k8.row.col.f32.tf32";
    bad.unit_seconds = 2;
    bad.command = script(does);
    const SurveyReport report = run_survey(bad, 5);
    REQUIRE(report.records.size() == 1);
    CHECK(report.records[0].end == end);
    // Asked again, it answers.
    bad.retry = true;
    bad.unit_seconds = 60;
    bad.command = options.command;
    CHECK(run_survey(bad, 5).records.at(0).end == SurveyEnd::answered);
  }
  // A GPU that stops every unit is not asked for ever.
  SurveyOptions dead = options;
  dead.path = folder.path("dead.safetensors");
  dead.only = "rule: mma.sync";
  dead.unit_seconds = 2;  // it says who it is in less, under sanitizers too
  dead.command = script("sleep 100");
  CHECK_THROWS_MATCHES(run_survey(dead, 5), Error, refused(gpu_failed, "GPU"));
  CHECK(read_survey(read_tensor_file(dead.path)).records.size() >= 4);
  // Where a kind of instruction hangs, the others are asked, and then that kind once more.
  SurveyOptions partly = options;
  partly.path = folder.path("partly.safetensors");
  partly.only = "k32";
  partly.unit_seconds = 5;  // a busy machine needs some for a process that ends at once
  partly.jobs = 4;
  partly.command = script("case \"$4\" in *wgmma*) sleep 100;; esac; exit 2");
  CHECK_THROWS_MATCHES(run_survey(partly, 5), Error, refused(gpu_failed, "GPU"));
  int64_t stopped = 0, of_mma = 0, all_of_mma = 0;
  const SurveyReport others = read_survey(read_tensor_file(partly.path));
  for (const SurveyRecord& record : others.records) {
    stopped += record.end == SurveyEnd::timed_out;
    of_mma += record.end == SurveyEnd::failed && record.unit.find("mma.sync") != std::string::npos;
  }
  for (const SurveyUnit& unit : survey_units(Target::sm_90a))
    all_of_mma += unit.name.find("k32") != std::string::npos && unit.name.find("mma.sync") != std::string::npos;
  CHECK((stopped >= 8 && stopped < 16));
  CHECK(all_of_mma > 4);
  CHECK(of_mma == all_of_mma);
}

TEST_CASE("what a survey confirms becomes rows of the file of confirmed facts") {
  SurveyReport report = report_of(Target::sm_100a);
  report.gpu = "NVIDIA \"B200\\";
  std::vector<SurveyFinding> findings;
  for (const SurveyUnit& unit : survey_units(report.target)) {
    SurveyFinding& finding = findings.emplace_back();
    finding.unit = unit.name, finding.ask = unit.ask, finding.verdict = SurveyVerdict::confirmed;
    finding.outputs = 100, finding.searched = unit.ask == SurveyAsk::rule, finding.compared_random_cases = true;
    if (is_mma(unit.instruction)) finding.row = model_for(unit.instruction, unit.target);
    if (unit.name == "question: lanes of tcgen05.shift") finding.choice = Choice::shift_lanes;
    if (unit.name == "question: undefined metadata, tcgen05.mma.sp")
      finding.choice = Choice::undefined_metadata_tcgen05;
  }
  const Confirmed all = confirmed_by(report, findings);
  CHECK(all.choices.size() == 2);
  // A sparse product whose random cases differ keeps the choice back that shows in it, and its row.
  auto sparse = std::ranges::find_if(findings, [](const SurveyFinding& finding) {
    return finding.ask == SurveyAsk::bits && finding.unit.find("tcgen05.mma.sp") != std::string::npos;
  });
  REQUIRE(sparse != findings.end());
  sparse->verdict = SurveyVerdict::unknown;
  CHECK(confirmed_by(report, findings).choices.size() == 1);
  CHECK(confirmed_by(report, findings).rules.size() == all.rules.size() - 1);
  sparse->verdict = SurveyVerdict::confirmed;
  CHECK(all.rules.size() > 8);
  // One unit that was not run keeps its row back.
  findings.front().verdict = SurveyVerdict::not_run;
  CHECK(confirmed_by(report, findings).rules.size() == all.rules.size() - 1);
  // So does one whose rule was only compared.
  findings.front().verdict = SurveyVerdict::confirmed, findings.front().searched = false;
  CHECK(confirmed_by(report, findings).rules.size() == all.rules.size() - 1);
  // And one without random cases.
  findings.front().searched = true, findings.front().compared_random_cases = false;
  CHECK(confirmed_by(report, findings).rules.size() == all.rules.size() - 1);
  findings.front().searched = false, findings.front().compared_random_cases = true;
  // The file keeps them, one a line; a row that is there is not added again.
  CHECK(parse_confirmed(print(all)) == all);
  CHECK(std::ranges::count(print(all), '\n') == 6 + std::ssize(all.rules) + std::ssize(all.choices));
  CHECK(print(all).find(R"(NVIDIA \"B200\\, driver 1.2)") != std::string::npos);
  Confirmed twice = all;
  Confirmed again = all;
  for (ConfirmedRule& row : again.rules) row.gpu = "another GPU";
  twice.add(again);
  CHECK(twice == all);
  // What one report confirms and another contradicts stays as it was.
  ReadSurvey yes{.report = report, .findings = findings}, no = yes;
  findings.front().searched = true;
  yes.findings = findings;
  CHECK(confirmed_by_all({yes}) == all);
  no.findings.front().verdict = SurveyVerdict::refuted;
  CHECK(confirmed_by_all({yes, no}).rules.size() == all.rules.size() - 1);
  no.report.gpu = rehearsal_gpu;
  CHECK(confirmed_by_all({yes, no}) == all);
}

TEST_CASE("the file of confirmed facts is built in, and a row that is wrong is refused by name") {
  CHECK(confirmed() == parse_confirmed(test::read_text(test::source_path("data/surveys/confirmed.json"))));
  CHECK(print(confirmed()) == test::read_text(test::source_path("data/surveys/confirmed.json")));
  const std::string rule =
      R"({"target": "sm_100a", "family": "tcgen05", "inputs": ["f16"], "output": "f32", "scaling": "none", )"
      R"("quad_pairs": false, "gpu": "NVIDIA B200"})";
  const auto file = [](const std::string& rules, const std::string& choices) {
    return fmt::format(R"({{"rules": [{}], "choices": [{}]}})", rules, choices);
  };
  CHECK(parse_confirmed(file(rule, "")).rules.size() == 1);
  struct Row {
    std::string text;
    test::Refusal refusal;
  };
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = rule;
    return text.replace(text.find(from), from.size(), to);
  };
  for (const Row& row : {
           Row{"nothing", {malformed, "confirmed"}},
           {R"({"rules": []})", {malformed, "choices"}},
           {file("7", ""), {malformed, "rules[0]"}},
           {file(replaced("sm_100a", "sm_1"), ""), {unknown_name, "target"}},
           {file(replaced("tcgen05\"", "tensor\""), ""), {illegal_value, "rules[0]: family"}},
           {file(replaced("[\"f16\"]", "[\"f15\"]"), ""), {illegal_value, "rules[0]: inputs"}},
           {file(replaced("\"f32\"", "32"), ""), {malformed, "rules[0]: output"}},
           {file(replaced("quad_pairs", "quadpairs"), ""), {malformed, "rules[0]: quad_pairs"}},
           {file("", R"({"target": "sm_100a", "choice": "one_clump", "gpu": ""})"),
            {illegal_value, "choices[0]: choice"}},
       }) {
    INFO(row.text);
    CHECK_THROWS_MATCHES(parse_confirmed(row.text), Error, refused(row.refusal));
  }
}
