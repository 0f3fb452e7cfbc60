// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "../instruction/mainloop_tile.hpp"
#include "bitmma/core/version.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/statement.hpp"
#include "known_names.hpp"
#include "matrix_tensor.hpp"
#include "vector_parts.hpp"
#include "vector_schema.hpp"

namespace bitmma {
namespace {

/// Case `index` of a tensor, held in memory.
Tensor case_of(Tensor tensor, int64_t index) {
  const size_t size = tensor.bytes.size() / static_cast<size_t>(tensor.shape[0]);
  tensor.bytes = tensor.bytes.part(static_cast<size_t>(index) * size, size).in_memory();
  tensor.shape[0] = 1;
  return tensor;
}

/// A part of a tensor [1, rows, cols].
Tensor part_of(const Tensor& tensor, int64_t first_row, int64_t rows, int64_t first_col, int64_t cols) {
  const auto size = static_cast<size_t>(dtype_bytes(tensor.dtype)), line_bytes = static_cast<size_t>(cols) * size;
  std::vector<uint8_t> bytes(static_cast<size_t>(rows) * line_bytes);
  const std::span<const uint8_t> whole = tensor.bytes.view();
  for (int64_t row = 0; row < rows; ++row) {
    const auto first = static_cast<size_t>((first_row + row) * tensor.shape[2] + first_col) * size;
    std::ranges::copy(whole.subspan(first, line_bytes), bytes.begin() + row * static_cast<int64_t>(line_bytes));
  }
  return Tensor::from_bytes(tensor.name, tensor.dtype, {1, rows, cols}, std::move(bytes));
}

/// Tensor `d` of the whole K, as the file records it; nothing if the file does not.
std::optional<Tensor> recorded_tensor(const TensorFile& file) {
  const Tensor* d = file.find("d");
  if (!d) return std::nullopt;
  Tensor tensor = *d;
  if (tensor.shape.size() == 2) tensor.shape.insert(tensor.shape.begin(), 1);
  return tensor;
}

/// True for a tensor with three extents and exactly as many bytes as they imply.
bool is_cube(const Tensor* tensor) {
  if (!tensor || tensor->shape.size() != 3 || dtype_bytes(tensor->dtype) == 0) return false;
  uint64_t left = tensor->bytes.size();
  for (const int64_t extent : tensor->shape) {
    if (extent < 1 || extent > 1 << 24 || left % static_cast<uint64_t>(extent) != 0) return false;
    left /= static_cast<uint64_t>(extent);
  }
  return left == static_cast<uint64_t>(dtype_bytes(tensor->dtype));
}

/// The file with only the tensors of a logical file; matrices with two extents become one case.
TensorFile logical_part(const TensorFile& file) {
  TensorFile part{.path = file.path, .metadata = file.metadata, .tensors = {}, .input = file.input};
  for (const std::string_view name : {"a", "b", "c", "sfa", "sfb"}) {
    if (const Tensor* tensor = file.find(name)) part.tensors.push_back(*tensor);
  }
  add_case_extent(part);
  return part;
}

/// Makes each step of the loop of one case a file of plain matrices.
class Steps {
 public:
  Steps(const TensorFile& file, int64_t index, int64_t steps)
      : file_{.path = file.path, .metadata = file.metadata, .tensors = {}}, steps_(steps) {
    for (const Tensor& tensor : file.tensors) file_.tensors.push_back(case_of(tensor, index));
  }

  int64_t count() const { return steps_; }

  TensorFile matrices(int64_t step, const Matrix* d) const {
    TensorFile file{.path = file_.path, .metadata = file_.metadata, .tensors = {}};
    for (const Tensor& tensor : file_.tensors) {
      const int64_t rows = tensor.shape[1], cols = tensor.shape[2];
      const bool along_cols = tensor.name == "a" || tensor.name == "sfa",
                 along_rows = tensor.name == "b" || tensor.name == "sfb";
      if (along_cols) file.set(part_of(tensor, 0, rows, step * (cols / steps_), cols / steps_));
      else if (along_rows) file.set(part_of(tensor, step * (rows / steps_), rows / steps_, 0, cols));
      else if (!d) file.set(part_of(tensor, 0, rows, 0, cols));
    }
    if (!d) return file;
    file.set(tensor_of("c", *d, {1, d->rows(), d->cols()}));
    // Steps after the first add to D, even if the first one does not read it.
    if (file.find_metadata("scale_d")) file.set_metadata("scale_d", "1");
    return file;
  }

