// SPDX-License-Identifier: MIT
// Names of registers decide nothing: a value may keep the register of a dead one or have one of its own.
#include "kernel/webs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "kernel/decode.hpp"
#include "run_kernel.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"

namespace bitmma {
namespace {

/// A kernel of random arithmetic in which each instruction writes a value of its own, as text with the values' names
/// drawn from a pool of `registers` registers: a name is free again where its value is not read any more.
class DrawnKernel {
 public:
  explicit DrawnKernel(uint64_t seed) : random_(seed, 0) {
    for (int i = 0; i < inputs; ++i) values_.push_back({});
    const int count = 12 + static_cast<int>(random_.below(20));
    for (int i = 0; i < count; ++i) {
      Step step{.what = static_cast<int>(random_.below(static_cast<uint32_t>(std::size(operations))))};
      for (int& operand : step.operands) {
        // Mostly late values, so that products meet sums.
        const auto size = static_cast<uint32_t>(values_.size()), late = std::min(size, 6U);
        const uint32_t from = random_.below(4) == 0 ? random_.below(size) : size - 1 - random_.below(late);
        operand = static_cast<int>(from);
        values_[from].last_read = i;
      }
      steps_.push_back(step);
      values_.push_back({});
    }
    // What is stored is read at the end.
    for (size_t i = values_.size() - outputs; i < values_.size(); ++i) values_[i].last_read = count;
  }

  std::string text(uint64_t seed, int registers) const {
    RandomStream random(seed, 1);
    std::vector<int> free;
    for (int i = 0; i < registers; ++i) free.push_back(i);
    std::map<int, int> register_of;
    const auto take = [&](int value) {
      REQUIRE_FALSE(free.empty());
      const auto at = static_cast<std::ptrdiff_t>(random.below(static_cast<uint32_t>(free.size())));
      register_of[value] = free[static_cast<size_t>(at)];
      free.erase(free.begin() + at);
      return register_of[value];
    };
    std::string body;
    for (int i = 0; i < inputs; ++i) body += fmt::format("ld.global.f32 %v{}, [%rd1+{}];\n", take(i), 4 * i);
    for (int i = 0; i < std::ssize(steps_); ++i) {
      const Step& step = steps_[static_cast<size_t>(i)];
      const std::array<int, 3> operands{register_of.at(step.operands[0]), register_of.at(step.operands[1]),
                                        register_of.at(step.operands[2])};
      for (const int value : step.operands) {
        if (values_[static_cast<size_t>(value)].last_read == i && register_of.contains(value)) {
          free.push_back(register_of.at(value));
          register_of.erase(value);
        }
      }
      const int value = inputs + i;
      // A value that nothing reads still needs a place for its write.
      const int place = take(value);
      if (values_[static_cast<size_t>(value)].last_read < 0) free.push_back(place), register_of.erase(value);
      body += fmt::format(fmt::runtime(operations[step.what]), place, operands[0], operands[1], operands[2]) + "\n";
    }
    for (int i = 0; i < outputs; ++i) {
      const int value = static_cast<int>(values_.size()) - outputs + i;
      body += fmt::format("st.global.f32 [%rd1+{}], %v{};\n", 4 * (inputs + i), register_of.at(value));
    }
    return fmt::format(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n"
        ".reg .b64 %rd<2>;\n.reg .f32 %v<{}>;\n.reg .pred %p<2>;\nld.param.u64 %rd1, [p];\n{}ret;\n}}\n",
        registers, body);
  }

  static constexpr int inputs = 4, outputs = 3;

 private:
  struct Value {
    int last_read = -1;
  };
  struct Step {
    int what = 0;
    std::array<int, 3> operands{};
  };
  static constexpr std::string_view operations[] = {
      "mul.f32 %v{}, %v{}, %v{};",
      "mul.f32 %v{}, %v{}, %v{};",
      "add.f32 %v{}, %v{}, %v{};",
      "add.f32 %v{}, %v{}, %v{};",
      "sub.f32 %v{}, %v{}, %v{};",
      "mul.f32 %v{}, %v{}, 0f3F7FF972;",
      "neg.f32 %v{}, %v{};",
      "mov.f32 %v{}, %v{};",
      "fma.rn.f32 %v{}, %v{}, %v{}, %v{};",
      "max.f32 %v{}, %v{}, %v{};",
      "ex2.approx.ftz.f32 %v{}, %v{};",
      "rcp.approx.ftz.f32 %v{}, %v{};",
      "div.full.f32 %v{}, %v{}, %v{};",
      "mov.f32 %v{}, 0f3FB504F3;",
      "setp.gt.f32 %p1, %v{1}, %v{2};\nselp.f32 %v{0}, %v{3}, %v{1}, %p1;"};

