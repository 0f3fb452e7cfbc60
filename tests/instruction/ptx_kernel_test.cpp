// The generated kernels against ptxas, where there is one: what we accept assembles, what we refuse does not.
#include "bitmma/instruction/ptx_kernel.hpp"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>

#include "bitmma/core/parallel.hpp"
#include "bitmma/instruction/legality.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

bool ptxas_is_here() {
  static const bool here = std::system("ptxas --version > /dev/null 2>&1") == 0;
  return here;
}

/// Says aloud that nothing was checked. Returns false without ptxas.
bool require_ptxas() {
  if (ptxas_is_here()) return true;
  WARN("ptxas is not installed: the agreement of the legality table with ptxas was NOT checked");
  return false;
}

bool assembles(const test::TemporaryFolder& folder, size_t index, const std::string& ptx) {
  const std::string path = folder.path(std::to_string(index) + ".ptx");
  test::write_text(path, ptx);
  const bool ok = std::system(fmt::format("ptxas -arch=sm_90a -o /dev/null {} > /dev/null 2>&1", path).c_str()) == 0;
  std::filesystem::remove(path);
  return ok;
}

/// The kernel of the first instruction with the statements of all of them in it. They differ in immediates alone.
std::string kernel_of(const std::vector<Instruction>& variants) {
  std::string kernel = ptx_kernel(variants.front(), 4096), statements;
  for (const Instruction& instruction : variants) statements += ptx_statement(instruction) + "\n";
  const std::string first = ptx_statement(variants.front());
  return kernel.replace(kernel.find(first), first.size(), statements);
}

/// One module with many such kernels.
std::string module_of(const std::vector<std::vector<Instruction>>& kernels) {
  std::string text;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const std::string kernel = kernel_of(kernels[i]);
    const size_t entry = kernel.find(".visible .entry ");
    if (i == 0) text += kernel.substr(0, entry);
    std::string body = kernel.substr(entry);
    body.replace(body.find(kernel_name), kernel_name.size(), fmt::format("{}_{}", kernel_name, i));
    text += body;
  }
  return text;
}

