// SPDX-License-Identifier: MIT
// Files whose cases are tiles: plain matrices of several instructions, or the steps of a K loop with one D.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bitmma/core/version.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/statement.hpp"
#include "known_names.hpp"
#include "matrix_tensor.hpp"
#include "vector_parts.hpp"
#include "vector_schema.hpp"

namespace bitmma {
namespace {

/// The first `rows` rows and `cols` columns of case 0.
Tensor corner_of(const Tensor& tensor, int64_t rows, int64_t cols) {
  const auto size = static_cast<size_t>(dtype_bytes(tensor.dtype));
  std::vector<uint8_t> bytes(static_cast<size_t>(rows * cols) * size);
  for (int64_t row = 0; row < rows; ++row)
    tensor.bytes.copy_to(
        std::span(bytes).subspan(static_cast<size_t>(row * cols) * size, static_cast<size_t>(cols) * size),
        static_cast<size_t>(row * tensor.shape[2]) * size);
  return Tensor::from_bytes(tensor.name, tensor.dtype, {1, rows, cols}, std::move(bytes));
}

/// Makes the file of one instruction from the corners of the matrices: this finds the types and checks them.
VectorFile instruction_of_corners(const TensorFile& file, const VectorFileDefaults& defaults, int64_t m, int64_t n,
                                  int64_t k) {
  TensorFile part{.path = file.path, .metadata = file.metadata, .tensors = {}};
  const int64_t whole_k = file.find("a")->shape[2];
  for (const Tensor& tensor : file.tensors) {
    const int64_t rows = tensor.shape[1], cols = tensor.shape[2];
    if (tensor.name == "a") part.set(corner_of(tensor, m, k));
    else if (tensor.name == "b") part.set(corner_of(tensor, k, n));
    else if (tensor.name == "sfa") part.set(corner_of(tensor, m, cols * k / whole_k));
    else if (tensor.name == "sfb") part.set(corner_of(tensor, rows * k / whole_k, n));
    else part.set(corner_of(tensor, m, n));
  }
  return as_vector_file(std::move(part), defaults);
}

/// M and N of one instruction with a descriptor: the largest legal M, and with it the largest legal N, that divide
/// those of the matrices.
std::pair<int, int> largest_shape(const std::string& path, const Instruction& instruction, int64_t whole_m,
                                  int64_t whole_n) {
  const Form* const form = find_form(instruction);
  const Mma mma = mma_of(instruction);
  std::pair<int, int> largest;
  std::vector<std::string> legal;
  for (const LegalShape& shape : form ? form->shapes : std::span<const LegalShape>{}) {
    const bool is_of_mnemonic = shape.weight_stationary == mma.weight_stationary && shape.cta_group == mma.cta_group &&
                                (mma.sparse ? shape.sparse : shape.dense);
    for (const int m : shape.m) {
      if (!is_of_mnemonic || m == 0) continue;
      legal.push_back(fmt::format("M = {} with N = {}", m, shape.n.text));
      for (int n = shape.n.first; n <= shape.n.last; n += shape.n.step) {
        if (shape.n.contains(n) && whole_m % m == 0 && whole_n % n == 0) largest = std::max(largest, std::pair(m, n));
      }
    }
  }
  if (largest.first > 0) return largest;
  throw Error({.field = fmt::format("{}: tile", path),
               .seen = fmt::format("M = {}, N = {}", whole_m, whole_n),
               .expected = "multiples of M and N of one instruction",
               .fix = fmt::format("{}", fmt::join(legal, "; "))});
}

bool is_matrix_of_cases(const Tensor* tensor) {
  return tensor && tensor->shape.size() == 3 && dtype_bytes(tensor->dtype) > 0 &&
         std::ranges::all_of(tensor->shape, [](int64_t extent) { return extent >= 1 && extent <= 1 << 16; });
}

/// The plain matrices of a file; with two extents they become one case.
TensorFile matrices_of(const TensorFile& whole) {
  TensorFile file{.path = whole.path, .metadata = whole.metadata, .tensors = {}, .input = whole.input};
  for (const std::string_view name : logical_tensor_names)
    if (const Tensor* tensor = whole.find(name)) file.tensors.push_back(*tensor);
  add_case_extent(file);
  return file;
}

/// Plain matrices of several instructions; nothing for other files.
std::optional<VectorFile> tiles_of_matrices(const TensorFile& whole, const VectorFileDefaults& defaults) {
  const TensorFile file = matrices_of(whole);
  const Tensor *a = file.find("a"), *b = file.find("b");
  const std::optional<Instruction> named = named_instruction(file, defaults);
  if (!named || !is_mma(*named) || mma_of(*named).products > 1 || !is_matrix_of_cases(a) || !is_matrix_of_cases(b))
    return std::nullopt;
  if (a->shape[0] != b->shape[0] || a->shape[2] != b->shape[1]) return std::nullopt;  // a later read reports it
  const int64_t cases = a->shape[0], m = a->shape[1], n = b->shape[2], k = a->shape[2];
  const Mma of_name = mma_of(*named);
  const int steps = static_cast<int>(k / of_name.k);
  const bool says_shape = !shape_and_types_of(*named).has_value();
  const bool is_one_instruction = k == of_name.k && (!says_shape || (m == of_name.m && n == of_name.n));
  const bool is_whole = k % of_name.k == 0 && (!says_shape || (m % of_name.m == 0 && n % of_name.n == 0));
  if (is_one_instruction || !is_whole) return std::nullopt;
  const auto require_shape = [&](std::string_view name, int64_t rows, int64_t cols) {
    const Tensor* tensor = file.find(name);
    const std::vector<int64_t> expected{cases, rows, cols};
    if (tensor && tensor->shape != expected)
      throw Error({.code = ViolationCode::wrong_shape,
                   .field = fmt::format("{}: tensor {} shape", file.path, name),
                   .seen = print_shape(tensor->shape),
                   .expected = print_shape(expected),
                   .key = std::string(name),
                   .file = file.path});
  };
  require_shape("c", m, n);
  require_shape("d", m, n);
  for (const auto& [name, rows] : {std::pair("sfa", m), std::pair("sfb", int64_t{-1})}) {
    const Tensor* tensor = file.find(name);
    if (!tensor) continue;
    const int64_t count = rows > 0 ? tensor->shape.back() : tensor->shape.size() == 3 ? tensor->shape[1] : 0;
    if (count % steps != 0 || count == 0)
      throw Error({.code = ViolationCode::wrong_shape,
                   .field = fmt::format("{}: tensor {} shape", file.path, name),
                   .seen = print_shape(tensor->shape),
                   .expected = fmt::format("scales of {} instructions of K = {}", steps, of_name.k)});
    require_shape(name, rows > 0 ? m : count, rows > 0 ? count : n);
  }
  require_known_names(whole, *named, false);
  const auto [one_m, one_n] = says_shape ? std::pair(of_name.m, of_name.n) : largest_shape(file.path, *named, m, n);
  const VectorFile part = instruction_of_corners(file, defaults, one_m, one_n, of_name.k);
  const Mma mma = mma_of(part.instruction);
  if (mma.k != of_name.k) return std::nullopt;  // the types have another K
  VectorFile tiled{.file = whole,
                   .instruction = part.instruction,
                   .target = part.target,
                   .cases = cases,
                   .has_state = false,
                   .tiling = {.m = static_cast<int>(m / mma.m), .n = static_cast<int>(n / mma.n), .k = steps}};
  if (const Tensor* d = whole.find("d")) {
    if (std::optional<Tensor> same = in_type_of_d(*d, mma.d, file.path)) tiled.file.set(std::move(*same));
  }
  return tiled;
}

/// Steps of a loop over K that follow each other in a file of images, with one D after all of them; nothing for other
/// files.
std::optional<VectorFile> tiles_of_steps(const TensorFile& whole, const VectorFileDefaults& defaults) {
  const Tensor* const d = whole.find("d");
  const std::optional<Instruction> named = named_instruction(whole, defaults);
  if (!d || !named || !is_mma(*named)) return std::nullopt;
  int64_t all_steps = 0;
  for (const FieldRule& rule : fields_of(*named)) {
    const Tensor* tensor = rule.access == Access::write ? nullptr : whole.find(info(rule.field).name);
    if (tensor && !tensor->shape.empty()) all_steps = std::max(all_steps, tensor->shape[0]);
  }
  const int64_t tiles = d->shape.size() == 2 ? 1 : d->shape.size() == 3 ? d->shape[0] : 0;
  if (tiles < 1 || all_steps <= tiles || all_steps % tiles != 0) return std::nullopt;
  const int64_t steps = all_steps / tiles;
  if (const std::string* key = whole.find_metadata("k_loop"); !key || *key != std::to_string(steps)) {
    throw Error({.field = fmt::format("{}: cases", whole.path),
                 .seen = fmt::format("{} with {} of D", all_steps, tiles),
                 .expected = "a D for each case",
                 .fix = fmt::format("if the cases are the steps of a loop over K, save the key k_loop = {}", steps),
                 .key = "cases",
                 .file = whole.path});
  }
  VectorFile tiled{.file = whole, .cases = tiles, .has_state = false, .tiling = {.k = static_cast<int>(steps)}};
  const VectorFile checked = as_vector_file(steps_of(tiled).file, defaults);
  tiled.instruction = checked.instruction, tiled.target = checked.target;
  const Mma mma = mma_of(tiled.instruction);
  if (mma.sparse)
    throw Error({.field = fmt::format("{}: tensor d", whole.path),
                 .seen = fmt::format("one D for {} steps of sparse instructions", steps),
                 .expected = "a D for each of them",
                 .fix = "only a tile of plain matrices a, b and d with all of K may be sparse"});
  const std::vector<int64_t> expected{tiles, mma.m, mma.n};
  Tensor recorded = *d;
  if (std::optional<Tensor> same = in_type_of_d(recorded, mma.d, whole.path)) recorded = std::move(*same);
  if (recorded.shape.size() == 2) recorded.shape.insert(recorded.shape.begin(), 1);
  if (recorded.shape != expected)
    throw Error(
        {.code = ViolationCode::wrong_shape,
         .field = fmt::format("{}: tensor d", whole.path),
         .seen = recorded.dtype + " " + print_shape(recorded.shape),
         .expected = fmt::format("{} {}, of all {} steps", dtypes_of(mma.d).front(), print_shape(expected), steps)});
  tiled.file.set(std::move(recorded));
  return tiled;
}

/// The matrices of all steps of case `index`.
Case joined_steps(const VectorFile& tiled, int64_t index) {
  const VectorFile all_steps = steps_of(tiled);
  const int steps = tiled.tiling.k;
  Case whole{.instruction = tiled.instruction, .target = tiled.target};
  LogicalMatrices& logical = whole.logical;
  for (int step = 0; step < steps; ++step) {
    const Case of_step = case_at(all_steps, index * steps + step);
    const Operands operands = operands_of(of_step);
    const auto put = [&](std::optional<Matrix>& to, const Matrix& part, bool along_cols) {
      const int rows = part.rows(), cols = part.cols();
      if (!to) to.emplace(part.format(), along_cols ? rows : rows * steps, along_cols ? cols * steps : cols);
      set_block(*to, along_cols ? 0 : step * rows, along_cols ? step * cols : 0, part);
    };
    put(logical.a, operands.a, true);
    put(logical.b, operands.b, false);
    if (operands.scales)
      put(logical.scale_a, operands.scales->a, true), put(logical.scale_b, operands.scales->b, false);
    if (step == 0)
      logical.c = operands.c, whole.instruction = with_enable_input_d(of_step.instruction, operands.c.has_value());
  }
  const auto rows = logical_tensors(tiled.instruction);
  const auto row = std::ranges::find(rows, std::string_view("d"), &LogicalTensor::name);
  logical.d = logical_matrix_at(*tiled.file.find("d"), *row, index);
  return whole;
}

}  // namespace

void set_types(TensorFile& file, const Instruction& instruction) {
  if (!has_instruction_descriptor(instruction)) return;
  const Mma mma = mma_of(instruction);
  for (const auto& [key, type] : {std::pair("a_type", mma.a), std::pair("b_type", mma.b), std::pair("d_type", mma.d)})
    file.set_metadata(key, std::string(info(type).name));
  if (mma.scale_count > 0) file.set_metadata("sf_type", std::string(info(mma.scale_type).name));
}

bool has_state_tensors(const TensorFile& file) {
  return std::ranges::any_of(state_fields, [&](const FieldInfo& field) { return file.find(field.name) != nullptr; });
}

VectorFile as_tiled_file(TensorFile file, const VectorFileDefaults& defaults) {
  file = with_inputs(std::move(file), defaults.inputs);
  std::optional<VectorFile> tiled =
      has_state_tensors(file) ? tiles_of_steps(file, defaults) : tiles_of_matrices(file, defaults);
  return tiled ? std::move(*tiled) : as_vector_file(std::move(file), defaults);
}

VectorFile read_tiled_file(const std::string& path, const VectorFileDefaults& defaults, uint64_t most_in_memory) {
  return as_tiled_file(read_tensor_file(path, most_in_memory), defaults);
}

bool is_of_steps(const VectorFile& vectors) {
  return !vectors.tiling.is_one_instruction() && has_state_tensors(vectors.file);
}

VectorFile steps_of(const VectorFile& vectors) {
  VectorFile steps = vectors;
  steps.cases *= vectors.tiling.k, steps.first_case *= vectors.tiling.k;
  steps.has_state = true, steps.tiling = {};
  for (const std::string_view name : logical_tensor_names) steps.file.erase(name);
  for (const FieldInfo& field : state_fields)
    if (!field.after.empty()) steps.file.erase(field.after);  // of each step: this program's results
  return steps;
}

Case tiled_case_at(const VectorFile& vectors, int64_t index) {
  if (is_of_steps(vectors)) return joined_steps(vectors, index);
  const TensorFile file = matrices_of(vectors.file);
  Case whole{.instruction = vectors.instruction, .target = vectors.target};
  for (LogicalTensor row : logical_tensors(vectors.instruction)) {
    const Tensor* const tensor = file.find(row.name);
    if (!tensor) continue;
    row.rows = static_cast<int>(tensor->shape[1]), row.cols = static_cast<int>(tensor->shape[2]);
    whole.logical.*row.member = logical_matrix_at(*tensor, row, index);
  }
  return whole;
}

TensorFile with_simulated_tiles(const VectorFile& vectors, int threads, const Progress& progress) {
  std::vector<uint8_t> bytes;
  Tensor d;
  for (int64_t index = 0; index < vectors.cases; ++index) {
    const Matrix computed = computed_tile(case_at(vectors, index), threads);
    d = tensor_of("d", computed, {vectors.cases, computed.rows(), computed.cols()});
    const std::vector<uint8_t> of_case = d.bytes.copy();
    bytes.insert(bytes.end(), of_case.begin(), of_case.end());
    if (progress) progress(index + 1);
  }
  const Tensor* const a = vectors.file.find("a");
  if (a && a->shape.size() == 2) d.shape.erase(d.shape.begin());
  // The caller may have named the instruction of plain matrices; its shape follows from the matrices.
  TensorFile result = vectors.file;
  result.set(Tensor::from_bytes("d", d.dtype, d.shape, std::move(bytes)));
  result.set_metadata("format", std::string(vector_format));
  result.set_metadata("instruction", print(vectors.instruction));
  result.set_metadata("target", std::string(print(vectors.target)));
  set_types(result, vectors.instruction);
  set_origin(result, version());
  return result;
}

}  // namespace bitmma
