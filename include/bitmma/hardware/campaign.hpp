// SPDX-License-Identifier: MIT
// A campaign runs random cases of every legal instruction of a family on a device and checks them against the model.
//
// The work is split into units. Unit u of seed s is always the same: one instruction with its immediates, and many
// cases with random swizzle modes, strides, start addresses, base offsets and distributions. A campaign can therefore
// resume, and any case can be regenerated from (seed, unit, case).
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

/// Units are numbered from 0 to this limit: higher ones would repeat the random numbers of the first units.
inline constexpr int64_t campaign_units = int64_t{1} << 40;
/// Limit of outputs per unit: with more, the cases of a small shape would use the random numbers of the next unit.
inline constexpr int64_t campaign_unit_outputs = 33'000'000;

struct CampaignOptions {
  Family family = Family::wgmma;
  Target target = Target::sm_90a;  // the device's target
  uint64_t seed = 0;
  int64_t first_unit = 0;
  int64_t units = 1;
  int64_t outputs_per_unit = 1'000'000;  // approximate; at least a dozen cases
  double seconds = 0;                    // start no unit after this time; 0: run all
  std::function<bool()> stop = {};       // called before each unit; true: start no more units. Running units finish
  std::string only = {};                 // run only units whose mnemonic contains this text
  std::string save_folder = {};          // folder for mismatching cases; empty: do not save
  int64_t max_saved = 100;               // further cases are only counted
  std::string source = {};               // origin of D, for saved files
  std::vector<std::pair<std::string, std::string>> provenance = {};  // additional metadata of saved files
  int threads = 1;
};

/// The results for one group of instructions (types, k, sparsity).
struct CampaignRow {
  int64_t units = 0, cases = 0, outputs = 0, mismatches = 0;
  int64_t hard_outputs = 0;  // outputs of the special, subnormal and ties distributions

  CampaignRow& operator+=(const CampaignRow& other);
  bool operator==(const CampaignRow&) const = default;
};

/// Mismatching cases that could not be saved, for one common reason. The rows count them like the others.
struct CampaignNotSaved {
  int64_t unit = 0, case_index = 0;  // the first of them
  int64_t cases = 0;
  std::string reason = {};  // "Read-only file system"
};

struct [[nodiscard]] CampaignReport {
  std::map<std::string, CampaignRow> rows = {};
  CampaignRow total = {};
  int64_t next_unit = 0;  // where to resume: every unit before it is done
  std::vector<std::string> saved = {};
  std::vector<CampaignNotSaved> not_saved = {};
};

/// Thrown if a unit cannot run because the GPU failed or memory ran out. Gives the reason, and the results so far.
class CampaignError : public Error {
 public:
  CampaignError(std::vector<Violation> violations, CampaignReport so_far)
      : Error(std::move(violations)), report(std::move(so_far)) {}

  /// Units that ran beside the failed one are included; resuming at next_unit runs them again.
  CampaignReport report;
};

/// One case of a unit, ready to run.
struct CampaignCase {
  Distribution distribution = Distribution::bits;
  bool random_descriptors = false;  // meaningless strides, over an image of random bytes
  State state = {};
};

struct CampaignUnit {
  Instruction instruction = Wgmma{};
  Target target = Target::sm_90a;
  std::vector<CampaignCase> cases = {};
};

/// The instruction of unit `unit`: mnemonics in turn, then operand sources, major-ness and immediates. Throws Error if
/// the unit does not exist, or if `target` has no instruction of the family.
Instruction campaign_instruction(uint64_t seed, int64_t unit, Family family = Family::wgmma,
                                 Target target = Target::sm_90a);
/// The whole unit, with approximately this number of outputs. Also throws Error if it cannot have that size.
CampaignUnit campaign_unit(uint64_t seed, int64_t unit, int64_t outputs, Family family = Family::wgmma,
                           Target target = Target::sm_90a);

/// The cases of unit `unit` of a seed, but for this instruction.
CampaignUnit campaign_unit_of(const Instruction& instruction, Target target, uint64_t seed, int64_t unit,
                              int64_t outputs);

using CampaignProgress = std::function<void(const CampaignRow& total)>;

/// Throws Error, which names every field out of range: all checks that need no device.
void require_valid(const CampaignOptions& options);

/// Runs the units in turn, `threads` at a time. Mismatches do not end the campaign, and neither do cases that cannot be
/// saved. Throws Error if the options are invalid or `only` selects no unit, and CampaignError if a unit fails.
CampaignReport run_campaign(const CampaignOptions& options, const Executor& execute,
                            const CampaignProgress& progress = {});

/// {"gpu", "target", "driver", "cuda", "date", "seed", "first_unit", "next_unit", "outputs_per_unit", "seconds",
/// "ended_by", "rows", "saved", "not_saved"}. The GPU's name is the `source` of the options; driver, CUDA and date are
/// in their `provenance`.
Report describe(const CampaignReport& report, const CampaignOptions& options, double seconds,
                std::string_view ended_by);

}  // namespace bitmma
