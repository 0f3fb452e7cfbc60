// SPDX-License-Identifier: MIT
// The named fields of mma.sync.
#include "../field.hpp"

namespace bitmma::family {
namespace {

constexpr std::array<std::string_view, 6> roundings{"", "rz", "rn", "rna", "rp", "rm"};
static_assert(static_cast<int>(Rounding::toward_negative) + 2 == roundings.size());

template <size_t... i>
constexpr auto optional_kind_names_of(std::index_sequence<i...>) {
  return std::array<std::string_view, 1 + sizeof...(i)>{std::string_view{}, mma_kinds[i].name...};
}
constexpr auto kinds_or_none = optional_kind_names_of(std::make_index_sequence<mma_kinds.size()>());

bool has_scales(const MmaSync& instruction) { return instruction.has_scales(); }

constexpr auto fields_of_mma_sync = std::to_array<NamedField<MmaSync>>({
    word<&MmaSync::kind, kinds_or_none>("kind", ".kind of 8-, 6- and 4-bit types, with or without block scales"),
    number<&MmaSync::m>("m", "rows of A and D: 16, or 8"),
    number<&MmaSync::n>("n", "columns of B and D: 8"),
    format<&MmaSync::d>("d", "type of D"),
    format<&MmaSync::a>("a", "type of A"),
    format<&MmaSync::b>("b", "type of B; default A's"),
    format<&MmaSync::c>("c", "type of C; default D's"),
    flag<&MmaSync::sparse>("sparse", "A is sparse"),
    number<&MmaSync::k>("k", "columns of A and rows of B; default: the largest K of the types"),
    flag<&MmaSync::ordered_metadata>("ordered_metadata", ".sp::ordered_metadata; default true if A is sparse"),
    flag<&MmaSync::a_col>("a_col", "m8n8k4 of f16: A is column-major"),
    flag<&MmaSync::b_row>("b_row", "m8n8k4 of f16: B is row-major"),
    word<&MmaSync::bit_operation, bit_operations>("bit_operation", "b1: how the bits of A and B are combined"),
    flag<&MmaSync::saturate>("saturate", "integers: .satfinite, clamps D"),
    word<&MmaSync::rounding, roundings>("rounding", "f64: rounding mode; default: to nearest even"),
    word<&MmaSync::scale_vec, scale_vecs>("scale_vec", "the size of a vector of block scales"),
    format<&MmaSync::scale_type>("scale_type", "type of block scales").among(scale_types).where(has_scales),
    number<&MmaSync::byte_id_a>("byte_id_a", "byte of the register with A's first scale")
        .where(has_scales)
        .called("scale_a_id")
        .as_immediate(two_bits("byte_id_a"), has_scales),
    number<&MmaSync::thread_id_a>("thread_id_a", "the pair of threads of a quad that has A's scales: 0 or 1")
        .where(has_scales)
        .as_immediate(two_bits("thread_id_a"), has_scales),
    number<&MmaSync::byte_id_b>("byte_id_b", "byte of the register with B's first scale")
        .where(has_scales)
        .called("scale_b_id")
        .as_immediate(two_bits("byte_id_b"), has_scales),
    number<&MmaSync::thread_id_b>("thread_id_b", "the thread of a quad that has B's scales: 0..3")
        .where(has_scales)
        .as_immediate(two_bits("thread_id_b"), has_scales),
    number<&MmaSync::sparsity_selector>("sparsity_selector", "the threads that hold the metadata of a sparse A")
        .as_immediate(two_bits("sparsity_selector", "0 without .sp"),
                      [](const MmaSync& instruction) { return instruction.sparse && !instruction.has_scales(); }),
});

}  // namespace

std::span<const NamedField<MmaSync>> instruction_fields(const MmaSync&) { return fields_of_mma_sync; }

MmaSync defaults_for(const MmaSync& values, const IsGiven& is_given) {
  const Format a = is_given("a") ? values.a : MmaSync{.kind = values.kind}.a;
  const bool is_integer = info(a).kind != NumberKind::floating;
  const Format d = is_given("d") ? values.d : is_integer ? Format::s32 : a == Format::f64 ? Format::f64 : Format::f32;
  MmaSync fields{.kind = values.kind, .m = values.m, .d = d, .a = a, .sparse = values.sparse};
  if (is_given("scale_vec"))
    fields = {
        .kind = values.kind, .m = values.m, .d = d, .a = a, .sparse = values.sparse, .scale_vec = values.scale_vec};
  return fields;
}

}  // namespace bitmma::family
