// SPDX-License-Identifier: MIT
// Compares recorded results with the model's, and one file with another, bit for bit. No tolerance.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bitmma/files/mismatch_map.hpp"
#include "bitmma/files/vector_file.hpp"
#include "bitmma/instruction/place.hpp"

namespace bitmma {

/// One output that differs, or a cell of Tensor Memory outside D, which has no row and column: -1.
struct Mismatch {
  int64_t case_index = 0;
  int row = 0, col = 0;
  Place place = RegisterPlace{};
  bool relative_to_d = false;  // the place counts from D's address in Tensor Memory
  Format format = Format::f32;
  uint64_t expected = 0, actual = 0;
};

/// "case 3, row 17, col 5 (thread 38, register 3, bit 0): expected 0x3f800000 (1), actual 0x3f800001 (1.0000001)".
std::string print(const Mismatch& mismatch);

struct Comparison {
  int64_t cases = 0;
  int64_t outputs = 0;
  int64_t mismatches = 0;  // outputs, and cells outside D
  int64_t outside_d = 0;   // cells of Tensor Memory outside D that changed
  int64_t cases_with_mismatches = 0;
  std::optional<Mismatch> first = {};  // the lowest case, then row, then column
  MismatchMap map = {};                // where they are

  Comparison& operator+=(const Comparison& other);
};

/// Every output of one case of `instruction`. Throws Error when the matrices have other shapes or formats.
Comparison compare_case(const Instruction& instruction, int64_t case_index, const Matrix& expected,
                        const Matrix& actual);

/// The computed D of the first actual.size() cases against `actual`. Throws Error as compare_case does, and when there
/// are fewer cases than matrices.
Comparison compare_cases(std::span<const Case> cases, std::span<const Matrix> actual);

/// All of Tensor Memory but D, cell by cell; nothing where the instruction does not write there. `one` says where D is.
/// Throws Error when the states have Tensor Memories of other sizes.
Comparison compare_outside_d(const Case& one, int64_t case_index, const State& expected, const State& actual);

/// Throws Error when the file records no D.
void require_recorded(const VectorFile& vectors);

/// Throws Error for a file that contradicts itself: plain matrices a, b, c, sfa or sfb beside images, registers or
/// Tensor Memory that hold other codes, with how many differ and the first place; and cases that are the steps of a K
/// loop by the key k_loop, where C of a step is not D of the step before. verify and compare ask this first.
void require_consistent(const VectorFile& vectors, int threads = 1);

/// Called now and then with cases done, from one thread at a time.
using Progress = std::function<void(int64_t cases_done)>;

/// Recomputes every case and compares with the recorded D, and a logical d beside it with the same; all of Tensor
/// Memory outside D must be as it was before. Throws Error when the file records no D. `model` replaces the hardware's
/// row.
Comparison verify(const VectorFile& vectors, int threads, const Progress& progress = {},
                  const AccumulatorModel* model = nullptr);

/// Throws Error naming `path` when a second file is not of the same instruction and number of cases.
void require_same_cases(const std::string& path, const std::string& name, int64_t cases, const std::string& other_name,
                        int64_t other_cases);

/// What two files record: D in registers or Tensor Memory with all that is around it, and logical d where both have it.
/// Throws Error when they hold another instruction, number of cases, or no D.
Comparison compare(const VectorFile& expected, const VectorFile& actual);

/// An input that differs between two files.
struct InputDifference {
  std::string name;   // A, B, C, "scales of A", ...; of what moves data the tensor
  int64_t cases = 0;  // in which it differs

  bool operator==(const InputDifference&) const = default;
};
/// The differences between the elements that the instructions of two files read, wherever they are in memory. Bytes
/// that no instruction reads are not compared.
std::vector<InputDifference> different_inputs(const VectorFile& expected, const VectorFile& actual);
/// "A in 3 of 4 cases, B in 1 of 4 cases".
std::string print(const std::vector<InputDifference>& differences, int64_t cases);

}  // namespace bitmma
