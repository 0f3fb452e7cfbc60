// Instructions on any state: execute runs or refuses, every instruction set gives the same bits, and a refusal changes
// nothing.
#include "bitmma/analysis/lint.hpp"
#include "bitmma/arithmetic/cpu_target.hpp"
#include "bitmma/instruction/evidence.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/place.hpp"
#include "fuzz.hpp"

namespace bitmma::fuzz {
namespace {

/// A legal instruction with other immediates and, of tcgen05, another shape and other types.
Instruction any_legal(Bytes& in) {
  Instruction made = listed_instruction(in);
  const auto keep_if_legal = [&](const auto& change) {
    accepts([&] {
      const Instruction changed = change();
      if (violations_of(changed, default_target(changed)).empty()) made = changed;
    });
  };
  if (std::optional<ShapeAndTypes> fields = shape_and_types_of(made)) {
    fields->m = 32 << between(in, 0, 3), fields->n = 8 * between(in, 1, one_in(in, 8) ? 32 : 6);
    keep_if_legal([&] { return with_shape_and_types(made, *fields); });
    if (in.ConsumeBool()) fields->a = any_format(in), fields->b = any_format(in);
    keep_if_legal([&] { return with_shape_and_types(made, *fields); });
  }
  if (is_mma(made) && in.ConsumeBool()) {
    keep_if_legal(
        [&] { return with_a_source(made, in.ConsumeBool() ? OperandSource::registers : OperandSource::tmem); });
  }
  for (const ImmediateInfo& immediate : immediates_of(made)) {
    if (immediate.name == "idesc" || in.ConsumeBool()) continue;
    keep_if_legal([&] {
      return with_immediate(made, immediate.name, in.ConsumeIntegralInRange(immediate.first, immediate.last));
    });
  }
  return made;
}

void look(const Instruction& instruction, Target target, const State& state) {
  accepts([&] { (void)warnings_of(instruction, target, state); });
  accepts([&] { (void)choices_of(instruction, target, state); });
  accepts([&] { (void)recorded_result(instruction, state); });
  (void)lint({.instruction = instruction, .target = target, .before = state});
  for (const Role role : {Role::a, Role::b, Role::d}) {
    accepts([&] { (void)print(PlaceMap(instruction, target, state, role).place_of(0, 0)); });
  }
}

}  // namespace
}  // namespace bitmma::fuzz

void fuzz_one(bitmma::fuzz::Bytes& in) {
  using namespace bitmma;
  using namespace bitmma::fuzz;
  const Instruction instruction = any_legal(in);
  const Target target = one_in(in, 16) ? any_target(in) : default_target(instruction);
  const State before = any_state(in, instruction, target);
  const bool looked = one_in(in, 4);
  State after = before;
  const bool runs = accepts([&] { execute(instruction, target, after); });
  require(runs || after == before, "a refusal changes nothing");
  use_cpu_target(pick(in, cpu_targets()));
  State again = before;
  require(accepts([&] { execute(instruction, target, again); }) == runs, "every instruction set refuses the same");
  use_cpu_target(cpu_targets().front());
  require(again == after, "every instruction set gives the same bits");
  if (runs) {
    require(result_of(instruction, target, before) == recorded_result(instruction, after),
            "the result is what is left");
    if (is_mma(instruction)) (void)gather_operands(instruction, target, before);
  } else {
    accepts([&] { (void)gather_operands(instruction, target, before); });
    accepts([&] { (void)result_of(instruction, target, before); });
  }
  if (looked) look(instruction, target, before);
}
