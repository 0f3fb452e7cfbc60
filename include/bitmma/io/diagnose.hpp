// Which wrong program explains these wrong bits? A catalogue of faults, one small change each to what an instruction
// reads, computes or leaves; every one is tried on the inputs of a file, and pairs of them where one alone does not
// explain.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/arithmetic/what_if.hpp"
#include "bitmma/io/vector_file.hpp"

namespace bitmma {

/// What a fault changes. Two faults are combined only when these differ.
enum class FaultStage : uint8_t { a, b, c, scales, metadata, arithmetic, output };
std::string_view print(FaultStage stage);

struct Fault {
  std::string id;  // "b.swizzle.64"
  FaultStage stage = FaultStage::a;
  std::string what;  // what the wrong program does
  std::string fix;   // what to look at
};

/// Every fault that the instruction of a file can have, in the order of their likelihood.
std::vector<Fault> fault_catalogue(const VectorFile& vectors);

/// What a wrong program with these faults, of different stages, leaves in case `index`: M x N. Throws Error for a fault
/// that is not in the file's catalogue, or that this case cannot have.
BitMatrix faulty_d(const VectorFile& vectors, int64_t index, std::span<const std::string> fault_ids);

struct Finding {
  std::vector<Fault> faults;    // one, or two that act together
  int64_t wrong_explained = 0;  // wrong outputs that come out as the file has them
  int64_t right_broken = 0;     // right outputs that it would have wrong
  bool explains_all = false;    // every output of every case that was looked at
};

struct Diagnosis {
  int64_t cases = 0, outputs = 0, wrong = 0;
  double wrong_share() const { return outputs ? static_cast<double>(wrong) / static_cast<double>(outputs) : 0; }
  std::vector<Finding> findings;  // best first; empty when nothing is wrong or nothing fits better than chance
  int64_t tried = 0;              // faults and pairs
};

struct DiagnoseOptions {
  int64_t max_cases = 2;  // that are compared
  int max_findings = 5;
  bool pairs = true;
};

/// Compares `actual`, one M x N matrix a case, with what `vectors` should give, and looks for the fault. Throws Error
/// when the shapes differ or the file is of a move.
Diagnosis diagnose(const VectorFile& vectors, std::span<const BitMatrix> actual, const DiagnoseOptions& options = {});

}  // namespace bitmma
