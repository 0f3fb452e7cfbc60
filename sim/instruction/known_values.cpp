// SPDX-License-Identifier: MIT
// A value of an enumeration can hold any number of its type, after a cast, from external data, or from another
// language. Tables are indexed by such values, so check that all of them are in their tables before using an
// instruction.
#include <fmt/format.h>

#include <array>

#include "family.hpp"

namespace bitmma::family {
namespace {

class ValueChecker {
 public:
  template <typename Enum>
  void require(std::string_view field, Enum value, size_t count) {
    const auto number = static_cast<size_t>(value);
    if (number < count) return;
    found_.push_back({.field = std::string(field),
                      .seen = fmt::format("value {} of an enumeration", number),
                      .expected = fmt::format("one of its {} values", count)});
  }
  void format(std::string_view field, Format value) { require(field, value, formats.size()); }
  void source(OperandSource value) { require("A", value, 3); }
  void operation(BitOperation value) { require("operation", value, 3); }
  void scales(ScaleVec size, Format type) {
    require("size of the scale vector", size, scale_vec_spellings.size());
    format("scale type", type);
  }
  void kind(MmaKind value) { require("kind", value, mma_kinds.size()); }

  void check(const Wgmma& wgmma) {
    format("dtype", wgmma.d), format("atype", wgmma.a), format("btype", wgmma.b);
    operation(wgmma.bit_operation), source(wgmma.a_source);
  }
  void check(const MmaSync& instruction) {
    if (instruction.kind) kind(*instruction.kind);
    format("dtype", instruction.d), format("atype", instruction.a), format("btype", instruction.b),
        format("ctype", instruction.c);
    operation(instruction.bit_operation);
    if (instruction.rounding)
      require("rounding", *instruction.rounding, static_cast<size_t>(Rounding::toward_negative) + 1);
    scales(instruction.scale_vec, instruction.scale_type);
  }
  void check(const Tcgen05Mma& instruction) {
    kind(instruction.kind);
    format("d_type", instruction.d), format("a_type", instruction.a), format("b_type", instruction.b);
    source(instruction.a_source), scales(instruction.scale_vec, instruction.scale_type);
    if (instruction.collector_b) require("collector::b", *instruction.collector_b, 4);
    if (!instruction.collector) return;
    require("collector", instruction.collector->buffer, 5);
    require("collector", instruction.collector->operation, 4);
  }
  void check(const TmemMove& move) {
    require("kind", move.kind, static_cast<size_t>(MoveKind::ld_red) + 1);
    require("operation of the reduction", move.reduction.operation, 2);
    format("type of the reduction", move.reduction.type);
    require("shape", move.ldst.shape, ldst_shapes.size());
    require("source format", move.source_format, 3);
  }

  std::vector<Violation> take() { return std::move(found_); }

 private:
  std::vector<Violation> found_;
};

}  // namespace

std::vector<Violation> unknown_values(const Instruction& instruction) {
  ValueChecker checker;
  if (instruction.valueless_by_exception()) {
    return {{.code = ViolationCode::missing_input,
             .field = "instruction",
             .seen = "nothing",
             .expected = "an instruction"}};
  }
  std::visit([&](const auto& alternative) { checker.check(alternative); }, instruction);
  return checker.take();
}

void require_known_values(const Instruction& instruction) {
  std::vector<Violation> violations = unknown_values(instruction);
  if (!violations.empty()) throw Error(std::move(violations));
}

}  // namespace bitmma::family