 private:
  TensorFile file_;
  int64_t steps_;
};

/// The state of one step, made from its matrices, with a separate image.
Case placed(const VectorFile& vectors, const Placement& placement, int64_t number) {
  Case this_case{.instruction = with_majors(vectors.instruction, placement.a, placement.b), .target = vectors.target};
  require_legal(this_case.instruction, this_case.target);
  this_case.logical = logical_at(vectors, this_case.instruction, 0);
  this_case.before =
      place_operands(this_case.instruction, placement, operands_of(this_case.instruction, this_case.logical),
                     filler_stream(0, static_cast<uint64_t>(number)));
  return this_case;
}

/// `left` with the further columns of `own`, if `own` has more: the instruction before had no Tensor Memory
/// there.
Tensor with_columns_of(const Tensor& left, const Tensor* own) {
  const auto same_but_last = [&] {
    return own->dtype == left.dtype && own->shape.size() == left.shape.size() && !left.shape.empty() &&
           std::equal(left.shape.begin(), left.shape.end() - 1, own->shape.begin());
  };
  if (!own || !same_but_last() || own->shape.back() <= left.shape.back() || left.shape.back() < 1) return left;
  std::vector<uint8_t> bytes = own->bytes.copy();
  const size_t left_row = static_cast<size_t>(left.shape.back() * dtype_bytes(left.dtype)),
               own_row = static_cast<size_t>(own->shape.back() * dtype_bytes(own->dtype));
  for (size_t row = 0; row < left.bytes.size() / left_row; ++row)
    left.bytes.copy_to(std::span(bytes).subspan(row * own_row, left_row), row * left_row);
  return Tensor::from_bytes(left.name, left.dtype, own->shape, std::move(bytes));
}

/// The last steps' cases of a tensor with one case per step. `steps` is 0 if the cases are not steps.
Tensor last_steps_of(const Tensor& tensor, int64_t steps) {
  if (steps <= 1 || tensor.shape.empty() || tensor.shape[0] < steps) return tensor;
  Tensor last = tensor;
  last.shape[0] /= steps;
  const size_t size = tensor.bytes.size() / static_cast<size_t>(tensor.shape[0]);
  std::vector<uint8_t> bytes(static_cast<size_t>(last.shape[0]) * size);
  for (int64_t i = 0; i < last.shape[0]; ++i)
    tensor.bytes.copy_to(std::span(bytes).subspan(static_cast<size_t>(i) * size, size),
                         static_cast<size_t>(i * steps + steps - 1) * size);
  return Tensor::from_bytes(last.name, last.dtype, std::move(last.shape), std::move(bytes));
}

/// True if each case of a file states whether the instruction reads C.
bool says_input_d_by_case(const Instruction& instruction) {
  return std::ranges::any_of(immediates_of(instruction), [](const ImmediateInfo& immediate) {
    return immediate.by_case && immediate.name == "enable_input_d";
  });
}

/// The step that begins with C of case `index`, or without C. All wgmma steps in one file share one scale-d: a first
/// step that does not read C becomes one that reads zeros, which gives the same bits.
Case first_step(const Steps& loop, int64_t index, const Instruction& instruction, const VectorFileDefaults& defaults,
                const Placement& placement) {
  const int64_t number = index * loop.count();
  const VectorFile asked = as_vector_file(loop.matrices(0, nullptr), defaults);
  const Mma mma = mma_of(asked.instruction);
  if (mma.enable_input_d || says_input_d_by_case(instruction)) return placed(asked, placement, number);
  const Matrix zeros(mma.d, mma.m, mma.n);
  return placed(as_vector_file(loop.matrices(0, &zeros), defaults), placement, number);
}

}  // namespace

std::optional<UnrolledK> unroll_k(const TensorFile& asked, const VectorFileDefaults& defaults,
                                  const Placement& placement) {
  const TensorFile file = logical_part(asked);
  const Tensor *a = file.find("a"), *b = file.find("b");
  if (!is_cube(a) || !is_cube(b) || a->shape[2] != b->shape[1] || a->shape[0] != b->shape[0]) return std::nullopt;
  for (const Tensor& tensor : file.tensors) {
    if (!is_cube(&tensor) || tensor.shape[0] != a->shape[0]) return std::nullopt;  // a later read reports it
  }
  for (const FieldInfo& field : state_fields) {
    if (asked.find(field.name)) return std::nullopt;
  }
  const std::optional<Instruction> named = named_instruction(file, defaults);
  if (!named || !is_mma(*named) || mma_of(*named).products > 1) return std::nullopt;
  const Instruction& instruction = *named;
  const int64_t whole_k = a->shape[2], k = mma_of(instruction).k;
  if (whole_k <= k || whole_k % k != 0) return std::nullopt;
  const bool says_shape = !shape_and_types_of(instruction).has_value();
  if (says_shape && (a->shape[1] != mma_of(instruction).m || b->shape[2] != mma_of(instruction).n)) return std::nullopt;
  const int64_t steps = whole_k / k, cases = a->shape[0];
  require_known_names(asked, instruction, false);
  for (const Tensor& tensor : file.tensors) {
    const int64_t along = tensor.name == "sfa" ? tensor.shape[2] : tensor.name == "sfb" ? tensor.shape[1] : steps;
    if (along % steps != 0) {
      throw Error({.field = fmt::format("{}: tensor {} shape", file.path, tensor.name),
                   .seen = print_shape(tensor.shape),
                   .expected = fmt::format("scales of {} instructions of K = {}", steps, k)});
    }
  }

  const std::optional<Tensor> whole_d = recorded_tensor(asked);
  if (whole_d && (!is_cube(&*whole_d) || whole_d->shape[0] != cases || whole_d->shape[1] != a->shape[1] ||
                  whole_d->shape[2] != b->shape[2])) {
    throw Error({.field = fmt::format("{}: tensor d shape", file.path),
                 .seen = print_shape(whole_d->shape),
                 .expected = print_shape(std::vector<int64_t>{cases, a->shape[1], b->shape[2]})});
  }

  std::optional<VectorBuilder> builder;
  UnrolledK result{.steps = steps};
  if (whole_d) result.recorded.emplace();
  for (int64_t index = 0; index < cases; ++index) {
    const Steps loop(file, index, steps);
    // The operands stay in place while D changes: this places all steps first, with an arbitrary C after the first.
    std::vector<Case> parts{first_step(loop, index, instruction, defaults, placement)};
    const Mma mma = mma_of(parts.front().instruction);
    const Matrix zeros(mma.d, mma.m, mma.n);
    for (int64_t step = 1; step < steps; ++step)
      parts.push_back(placed(as_vector_file(loop.matrices(step, &zeros), defaults), placement, index * steps + step));
    const MainloopTile tile(parts, placement, filler_stream(1, 0));
    Matrix d;
    const bool has_c = parts.front().logical.c.has_value();
    for (int64_t step = 0; step < steps; ++step) {
      Case& this_case = parts[static_cast<size_t>(step)];
      if (step > 0) {
        TensorFile matrices = loop.matrices(step, &d);
        if (step + 1 == steps && whole_d) matrices.set(case_of(*whole_d, index));
        this_case = placed(as_vector_file(std::move(matrices), defaults), placement, index * steps + step);
      }
      const std::optional<Matrix> recorded = this_case.logical.d;  // of the last step, if the file has it
      const Operands operands = operands_of(this_case.instruction, this_case.logical);
      tile.move_in(this_case, step);
      const Operands read = gather_operands(this_case.instruction, this_case.target, this_case.before);
      if (!(read.a == operands.a) || !(read.b == operands.b)) {
        throw Error({.field = "layout",
                     .seen = fmt::format("step {} of {}", step, steps),
                     .expected = "a layout in which a descriptor can begin there",
                     .fix = "another swizzle, or a shorter K"});
      }
      execute_case(this_case, true);
      d = *this_case.logical.d;
      if (recorded) *result.recorded += compare_case(this_case.instruction, index, *recorded, d);
      if (!has_c) this_case.logical.c.reset();  // all steps need the same parts; the states hold C
      if (!builder) builder.emplace(this_case.instruction, this_case.target);
      builder->add(this_case);
    }
  }
  result.file = std::move(*builder).finish({{"source", version()}, {"k_loop", std::to_string(steps)}});
  for (const auto& [key, value] : asked.metadata)
    if (is_documenting_key(key) && !is_origin_key(key) && !result.file.find_metadata(key))
      result.file.set_metadata(key, value);
  result.file.path = file.path;
  return result;
}

int64_t unrolled_steps(const VectorFile& vectors) {
  const std::string* text = vectors.file.find_metadata("k_loop");
  if (!text) return 0;
  int64_t steps = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), steps);
  const bool is_number = error == std::errc{} && end == text->data() + text->size();
  return is_number && steps > 0 && vectors.cases % steps == 0 ? steps : 0;
}

