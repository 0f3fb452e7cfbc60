#include "bitmma/instruction/evidence.hpp"

#include <algorithm>
#include <array>

#include "bitmma/instruction/simulate.hpp"

namespace bitmma {
namespace {

struct ChoiceRow {
  Choice choice;
  bool (*applies)(const Instruction&);
};

bool is_tcgen05(const Instruction& i) { return i.family == Family::tcgen05; }
bool has_format(const Instruction& i, Format format) { return i.a == format || i.b == format; }

// Layout C, D of a sparse M = 128 over two CTAs, is TVM's and the ISA's; what CUTLASS lacks there is not a choice of
// ours.
constexpr auto rows = std::to_array<ChoiceRow>({
    {{"sparse tcgen05 sums the selected products as the dense instruction does", true},
     [](const Instruction& i) { return is_tcgen05(i) && i.sparse; }},
    {{"scale_input_d: D * 2^-s enters the sum exactly", true},
     [](const Instruction& i) { return i.scale_input_d != 0; }},
    {{"K = 96: six groups by the rule of K = 64", true},
     [](const Instruction& i) { return is_tcgen05(i) && i.k == 96 && i.has_block_scales(); }},
    {{"fp4 groups: two published models differ where C's exponent lies between the scales' and the products' with a "
      "group 23 binades lower",
      false},
     [](const Instruction& i) { return is_tcgen05(i) && i.has_block_scales() && i.kind != MmaKind::mxf8f6f4; }},
    {{"undefined metadata selects as on an H200", false},
     [](const Instruction& i) { return i.family != Family::wgmma && i.sparse; }},
    {{"the upper half of a cell with an f16 element of D is kept", false},
     [](const Instruction& i) { return is_tcgen05(i) && i.d == Format::f16; }},
    {{"e2m1 of A in Tensor Memory sits in bits 5:2 of its byte", false},
     [](const Instruction& i) {
       return is_tcgen05(i) && i.a_source == OperandSource::tmem && i.a == Format::e2m1 && i.container_bits(i.a) == 8;
     }},
    {{".ashift moves rows within each 32 lanes, the last one stays", false},
     [](const Instruction& i) { return i.ashift; }},
    {{"the zero-column mask covers the columns of D, after the shift, and a zeroed column still makes NaN of infinity",
      false},
     [](const Instruction& i) { return i.weight_stationary; }},
    {{"sparse metadata of rows in half partitions, and of tf32 and f16 selectors 2 and 3, by extension", false},
     [](const Instruction& i) {
       const bool half_lanes = (i.m == 64 && !i.weight_stationary) || (i.m == 128 && i.cta_group == 2);
       return is_tcgen05(i) && i.sparse && (half_lanes || i.sparsity_selector >= 2);
     }},
    {{"two-by-two scales of B over two CTAs as CUTLASS lays them out", false},
     [](const Instruction& i) { return is_tcgen05(i) && i.has_block_scales() && i.m == 128 && i.cta_group == 2; }},
    {{"padding bits of registers are ignored", false},
     [](const Instruction& i) {
       return i.family == Family::mma_sync && i.kind == MmaKind::mxf8f6f4 &&
              (has_format(i, Format::e2m1) || has_format(i, Format::e2m3) || has_format(i, Format::e3m2));
     }},
});

}  // namespace

std::vector<Choice> choices_of(const Instruction& instruction) {
  std::vector<Choice> found;
  for (const ChoiceRow& row : rows) {
    if (row.applies(instruction)) found.push_back(row.choice);
  }
  return found;
}

std::vector<Choice> choices_of(const TmemMove& move) {
  if (move.kind == MoveKind::shift) return {{"only the 32 lanes of the address move, down by one, the last stays"}};
  if (move.kind == MoveKind::st && move.ldst.pack_16b) return {{".unpack::16b keeps the upper halves of its cells"}};
  if (move.kind == MoveKind::cp && move.source_format == "b4x16_p64")
    return {{"4-bit codes land in bits 5:2 of their bytes, where A's are read"}};
  return {};
}

Evidence evidence_of(const Instruction& instruction) {
  const std::vector<Choice> choices = choices_of(instruction);
  const bool chosen = std::ranges::any_of(choices, [](const Choice& choice) { return choice.is_arithmetic; });
  return chosen ? Evidence::model_choice : model_for(instruction).evidence;
}

}  // namespace bitmma
