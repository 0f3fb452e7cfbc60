#include "../family.hpp"

namespace bitmma::family {
namespace {

constexpr auto rows = std::to_array<ImmediateRow<TmemMove>>({
    {.info = {.name = "half_split_offset", .last = 0xFFFFFFFF, .legal = "0..0xffffffff"},
     .get = [](const TmemMove& i) -> int64_t { return i.half_split_offset; },
     .set = [](TmemMove& i, int64_t value) { i.half_split_offset = static_cast<uint32_t>(value); },
     .has = [](const TmemMove& i) { return i.has_registers() && i.ldst.shape == LdStShape::s16x32bx2; }},
});

}  // namespace

std::span<const ImmediateRow<TmemMove>> immediates(const TmemMove&) { return rows; }

}  // namespace bitmma::family
