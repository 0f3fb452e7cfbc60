// SPDX-License-Identifier: MIT
// Cooperative launches: blocks that wait for each other, and what becomes of them in other launches. The kernels are
// data/kernels/cooperative.cu.
#include <fmt/format.h>

#include <cstring>
#include <numeric>
#include <string>

#include "bitmma/kernel/memory.hpp"
#include "run_kernel.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"
#include "support/violation.hpp"

using namespace bitmma;
using test::memory;
using test::number;

namespace {

PtxEntry kernel_named(const std::string& name) { return test::kernel_of_data("cooperative.ptx", name); }

/// p of a kernel whose blocks read what the next block wrote.
std::vector<uint32_t> next_blocks(uint32_t blocks, uint32_t step) {
  std::vector<uint32_t> words(2 * blocks);
  for (uint32_t i = 0; i < blocks; ++i) {
    words[i] = i + 100;
    words[blocks + i] = (i + 1) % blocks + 100 + step * i;
  }
  return words;
}

std::optional<Violation> fault_of(const PtxEntry& kernel, const Launch& call) {
  return test::violation_of([&] { (void)launch(kernel, call); });
}

/// A word of a module whose kernels wait for words that no thread writes.
const std::string waiting = test::module_of(
    "mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %tid.x;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra SET;\n"
    "WAIT: ld.acquire.gpu.u32 %r3, [%rd1];\nsetp.eq.u32 %p2, %r3, 0;\n@%p2 bra WAIT;\nbra END;\n"
    "SET: st.release.gpu.u32 [%rd1], 1;\nEND:");

}  // namespace

TEST_CASE("the blocks of a cooperative launch meet at this_grid().sync()") {
  const PtxEntry kernel = kernel_named("sums");
  constexpr int32_t n = 5000;
  std::vector<float> x(n), partial(9), y(8);
  std::iota(x.begin(), x.end(), -100.0F);
  const auto report = launch(kernel, {.grid = {8, 1, 1},
                                      .block = {96, 1, 1},
                                      .cooperative = true,
                                      .arguments = {memory(x), memory(partial), memory(y), number(n)}});
  CHECK(y == std::vector<float>(8, std::accumulate(x.begin(), x.end(), 0.0F)));
  CHECK(report.warnings.empty());
}

TEST_CASE("the same blocks arrive, work and wait; those of clusters meet in the grid too") {
  for (const int64_t blocks : {1, 2, 132, 300}) {
    std::vector<uint32_t> words(2 * static_cast<size_t>(blocks));
    const auto report =
        launch(kernel_named("ring"),
               {.grid = {blocks, 1, 1}, .block = {64, 1, 1}, .cooperative = true, .arguments = {memory(words)}});
    CHECK(report.warnings.empty());
    CHECK(words == next_blocks(static_cast<uint32_t>(blocks), 1000));
  }
  std::vector<uint32_t> words(12);
  const auto report =
      launch(kernel_named("pairs"), {.grid = {6, 1, 1}, .cooperative = true, .arguments = {memory(words)}});
  CHECK(report.warnings.empty());
  CHECK(words == std::vector<uint32_t>{101, 100, 103, 102, 105, 104, 100, 103, 102, 105, 104, 101});
}

TEST_CASE("blocks of a cooperative launch meet at a barrier of their own, and wait for a block that comes later") {
  std::vector<uint32_t> bar(1), words(40), flags(20), chained(20), expected(20);
  const auto counted =
      launch(kernel_named("counted"),
             {.grid = {20, 1, 1}, .block = {64, 1, 1}, .cooperative = true, .arguments = {memory(bar), memory(words)}});
  CHECK(counted.warnings.empty());
  CHECK(words == next_blocks(20, 0));
  const auto chain = launch(kernel_named("chain"),
                            {.grid = {20, 1, 1}, .cooperative = true, .arguments = {memory(flags), memory(chained)}});
  CHECK(chain.warnings.empty());
  for (uint32_t i = 0; i < 20; ++i) expected[i] = 26 - i;
  CHECK(chained == expected);
}

TEST_CASE("lanes of several blocks take a lock in turn before the grid meets") {
  std::vector<uint32_t> lock(1), words(5);
  const auto report =
      launch(kernel_named("locks"),
             {.grid = {4, 1, 1}, .block = {64, 1, 1}, .cooperative = true, .arguments = {memory(lock), memory(words)}});
  CHECK(report.warnings.empty());
  CHECK(words == std::vector<uint32_t>(5, 256));
}

