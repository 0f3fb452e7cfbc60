// The generated kernels of wgmma against ptxas, where there is one: what we accept assembles, what we refuse does not.
#include "bitmma/hardware/ptx_kernel.hpp"

#include <fmt/format.h>

#include <array>

#include "bitmma/core/error.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"
#include "support/ptxas.hpp"

using namespace bitmma;

namespace {

/// The kernel of `instruction` with other statements in the place of its own.
std::string kernel_with(const Instruction& instruction, std::string_view statements) {
  std::string text = ptx_kernel(instruction, {.image_bytes = 4096}).text;
  const std::string own = print(statement_of(instruction));
  return text.replace(text.find(own), own.size(), statements);
}

/// The same with the statements of `instructions`, which differ in immediates alone.
std::string kernel_with(std::span<const Instruction> instructions) {
  std::string statements;
  for (const Instruction& instruction : instructions) statements += print(statement_of(instruction)) + "\n";
  return kernel_with(instructions.front(), statements);
}

constexpr std::string_view judged = "the agreement of the form table";

/// Every combination of immediates and selector that the form has, with A from `source`.
std::vector<Instruction> with_all_immediates(const Wgmma& plain, OperandSource source) {
  const Form& form = *find_form(plain);
  std::vector<Instruction> all;
  for (int bits = 0; bits < 16; ++bits) {
    for (int selector = 0; selector < (plain.sparse ? form.selectors : 1); ++selector) {
      Wgmma wgmma = plain;
      wgmma.a_source = source;
      wgmma.negate_a = bits & 1;
      wgmma.negate_b = bits >> 1 & 1;
      wgmma.transpose_a = bits >> 2 & 1;
      wgmma.transpose_b = bits >> 3 & 1;
      wgmma.sparsity_selector = selector;
      if (violations_of(wgmma, Target::sm_90a).empty()) all.push_back(wgmma);
    }
  }
  return all;
}

/// Counted from the rules: f16 and bf16 have 4 signs, 4 majors from shared memory and 2 from registers; sparse ones two
/// selectors. tf32 and fp8 have the signs, tf32 the selectors; integers and b1 only the two sources.
int64_t expected_variants() {
  const int64_t transposable = 3 * 32 * 4 * (4 + 2) * (1 + 2), tf32 = 32 * 4 * 2 * (1 + 2), fp8 = 8 * 32 * 4 * 2 * 2;
  return transposable + tf32 + fp8 + 4 * 18 * 2 * 2 * 2 + 18 * 2;
}

/// A statement, what it says, and whether it is legal here.
struct Probe {
  std::string statement;
  Wgmma instruction;
  bool legal = false;
};

Probe probe_of(const Wgmma& instruction) {
  return {.statement = print(statement_of(instruction)),
          .instruction = instruction,
          .legal = violations_of(instruction, Target::sm_90a).empty()};
}

/// The statement with another text for one operand, which the value cannot hold.
Probe probe_with(const Wgmma& instruction, std::string_view operand, const std::string& text) {
  Statement statement = statement_of(instruction);
  for (StatementOperand& statement_operand : statement.operands) {
    if (statement_operand.name == operand) statement_operand.text = text;
  }
  Probe probe{.statement = print(statement), .instruction = instruction, .legal = true};
  REQUIRE(probe.statement != print(statement_of(instruction)));
  try {
    require_legal(parse_statement(probe.statement).instruction, Target::sm_90a);
  } catch (const Error&) {
    probe.legal = false;
  }
  return probe;
}

Format only(const FormatSet& set) {
  for (const FormatInfo& format : formats) {
    if (set.contains(format.id)) return format.id;
  }
  return Format::f32;
}

}  // namespace

TEST_CASE("the kernel has the instruction with its operands, in the order of PTX") {
  Wgmma instruction = std::get<Wgmma>(parse_instruction("wgmma.mma_async.sp.sync.aligned.m64n8k32.f16.f16.f16"));
  instruction.negate_b = true, instruction.transpose_b = true, instruction.sparsity_selector = 1;
  const auto statement = [](const Instruction& printed) { return print(statement_of(printed)); };
  CHECK(statement(instruction) ==
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f16.f16.f16 {d0, d1}, a_desc, b_desc, metadata0, 1, scale_d, 1, -1, "
        "0, 1;");
  instruction.a_source = OperandSource::registers;
  CHECK(statement(instruction) ==
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f16.f16.f16 {d0, d1}, {a0, a1, a2, a3}, b_desc, metadata0, 1, "
        "scale_d, 1, -1, 1;");
  CHECK(statement(parse_instruction("wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc")) ==
        "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc {d0, d1, d2, d3}, a_desc, b_desc, scale_d;");
  const std::string kernel = ptx_kernel(instruction, {.image_bytes = 5000}).text;
  CHECK_THAT(kernel, ContainsSubstring(".target sm_90a") && ContainsSubstring("fence.proxy.async") &&
                         ContainsSubstring("wgmma.wait_group.sync.aligned 0;") &&
                         ContainsSubstring("mul.wide.u32 offset, case_index, 5008;") &&
                         ContainsSubstring(statement(instruction)));
  CHECK_THAT(ptx_kernel(Tcgen05Mma{}, {.target = Target::sm_103a}).text, ContainsSubstring(".target sm_103a\n"));
}

