// The mnemonics and kernels of tcgen05 against ptxas, where there is one. M, N, types and major-ness are in a run-time
// operand that ptxas never sees.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>

#include "bitmma/core/parallel.hpp"
#include "bitmma/instruction/legality.hpp"
#include "bitmma/instruction/ptx_kernel.hpp"
#include "bitmma/instruction/tcgen05.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

bool require_ptxas() {
  static const bool here = std::system("ptxas --version > /dev/null 2>&1") == 0;
  if (!here) WARN("ptxas is not installed: tcgen05 was NOT checked against it");
  return here;
}

bool assembles(const test::TemporaryFolder& folder, const std::string& name, const std::string& ptx,
               std::string_view target) {
  const std::string path = folder.path(name + ".ptx");
  test::write_text(path, ptx);
  const bool ok =
      std::system(fmt::format("ptxas -arch={} -o /dev/null {} > /dev/null 2>&1", target, path).c_str()) == 0;
  std::filesystem::remove(path);
  return ok;
}

/// A module with a kernel for every statement, which ptxas takes or refuses as a whole.
std::string module_of(const std::vector<std::string>& statements, std::string_view target) {
  std::string text = fmt::format(".version 8.8\n.target {}\n.address_size 64\n", target);
  for (size_t i = 0; i < statements.size(); ++i) {
    text += fmt::format(
        ".visible .entry k{}() {{\n  .reg .b64 a_desc, b_desc, zero_column_mask;\n  .reg .b32 d_tmem, a_tmem, "
        "metadata_tmem, scale_a_tmem, scale_b_tmem, taddr, idesc, mask<8>, v<256>;\n"
        "  .reg .pred enable_input_d;\n  {}\n  ret;\n}}\n",
        i, statements[i]);
  }
  return text;
}

/// A statement and whether it is legal here on a target.
struct Probe {
  std::string statement;
  std::string_view target;
  bool legal = false;

  bool operator<(const Probe& other) const {
    return std::tie(statement, target) < std::tie(other.statement, other.target);
  }
};

/// Legal ones are assembled many at a time, the others one by one. Returns what disagrees.
std::string disagreements_of(const std::vector<Probe>& probes) {
  const test::TemporaryFolder folder;
  std::map<std::string_view, std::vector<std::vector<std::string>>> modules;
  std::vector<Probe> refused;
  for (const Probe& probe : probes) {
    if (!probe.legal) {
      refused.push_back(probe);
      continue;
    }
    auto& of_target = modules[probe.target];
    if (of_target.empty() || of_target.back().size() == 64) of_target.emplace_back();
    of_target.back().push_back(probe.statement);
  }
  std::mutex mutex;
  std::string found;
  const auto add = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    found += line + "\n";
  };
  for (const auto& [target, list] : modules) {
    parallel_for(list.size(), hardware_threads(), [&](size_t i) {
      if (assembles(folder, fmt::format("{}_{}", target, i), module_of(list[i], target), target)) return;
      for (const std::string& statement : list[i]) {
        if (!assembles(folder, fmt::format("{}_{}", target, i), module_of({statement}, target), target))
          add(fmt::format("{} on {}: legal here, ptxas refuses", statement, target));
      }
    });
  }
  parallel_for(refused.size(), hardware_threads(), [&](size_t i) {
    if (assembles(folder, std::to_string(i), module_of({refused[i].statement}, refused[i].target), refused[i].target))
      add(fmt::format("{} on {}: refused here, ptxas takes it", refused[i].statement, refused[i].target));
  });
  return found;
}

constexpr std::array<std::string_view, 2> targets{"sm_100a", "sm_103a"};

}  // namespace

