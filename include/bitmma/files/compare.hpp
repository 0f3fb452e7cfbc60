// SPDX-License-Identifier: MIT
// Compares recorded results with the model's, and one file with another, bit for bit and without tolerance.
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

/// An output that differs, or a cell of Tensor Memory outside D, which has row and column -1.
struct Mismatch {
  int64_t case_index = 0;
  int row = 0, col = 0;
  Place place = RegisterPlace{};
  bool relative_to_d = false;  // the place is relative to D's address in Tensor Memory
  Format format = Format::f32;
  uint64_t expected = 0, actual = 0;
};

/// "case 3, row 17, col 5 (thread 38, register 3, bit 0): expected 0x3f800000 (1), actual 0x3f800001 (1.0000001)".
std::string print(const Mismatch& mismatch);

struct [[nodiscard]] Comparison {
  int64_t cases = 0;
  int64_t outputs = 0;
  int64_t mismatches = 0;  // outputs, and cells outside D
  int64_t outside_d = 0;   // cells of Tensor Memory outside D that changed
  int64_t cases_with_mismatches = 0;
  std::optional<Mismatch> first = {};  // of the lowest case, then row, then column
  MismatchMap map = {};                // where they are

  Comparison& operator+=(const Comparison& other);
};

/// Compares every output of one case of `instruction`. Throws Error if shapes or formats differ.
Comparison compare_case(const Instruction& instruction, int64_t case_index, const Matrix& expected,
                        const Matrix& actual);

/// Compares the computed D of the first actual.size() cases with `actual`. Throws Error as compare_case does, and if
/// there are fewer cases than matrices.
Comparison compare_cases(std::span<const Case> cases, std::span<const Matrix> actual);

/// Compares all of Tensor Memory except D, cell by cell; empty if the instruction does not write there. `this_case`
/// gives the place of D. Throws Error if the sizes of Tensor Memory differ.
Comparison compare_outside_d(const Case& this_case, int64_t case_index, const State& expected, const State& actual);

/// Throws Error if the file records no D.
void require_recorded(const VectorFile& vectors);

/// Throws Error if the file contradicts itself. Either plain matrices a, b, c, sfa or sfb differ from the codes in
/// images, registers or Tensor Memory (the error has their number and the first place), or the key k_loop marks the
/// cases as steps of a K loop, but C of a step is not D of the previous one; where only D after all steps is recorded,
/// C of a step may also be that of the first. verify and compare check this first.
void require_consistent(const VectorFile& vectors, int threads = 1);

/// Called occasionally with the number of finished cases, from one thread at a time.
using Progress = std::function<void(int64_t cases_done)>;

/// Recomputes every case and compares it with the recorded D, and with a logical d if there is one; all of Tensor
/// Memory outside D must be unchanged. Throws Error if the file records no D. `model` replaces the hardware's
/// row.
Comparison verify(const VectorFile& vectors, int threads = 1, const Progress& progress = {},
                  const AccumulatorModel* model = nullptr);

/// Compares the computed D of the same cases on two targets. Throws Error as require_same_kind does.
Comparison compare_computed(const VectorFile& expected, const VectorFile& actual, int threads = 1);

/// Throws Error, which names `path`, if the second file has another instruction or number of cases.
void require_same_cases(const std::string& path, const std::string& name, int64_t cases, const std::string& other_name,
                        int64_t other_cases);

/// Throws Error, which names the second file, if one has cases of several instructions and the other of one.
void require_same_kind(const VectorFile& expected, const VectorFile& actual);

/// Compares the results of two files: D in registers or Tensor Memory with all surrounding cells, and the logical d if
/// both have it. Throws Error if they have different instructions, kinds or numbers of cases, or no D.
Comparison compare(const VectorFile& expected, const VectorFile& actual);

/// An input that differs between two files.
struct [[nodiscard]] InputDifference {
  std::string name;   // A, B, C, "scales of A", ...; of what moves data the tensor
  int64_t cases = 0;  // number of cases in which it differs

  bool operator==(const InputDifference&) const = default;
};
/// The differences between the elements that the instructions of two files read, wherever they are in memory. Bytes
/// that no instruction reads are not compared.
std::vector<InputDifference> different_inputs(const VectorFile& expected, const VectorFile& actual);
/// "A in 3 of 4 cases, B in 1 of 4 cases".
std::string print(const std::vector<InputDifference>& differences, int64_t cases);

}  // namespace bitmma
