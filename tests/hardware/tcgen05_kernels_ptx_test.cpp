// The generated kernels of tcgen05 against ptxas, where there is one. M, N, types and major-ness are in a run-time
// operand that ptxas never sees.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "bitmma/hardware/ptx_kernel.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"
#include "support/ptxas.hpp"

using namespace bitmma;

namespace {

/// What a target wants beside the mnemonic: metadata of its own version.
Instruction as_of(const Instruction& instruction, Target target) {
  const auto* const mma = std::get_if<Tcgen05Mma>(&instruction);
  if (!mma || !mma->sparse || !info(mma->kind).is_fp4) return instruction;
  Tcgen05Mma versioned = *mma;
  versioned.sparsity_version = target == Target::sm_107a ? 1 : 0;
  return versioned;
}

/// Kernels, and what to call them in complaints.
struct Kernels {
  std::vector<test::PtxModule> modules = {};
  std::vector<std::string> names = {};

  void add(const Instruction& instruction, Target target, const KernelShape& shape) {
    KernelShape of_target = shape;
    of_target.target = target;
    modules.push_back({ptx_kernel(as_of(instruction, target), of_target).text, target});
    names.push_back(fmt::format("{} on {}", print(instruction), print(target)));
  }
  std::string refused() const {
    const std::vector<char> taken = test::ptxas_takes(modules, 24);
    std::string refused_names;
    for (size_t i = 0; i < names.size(); ++i) {
      if (!taken[i]) refused_names += names[i] + "\n";
    }
    return refused_names;
  }
};

/// Every mnemonic of tcgen05 once for each source of A: M, N, types and major-ness are not in the kernel.
std::vector<Instruction> instance_classes() {
  std::vector<Instruction> all;
  for (const Instruction& plain : all_instructions(Family::tcgen05)) {
    // Hints of both operands at once add no line to those of each.
    if (std::get<Tcgen05Mma>(plain).collector && std::get<Tcgen05Mma>(plain).collector_b) continue;
    for (const OperandSource source : {OperandSource::smem, OperandSource::tmem}) {
      const Instruction instruction = with_a_source(plain, source);
      if (source == OperandSource::tmem || instruction == plain) all.push_back(instruction);
    }
  }
  return all;
}

/// The targets with Tensor Memory that the ptxas found here knows. sm_101 is the name of sm_110 in CUDA 12.
std::vector<Target> judged_targets() {
  return test::known_to_ptxas(std::array{Target::sm_100a, Target::sm_100f, Target::sm_103a, Target::sm_103f,
                                         Target::sm_107a, Target::sm_107f, Target::sm_110a, Target::sm_110f});
}

/// Those where it is legal, in a version of PTX that the ptxas found here reads.
std::vector<Target> targets_with(const Instruction& instruction, const std::vector<Target>& judged) {
  static const PtxVersion newest = test::ptxas_isa();
  std::vector<Target> legal;
  std::ranges::copy_if(judged, std::back_inserter(legal), [&](Target target) {
    return ptx_version_of(instruction, target) <= newest && violations_of(as_of(instruction, target), target).empty();
  });
  return legal;
}

constexpr KernelShape small{.image_bytes = 16384, .columns = 128};

}  // namespace

TEST_CASE("ptxas assembles the kernels around tcgen05 instructions: each class on one of its targets, in turn",
          "[long]") {
  if (!test::require_ptxas("tcgen05")) return;
  const std::vector<Target> judged = judged_targets();
  Kernels kernels;
  size_t turn = 0;
  const auto add = [&](const Instruction& instruction) {
    const std::vector<Target> legal = targets_with(instruction, judged);
    if (!legal.empty()) kernels.add(instruction, legal[turn++ % legal.size()], small);
  };
  for (const Instruction& instruction : instance_classes()) {
    if (!std::get<Tcgen05Mma>(instruction).collector && !std::get<Tcgen05Mma>(instruction).collector_b)
      add(instruction);
  }
  for (const Instruction& move : all_instructions(Family::tmem_move)) {
    if (!std::get<TmemMove>(move).has_registers() || std::get<TmemMove>(move).ldst.num <= 4) add(move);
  }
  // The least and the most that a CTA can have.
  for (const int group : {1, 2}) {
    for (const KernelShape& shape :
         {KernelShape{.image_bytes = 0, .columns = 1}, KernelShape{.image_bytes = 231408, .columns = 512}})
      kernels.add(Tcgen05Mma{.cta_group = group}, Target::sm_100a, shape);
  }
  CHECK(kernels.refused() == "");
  CHECK(kernels.names.size() > 150);
}

// Its name puts it among the longer tests.
TEST_CASE("ptxas assembles the kernel of every tcgen05 instruction on every target that has it", "[daily]") {
  if (!test::require_ptxas("tcgen05")) return;
  const std::vector<Target> judged = judged_targets();
  Kernels kernels;
  std::vector<Instruction> all = instance_classes();
  for (const Instruction& move : all_instructions(Family::tmem_move)) all.push_back(move);
  for (const Instruction& instruction : all) {
    for (const Target target : targets_with(instruction, judged)) kernels.add(instruction, target, small);
  }
  CHECK(kernels.refused() == "");
  CHECK(kernels.names.size() > 1000);
}
