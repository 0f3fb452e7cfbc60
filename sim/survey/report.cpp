// SPDX-License-Identifier: MIT
// Reports as files: one tensor of results, and JSON that describes its parts. Readers verify everything.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <limits>
#include <set>

#include "../core/ascii.hpp"
#include "../core/ieee_environment.hpp"
#include "../core/json_reader.hpp"
#include "../hardware/driver.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/hardware/campaign.hpp"
#include "bitmma/survey/survey.hpp"
#include "cases.hpp"

namespace bitmma {
namespace {

/// More levels of JSON than a report needs.
constexpr int most_depth = 8;
constexpr std::string_view survey_format = "bitmma-survey-1";
constexpr int64_t most_records = 100'000, most_seconds = 1'000'000'000;
/// Limits for one record, far above what a survey writes. The search runs over all of it.
constexpr int64_t most_cases = 1000, most_result_bytes = 8 << 20, most_outputs = int64_t{1} << 40;
// A reader recomputes all of them: the limit keeps a report from occupying it for hours.
constexpr int64_t most_random_outputs = 1'000'000;

/// How a process ended. Throws Error for an unknown text.
SurveyEnd end_of(const JsonReader& reader, const char* key) {
  const std::string name = reader.text(key);
  for (const SurveyEnd end : {SurveyEnd::answered, SurveyEnd::failed, SurveyEnd::timed_out, SurveyEnd::crashed}) {
    if (print(end) == name) return end;
  }
  reader.refuse(key, "answered, failed, timed out or crashed");
}

uint64_t hash_of(std::span<const uint8_t> bytes) {
  survey::Hash hash;
  hash.add(bytes);
  return hash.value();
}

std::string hex(uint64_t number) { return fmt::format("{:#018x}", number); }

Json to_json(const SurveyRecord& record) {
  Json json{{"unit", record.unit},
            {"instruction", record.instruction},
            {"end", print(record.end)},
            {"seconds", record.seconds}};
  if (!record.message.empty()) json["message"] = record.message;
  if (record.question_cases > 0) json["question_cases"] = record.question_cases;
  Json cases = Json::array(), facts = Json::array();
  for (const RuleCase& rule_case : record.cases)
    cases.push_back({rule_case.distribution ? static_cast<int>(*rule_case.distribution) : -1, rule_case.seed,
                     rule_case.case_index});
  for (const RuleFact& fact : record.facts)
    facts.push_back({{"fact", fact.name}, {"value", fact.value}, {"open", fact.open}});
  if (!cases.empty()) json["cases"] = std::move(cases);
  if (!facts.empty()) json["facts"] = std::move(facts);
  if (!record.settled) json["settled"] = 0;
  if (!record.results.empty()) {
    json["result_bytes"] = record.results.size();
    json["inputs_hash"] = hex(record.inputs_hash);
    json["results_hash"] = hex(hash_of(record.results));
  }
  if (record.random_cases > 0) {
    json["random"] = {{"unit", record.random_unit},
                      {"outputs", record.random_outputs},
                      {"cases", record.random_cases},
                      {"compared", record.random_compared},
                      {"mismatches", record.random_mismatches},
                      {"hash", hex(record.random_hash)}};
    if (record.random_inputs_hash) json["random"]["inputs_hash"] = hex(*record.random_inputs_hash);
    if (record.first_mismatch) {
      json["random"]["first_mismatch"] = *record.first_mismatch;
      json["random"]["first_mismatch_bytes"] = record.first_mismatch_results.size();
    }
  }
  return json;
}

/// "0x" and 16 digits.
uint64_t hash_at(const JsonReader& reader, const char* key) { return reader.hash(key, "0x", 16); }

RuleCase rule_case_of(const JsonReader& reader, const Json& json) {
  if (!json.is_array() || json.size() != 3 || !json[0].is_number_integer() || !json[1].is_number_unsigned() ||
      !json[2].is_number_unsigned())
    reader.refuse("cases", "lists of distribution, seed and case");
  const auto distribution = json[0].get<int64_t>();
  if (distribution < -1 || distribution >= static_cast<int64_t>(distributions.size()))
    reader.refuse("cases", fmt::format("distributions -1..{}", distributions.size() - 1));
  RuleCase rule_case{.seed = json[1].get<uint64_t>(), .case_index = json[2].get<uint64_t>()};
  if (distribution >= 0) rule_case.distribution = distributions[static_cast<size_t>(distribution)].id;
  return rule_case;
}

/// Throws Error if two fields of a record contradict each other.
void require_consistent(const JsonReader& reader, const SurveyRecord& record) {
  const bool has_cases = !record.cases.empty() || record.question_cases > 0;
  const bool has_content = has_cases || !record.results.empty() || reader.has("random");
  if (record.end == SurveyEnd::answered) {
    if (!record.message.empty()) reader.refuse("message", "absent: the unit answered");
    if (!record.results.empty() && !has_cases) reader.refuse("result_bytes", "absent: the record has no cases");
  } else if (record.end != SurveyEnd::failed && has_content) {
    reader.refuse("end", "answered or failed: the record has cases or results");
  }
  if (const std::optional<SurveyAsk> ask = survey::ask_named(record.unit)) {
    const auto only_of = [&](const char* key, std::initializer_list<SurveyAsk> having) {
      if (reader.has(key) && std::ranges::find(having, *ask) == having.end())
        reader.refuse(key, fmt::format("absent: the unit asks \"{}\"", print(*ask)));
    };
    only_of("cases", {SurveyAsk::rule});
    only_of("facts", {SurveyAsk::rule});
    only_of("settled", {SurveyAsk::rule});
    only_of("question_cases", {SurveyAsk::question});
    only_of("result_bytes", {SurveyAsk::rule, SurveyAsk::question});
    only_of("random", {SurveyAsk::rule, SurveyAsk::bits});
  }
  if (!reader.has("random")) return;
  const JsonReader random = reader.object("random");
  if (record.random_compared < record.random_cases)
    random.refuse("compared", fmt::format("{} or more: at least one output per case", record.random_cases));
  if (record.random_mismatches > record.random_compared)
    random.refuse("mismatches", fmt::format("0..{}, the outputs compared", record.random_compared));
  if (record.random_mismatches > 0 && !record.first_mismatch)
    random.refuse("mismatches", "0: the record has no first_mismatch");
  if (record.random_mismatches == 0 && record.first_mismatch)
    random.refuse("first_mismatch", "absent: the record has no mismatches");
}

/// Hands out the bytes of the results in order.
class Bytes {
 public:
  explicit Bytes(std::span<const uint8_t> bytes) : rest_(bytes) {}

