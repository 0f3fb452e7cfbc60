// The mnemonics and kernels of tcgen05 against ptxas, where there is one. M, N, types and major-ness are in a run-time
// operand that ptxas never sees.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/hardware/ptx_kernel.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"
#include "support/ptxas.hpp"

using namespace bitmma;

namespace {

/// Those with tcgen05 that ptxas knows: sm_107 from CUDA 13.4 on, sm_101 only in CUDA 12.
const std::vector<Target>& on_targets() {
  static const std::vector<Target> known =
      test::known_to_ptxas(std::array{Target::sm_100a, Target::sm_100f, Target::sm_103a, Target::sm_103f,
                                      Target::sm_107a, Target::sm_107f, Target::sm_110a, Target::sm_110f});
  return known;
}

/// A kernel of one statement, with every register that a statement may name.
std::string kernel_of(const std::string& statement, Target target) {
  const PtxVersion version = std::max(info(target).ptx, PtxVersion{8, 8});
  return fmt::format(
      ".version {}.{}\n.target {}\n.address_size 64\n"
      ".visible .entry {}() {{\n  .reg .b64 a_desc, b_desc, zero_column_mask;\n  .reg .b32 d_tmem, a_tmem, "
      "metadata_tmem, scale_a_tmem, scale_b_tmem, taddr, idesc, redval<1>, mask<8>, v<256>;\n"
      "  .reg .pred enable_input_d;\n  {}\n  ret;\n}}\n",
      version.major, version.minor, print(target), kernel_name, statement);
}

/// A statement and whether it is legal here on a target.
struct Probe {
  std::string statement;
  Target target = Target::sm_100a;
  bool legal = false;

  bool operator<(const Probe& other) const {
    return std::tie(statement, target) < std::tie(other.statement, other.target);
  }
};

/// Legal ones are assembled many at a time, the others one by one. Returns what disagrees.
std::string disagreements_of(const std::vector<Probe>& probes) {
  std::string refusals;
  for (const bool legal : {true, false}) {
    std::vector<test::PtxModule> modules;
    std::vector<const Probe*> assembled;
    for (const Probe& probe : probes) {
      if (probe.legal != legal) continue;
      modules.push_back({kernel_of(probe.statement, probe.target), probe.target});
      assembled.push_back(&probe);
    }
    const std::vector<char> taken = test::ptxas_takes(modules, legal ? 64 : 1);
    for (size_t i = 0; i < assembled.size(); ++i) {
      if (legal == (taken[i] != 0)) continue;
      refusals += fmt::format("{} on {}: {}\n", assembled[i]->statement, print(assembled[i]->target),
                              legal ? "legal here, ptxas refuses" : "refused here, ptxas takes it");
    }
  }
  return refusals;
}

/// What ptxas cannot see on the target: metadata of the version that the target has.
Tcgen05Mma as_of(Tcgen05Mma instruction, Target target) {
  if (instruction.sparse && info(instruction.kind).is_fp4)
    instruction.sparsity_version = target == Target::sm_107a ? 1 : 0;
  return instruction;
}

/// Adds the instruction on every target, as the tables judge it.
void add_probes(std::set<Probe>& probes, const Tcgen05Mma& instruction) {
  for (const Target target : on_targets()) {
    const bool legal = violations_of(as_of(instruction, target), target).empty();
    // What is refused is a module of its own: with a collector it is asked on one target alone.
    const bool has_collector = instruction.collector || instruction.collector_b;
    const bool is_asked =
        !has_collector || (target == on_targets().front() &&
                           (!instruction.collector_b || instruction.collector_b == CollectorOperation::use));
    if (!legal && !is_asked) continue;
    probes.insert({print(statement_of(instruction)), target, legal});
  }
}

}  // namespace

