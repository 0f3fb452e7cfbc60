// SPDX-License-Identifier: MIT
// A campaign over functions of words, which compares a GPU with the model. Functions of one word get all
// words; others with random ones, half of which are special, subnormal or near each other.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bitmma/analysis/report.hpp"
#include "bitmma/core/target.hpp"
#include "bitmma/hardware/device.hpp"

namespace bitmma {

/// Arguments of one launch: operands that a function has not are empty. A function of one operand that is tried with
/// all words has no array either: argument i is first + i.
struct WordArguments {
  uint32_t first = 0;
  size_t count = 0;
  std::vector<uint32_t> a = {}, b = {}, c = {};
};

struct WordFunction {
  std::string name = {};  // "ex2.approx.ftz.f32"
  int operands = 1;
  int argument_bits = 32;       // of each operand, in the low bits of its word
  bool exhaustive = false;      // all words of one operand
  std::string body = {};        // PTX statements that make y from a, b and c, registers of 32 bits
  PtxVersion version = {8, 6};  // that `body` needs
  std::string module = {};      // instead of `body`: PTX or a cubin of the user's,
  std::string entry = {};       // and its kernel, of (first or a, b, c, results)
  std::function<void(const WordArguments&, std::span<uint32_t> results)> model = {};
};

/// All floating-point instructions of the layer math that the target has.
std::vector<WordFunction> math_word_functions(Target target);

/// Every cvt that the target has. Results and operands of 64 bits are taken in two words.
std::vector<WordFunction> cvt_word_functions(Target target);

/// The functions of C whose kernels `modules` have: PTX or cubins of lab/c_functions.cu and
/// lab/c_functions_triton.py. Throws Error when a module has none.
std::vector<WordFunction> c_word_functions(const std::vector<std::string>& modules);

/// The kernel of a function, for a GPU of this target: result i of argument i.
Kernel word_kernel(const WordFunction& function, Target target, bool with_arrays);

/// Computes results of a function: a GPU, or a stand-in in tests. May be called from several threads at once.
using WordExecutor = std::function<std::vector<uint32_t>(const WordFunction&, const WordArguments&)>;
WordExecutor word_executor(const Gpu& gpu);

struct WordCampaignOptions {
  std::string only = {};  // functions whose name contains this text
  uint64_t seed = 0;
  int64_t arguments = 1 << 25;      // of a function that is not tried with all words
  double seconds = 0;               // begin no function after this time; 0: try all
  std::function<bool()> stop = {};  // asked before each launch: begin no more?
  int threads = 1;
  std::string source = {};  // the GPU's name, or another source of results
  std::vector<std::pair<std::string, std::string>> provenance = {};
};

struct WordDifference {
  uint32_t a = 0, b = 0, c = 0, gpu = 0, model = 0;
};

struct WordCampaignRow {
  std::string name = {};
  bool exhaustive = false;
  int64_t arguments = 0, differing = 0;
  uint64_t digest = 0;                       // of the results computed, see word_digest
  std::optional<WordDifference> first = {};  // the one of the lowest place
};

struct [[nodiscard]] WordCampaignReport {
  std::vector<WordCampaignRow> rows = {};
  bool stopped = false;
};

/// A sum over results, modulo 2^64, of a mixture of each with its place: the order in which it is summed does not
/// matter, and a wrong word changes it. The sum over all 2^32 arguments names a function's outputs in one number.
uint64_t word_digest(uint64_t first_place, std::span<const uint32_t> results);

using WordCampaignProgress = std::function<void(const WordFunction& function, int64_t arguments, int64_t of)>;

/// Throws Error when `only` asks for no function, a number is out of range, or the executor fails.
WordCampaignReport run_word_campaign(const std::vector<WordFunction>& functions, const WordCampaignOptions& options,
                                     const WordExecutor& execute, const WordCampaignProgress& progress = {});

Report describe(const WordCampaignReport& report, const WordCampaignOptions& options, double seconds);

}  // namespace bitmma
