// SPDX-License-Identifier: MIT
#include "suggestions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "bitmma/core/text.hpp"

namespace bitmma::cli {

bool is_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text == "inf" || text == "infinity" || text == "nan") return true;
  return !text.empty() && (std::isdigit(static_cast<unsigned char>(text[0])) != 0 || text[0] == '.');
}

const CLI::Option* flag_named(const CLI::App& command, const std::string& name) {
  for (const CLI::Option* option : command.get_options()) {
    if (!option->nonpositional()) continue;
    if (name.starts_with("--") ? option->check_lname(name.substr(2)) : option->check_sname(name.substr(1))) {
      return option;
    }
  }
  return nullptr;
}

namespace {

/// Names of bitmma's commands in other programs and in earlier versions.
struct OtherWord {
  std::string_view word, command;
  std::string_view above = "bitmma";  // empty: any command that has the flag
};
constexpr std::string_view any_file = "a file";  // matches any file name
constexpr auto other_words = std::to_array<OtherWord>({
    {"diff", "compare"},
    {"cmp", "compare"},
    {"check", "verify"},
    {"test", "verify"},
    {"run", "simulate"},
    {"execute", "simulate"},
    {"generate", "golden"},
    {"gen", "golden"},
    {"random", "golden"},
    {"debug", "diagnose"},
    {"why", "diagnose"},
    {"matmul", "gemm"},
    {"print", "decode"},
    {"disassemble", "decode"},
    {"swizzle", "layout"},
    {"draw", "layout"},
    {"instructions", "list"},
    {"version", "--version"},
    {"convert", "simulate"},
    {"predict", "simulate"},
    {"show", "list"},
    {"info", "list"},
    {"profile", "bench"},
    {"benchmark", "bench"},
    {"search", "diagnose"},
    {"assemble", "encode"},
    {"descriptor", "decode"},
    {"--arch", "--target", ""},
    {"--gpu", "--target", ""},
    {"--sm", "--target", ""},
    {"--chip", "--target", ""},
    {"--out", "--output", ""},
    {"--outfile", "--output", ""},
    {"--count", "--cases", ""},
    {"--dtype", "--type", ""},
    {"--columns", "--cols", ""},
    {"--lane", "--thread", ""},
    {"--jobs", "--threads", ""},
    {"-j", "--threads", ""},
    {"smem", "descriptor", "encode"},
    {"desc", "descriptor", "encode"},
    {"wgmma", "instruction", "encode"},
    {"mnemonic", "instruction", "encode"},
    {"--campaign", "bitmma gpu campaign", "gpu"},
    {"--survey", "bitmma survey run", "gpu"},
    {"--rehearse", "bitmma survey run", "gpu"},
    {any_file, "bitmma gpu run {}", "gpu"},
    {"--patch", "bitmma survey read --confirmed", "survey"},
    {"--all", "bitmma survey read --all", "survey"},
    {"--json", "bitmma survey read --json", "survey"},
    {"--quick", "bitmma survey read --quick", "survey"},
    {any_file, "bitmma survey read {}", "survey"},
});

/// True if the word looks like a file name and not like a command.
bool is_file_name(std::string_view word) { return word.find_first_of("./") != std::string_view::npos; }

/// True if `seen` starts with `word`, and the rest is wrong: "k-major" in "k-major:256".
bool is_right_begin(const std::string& word, const std::string& seen) {
  const auto is_plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  return seen.starts_with(word) &&
         (!is_plain(word.back()) || (seen.size() > word.size() && !is_plain(seen[word.size()])));
}

/// Values in the spelling of other libraries.
struct OtherSpelling {
  std::string_view spelling, name;
};
constexpr auto other_spellings = std::to_array<OtherSpelling>({
    {"half", "f16"},
    {"fp16", "f16"},
    {"float16", "f16"},
    {"nv_bfloat16", "bf16"},
    {"bfloat16", "bf16"},
    {"bfloat", "bf16"},
    {"tfloat32", "tf32"},
    {"float", "f32"},
    {"fp32", "f32"},
    {"float32", "f32"},
    {"single", "f32"},
    {"double", "f64"},
    {"fp64", "f64"},
    {"float64", "f64"},
    {"fp8", "e4m3"},
    {"float_e4m3", "e4m3"},
    {"float8_e4m3fn", "e4m3"},
    {"float8_e4m3", "e4m3"},
    {"fp8_e4m3", "e4m3"},
    {"e4m3fn", "e4m3"},
    {"float_e5m2", "e5m2"},
    {"float8_e5m2", "e5m2"},
    {"fp8_e5m2", "e5m2"},
    {"float_e2m3", "e2m3"},
    {"float6_e2m3fn", "e2m3"},
    {"float_e3m2", "e3m2"},
    {"float6_e3m2fn", "e3m2"},
    {"fp4", "e2m1"},
    {"float_e2m1", "e2m1"},
    {"float4_e2m1fn", "e2m1"},
    {"float4_e2m1fn_x2", "e2m1"},
    {"fp4_e2m1", "e2m1"},
    {"e8m0", "ue8m0"},
    {"float_ue8m0", "ue8m0"},
    {"float8_e8m0fnu", "ue8m0"},
    {"e8m0fnu", "ue8m0"},
    {"float_ue4m3", "ue4m3"},
    {"int8", "s8"},
    {"char", "s8"},
    {"i8", "s8"},
    {"uint8", "u8"},
    {"int4", "s4"},
    {"uint4", "u4"},
    {"int", "s32"},
    {"int32", "s32"},
    {"i32", "s32"},
    {"uint32", "u32"},
    {"bool", "b1"},
    {"uint1b", "b1"},
    // Kinds of tcgen05.mma.
    {"fp16", "f16"},
    {"bf16", "f16"},
    {"fp8", "f8f6f4"},
    {"f8", "f8f6f4"},
    {"e4m3", "f8f6f4"},
    {"fp6", "f8f6f4"},
    {"int8", "i8"},
    {"s8", "i8"},
    {"mxfp8", "mxf8f6f4"},
    {"mxf8", "mxf8f6f4"},
    {"mxfp6", "mxf8f6f4"},
    {"mxfp4", "mxf4"},
    {"nvfp4", "mxf4nvf4"},
    {"nvf4", "mxf4nvf4"},
    // Distributions, text formats, swizzles.
    {"gauss", "normal"},
    {"gaussian", "normal"},
    {"randn", "normal"},
    {"random", "bits"},
    {"uniform", "bits"},
    {"ints", "integers"},
    {"json", "jsonl"},
    {"txt", "hex"},
    {"no", "none"},
    {"sw128", "128"},
    {"128b", "128"},
    {"swizzle_128b", "128"},
    {"sw64", "64"},
    {"swizzle_64b", "64"},
    {"sw32", "32"},
    {"swizzle_32b", "32"},
    {"interleave", "none"},
    {"inter", "none"},
});

/// The name without prefixes and suffixes of other libraries: "torch.float16", "cutlass::half_t".
std::string bare_spelling(std::string_view text) {
  std::string bare(text.substr(text.find_last_of(".:") == std::string_view::npos ? 0 : text.find_last_of(".:") + 1));
  std::ranges::transform(bare, bare.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  bare.erase(0, std::min(bare.find_first_not_of('_'), bare.size()));  // __half
  if (bare.ends_with("_t")) bare.resize(bare.size() - 2);
  return bare;
}

/// The name that was probably meant: from another library's spelling, or else the nearest; empty if there is none.
std::string meant_by(const std::string& seen, const std::vector<std::string>& names) {
  const std::string bare = bare_spelling(seen);
  const auto is_known = [&](std::string_view name) { return std::ranges::find(names, name) != names.end(); };
  if (is_known(bare)) return bare;
  for (const auto& [spelling, name] : other_spellings)
    if (spelling == bare && is_known(name)) return std::string(name);
  return nearest(seen, names);
}

}  // namespace

std::string other_word_for(const CLI::App& command, const std::string& word) {
  const auto row = std::ranges::find_if(other_words, [&](const OtherWord& other_word) {
    const bool is_here = other_word.above.empty() ? flag_named(command, std::string(other_word.command)) != nullptr
                                                  : other_word.above == command.get_name();
    return is_here && (other_word.word == any_file ? is_file_name(word) : other_word.word == word);
  });
  if (row == other_words.end()) return "";
  return fmt::format(fmt::runtime(row->command), shortened(word));
}

Violation with_suggestion(Violation violation) {
  const bool is_word = violation.seen.find_first_of(" (,") == std::string::npos && !is_number(violation.seen);
  if (!is_word || !violation.fix.empty()) return violation;
  if (std::ranges::find(violation.legal, violation.seen) != violation.legal.end()) return violation;
  std::vector<std::string> candidates;
  for (const std::string& word : violation.legal) {
    if (!is_right_begin(word, violation.seen)) candidates.push_back(word);
  }
  const std::string meant = meant_by(violation.seen, candidates);
  if (!meant.empty()) violation.fix = fmt::format("did you mean {}?", meant);
  return violation;
}

}  // namespace bitmma::cli