TEST_CASE("a workspace is memory of its launch alone, and each launch begins with a new one") {
  const PtxEntry kernel = kernel_named("ring");
  Memory device;
  const uint64_t p = device.allocate(24);
  for (int i = 0; i < 2; ++i) {
    std::vector<uint8_t> parameters(8);
    std::memcpy(parameters.data(), &p, 8);
    (void)launch(kernel, {.grid = {3, 1, 1}, .cooperative = true, .parameter_bytes = parameters, .memory = &device});
    CHECK(device.allocations().size() == 1);
  }
}

TEST_CASE("a kernel that meets its grid needs a cooperative launch") {
  std::vector<uint32_t> words(4);
  CHECK_THROWS_MATCHES(launch(kernel_named("ring"), {.grid = {2, 1, 1}, .arguments = {memory(words)}}), Error,
                       test::refused(ViolationCode::missing_argument, "cooperative"));
}

TEST_CASE("a cooperative launch of more blocks than a GPU holds, or than bitmma has memory for, is refused") {
  std::vector<uint32_t> words(4 * 132 * 32);
  const PtxEntry kernel = kernel_named("ring");
  Launch call{.grid = {132 * 2, 1, 1}, .block = {1024, 1, 1}, .cooperative = true, .arguments = {memory(words)}};
  (void)launch(kernel, call);
  const auto is_refused = [&](const std::string& field) {
    CHECK_THROWS_MATCHES(launch(kernel, call), Error, test::refused(ViolationCode::too_large, field));
  };
  call.grid = {132 * 2 + 1, 1, 1};
  is_refused("grid");
  call.grid = {132 * 32, 1, 1}, call.block = {64, 1, 1};
  (void)launch(kernel, call);
  call.dynamic_shared_bytes = 7 * 1024;
  is_refused("grid");
  call.grid = {132, 1, 1};
  call.most_bytes = 1 << 20;
  is_refused("memory");
}

TEST_CASE("blocks that wait for a block that does not run are a fault, soon") {
  std::vector<uint32_t> bar(1), words(40), flags(4), chained(4);
  const auto is_deadlock = [&](const PtxEntry& kernel, const Launch& call) {
    const auto violation = fault_of(kernel, call);
    return violation && violation->code == ViolationCode::deadlock;
  };
  CHECK(is_deadlock(kernel_named("counted"),
                    {.grid = {20, 1, 1}, .block = {64, 1, 1}, .arguments = {memory(bar), memory(words)}}));
  CHECK(is_deadlock(kernel_named("chain"), {.grid = {4, 1, 1}, .arguments = {memory(flags), memory(chained)}}));
  const PtxEntry late(waiting);
  std::vector<uint32_t> word(1);
  CHECK(is_deadlock(late, {.grid = {2, 1, 1}, .block = {64, 1, 1}, .arguments = {memory(word)}}));
  (void)launch(late, {.grid = {2, 1, 1}, .block = {64, 1, 1}, .cooperative = true, .arguments = {memory(word)}});
  CHECK(word[0] == 1);
}

TEST_CASE("blocks of a cooperative launch that all wait are a fault") {
  std::vector<uint32_t> word(1);
  const auto violation = fault_of(PtxEntry(waiting), {.cooperative = true, .arguments = {memory(word)}});
  REQUIRE(violation);
  CHECK(violation->code == ViolationCode::deadlock);
}

namespace {

/// The place of the race that a cooperative launch of 4 blocks warns of. p has 16 words. A block has its number in %r1
/// and the next block's in %r2, %rd2 and %rd3 are its own word behind the first four and the next block's, and thread 0
/// alone has %p1.
std::string race_of(std::string_view body) {
  std::vector<uint32_t> words(16);
  const auto report = launch(
      PtxEntry(test::module_of(
          "mov.u32 %r1, %ctaid.x;\nadd.u32 %r2, %r1, 1;\nand.b32 %r2, %r2, 3;\nmul.wide.u32 %rd2, %r1, 4;\n"
          "mul.wide.u32 %rd3, %r2, 4;\nadd.u64 %rd2, %rd2, %rd1;\nadd.u64 %rd3, %rd3, %rd1;\nmov.u32 %r9, %tid.x;\n"
          "setp.eq.u32 %p1, %r9, 0;\n" +
          std::string(body))),
      {.grid = {4, 1, 1}, .block = {64, 1, 1}, .cooperative = true, .arguments = {memory(words)}});
  if (report.warnings.empty()) return "";
  REQUIRE(report.warnings.size() == 1);
  CHECK(report.warnings[0].severity == Severity::warning);
  return report.warnings[0].seen;
}

/// All blocks meet, for the time `arrivals`; p[0] counts them, and each reads it in that order.
std::string meet(int arrivals, const std::string& order) {
  return fmt::format(
      "bar.sync 0;\n@!%p1 bra MET{0};\n{1}\nred.relaxed.gpu.global.add.u32 [%rd1], 1;\nWAIT{0}: "
      "ld.{2}.global.u32 %r8, [%rd1];\nsetp.lt.u32 %p2, %r8, {3};\n@%p2 bra WAIT{0};\n{1}\nMET{0}: bar.sync 0;\n",
      arrivals, order == "volatile" ? "membar.gl;" : "fence.acq_rel.gpu;", order, 4 * arrivals);
}

}  // namespace

