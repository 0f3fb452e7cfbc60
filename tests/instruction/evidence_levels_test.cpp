// Levels of evidence, derived again from what is in data: published words (do they refute a fraction bit more and a
// fraction bit less?), statements of measurement, published models.
#include <fmt/format.h>

#include <map>
#include <set>
#include <sstream>

#include "bitmma/instruction/evidence.hpp"
#include "bitmma/instruction/execute.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/instructions.hpp"
#include "support/published.hpp"

using namespace bitmma;

namespace {

/// What evidence tells apart: "sm_80 mma.sync - f16 f16 f32 f32 16 dense -".
std::string key_of(Target target, const Mma& mma) {
  return fmt::format("{} {} {} {} {} {} {} {} {} {}", print(info(target).chip), print(mma.family),
                     mma.kind ? info(*mma.kind).name : "-", info(mma.a).name, info(mma.b).name, info(mma.d).name,
                     info(mma.c).name, mma.products == 1 ? mma.k : mma.a_cols(), mma.sparse ? "sparse" : "dense",
                     mma.scale_count == 0 ? "-" : fmt::format("{}X {}", mma.scale_count, info(mma.scale_type).name));
}

/// Whether words of one key refute F - 1 and F + 1.
struct Words {
  bool refute_less = false, refute_more = false;
  bool decide() const { return refute_less && refute_more; }
};

std::map<std::string, Words> published_words() {
  std::map<std::string, Words> words;
  const auto add = [&](Target target, const Instruction& instruction, const auto& is_noticed) {
    Words& words_of_key = words[key_of(target, mma_of(instruction))];
    if (model_for(instruction, target).arithmetic != Arithmetic::fused_sum) return;  // exact in any case
    words_of_key.refute_less |= is_noticed(-1), words_of_key.refute_more |= is_noticed(+1);
  };
  for (const std::vector<test::PublishedGroup>& groups : {test::matlab_groups(), test::b200_groups()}) {
    for (const test::PublishedGroup& group : groups) {
      add(group.target, group.instruction,
          [&](int more) { return noticed(group, [&](AccumulatorModel& model) { model.fraction_bits += more; }) > 0; });
    }
  }
  for (const test::Sm120Line& line : test::sm120_lines()) {
    add(Target::sm_120, line.instruction, [&](int more) {
      AccumulatorModel changed = model_for(line.instruction, Target::sm_120a);
      changed.fraction_bits += more;
      return line.computed(line.state, &changed) != line.d;
    });
  }
  return words;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> all;
  for (std::string word; stream >> word;) all.push_back(word);
  return all;
}

/// Keys that data/published/statements.csv names, with the surest level.
std::map<std::string, Evidence> statements() {
  std::map<std::string, Evidence> levels;
  // The reader of CSV files knows no comments.
  const test::TemporaryFolder folder;
  std::string text;
  std::istringstream lines(test::read_text(test::source_path("data/published/statements.csv")));
  for (std::string line; std::getline(lines, line);) text += line.starts_with("#") ? "" : line + "\n";
  test::write_text(folder.path("statements.csv"), text);
  test::for_each_csv_row(folder.path("statements.csv"), [&](const test::CsvRow& row) {
    const bool measured = row.at("level") == "measured_by_others";
    REQUIRE((measured || row.at("level") == "published_model"));
    if (measured) {
      CHECK(std::stoll(row.at("words")) > 0);
      CHECK(row.at("mismatches") == "0");
    }
    for (const std::string& target : words_of(row.at("targets"))) {
      for (const std::string& kind : words_of(row.at("kind"))) {
        for (const std::string& a : words_of(row.at("a"))) {
          for (const std::string& b : words_of(row.at("b"))) {
            for (const std::string& d : words_of(row.at("d"))) {
              for (const std::string& c : words_of(row.at("c").empty() ? d : row.at("c"))) {
                for (const std::string& k : words_of(row.at("k"))) {
                  const std::string key =
                      fmt::format("{} {} {} {} {} {} {} {} {} {}", target, row.at("family"), kind, a, b, d, c, k,
                                  row.at("sparse") == "yes" ? "sparse" : "dense", row.at("scales"));
                  const Evidence level = measured ? Evidence::measured_by_others : Evidence::published_model;
                  const auto [known, is_new] = levels.emplace(key, level);
                  if (!is_new) known->second = std::min(known->second, level);
                }
              }
            }
          }
        }
      }
    }
  });
  return levels;
}

/// What PTX, or ptxas's code, says of every target that has the instruction.
bool is_documented(const Mma& mma) {
  return mma.family == Family::mma_sync && (info(mma.a).kind == NumberKind::integer || mma.a == Format::b1 ||
                                            mma.a == Format::f64 || (mma.products > 1 && !mma.sparse));
}

/// Every instruction of mma.sync and tcgen05 that evidence tells apart.
std::vector<Instruction> all_sums() {
  std::vector<Instruction> all;
  for (const Family family : {Family::wgmma, Family::mma_sync})
    for (const Instruction& instruction : all_instructions(family)) all.push_back(instruction);
  for (const Tcgen05Mma& instruction : test::tcgen05_mmas()) {
    for (const FormatInfo& a : formats) {
      for (const FormatInfo& b : formats) {
        Tcgen05Mma typed = instruction;
        typed.a = a.id, typed.b = b.id;
        if (!targets_of(Instruction(typed)).empty()) all.emplace_back(typed);
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("the level of every instruction on every target follows from the words and statements in data",
          "[rule:evidence]") {
  const std::map<std::string, Words> words = published_words();
  const std::map<std::string, Evidence> stated = statements();
  std::set<std::string> unused;
  for (const auto& [key, level] : stated) unused.insert(key);
  std::map<Evidence, int> counts;
  std::set<std::string> wrong;
  for (const Instruction& instruction : all_sums()) {
    const Mma mma = mma_of(instruction);
    for (const TargetInfo& target : targets) {
      if (!targets_of(instruction).contains(target.id)) continue;
      const std::string key = key_of(target.id, mma);
      unused.erase(key);
      const auto word = words.find(key);
      const auto statement = stated.find(key);
      const bool is_plain = mma.cta_group == 1 && !mma.weight_stationary;
      const bool is_chosen = std::ranges::any_of(choices_of(instruction, target.id), is_arithmetic);
      Evidence expected = Evidence::model_choice;
      if (target.chip == Target::sm_90) expected = Evidence::measured;
      else if (is_chosen || !is_plain) expected = Evidence::model_choice;
      else if (word != words.end() && word->second.decide()) expected = Evidence::published_words;
      else if (statement != stated.end() && statement->second == Evidence::measured_by_others)
        expected = Evidence::measured_by_others;
      else if (word != words.end()) expected = Evidence::consistent_words;
      else if (statement != stated.end()) expected = statement->second;
      else if (is_documented(mma) && !(target.chip < Target::sm_80 && mma.products > 1))
        expected = Evidence::published_model;
      const Evidence seen = evidence_of(instruction, target.id);
      if (seen != expected) {
        wrong.insert(fmt::format("{}: {}, data say {}", key, print(seen), print(expected)));
      }
      ++counts[seen];
    }
  }
  INFO(fmt::format("{}", fmt::join(wrong, "\n")));
  CHECK(wrong.empty());
  INFO(fmt::format("no instruction is: {}", fmt::join(unused, "\n")));
  CHECK(unused.empty());
  for (const EvidenceInfo& level : evidence_levels) CHECK(counts[level.id] > 0);
}

TEST_CASE("every row of evidence is the surest of some instruction") {
  std::set<const EvidenceRow*> used;
  for (const Instruction& instruction : all_sums()) {
    for (const TargetInfo& target : targets)
      if (targets_of(instruction).contains(target.id)) used.insert(find_evidence(instruction, target.id));
  }
  for (const EvidenceRow& row : evidence_rows()) {
    INFO("row " << &row - evidence_rows().data() << ": " << print(row.level) << ", " << row.source << ", "
                << print(row.chips));
    CHECK(used.contains(&row));
  }
}
