// SPDX-License-Identifier: MIT
// Clusters: blocks that reach into each other's shared memory.
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/kernel/kernel.hpp"
#include "run_kernel.hpp"
#include "support/catch.hpp"
#include "support/violation.hpp"

using namespace bitmma;
using test::memory;
using test::number;

namespace {

PtxEntry entry(const std::string& name) { return test::kernel_of_data("cluster.ptx", name); }

std::vector<float> sums(int fault, std::optional<std::array<int64_t, 3>> cluster = {}, int64_t blocks = 8) {
  constexpr int n = 1000;
  std::vector<float> x(static_cast<size_t>(2 * n)), y(2);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 97) * 0.25F;
  launch(entry("cluster_sum"), {.grid = {blocks, 1, 1},
                                .block = {128, 1, 1},
                                .cluster = cluster,
                                .arguments = {memory(x), memory(y), number(n), number(fault)}});
  return y;
}

Violation violation(int fault) {
  return test::violation_of([&] { sums(fault); }).value();
}

/// Three threads a block in clusters of two: `body`, with the rank in %r1 and the other in %r2.
std::optional<ViolationCode> code_of(std::string_view body) {
  const std::string begin =
      ".shared .align 16 .b32 words[64];\nmov.u32 %r1, %cluster_ctarank;\nxor.b32 %r2, %r1, 1;\n"
      "mov.u32 %r20, words;\nmapa.shared::cluster.u32 %r21, %r20, %r2;\n";
  const PtxEntry kernel(test::module_of(begin + std::string(body)));
  std::vector<uint32_t> words(4);
  const auto violation = test::violation_of([&] {
    launch(kernel, {.grid = {2, 1, 1},
                    .block = {1, 1, 1},
                    .cluster = std::array<int64_t, 3>{2, 1, 1},
                    .arguments = {memory(words)}});
  });
  return violation ? std::optional(violation->code) : std::nullopt;
}

constexpr std::string_view meet = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n";

}  // namespace

TEST_CASE("blocks of a cluster have ranks in the order x, y, z, and addresses that carry them") {
  std::vector<uint32_t> out(16 * 16);
  launch(entry("cluster_ranks"), {.grid = {4, 2, 2}, .block = {32, 1, 1}, .arguments = {memory(out)}});
  for (uint32_t block = 0; block < 16; ++block) {
    const uint32_t x = block % 4, y = block / 4 % 2, rank = x % 2 + 2 * y, own = 1024 + (rank << 24);
    const std::vector<uint32_t> expected{
        rank, 4, x % 2, y, 0, 2, x / 2, 0, 2, 2, own, 1024 + (3U << 24), 3, (2 - rank) << 24, rank == 2, 1};
    CHECK(std::vector(out.begin() + 16 * block, out.begin() + 16 * block + 16) == expected);
  }
}

TEST_CASE("a cluster's blocks read each other's sums, and add to each other's bins") {
  const std::vector<float> totals = sums(0);
  for (int i = 0; i < 2; ++i) {
    float exact = 0;
    for (int j = 0; j < 1000; ++j) exact += static_cast<float>((1000 * i + j) % 97) * 0.25F;  // quarters: no rounding
    CHECK(totals[static_cast<size_t>(i)] == exact);
  }
  std::vector<uint32_t> x(3000), bins(512), expected(512);
  for (size_t i = 0; i < x.size(); ++i) ++expected[(x[i] = static_cast<uint32_t>(i * i)) % 512];
  launch(entry("cluster_histogram"),
         {.grid = {8, 1, 1}, .block = {128, 1, 1}, .arguments = {memory(x), memory(bins), number(3000)}});
  CHECK(bins == expected);
}