TEST_CASE("blocks of a cooperative launch that write different values to one word are warned of") {
  CHECK(race_of("st.global.u32 [%rd1+60], %r1;").find("st.global.u32 [%rd1+60], %r1") != std::string::npos);
  CHECK(race_of("st.global.u32 [%rd1+60], 7;").empty());
  CHECK(race_of("@%p1 st.global.u32 [%rd2+16], 7;").empty());
  // Bytes of one word.
  CHECK(race_of("mov.u32 %r3, 5;\nsub.u64 %rd4, %rd2, %rd1;\nshr.u64 %rd4, %rd4, 2;\nadd.u64 %rd4, %rd4, "
                "%rd1;\n@%p1 st.global.u8 [%rd4+60], %r3;")
            .empty());
}

TEST_CASE("a barrier of the grid orders the accesses of its blocks, and of no later phase") {
  for (const std::string order : {"volatile", "relaxed.gpu", "acquire.gpu"}) {
    CAPTURE(order);
    const std::string write = "@%p1 st.global.u32 [%rd2+16], %r2;\n", read = "@%p1 ld.global.u32 %r3, [%rd3+16];\n";
    CHECK(race_of(write + meet(1, order) + read).empty());
    CHECK(!race_of(write + read).empty());
    CHECK(!race_of(meet(1, order) + write + read).empty());
    CHECK(race_of(write + meet(1, order) + read + meet(2, order) + "@%p1 st.global.u32 [%rd2+16], 9;").empty());
    CHECK(!race_of(write + meet(1, order) + read + "@%p1 st.global.u32 [%rd2+16], 9;").empty());
  }
}

TEST_CASE("a flag orders what one block wrote before it and another reads behind it") {
  const std::string others = "@!%p1 bra END;\nsetp.ne.u32 %p3, %r1, 0;\n@%p3 bra READ;\n",
                    read =
                        "bra END;\nREAD: setp.ne.u32 %p3, %r1, 2;\n@%p3 bra END;\nWAIT: ld.acquire.gpu.u32 %r3, "
                        "[%rd1];\nsetp.eq.u32 %p2, %r3, 0;\n@%p2 bra WAIT;\nld.global.u32 %r4, [%rd1+8];\nEND:";
  const std::string write = "st.global.u32 [%rd1+8], 3;\n", flag = "st.release.gpu.global.u32 [%rd1], 1;\n";
  CHECK(race_of(others + write + flag + read).empty());
  CHECK(race_of(others + flag + write + read).find("[%rd1+8]") != std::string::npos);
}

TEST_CASE("a loop that ends after many turns is no deadlock: a counter, a clock, a word of memory") {
  const auto run = [](std::string_view body) {
    std::vector<uint32_t> words(2);
    (void)launch(PtxEntry(test::module_of(body)), {.arguments = {memory(words)}, .clock = 0});
    return words;
  };
  CHECK(run("mov.u32 %r1, 0;\nL: add.u32 %r1, %r1, 1;\nld.volatile.global.u32 %r2, [%rd1];\nsetp.lt.u32 %p1, %r1, "
            "2000000;\n@%p1 bra L;\nst.global.u32 [%rd1], %r1;")[0] == 2000000);
  CHECK(run("L: mov.u64 %rd2, %clock64;\nsetp.lt.u64 %p1, %rd2, 3000000;\n@%p1 bra L;\nst.global.u32 [%rd1], 5;")[0] ==
        5);
  CHECK(run("L: ld.global.u32 %r1, [%rd1];\nadd.u32 %r1, %r1, 1;\nst.global.u32 [%rd1], %r1;\nsetp.lt.u32 %p1, %r1, "
            "1000000;\nmov.u32 %r1, 0;\n@%p1 bra L;")[0] == 1000000);
}
