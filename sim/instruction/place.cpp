#include "bitmma/instruction/place.hpp"

#include <fmt/format.h>

#include "bitmma/instruction/form.hpp"
#include "family.hpp"

namespace bitmma {
namespace {

struct Printer {
  std::string operator()(const SmemRead& smem) const {
    return fmt::format("{}byte {:#x}{}{}", smem.cta ? "odd CTA, " : "", smem.place.byte,
                       smem.place.bit ? fmt::format(" bit {}", smem.place.bit) : "",
                       smem.linear == smem.place.byte ? "" : fmt::format(" (unswizzled {:#x})", smem.linear));
  }
  std::string operator()(const RegisterPlace& place) const {
    return fmt::format("thread {} register {} bit {}", place.thread, place.reg, place.bit);
  }
  std::string operator()(const TmemPlace& place) const {
    return fmt::format("{}lane {} column {} bit {}", place.cta ? "odd CTA, " : "", place.lane, place.column, place.bit);
  }
};

}  // namespace

std::string print(const Place& place) { return std::visit(Printer{}, place); }

PlaceMap::PlaceMap(const Instruction& instruction, Target target, const State& state, Role role) {
  require_legal(instruction, target);
  place_of_ = family::dispatch([&](const auto& one) { return family::places(one, state, role); }, instruction);
}

std::vector<SmemOperand> smem_operands(const Instruction& instruction, Target target, const State& state) {
  require_legal(instruction, target);
  return family::dispatch([&](const auto& one) { return family::smem_operands(one, state); }, instruction);
}

}  // namespace bitmma
