// SPDX-License-Identifier: MIT
// The named fields of wgmma.mma_async.
#include "../field.hpp"
#include "bitmma/instruction/form.hpp"

namespace bitmma::family {
namespace {

/// True if the types allow the immediate: `form.negate`, `form.transpose`.
bool may_negate(const Wgmma& wgmma) {
  const Form* form = find_form(wgmma);
  return !form || form->negate;
}

constexpr auto fields_of_wgmma = std::to_array<NamedField<Wgmma>>({
    number<&Wgmma::m>("m", "rows of A and D: 64"),
    number<&Wgmma::n>("n", "columns of B and D: 8..256 in steps of 8; for integers and bits in steps of 16 from 32 on"),
    format<&Wgmma::d>("d", "type of C and D; default f32, for integers and bits s32"),
    format<&Wgmma::a>("a", "type of A"),
    format<&Wgmma::b>("b", "type of B; default A's"),
    flag<&Wgmma::sparse>("sparse", "A is sparse"),
    number<&Wgmma::k>("k", "columns of A and rows of B; default: the K of the types"),
    word<&Wgmma::bit_operation, bit_operations>("bit_operation", "b1: how the bits of A and B are combined"),
    flag<&Wgmma::saturate>("saturate", "integers: .satfinite, clamps D"),
    word<&Wgmma::a_source, operand_sources>("a_source", "where A is read"),
    flag<&Wgmma::negate_a>("negate_a", "A is negated: imm-scale-a is -1")
        .as_immediate(sign("imm_scale_a"))
        .used_by(may_negate),
    flag<&Wgmma::negate_b>("negate_b", "B is negated: imm-scale-b is -1")
        .as_immediate(sign("imm_scale_b"))
        .used_by(may_negate),
    flag<&Wgmma::transpose_a>("transpose_a", "A in shared memory is M-major").as_immediate(bit("imm_trans_a")),
    flag<&Wgmma::transpose_b>("transpose_b", "B is N-major").as_immediate(bit("imm_trans_b")),
    flag<&Wgmma::enable_input_d>("enable_input_d", "whether C is added; PTX calls it scale-d")
        .as_immediate(bit("scale_d", 1)),
    number<&Wgmma::sparsity_selector>("sparsity_selector", "the threads that hold the metadata of a sparse A")
        .as_immediate(two_bits("sparsity_selector", "0 without .sp"), [](const Wgmma& wgmma) { return wgmma.sparse; }),
});

}  // namespace

std::span<const NamedField<Wgmma>> instruction_fields(const Wgmma&) { return fields_of_wgmma; }

Wgmma defaults_for(const Wgmma& fields, const IsGiven&) {
  const bool is_integer = info(fields.a).kind != NumberKind::floating;
  return {.d = is_integer ? Format::s32 : Format::f32, .a = fields.a, .b = fields.a, .sparse = fields.sparse};
}

}  // namespace bitmma::family