TEST_CASE("ptxas and the tables agree on the mnemonics of tcgen05.mma, both ways, on sm_100a and sm_103a") {
  if (!require_ptxas()) return;
  std::set<Probe> probes;
  const auto add = [&](const Instruction& instruction, const std::string& statement, bool legal) {
    const std::vector<std::string_view> has = tcgen05_targets(instruction);
    for (const std::string_view target : targets)
      probes.insert({statement, target, legal && std::ranges::find(has, target) != has.end()});
  };
  // What is legal, with both sources of A, with and without the operands that may be left out.
  for (const Instruction& plain : all_tcgen05_mnemonics()) {
    for (const OperandSource source : {OperandSource::smem, OperandSource::tmem}) {
      for (const int scale : {0, 1, 15, 16}) {
        Instruction one = plain;
        one.a_source = source;
        one.scale_input_d = scale;
        // ptxas lets any scale-input-d pass for i8, which PTX does not have; and 0 leaves no trace in the text.
        if (scale != 0 && one.kind == MmaKind::i8) continue;
        if (!plain.collector.empty() && (scale != 0 || source == OperandSource::tmem))
          continue;  // enough of them without
        add(one, ptx_statement(one), tcgen05_violations(one).empty());
      }
    }
  }
  // And what lies beside it: every qualifier in place or not, legal or not.
  for (const char* front : {"", ".ws", ".sp", ".ws.sp", ".sp.ws"}) {
    for (const char* group : {".cta_group::1", ".cta_group::2", ".cta_group::3", ""}) {
      for (const char* kind : {"f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4", "bf16"}) {
        for (const char* tail : {"", ".block_scale", ".block_scale.scale_vec::1X", ".block_scale.scale_vec::2X",
                                 ".block_scale.scale_vec::4X", ".block_scale.block16", ".block_scale.block32",
                                 ".block_scale.scale_vec::3X", ".ashift", ".collector::a::fill", ".collector::b0::fill",
                                 ".collector::b4::use", ".collector::a::keep", ".ashift.collector::a::use",
                                 ".ashift.collector::a::lastuse", ".block_scale.block32.ashift"}) {
          const std::string mnemonic = fmt::format("tcgen05.mma{}{}.kind::{}{}", front, group, kind, tail);
          Instruction one;
          bool legal = true;
          try {
            one = parse_instruction(mnemonic);
          } catch (const Error&) {
            legal = false;
          }
          const bool packed = one.kind == MmaKind::mxf4 || one.kind == MmaKind::mxf4nvf4;
          one.a = one.b = packed                      ? Format::e2m1
                          : one.kind == MmaKind::tf32 ? Format::tf32
                          : one.kind == MmaKind::i8   ? Format::s8
                          : one.kind == MmaKind::f16  ? Format::f16
                                                      : Format::e4m3;
          one.d = one.kind == MmaKind::i8 ? Format::s32 : Format::f32;
          one.m = one.cta_group == 2 ? 256 : 128, one.n = 64, one.k = packed ? 64 : 32;
          if (one.ashift) one.a_source = OperandSource::tmem;
          // A statement for what cannot be parsed: the operands of the nearest legal one.
          const bool sparse = std::string_view(front).find("sp") != std::string_view::npos,
                     scaled = std::string_view(tail).find("block_scale") != std::string_view::npos;
          const std::string statement =
              legal
                  ? ptx_statement(one)
                  : fmt::format("{} [d_tmem], {}, b_desc, {}idesc, {}enable_input_d;", mnemonic,
                                std::string_view(tail).find("ashift") != std::string_view::npos ? "[a_tmem]" : "a_desc",
                                sparse ? "[metadata_tmem], " : "", scaled ? "[scale_a_tmem], [scale_b_tmem], " : "");
          add(one, statement, legal && tcgen05_violations(one).empty());
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

TEST_CASE("ptxas and the parser agree on tcgen05.ld, .st, .cp and .shift, both ways") {
  if (!require_ptxas()) return;
  std::set<Probe> probes;
  for (const std::string_view target : targets) {
    for (const TmemMove& move : all_legal_moves()) probes.insert({ptx_statement(move), target, true});
    const auto add = [&](const std::string& mnemonic, const std::string& operands) {
      bool legal = true;
      try {
        parse_tmem_move(mnemonic);
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

TEST_CASE("ptxas assembles the kernel around every tcgen05 instruction") {
  if (!require_ptxas()) return;
  struct Kernel {
    std::string ptx;
    std::string_view target;
    std::string name;
  };
  std::vector<Kernel> kernels;
  for (const Instruction& plain : all_tcgen05_mnemonics()) {
    if (!plain.collector.empty()) continue;
    for (const OperandSource source : {OperandSource::smem, OperandSource::tmem}) {
      Instruction one = plain;
      one.a_source = source;
      if (!tcgen05_violations(one).empty()) continue;
      for (const std::string_view target : tcgen05_targets(one))
        kernels.push_back({tcgen05_kernel(one, 16384, 128, target), target, print(one)});
    }
  }
  for (const TmemMove& move : all_legal_moves())
    kernels.push_back({tcgen05_kernel(move, 16384, 128, "sm_100a"), "sm_100a", print(move)});
  const test::TemporaryFolder folder;
  std::mutex mutex;
  std::string refused;
  // Many kernels in a module, each under its own name; cta_groups may not meet in one function, and do not.
  constexpr size_t per_module = 24;
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const Kernel& x, const Kernel& y) { return x.target < y.target; });
  std::vector<std::pair<size_t, size_t>> modules;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (modules.empty() || i - modules.back().first == per_module ||
        kernels[i].target != kernels[modules.back().first].target)
      modules.emplace_back(i, i);
    modules.back().second = i + 1;
  }
  parallel_for(modules.size(), hardware_threads(), [&](size_t m) {
    std::string text;
    for (size_t i = modules[m].first; i < modules[m].second; ++i) {
      const size_t entry = kernels[i].ptx.find(".visible .entry ");
      if (text.empty()) text = kernels[i].ptx.substr(0, entry);
      std::string body = kernels[i].ptx.substr(entry);
      body.replace(body.find(kernel_name), kernel_name.size(), fmt::format("{}_{}", kernel_name, i));
      text += body;
    }
    if (assembles(folder, std::to_string(m), text, kernels[modules[m].first].target)) return;
    const std::lock_guard lock(mutex);
    refused += kernels[modules[m].first].name + " ...\n";
  });
  CHECK(refused == "");
  CHECK(kernels.size() > 150);
}
