// SPDX-License-Identifier: MIT
// tcgen05.mma as text. Shape, types and signs are in the instruction descriptor, not here. Sources: PTX ISA
// 9.7.16.10.9; ptxas 13.0 for mandatory and optional words.
#include <fmt/format.h>

#include "../text/syntax.hpp"

namespace bitmma::syntax {
namespace {

using enum PartKind;
using enum OperandKind;

constexpr auto kinds = spellings_of<mma_kinds>();
constexpr auto sizes = spellings_up_to<ScaleVec::block32>();

constexpr std::array<std::string_view, 5> buffers{"a", "b0", "b1", "b2", "b3"};
constexpr std::array<std::string_view, 4> operations{"::fill", "::use", "::lastuse", "::discard"};

/// First none, then all buffers with all operations.
consteval auto collector_spellings() {
  std::array<Spelling, 1 + buffers.size() * operations.size()> all{};
  for (size_t i = 1; i < all.size(); ++i) {
    all[i] = {.word = buffers[(i - 1) / operations.size()],
              .rest = operations[(i - 1) % operations.size()],
              .value = static_cast<int64_t>(i)};
  }
  return all;
}
constexpr auto collectors = collector_spellings();
constexpr auto collectors_of_b = std::to_array<Spelling>({
    {.word = {}, .value = 0},
    {.word = "b", .rest = "::fill", .value = 1},
    {.word = "b", .rest = "::use", .value = 2},
    {.word = "b", .rest = "::lastuse", .value = 3},
    {.word = "b", .rest = "::discard", .value = 4},
});

/// The row of `collectors`.
constexpr Member collector{
    .get = [](const Instruction& i) -> int64_t {
      const std::optional<Collector>& is = std::get<Tcgen05Mma>(i).collector;
      if (!is) return 0;
      return 1 + static_cast<int64_t>(operations.size()) * static_cast<int64_t>(is->buffer) +
             static_cast<int64_t>(is->operation);
    },
    .set =
        [](Instruction& i, int64_t row) {
          std::optional<Collector>& is = std::get<Tcgen05Mma>(i).collector;
          constexpr auto each = static_cast<int64_t>(operations.size());
          is = row == 0 ? std::nullopt
                        : std::optional(Collector{.buffer = static_cast<CollectorBuffer>((row - 1) / each),
                                                  .operation = static_cast<CollectorOperation>((row - 1) % each)});
        }};

/// The row of `collectors_of_b`.
constexpr Member collector_b{.get = [](const Instruction& i) -> int64_t {
                               const std::optional<CollectorOperation>& is = std::get<Tcgen05Mma>(i).collector_b;
                               return is ? 1 + static_cast<int64_t>(*is) : 0;
                             },
                             .set =
                                 [](Instruction& i, int64_t row) {
                                   std::get<Tcgen05Mma>(i).collector_b =
                                       row == 0 ? std::nullopt
                                                : std::optional(static_cast<CollectorOperation>(row - 1));
                                 }};

bool has_cta_group(const Tcgen05Mma& i) { return i.cta_group == 1 || i.cta_group == 2; }
bool has_scales(const Tcgen05Mma& i) { return info(i.kind).has_block_scales; }
bool has_collector(const Tcgen05Mma& i) {
  return !i.collector || (i.collector->buffer == CollectorBuffer::a) != i.weight_stationary;
}
bool is_not_ws(const Tcgen05Mma& i) { return !i.weight_stationary; }
bool has_a_desc(const Tcgen05Mma& i) { return i.a_source != OperandSource::tmem; }
bool has_lane_mask(const Tcgen05Mma& i) { return !i.weight_stationary && !has_scales(i); }
int64_t lane_mask_registers(const Tcgen05Mma& i) { return int64_t{4} * i.cta_group; }
bool can_scale_d(const Tcgen05Mma& i) { return info(i.kind).has_scale_input_d && !i.weight_stationary; }
std::string block_scale_text(const Tcgen05Mma& i) {
  return has_scales(i) ? fmt::format("present: kind::{} always has scales", info(i.kind).name)
                       : "absent: only the mx kinds have scales";
}
std::string kinds_text(const Tcgen05Mma&) { return ".kind::" + print_mma_kinds(); }
std::string collector_text(const Tcgen05Mma& i) {
  return fmt::format("collector::{}::fill, use, lastuse or discard", i.weight_stationary ? "b0..b3" : "a");
}

// One row per part or operand.
// clang-format off
constexpr auto parts = std::to_array<Part>({
    {.kind = literal, .word = "mma", .in_name = true, .field = "instruction",
     .legal = ".mma, .ld, .st, .cp or .shift after tcgen05"},
    {.kind = flag, .word = "ws", .value = member<&Tcgen05Mma::weight_stationary>, .in_name = true},
    {.kind = flag, .word = "sp", .value = member<&Tcgen05Mma::sparse>},
    {.kind = number, .word = "cta_group::", .value = member<&Tcgen05Mma::cta_group>,
     .allows = on<has_cta_group>,
     .legal = ".cta_group::1 or .cta_group::2 here; it is mandatory"},
    {.kind = choice, .word = "kind::", .value = member<&Tcgen05Mma::kind>, .spellings = kinds, .miss = Miss::skip,
     .field = "kind", .legal_of = on<kinds_text>},
    {.kind = implied, .word = "block_scale", .when = on<has_scales>, .field = ".block_scale",
     .legal_of = on<block_scale_text>},
    {.kind = choice, .value = member<&Tcgen05Mma::scale_vec>, .spellings = sizes, .when = on<has_scales>},
    {.kind = flag, .word = "ashift", .value = member<&Tcgen05Mma::ashift>},
    {.kind = choice, .word = "collector::", .value = collector, .spellings = collectors,
     .allows = on<has_collector>,
     .field = "collector", .legal_of = on<collector_text>},
    {.kind = choice, .word = "collector::", .value = collector_b, .spellings = collectors_of_b, .when = on<is_not_ws>,
     .field = "collector", .legal_of = on<collector_text>},
});

constexpr auto operands = std::to_array<OperandRow>({
    {.name = "d-tmem", .kind = address, .as = "d_tmem"},
    {.name = "a-tmem", .kind = address, .as = "a_tmem", .written = member<&Tcgen05Mma::a_source>,
     .written_value = static_cast<int64_t>(OperandSource::tmem)},
    {.name = "a-desc", .kind = descriptor, .as = "a_desc",
     .when = on<has_a_desc>},
    {.name = "b-desc", .kind = descriptor, .as = "b_desc"},
    {.name = "sp-meta-tmem", .kind = address, .as = "metadata_tmem", .when = on<&Tcgen05Mma::sparse>,
     .absent = "without .sp"},
    {.name = "idesc", .kind = descriptor, .as = "idesc"},
    {.name = "scale-A-tmem", .kind = address, .as = "scale_a_tmem",
     .when = on<has_scales>, .absent = "without block scales"},
    {.name = "scale-B-tmem", .kind = address, .as = "scale_b_tmem",
     .when = on<has_scales>, .absent = "without block scales"},
    {.name = "disable-output-lane", .kind = registers, .as = "mask",
     .when = on<has_lane_mask>, .optional = true,
     .count = on<lane_mask_registers>,
     .absent = "with .ws and with block scales", .fix = "4 registers with cta_group::1, 8 with cta_group::2"},
    {.name = "enable-input-d", .kind = predicate, .as = "enable_input_d",
     .immediates = {{{.value = member<&Tcgen05Mma::enable_input_d>}}}},
    {.name = "zero-column-mask-desc", .kind = descriptor, .as = "zero_column_mask",
     .when = on<&Tcgen05Mma::weight_stationary>, .optional = true, .absent = "without .ws"},
    {.name = "scale-input-d", .kind = immediate,
     .when = on<can_scale_d>,
     .optional = true,
     .immediates = {{{.value = member<&Tcgen05Mma::scale_input_d>, .last = 15}}},
     .absent = "except with kind::f16 and kind::tf32 without .ws"},
});
// clang-format on

}  // namespace

constinit const Grammar tcgen05_grammar{
    .head = "tcgen05",
    .start = []() -> Instruction { return Tcgen05Mma{}; },
    .parts = parts,
    .operands = operands,
    .form = [](const Instruction&) -> std::string {
      return "tcgen05.mma{.ws}{.sp}.cta_group::G.kind::KIND{.block_scale{.SCALE_VEC}}{.ashift}{.collector::BUFFER::OP}";
    },
    .source = [](const Instruction&) -> std::string { return "PTX ISA 9.7.16.10.9"; },
    .end = [](const Instruction&) -> std::string { return "the end of the text"; },
    // Rebuilt, so that shape and types, which the mnemonic does not contain, follow from the parsed fields.
    .finish = [](const Instruction& instruction, std::vector<Violation>&) -> Instruction {
      const Tcgen05Mma& read = std::get<Tcgen05Mma>(instruction);
      return Tcgen05Mma{.kind = read.kind,
                        .cta_group = read.cta_group,
                        .weight_stationary = read.weight_stationary,
                        .sparse = read.sparse,
                        .scale_vec = read.scale_vec,
                        .ashift = read.ashift,
                        .collector = read.collector,
                        .collector_b = read.collector_b,
                        // only sm_107a has both collector::b and sparse fp4 with its own metadata
                        .sparsity_version = read.collector_b && read.sparse && info(read.kind).is_fp4 ? 1 : 0};
    },
};

}  // namespace bitmma::syntax
