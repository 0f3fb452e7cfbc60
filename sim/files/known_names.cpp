// SPDX-License-Identifier: MIT
#include "known_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <unordered_set>

#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"

namespace bitmma {
namespace {

constexpr std::string_view free_prefix = "x-";

/// Keys that only document a file.
constexpr auto documenting_keys = std::to_array<std::string_view>(
    {"format", "seed", "distribution", "first_case", "description", "comment", "comments", "note", "notes", "author",
     "title", "license", "url", "campaign_seed", "campaign_unit", "campaign_case", "case", "name", "plan_from"});
/// Keys that document the origin of D: a program that computes another D removes all of them.
constexpr auto origin_keys = std::to_array<std::string_view>(
    {"source",  "driver", "cuda",    "date",    "gpu",    "device", "host",   "library",  "call",  "bitmma",
     "version", "kernel", "command", "program", "commit", "time",   "tool",   "recorder", "hash",  "sha256",
     "os",      "cpu",    "clock",   "nvcc",    "ptxas",  "torch",  "triton", "cublas",   "slices"});

/// Names of keys and tensors in other libraries.
struct Synonym {
  std::string_view word, name;
};
constexpr auto synonyms = std::to_array<Synonym>({
    {"arch", "target"},
    {"architecture", "target"},
    {"gpuarch", "target"},
    {"sm", "target"},
    {"computecapability", "target"},
    {"instr", "instruction"},
    {"inst", "instruction"},
    {"mnemonic", "instruction"},
    {"op", "instruction"},
    {"opcode", "instruction"},
    {"ptx", "instruction"},
    {"transa", "imm_trans_a"},
    {"transposea", "imm_trans_a"},
    {"tnspa", "imm_trans_a"},
    {"transb", "imm_trans_b"},
    {"transposeb", "imm_trans_b"},
    {"tnspb", "imm_trans_b"},
    {"immscalea", "imm_scale_a"},
    {"negatea", "imm_scale_a"},
    {"nega", "imm_scale_a"},
    {"negateb", "imm_scale_b"},
    {"negb", "imm_scale_b"},
    {"accumulate", "scale_d"},
    {"accum", "scale_d"},
    {"scalec", "scale_d"},
    {"useaccumulator", "scale_d"},
    {"enableinputd", "scale_d"},
    {"spsel", "sparsity_selector"},
    {"selector", "sparsity_selector"},
    {"dtypea", "a_type"},
    {"atype", "a_type"},
    {"adtype", "a_type"},
    {"dtypeb", "b_type"},
    {"bdtype", "b_type"},
    {"dtyped", "d_type"},
    {"ddtype", "d_type"},
    {"outputtype", "d_type"},
    {"outtype", "d_type"},
    {"outdtype", "d_type"},
    {"scaletype", "sf_type"},
    {"scaledtype", "sf_type"},
    {"lhs", "a"},
    {"x", "a"},
    {"input", "a"},
    {"rhs", "b"},
    {"y", "d"},
    {"w", "b"},
    {"weight", "b"},
    {"weights", "b"},
    {"other", "b"},
    {"bt", "b_t"},
    {"acc", "c"},
    {"accumulator", "c"},
    {"out", "d"},
    {"output", "d"},
    {"result", "d"},
    {"expected", "d"},
    {"ascale", "sfa"},
    {"ascale", "scale_a"},
    {"scalesa", "sfa"},
    {"scalesa", "scale_a"},
    {"scalea", "sfa"},
    {"bscale", "sfb"},
    {"bscale", "scale_b"},
    {"scalesb", "sfb"},
    {"scalesb", "scale_b"},
    {"scaleb", "sfb"},
    {"desca", "a_desc"},
    {"adescriptor", "a_desc"},
    {"descb", "b_desc"},
    {"bdescriptor", "b_desc"},
    {"instrdesc", "idesc"},
    {"shared", "smem"},
    {"sharedmemory", "smem"},
    {"tensormemory", "tmem"},
    {"meta", "metadata"},
    {"e", "metadata"},
});

/// Keeps only letters and digits, in lower case: "Scale_D " becomes scaled.
std::string bare(std::string_view name) {
  std::string text;
  for (const unsigned char c : name)
    if (std::isalnum(c)) text += static_cast<char>(std::tolower(c));
  return text;
}

/// The name that was probably meant; empty if no name is similar.
std::string meant_by(std::string_view name, const std::vector<std::string_view>& names) {
  const std::string own = bare(name);
  const auto same = std::ranges::find(names, own, bare);
  if (same != names.end()) return std::string(*same);
  for (const auto& [word, meant] : synonyms) {
    if (own == word && std::ranges::find(names, meant) != names.end()) return std::string(meant);
  }
  return nearest(name, std::vector<std::string>(names.begin(), names.end()));
}

class Names {
 public:
  Names(const TensorFile& file, std::string_view kind, std::string_view what, const std::vector<std::string_view>& act,
        const std::vector<std::string_view>& others, std::string_view others_are)
      : file_(file), kind_(kind), what_(what), act_(act), others_(others), others_are_(others_are) {
    known_.insert(act.begin(), act.end());
  }

  void check(std::string_view name, std::vector<Violation>& violations) const {
    constexpr size_t most = 8;  // a file may have millions of keys
    if (known_.contains(name) || name.starts_with(free_prefix) || violations.size() >= most) return;
    Violation wrong{.code = ViolationCode::unknown_key,
                    .field = fmt::format("{} of {}", what_, kind_),
                    .seen = fmt::format("{}: {}", file_.path, shortened(name)),
                    .fix = fmt::format("to store other data, use names that begin with {}", free_prefix)};
    if (std::ranges::find(others_, name) != others_.end()) {
      wrong.fix = fmt::format("{} is a {}", name, others_are_);
    } else if (const std::string meant = meant_by(name, act_); !meant.empty()) {
      wrong.fix = fmt::format("did you mean {}?", meant);
    } else {
      wrong.legal.assign(act_.begin(), act_.end());
    }
    violations.push_back(std::move(wrong));
  }

 private:
  const TensorFile& file_;
  std::string_view kind_, what_;
  const std::vector<std::string_view>&act_, &others_;
  std::string_view others_are_;
  std::unordered_set<std::string_view> known_;
};

}  // namespace

bool is_documenting_key(std::string_view key) {
  return key.starts_with(free_prefix) || std::ranges::find(documenting_keys, key) != documenting_keys.end() ||
         is_origin_key(key);
}

bool is_origin_key(std::string_view key) { return std::ranges::find(origin_keys, key) != origin_keys.end(); }

void set_origin(TensorFile& file, std::string source) {
  std::erase_if(file.metadata, [](const auto& row) { return row.first != "source" && is_origin_key(row.first); });
  file.set_metadata("source", std::move(source));
}

void require_known_names(const TensorFile& file, const KnownNames& known) {
  std::vector<Violation> violations;
  const Names keys(file, known.kind, "key", known.keys, known.tensors, "tensor");
  for (const auto& [key, value] : file.metadata)
    if (!is_documenting_key(key)) keys.check(key, violations);
  const Names tensors(file, known.kind, "tensor", known.tensors, known.keys, "key");
  for (const Tensor& tensor : file.tensors) tensors.check(tensor.name, violations);
  if (!violations.empty()) throw Error(std::move(violations));
}

}  // namespace bitmma