  RandomStream random_;
  std::vector<Value> values_;
  std::vector<Step> steps_;
};

std::vector<uint32_t> outputs_of(const std::string& text) {
  std::vector<uint32_t> words{0x3FC00001, 0xC0490FDB, 0x3EAAAAAB, 0x40133333, 0, 0, 0};
  (void)launch(PtxEntry(text), {.arguments = {test::memory(words)}});
  return words;
}

}  // namespace

TEST_CASE("registers that are named anew leave the bits and the fusions of a kernel as they are") {
  int with_fusions = 0;
  const int kernels = test::amount(6, 60, 600);
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(kernels); ++seed) {
    const DrawnKernel kernel(seed);
    const std::string apart = kernel.text(seed, 60);
    const PtxEntry entry(apart);
    const std::vector<uint32_t> words = outputs_of(apart);
    with_fusions += std::ranges::any_of(entry.fusions(), &KernelFusion::is_joined);
    for (uint64_t naming = 1; naming <= 4; ++naming) {
      // Few registers are used again and again.
      const std::string other = kernel.text(seed + 1000 * naming, naming % 2 == 0 ? 60 : 26);
      INFO(apart << other);
      REQUIRE(outputs_of(other) == words);
      const PtxEntry renamed(other);
      REQUIRE(renamed.fusions().size() == entry.fusions().size());
      for (size_t i = 0; i < entry.fusions().size(); ++i) {
        CHECK(renamed.fusions()[i].is_joined == entry.fusions()[i].is_joined);
        CHECK(renamed.fusions()[i].rule == entry.fusions()[i].rule);
      }
    }
  }
  CHECK(with_fusions > kernels / 5);
}

TEST_CASE("what an instruction writes is what its decoder writes") {
  struct Row {
    std::string_view statement;
    std::vector<std::string> writes, reads;
  };
  for (const Row& row : std::initializer_list<Row>{
           {"mbarrier.arrive.shared.b64 %rd3, [%rd2];", {"%rd3"}, {"%rd2"}},
           {"mbarrier.arrive.shared.b64 _, [%rd2];", {}, {"%rd2"}},
           {"mbarrier.test_wait.shared.b64 %p1, [%rd2], %rd3;", {"%p1"}, {"%rd2", "%rd3"}},
           {"mbarrier.try_wait.parity.shared.b64 %p1, [%rd2], %r1;", {"%p1"}, {"%rd2", "%r1"}},
           {"mbarrier.init.shared.b64 [%rd2], %r1;", {}, {"%rd2", "%r1"}},
           {"st.global.v2.u32 [%rd2], {%r1, %r2};", {}, {"%rd2", "%r1", "%r2"}},
           {"ld.global.v2.u32 {%r1, %r2}, [%rd2];", {"%r1", "%r2"}, {"%rd2"}},
           {"atom.global.add.u32 %r1, [%rd2], %r2;", {"%r1"}, {"%rd2", "%r2"}},
           {"red.global.add.u32 [%rd2], %r2;", {}, {"%rd2", "%r2"}},
           {"shfl.sync.idx.b32 %r1|%p1, %r2, %r3, %r4, %r5;", {"%r1", "%p1"}, {"%r2", "%r3", "%r4", "%r5"}},
           {"@%p2 mov.u32 %r1, %r2;", {"%r1"}, {"%p2", "%r2", "%r1"}},
           {"tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r2];", {"%r1"}, {"%r2"}},
           {"tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%r1};", {}, {"%r1", "%r2"}},
           {"bar.red.popc.u32 %r1, 0, %p1;", {"%r1"}, {"%p1"}},
       }) {
    const std::string text = test::module_of(row.statement);
    kernel::Module module = kernel::read_module(text);
    kernel::Entry& entry = module.entries.front();
    kernel::assign_roles(module, entry, Target::sm_100a);
    const kernel::PtxInstruction& instruction = entry.instructions.at(1);
    INFO(row.statement);
    CHECK_FALSE(instruction.is_refused);
    const kernel::Effects effects = kernel::effects_of(instruction);
    const auto names = [&](const std::vector<int>& registers) {
      std::vector<std::string> result;
      for (const int reg : registers) result.push_back(entry.registers[static_cast<size_t>(reg)].name);
      std::ranges::sort(result);
      return result;
    };
    const auto sorted = [](std::vector<std::string> values) {
      std::ranges::sort(values);
      return values;
    };
    CHECK(names(effects.writes) == sorted(row.writes));
    CHECK(names(effects.reads) == sorted(row.reads));
  }
}

}  // namespace bitmma
