#include "../family.hpp"

namespace bitmma::family {
namespace {

constexpr auto rows = std::to_array<ImmediateRow<Tcgen05Mma>>({
    {.info = {.name = "idesc",
              .first = 0,
              .last = 0xFFFFFFFF,
              .legal = "an instruction descriptor",
              .by_case = true,
              .required = true},
     .get = [](const Tcgen05Mma& i) -> int64_t { return idesc_of(i); },
     .set = [](Tcgen05Mma& i, int64_t value) { i = with_idesc(i, static_cast<uint32_t>(value)); }},
    {.info = {.name = "enable_input_d",
              .last = 255,
              .default_value = 1,
              .legal = "0, or 1",
              .by_case = true,
              .type = ElementType::u8,
              .required = true},
     .get = [](const Tcgen05Mma& i) -> int64_t { return i.enable_input_d; },
     .set = [](Tcgen05Mma& i, int64_t value) { i.enable_input_d = value != 0; }},
    {.info = {.name = "scale_input_d", .last = 255, .legal = "0..15", .by_case = true, .type = ElementType::u8},
     .get = [](const Tcgen05Mma& i) -> int64_t { return i.scale_input_d; },
     .set = [](Tcgen05Mma& i, int64_t value) { i.scale_input_d = static_cast<int>(value); }},
});

}  // namespace

std::span<const ImmediateRow<Tcgen05Mma>> immediates(const Tcgen05Mma&) { return rows; }

}  // namespace bitmma::family
