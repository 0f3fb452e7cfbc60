// SPDX-License-Identifier: MIT
// Which wrong program explains these wrong bits? A catalogue of faults, each a small change to what an instruction
// reads, computes or leaves; every fault is tried on the inputs of some cases, and pairs of faults if a single one does
// not explain.
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

/// What a fault changes. Two faults are combined only when these differ.
enum class FaultStage : uint8_t { a, b, c, scales, metadata, arithmetic, output };
std::string_view print(FaultStage stage);

struct Fault {
  std::string id = {};  // "b.swizzle.64"
  FaultStage stage = FaultStage::a;
  std::string what = {};  // what the wrong program does
  std::string fix = {};   // what to look at

  bool operator==(const Fault&) const = default;
};

// A case without a state may be a whole tile: logical a, b, c and scales of any multiple of the instruction's M, N and
// K, and one D at the end, as a kernel has it. Sparse ones are refused.
//
// `cases` run one after the other. Faults such as "D of the next case" look at the neighbours of a case; the one after
// the last is the first. All throw Error when there is no case, or one of them moves data and computes nothing.

/// Every fault that the first case can have, in the order of their likelihood.
std::vector<Fault> fault_catalogue(std::span<const Case> cases);

/// What a wrong program with these faults, of different stages, leaves in case `index`: M x N. Throws Error for a fault
/// that is not in the catalogue, or that this case cannot have.
Matrix faulty_d(std::span<const Case> cases, int64_t index, std::span<const std::string> fault_ids);

struct Finding {
  std::vector<Fault> faults = {};  // one, or two that act together
  int64_t wrong_explained = 0;     // wrong outputs that come out as they are
  int64_t right_broken = 0;        // right outputs that it would have wrong
  bool explains_all = false;       // every output of every case that was searched
};

struct Diagnosis {
  int64_t cases = 0, outputs = 0, wrong = 0;    // that were compared
  int64_t wrong_cases = 0, searched_cases = 0;  // faults are searched in some of the wrong ones
  int64_t searched_wrong = 0;                   // wrong outputs of those
  double wrong_share() const { return outputs ? static_cast<double>(wrong) / static_cast<double>(outputs) : 0; }
  std::vector<Finding> findings = {};  // best first; empty when nothing is wrong or nothing fits better than chance
  int64_t tried = 0;                   // faults and pairs
};

struct DiagnoseOptions {
  int64_t max_cases = 2;  // wrong cases that are searched
  int max_findings = 5;
  bool pairs = true;
};

/// Compares `actual`, an M x N matrix for each of the first cases, with what these cases should give, and looks for the
/// fault in at most options.max_cases of those that are wrong; the others are there as neighbours. Throws Error when
/// there is no matrix, more than cases, or their shape or format is not that of D.
Diagnosis diagnose(std::span<const Case> cases, std::span<const Matrix> actual, const DiagnoseOptions& options = {});

}  // namespace bitmma
