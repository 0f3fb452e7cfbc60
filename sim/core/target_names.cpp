// SPDX-License-Identifier: MIT
#include "bitmma/core/target_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "ascii.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"

namespace bitmma {
namespace {

using enum Target;

struct NamesRow {
  Target target;
  std::string_view names;  // separated by ", "
};

// NVIDIA, CUDA GPU compute capability, https://developer.nvidia.com/cuda-gpus. "RTX 6000" is the name of three GPUs.
// The rows omit words such as Ti, SUPER and Laptop, which do not change the target.
constexpr auto rows = std::to_array<NamesRow>({
    {sm_70, "V100, V100S, TITAN V, Quadro GV100"},
    {sm_72, "Xavier"},
    {sm_75,
     "T4, T4G, T10, RTX 20, RTX 2060, RTX 2070, RTX 2080, TITAN RTX, Quadro RTX 3000, Quadro RTX 4000, Quadro RTX "
     "5000, "
     "Quadro RTX 6000, Quadro RTX 8000, RTX 3000, RTX 4000, RTX 5000, RTX 6000, RTX 8000"},
    {sm_80, "A100, A100X, A30, A30X, A800"},
    {sm_86,
     "A2, A10, A10G, A10M, A16, A40, RTX 30, RTX 3050, RTX 3060, RTX 3070, RTX 3080, RTX 3090, RTX A1000, RTX A2000, "
     "RTX A3000, RTX A4000, RTX A4500, RTX A5000, RTX A5500, RTX A6000, A2000, A4000, A4500, A5000, A5500, A6000"},
    {sm_87, "Orin"},
    {sm_89,
     "L2, L4, L20, L40, L40S, L40G, RTX 40, RTX 4050, RTX 4060, RTX 4070, RTX 4080, RTX 4090, RTX 4090D, RTX 2000, "
     "RTX 3000, RTX 3500, RTX 4000, RTX 4500, RTX 5000, RTX 5880, RTX 6000"},
    {sm_90a, "H100, H200, H20, H800, GH200"},
    {sm_100a, "B100, B200, GB200"},
    {sm_103a, "B300, GB300"},
    {sm_107a, "Rubin"},
    {sm_110a, "Thor, T4000, T5000"},
    {sm_120a,
     "RTX 50, RTX 5050, RTX 5060, RTX 5070, RTX 5080, RTX 5090, RTX 5090D, RTX PRO 500, RTX PRO 1000, RTX PRO 2000, "
     "RTX PRO 3000, RTX PRO 4000, RTX PRO 4500, RTX PRO 5000, RTX PRO 6000, RTX 6000"},
    {sm_121a, "GB10, DGX Spark"},
});

struct Architecture {
  std::string_view name;
  TargetSet targets;
};

constexpr auto architectures = std::to_array<Architecture>({
    {"volta", {sm_70}},
    {"turing", {sm_75}},
    {"ampere", {sm_80, sm_86, sm_87}},
    {"ada", {sm_89}},
    {"hopper", {sm_90a}},
    {"blackwell", {sm_100a, sm_103a, sm_110a, sm_120a, sm_121a}},
    {"rubin", {sm_107a}},
});

// Words that drivers and shops add to a GPU's name.
constexpr auto additions = std::to_array<std::string_view>(
    {"nvidia",     "geforce",  "tesla", "gpu",    "laptop", "mobile", "edition", "workstation", "server",
     "generation", "lovelace", "vera",  "series", "dgx",    "hgx",    "jetson",  "agx",         "drive",
     "nx",         "nano",     "super", "ti",     "max",    "q",      "sff",     "mig",         "pcie"});

/// Runs of letters and digits, in lower case.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (is_letter(c) || is_digit(c)) words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!words.back().empty()) words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

std::string glued(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word;
  return text;
}

/// "80gb", "sxm5", "hbm3", "nvl72".
bool is_addition(const std::string& word) {
  if (std::ranges::count(additions, word) != 0) return true;
  if (is_digit(word.front()) && (word.ends_with("gb") || word.ends_with("g"))) return true;
  return word.starts_with("sxm") || word.starts_with("hbm") || word.starts_with("nvl");
}

/// "4070" for 4070ti.
std::string without_ending(std::string word) {
  for (const std::string_view ending : {"super", "ti"}) {
    if (word.size() > ending.size() && word.ends_with(ending) && is_digit(word[word.size() - ending.size() - 1]))
      word = word.substr(0, word.size() - ending.size());
  }
  return word;
}

/// "sm90a", "compute90a".
TargetSet of_ptx_name(std::string_view name) {
  const size_t letters = name.starts_with("sm") ? 2 : name.starts_with("compute") ? 7 : 0;
  if (letters == 0) return {};
  const std::optional<Target> target = target_named("sm_" + std::string(name.substr(letters)));
  return target ? TargetSet{*target} : TargetSet{};
}

/// "9.0", "(9, 0)", "90", "90a": a GPU, and so the target with the GPU's specific features if it has any.
TargetSet of_capability(const std::vector<std::string>& words) {
  if (words.empty() || words.size() > 2) return {};
  const std::string number = glued(words);
  const bool has_letter = is_letter(number.back());
  const size_t digits = number.size() - (has_letter ? 1 : 0);
  const bool has_minor = words.size() == 1 || words[1].size() == (has_letter ? 2 : 1);
  if (!has_minor || digits < 2 ||
      !std::all_of(number.begin(), number.begin() + static_cast<std::ptrdiff_t>(digits), is_digit))
    return {};
  for (const char* letter : {"a", ""}) {
    const std::optional<Target> target = target_named("sm_" + number + (has_letter ? "" : letter));
    if (target) return {*target};
  }
  return {};
}

TargetSet of_gpu(const std::vector<std::string>& words) {
  std::vector<std::string> name;
  TargetSet legal = TargetSet::from(sm_70);
  bool has_architecture = false;
  for (const std::string& word : words) {
    const auto architecture =
        std::ranges::find_if(architectures, [&](const Architecture& row) { return row.name == word; });
    if (architecture != architectures.end()) legal = legal & architecture->targets, has_architecture = true;
    else if (!is_addition(word)) name.push_back(without_ending(word));
  }
  if (name.empty()) return has_architecture ? legal : TargetSet{};
  const std::string wanted = glued(name);
  TargetSet matches;
  for (const GpuNames& row : gpu_names()) {
    for (const std::string& gpu : row.names) {
      std::vector<std::string> own = words_of(gpu);
      std::erase_if(own, is_addition);
      if (glued(own) == wanted) matches = matches | TargetSet{row.target};
    }
  }
  return matches & legal;
}

/// "sm_80: A100; sm_86: A2, A40, RTX 30".
std::string cards_of(const TargetSet& set) {
  std::string text;
  for (const TargetInfo& row : targets) {
    if (set.contains(row.id)) text += (text.empty() ? "" : "; ") + std::string(row.name) + ": " + std::string(row.gpu);
  }
  return text;
}

/// "did you mean H100, sm_90a?", or a list of the names.
std::string suggestion_for(std::string_view text) {
  std::vector<std::string> names = row_names(targets);
  for (const GpuNames& row : gpu_names()) names.insert(names.end(), row.names.begin(), row.names.end());
  for (const Architecture& row : architectures) names.emplace_back(row.name);
  const bool is_old = text.size() == 5 && text.starts_with("sm_") && text[3] >= '1' && text[3] <= '6';
  if (is_old) return "GPUs before Volta, sm_70, have no tensor cores";
  const std::string meant = nearest(text, names);
  if (!meant.empty()) {
    const std::string target = print(targets_meant_by(meant));
    return "did you mean " + meant + (meant == target ? "?" : ", which is " + target + "?");
  }
  std::string cards;
  for (const GpuNames& row : gpu_names()) cards += ", " + row.names.front();
  return "or use the GPU's name, or its compute capability such as 9.0" + cards;
}

}  // namespace

std::vector<std::string> names_of(const TargetSet& set) {
  std::vector<std::string> names;
  for (const TargetInfo& row : targets) {
    if (set.contains(row.id)) names.emplace_back(row.name);
  }
  return names;
}

const std::vector<GpuNames>& gpu_names() {
  static const std::vector<GpuNames> known = [] {
    std::vector<GpuNames> read;
    for (const NamesRow& row : rows) {
      GpuNames gpus{.target = row.target, .names = {}};
      std::string_view rest = row.names;
      while (!rest.empty()) {
        const size_t end = std::min(rest.find(", "), rest.size());
        gpus.names.emplace_back(rest.substr(0, end));
        rest.remove_prefix(std::min(end + 2, rest.size()));
      }
      read.push_back(std::move(gpus));
    }
    return read;
  }();
  return known;
}

TargetSet targets_meant_by(std::string_view text) {
  if (const std::optional<Target> exact = target_named(text)) return {*exact};
  constexpr size_t longest_name = 200;
  static constexpr std::string_view separators = " -_.,/()[]";
  const auto is_of_names = [](char c) {
    return is_letter(c) || is_digit(c) || separators.find(c) != std::string_view::npos;
  };
  if (text.size() > longest_name || text.starts_with('-') || !std::ranges::all_of(text, is_of_names)) return {};
  const std::vector<std::string> words = words_of(text);
  if (const TargetSet by_name = of_ptx_name(glued(words)); !by_name.empty()) return by_name;
  const bool is_number = text.find_first_of("-_/") == std::string_view::npos;
  if (const TargetSet by_capability = is_number ? of_capability(words) : TargetSet{}; !by_capability.empty())
    return by_capability;
  return of_gpu(words);
}

std::optional<Target> target_meant_by(std::string_view text) {
  const TargetSet meaning = targets_meant_by(text);
  return meaning == TargetSet{meaning.first()} ? std::optional(meaning.first()) : std::nullopt;
}

Target target_from(std::string_view text, std::string_view field) {
  const TargetSet meaning = targets_meant_by(text);
  if (meaning == TargetSet{meaning.first()}) return meaning.first();
  const bool is_unknown = meaning.empty();
  throw Error({.code = ViolationCode::unknown_name,
               .field = std::string(field),
               .seen = shortened(text),
               .legal = is_unknown ? row_names(targets) : names_of(meaning),
               .fix = is_unknown ? suggestion_for(text) : "the name means several GPUs: " + cards_of(meaning)});
}

}  // namespace bitmma
