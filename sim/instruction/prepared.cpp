// SPDX-License-Identifier: MIT
#include "bitmma/instruction/prepared.hpp"

#include <fmt/format.h>

#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/statement.hpp"
#include "family.hpp"
#include "mma_sync/warp_execution.hpp"

namespace bitmma {
struct Prepared::Inside {
  Instruction instruction;
  Target target;
  const AccumulatorModel* model;  // nullptr: it moves data
  FieldRules rules;
  std::optional<family::WarpExecution> of_warp;
  WarpWords words = {};
};

Prepared::Prepared(const Instruction& instruction, Target target) {
  require_legal(instruction, target);
  const AccumulatorModel* const model = is_mma(instruction) ? &model_for(instruction, target) : nullptr;
  Inside inside{.instruction = instruction,
                .target = target,
                .model = model,
                .rules = fields_of(instruction),
                .of_warp = family::warp_execution_of(instruction, model)};
  if (inside.of_warp) inside.words = inside.of_warp->words();
  inside_ = std::make_shared<const Inside>(std::move(inside));
}

const Instruction& Prepared::instruction() const { return inside_->instruction; }
Target Prepared::target() const { return inside_->target; }
const WarpWords& Prepared::words() const { return inside_->words; }

void Prepared::execute(State& state) const {
  const Inside& inside = *inside_;
  family::require_readable(inside.instruction, inside.target, inside.rules, state);
  if (inside.of_warp && inside.of_warp->is_fast()) return inside.of_warp->execute(state);
  family::run(inside.instruction, inside.model, state);
}

void Prepared::execute_batch(int64_t count, const WarpRegisters& registers, uint32_t* d, int64_t d_stride) const {
  if (!inside_->of_warp) {
    throw Error({.code = ViolationCode::wrong_instruction,
                 .field = "instruction",
                 .seen = print(instruction()),
                 .expected = "mma.sync or mma.sp, whose operands are the registers of a warp",
                 .fix = "execute(State&)"});
  }
  const WarpWords& words = this->words();
  std::vector<Violation> violations;
  const auto require = [&](const uint32_t* words_pointer, int wanted, std::string_view name) {
    if ((words_pointer != nullptr) == (wanted > 0)) return;
    violations.push_back({.code = words_pointer ? ViolationCode::no_effect : ViolationCode::missing_input,
                          .field = std::string(name),
                          .seen = words_pointer ? "given" : "NULL",
                          .expected = wanted > 0 ? fmt::format("a pointer to {} words a product", wanted)
                                                 : fmt::format("NULL: {} has no such operand", print(instruction()))});
  };
  if (count < 0) {
    violations.push_back(
        {.field = "count", .seen = std::to_string(count), .expected = "a number of products, 0 or more"});
  }
  require(registers.a.words, words.a, "a"), require(registers.b.words, words.b, "b");
  require(registers.c.words, words.c, "c"), require(registers.metadata.words, words.metadata, "metadata");
  require(registers.scale_a.words, words.scale_a, "scale_a"),
      require(registers.scale_b.words, words.scale_b, "scale_b");
  require(d, words.d, "d");
  if (!violations.empty()) throw Error(std::move(violations));

  const auto at = [](const RegisterView& view, int64_t i) { return RegisterView(view.words + i * view.stride); };
  for (int64_t i = 0; i < count; ++i) {
    inside_->of_warp->execute({.a = at(registers.a, i),
                               .b = at(registers.b, i),
                               .c = at(registers.c, i),
                               .metadata = at(registers.metadata, i),
                               .scale_a = at(registers.scale_a, i),
                               .scale_b = at(registers.scale_b, i)},
                              d + i * d_stride);
  }
}

}  // namespace bitmma
