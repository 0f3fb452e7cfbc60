// SPDX-License-Identifier: MIT
// Vector files, format bitmma-vectors-1: cases of one instruction, with everything that it reads and, if known,
// everything that it writes. A case may also be a tile that several of these instructions compute (tiling.hpp).
//
//   smem U8 [cases, bytes]   a_desc, b_desc U64 [cases]   a_regs U32 [cases, 128, 4]   metadata U32 [cases, 128]
//   c_regs, d_regs U32 [cases, 128, R]   and, for readers, logical matrices a, b, c, d
//
// The tensors are the fields of the instruction's state (instruction/state.hpp), the immediates that differ from case
// to case (instruction/immediates.hpp) and logical matrices. A file may also have only logical matrices; then D is
// computed from them. Unknown keys and tensors are refused, except documentation keys and names that begin with x-.
// docs/vectors.md describes the format.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bitmma/files/tensor_file.hpp"
#include "bitmma/files/tiling.hpp"
#include "bitmma/instruction/case.hpp"
#include "bitmma/instruction/evidence.hpp"

namespace bitmma {

inline constexpr std::string_view vector_format = "bitmma-vectors-1";

/// The names of logical matrices.
inline constexpr auto logical_tensor_names = std::to_array<std::string_view>({"a", "b", "c", "d", "sfa", "sfb"});

/// The format of one tensor of a file. The first extent is the number of cases; -1 allows any positive number.
struct TensorRule {
  std::string_view name = {};
  std::vector<std::string_view> dtypes = {};  // the usual dtype first, then those for raw codes
  Extents shape = {};                         // without the case extent
  bool required = false;
  std::string_view meaning = {};
};

/// The schema of a file with a state, or of one with only logical matrices.
std::vector<TensorRule> tensor_rules(const Instruction& instruction, bool has_state);

/// A checked file: the instruction is legal and every tensor it needs has the right dtype and shape.
struct [[nodiscard]] VectorFile {
  TensorFile file = {};
  Instruction instruction = Wgmma{};  // with the immediates of case 0
  Target target = Target::sm_90a;
  int64_t cases = 0;
  int64_t first_case = 0;  // for a part of a file: index of its case 0 in the whole file
  bool has_state = true;   // of each case; false: only logical matrices
  Tiling tiling = {};      // of each case

