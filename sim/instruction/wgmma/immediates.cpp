#include "../family.hpp"

namespace bitmma::family {
namespace {

constexpr ImmediateInfo sign(std::string_view name) {
  return {.name = name, .first = -1, .last = 1, .default_value = 1, .legal = "1 or -1"};
}
constexpr ImmediateInfo bit(std::string_view name, int64_t default_value = 0) {
  return {.name = name, .default_value = default_value, .legal = "0 or 1"};
}

constexpr auto rows = std::to_array<ImmediateRow<Wgmma>>({
    {.info = sign("imm_scale_a"),
     .get = [](const Wgmma& i) -> int64_t { return i.negate_a ? -1 : 1; },
     .set = [](Wgmma& i, int64_t value) { i.negate_a = value == -1; }},
    {.info = sign("imm_scale_b"),
     .get = [](const Wgmma& i) -> int64_t { return i.negate_b ? -1 : 1; },
     .set = [](Wgmma& i, int64_t value) { i.negate_b = value == -1; }},
    {.info = bit("imm_trans_a"),
     .get = [](const Wgmma& i) -> int64_t { return i.transpose_a; },
     .set = [](Wgmma& i, int64_t value) { i.transpose_a = value == 1; }},
    {.info = bit("imm_trans_b"),
     .get = [](const Wgmma& i) -> int64_t { return i.transpose_b; },
     .set = [](Wgmma& i, int64_t value) { i.transpose_b = value == 1; }},
    {.info = bit("scale_d", 1),
     .get = [](const Wgmma& i) -> int64_t { return i.enable_input_d; },
     .set = [](Wgmma& i, int64_t value) { i.enable_input_d = value == 1; }},
    {.info = {.name = "sparsity_selector", .first = 0, .last = 3, .legal = "0..3", .absent = "0 without .sp"},
     .get = [](const Wgmma& i) -> int64_t { return i.sparsity_selector; },
     .set = [](Wgmma& i, int64_t value) { i.sparsity_selector = static_cast<int>(value); },
     .has = [](const Wgmma& i) { return i.sparse; }},
});

}  // namespace

std::span<const ImmediateRow<Wgmma>> immediates(const Wgmma&) { return rows; }

}  // namespace bitmma::family
