// SPDX-License-Identifier: MIT
// Which wrong program explains these wrong bits? The catalogue lists faults, each a small change to what an instruction
// reads, computes or writes. The search tries every fault on the inputs of some cases, and pairs of faults if no single
// fault explains the bits.
//
//   diagnose(cases, actual).findings[0].faults[0].what     "B: read with swizzle 64 instead of 128"
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/instruction/case.hpp"

namespace bitmma {

/// The stage that a fault changes. Two faults are combined only if their stages differ.
enum class FaultStage : uint8_t { a, b, c, scales, metadata, arithmetic, output };
std::string_view print(FaultStage stage);

struct Fault {
  std::string id = {};  // "b.swizzle.64"
  FaultStage stage = FaultStage::a;
  std::string what = {};  // what the wrong program does
  std::string fix = {};   // what to check

  bool operator==(const Fault&) const = default;
};

// A case without a state may be a whole tile: logical a, b, c and scales of any multiple of the instruction's M, N and
// K, and one D after all steps, as in a kernel. Sparse tiles are refused.
//
// `cases` run one after the other. Faults such as "D of the next case" use the neighbours of a case; after the last
// case follows the first. All functions throw Error if there is no case, or if a case only moves data.

/// Every fault that the first case can have, in order of likelihood.
std::vector<Fault> fault_catalogue(std::span<const Case> cases);

/// D (M x N) of case `index` after a wrong program with these faults, which must have different stages. Throws Error
/// for a fault that is not in the catalogue, or that this case cannot have.
Matrix faulty_d(std::span<const Case> cases, int64_t index, std::span<const std::string> fault_ids);

struct Finding {
  std::vector<Fault> faults = {};  // one fault, or two that act together
  int64_t wrong_explained = 0;     // wrong outputs that the faults reproduce
  int64_t right_broken = 0;        // right outputs that the faults would make wrong
  bool explains_all = false;       // the faults reproduce every output of every searched case
};

struct [[nodiscard]] Diagnosis {
  int64_t cases = 0, outputs = 0, wrong = 0;    // of the comparison
  int64_t wrong_cases = 0, searched_cases = 0;  // the search uses only some of the wrong cases
  int64_t searched_wrong = 0;                   // wrong outputs in the searched cases
  double wrong_share() const { return outputs ? static_cast<double>(wrong) / static_cast<double>(outputs) : 0; }
  std::vector<Finding> findings = {};  // best first; empty if nothing is wrong, or if no fault fits better than chance
  int64_t tried = 0;                   // number of faults and pairs
};

struct DiagnoseOptions {
  int64_t max_cases = 2;  // number of wrong cases to search
  int max_findings = 5;
  bool pairs = true;
};

/// Compares `actual`, one M x N matrix for each of the first cases, with the results that these cases should have, and
/// searches for faults in at most options.max_cases of the wrong ones; the other cases serve as neighbours. Throws
/// Error if there is no matrix, if there are more matrices than cases, or if a shape or format is not that of D.
Diagnosis diagnose(std::span<const Case> cases, std::span<const Matrix> actual, const DiagnoseOptions& options = {});

}  // namespace bitmma
