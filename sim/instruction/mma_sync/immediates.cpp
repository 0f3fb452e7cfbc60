#include "../family.hpp"

namespace bitmma::family {
namespace {

constexpr ImmediateInfo id(std::string_view name) { return {.name = name, .first = 0, .last = 3, .legal = "0..3"}; }

bool has_scales(const MmaSync& instruction) { return instruction.has_scales(); }

constexpr auto rows = std::to_array<ImmediateRow<MmaSync>>({
    {.info = id("byte_id_a"),
     .get = [](const MmaSync& i) -> int64_t { return i.byte_id_a; },
     .set = [](MmaSync& i, int64_t value) { i.byte_id_a = static_cast<int>(value); },
     .has = has_scales},
    {.info = id("thread_id_a"),
     .get = [](const MmaSync& i) -> int64_t { return i.thread_id_a; },
     .set = [](MmaSync& i, int64_t value) { i.thread_id_a = static_cast<int>(value); },
     .has = has_scales},
    {.info = id("byte_id_b"),
     .get = [](const MmaSync& i) -> int64_t { return i.byte_id_b; },
     .set = [](MmaSync& i, int64_t value) { i.byte_id_b = static_cast<int>(value); },
     .has = has_scales},
    {.info = id("thread_id_b"),
     .get = [](const MmaSync& i) -> int64_t { return i.thread_id_b; },
     .set = [](MmaSync& i, int64_t value) { i.thread_id_b = static_cast<int>(value); },
     .has = has_scales},
    {.info = {.name = "sparsity_selector", .first = 0, .last = 3, .legal = "0..3", .absent = "0 without .sp"},
     .get = [](const MmaSync& i) -> int64_t { return i.sparsity_selector; },
     .set = [](MmaSync& i, int64_t value) { i.sparsity_selector = static_cast<int>(value); },
     .has = [](const MmaSync& i) { return i.sparse && !i.has_scales(); }},
});

}  // namespace

std::span<const ImmediateRow<MmaSync>> immediates(const MmaSync&) { return rows; }

}  // namespace bitmma::family
