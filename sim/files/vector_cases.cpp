// SPDX-License-Identifier: MIT
// Views of the cases of a vector file.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/statement.hpp"
#include "vector_parts.hpp"
#include "vector_schema.hpp"

namespace bitmma {
namespace {

/// Codes narrower than their bytes leave the other bits 0, or repeat their sign. Other bits may mean packed pairs.
void require_codes(const Matrix& matrix, const Tensor& tensor) {
  const FormatInfo& row = info(matrix.format());
  if (row.bits >= 8 || row.bits == 1) return;
  for (size_t i = 0; i < matrix.size(); ++i) {
    const uint32_t word = matrix.words()[i];
    if (word >> row.bits == 0) continue;
    throw Error({.field = fmt::format("tensor {}", tensor.name),
                 .seen = fmt::format("{:#x} in element {}", word, i),
                 .expected = fmt::format("0..{:#x}, one code of {} per byte", (1 << row.bits) - 1, row.name),
                 .fix = "bytes with two codes must be split into one code per byte, low bits first",
                 .key = tensor.name});
  }
}

Matrix logical_matrix(const Tensor& tensor, const LogicalTensor& row, int64_t index) {
  const TensorBytes held = slice(tensor, index).in_memory();
  const std::span<const uint8_t> bytes = held.view();
  Matrix matrix(row.format, row.rows, row.cols);
  const size_t size = bytes.size() / std::max<size_t>(1, matrix.size());
  if (matrix.is_wide()) {
    std::memcpy(matrix.words().data(), bytes.data(), bytes.size());
    return matrix;
  }
  const auto read = [&]<typename Word>(Word) {
    uint32_t* code = matrix.words().data();
    for (size_t i = 0; i < matrix.size(); ++i) {
      Word word;
      std::memcpy(&word, bytes.data() + i * sizeof word, sizeof word);
      // A 4-bit code may come as an 8-bit number: -3 is 0xFD, its code 0xD.
      const bool repeats_sign = row.format == Format::s4 && (word & 0xF8) == 0xF8;
      *code++ = row.format == Format::b1 ? word != 0 : repeats_sign ? word & 0xF : word;
    }
  };
  switch (size) {
    case 1: read(uint8_t{}); break;
    case 2: read(uint16_t{}); break;
    default: read(uint32_t{}); break;
  }
  return matrix;
}

/// The extents of one case of a tensor; the file may omit a last extent of 1.
Extents extents_of(const Tensor& tensor, const Extents& rule) {
  const auto shape = std::span(tensor.shape).subspan(1);
  if (shape.size() == rule.size()) return Extents(shape);
  std::vector<int64_t> extents(shape.begin(), shape.end());
  extents.push_back(1);
  return Extents(extents);
}

void add_to(State& state, const FieldRule& rule, const Tensor& tensor, int64_t index) {
  const FieldInfo& row = info(rule.field);
  const TensorBytes bytes = slice(tensor, index);
  if (row.is_number) {
    state.set(rule.field, number_in(bytes));
    return;
  }
  const Extents extents = extents_of(tensor, rule.extents);
  const auto copied = [&]<typename Word>(Word) {
    std::vector<Word> words(bytes.size() / sizeof(Word));
    bytes.copy_to({reinterpret_cast<uint8_t*>(words.data()), bytes.size()});
    return words;
  };
  const uint8_t* const data = bytes.is_in_memory() ? bytes.view().data() : nullptr;
  if (row.type == ElementType::u8) {
    if (data) state.borrow(rule.field, bytes.view(), extents);
    else state.set(rule.field, copied(uint8_t{}), extents);
  } else if (data && reinterpret_cast<uintptr_t>(data) % alignof(uint32_t) == 0) {
    state.borrow(rule.field, {reinterpret_cast<const uint32_t*>(data), bytes.size() / 4}, extents, rule.wide);
  } else if (rule.wide) {
    state.set(rule.field, copied(uint64_t{}), extents);
  } else {
    state.set(rule.field, copied(uint32_t{}), extents);
  }
}

/// How many first extents of a tensor belong to one case: 1, or the steps of a K loop; 0 for a tensor without cases.
/// Does not check a tensor whose name belongs to another instruction: it may have any dtype and shape.
int64_t extents_per_case(const VectorFile& vectors, const Tensor& tensor) {
  const bool has_cases =
      is_known(tensor) && !tensor.shape.empty() && tensor.bytes.size() % static_cast<size_t>(vectors.cases) == 0;
  if (!has_cases) return 0;
  if (tensor.shape[0] == vectors.cases) return 1;
  return is_of_steps(vectors) && tensor.shape[0] == vectors.cases * vectors.tiling.k ? vectors.tiling.k : 0;
}

void require_case(const VectorFile& vectors, int64_t index) {
  if (index >= 0 && index < vectors.cases) return;
  throw Error({.field = fmt::format("{}case", vectors.file.path.empty() ? "" : vectors.file.path + ": "),
               .seen = std::to_string(index),
               .expected = fmt::format("0..{}", vectors.cases - 1)});
}

}  // namespace

std::string VectorFile::name() const { return print(instruction); }

std::string_view VectorFile::d_tensor() const {
  if (!has_state) return "d";
  for (const FieldRule& rule : fields_of(instruction)) {
    if (!after_name(rule).empty()) return after_name(rule);
  }
  return "d";
}

std::string VectorFile::source() const {
  const std::string* source = file.find_metadata("source");
  return source ? printable(*source) : "unknown";
}

void VectorFile::require_unchanged() const {
  if (file.input) file.input->require_unchanged();
}

VectorFile cases_of(const VectorFile& vectors, int64_t first, int64_t count) {
  if (first < 0 || count < 1 || first > vectors.cases || count > vectors.cases - first) {
    throw Error({.field = fmt::format("{}: cases", vectors.file.path),
                 .seen = fmt::format("{} from {} on", count, first),
                 .expected = fmt::format("one or more of 0..{}", vectors.cases - 1)});
  }
  VectorFile part = vectors;
  part.cases = count;
  part.first_case = vectors.first_case + first;
  add_case_extent(part.file);  // plain matrices of a tile keep the extents of their file
  std::erase_if(part.file.tensors, [&](const Tensor& tensor) { return extents_per_case(vectors, tensor) == 0; });
  for (Tensor& tensor : part.file.tensors) {
    const int64_t extents = extents_per_case(vectors, tensor);
    const size_t bytes_per_case = tensor.bytes.size() / static_cast<size_t>(vectors.cases);
    tensor.bytes =
        tensor.bytes.part(static_cast<size_t>(first) * bytes_per_case, static_cast<size_t>(count) * bytes_per_case);
    tensor.shape[0] = count * extents;
  }
  return part;
}

std::vector<Tensor> tensors_without_cases(const VectorFile& vectors) {
  std::vector<Tensor> tensors;
  std::ranges::copy_if(vectors.file.tensors, std::back_inserter(tensors),
                       [&](const Tensor& tensor) { return extents_per_case(vectors, tensor) == 0; });
  return tensors;
}

VectorFile in_memory(VectorFile vectors) {
  for (Tensor& tensor : vectors.file.tensors) tensor.bytes = tensor.bytes.in_memory();
  return vectors;
}

VectorFile known_part(const VectorFile& vectors) {
  return {.file = known_part(vectors.file),
          .instruction = vectors.instruction,
          .target = vectors.target,
          .cases = vectors.cases,
          .first_case = vectors.first_case,
          .has_state = vectors.has_state,
          .tiling = vectors.tiling};
}

std::vector<std::string_view> results_of(const TensorFile& file) {
  std::vector<std::string_view> names;
  const auto add = [&](std::string_view name) {
    if (!name.empty() && file.find(name) && std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  add("d");
  for (const FieldInfo& field : state_fields) add(field.after);
  return names;
}

TensorFile without_results(TensorFile file) {
  for (const std::string_view name : results_of(file)) file.erase(name);
  return file;
}

Instruction instruction_at(const VectorFile& vectors, int64_t index) {
  require_case(vectors, index);
  Instruction instruction = vectors.instruction;
  for (const ImmediateInfo& immediate : immediates_of(vectors.instruction)) {
    const Tensor* tensor = immediate.by_case && vectors.has_state ? vectors.file.find(immediate.name) : nullptr;
    if (!tensor) continue;
    instruction = with_immediate(instruction, immediate.name, static_cast<int64_t>(number_in(slice(*tensor, index))));
  }
  return instruction;
}

State state_before_at(const VectorFile& vectors, const Instruction& instruction, int64_t index) {
  State state;
  for (const FieldRule& rule : fields_of(instruction)) {
    const Tensor* tensor = rule.access == Access::write ? nullptr : vectors.file.find(info(rule.field).name);
    if (tensor) add_to(state, rule, *tensor, index);
  }
  return state;
}

State state_after_at(const VectorFile& vectors, const Instruction& instruction, int64_t index) {
  State state;
  for (const FieldRule& rule : fields_of(instruction)) {
    const bool is_number = info(rule.field).is_number;
    const std::string_view name = is_number ? info(rule.field).name : after_name(rule);
    const Tensor* tensor = name.empty() ? nullptr : vectors.file.find(name);
    if (tensor) add_to(state, rule, *tensor, index);
  }
  return state;
}

Matrix logical_matrix_at(const Tensor& tensor, const LogicalTensor& row, int64_t index) {
  Matrix matrix = logical_matrix(tensor, row, index);
  require_codes(matrix, tensor);
  return matrix;
}

LogicalMatrices logical_at(const VectorFile& vectors, const Instruction& instruction, int64_t index) {
  LogicalMatrices logical;
  for (const LogicalTensor& row : logical_tensors(instruction)) {
    const Tensor* tensor = vectors.file.find(row.name);
    if (!tensor) continue;
    logical.*row.member = logical_matrix_at(*tensor, row, index);
  }
  return logical;
}

Case case_at(const VectorFile& vectors, int64_t index) {
  require_case(vectors, index);
  if (!vectors.tiling.is_one_instruction()) return tiled_case_at(vectors, index);
  Case this_case{.instruction = instruction_at(vectors, index), .target = vectors.target};
  this_case.logical = logical_at(vectors, this_case.instruction, index);
  if (!vectors.has_state) return this_case;
  this_case.before = state_before_at(vectors, this_case.instruction, index);
  if (vectors.has_state_after()) this_case.after = state_after_at(vectors, this_case.instruction, index);
  return this_case;
}

bool wants_logical_d(const VectorFile& vectors) { return is_mma(vectors.instruction); }

std::vector<Choice> choices_of(const VectorFile& vectors) {
  if (is_of_steps(vectors)) return choices_of(steps_of(vectors));
  if (!vectors.tiling.is_one_instruction()) return choices_of(vectors.instruction, vectors.target);
  // No choice depends on the logical matrices beside a state, and reading those takes long.
  VectorFile states = known_part(vectors);
  for (const std::string_view name : logical_tensor_names) {
    if (vectors.has_state) states.file.erase(name);
  }
  std::vector<Choice> all;
  for (int64_t index = 0; index < states.cases; ++index) {
    const Case this_case = case_at(states, index);
    for (const Choice& choice : choices_of(this_case.instruction, this_case.target, this_case.before)) {
      if (std::ranges::find(all, choice) == all.end()) all.push_back(choice);
    }
  }
  return all;
}

}  // namespace bitmma