TEST_CASE("ptxas and the tables agree on the mnemonics of tcgen05.mma, both ways, on every target that ptxas knows",
          "[rule:forms][daily]") {
  if (!test::require_ptxas("tcgen05")) return;
  std::set<Probe> probes;
  // What is legal, with both sources of A, with and without the operands that may be left out.
  for (const Instruction& plain : all_instructions(Family::tcgen05)) {
    for (const OperandSource source : {OperandSource::smem, OperandSource::tmem}) {
      for (const int scale : {0, 1, 15, 16}) {
        Tcgen05Mma instruction = std::get<Tcgen05Mma>(plain);
        instruction.a_source = source;
        instruction.scale_input_d = scale;
        // ptxas lets any scale-input-d pass for i8, which PTX does not have; and 0 leaves no trace in the text.
        if (scale != 0 && instruction.kind == MmaKind::i8) continue;
        if (scale != 0 && instruction.kind == MmaKind::ti16) continue;  // ptxas 13.5 dies of it
        const bool has_collector = instruction.collector || instruction.collector_b;
        if (has_collector && (scale != 0 || source == OperandSource::tmem)) continue;  // enough of them without
        add_probes(probes, instruction);
      }
    }
  }
  // And what lies beside it: every qualifier in place or not, legal or not.
  for (const char* front : {"", ".ws", ".sp", ".ws.sp", ".sp.ws"}) {
    for (const char* group : {".cta_group::1", ".cta_group::2", ".cta_group::3", ""}) {
      for (const char* kind : {"f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4", "ti16", "bf16"}) {
        for (const char* tail :
             {"", ".block_scale", ".block_scale.scale_vec::1X", ".block_scale.scale_vec::2X",
              ".block_scale.scale_vec::4X", ".block_scale.block16", ".block_scale.block32",
              ".block_scale.scale_vec::3X", ".ashift", ".collector::a::fill", ".collector::b0::fill",
              ".collector::b4::use", ".collector::b::use", ".collector::a::keep", ".ashift.collector::a::use",
              ".ashift.collector::a::lastuse", ".block_scale.block32.ashift"}) {
          const std::string mnemonic = fmt::format("tcgen05.mma{}{}.kind::{}{}", front, group, kind, tail);
          try {
            Tcgen05Mma instruction = std::get<Tcgen05Mma>(parse_instruction(mnemonic));
            if (instruction.ashift) instruction.a_source = OperandSource::tmem;
            add_probes(probes, instruction);
          } catch (const Error&) {
            // A statement for what cannot be parsed: the operands of the nearest legal one.
            const bool sparse = std::string_view(front).find("sp") != std::string_view::npos,
                       scaled = std::string_view(tail).find("block_scale") != std::string_view::npos,
                       shifted = std::string_view(tail).find("ashift") != std::string_view::npos;
            const std::string statement = fmt::format(
                "{} [d_tmem], {}, b_desc, {}idesc, {}enable_input_d;", mnemonic, shifted ? "[a_tmem]" : "a_desc",
                sparse ? "[metadata_tmem], " : "", scaled ? "[scale_a_tmem], [scale_b_tmem], " : "");
            // What no parser reads is judged on one target: each is a module of its own.
            probes.insert({statement, on_targets().front(), false});
          }
        }
      }
    }
  }
  const std::vector<Probe> all(probes.begin(), probes.end());
  CHECK(disagreements_of(all) == "");
  const auto accepted = std::ranges::count_if(all, [](const Probe& probe) { return probe.legal; });
  CHECK(accepted > 800);
  CHECK(static_cast<int64_t>(all.size()) - accepted > 1000);
}

TEST_CASE("ptxas and the parser agree on tcgen05.ld, .st, .cp and .shift, both ways",
          "[rule:forms][rule:ptx-text][daily]") {
  if (!test::require_ptxas("tcgen05")) return;
  std::set<Probe> probes;
  for (const Target target : on_targets()) {
    for (const Instruction& move : all_instructions(Family::tmem_move)) {
      probes.insert({print(statement_of(move)), target, violations_of(move, target).empty()});
    }
    const auto add = [&](const std::string& mnemonic, const std::string& operands) {
      bool legal = true;
      try {
        legal = violations_of(parse_instruction(mnemonic), target).empty();
      } catch (const Error&) {
        legal = false;
      }
      probes.insert({mnemonic + operands, target, legal});
    };
    for (const char* shape : {"32x32b", "16x64b", "16x128b", "16x256b", "16x32b"}) {
      for (const int num : {1, 2, 3, 32, 64, 128, 256}) {
        const int registers = num * (std::string_view(shape) == "16x128b"   ? 2
                                     : std::string_view(shape) == "16x256b" ? 4
                                                                            : 1);
        std::string list = "{";
        for (int i = 0; i < registers && i < 256; ++i) list += fmt::format("{}v{}", i ? ", " : "", i);
        for (const char* tail : {".min.f32", ".max.NaN.abs.f32", ".min.u32", ".max.s32", ".s32.max", ".min.abs.s32",
                                 ".min.f16", ".min.b32", ".add.f32", ".f32", ".pack::16b.min.f32"}) {
          if (registers > 64) continue;
          const std::string mnemonic = fmt::format("tcgen05.ld.red.sync.aligned.{}.x{}{}", shape, num, tail);
          bool legal = true;
          try {
            legal = violations_of(parse_instruction(mnemonic), target).empty();
          } catch (const Error&) {
            legal = false;
          }
          probes.insert({mnemonic + " " + list + "}, idesc, [taddr];", target, legal});
        }
        for (const char* tail : {".b32", ".pack::16b.b32", ".unpack::16b.b32", ".b64", ""}) {
          add(fmt::format("tcgen05.ld.sync.aligned.{}.x{}{}", shape, num, tail), " " + list + "}, [taddr];");
          add(fmt::format("tcgen05.st.sync.aligned.{}.x{}{}", shape, num, tail), " [taddr], " + list + "};");
        }
      }
    }
    for (const char* group : {".cta_group::1", ".cta_group::2", ""}) {
      for (const char* shape : {"128x256b", "4x256b", "128x128b", "64x128b", "32x128b", "32x256b"}) {
        for (const char* multicast : {"", ".warpx2::02_13", ".warpx2::01_23", ".warpx4"}) {
          for (const char* format : {"", ".b8x16.b6x16_p32", ".b8x16.b4x16_p64", ".b6x16_p32", ".b8x16.b4x16_p32"})
            add(fmt::format("tcgen05.cp{}.{}{}{}", group, shape, multicast, format), " [taddr], a_desc;");
        }
      }
      for (const char* direction : {".down", ".up", ""})
        add(fmt::format("tcgen05.shift{}{}", group, direction), " [taddr];");
      add(fmt::format("tcgen05.shift.down{}", group), " [taddr];");
    }
  }
  const std::vector<Probe> all(probes.begin(), probes.end());
  CHECK(disagreements_of(all) == "");
  CHECK(std::ranges::count_if(all, [](const Probe& probe) { return !probe.legal; }) > 400);
}
