// SPDX-License-Identifier: MIT
#include "bitmma/files/whole_tile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "bitmma/core/parallel.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/core/version.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/statement.hpp"
#include "known_names.hpp"
#include "matrix_tensor.hpp"
#include "vector_parts.hpp"
#include "vector_schema.hpp"

namespace bitmma {
namespace {

/// Sets types that neither the dtypes nor an instruction descriptor of the file determine.
void set_types(TensorFile& file, const Instruction& instruction) {
  if (!has_instruction_descriptor(instruction)) return;
  const Mma mma = mma_of(instruction);
  for (const auto& [key, type] : {std::pair("a_type", mma.a), std::pair("b_type", mma.b), std::pair("d_type", mma.d)})
    file.set_metadata(key, std::string(info(type).name));
  if (mma.scale_count > 0) file.set_metadata("sf_type", std::string(info(mma.scale_type).name));
}

void require_below(std::string_view field, int64_t value, int64_t count) {
  if (value >= 0 && value < count) return;
  throw Error(
      {.field = std::string(field), .seen = std::to_string(value), .expected = fmt::format("0..{}", count - 1)});
}

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
VectorFile one_instruction(const TensorFile& file, const VectorFileDefaults& defaults, int64_t m, int64_t n,
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

/// Finds M or N of one instruction that has a descriptor: the largest legal extent that divides the whole extent.
VectorFile largest_instruction(const TensorFile& file, const VectorFileDefaults& defaults, int64_t k) {
  const int64_t whole_m = file.find("a")->shape[1], whole_n = file.find("b")->shape[2];
  std::optional<Error> refused;
  for (const int64_t m : {int64_t{256}, int64_t{128}, int64_t{64}}) {
    for (int64_t n = 256; n >= 8; n -= 8) {
      if (whole_m % m != 0 || whole_n % n != 0) continue;
      try {
        return one_instruction(file, defaults, m, n, k);
      } catch (const Error& error) {
        if (!refused) refused = error;
      }
    }
  }
  if (refused) throw *refused;
  throw Error({.field = fmt::format("{}: tile", file.path),
               .seen = fmt::format("M = {}, N = {}", whole_m, whole_n),
               .expected = "multiples of 64 and of 8"});
}

bool is_matrix_of_cases(const Tensor* tensor) {
  return tensor && tensor->shape.size() == 3 && dtype_bytes(tensor->dtype) > 0 &&
         std::ranges::all_of(tensor->shape, [](int64_t extent) { return extent >= 1 && extent <= 1 << 16; });
}

std::optional<WholeTile> tile_of_matrices(const TensorFile& asked, const VectorFileDefaults& defaults) {
  TensorFile file{.path = asked.path, .metadata = asked.metadata, .tensors = {}, .input = asked.input};
  for (const std::string_view name : logical_tensor_names)
    if (const Tensor* tensor = asked.find(name)) file.tensors.push_back(*tensor);
  add_case_extent(file);
  const Tensor *a = file.find("a"), *b = file.find("b");
  const std::optional<Instruction> named = named_instruction(file, defaults);
  if (!named || !is_mma(*named) || mma_of(*named).products > 1 || !is_matrix_of_cases(a) || !is_matrix_of_cases(b))
    return std::nullopt;
  if (a->shape[0] != b->shape[0] || a->shape[2] != b->shape[1]) return std::nullopt;  // a later read reports it
  const int64_t cases = a->shape[0], m = a->shape[1], n = b->shape[2], k = a->shape[2];
  const Mma one = mma_of(*named);
  const bool says_shape = !shape_and_types_of(*named).has_value();
  const bool is_one = k == one.k && (!says_shape || (m == one.m && n == one.n));
  const bool is_whole = k % one.k == 0 && (!says_shape || (m % one.m == 0 && n % one.n == 0));
  if (is_one || !is_whole) return std::nullopt;
  const auto require_shape = [&](std::string_view name, int64_t rows, int64_t cols) {
    const Tensor* tensor = file.find(name);
    const std::vector<int64_t> expected{cases, rows, cols};
    if (tensor && tensor->shape != expected)
      throw Error({.field = fmt::format("{}: tensor {} shape", file.path, name),
                   .seen = print_shape(tensor->shape),
                   .expected = print_shape(expected)});
  };
  require_shape("c", m, n);
  require_shape("d", m, n);
  for (const auto& [name, rows] : {std::pair("sfa", m), std::pair("sfb", int64_t{-1})}) {
    const Tensor* tensor = file.find(name);
    if (!tensor) continue;
    const int64_t count = rows > 0 ? tensor->shape.back() : tensor->shape.size() == 3 ? tensor->shape[1] : 0;
    if (count % (k / one.k) != 0 || count == 0)
      throw Error({.field = fmt::format("{}: tensor {} shape", file.path, name),
                   .seen = print_shape(tensor->shape),
                   .expected = fmt::format("scales of {} instructions of K = {}", k / one.k, one.k)});
    require_shape(name, rows > 0 ? m : count, rows > 0 ? count : n);
  }
  require_known_names(asked, *named, false);
  const VectorFile part =
      says_shape ? one_instruction(file, defaults, one.m, one.n, one.k) : largest_instruction(file, defaults, one.k);
  const Mma mma = mma_of(part.instruction);
  if (mma.k != one.k) return std::nullopt;  // the types have another K
  if (const Tensor* d = file.find("d")) {
    if (std::optional<Tensor> same = in_type_of_d(*d, mma.d, file.path)) file.set(std::move(*same));
  }
  WholeTile tile{.instruction = part.instruction, .target = part.target};
  for (int64_t index = 0; index < cases; ++index) {
    Case whole{.instruction = tile.instruction, .target = tile.target};
    for (const LogicalTensor& row : logical_tensors(tile.instruction)) {
      const Tensor* tensor = file.find(row.name);
      if (!tensor) continue;
      LogicalTensor of_tile = row;
      of_tile.rows = static_cast<int>(tensor->shape[1]), of_tile.cols = static_cast<int>(tensor->shape[2]);
      whole.logical.*row.member = logical_matrix_at(*tensor, of_tile, index);
    }
    tile.cases.push_back(std::move(whole));
  }
  return tile;
}

/// Joins the steps of a loop over K that follow each other in a file of images.
std::optional<WholeTile> tile_of_steps(const TensorFile& asked, const VectorFileDefaults& defaults) {
  const Tensor* d = asked.find("d");
  const std::optional<Instruction> named = named_instruction(asked, defaults);
  if (!d || !named || !is_mma(*named)) return std::nullopt;
  int64_t steps_of_all = 0;
  for (const FieldRule& rule : fields_of(*named)) {
    const Tensor* tensor = rule.access == Access::write ? nullptr : asked.find(info(rule.field).name);
    if (tensor && !tensor->shape.empty()) steps_of_all = std::max(steps_of_all, tensor->shape[0]);
  }
  const int64_t tiles = d->shape.size() == 2 ? 1 : d->shape.size() == 3 ? d->shape[0] : 0;
  if (tiles < 1 || steps_of_all <= tiles || steps_of_all % tiles != 0) return std::nullopt;
  const int64_t steps_of_one = steps_of_all / tiles;
  if (const std::string* said = asked.find_metadata("k_loop"); !said || *said != std::to_string(steps_of_one)) {
    throw Error(
        {.field = fmt::format("{}: cases", asked.path),
         .seen = fmt::format("{} with {} of D", steps_of_all, tiles),
         .expected = "a D for each case",
         .fix = fmt::format("if the cases are the steps of a loop over K, save the key k_loop = {}", steps_of_one)});
  }
  TensorFile file = asked;
  for (const std::string_view name : logical_tensor_names) file.erase(name);
  for (const FieldInfo& field : state_fields)
    if (!field.after.empty()) file.erase(field.after);  // of each step: this program's results
  const VectorFile vectors = as_vector_file(std::move(file), defaults);
  const Mma mma = mma_of(vectors.instruction);
  if (mma.sparse)
    throw Error({.field = fmt::format("{}: tensor d", asked.path),
                 .seen = fmt::format("one D for {} steps of sparse instructions", steps_of_one),
                 .expected = "a D for each of them",
                 .fix = "only a tile of plain matrices a, b and d with all of K may be sparse"});
  const int64_t steps = vectors.cases / tiles;
  require_k_loop(vectors, steps, true);
  WholeTile tile{.instruction = vectors.instruction, .target = vectors.target};
  const std::vector<int64_t> expected{tiles, mma.m, mma.n};
  Tensor recorded = *d;
  if (std::optional<Tensor> same = in_type_of_d(recorded, mma.d, asked.path)) recorded = std::move(*same);
  if (recorded.shape.size() == 2) recorded.shape.insert(recorded.shape.begin(), 1);
  if (recorded.shape != expected)
    throw Error(
        {.field = fmt::format("{}: tensor d", asked.path),
         .seen = recorded.dtype + " " + print_shape(recorded.shape),
         .expected = fmt::format("{} {}, of all {} steps", dtypes_of(mma.d).front(), print_shape(expected), steps)});
  for (int64_t index = 0; index < tiles; ++index) {
    Case whole{.instruction = tile.instruction, .target = tile.target};
    LogicalMatrices& logical = whole.logical;
    for (int64_t step = 0; step < steps; ++step) {
      const Case this_case = case_at(vectors, index * steps + step);
      const Operands operands = operands_of(this_case);
      const auto put = [&](std::optional<Matrix>& to, const Matrix& part, bool along_cols) {
        const int rows = part.rows(), cols = part.cols(), at = static_cast<int>(step);
        if (!to)
          to.emplace(part.format(), along_cols ? rows : rows * static_cast<int>(steps),
                     along_cols ? cols * static_cast<int>(steps) : cols);
        set_block(*to, along_cols ? 0 : at * rows, along_cols ? at * cols : 0, part);
      };
      put(logical.a, operands.a, true);
      put(logical.b, operands.b, false);
      if (operands.scales)
        put(logical.scale_a, operands.scales->a, true), put(logical.scale_b, operands.scales->b, false);
      if (step == 0)
        logical.c = operands.c, whole.instruction = with_enable_input_d(this_case.instruction, operands.c.has_value());
    }
    const auto rows = logical_tensors(tile.instruction);
    const auto row = std::ranges::find(rows, std::string_view("d"), &LogicalTensor::name);
    logical.d = logical_matrix_at(recorded, *row, index);
    tile.cases.push_back(std::move(whole));
  }
  return tile;
}

}  // namespace

std::optional<WholeTile> whole_tile(const TensorFile& file, const VectorFileDefaults& defaults) {
  const bool has_state =
      std::ranges::any_of(state_fields, [&](const FieldInfo& field) { return file.find(field.name) != nullptr; });
  std::optional<WholeTile> tile = has_state ? tile_of_steps(file, defaults) : tile_of_matrices(file, defaults);
  if (!tile) return std::nullopt;
  tile->file = file;
  return tile;
}

std::optional<WholeTile> whole_tile(const Case& this_case) {
  if (this_case.has_state() || !is_mma(this_case.instruction) || !this_case.logical.a || !this_case.logical.b)
    return std::nullopt;
  const Mma mma = mma_of(this_case.instruction);
  const LogicalMatrices& logical = this_case.logical;
  const int m = logical.a->rows(), n = logical.b->cols(), k = logical.b->rows();
  if (mma.products > 1 || (m == mma.m && n == mma.n && k == mma.k)) return std::nullopt;
  if (m % mma.m != 0 || n % mma.n != 0 || k % mma.k != 0 || m == 0 || n == 0 || k == 0 || logical.a->cols() != k)
    throw Error({.field = "tile",
                 .seen = fmt::format("a {} x {}, b {} x {}", m, logical.a->cols(), k, n),
                 .expected = fmt::format("M, N and K of one instruction, {} x {} x {}, or multiples of them", mma.m,
                                         mma.n, mma.k)});
  return WholeTile{.instruction = this_case.instruction, .target = this_case.target, .cases = {this_case}};
}

std::string WholeTile::source() const {
  const std::string* named = file.find_metadata("source");
  return named ? printable(*named) : "unknown";
}

bool WholeTile::has_recorded_d() const {
  return std::ranges::all_of(cases, [](const Case& this_case) { return this_case.logical.d.has_value(); });
}

int64_t WholeTile::steps() const { return cases.empty() ? 0 : cases.front().logical.b->rows() / mma_of(instruction).k; }

Case instruction_at(const WholeTile& tile, int64_t index, int row, int col, int64_t step, const Matrix* before) {
  require_below("case", index, static_cast<int64_t>(tile.cases.size()));
  const LogicalMatrices& whole = tile.cases[static_cast<size_t>(index)].logical;
  require_below("row", row, whole.a->rows());
  require_below("col", col, whole.b->cols());
  require_below("step", step, tile.steps());
  Case this_case{.instruction = tile.cases[static_cast<size_t>(index)].instruction, .target = tile.target};
  const Mma mma = mma_of(this_case.instruction);
  const int top = row / mma.m * mma.m, left = col / mma.n * mma.n, at = static_cast<int>(step);
  const auto part = [&](const std::optional<Matrix>& matrix, int first_row, int rows, int first_col, int cols) {
    return matrix ? std::optional(block_of(*matrix, first_row, rows, first_col, cols)) : std::nullopt;
  };
  const int blocks = mma.scale_count;
  this_case.logical = {.a = part(whole.a, top, mma.m, at * mma.k, mma.k),
                       .b = part(whole.b, at * mma.k, mma.k, left, mma.n),
                       .c = before ? std::optional(*before) : part(whole.c, top, mma.m, left, mma.n),
                       .d = step + 1 == tile.steps() ? part(whole.d, top, mma.m, left, mma.n) : std::nullopt,
                       .scale_a = part(whole.scale_a, top, mma.m, at * blocks, blocks),
                       .scale_b = part(whole.scale_b, at * blocks, blocks, left, mma.n)};
  this_case.instruction = with_enable_input_d(this_case.instruction, this_case.logical.c.has_value());
  return this_case;
}

Matrix computed_d(const WholeTile& tile, int64_t index, int threads) {
  require_below("case", index, static_cast<int64_t>(tile.cases.size()));
  const LogicalMatrices& whole = tile.cases[static_cast<size_t>(index)].logical;
  const Mma mma = mma_of(tile.instruction);
  Matrix d(mma.d, whole.a->rows(), whole.b->cols());
  const int across = d.cols() / mma.n;
  const size_t blocks = static_cast<size_t>(d.rows() / mma.m) * static_cast<size_t>(across);
  parallel_for(blocks, threads, [&](size_t number) {
    const int row = static_cast<int>(number) / across * mma.m, col = static_cast<int>(number) % across * mma.n;
    std::optional<Matrix> block;
    for (int64_t step = 0; step < tile.steps(); ++step)
      block = computed_d(instruction_at(tile, index, row, col, step, block ? &*block : nullptr));
    set_block(d, row, col, *block);
  });
  return d;
}

TensorFile with_simulated_d(const WholeTile& tile, int threads) {
  std::vector<uint8_t> bytes;
  Tensor d;
  for (size_t index = 0; index < tile.cases.size(); ++index) {
    const Matrix computed = computed_d(tile, static_cast<int64_t>(index), threads);
    d = tensor_of("d", computed, {static_cast<int64_t>(tile.cases.size()), computed.rows(), computed.cols()});
    const std::vector<uint8_t> of_case = d.bytes.copy();
    bytes.insert(bytes.end(), of_case.begin(), of_case.end());
  }
  const Tensor* const a = tile.file.find("a");
  if (a && a->shape.size() == 2) d.shape.erase(d.shape.begin());
  TensorFile result = tile.file;
  result.set(Tensor::from_bytes("d", d.dtype, d.shape, std::move(bytes)));
  // The caller may have named the instruction of plain matrices; its shape follows from the matrices.
  result.set_metadata("format", std::string(vector_format));
  result.set_metadata("instruction", print(tile.instruction));
  result.set_metadata("target", std::string(print(tile.target)));
  set_types(result, tile.instruction);
  set_origin(result, version());
  return result;
}

TensorFile file_of_cases(const WholeTile& tile, std::vector<std::pair<std::string, std::string>> metadata) {
  TensorFile file{.path = {}, .metadata = instruction_metadata(tile.instruction, tile.target), .tensors = {}};
  set_types(file, tile.instruction);
  for (auto& [key, value] : metadata) file.set_metadata(key, std::move(value));
  const auto cases = static_cast<int64_t>(tile.cases.size());
  for (const LogicalTensor& row : logical_tensors(tile.instruction)) {
    const std::optional<Matrix>& first = tile.cases.front().logical.*row.member;
    std::vector<uint8_t> bytes;
    for (const Case& this_case : tile.cases) {
      const std::optional<Matrix>& matrix = this_case.logical.*row.member;
      const auto shape = [](const std::optional<Matrix>& of) {
        return of ? fmt::format("{} x {}", of->rows(), of->cols()) : std::string("(missing)");
      };
      if (shape(matrix) != shape(first))
        throw Error({.field = fmt::format("cases: {}", row.name), .seen = shape(matrix), .expected = shape(first)});
      if (!matrix) continue;
      const std::vector<uint8_t> of_case = tensor_of("", *matrix, {matrix->rows(), matrix->cols()}).bytes.copy();
      bytes.insert(bytes.end(), of_case.begin(), of_case.end());
    }
    if (first)
      file.set(Tensor::from_bytes(std::string(row.name), std::string(info(first->format()).dtype),
                                  {cases, first->rows(), first->cols()}, std::move(bytes)));
  }
  return file;
}

WholeTile cases_of(const WholeTile& tile, int64_t first, int64_t count) {
  const auto cases = static_cast<int64_t>(tile.cases.size());
  if (first < 0 || count < 1 || first > cases - count)
    throw Error({.field = "cases",
                 .seen = fmt::format("{} from {} on", count, first),
                 .expected = fmt::format("at least 1 of the {}", cases)});
  WholeTile part = tile;
  part.first_case += first;
  part.cases.assign(tile.cases.begin() + first, tile.cases.begin() + first + count);
  return part;
}

void require_recorded(const WholeTile& tile) {
  if (tile.has_recorded_d()) return;
  throw Error({.field = fmt::format("{}: tensor d", tile.file.path),
               .seen = "(missing)",
               .expected = "a recorded D to compare with",
               .fix = "bitmma simulate computes one"});
}

Comparison verify(const WholeTile& tile, int threads, const Progress& progress) {
  require_recorded(tile);
  std::vector<Comparison> found(tile.cases.size());
  std::mutex mutex;
  int64_t done = 0;
  const bool is_one = found.size() == 1;  // then the threads share its blocks
  parallel_for(found.size(), threads, [&](size_t i) {
    const auto index = static_cast<int64_t>(i);
    found[i] = compare_case(tile.instruction, tile.first_case + index, *tile.cases[i].logical.d,
                            computed_d(tile, index, is_one ? threads : 1));
    const std::lock_guard lock(mutex);
    if (progress) progress(++done);
  });
  Comparison total;
  for (const Comparison& comparison : found) total += comparison;
  return total;
}

Comparison compare(const WholeTile& expected, const WholeTile& actual) {
  require_same_cases(actual.file.path, print(expected.instruction), static_cast<int64_t>(expected.cases.size()),
                     print(actual.instruction), static_cast<int64_t>(actual.cases.size()));
  require_recorded(expected), require_recorded(actual);
  const Matrix &d = *expected.cases.front().logical.d, &other = *actual.cases.front().logical.d;
  if (d.rows() != other.rows() || d.cols() != other.cols() || d.format() != other.format())
    throw Error({.field = fmt::format("{}: d", actual.file.path),
                 .seen = fmt::format("{} x {} {}", other.rows(), other.cols(), info(other.format()).name),
                 .expected = fmt::format("{} x {} {}, as {} has", d.rows(), d.cols(), info(d.format()).name,
                                         expected.file.path)});
  Comparison total;
  for (size_t i = 0; i < expected.cases.size(); ++i)
    total += compare_case(expected.instruction, static_cast<int64_t>(i), *expected.cases[i].logical.d,
                          *actual.cases[i].logical.d);
  return total;
}

std::vector<InputDifference> different_inputs(const WholeTile& expected, const WholeTile& actual) {
  std::vector<InputDifference> found;
  for (size_t i = 0; i < std::min(expected.cases.size(), actual.cases.size()); ++i) {
    const LogicalMatrices &x = expected.cases[i].logical, &y = actual.cases[i].logical;
    for (const auto& [name, differs] :
         {std::pair("A", x.a != y.a), std::pair("B", x.b != y.b), std::pair("C", x.c != y.c),
          std::pair("scales of A", x.scale_a != y.scale_a), std::pair("scales of B", x.scale_b != y.scale_b)}) {
      if (!differs) continue;
      const auto row = std::ranges::find(found, name, &InputDifference::name);
      if (row == found.end()) found.push_back({.name = name, .cases = 1});
      else ++row->cases;
    }
  }
  return found;
}

}  // namespace bitmma