  /// The mnemonic.
  std::string name() const;
  /// The tensor that records the result.
  std::string_view d_tensor() const;
  /// True if the state after the instruction is recorded.
  bool has_state_after() const { return has_state && file.find(d_tensor()) != nullptr; }
  /// True if a result is recorded: the state after the instruction, a logical d, or both.
  bool has_recorded_d() const { return has_state_after() || (is_mma(instruction) && file.find("d") != nullptr); }
  /// Value of `source`, made safe for messages; "unknown" if the file lacks the key.
  std::string source() const;
  /// Throws Error if the file was modified while in use: results from it are then meaningless.
  void require_unchanged() const;
};

/// Which copy of the operands is meant, if a file has both and they differ.
enum class OperandCopy : uint8_t {
  state,     // images, registers and Tensor Memory, as the instruction reads them
  matrices,  // plain matrices
};

/// Defaults for metadata keys that a file lacks. An instruction or target that contradicts the file is an error. The
/// types apply to a tcgen05.mma whose file has logical matrices but no instruction descriptor, if the dtypes of the
/// matrices do not imply them (keys a_type, b_type, d_type, sf_type).
struct VectorFileDefaults {
  std::string_view instruction = {};
  std::optional<Target> target = {};
  std::optional<Format> a_type = {}, b_type = {}, d_type = {}, sf_type = {};
  /// The other copy is left out, with its results. Without a value the copies must be equal.
  std::optional<OperandCopy> inputs = {};
};

/// Reads and checks a file of cases of one instruction each. Throws Error with all violations, which name the file and
/// the field. Logical matrices with two extents are one case. Descriptors, registers and addresses may be signed, for
/// libraries without unsigned types.
VectorFile read_vector_file(const std::string& path, const VectorFileDefaults& defaults = {});
/// The same for a file in memory.
VectorFile as_vector_file(TensorFile file, const VectorFileDefaults& defaults = {});

/// The same, with cases of any tiling: plain matrices whose M, N and K are multiples of the instruction's, or images
/// and descriptors that are the steps of a K loop (key k_loop) with one d after all of them. M and N of an instruction
/// with a descriptor are the largest legal ones that divide those of the matrices.
VectorFile as_tiled_file(TensorFile file, const VectorFileDefaults& defaults = {});
VectorFile read_tiled_file(const std::string& path, const VectorFileDefaults& defaults = {},
                           uint64_t most_in_memory = InputFile::usual_most_in_memory);

/// The tensors of `file` that hold results: d, and the states after the instruction. A name that several fields share
/// is listed once.
std::vector<std::string_view> results_of(const TensorFile& file);
/// `file` without these tensors.
TensorFile without_results(TensorFile file);

/// Case `index`, with all its data; of a tiled file the matrices of all its instructions. For a file in memory, shared
/// memory, registers and Tensor Memory are views, and the file must outlive the case; from a larger file they are read.
/// Throws Error if the case does not exist.
Case case_at(const VectorFile& vectors, int64_t index);
/// The instruction of case `index`; immediates may differ between cases.
Instruction instruction_at(const VectorFile& vectors, int64_t index);

/// The same cases without unknown tensors and keys. Use it before reading many cases: finding a tensor takes time in
/// proportion to their number.
VectorFile known_part(const VectorFile& vectors);

/// Every choice of bitmma that may affect results of any case of the file; empty if hardware or its documents determine
/// everything.
std::vector<Choice> choices_of(const VectorFile& vectors);

/// Cases first .. first + count - 1 as a file that refers to this one. Unknown tensors, which may not have a case
/// extent, are left out and listed as `tensors_without_cases`. Throws Error if the cases do not exist, or if count is
/// 0.
VectorFile cases_of(const VectorFile& vectors, int64_t first, int64_t count);
std::vector<Tensor> tensors_without_cases(const VectorFile& vectors);

/// The same file with all of its tensors in memory, for parts of a large file that are read several times.
VectorFile in_memory(VectorFile vectors);

/// Whether results for `vectors` include a logical d beside the state: those of every matrix instruction.
bool wants_logical_d(const VectorFile& vectors);

/// Collects cases of one instruction and one tiling into a file, tensor by tensor. All cases have the same parts; parts
/// that no case has are not written.
class VectorBuilder {
 public:
  VectorBuilder(const Instruction& instruction, Target target);

  /// Adds the next case: the state before, the written fields of the state after, and the logical matrices, as far as
  /// present. Throws Error if its tiling is not that of the first case.
  void add(const Case& this_case);
  /// The file so far, with `metadata` in addition to the keys that describe the instruction.
  TensorFile finish(std::vector<std::pair<std::string, std::string>> metadata) &&;

 private:
  /// One tensor that grows; `shape` has no case extent.
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
  Tiling tiling_ = {};
  int64_t cases_ = 0;
  std::vector<Column> columns_;
};

/// One case as a file.
TensorFile single_case_file(const Case& this_case, std::vector<std::pair<std::string, std::string>> metadata);

/// `vectors` with the tensors of `results` in place of those with the same names, and with `source` as their origin.
/// The provenance of an earlier D is removed; everything else is kept.
TensorFile with_results(const VectorFile& vectors, std::vector<Tensor> results, std::string source);
/// The same from cases: their states after the instruction and, if the file has one, their logical d.
TensorFile with_results(const VectorFile& vectors, const std::vector<Case>& cases, std::string source);

/// The metadata keys that describe the instruction: format, instruction, target, immediates.
std::vector<std::pair<std::string, std::string>> instruction_metadata(const Instruction& instruction, Target target);

}  // namespace bitmma