TensorFile after(const VectorFile& previous, TensorFile file, const VectorFileDefaults& defaults) {
  const std::optional<Instruction> named = named_instruction(file, defaults);
  if (!named)
    throw Error({.code = ViolationCode::missing_instruction,
                 .field = fmt::format("{}: __metadata__ instruction", file.path),
                 .seen = "(missing)",
                 .expected = "a PTX mnemonic"});
  const Instruction& instruction = *named;
  if (!previous.has_state_after()) {
    throw Error({.field = previous.file.path,
                 .seen = "a file without results",
                 .expected = fmt::format("tensor {}: the state after {}", previous.d_tensor(), previous.name()),
                 .fix = "bitmma simulate FILE -o RESULTS writes one"});
  }
  const bool has_field = std::ranges::any_of(
      fields_of(instruction), [&](const FieldRule& rule) { return file.find(info(rule.field).name) != nullptr; });
  if (!has_field && file.find("a") && file.find("b")) {
    throw Error(
        {.field = file.path,
         .seen = "only plain matrices",
         .expected = "images, descriptors or registers to use with the state that the previous instruction left",
         .fix = "bitmma simulate FILE -o STATES writes them (with zeros as c if the instruction requires c)"});
  }
  int taken = 0;
  bool is_replaced = false;  // whether the state to which the file's results belong is replaced
  for (const FieldRule& rule : fields_of(instruction)) {
    const FieldInfo& field = info(rule.field);
    if (rule.access == Access::write || field.is_number) continue;
    const Tensor* left = field.after.empty() ? nullptr : previous.file.find(field.after);
    const Tensor* own = file.find(field.name);
    const Tensor* from = left ? left : own ? nullptr : previous.file.find(field.name);
    if (!from) continue;
    const Tensor last = last_steps_of(*from, unrolled_steps(previous));
    if (own && left && !own->shape.empty() && !last.shape.empty() && own->shape[0] != last.shape[0]) {
      throw Error({.field = file.path,
                   .seen = std::to_string(own->shape[0]) + " cases",
                   .expected = fmt::format("{}, as {} leaves", last.shape[0], previous.file.path)});
    }
    is_replaced |= own != nullptr;
    Tensor tensor = with_columns_of(last, rule.field == Field::tmem ? own : nullptr);
    tensor.name = field.name;
    file.set(std::move(tensor));
    ++taken;
  }
  // Results that were recorded after the file's own state do not apply to this state.
  for (const std::string_view name : logical_tensor_names)
    if (name != "d" || is_replaced) file.erase(name);
  for (const FieldInfo& field : state_fields) {
    if (!field.after.empty() && is_replaced) file.erase(field.after);
  }
  if (taken == 0) {
    throw Error({.field = file.path,
                 .seen = fmt::format("{} after {}", print(instruction), previous.name()),
                 .expected = "an instruction that reads what the previous one left"});
  }
  return file;
}

}  // namespace bitmma