TEST_CASE("st.async and bulk copies arrive in the other block when its barrier is waited for") {
  constexpr int turns = 7;
  std::vector<uint32_t> words(1024), expected(1024);
  for (size_t i = 0; i < words.size(); ++i) {
    words[i] = static_cast<uint32_t>(i);
    size_t block = i / 128;
    uint32_t word = words[i];
    for (int turn = 0; turn < turns; ++turn) {
      block = block / 4 * 4 + (block + 1) % 4;
      word += static_cast<uint32_t>(block % 4);
    }
    expected[128 * block + i % 128] = word;
  }
  launch(entry("cluster_ring"),
         {.grid = {8, 1, 1}, .block = {128, 1, 1}, .arguments = {memory(words), number(turns)}, .threads = 2});
  CHECK(words == expected);

  std::vector<uint32_t> to(1024);
  launch(entry("cluster_copy"), {.grid = {8, 1, 1}, .block = {128, 1, 1}, .arguments = {memory(words), memory(to)}});
  for (size_t i = 0; i < to.size(); ++i) REQUIRE(to[i] == words[i ^ 128]);
}

TEST_CASE("a product whose blocks load half of A each for both by multicast is the chain of k16 steps of multiply") {
  constexpr int m = 64, n = 128, k = 192;
  RandomStream random(13, 0);
  std::vector<uint16_t> a(m * k), b(n * k);
  for (auto* codes : {&a, &b}) {
    for (uint16_t& code : *codes)
      code = static_cast<uint16_t>((random.word() & 0x80FF) | (120 + random.word() % 8) << 7);
  }
  std::vector<float> d(m * n);
  const auto map = [](auto& values, int64_t rows, int64_t box) {
    return tensor_map_argument(
        {reinterpret_cast<uint8_t*>(values.data()), values.size() * 2},
        {.element_bytes = 2, .sizes = {k, rows}, .strides_bytes = {2 * k}, .box = {64, box}, .swizzle = Swizzle::b128});
  };
  launch(entry("cluster_product"), {.grid = {2, 1, 1},
                                    .block = {160, 1, 1},
                                    .arguments = {map(a, m, 32), map(b, n, 64), memory(d), number(n), number(k)}});
  const Instruction wgmma = parse_instruction("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16");
  Matrix c(Format::f32, m, n);
  for (int from = 0; from < k; from += 16) {
    Matrix left(Format::bf16, m, 16), right(Format::bf16, 16, n);
    for (int j = 0; j < 16; ++j) {
      for (int i = 0; i < m; ++i) left.set_code(i, j, a[static_cast<size_t>(i * k + from + j)]);
      for (int i = 0; i < n; ++i) right.set_code(j, i, b[static_cast<size_t>(i * k + from + j)]);
    }
    c = multiply(wgmma, Target::sm_90a, left, right, &c);
  }
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) REQUIRE(std::bit_cast<uint32_t>(d[static_cast<size_t>(n * i + j)]) == c.code(i, j));
  }
}

TEST_CASE("a cluster's faults are found: a block that has ended, no barrier, a rank too many, a wait without arrival") {
  CHECK(violation(1).code == ViolationCode::undefined_by_ptx);
  CHECK_THAT(violation(1).seen, Catch::Contains("whose threads have ended"));
  CHECK(violation(2).code == ViolationCode::shared_memory_race);
  CHECK_THAT(violation(2).seen, Catch::Contains("of block 1 of the cluster"));
  CHECK(violation(3).code == ViolationCode::out_of_bounds);
  const std::string both(meet), write = "st.shared::cluster.u32 [%r21], %r1;\n";
  CHECK(code_of("st.shared.u32 [%r20], %r1;\n" + both + "ld.shared::cluster.u32 %r3, [%r21];\n" + both) ==
        std::nullopt);
  CHECK(code_of(write + both + "ld.shared.u32 %r3, [%r20];\n") == std::nullopt);
  const std::string unwritten = both + "ld.shared::cluster.u32 %r3, [%r21];\n";
  CHECK(code_of(unwritten + both) == std::nullopt);  // nothing depends on it
  CHECK(code_of(unwritten + "setp.eq.u32 %p1, %r3, 0;\n@%p1 bra Z;\nZ:\n" + both) == ViolationCode::unwritten_read);
  CHECK(code_of("barrier.cluster.wait.aligned;\n") == ViolationCode::undefined_by_ptx);
  CHECK(code_of("barrier.cluster.arrive.aligned;\nbarrier.cluster.arrive.aligned;\n") ==
        ViolationCode::undefined_by_ptx);
  CHECK(code_of("setp.eq.u32 %p1, %r1, 0;\n@%p1 exit;\n" + both) == std::nullopt);  // a block that ended counts no more
  CHECK(code_of("mbarrier.init.shared.b64 [%r20], 1;\n" + both +
                "W: mbarrier.try_wait.parity.shared.b64 %p1, [%r20], 0;\n@!%p1 bra W;\n") == ViolationCode::deadlock);
  CHECK(code_of("mbarrier.init.shared.b64 [%r20], 1;\n" + both +
                "mbarrier.arrive.release.cluster.shared::cluster.b64 _, "
                "[%r21];\nW: mbarrier.try_wait.parity.shared.b64 %p1, [%r20], 0;\n@!%p1 bra W;\n" +
                both) == std::nullopt);
  CHECK(code_of("cp.async.ca.shared.global [%r21], [%rd1], 4;\n") == ViolationCode::out_of_bounds);
}

