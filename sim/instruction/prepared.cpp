// SPDX-License-Identifier: MIT
#include "bitmma/instruction/prepared.hpp"

#include <fmt/format.h>

#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/statement.hpp"
#include "family.hpp"
#include "mma_sync/warp_execution.hpp"

namespace bitmma {
namespace {

family::WarpExecution execution_of(const Instruction& instruction, Target target) {
  require_legal(instruction, target);
  return family::dispatch(
      [&](const auto& one) -> family::WarpExecution {
        if constexpr (requires { family::WarpExecution(one, model_for(instruction, target)); })
          return family::WarpExecution(one, model_for(instruction, target));
        throw Error({.field = "instruction", .seen = print(instruction), .expected = "mma.sync or mma.sp"});
      },
      instruction);
}

}  // namespace

struct Prepared::Inside {
  Instruction instruction;
  Target target;
  family::WarpExecution execution;
};

Prepared::Prepared(const Instruction& instruction, Target target)
    : inside_(std::make_shared<Inside>(Inside{instruction, target, execution_of(instruction, target)})) {}

const Instruction& Prepared::instruction() const { return inside_->instruction; }
Target Prepared::target() const { return inside_->target; }
const WarpWords& Prepared::words() const { return inside_->execution.words(); }

void Prepared::execute_batch(int64_t count, const WarpRegisters& registers, uint32_t* d, int64_t d_stride) const {
  const WarpWords& words = this->words();
  std::vector<Violation> found;
  const auto require = [&](const uint32_t* given, int wanted, std::string_view name) {
    if ((given != nullptr) == (wanted > 0)) return;
    found.push_back({.field = std::string(name),
                     .seen = given ? "given" : "NULL",
                     .expected = wanted > 0 ? fmt::format("a pointer to {} words a product", wanted)
                                            : fmt::format("NULL: {} has no such operand", print(instruction()))});
  };
  if (count < 0) {
    found.push_back({.field = "count", .seen = std::to_string(count), .expected = "a number of products, 0 or more"});
  }
  require(registers.a.words, words.a, "a"), require(registers.b.words, words.b, "b");
  require(registers.c.words, words.c, "c"), require(registers.metadata.words, words.metadata, "metadata");
  require(registers.scale_a.words, words.scale_a, "scale_a"),
      require(registers.scale_b.words, words.scale_b, "scale_b");
  require(d, words.d, "d");
  if (!found.empty()) throw Error(std::move(found));

  const auto at = [](const RegisterView& view, int64_t i) { return RegisterView(view.words + i * view.stride); };
  for (int64_t i = 0; i < count; ++i) {
    inside_->execution.execute({.a = at(registers.a, i),
                                .b = at(registers.b, i),
                                .c = at(registers.c, i),
                                .metadata = at(registers.metadata, i),
                                .scale_a = at(registers.scale_a, i),
                                .scale_b = at(registers.scale_b, i)},
                               d + i * d_stride);
  }
}

}  // namespace bitmma
