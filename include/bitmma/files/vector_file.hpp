// SPDX-License-Identifier: MIT
// Vector files, format bitmma-vectors-1: cases of one instruction, with all that it reads and, if known, all that it
// writes.
//
//   smem U8 [cases, bytes]   a_desc, b_desc U64 [cases]   a_regs U32 [cases, 128, 4]   metadata U32 [cases, 128]
//   c_regs, d_regs U32 [cases, 128, R]   and, for people, logical matrices a, b, c, d
//
// The tensors are the fields of the instruction's state (instruction/state.hpp), the immediates that differ from case
// to case (instruction/immediates.hpp) and logical matrices. A file may also hold logical matrices alone; then D is
// computed from them. Keys and tensors that the format does not have are refused, but for those that document and
// those that begin with x-. The format is described in docs/vectors.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bitmma/files/tensor_file.hpp"
#include "bitmma/instruction/case.hpp"
#include "bitmma/instruction/evidence.hpp"

namespace bitmma {

inline constexpr std::string_view vector_format = "bitmma-vectors-1";

/// The logical matrices that a file may have.
inline constexpr auto logical_tensor_names = std::to_array<std::string_view>({"a", "b", "c", "d", "sfa", "sfb"});

/// What one tensor of a file looks like. The first extent is the number of cases; -1 takes any positive number.
struct TensorRule {
  std::string_view name = {};
  std::vector<std::string_view> dtypes = {};  // the natural one first, then those that hold raw codes
  Extents shape = {};                         // without the cases
  bool required = false;
  std::string_view meaning = {};
};

/// The schema of a file with a state, or with only logical matrices.
std::vector<TensorRule> tensor_rules(const Instruction& instruction, bool has_state);

/// A checked file: the instruction is legal and every tensor it needs has the right dtype and shape.
struct VectorFile {
  TensorFile file = {};
  Instruction instruction = Wgmma{};  // with the immediates of case 0
  Target target = Target::sm_90a;
  int64_t cases = 0;
  int64_t first_case = 0;  // of a part of a file: which case of the whole its case 0 is
  bool has_state = true;   // false: only logical matrices

  /// The mnemonic.
  std::string name() const;
  /// The tensor that records the result.
  std::string_view d_tensor() const;
  /// True when the state after is recorded.
  bool has_state_after() const { return has_state && file.find(d_tensor()) != nullptr; }
  /// True when a result is recorded: the state after, a logical d, or both.
  bool has_recorded_d() const { return has_state_after() || (is_mma(instruction) && file.find("d") != nullptr); }
  /// Value of `source`, fit for a message; "unknown" when the file does not say.
  std::string source() const;
  /// Throws Error when the file was changed while it was used: results of it mean nothing then.
  void require_unchanged() const;
};

/// Stands in for metadata keys that a file does not have. An instruction or target that contradicts the file is an
/// error. The types are those of a tcgen05.mma whose file has logical matrices and no instruction descriptor, where the
/// dtypes of the matrices do not say them (keys a_type, b_type, d_type, sf_type).
struct VectorFileDefaults {
  std::string_view instruction = {};
  std::optional<Target> target = {};
  std::optional<Format> a_type = {}, b_type = {}, d_type = {}, sf_type = {};
};

/// Reads and checks a file. Throws Error with all violations, naming the file and the field. Logical matrices of two
/// extents are one case. Descriptors, registers and addresses may be signed, as libraries without unsigned types have
/// them.
VectorFile read_vector_file(const std::string& path, const VectorFileDefaults& defaults = {});
/// The same of a file in memory.
VectorFile as_vector_file(TensorFile file, const VectorFileDefaults& defaults = {});

/// Case `index`, with everything the file has of it. Shared memory, registers and Tensor Memory are views of a file
/// in memory, which must outlive the case; those of a larger file are read. Throws Error when there is no such case.
Case case_at(const VectorFile& vectors, int64_t index);
/// The instruction of case `index`: immediates may differ from case to case.
Instruction instruction_at(const VectorFile& vectors, int64_t index);

/// The same cases without the tensors and keys that the format does not have. Callers that ask for many cases take it
/// first: finding a tensor takes as long as the file has tensors.
VectorFile known_part(const VectorFile& vectors);

/// Every choice of bitmma that can show in results of any case of the file; empty where hardware or its documents
/// decide all.
std::vector<Choice> choices_of(const VectorFile& vectors);

/// Cases first .. first + count - 1 as a file of their own, which looks into this one. Tensors that this program does
/// not know, and which may not come by case, are left out: they are `tensors_without_cases`. Throws Error where the
/// file has no such cases, or none are asked for.
VectorFile cases_of(const VectorFile& vectors, int64_t first, int64_t count);
std::vector<Tensor> tensors_without_cases(const VectorFile& vectors);

/// The same file with all of its tensors in memory. For parts of a large one whose cases are asked for several times.
VectorFile in_memory(VectorFile vectors);

/// Whether results for `vectors` also go into a logical d: it has one, or the logical operands for one.
bool wants_logical_d(const VectorFile& vectors);

/// Collects cases of one instruction into a file, tensor by tensor. Every case gets the same parts; what no case has is
/// not written.
class VectorBuilder {
 public:
  VectorBuilder(const Instruction& instruction, Target target);

  /// The next case: state before, what the instruction writes of the state after, and the logical matrices, as far as
  /// the case has them.
  void add(const Case& one);
  /// The file so far. `metadata` is added to the keys that describe the instruction.
  TensorFile finish(std::vector<std::pair<std::string, std::string>> metadata) &&;

 private:
  /// One tensor as it grows; `shape` is without the cases.
  struct Column {
    std::string name, dtype;
    std::vector<int64_t> shape;
    std::vector<uint8_t> bytes;
  };
  Column& column(std::string_view name, std::string_view dtype, std::vector<int64_t> shape);
  void add_buffer(std::string_view name, const Buffer& buffer);
  void add_matrix(std::string_view name, const std::optional<Matrix>& matrix, const Extents& extents);

  Instruction instruction_;
  Target target_;
  int64_t cases_ = 0;
  std::vector<Column> columns_;
};

/// One case as a file.
TensorFile single_case_file(const Case& one, std::vector<std::pair<std::string, std::string>> metadata);

/// `vectors` with what `results` holds in place of tensors of the same names, `source` as who computed them, and the
/// the provenance of an earlier D forgotten. Everything else is kept.
TensorFile with_results(const VectorFile& vectors, std::vector<Tensor> results, std::string source);
/// The same from cases: their states after and, where the file wants it, their logical d.
TensorFile with_results(const VectorFile& vectors, const std::vector<Case>& cases, std::string source);

/// The metadata keys that describe the instruction: format, instruction, target, immediates.
std::vector<std::pair<std::string, std::string>> instruction_metadata(const Instruction& instruction, Target target);

}  // namespace bitmma
