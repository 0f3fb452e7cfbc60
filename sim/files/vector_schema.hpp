// SPDX-License-Identifier: MIT
// The tensors that a vector file may have, with their dtypes and shapes. The reader, the cases and the builder of
// vector files share this schema.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "bitmma/files/vector_file.hpp"

namespace bitmma {

/// Every tensor of the format, in the order of new files: fields, immediates by case, logical matrices.
const std::vector<std::string_view>& known_tensors();
bool is_known(const Tensor& tensor);

std::string_view dtype_of(ElementType type);
bool is_one_of(std::string_view dtype, const std::vector<std::string_view>& dtypes);
/// The dtypes that hold the same words: libraries without unsigned types write signed ones, and registers of an f32
/// accumulator may come as floats.
std::vector<std::string_view> word_dtypes(std::string_view dtype);
std::vector<std::string_view> dtypes_of(Format format);

/// A recorded d of another type, converted to the type `format` of D if every number has an exact code there; nothing
/// if d already has this type. Throws Error that names both types if the two cannot be compared.
std::optional<Tensor> in_type_of_d(const Tensor& d, Format format, const std::string& path);

/// The logical matrices of an instruction, with their members of LogicalMatrices.
struct LogicalTensor {
  std::string_view name;
  std::optional<Matrix> LogicalMatrices::*member;
  Format format;
  int rows, cols;
  bool required;     // in a file without a state
  int products = 1;  // stacked; in files they have an extent of their own

  Extents extents() const { return products == 1 ? Extents{rows, cols} : Extents{products, rows / products, cols}; }
};
std::vector<LogicalTensor> logical_tensors(const Instruction& instruction);

/// The tensor that records a field after the instruction; empty if the instruction only reads the field.
std::string_view after_name(const FieldRule& rule);

/// The elements of case `index`. Call this only for tensors that a rule has checked.
TensorBytes slice(const Tensor& tensor, int64_t index);
uint64_t number_in(const TensorBytes& bytes);

/// Throws Error for keys and tensors without effect on this instruction, in files with a state or with only matrices.
void require_known_names(const TensorFile& file, const Instruction& instruction, bool has_state);

/// The tensors and keys of the format that the file has.
TensorFile known_part(const TensorFile& file);

}  // namespace bitmma
