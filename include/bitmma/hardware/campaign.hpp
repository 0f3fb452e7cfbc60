// SPDX-License-Identifier: MIT
// A campaign: random cases of every legal instruction of a family, executed by a device and checked against the model.
//
// Work is cut into units. Unit u of seed s is always the same: one instruction with its immediates, many cases with
// random swizzle modes, strides, start addresses, base offsets and distributions. So a campaign goes on where it was
// stopped, and any case can be made again from (seed, unit, case).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bitmma/analysis/report.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/hardware/device.hpp"
#include "bitmma/stimulus/random_operands.hpp"

namespace bitmma {

/// Units of a campaign are 0 and up to one below this: further ones would draw the random numbers of the first again.
inline constexpr int64_t campaign_units = int64_t{1} << 40;
/// Outputs of a unit: with more, the cases of a small shape would draw the random numbers of the next unit.
inline constexpr int64_t campaign_unit_outputs = 33'000'000;

struct CampaignOptions {
  Family family = Family::wgmma;
  Target target = Target::sm_90a;  // what the device is
  uint64_t seed = 0;
  int64_t first_unit = 0;
  int64_t units = 1;
  int64_t outputs_per_unit = 1'000'000;  // about; at least a dozen cases
  double seconds = 0;                    // begin no unit after this time; 0: do all
  std::function<bool()> stop = {};       // asked before each unit: begin no more? A unit that has begun ends
  std::string only = {};                 // units whose mnemonic contains this text; the others are passed over
  std::string save_folder = {};          // where mismatching cases go; empty: nowhere
  int64_t max_saved = 100;               // further ones are only counted
  std::string source = {};               // the source of D, for saved files
  std::vector<std::pair<std::string, std::string>> provenance = {};  // further metadata of saved files
  int threads = 1;
};

/// What was done with one group of instructions (types, k, sparsity).
struct CampaignRow {
  int64_t units = 0, cases = 0, outputs = 0, mismatches = 0;
  int64_t hard_outputs = 0;  // of the special, subnormal and ties distributions

  CampaignRow& operator+=(const CampaignRow& other);
  bool operator==(const CampaignRow&) const = default;
};

/// Mismatching cases that could not be saved, all for one reason. They are counted in the rows like the others.
struct CampaignNotSaved {
  int64_t unit = 0, case_index = 0;  // the first of them
  int64_t cases = 0;
  std::string reason = {};  // "Read-only file system"
};

struct CampaignReport {
  std::map<std::string, CampaignRow> rows = {};
  CampaignRow total = {};
  int64_t next_unit = 0;  // where to go on: every unit before it is done
  std::vector<std::string> saved = {};
  std::vector<CampaignNotSaved> not_saved = {};
};

/// A unit could not be run: the GPU failed, or there was no memory for it. Says why, and what was done before.
class CampaignError : public Error {
 public:
  CampaignError(std::vector<Violation> violations, CampaignReport so_far)
      : Error(std::move(violations)), report(std::move(so_far)) {}

  /// Units that ran beside the one that failed are counted as well; going on at next_unit does them again.
  CampaignReport report;
};

/// One case of a unit, ready to run.
struct CampaignCase {
  Distribution distribution = Distribution::bits;
  bool random_descriptors = false;  // strides without meaning, over an image of random bytes
  State state = {};
};

struct CampaignUnit {
  Instruction instruction = Wgmma{};
  Target target = Target::sm_90a;
  std::vector<CampaignCase> cases = {};
};

/// The instruction of unit `unit`: mnemonics in turn, then operand sources, major-ness and immediates.
/// Throws Error when there is no such unit, or `target` has none of the family.
Instruction campaign_instruction(uint64_t seed, int64_t unit, Family family = Family::wgmma,
                                 Target target = Target::sm_90a);
/// The whole unit, with about that many outputs. Also throws Error if it cannot have that size.
CampaignUnit campaign_unit(uint64_t seed, int64_t unit, int64_t outputs, Family family = Family::wgmma,
                           Target target = Target::sm_90a);

/// The cases that unit `unit` of a seed has of this instruction, in the same way.
CampaignUnit campaign_unit_of(const Instruction& instruction, Target target, uint64_t seed, int64_t unit,
                              int64_t outputs);

/// "wgmma.mma_async.sp k32 f32.f16.f16": what rows of reports stand for.
std::string instruction_group(const Instruction& instruction);

using CampaignProgress = std::function<void(const CampaignRow& total)>;

/// Throws Error, naming every field that is out of range: all that can be said before there is a device.
void require_valid(const CampaignOptions& options);

/// Runs the units, `threads` at a time, in turn. Mismatches do not end it, nor do those that cannot be saved. Throws
/// Error when the options are not valid or `only` selects no unit, and CampaignError when a unit fails.
CampaignReport run_campaign(const CampaignOptions& options, const Executor& execute,
                            const CampaignProgress& progress = {});

/// {"gpu", "target", "driver", "cuda", "date", "seed", "first_unit", "next_unit", "outputs_per_unit", "seconds",
/// "ended_by", "rows", "saved", "not_saved"}. The GPU's name is the `source` of the options; its driver, CUDA and date
/// are in their `provenance`.
Report describe(const CampaignReport& report, const CampaignOptions& options, double seconds,
                std::string_view ended_by);

}  // namespace bitmma