TEST_CASE("ptxas assembles the kernel of every legal wgmma: all N, types, sources, majors and immediates",
          "[rule:forms][rule:ptx-text][daily]") {
  if (!test::require_ptxas(judged)) return;
  std::vector<test::PtxModule> modules;
  std::vector<std::string> names;
  size_t count = 0;
  for (const Instruction& instruction : all_instructions(Family::wgmma)) {
    for (const OperandSource source : {OperandSource::smem, OperandSource::registers}) {
      const std::vector<Instruction> variants = with_all_immediates(std::get<Wgmma>(instruction), source);
      count += variants.size();
      modules.push_back({kernel_with(variants)});
      names.push_back(print(instruction));
    }
  }
  const std::vector<char> taken = test::ptxas_takes(modules, 48);
  std::string refused;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!taken[i]) refused += names[i] + "\n";
  }
  CHECK(refused == "");
  CHECK(static_cast<int64_t>(count) == expected_variants());
}

TEST_CASE("ptxas and the form table agree on a grid of types, N, K and near misses, both ways", "[rule:forms][long]") {
  if (!test::require_ptxas(judged)) return;
  using enum Format;
  std::vector<Probe> grid;
  // Every triple of types, at the K and operation that its inputs would have.
  for (const Format d : {f32, f16, s32, bf16}) {
    for (const Format a : {f16, bf16, tf32, e4m3, e5m2, s8, u8, b1, e2m1}) {
      for (const Format b : {f16, bf16, tf32, e4m3, e5m2, s8, u8, b1, e2m1}) {
        for (const bool sparse : {false, true}) {
          const int k = natural_k(a == e2m1 ? 8 : info(a).bits, sparse);
          grid.push_back(probe_of({.n = 16, .d = d, .a = a, .b = b, .sparse = sparse, .k = k}));
        }
      }
    }
  }
  for (const Form& form : forms()) {
    if (form.family != Family::wgmma) continue;
    const Wgmma plain{.n = 16, .d = form.d, .a = only(form.a), .b = only(form.b)};
    REQUIRE(plain.k == form.k_dense);
    REQUIRE(plain.bit_operation == form.bit_operation);
    const auto add = [&](auto change) {
      Wgmma miss = plain;
      change(miss);
      grid.push_back(probe_of(miss));
    };
    if (form.a == form.b) {
      for (int n = 8; n <= 272; n += 8) add([&](Wgmma& i) { i.n = n; });
    }
    for (const int n : {4, 12, 20, 100}) add([&](Wgmma& i) { i.n = n; });
    for (const int k : {8, 16, 32, 64, 128, 256}) add([&](Wgmma& i) { i.k = k; });
    for (const int k : {8, 16, 32, 64, 128}) add([&](Wgmma& i) { i.k = k, i.sparse = true; });
    add([](Wgmma& i) { i.m = 128; });
    add([](Wgmma& i) { i.saturate = true; });
    add([](Wgmma& i) { i.transpose_a = true; });
    add([](Wgmma& i) { i.transpose_b = true; });
    add([](Wgmma& i) { i.transpose_a = true, i.a_source = OperandSource::registers; });
    add([](Wgmma& i) {
      i.bit_operation = i.bit_operation == BitOperation::none ? BitOperation::and_popc : BitOperation::none;
    });
    add([](Wgmma& i) { i.bit_operation = BitOperation::xor_popc; });
    // What the value cannot hold.
    if (form.negate) {
      grid.push_back(probe_with(plain, "imm-scale-a", "0"));
      grid.push_back(probe_with(plain, "imm-scale-b", "2"));
    }
    Wgmma transposed = plain;
    transposed.transpose_a = transposed.transpose_b = true;
    grid.push_back(probe_with(transposed, "imm-trans-b", "2"));
    for (const int selector : {1, 2, 3}) {
      if (form.k_sparse) add([&](Wgmma& i) { i.sparse = true, i.k = form.k_sparse, i.sparsity_selector = selector; });
    }
  }
  std::vector<test::PtxModule> legal, illegal;
  std::vector<const Probe*> legal_probes, illegal_probes;
  for (const Probe& probe : grid) {
    // A transposed A in registers cannot be written in PTX at all, so ptxas never sees it.
    if (probe.instruction.a_source == OperandSource::registers && probe.instruction.transpose_a) continue;
    (probe.legal ? legal : illegal).push_back({kernel_with(probe.instruction, probe.statement)});
    (probe.legal ? legal_probes : illegal_probes).push_back(&probe);
  }
  std::string disagreements;
  const auto compare = [&](const std::vector<char>& taken, const std::vector<const Probe*>& probes) {
    for (size_t i = 0; i < probes.size(); ++i) {
      if (probes[i]->legal == (taken[i] != 0)) continue;
      disagreements +=
          fmt::format("{}: legal here {}, ptxas {}\n", probes[i]->statement, probes[i]->legal, taken[i] != 0);
    }
  };
  compare(test::ptxas_takes(legal, 48), legal_probes);
  compare(test::ptxas_takes(illegal), illegal_probes);
  CHECK(disagreements == "");
  CHECK(legal.size() > 250);
  CHECK(illegal.size() > 800);
}
