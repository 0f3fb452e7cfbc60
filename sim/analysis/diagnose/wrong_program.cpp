// SPDX-License-Identifier: MIT
#include "bitmma/analysis/wrong_program.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>

#include "../../files/vector_parts.hpp"
#include "../../instruction/family.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/numbers.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/core/version.hpp"
#include "catalogue.hpp"

namespace bitmma {
namespace {

constexpr auto matrix_names = std::to_array<std::string_view>({"a", "b", "c", "sfa", "sfb"});

bool is_of_matrix(const CodeChange& change) {
  return std::ranges::find(matrix_names, change.name) != matrix_names.end();
}

[[noreturn]] void refuse(const CodeChange& change, std::string expected) {
  throw Error({.code = ViolationCode::wrong_shape,
               .field = "set",
               .seen = fmt::format("{}[{}]", printable(change.name), fmt::join(change.index, ",")),
               .expected = std::move(expected)});
}

/// The position of the element in an array of these extents.
size_t position_in(const CodeChange& change, const Extents& extents) {
  size_t position = 0;
  bool fits = change.index.size() == extents.size();
  for (size_t axis = 0; fits && axis < extents.size(); ++axis) {
    fits = change.index[axis] >= 0 && change.index[axis] < extents[axis];
    position = position * static_cast<size_t>(extents[axis]) + static_cast<size_t>(change.index[axis]);
  }
  if (!fits) refuse(change, fmt::format("an index below {}", fmt::join(extents, ", ")));
  return position;
}

void require_bits(const CodeChange& change, int bits) {
  if (bits >= 64 || change.code >> bits == 0) return;
  throw Error({.field = "set",
               .seen = fmt::format("{} = {:#x}", change.name, change.code),
               .expected = fmt::format("a code of {} bits", bits)});
}

void apply(const CodeChange& change, State& state) {
  const auto row = std::ranges::find(state_fields, std::string_view(change.name), &FieldInfo::name);
  if (row == state_fields.end() || !state.has(row->id)) {
    std::vector<std::string> legal(matrix_names.begin(), matrix_names.end());
    for (const Buffer& buffer : state.buffers()) legal.emplace_back(info(buffer.field()).name);
    throw Error({.code = ViolationCode::unknown_name, .field = "set", .seen = printable(change.name), .legal = legal});
  }
  const Field field = row->id;
  if (row->is_number) {
    if (!change.index.empty()) refuse(change, "no index: it is a number");
    return state.set(field, change.code);
  }
  const auto buffer = std::ranges::find(state.buffers(), field, &Buffer::field);
  const Extents extents = buffer->extents();
  const size_t position = position_in(change, extents);
  if (row->type == ElementType::u8) {
    require_bits(change, 8);
    std::vector<uint8_t> bytes(buffer->bytes().begin(), buffer->bytes().end());
    bytes[position] = static_cast<uint8_t>(change.code);
    return state.set(field, std::move(bytes), extents);
  }
  const bool is_wide = buffer->is_wide();
  require_bits(change, is_wide ? 64 : 32);
  const std::span<uint32_t> words = state.writable_words(field);
  words[is_wide ? 2 * position : position] = static_cast<uint32_t>(change.code);
  if (is_wide) words[2 * position + 1] = static_cast<uint32_t>(change.code >> 32);
}

Matrix* matrix_of(std::string_view name, Operands& operands) {
  if (name == "a") return &operands.a;
  if (name == "b") return &operands.b;
  if (name == "c") return operands.c ? &*operands.c : nullptr;
  if (!operands.scales) return nullptr;
  return name == "sfa" ? &operands.scales->a : &operands.scales->b;
}

void apply(const CodeChange& change, Operands& operands) {
  Matrix* const matrix = matrix_of(change.name, operands);
  if (!matrix)
    throw Error({.code = ViolationCode::no_effect,
                 .field = "set",
                 .seen = change.name,
                 .expected = "an operand that the instruction reads"});
  static_cast<void>(position_in(change, {matrix->rows(), matrix->cols()}));
  require_bits(change, info(matrix->format()).bits);
  matrix->set_code(static_cast<int>(change.index[0]), static_cast<int>(change.index[1]), change.code);
}

/// The cases with the changes of their states.
std::vector<Case> changed_cases(std::span<const Case> cases, const WrongProgram& program) {
  std::vector<Case> changed(cases.begin(), cases.end());
  for (const CodeChange& change : program.changes) {
    if (is_of_matrix(change)) continue;
    for (Case& this_case : changed) apply(change, this_case.before);
  }
  return changed;
}

/// `d` where the instruction writes it, in a state that is otherwise that before the instruction.
State state_with(const Case& this_case, const Matrix& d) {
  State after = this_case.before;
  family::dispatch(
      [&](const auto& instruction) {
        if constexpr (requires { family::scatter(instruction, family::Tile(), d, after); })
          family::scatter(instruction, family::Tile(), d, after);
      },
      this_case.instruction);
  return written_part(this_case.instruction, std::move(after));
}

std::string description_of(const WrongProgram& program) {
  std::string text;
  for (const std::string& fault : program.faults) text += " --fault " + fault;
  for (const CodeChange& change : program.changes)
    text += fmt::format(" --set {}{}={:#x}", change.name,
                        change.index.empty() ? "" : fmt::format("[{}]", fmt::join(change.index, ",")), change.code);
  return text;
}

}  // namespace

CodeChange parse_change(std::string_view text) {
  const auto malformed = [&]() -> Error {
    return Error(
        {.code = ViolationCode::malformed,
         .field = "set",
         .seen = shortened(printable(text)),
         .expected = "NAME[INDEX,...]=CODE, such as a[3,4]=0x3c00, a_regs[0,1]=0x3c003c00 or smem[0x400]=0xff"});
  };
  const size_t equal = text.find('='), bracket = text.find('[');
  if (equal == std::string_view::npos || equal == 0 || bracket == 0) throw malformed();
  const bool has_index = bracket < equal;
  if (has_index != (text[equal - 1] == ']')) throw malformed();
  CodeChange change{.name = std::string(text.substr(0, std::min(bracket, equal)))};
  const auto code = parse_whole(text.substr(equal + 1));
  if (!code) throw malformed();
  change.code = *code;
  if (!has_index) return change;
  for (const std::string& part : split_list(text.substr(bracket + 1, equal - bracket - 2))) {
    const auto index = parse_whole(part);
    if (!index || *index > INT32_MAX) throw malformed();
    change.index.push_back(static_cast<int64_t>(*index));
  }
  return change;
}

Matrix wrong_d(std::span<const Case> cases, int64_t index, const WrongProgram& program) {
  const std::vector<Case> changed = changed_cases(cases, program);
  const auto of_matrices = [&](const CodeChange& change) { return is_of_matrix(change); };
  if (std::ranges::none_of(program.changes, of_matrices)) return faulty_d(changed, index, program.faults);
  const Subject subject(changed, index);
  Parts parts = faulty_parts(subject, program.faults);
  if (!std::holds_alternative<AsComputed>(parts.outcome) && !std::holds_alternative<Moved>(parts.outcome)) {
    throw Error({.code = ViolationCode::not_together,
                 .field = "set",
                 .seen = fmt::format("{} beside a fault of D", program.changes.front().name),
                 .expected = "without a fault of whole steps or cases, which computes D from the unchanged operands"});
  }
  for (const CodeChange& change : program.changes)
    if (is_of_matrix(change)) apply(change, parts.operands);
  return evaluate(subject, parts);
}

WrongFile with_wrong_d(const VectorFile& vectors, const WrongProgram& program) {
  if (!is_mma(vectors.instruction))
    throw Error({.code = ViolationCode::wrong_instruction,
                 .field = "instruction",
                 .seen = vectors.name(),
                 .expected = "a matrix instruction"});
  std::vector<Case> cases;
  for (int64_t index = 0; index < vectors.cases; ++index) {
    Case& this_case = cases.emplace_back(case_at(vectors, index));
    if (this_case.has_state()) this_case.logical = {};  // the state takes precedence
  }
  WrongFile result{.cases = vectors.cases};
  std::vector<Case> wrong;
  for (int64_t index = 0; index < vectors.cases; ++index) {
    const Case& right = cases[static_cast<size_t>(index)];
    Case& with_d = wrong.emplace_back(Case{.instruction = right.instruction, .target = right.target});
    with_d.logical.d = wrong_d(cases, index, program);
    const Matrix truth = faulty_d(cases, index, {});
    result.outputs += static_cast<int64_t>(truth.size());
    result.wrong += count_differing(truth, *with_d.logical.d);
    if (right.has_state()) with_d.after = state_with(right, *with_d.logical.d);
  }
  vectors.require_unchanged();
  VectorFile inputs = vectors;
  inputs.file = without_results(std::move(inputs.file));
  VectorBuilder builder(vectors.instruction, vectors.target);
  for (const Case& this_case : wrong) builder.add(this_case);
  std::vector<Tensor> results;
  TensorFile built = std::move(builder).finish({});
  for (const std::string_view name : results_of(built)) results.push_back(*built.find(name));
  result.file =
      with_results(inputs, std::move(results), fmt::format("{}, wrong program:{}", version(), description_of(program)));
  return result;
}

}  // namespace bitmma
