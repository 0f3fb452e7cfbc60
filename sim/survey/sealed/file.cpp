// SPDX-License-Identifier: MIT
// Sealed predictions and answers as JSON. Each case is one line: its number, the results of the known answers, and for
// each answer the letter of its result:
//
//   {"case": 7, "d": ["1d0c4a2e", "90ab33f1"], "answers": "abba"}
#include "bitmma/files/file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "../../core/seconds.hpp"
#include "../../core/sha256.hpp"
#include "../survey_json.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/core/version.hpp"
#include "bitmma/survey/sealed.hpp"
#include "sealed_data.hpp"

namespace bitmma {
namespace {

using survey::end_of, survey::most_depth;

constexpr std::string_view sealed_format = "bitmma-sealed-1", answers_format = "bitmma-sealed-answers-1";
constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
/// Limits for readers, above those of any file that bitmma writes.
constexpr int64_t most_points = 1000, most_cases = 10'000, most_answers = 1000;

[[noreturn]] void refuse(const std::string& field, std::string seen, std::string expected) {
  throw Error({.field = field, .seen = std::move(seen), .expected = std::move(expected)});
}

constexpr size_t digits_of_d = 8, digits_of_inputs = 16;

std::string print_case(const SealedCase& one) {
  std::vector<uint32_t> results;
  std::string answers;
  for (const uint32_t d : one.d) {
    const auto known = std::ranges::find(results, d);
    answers += letters.at(static_cast<size_t>(known - results.begin()));
    if (known == results.end()) results.push_back(d);
  }
  std::string hashes;
  for (const uint32_t d : results) hashes += fmt::format("{}\"{:08x}\"", hashes.empty() ? "" : ", ", d);
  return fmt::format(R"({{"case": {}, "d": [{}], "answers": "{}"}})", one.number, hashes, answers);
}

SealedCase case_of(const JsonReader& reader, size_t answers) {
  SealedCase one{.number = static_cast<uint64_t>(reader.number("case", std::numeric_limits<int64_t>::max()))};
  const std::vector<std::string> results = reader.texts("d", static_cast<int64_t>(letters.size()));
  const std::string text = reader.text("answers");
  if (text.size() != answers) reader.refuse("answers", fmt::format("{} letters", answers));
  for (const char letter : text) {
    const size_t index = letters.find(letter);
    if (index >= results.size()) reader.refuse("answers", "letters of the results");
    const std::optional<uint64_t> hash = hash_in(results[index], "", digits_of_d);
    if (!hash) reader.refuse("d", fmt::format("hashes of {} digits", digits_of_d));
    one.d.push_back(static_cast<uint32_t>(*hash));
  }
  return one;
}

SealedPoint point_of(const JsonReader& reader, const std::string& where) {
  SealedPoint point{.name = printable(reader.text("point")),
                    .instruction = printable(reader.text("instruction")),
                    .inputs = reader.hash("inputs", "", digits_of_inputs)};
  for (const std::string& one : reader.texts("answers", most_answers)) point.answers.push_back(printable(one));
  if (std::set(point.answers.begin(), point.answers.end()).size() != point.answers.size())
    reader.refuse("answers", "each answer once");
  if (!reader.is_null("predicted")) {
    point.predicted = printable(reader.text("predicted"));
    if (std::ranges::find(point.answers, *point.predicted) == point.answers.end())
      reader.refuse("predicted", "one of the answers, or null");
  }
  for (const Json& one : reader.list("cases", most_cases))
    point.cases.push_back(case_of({one, where + ".cases"}, point.answers.size()));
  if (point.cases.empty()) reader.refuse("cases", "1 or more");
  return point;
}

}  // namespace

std::string print(const SealedFile& file) {
  const auto quoted = [](std::string_view text) { return json_text(text); };
  std::string text = fmt::format("{{\"format\": {}, \"target\": {}, \"points\": [\n", quoted(sealed_format),
                                 quoted(print(file.target)));
  for (const SealedPoint& point : file.points) {
    text += fmt::format("{{\"point\": {},\n \"instruction\": {},\n \"inputs\": \"{:016x}\",\n \"predicted\": {},\n",
                        quoted(point.name), quoted(point.instruction), point.inputs,
                        point.predicted ? quoted(*point.predicted) : "null");
    text += " \"answers\": [";
    for (const std::string& answer : point.answers)
      text += fmt::format("{}\n  {}", &answer == point.answers.data() ? "" : ",", quoted(answer));
    text += "],\n \"cases\": [";
    for (const SealedCase& one : point.cases)
      text += fmt::format("{}\n  {}", &one == point.cases.data() ? "" : ",", print_case(one));
    text += fmt::format("]}}{}\n", &point == &file.points.back() ? "" : ",");
  }
  return text + "]}\n";
}

SealedFile read_sealed(std::string_view text) {
  const Json json = parse_json(text, most_depth);
  const std::string expected = fmt::format("{}, a file of bitmma survey seal", sealed_format);
  if (!json.is_object()) refuse("format", "not a JSON object", expected);
  const JsonReader reader(json, "file");
  if (reader.text("format") != sealed_format) reader.refuse("format", expected);
  const std::string name = printable(reader.text("target"));
  const std::optional<Target> target = target_named(name);
  if (!target) refuse("target", shortened(name), "a GPU by its PTX name, such as sm_100a");
  SealedFile file{.target = *target, .sha256 = sha256(text)};
  std::set<std::string> names;
  for (const Json& one : reader.list("points", most_points)) {
    const std::string where = fmt::format("points[{}]", file.points.size());
    const JsonReader point(one, where);
    file.points.push_back(point_of(point, where));
    if (!names.insert(file.points.back().name).second) point.refuse("point", "each point once");
  }
  if (file.points.empty()) reader.refuse("points", "1 or more");
  return file;
}

SealedFile read_sealed_file(const std::string& path) {
  constexpr uint64_t most_bytes = 16 << 20;
  const std::string text = read_whole(path);
  if (text.size() > most_bytes)
    throw Error({.field = path, .seen = fmt::format("{} bytes", text.size()), .expected = "at most 16 MiB"});
  return naming(path, [&] { return read_sealed(text); });
}

SealedFile built_in_sealed(Target target) {
  if (!sealed_text(target).empty()) return read_sealed(sealed_text(target));
  throw Error({.field = "sealed prediction",
               .seen = std::string(print(target)),
               .expected = "a target for which a prediction is built in",
               .fix = fmt::format("run bitmma survey seal {} -o FILE, then bitmma survey sealed FILE", print(target))});
}

std::string_view sealed_text(Target target) {
  for (const SealedText& one : sealed_texts) {
    if (print(target) == one.target) return one.text;
  }
  return {};
}

const SealedRecord* SealedAnswers::find(std::string_view point) const {
  const auto found = std::ranges::find(records, point, &SealedRecord::point);
  return found == records.end() ? nullptr : &*found;
}

TensorFile to_file(const SealedAnswers& answers) {
  Json records = Json::array();
  for (const SealedRecord& record : answers.records) {
    std::string d;
    for (const uint32_t one : record.d) d += fmt::format("{:08x}", one);
    Json json{{"point", record.point}, {"end", print(record.end)}, {"seconds", record.seconds}, {"d", d}};
    if (!record.message.empty()) json["message"] = record.message;
    if (record.unreadable) json["unreadable"] = true;
    records.push_back(std::move(json));
  }
  TensorFile file;
  const auto say = [&](const char* key, std::string value) { file.metadata.emplace_back(key, std::move(value)); };
  say("format", std::string(answers_format));
  say("source", answers.gpu);
  say("target", std::string(print(answers.target)));
  say("driver", answers.driver);
  say("cuda", answers.cuda);
  say("date", answers.date);
  say("bitmma", answers.version);
  say("sealed_sha256", answers.sha256);
  say("seconds", print_seconds(answers.seconds, 1));
  say("records", ascii_json_text(records));
  return file;
}

SealedAnswers read_sealed_answers(const TensorFile& file) {
  const auto said = [&](const char* key) {
    const std::string* value = file.find_metadata(key);
    return value ? printable(*value) : std::string();
  };
  if (said("format") != answers_format)
    refuse("format", shortened(said("format")), fmt::format("{}, answers of bitmma survey sealed", answers_format));
  SealedAnswers answers{.gpu = said("source"),
                        .driver = said("driver"),
                        .cuda = said("cuda"),
                        .date = said("date"),
                        .version = said("bitmma"),
                        .sha256 = said("sealed_sha256")};
  const std::optional<Target> target = target_named(said("target"));
  if (!target) refuse("target", shortened(said("target")), "a GPU by its PTX name");
  answers.target = *target;
  Json records = Json::object();
  const std::string* const text = file.find_metadata("records");
  records["records"] = parse_json(text ? *text : std::string(), most_depth);
  for (const Json& json : JsonReader(records, "answers").list("records", most_points)) {
    const JsonReader reader(json, "records");
    SealedRecord record{.point = printable(reader.text("point")),
                        .end = end_of(reader, "end"),
                        .unreadable = reader.has("unreadable"),
                        .seconds = reader.seconds("seconds")};
    if (reader.has("message")) record.message = printable(reader.text("message"));
    const std::string hashes = reader.text("d", static_cast<int64_t>(digits_of_d) * most_cases);
    for (size_t at = 0; at < hashes.size(); at += digits_of_d) {
      const std::optional<uint64_t> hash = hash_in(std::string_view(hashes).substr(at, digits_of_d), "", digits_of_d);
      if (!hash) reader.refuse("d", fmt::format("hashes of {} digits", digits_of_d));
      record.d.push_back(static_cast<uint32_t>(*hash));
    }
    answers.records.push_back(std::move(record));
  }
  return answers;
}

}  // namespace bitmma
