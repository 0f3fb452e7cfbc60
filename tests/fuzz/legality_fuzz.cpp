// Instructions with any fields: legality always has an answer, and what is legal can be laid out and runs.
#include "bitmma/hardware/ptx_kernel.hpp"
#include "bitmma/instruction/evidence.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/stimulus/random_case.hpp"
#include "fuzz.hpp"

namespace bitmma::fuzz {
namespace {

Rounding any_rounding(Bytes& in) { return static_cast<Rounding>(between(in, 0, 4)); }
OperandSource any_source(Bytes& in) { return static_cast<OperandSource>(between(in, 0, 2)); }
BitOperation any_operation(Bytes& in) { return static_cast<BitOperation>(between(in, 0, 2)); }
ScaleVec any_scale_vec(Bytes& in) { return static_cast<ScaleVec>(between(in, 0, 5)); }

void change(Bytes& in, Wgmma& wgmma) {
  switch (between(in, 0, 14)) {
    case 0: wgmma.m = number(in); break;
    case 1: wgmma.n = number(in); break;
    case 2: wgmma.k = number(in); break;
    case 3: wgmma.d = any_format(in); break;
    case 4: wgmma.a = any_format(in); break;
    case 5: wgmma.b = any_format(in); break;
    case 6: wgmma.sparse ^= true; break;
    case 7: wgmma.bit_operation = any_operation(in); break;
    case 8: wgmma.saturate ^= true; break;
    case 9: wgmma.a_source = any_source(in); break;
    case 10: wgmma.enable_input_d ^= true; break;
    case 11: wgmma.negate_a ^= true, wgmma.negate_b ^= in.ConsumeBool(); break;
    case 12: wgmma.transpose_a ^= true; break;
    case 13: wgmma.transpose_b ^= true; break;
    case 14: wgmma.sparsity_selector = number(in); break;
  }
}

void change(Bytes& in, MmaSync& instruction) {
  switch (between(in, 0, 18)) {
    case 0: instruction.m = number(in); break;
    case 1: instruction.n = number(in); break;
    case 2: instruction.k = number(in); break;
    case 3: instruction.d = any_format(in); break;
    case 4: instruction.a = any_format(in); break;
    case 5: instruction.b = any_format(in); break;
    case 6: instruction.c = any_format(in); break;
    case 7: instruction.sparse ^= true; break;
    case 8: instruction.ordered_metadata ^= true; break;
    case 9: instruction.a_col ^= true; break;
    case 10: instruction.b_row ^= true; break;
    case 11: instruction.bit_operation = any_operation(in); break;
    case 12: instruction.saturate ^= true; break;
    case 13: instruction.rounding = in.ConsumeBool() ? std::optional(any_rounding(in)) : std::nullopt; break;
    case 14: instruction.scale_vec = any_scale_vec(in); break;
    case 15: instruction.scale_type = any_format(in); break;
    case 16: instruction.byte_id_a = number(in), instruction.thread_id_a = number(in); break;
    case 17: instruction.byte_id_b = number(in), instruction.thread_id_b = number(in); break;
    case 18: instruction.kind = in.ConsumeBool() ? std::optional(pick(in, mma_kinds).id) : std::nullopt; break;
  }
  if (one_in(in, 10)) instruction.sparsity_selector = number(in);
}

void change(Bytes& in, Tcgen05Mma& instruction) {
  switch (between(in, 0, 22)) {
    case 0: instruction.kind = pick(in, mma_kinds).id; break;
    case 1: instruction.cta_group = number(in); break;
    case 2: instruction.weight_stationary ^= true; break;
    case 3: instruction.m = one_in(in, 3) ? number(in) : 32 << between(in, 0, 3); break;
    case 4: instruction.n = number(in); break;
    case 5: instruction.k = number(in); break;
    case 6: instruction.d = any_format(in); break;
    case 7: instruction.a = any_format(in); break;
    case 8: instruction.b = any_format(in); break;
    case 9: instruction.sparse ^= true; break;
    case 10: instruction.saturate ^= true; break;
    case 11: instruction.a_source = any_source(in); break;
    case 12: instruction.enable_input_d ^= true; break;
    case 13: instruction.scale_input_d = number(in); break;
    case 14: instruction.negate_a ^= true, instruction.negate_b ^= in.ConsumeBool(); break;
    case 15: instruction.transpose_a ^= true, instruction.transpose_b ^= in.ConsumeBool(); break;
    case 16: instruction.sparsity_selector = number(in); break;
    case 17: instruction.max_shift_code = number(in); break;
    case 18: instruction.scale_vec = any_scale_vec(in); break;
    case 19: instruction.scale_type = any_format(in); break;
    case 20: instruction.scale_a_id = number(in), instruction.scale_b_id = number(in); break;
    case 21: instruction.ashift ^= true; break;
    case 22:
      instruction.collector = Collector{static_cast<CollectorBuffer>(between(in, 0, 4)),
                                        static_cast<CollectorOperation>(between(in, 0, 3))};
      break;
  }
}

void change(Bytes& in, TmemMove& move) {
  switch (between(in, 0, 11)) {
    case 0: move.kind = static_cast<MoveKind>(between(in, 0, 4)); break;
    case 1: move.cta_group = number(in); break;
    case 2: move.ldst.shape = pick(in, ldst_shapes).id; break;
    case 3: move.ldst.num = number(in); break;
    case 4: move.ldst.pack_16b ^= true; break;
    case 5: move.ldst.split_columns = number(in); break;
    case 6: move.half_split_offset = number<uint32_t>(in); break;
    case 7: move.cp_shape = number(in); break;
    case 8: move.source_format = static_cast<CpSourceFormat>(between(in, 0, 2)); break;
    case 9: move.reduction.operation = static_cast<ReduceOperation>(between(in, 0, 1)); break;
    case 10: move.reduction.absolute = in.ConsumeBool(), move.reduction.propagate_nan = in.ConsumeBool(); break;
    case 11: move.reduction.type = any_format(in); break;
  }
}

bool is_small(const Instruction& instruction) {
  if (!is_mma(instruction)) return true;
  const Mma mma = mma_of(instruction);
  return int64_t{mma.m} * mma.n * mma.k <= 128 * 32 * 64;
}

void run(Bytes& in, const Instruction& instruction, Target target) {
  require(parse_instruction(print(instruction)).index() == instruction.index(), "a legal instruction prints as PTX");
  require(parse_statement(print(statement_of(instruction))).instruction.index() == instruction.index(),
          "and as a statement");
  (void)choices_of(instruction, target), (void)ptx_version_of(instruction, target), (void)fields_of(instruction);
  for (const ImmediateInfo& immediate : immediates_of(instruction)) {
    const int64_t value = immediate_of(instruction, immediate.name);
    require(value >= immediate.first && value <= immediate.last, "an immediate of a legal instruction is in its range");
  }
  (void)ptx_kernel(instruction, {.image_bytes = 4096, .target = target});
  if (!is_small(instruction) && !one_in(in, 16)) return;
  Placement placement;
  if (is_mma(instruction)) {
    const Mma mma = mma_of(instruction);
    (void)model_for(instruction, target), (void)evidence_of(instruction, target);
    placement.a.major = mma.a_major, placement.b.major = mma.b_major;
  }
  const auto seed = in.ConsumeIntegral<uint16_t>();
  const Distribution distribution = any_distribution(in);
  // Some types and major-nesses are read from one swizzle alone, which is for execute to say.
  constexpr Swizzle tried[] = {Swizzle::b128, Swizzle::none, Swizzle::b128_atom32};
  for (const Swizzle swizzle_a : tried) {
    for (const Swizzle swizzle_b : tried) {
      placement.a.swizzle = swizzle_a, placement.b.swizzle = swizzle_b;
      if (accepts([&] {
            Case this_case = random_case(instruction, target, placement, distribution, seed, 0);
            execute(this_case.instruction, target, this_case.before);
          }))
        return;
    }
  }
  // The offset of a second piece is any number; not every one leads to a place.
  const auto* move = std::get_if<TmemMove>(&instruction);
  require(move && move->half_split_offset != 0, "what is legal can be laid out in some way");
}

}  // namespace
}  // namespace bitmma::fuzz

void fuzz_one(bitmma::fuzz::Bytes& in) {
  using namespace bitmma;
  using namespace bitmma::fuzz;
  Instruction instruction = listed_instruction(in);
  for (int changes = between(in, 0, 5); changes > 0; --changes) {
    std::visit([&](auto& alternative) { change(in, alternative); }, instruction);
  }
  const Target target = in.ConsumeBool() ? default_target(instruction) : any_target(in);
  const std::vector<Violation> violations = violations_of(instruction, target);
  for (const Violation& violation : violations) (void)print(violation);
  accepts([&] { (void)evidence_of(instruction, target); });
  if (violations.empty()) run(in, instruction, target);
}