/// Every combination of immediates, selector and source that the form has.
std::vector<Instruction> with_all_immediates(const Instruction& plain) {
  const LegalForm& form = *find_legal_form(plain);
  std::vector<Instruction> all;
  for (const OperandSource source : {OperandSource::smem, OperandSource::registers}) {
    for (int bits = 0; bits < 16; ++bits) {
      for (int selector = 0; selector < (plain.sparse ? form.selectors : 1); ++selector) {
        Instruction instruction = plain;
        instruction.a_source = source;
        instruction.imm_scale_a = bits & 1 ? -1 : 1;
        instruction.imm_scale_b = bits & 2 ? -1 : 1;
        instruction.imm_trans_a = bits >> 2 & 1;
        instruction.imm_trans_b = bits >> 3 & 1;
        instruction.sparsity_selector = selector;
        if (violations_of(instruction).empty()) all.push_back(instruction);
      }
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

}  // namespace

TEST_CASE("the kernel has the instruction with its operands, in the order of PTX") {
  Instruction instruction = parse_instruction("wgmma.mma_async.sp.sync.aligned.m64n8k32.f16.f16.f16");
  instruction.imm_scale_b = -1, instruction.imm_trans_b = 1, instruction.sparsity_selector = 1;
  CHECK(ptx_statement(instruction) ==
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f16.f16.f16 {d0, d1}, a_desc, b_desc, metadata0, 1, scale_d, 1, -1, "
        "0, 1;");
  instruction.a_source = OperandSource::registers;
  CHECK(ptx_statement(instruction) ==
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f16.f16.f16 {d0, d1}, {a0, a1, a2, a3}, b_desc, metadata0, 1, "
        "scale_d, 1, -1, 1;");
  CHECK(ptx_statement(parse_instruction("wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc")) ==
        "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc {d0, d1, d2, d3}, a_desc, b_desc, scale_d;");
  const std::string kernel = ptx_kernel(instruction, 5000);
  CHECK_THAT(kernel, ContainsSubstring(".target sm_90a") && ContainsSubstring("fence.proxy.async") &&
                         ContainsSubstring("wgmma.wait_group.sync.aligned 0;") &&
                         ContainsSubstring("mul.wide.u32 offset, case_index, 5008;"));
}

TEST_CASE("ptxas assembles the kernel of every legal wgmma: all N, types, sources, majors and immediates") {
  if (!require_ptxas()) return;
  std::vector<std::vector<std::vector<Instruction>>> modules(1);  // module, kernel, statement
  int64_t count = 0;
  for (const Instruction& instruction : all_legal_instructions()) {
    std::array<std::vector<Instruction>, 2> by_source;
    for (const Instruction& one : with_all_immediates(instruction)) {
      by_source[one.a_source == OperandSource::registers].push_back(one);
      ++count;
    }
    for (std::vector<Instruction>& variants : by_source) {
      if (modules.back().size() == 48) modules.emplace_back();
      modules.back().push_back(std::move(variants));
    }
  }
  const test::TemporaryFolder folder;
  std::mutex mutex;
  std::string refused;
  parallel_for(modules.size(), hardware_threads(), [&](size_t i) {
    if (assembles(folder, i, module_of(modules[i]))) return;
    const std::lock_guard lock(mutex);
    refused += print(modules[i].front().front()) + " ...\n";
  });
  CHECK(refused.empty());
  CHECK(count == expected_variants());
}

TEST_CASE("ptxas and the legality table agree on a grid of types, N, K and near misses, both ways") {
  if (!require_ptxas()) return;
  using enum Format;
  std::vector<Instruction> grid;
  // Every triple of types, at the K and operation that its inputs would have.
  for (const Format d : {f32, f16, s32, bf16}) {
    for (const Format a : {f16, bf16, tf32, e4m3, e5m2, s8, u8, b1, e2m1}) {
      for (const Format b : {f16, bf16, tf32, e4m3, e5m2, s8, u8, b1, e2m1}) {
        for (const bool sparse : {false, true}) {
          const int k = 256 / (a == e2m1 ? 8 : info(a).bits) * (sparse ? 2 : 1);
          grid.push_back(
              {.sparse = sparse, .n = 16, .k = k, .d = d, .a = a, .b = b, .bit_operation = a == b1 ? ".and.popc" : ""});
        }
      }
    }
  }
  for (const LegalForm& form : legal_forms()) {
    const Instruction plain{.n = 16,
                            .k = form.k_dense,
                            .d = form.d,
                            .a = form.a,
                            .b = form.b,
                            .bit_operation = std::string(form.bit_operation)};
    const auto add = [&](auto change) {
      Instruction miss = plain;
      change(miss);
      grid.push_back(miss);
    };
    if (form.a == form.b) {
      for (int n = 8; n <= 272; n += 8) add([&](Instruction& i) { i.n = n; });
    }
    for (const int n : {4, 12, 20, 100}) add([&](Instruction& i) { i.n = n; });
    for (const int k : {8, 16, 32, 64, 128, 256}) add([&](Instruction& i) { i.k = k; });
    for (const int k : {8, 16, 32, 64, 128}) add([&](Instruction& i) { i.k = k, i.sparse = true; });
    add([](Instruction& i) { i.m = 128; });
    add([](Instruction& i) { i.satfinite = true; });
    add([](Instruction& i) { i.imm_trans_a = 1; });
    add([](Instruction& i) { i.imm_trans_b = 1; });
    add([](Instruction& i) { i.imm_trans_b = 2, i.imm_trans_a = 1; });
    add([](Instruction& i) { i.imm_trans_a = 1, i.a_source = OperandSource::registers; });
    add([](Instruction& i) { i.bit_operation = i.bit_operation.empty() ? ".and.popc" : ""; });
    add([](Instruction& i) { i.bit_operation = ".xor.popc"; });
    if (form.scale) {
      add([](Instruction& i) { i.imm_scale_a = 0; });
      add([](Instruction& i) { i.imm_scale_b = 2; });
    }
    for (const int selector : {1, 2, 3}) {
      if (form.k_sparse)
        add([&](Instruction& i) { i.sparse = true, i.k = form.k_sparse, i.sparsity_selector = selector; });
    }
  }
  const test::TemporaryFolder folder;
  std::mutex mutex;
  std::string disagreements;
  std::atomic<int> accepted{0}, refused{0};
  parallel_for(grid.size(), hardware_threads(), [&](size_t i) {
    const bool legal = violations_of(grid[i]).empty(), ok = assembles(folder, i, ptx_kernel(grid[i], 4096));
    ++(legal ? accepted : refused);
    // A transposed A in registers cannot be written in PTX at all, so ptxas never sees it.
    const bool unwritable = grid[i].a_source == OperandSource::registers && grid[i].imm_trans_a != 0;
    if (legal == ok || unwritable) return;
    const std::lock_guard lock(mutex);
    disagreements +=
        fmt::format("{} ({}): legal here {}, ptxas {}\n", print(grid[i]), ptx_statement(grid[i]), legal, ok);
  });
  CHECK(disagreements == "");
  CHECK(accepted > 250);
  CHECK(refused > 800);
}
