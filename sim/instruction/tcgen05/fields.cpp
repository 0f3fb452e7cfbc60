// SPDX-License-Identifier: MIT
// The named fields of tcgen05.mma.
#include <fmt/format.h>

#include "../field.hpp"

namespace bitmma::family {
namespace {

constexpr std::array<std::string_view, 5> collector_operations{"", "fill", "use", "lastuse", "discard"};
static_assert(static_cast<int>(CollectorOperation::discard) + 2 == collector_operations.size());

template <size_t... i>
constexpr auto kind_names_of(std::index_sequence<i...>) {
  return std::array<std::string_view, sizeof...(i)>{mma_kinds[i].name...};
}
constexpr auto kinds = kind_names_of(std::make_index_sequence<mma_kinds.size()>());
/// "a::fill", "b0::use".
constexpr NamedField<Tcgen05Mma> collector{
    .name = "collector",
    .meaning = ".collector of A, or of B with .ws: a buffer and its operation",
    .get = [](const Tcgen05Mma& instruction) -> FieldValue {
      if (!instruction.collector) return std::string();
      constexpr std::array<std::string_view, 5> buffers{"a", "b0", "b1", "b2", "b3"};
      return fmt::format("{}::{}", buffers[static_cast<size_t>(instruction.collector->buffer)],
                         collector_operations[1 + static_cast<size_t>(instruction.collector->operation)]);
    },
    .set =
        [](Tcgen05Mma& instruction, const FieldValue& value) {
          const std::vector<std::string> words = collector.words();
          const auto place = std::ranges::find(words, std::get<std::string>(value)) - words.begin();
          constexpr auto each = static_cast<std::ptrdiff_t>(collector_operations.size() - 1);
          if (place == 0) instruction.collector = std::nullopt;
          else
            instruction.collector = Collector{.buffer = static_cast<CollectorBuffer>((place - 1) / each),
                                              .operation = static_cast<CollectorOperation>((place - 1) % each)};
        },
    .words =
        [] {
          std::vector<std::string> words{""};
          for (const std::string_view buffer : {"a", "b0", "b1", "b2", "b3"}) {
            for (size_t i = 1; i < collector_operations.size(); ++i)
              words.push_back(fmt::format("{}::{}", buffer, collector_operations[i]));
          }
          return words;
        }};

bool has_block_scales(const Tcgen05Mma& instruction) { return info(instruction.kind).has_block_scales; }

constexpr auto fields_of_tcgen05 = std::to_array<NamedField<Tcgen05Mma>>({
    word<&Tcgen05Mma::kind, kinds>("kind", "the legal types of A and B, and whether there are block scales"),
    number<&Tcgen05Mma::cta_group>("cta_group", "CTAs that work together: 1 or 2"),
    flag<&Tcgen05Mma::weight_stationary>("ws", ".ws, the weight-stationary form"),
    number<&Tcgen05Mma::m>("m", "rows of A and D over the CTA group; default 128, for two CTAs 256").described(),
    number<&Tcgen05Mma::n>("n", "columns of B and D").described(),
    format<&Tcgen05Mma::d>("d", "type of C and D; default f32, for integers s32").described(),
    format<&Tcgen05Mma::a>("a", "type of A; default depends on the kind").described(),
    format<&Tcgen05Mma::b>("b", "type of B; default A's").described(),
    flag<&Tcgen05Mma::sparse>("sparse", "A is sparse"),
    number<&Tcgen05Mma::k>("k", "columns of A and rows of B; default: the K of the kind").described(),
    flag<&Tcgen05Mma::saturate>("saturate", "the saturate bit of kind::i8").described().called("satfinite"),
    word<&Tcgen05Mma::a_source, operand_sources>("a_source", "where A is read: smem or tmem"),
    flag<&Tcgen05Mma::enable_input_d>("enable_input_d", "whether the D that is in Tensor Memory is added")
        .as_immediate({.name = "enable_input_d",
                       .last = 255,
                       .default_value = 1,
                       .legal = "0, or 1",
                       .by_case = true,
                       .type = ElementType::u8,
                       .required = true}),
    number<&Tcgen05Mma::scale_input_d>("scale_input_d", "kind::f16 and tf32: adds to D * 2^-s, s = 0..15")
        .used_by([](const Tcgen05Mma& instruction) {
          return info(instruction.kind).has_scale_input_d && !instruction.weight_stationary;
        })
        .as_immediate(
            {.name = "scale_input_d", .last = 255, .legal = "0..15", .by_case = true, .type = ElementType::u8}),
    flag<&Tcgen05Mma::negate_a>("negate_a", "the negate bit of A").described(),
    flag<&Tcgen05Mma::negate_b>("negate_b", "the negate bit of B").described(),
    flag<&Tcgen05Mma::transpose_a>("transpose_a", "A in shared memory is M-major").described(),
    flag<&Tcgen05Mma::transpose_b>("transpose_b", "B is N-major").described(),
    number<&Tcgen05Mma::sparsity_selector>("sparsity_selector", "the metadata columns that a sparse A uses")
        .used_by([](const Tcgen05Mma& instruction) { return instruction.sparse; })
        .described(),
    number<&Tcgen05Mma::max_shift_code>("max_shift",
                                        ".ws: code of the largest shift of B; 0, 1, 2, 3 mean 0, 8, 16, 32 columns")
        .used_by([](const Tcgen05Mma& instruction) { return instruction.weight_stationary; })
        .described(),
    word<&Tcgen05Mma::scale_vec, scale_vecs>("scale_vec", "the size of a vector of block scales"),
    format<&Tcgen05Mma::scale_type>("scale_type", "type of block scales: ue8m0, ue4m3 or ue5m3")
        .among(scale_types)
        .where(has_block_scales)
        .described(),
    number<&Tcgen05Mma::scale_a_id>("scale_a_id", "byte of the cell with A's first scale")
        .where(has_block_scales)
        .described()
        .called("byte_id_a"),
    number<&Tcgen05Mma::scale_b_id>("scale_b_id", "byte of the cell with B's first scale")
        .where(has_block_scales)
        .described()
        .called("byte_id_b"),
    flag<&Tcgen05Mma::ashift>("ashift", "A is in Tensor Memory, and is read from one row below"),
    collector,
    word<&Tcgen05Mma::collector_b, collector_operations>("collector_b", "sm_107: .collector::b of B, without .ws"),
    number<&Tcgen05Mma::sparsity_version>("sparsity_version", "sparse fp4: 1 is legal on sm_107a, 0 elsewhere")
        .where([](const Tcgen05Mma& instruction) { return instruction.sparse && info(instruction.kind).is_fp4; })
        .described(),
});

constexpr std::array idesc{NamedField<Tcgen05Mma>{
    .name = "idesc",
    .meaning = "the instruction descriptor",
    .get = [](const Tcgen05Mma& instruction) -> FieldValue { return int64_t{idesc_of(instruction)}; },
    .set =
        [](Tcgen05Mma& instruction, const FieldValue& value) {
          instruction = with_idesc(instruction, static_cast<uint32_t>(std::get<int64_t>(value)));
        },
    .immediate = {.name = "idesc",
                  .last = 0xFFFFFFFF,
                  .legal = "an instruction descriptor",
                  .by_case = true,
                  .required = true}}};

}  // namespace

std::span<const NamedField<Tcgen05Mma>> instruction_fields(const Tcgen05Mma&) { return fields_of_tcgen05; }

template <>
std::span<const NamedField<Tcgen05Mma>> descriptor_field(const Tcgen05Mma&) {
  return idesc;
}

Tcgen05Mma defaults_for(const Tcgen05Mma& fields, const IsGiven& is_given) {
  return {.kind = fields.kind,
          .cta_group = fields.cta_group,
          .a = is_given("a") ? fields.a : natural_input(fields.kind),
          .sparse = fields.sparse};
}

}  // namespace bitmma::family
