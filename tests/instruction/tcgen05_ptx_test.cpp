// The mnemonics of tcgen05.mma that are taken here against ptxas, where there is one. M, N, types and major-ness are in a
// run-time operand that ptxas never sees.
#include <cstdlib>
#include <mutex>

#include <fmt/format.h>

#include "bitmma/core/parallel.hpp"
#include "bitmma/instruction/ptx_kernel.hpp"
#include "bitmma/instruction/tcgen05.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

TEST_CASE("ptxas and the parser agree on the mnemonics of tcgen05.mma, both ways") {
  if (std::system("ptxas --version > /dev/null 2>&1") != 0) {
    WARN("ptxas is not installed: the mnemonics of tcgen05.mma were NOT checked");
    return;
  }
  struct Probe { std::string mnemonic; OperandSource source; };
  std::vector<Probe> probes;
  for (const char* ws : {"", ".ws"}) {
    for (const char* group : {".cta_group::1", ".cta_group::2", ".cta_group::3", ""}) {
      for (const char* kind : {".kind::f16", ".kind::tf32", ".kind::f8f6f4", ".kind::i8", ".kind::bf16"}) {
        for (const char* collector : {"", ".collector::a::fill", ".collector::a::use", ".collector::a::lastuse", ".collector::a::discard", ".collector::b0::fill", ".collector::b1::use",
                                      ".collector::b2::lastuse", ".collector::b3::discard", ".collector::b4::fill", ".collector::a::keep"}) {
          for (const OperandSource source : {OperandSource::smem, OperandSource::tmem}) probes.push_back({fmt::format("tcgen05.mma{}{}{}{}", ws, group, kind, collector), source});
        }
      }
    }
  }
  const test::TemporaryFolder folder;
  std::mutex mutex;
  std::string disagreements;
  int accepted = 0;
  parallel_for(probes.size(), hardware_threads(), [&](size_t i) {
    bool legal = true;
    std::string statement = fmt::format("{} [d_tmem], {}, b_desc, idesc, enable_input_d;", probes[i].mnemonic, probes[i].source == OperandSource::tmem ? "[a_tmem]" : "a_desc");
    try {
      Instruction instruction = parse_instruction(probes[i].mnemonic);
      instruction.a_source = probes[i].source;
      // Any shape and types of the kind will do: they are not in the text.
      instruction.a = instruction.b = instruction.kind == MmaKind::tf32 ? Format::tf32 : instruction.kind == MmaKind::f8f6f4 ? Format::e4m3 : instruction.kind == MmaKind::i8 ? Format::s8 : Format::f16;
      instruction.d = instruction.kind == MmaKind::i8 ? Format::s32 : Format::f32;
      instruction.m = 128, instruction.n = 64;
      legal = tcgen05_violations(instruction).empty();
      if (legal) statement = ptx_statement(instruction);
    } catch (const Error&) {
      legal = false;
    }
    const std::string path = folder.path(std::to_string(i) + ".ptx");
    test::write_text(path, ".version 8.7\n.target sm_100a\n.address_size 64\n.visible .entry k() {\n  .reg .b64 a_desc, b_desc;\n  .reg .b32 d_tmem, a_tmem, idesc;\n  .reg .pred enable_input_d;\n  " +
                               statement + "\n  ret;\n}\n");
    const bool ok = std::system(fmt::format("ptxas -arch=sm_100a -o /dev/null {} > /dev/null 2>&1", path).c_str()) == 0;
    const std::lock_guard lock(mutex);
    accepted += legal;
    if (legal != ok) disagreements += fmt::format("{}: legal here {}, ptxas {}\n", statement, legal, ok);
  });
  CHECK(disagreements == "");
  CHECK(accepted == (2 * 4 * 5 + 4 * 5) * 2);
}