  std::vector<uint8_t> take(const JsonReader& reader, const char* key) {
    const auto count = static_cast<size_t>(reader.number(key, most_result_bytes));
    if (count > rest_.size()) reader.refuse(key, fmt::format("at most {}, the number that is left", rest_.size()));
    std::vector<uint8_t> taken(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(count));
    rest_ = rest_.subspan(count);
    return taken;
  }
  bool empty() const { return rest_.empty(); }

 private:
  std::span<const uint8_t> rest_;
};

SurveyRecord record_of(const JsonReader& reader, Bytes& bytes) {
  SurveyRecord record{.unit = printable(reader.text("unit")), .instruction = reader.text("instruction")};
  record.end = end_of(reader, "end");
  record.seconds = reader.seconds("seconds");
  if (reader.has("message")) record.message = reader.text("message");
  if (reader.has("settled")) record.settled = reader.number("settled", 1) != 0;
  if (reader.has("question_cases")) record.question_cases = reader.number("question_cases", most_cases);
  for (const Json& json : reader.list("cases", most_cases)) record.cases.push_back(rule_case_of(reader, json));
  for (const Json& json : reader.list("facts", 64)) {
    const JsonReader fact(json, "facts");
    record.facts.push_back({.name = fact.text("fact"), .value = fact.text("value"), .open = fact.texts("open", 1024)});
  }
  if (reader.has("result_bytes")) {
    record.results = bytes.take(reader, "result_bytes");
    record.inputs_hash = hash_at(reader, "inputs_hash");
    // Damaged results say nothing about a GPU.
    if (hash_at(reader, "results_hash") != hash_of(record.results))
      reader.refuse("results_hash", "the hash of the results");
  }
  if (reader.has("random")) {
    const JsonReader random = reader.object("random");
    record.random_unit = random.number("unit", campaign_units - 1);
    record.random_outputs = random.number("outputs", most_random_outputs);
    record.random_cases = random.number("cases", most_outputs);
    record.random_compared = random.number("compared", most_outputs);
    record.random_mismatches = random.number("mismatches", most_outputs);
    if (record.random_outputs == 0) random.refuse("outputs", "1 or more");
    if (record.random_cases == 0) random.refuse("cases", "1 or more");
    record.random_hash = hash_at(random, "hash");
    if (random.has("inputs_hash")) record.random_inputs_hash = hash_at(random, "inputs_hash");
    if (random.has("first_mismatch")) {
      record.first_mismatch = random.number("first_mismatch", record.random_cases - 1);
      record.first_mismatch_results = bytes.take(random, "first_mismatch_bytes");
    }
  }
  require_consistent(reader, record);
  return record;
}

/// The header's value for a rehearsal's driver, CUDA and date.
constexpr std::string_view none = "none";
/// Present in every record of a rehearsal, so that editing the header cannot turn its records into a GPU's.
constexpr const char* rehearsal_mark = "rehearsal";
/// The key of a hash over header and results in the header. It detects single changed values. It is no proof, because a
/// writer can recompute it for any content. Older reports lack it.
constexpr std::string_view digest_key = "digest";

std::string digest_of(const TensorFile& file) {
  survey::Hash hash;
  const auto add = [&](std::string_view text) {
    const std::vector<uint8_t> bytes(text.begin(), text.end());
    hash.add(bytes);
    hash.add(std::array<uint8_t, 1>{0});
  };
  for (const char* key :
       {"format", "source", "target", "driver", "cuda", "date", "bitmma", "seed", "seconds", "units", "records"}) {
    const std::string* value = file.find_metadata(key);
    add(value ? *value : std::string());
  }
  if (const Tensor* results = file.find("results")) hash.add(results->bytes.copy());
  return hex(hash.value());
}

/// "580.159.04", "13.0".
bool is_version_number(std::string_view text) {
  return text.find('.') != std::string_view::npos && is_digit(text.front()) && is_digit(text.back()) &&
         std::ranges::all_of(text, [&](char letter) { return letter == '.' || is_digit(letter); });
}

/// "2026-11-23".
bool is_date(std::string_view text) {
  constexpr std::string_view shape = "dddd-dd-dd";
  return std::ranges::equal(text, shape, [](char letter, char expected) {
    return expected == 'd' ? letter >= '0' && letter <= '9' : letter == expected;
  });
}

/// Throws Error, with all contradictions, unless header and records agree on the origin: a GPU, or the model in a
/// rehearsal, where `marked` is the number of records that name a rehearsal.
void require_one_origin(const TensorFile& file, const SurveyReport& report, size_t marked) {
  std::vector<Violation> wrong;
  const auto check = [&](bool is_right, std::string_view key, const std::string& seen, std::string expected) {
    if (is_right) return;
    wrong.push_back({.code = ViolationCode::malformed,
                     .field = fmt::format("{}: {}", file.path, key),
                     .seen = seen.empty() ? "(missing)" : shortened(seen),
                     .expected = std::move(expected),
                     .fix = "the header was changed, so the report proves nothing: survey the GPU again"});
  };
  const std::string since = fmt::format("since source = {}", report.gpu.empty() ? "(missing)" : shortened(report.gpu));
  if (report.is_rehearsal()) {
    for (const auto& [key, value] :
         {std::pair("driver", report.driver), std::pair("cuda", report.cuda), std::pair("date", report.date)})
      check(value == none, key, value, fmt::format("{}, {}", none, since));
  } else {
    check(!report.gpu.empty(), "source", report.gpu, "the name of a GPU");
    check(is_version_number(report.driver) || report.driver == driver::unknown_version, "driver", report.driver,
          fmt::format("a version such as 580.159.04, or {}, {}", driver::unknown_version, since));
    check(is_version_number(report.cuda), "cuda", report.cuda, fmt::format("a version such as 13.0, {}", since));
    check(is_date(report.date), "date", report.date, fmt::format("a date such as 2026-11-23, {}", since));
    check(marked == 0, "records", fmt::format("{} of {} marked as a rehearsal", marked, report.records.size()),
          fmt::format("records of a GPU, {}", since));
  }
  if (const std::string* digest = file.find_metadata(digest_key))
    check(*digest == digest_of(file), digest_key, printable(*digest), "the hash of the header and the results");
  if (!wrong.empty()) throw Error(std::move(wrong));
}

}  // namespace

std::string_view print(SurveyEnd end) {
  switch (end) {
    case SurveyEnd::answered: return "answered";
    case SurveyEnd::failed: return "failed";
    case SurveyEnd::timed_out: return "timed out";
    default: return "crashed";
  }
}

bool SurveyReport::is_rehearsal() const { return gpu == rehearsal_gpu; }

const SurveyRecord* SurveyReport::find(std::string_view unit) const {
  const auto record = std::ranges::find(records, unit, &SurveyRecord::unit);
  return record == records.end() ? nullptr : &*record;
}

TensorFile to_file(const SurveyReport& report) {
  Json records = Json::array();
  std::vector<uint8_t> bytes;
  for (const SurveyRecord& record : report.records) {
    Json& json = records.emplace_back(to_json(record));
    if (report.is_rehearsal()) json[rehearsal_mark] = 1;
    bytes.insert(bytes.end(), record.results.begin(), record.results.end());
    if (record.first_mismatch)
      bytes.insert(bytes.end(), record.first_mismatch_results.begin(), record.first_mismatch_results.end());
  }
  TensorFile file;
  const auto say = [&](const char* key, std::string value) { file.metadata.emplace_back(key, std::move(value)); };
  say("format", std::string(survey_format));
  say("source", report.gpu);
  say("target", std::string(print(report.target)));
  say("driver", report.driver);
  say("cuda", report.cuda);
  say("date", report.date);
  say("bitmma", report.version);
  say("seed", std::to_string(report.seed));
  say("seconds", std::to_string(in_ieee_environment([&] { return static_cast<int64_t>(report.seconds); })));
  say("units", std::to_string(report.units));
  say("records", ascii_json_text(records));
  const auto size = static_cast<int64_t>(bytes.size());
  if (size > 0) file.tensors.push_back(Tensor::from_bytes("results", "U8", {size}, std::move(bytes)));
  file.metadata.emplace_back(digest_key, digest_of(file));
  return file;
}

SurveyReport read_survey(const TensorFile& file) {
  const auto metadata = [&](const char* key) {
    const std::string* value = file.find_metadata(key);
    return value ? *value : std::string();
  };
  const auto refuse = [&](std::string_view key, std::string seen, std::string expected) {
    throw Error({.code = ViolationCode::malformed,
                 .field = fmt::format("{}: {}", file.path, key),
                 .seen = std::move(seen),
                 .expected = std::move(expected)});
  };
  if (metadata("format") != survey_format) {
    refuse("format", metadata("format").empty() ? "(missing)" : printable(metadata("format")),
           fmt::format("{}, a report of bitmma survey run", survey_format));
  }
  const auto number = [&](const char* key) {
    const std::string text = metadata(key);
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || text.empty())
      refuse(key, shortened(printable(text)), "a number");
    return value;
  };
  SurveyReport report{.gpu = printable(metadata("source")),
                      .driver = printable(metadata("driver")),
                      .cuda = printable(metadata("cuda")),
                      .date = printable(metadata("date")),
                      .version = printable(metadata("bitmma")),
                      .seed = number("seed")};
  const std::optional<Target> target = target_named(metadata("target"));
  if (!target) refuse("target", printable(metadata("target")), "a GPU by its PTX name, such as sm_90a");
  report.target = *target;
  report.seconds = static_cast<double>(std::min<uint64_t>(number("seconds"), most_seconds));
  report.units = static_cast<int64_t>(std::min<uint64_t>(number("units"), most_records));
  const Tensor* results = file.find("results");
  if (results && (results->dtype != "U8" || results->shape.size() != 1))
    refuse("results", results->dtype + " " + print_shape(results->shape), "U8 with one extent");
  const Json records = parse_json(metadata("records"), most_depth);
  if (!records.is_array() || static_cast<int64_t>(records.size()) > most_records)
    refuse("records", "something else", fmt::format("a JSON list of at most {} records", most_records));
  const TensorBytes held = results ? results->bytes.in_memory() : TensorBytes();
  Bytes bytes(held.view());
  size_t marked = 0;
  naming(file.path, [&] {
    std::set<std::string> names;
    for (size_t i = 0; i < records.size(); ++i) {
      const JsonReader reader(records[i], fmt::format("records[{}]", i));
      report.records.push_back(record_of(reader, bytes));
      marked += reader.has(rehearsal_mark) ? 1 : 0;
      if (!names.insert(report.records.back().unit).second) reader.refuse("unit", "one record per unit");
    }
  });
  if (!bytes.empty()) refuse("results", "more bytes", "as many as the records state");
  require_one_origin(file, report, marked);
  return report;
}

}  // namespace bitmma
