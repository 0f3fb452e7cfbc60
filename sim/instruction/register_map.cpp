// SPDX-License-Identifier: MIT
#include "bitmma/instruction/register_map.hpp"

#include <fmt/format.h>

#include "bitmma/core/text.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "family.hpp"

namespace bitmma {
namespace {

[[noreturn]] void refuse_operand(std::string_view operand, std::string expected, std::string fix = "") {
  throw Error({.field = "operand", .seen = shortened(operand), .expected = std::move(expected), .fix = std::move(fix)});
}

bool is_scale(std::string_view operand) { return operand == "scale_a" || operand == "scale_b"; }

void require_sparse(bool sparse, std::string_view others) {
  if (!sparse) refuse_operand("metadata", fmt::format("{}: the instruction is not sparse", others));
}

void refuse_scales(std::string_view operand) {
  refuse_operand(operand, "a, d or metadata: only mma.sync with .block_scale has scales in registers",
                 "use layout scales for those of tcgen05.mma");
}

Map map_in(const Wgmma& wgmma, Target target, std::string_view operand, const RegisterSelectors& selectors) {
  require_legal(with_sparsity_selector(wgmma, selectors.sparsity_selector), target);
  if (is_scale(operand)) refuse_scales(operand);
  if (operand == "b") refuse_operand(operand, "a, c or d: B of wgmma is in shared memory", "layout smem");
  if (operand == "c" || operand == "d") return map_of(wgmma_d_fragment(wgmma.d, wgmma.n));
  const Fragment a = wgmma_a_fragment(wgmma.a, mma_of(wgmma).stored_k());
  if (operand == "a") return map_of(a);
  if (operand != "metadata") refuse_operand(operand, "a, c, d or metadata");
  require_sparse(wgmma.sparse, "a, c or d");
  return map_of(metadata_layout(info(wgmma.a).bits), a, selectors.sparsity_selector);
}

Map map_in(MmaSync instruction, Target target, std::string_view operand, const RegisterSelectors& selectors) {
  require_legal(with_sparsity_selector(instruction, selectors.sparsity_selector), target);
  const Mma mma = mma_of(instruction);
  if (is_scale(operand)) {
    if (!instruction.has_scales()) refuse_scales(operand);
    const bool is_a = operand == "scale_a";
    (is_a ? instruction.byte_id_a : instruction.byte_id_b) = selectors.byte_id;
    (is_a ? instruction.thread_id_a : instruction.thread_id_b) = selectors.thread_id;
    require_legal(Instruction(instruction), target);
    return map_of_mma_scales(is_a, is_a ? mma.m : mma.n, mma.scale_count, selectors.byte_id, selectors.thread_id);
  }
  if (operand == "a" || operand == "b") {
    const Format format = operand == "a" ? mma.a : mma.b;
    return map_of(fragment_of(instruction, operand), operand == "b",
                  code_bits_of(format, instruction.container_bits(format)));
  }
  if (operand != "metadata") return map_of(fragment_of(instruction, operand));
  require_sparse(instruction.sparse, "a, b, c or d");
  return map_of(metadata_layout(mma.a_container_bits, mma.stored_k()), fragment_of(instruction, "a"),
                selectors.sparsity_selector);
}

template <typename Other>
Map map_in(const Other& other, Target, std::string_view, const RegisterSelectors&) {
  throw Error({.code = ViolationCode::wrong_instruction,
               .field = "instruction",
               .seen = print(Instruction(other)),
               .legal = {"wgmma.mma_async", "mma.sync"},
               .fix = "tcgen05.mma keeps D in Tensor Memory: use layout tmem or layout ldst"});
}

}  // namespace

CodeBits code_bits_in_container(int code_bits, int container_bits) {
  if (code_bits == 0 || code_bits == container_bits) return {};
  if (container_bits == 8 && (code_bits == 4 || code_bits == 6))
    return code_bits_of(code_bits == 4 ? Format::e2m1 : Format::e2m3, container_bits);
  throw Error({.field = "code bits",
               .seen = std::to_string(code_bits),
               .expected = container_bits == 8 ? "4, 6 or 8" : std::to_string(container_bits),
               .fix = "4- and 6-bit codes have containers of 8 bits"});
}

Map register_map(const Instruction& instruction, Target target, std::string_view operand,
                 const RegisterSelectors& selectors) {
  Map map = family::dispatch([&](const auto& alternative) { return map_in(alternative, target, operand, selectors); },
                             instruction);
  const Mma mma = mma_of(instruction);
  const int64_t rows = map.axes[0].extent, cols = map.axes[1].extent, registers = map.axes[map.axis("register")].extent;
  const std::string name = print(instruction);
  if (is_scale(operand)) {
    map.title = fmt::format("{} of {}: {} x {} scale{} of {}, one register per thread", operand, name, rows, cols,
                            cols == 1 ? "" : "s", info(mma.scale_type).name);
  } else if (operand == "metadata") {
    map.title = fmt::format("metadata of {}: {} x {} stored elements", name, rows, cols);
  } else {
    const Format format = operand == "a" ? mma.a : operand == "b" ? mma.b : operand == "c" ? mma.c : mma.d;
    map.title = fmt::format("{} of {}: {} x {} {}, {} register{} per thread",
                            operand == "a"   ? "A"
                            : operand == "b" ? "B, as n x k,"
                            : mma.c == mma.d ? "C and D"
                            : operand == "c" ? "C"
                                             : "D",
                            name, rows, cols, info(format).name, registers, registers == 1 ? "" : "s");
  }
  return map;
}

}  // namespace bitmma
