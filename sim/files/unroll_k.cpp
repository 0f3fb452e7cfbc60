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
#include "vector_parts.hpp"
#include "vector_schema.hpp"

namespace bitmma {
namespace {

/// `plain` with the state that holds its matrices, with a separate image.
Case placed(Case plain, const Placement& placement, int64_t number) {
  plain.instruction = with_majors(plain.instruction, placement.a, placement.b);
  require_legal(plain.instruction, plain.target);
  plain.before = place_operands(plain.instruction, placement, operands_of(plain.instruction, plain.logical),
                                filler_stream(0, static_cast<uint64_t>(number)));
  return plain;
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

/// The step that begins with C of the case, or without C. All wgmma steps in one file share one scale-d: a first step
/// that does not read C becomes one that reads zeros, which gives the same bits.
Case first_step(const Case& loop) {
  Case step = instruction_at(loop, 0, 0, 0);
  const Mma mma = mma_of(step.instruction);
  if (mma.enable_input_d || says_input_d_by_case(step.instruction)) return step;
  step.instruction = with_enable_input_d(step.instruction, true);
  step.logical.c = Matrix(mma.d, mma.m, mma.n);
  return step;
}

/// The steps of one case, with states and D, from one image. `first_number` is the number of its first step.
std::vector<Case> unrolled(const Case& loop, const Placement& placement, int64_t first_number) {
  const int count = tiling_of(loop).k;
  // The operands stay in place while D changes: this places all steps first, with an arbitrary C after the first.
  std::vector<Case> steps{placed(first_step(loop), placement, first_number)};
  const Mma mma = mma_of(loop.instruction);
  Matrix d(mma.d, mma.m, mma.n);
  for (int step = 1; step < count; ++step)
    steps.push_back(placed(instruction_at(loop, 0, 0, step, &d), placement, first_number + step));
  const MainloopTile tile(steps, placement, filler_stream(1, 0));
  const bool has_c = steps.front().logical.c.has_value();
  for (int step = 0; step < count; ++step) {
    Case& of_step = steps[static_cast<size_t>(step)];
    if (step > 0) of_step = placed(instruction_at(loop, 0, 0, step, &d), placement, first_number + step);
    const Operands operands = operands_of(of_step.instruction, of_step.logical);
    tile.move_in(of_step, step);
    const Operands read = gather_operands(of_step.instruction, of_step.target, of_step.before);
    if (!(read.a == operands.a) || !(read.b == operands.b)) {
      throw Error({.field = "layout",
                   .seen = fmt::format("step {} of {}", step, count),
                   .expected = "a layout in which a descriptor can begin there",
                   .fix = "another swizzle, or a shorter K"});
    }
    execute_case(of_step, true);
    d = *of_step.logical.d;
    if (!has_c) of_step.logical.c.reset();  // all steps need the same parts; the states hold C
  }
  return steps;
}

}  // namespace

bool is_k_loop(const VectorFile& vectors) {
  return vectors.tiling.m == 1 && vectors.tiling.n == 1 && vectors.tiling.k > 1 && !is_of_steps(vectors);
}

VectorFile unroll_k(const VectorFile& loops, const Placement& placement) {
  if (!is_k_loop(loops)) {
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = fmt::format("{}: tile", loops.file.path),
                 .seen = fmt::format("{} x {} x {} instructions", loops.tiling.m, loops.tiling.n, loops.tiling.k),
                 .expected = "plain matrices with M and N of one instruction and K of several"});
  }
  std::optional<VectorBuilder> builder;
  for (int64_t index = 0; index < loops.cases; ++index) {
    for (const Case& step : unrolled(case_at(loops, index), placement, index * loops.tiling.k)) {
      if (!builder) builder.emplace(step.instruction, step.target);
      builder->add(step);
    }
  }
  TensorFile file = std::move(*builder).finish({{"source", version()}, {"k_loop", std::to_string(loops.tiling.k)}});
  for (const auto& [key, value] : loops.file.metadata)
    if (is_documenting_key(key) && !is_origin_key(key) && !file.find_metadata(key)) file.set_metadata(key, value);
  file.path = loops.file.path;
  return as_vector_file(std::move(file));
}

int64_t unrolled_steps(const VectorFile& vectors) {
  if (!vectors.tiling.is_one_instruction()) return 0;
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
