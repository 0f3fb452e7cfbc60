// A campaign: random cases of every legal wgmma or mma.sync, executed by a device and checked against the model.
//
// Work is cut into units. Unit u of seed s is always the same: one instruction with its immediates, many cases with
// random swizzle modes, strides, start addresses, base offsets and distributions. So a campaign goes on where it was
// stopped, and any case can be made again from (seed, unit, case).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bitmma/hardware/device.hpp"
#include "bitmma/stimulus/random_operands.hpp"

namespace bitmma {

struct CampaignOptions {
  Family family = Family::wgmma;   // or mma_sync
  Target target = Target::sm_90a;  // what the device is
  uint64_t seed = 0;
  int64_t first_unit = 0;
  int64_t units = 1;
  int64_t outputs_per_unit = 1'000'000;  // about; at least a dozen cases
  double seconds = 0;                    // stop handing out units after this time; 0: do all
  std::string only = {};                 // units whose mnemonic contains this text; the others are passed over
  std::string save_folder = {};          // where mismatching cases go; empty: nowhere
  int64_t max_saved = 100;
  std::string source = {};                                           // who computes D, for saved files
  std::vector<std::pair<std::string, std::string>> provenance = {};  // further metadata of saved files
  int threads = 1;
};

/// What was done with one group of instructions (types, k, sparsity).
struct CampaignRow {
  int64_t units = 0, cases = 0, outputs = 0, mismatches = 0;
  int64_t hard_outputs = 0;  // of the special, subnormal and ties distributions

  CampaignRow& operator+=(const CampaignRow& other);
};

struct CampaignReport {
  std::map<std::string, CampaignRow> rows = {};
  CampaignRow total = {};
  int64_t next_unit = 0;  // where to go on
  std::vector<std::string> saved = {};
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
/// Throws Error when `target` has none of the family.
Instruction campaign_instruction(uint64_t seed, int64_t unit, Family family = Family::wgmma,
                                 Target target = Target::sm_90a);
CampaignUnit campaign_unit(uint64_t seed, int64_t unit, int64_t outputs, Family family = Family::wgmma,
                           Target target = Target::sm_90a);

/// "wgmma.mma_async.sp k32 f32.f16.f16": what rows of reports stand for.
std::string instruction_group(const Instruction& instruction);

using CampaignProgress = std::function<void(const CampaignRow& total)>;

/// Runs the units. An Error of `execute` ends the campaign and is thrown; mismatches do not end it. Throws Error when
/// no unit is asked for by `only`.
CampaignReport run_campaign(const CampaignOptions& options, const Executor& execute,
                            const CampaignProgress& progress = {});

}  // namespace bitmma
