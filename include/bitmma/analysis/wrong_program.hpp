// SPDX-License-Identifier: MIT
// The D of a wrong program, to see what a mistake looks like and to test what should notice it.
//
//   WrongProgram program{.faults = {"a.registers_1_2"}};       a fault of the catalogue (diagnose.hpp)
//   program.changes = {parse_change("a[3,4]=0x3c00")};         another code in A, a register, a byte of the image
//   with_wrong_d(read_vector_file("cases.safetensors"), program).file    the inputs, and the D of the wrong program
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/analysis/diagnose.hpp"
#include "bitmma/files/vector_file.hpp"

namespace bitmma {

/// Another code at one place, in every case.
///
///   a[3,4]=0x3c00         A, B, C or the scales sfa, sfb as the instruction reads them: b is K x N, a sparse a is
///   stored a_regs[5,1]=0x3c003c00  a buffer of the state, with an index for each axis: thread and register;
///   smem[0x400]=0xff a_desc=0x4000404000010000  a number of the state
struct CodeChange {
  std::string name = {};
  std::vector<int64_t> index = {};
  uint64_t code = 0;

  bool operator==(const CodeChange&) const = default;
};
/// Throws Error for other text.
CodeChange parse_change(std::string_view text);

struct WrongProgram {
  std::vector<std::string> faults = {};  // ids of the catalogue, of different stages
  std::vector<CodeChange> changes = {};  // those of the state come first, then the faults, then those of matrices

  bool operator==(const WrongProgram&) const = default;
};

/// D (M x N) of case `index`. Throws Error as faulty_d does, and for a change of what the case does not have.
Matrix wrong_d(std::span<const Case> cases, int64_t index, const WrongProgram& program);

struct [[nodiscard]] WrongFile {
  TensorFile file = {};  // the inputs of the right program, D of the wrong one
  int64_t cases = 0, outputs = 0, wrong = 0;
};
/// Throws Error as wrong_d does, and for instructions that move data.
WrongFile with_wrong_d(const VectorFile& vectors, const WrongProgram& program);

}  // namespace bitmma
