// SPDX-License-Identifier: MIT
// Parts of a case of a vector file, for code that does not need the whole case.
#pragma once

#include <optional>

#include "bitmma/files/compare.hpp"
#include "bitmma/files/vector_file.hpp"
#include "bitmma/instruction/place.hpp"

namespace bitmma {

/// The instruction that the file names, otherwise the one that the caller names; nothing if neither does. Throws Error
/// for a malformed mnemonic.
std::optional<Instruction> named_instruction(const TensorFile& file, const VectorFileDefaults& defaults);

/// Treats logical matrices with two extents as one case.
void add_case_extent(TensorFile& file);

/// The buffers of case `index` that the instruction reads: views of the file if its bytes are aligned.
State state_before_at(const VectorFile& vectors, const Instruction& instruction, int64_t index);
/// The recorded state after case `index`, with the addresses of the state before it.
State state_after_at(const VectorFile& vectors, const Instruction& instruction, int64_t index);
/// The logical matrices that the file has.
LogicalMatrices logical_at(const VectorFile& vectors, const Instruction& instruction, int64_t index);

/// True if the file has images, descriptors or registers.
bool has_state_tensors(const TensorFile& file);
/// True if each case of a tiled file is stored as the steps of a K loop.
bool is_of_steps(const VectorFile& vectors);
/// The steps of all its cases, without their D.
VectorFile steps_of(const VectorFile& vectors);
/// Case `index` of a tiled file.
Case tiled_case_at(const VectorFile& vectors, int64_t index);
/// with_simulated_d for a tiled file.
TensorFile with_simulated_tiles(const VectorFile& vectors, int threads, const Progress& progress);
/// Sets types that neither the dtypes nor an instruction descriptor of the file determine.
void set_types(TensorFile& file, const Instruction& instruction);

struct LogicalTensor;
/// Case `index` of a tensor with the dtype and shape of `row`. Throws Error for codes that do not fit the format.
Matrix logical_matrix_at(const Tensor& tensor, const LogicalTensor& row, int64_t index);

/// Throws Error if C of a step of a K loop is not D of the step before. With `c_may_repeat` it may also be C of the
/// first step: the registers of a kernel, whose D is known only after all steps.
void require_k_loop(const VectorFile& vectors, int64_t steps, bool c_may_repeat);

/// `file` without the copy of the operands that is not meant. Throws Error if it lacks the other.
TensorFile with_inputs(TensorFile file, std::optional<OperandCopy> inputs);

/// The part of `state` that the instruction writes.
State written_part(const Instruction& instruction, State state);
/// Runs the case: computes the state after it, and D among its logical matrices if `logical_d_too`.
void execute_case(Case& this_case, bool logical_d_too);

/// The places of the outputs. Cells of D count from D's own address, whatever it is in the case.
PlaceMap places_of_d(const Instruction& instruction);
/// The place of an output of a whole tile within the instruction that computes it.
Place place_in_tile(const PlaceMap& places, const Instruction& instruction, int row, int col);

}  // namespace bitmma