TEST_CASE("a cluster that the kernel or the grid does not allow is refused") {
  CHECK_NOTHROW(sums(0, std::array<int64_t, 3>{4, 1, 1}));
  CHECK_THROWS_AS(sums(0, std::array<int64_t, 3>{2, 1, 1}), Error);
  CHECK_THROWS_AS(sums(0, {}, 6), Error);
  const PtxEntry kernel(test::module_of(""));
  std::vector<uint32_t> words(4);
  const auto refused = [&](std::array<int64_t, 3> cluster, std::array<int64_t, 3> grid) {
    CHECK_THROWS_AS(launch(kernel, {.grid = grid, .cluster = cluster, .arguments = {memory(words)}}), Error);
  };
  refused({0, 1, 1}, {1, 1, 1});
  refused({17, 1, 1}, {17, 1, 1});
  refused({4, 4, 2}, {4, 4, 2});
  refused({2, 1, 1}, {3, 1, 1});
  CHECK_NOTHROW(
      launch(kernel, {.grid = {4, 4, 1}, .cluster = std::array<int64_t, 3>{4, 4, 1}, .arguments = {memory(words)}}));
}

TEST_CASE("red.async adds in the other block and completes its bytes") {
  CHECK(code_of("mov.u32 %r3, 5;\nst.shared.u32 [%r20], %r3;\nadd.u32 %r22, %r20, 16;\nadd.u32 %r23, %r21, 16;\n"
                "mbarrier.init.shared.b64 [%r22], 1;\nmbarrier.arrive.expect_tx.shared.b64 _, [%r22], 4;\n" +
                std::string(meet) +
                "red.async.relaxed.cluster.mbarrier::complete_tx::bytes.shared::cluster.add.u32 [%r21], %r3, [%r23];\n"
                "W: mbarrier.try_wait.parity.shared.b64 %p1, [%r22], 0;\n@!%p1 bra W;\nld.shared.u32 %r4, [%r20];\n"
                "setp.ne.u32 %p2, %r4, 10;\n@%p2 trap;\n" +
                std::string(meet)) == std::nullopt);
}

TEST_CASE("%is_explicit_cluster is true in launches of clusters") {
  const PtxEntry kernel(test::module_of(
      "mov.pred %p1, %is_explicit_cluster;\n@%p1 st.global.u32 [%rd1], 1;\n@!%p1 st.global.u32 [%rd1], 2;"));
  const auto word_of = [&](int64_t blocks) {
    std::vector<uint32_t> words(1);
    (void)launch(kernel,
                 {.grid = {2, 1, 1}, .cluster = std::array<int64_t, 3>{blocks, 1, 1}, .arguments = {memory(words)}});
    return words[0];
  };
  CHECK(word_of(1) == 2);
  CHECK(word_of(2) == 1);
}
