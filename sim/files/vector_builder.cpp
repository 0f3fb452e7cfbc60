// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>

#include "bitmma/core/error.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "known_names.hpp"
#include "vector_parts.hpp"
#include "vector_schema.hpp"

namespace bitmma {
namespace {

void append_number(std::vector<uint8_t>& bytes, uint64_t number, int size) {
  for (int byte = 0; byte < size; ++byte) bytes.push_back(static_cast<uint8_t>(number >> 8 * byte));
}

}  // namespace

VectorBuilder::VectorBuilder(const Instruction& instruction, Target target)
    : instruction_(instruction), target_(target) {}

VectorBuilder::Column& VectorBuilder::column(std::string_view name, std::string_view dtype,
                                             std::vector<int64_t> shape) {
  const auto known = std::ranges::find(columns_, name, &Column::name);
  if (known != columns_.end()) return *known;
  columns_.push_back({.name = std::string(name), .dtype = std::string(dtype), .shape = std::move(shape), .bytes = {}});
  return columns_.back();
}

void VectorBuilder::add_buffer(std::string_view name, const Buffer& buffer) {
  const FieldInfo& row = info(buffer.field());
  std::vector<uint8_t>& bytes =
      column(name, buffer.is_wide() ? "U64" : dtype_of(row.type), {buffer.extents().begin(), buffer.extents().end()})
          .bytes;
  if (row.is_number) {
    append_number(bytes, buffer.number(), bytes_of(row.type));
  } else if (row.type == ElementType::u8) {
    bytes.insert(bytes.end(), buffer.bytes().begin(), buffer.bytes().end());
  } else {
    const auto* first = reinterpret_cast<const uint8_t*>(buffer.words().data());
    bytes.insert(bytes.end(), first, first + buffer.words().size_bytes());
  }
}

void VectorBuilder::add_matrix(std::string_view name, const std::optional<Matrix>& matrix, const Extents& extents) {
  if (!matrix) return;
  const std::string_view dtype = info(matrix->format()).dtype;
  const int size = dtype_bytes(dtype);
  std::vector<uint8_t>& bytes = column(name, dtype, {extents.begin(), extents.end()}).bytes;
  if (matrix->is_wide()) {
    for (const uint32_t word : matrix->words()) append_number(bytes, word, 4);
    return;
  }
  for (const uint32_t code : matrix->words()) append_number(bytes, code, size);
}

void VectorBuilder::add(const Case& this_case) {
  const Tiling tiling = tiling_of(this_case);
  if (cases_ == 0) tiling_ = tiling;
  if (tiling != tiling_)
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = fmt::format("case {}: tile", cases_),
                 .seen = fmt::format("{} x {} x {} instructions", tiling.m, tiling.n, tiling.k),
                 .expected = fmt::format("{} x {} x {}, as in the first case", tiling_.m, tiling_.n, tiling_.k)});
  for (const FieldRule& rule : fields_of(this_case.instruction)) {
    for (const Buffer& buffer : this_case.before.buffers()) {
      if (buffer.field() == rule.field && rule.access != Access::write) add_buffer(info(rule.field).name, buffer);
    }
    if (!this_case.after || after_name(rule).empty()) continue;
    for (const Buffer& buffer : this_case.after->buffers()) {
      if (buffer.field() == rule.field) add_buffer(after_name(rule), buffer);
    }
  }
  const bool is_tile = !tiling.is_one_instruction();  // finish() describes its instructions by keys
  for (const ImmediateInfo& immediate : immediates_of(this_case.instruction)) {
    if (!immediate.by_case || is_tile) continue;
    const int64_t value = immediate_of(this_case.instruction, immediate.name);
    const bool known = std::ranges::find(columns_, immediate.name, &Column::name) != columns_.end();
    if (!immediate.required && !known && value == immediate.default_value) continue;
    std::vector<uint8_t>& bytes = column(immediate.name, dtype_of(immediate.type), {}).bytes;
    const int size = bytes_of(immediate.type);
    // Earlier cases had the default value.
    while (static_cast<int64_t>(bytes.size()) < cases_ * size) {
      append_number(bytes, static_cast<uint64_t>(immediate.default_value), size);
    }
    append_number(bytes, static_cast<uint64_t>(value), size);
  }
  for (const LogicalTensor& row : logical_tensors(this_case.instruction)) {
    const std::optional<Matrix>& matrix = this_case.logical.*row.member;
    add_matrix(row.name, matrix, is_tile && matrix ? Extents{matrix->rows(), matrix->cols()} : row.extents());
  }
  ++cases_;
}

TensorFile VectorBuilder::finish(std::vector<std::pair<std::string, std::string>> metadata) && {
  TensorFile file{.path = {}, .metadata = instruction_metadata(instruction_, target_), .tensors = {}};
  if (!tiling_.is_one_instruction()) set_types(file, instruction_);
  for (auto& [key, value] : metadata) file.set_metadata(key, std::move(value));
  // The order of the columns does not depend on the order in which the parts came.
  std::ranges::stable_sort(columns_, {}, [](const Column& column) {
    return std::ranges::find(known_tensors(), std::string_view(column.name)) - known_tensors().begin();
  });
  for (Column& column : columns_) {
    column.shape.insert(column.shape.begin(), cases_);
    int64_t expected = dtype_bytes(column.dtype);
    for (const int64_t extent : column.shape) expected *= extent;
    if (expected != static_cast<int64_t>(column.bytes.size())) {
      throw Error({.field = fmt::format("tensor {}", column.name),
                   .seen = fmt::format("{} bytes for {} cases", column.bytes.size(), cases_),
                   .expected = "the same parts of the same shape in every case"});
    }
    file.tensors.push_back(Tensor::from_bytes(std::move(column.name), std::move(column.dtype), std::move(column.shape),
                                              std::move(column.bytes)));
  }
  return file;
}

TensorFile single_case_file(const Case& this_case, std::vector<std::pair<std::string, std::string>> metadata) {
  VectorBuilder builder(this_case.instruction, this_case.target);
  builder.add(this_case);
  return std::move(builder).finish(std::move(metadata));
}

TensorFile with_results(const VectorFile& vectors, std::vector<Tensor> results, std::string source) {
  TensorFile result = vectors.file;
  for (Tensor& tensor : results) result.set(std::move(tensor));
  for (auto& [key, value] : instruction_metadata(vectors.instruction, vectors.target)) {
    result.set_metadata(key, std::move(value));
  }
  set_origin(result, std::move(source));
  return result;
}

TensorFile with_results(const VectorFile& vectors, const std::vector<Case>& cases, std::string source) {
  const bool logical_d_too = wants_logical_d(vectors);
  VectorBuilder builder(vectors.instruction, vectors.target);
  for (const Case& this_case : cases) {
    Case result{.instruction = this_case.instruction, .target = this_case.target, .after = this_case.after};
    if (logical_d_too) result.logical.d = this_case.logical.d;
    builder.add(result);
  }
  TensorFile built = std::move(builder).finish({});
  // The file already has the immediates that vary by case.
  for (const ImmediateInfo& immediate : immediates_of(vectors.instruction)) {
    if (immediate.by_case) built.erase(immediate.name);
  }
  return with_results(vectors, std::move(built.tensors), std::move(source));
}

}  // namespace bitmma
