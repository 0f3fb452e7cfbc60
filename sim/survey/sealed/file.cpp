// Sealed predictions and answers as JSON. A case is a line: its number, the results that the known answers give, and
// for each answer the letter of its result:
//
//   {"case": 7, "d": ["1d0c4a2e", "90ab33f1"], "answers": "abba"}
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "../../core/json.hpp"
#include "../../core/sha256.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/core/version.hpp"
#include "bitmma/survey/sealed.hpp"
#include "sealed_data.hpp"

namespace bitmma {
namespace {

constexpr std::string_view sealed_format = "bitmma-sealed-1", answers_format = "bitmma-sealed-answers-1";
constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
/// More than any file that is made; a reader takes no more.
constexpr int most_depth = 6;
constexpr size_t most_points = 1000, most_cases = 10'000, most_answers = 1000, most_text = 4096;

[[noreturn]] void refuse(const std::string& field, std::string seen, std::string expected) {
  throw Error({.field = field, .seen = std::move(seen), .expected = std::move(expected)});
}

std::string seen_of(const Json& json) {
  if (json.is_structured()) return json.is_array() ? "a list" : "an object";
  return shortened(printable(ascii_json_text(json)));
}

/// The value of a key, or an Error that names it.
const Json& value_of(const Json& json, const std::string& where, const char* key) {
  if (!json.is_object() || !json.contains(key)) refuse(where + "." + key, "(missing)", "a value");
  return json[key];
}

std::string text_of(const Json& json, const std::string& where) {
  if (!json.is_string() || json.get_ref<const std::string&>().size() > most_text)
    refuse(where, seen_of(json), fmt::format("a text of at most {} letters", most_text));
  return printable(json.get<std::string>());
}

const Json& list_of(const Json& json, const std::string& where, size_t most) {
  if (!json.is_array() || json.size() > most) refuse(where, seen_of(json), fmt::format("a list of at most {}", most));
  return json;
}

uint64_t hash_of(const Json& json, const std::string& where, size_t digits) {
  const std::string text = text_of(json, where);
  const bool is_hash = text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!is_hash) refuse(where, shortened(text), fmt::format("{} digits of a hash", digits));
  uint64_t value = 0;
  for (const char digit : text) value = value << 4 | std::string_view("0123456789abcdef").find(digit);
  return value;
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

SealedCase case_of(const Json& json, const std::string& where, size_t answers) {
  const Json& number = value_of(json, where, "case");
  if (!number.is_number_unsigned()) refuse(where + ".case", seen_of(number), "a number");
  SealedCase one{.number = number.get<uint64_t>()};
  const Json& results = list_of(value_of(json, where, "d"), where + ".d", letters.size());
  const std::string text = text_of(value_of(json, where, "answers"), where + ".answers");
  if (text.size() != answers) refuse(where + ".answers", shortened(text), fmt::format("{} letters", answers));
  for (const char letter : text) {
    const size_t index = letters.find(letter);
    if (index >= results.size()) refuse(where + ".answers", shortened(text), "letters of the results");
    one.d.push_back(static_cast<uint32_t>(hash_of(results[index], where + ".d", digits_of_d)));
  }
  return one;
}

SealedPoint point_of(const Json& json, const std::string& where) {
  SealedPoint point{.name = text_of(value_of(json, where, "point"), where + ".point"),
                    .instruction = text_of(value_of(json, where, "instruction"), where + ".instruction"),
                    .inputs = hash_of(value_of(json, where, "inputs"), where + ".inputs", digits_of_inputs)};
  for (const Json& one : list_of(value_of(json, where, "answers"), where + ".answers", most_answers))
    point.answers.push_back(text_of(one, where + ".answers"));
  if (std::set(point.answers.begin(), point.answers.end()).size() != point.answers.size())
    refuse(where + ".answers", "an answer twice", "each once");
  const Json& predicted = value_of(json, where, "predicted");
  if (!predicted.is_null()) point.predicted = text_of(predicted, where + ".predicted");
  const bool is_known = !point.predicted || std::ranges::find(point.answers, *point.predicted) != point.answers.end();
  if (!is_known) refuse(where + ".predicted", shortened(*point.predicted), "one of the answers, or null");
  for (const Json& one : list_of(value_of(json, where, "cases"), where + ".cases", most_cases))
    point.cases.push_back(case_of(one, where + ".cases", point.answers.size()));
  if (point.cases.empty()) refuse(where + ".cases", "none", "1 or more");
  return point;
}

Target target_of(const Json& json) {
  const std::string name = text_of(value_of(json, "file", "target"), "target");
  const std::optional<Target> target = target_named(name);
  if (!target) refuse("target", shortened(name), "a GPU by its PTX name, such as sm_100a");
  return *target;
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
  if (!json.is_object() || !json.contains("format") || json["format"] != sealed_format) {
    refuse("format", json.is_object() && json.contains("format") ? seen_of(json["format"]) : "no JSON, or another",
           fmt::format("{}, a file of bitmma survey seal", sealed_format));
  }
  SealedFile file{.target = target_of(json), .sha256 = sha256(text)};
  std::set<std::string> names;
  const Json& points = list_of(value_of(json, "file", "points"), "points", most_points);
  for (size_t i = 0; i < points.size(); ++i) {
    const std::string where = fmt::format("points[{}]", i);
    file.points.push_back(point_of(points[i], where));
    if (!names.insert(file.points.back().name).second)
      refuse(where + ".point", shortened(file.points.back().name), "each point once");
  }
  if (file.points.empty()) refuse("points", "none", "1 or more");
  return file;
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
  say("seconds", fmt::format("{:.1f}", answers.seconds));
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
  const std::string* const text = file.find_metadata("records");
  const Json records = parse_json(text ? *text : std::string(), most_depth);
  for (const Json& json : list_of(records, "records", most_points)) {
    SealedRecord record{.point = text_of(value_of(json, "records", "point"), "point")};
    const std::string end = text_of(value_of(json, "records", "end"), "end");
    bool is_known = false;
    for (const SurveyEnd one : {SurveyEnd::answered, SurveyEnd::failed, SurveyEnd::timed_out, SurveyEnd::crashed}) {
      if (print(one) == end) record.end = one, is_known = true;
    }
    if (!is_known) refuse("end", shortened(end), "answered, failed, timed out or crashed");
    if (json.contains("message")) record.message = text_of(json["message"], "message");
    record.unreadable = json.contains("unreadable");
    const Json& seconds = value_of(json, "records", "seconds");
    if (!seconds.is_number()) refuse("seconds", seen_of(seconds), "a number");
    record.seconds = seconds.get<double>();
    const Json& d = value_of(json, "records", "d");
    if (!d.is_string() || d.get_ref<const std::string&>().size() > digits_of_d * most_cases)
      refuse("d", seen_of(d), "hashes");
    const std::string hashes = d.get<std::string>();
    for (size_t at = 0; at < hashes.size(); at += digits_of_d)
      record.d.push_back(static_cast<uint32_t>(hash_of(hashes.substr(at, digits_of_d), "d", digits_of_d)));
    answers.records.push_back(std::move(record));
  }
  return answers;
}

}  // namespace bitmma
