// mbarrier objects and the copies that complete on them.
#include <cmath>

#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/kernel/kernel.hpp"
#include "run_kernel.hpp"
#include "support/catch.hpp"
#include "support/violation.hpp"

using namespace bitmma;
using test::memory;
using test::number;
using test::run_words;

namespace {

std::vector<float> scaled(int fault, int threads = 1) {
  constexpr int n = 5 * 256;
  std::vector<float> x(n), y(n);
  for (int i = 0; i < n; ++i) x[static_cast<size_t>(i)] = static_cast<float>(i) * 0.37F - 100;
  launch(test::kernel_of_data("bulk.ptx", "bulk_scale"),
         {.block = {160, 1, 1},
          .arguments = {memory(x), memory(y), number(1.7F), number(n), number(fault)},
          .threads = threads});
  for (int i = 0; i < n; ++i) REQUIRE(y[static_cast<size_t>(i)] == std::fma(x[static_cast<size_t>(i)], 1.7F, 1.0F));
  return y;
}

/// An mbarrier object at %r20 of `count` arrivals, then `body`.
std::string with_barrier(int count, std::string_view body) {
  return ".shared .align 8 .b64 bar;\nmov.u32 %r20, bar;\nmbarrier.init.shared.b64 [%r20], " + std::to_string(count) +
         ";\n" + std::string(body);
}

/// Thread 0, for which %p1 is true, makes an mbarrier object of one arrival at %r20; %r22 is the thread.
std::string with_barrier_of_block(const std::string& body) {
  return ".shared .align 8 .b64 bar;\nmov.u32 %r20, bar;\nmov.u32 %r22, %tid.x;\nsetp.eq.u32 %p1, %r22, 0;\n"
         "@%p1 mbarrier.init.shared.b64 [%r20], 1;\n" +
         body;
}

/// What two warps leave in word 4 of eight.
uint32_t run_words_of_block(const std::string& body) {
  std::vector<uint32_t> words(8);
  launch(PtxEntry(test::module_of(body)), {.block = {64, 1, 1}, .arguments = {memory(words)}});
  return words[4];
}

std::optional<ViolationCode> code_of(const std::string& body) {
  const auto violation = test::violation_of([&] { run_words(body, {0, 0, 0}, 0); });
  return violation ? std::optional(violation->code) : std::nullopt;
}

}  // namespace

TEST_CASE("a producer copies in bulk two stages ahead of the warps that wait on mbarriers") { scaled(0); }

TEST_CASE("a kernel that misuses an mbarrier is stopped: it does not wait, frees no stage, or expects too few bytes") {
  const auto fault = [](int number) { return test::violation_of([&] { scaled(number); }).value(); };
  CHECK(fault(1).code == ViolationCode::unwritten_read);
  CHECK(fault(2).code == ViolationCode::deadlock);
  CHECK(fault(3).code == ViolationCode::deadlock);
  CHECK_THAT(fault(2).field + fault(2).seen, Catch::Contains("mbarrier.try_wait"));
  CHECK(code_of(".shared .align 8 .b64 bar;\nmov.u32 %r20, bar;\nmbarrier.arrive.shared.b64 %rd2, [%r20];") ==
        ViolationCode::unwritten_read);
  CHECK(code_of(with_barrier(0, "")) == ViolationCode::undefined_by_ptx);
  CHECK(code_of(with_barrier(1, "mbarrier.arrive.shared.b64 %rd2, [%r20], 2;")) == ViolationCode::undefined_by_ptx);
  CHECK(code_of(with_barrier(1, "mbarrier.inval.shared.b64 [%r20];\nmbarrier.arrive.shared.b64 %rd2, [%r20];")) ==
        ViolationCode::unwritten_read);
  CHECK(code_of(with_barrier(1, "mbarrier.arrive.shared.b64 %rd2, [%r20];")) == std::nullopt);
}

TEST_CASE("a product by tensor maps with 128-byte swizzle and wgmma is the chain of k16 steps of multiply") {
  constexpr int m = 64, n = 64, k = 192;
  RandomStream random(12, 0);
  std::vector<uint16_t> a(m * k), b(n * k);
  for (auto* codes : {&a, &b}) {
    for (uint16_t& code : *codes)
      code = static_cast<uint16_t>((random.word() & 0x80FF) | (120 + random.word() % 8) << 7);
  }
  // D lies in a wider matrix: what is outside of the box stays.
  std::vector<float> d(m * 80, -1);
  const TensorMap of_operand{
      .element_bytes = 2, .sizes = {k, 64}, .strides_bytes = {2 * k}, .box = {64, 64}, .swizzle = Swizzle::b128};
  const auto map = [](auto& values, const TensorMap& fields) {
    return tensor_map_argument({reinterpret_cast<uint8_t*>(values.data()), values.size() * sizeof(values[0])}, fields);
  };
  launch(test::kernel_of_data("bulk.ptx", "tma_product"),
         {.block = {128, 1, 1},
          .arguments = {map(a, of_operand), map(b, of_operand),
                        map(d, {.element_bytes = 4, .sizes = {60, 64}, .strides_bytes = {320}, .box = {64, 64}}),
                        number(k)}});
  const Instruction wgmma = parse_instruction("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16");
  Matrix c(Format::f32, m, n);
  for (int from = 0; from < k; from += 16) {
    Matrix left(Format::bf16, m, 16), right(Format::bf16, 16, n);
    for (int i = 0; i < 64; ++i) {
      for (int j = 0; j < 16; ++j) {
        left.set_code(i, j, a[static_cast<size_t>(i * k + from + j)]);
        right.set_code(j, i, b[static_cast<size_t>(i * k + from + j)]);
      }
    }
    c = multiply(wgmma, Target::sm_90a, left, right, &c);
  }
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < 80; ++j) {
      const auto word = std::bit_cast<uint32_t>(d[static_cast<size_t>(80 * i + j)]);
      REQUIRE(word == (j < 60 ? c.code(i, j) : 0xBF800000));  // the map's tensor has 60 columns
    }
  }
}

namespace {

/// What tma_product does wrong with another text in place of each `line` of its PTX.
std::optional<Violation> violation_without(std::string_view line, std::string_view instead = "",
                                           LaunchReport* report = nullptr) {
  std::string ptx = test::read_text(test::source_path("data/kernels/bulk.ptx"));
  size_t count = 0;
  for (size_t at; (at = ptx.find(line)) != std::string::npos; ++count) ptx.replace(at, line.size(), instead);
  REQUIRE(count > 0);
  std::vector<uint16_t> a(64 * 64), b(64 * 64);
  std::vector<float> d(64 * 64);
  const auto map = [](auto& values, int bytes, Swizzle swizzle) {
    return tensor_map_argument({reinterpret_cast<uint8_t*>(values.data()), values.size() * sizeof(values[0])},
                               {.element_bytes = bytes,
                                .sizes = {64, 64},
                                .strides_bytes = {64 * bytes},
                                .box = {64, 64},
                                .swizzle = swizzle});
  };
  const PtxEntry kernel(ptx, {.entry = "tma_product"});
  return test::violation_of([&] {
    const LaunchReport done = launch(kernel, {.block = {128, 1, 1},
                                              .arguments = {map(a, 2, Swizzle::b128), map(b, 2, Swizzle::b128),
                                                            map(d, 4, Swizzle::none), number(64)}});
    if (report) *report = done;
  });
}

}  // namespace

TEST_CASE("a product without its waits and fences is stopped or warned of, though a GPU may give its bits") {
  LaunchReport report;
  CHECK(violation_without("// begin inline asm", "", &report) == std::nullopt);
  CHECK(report.warnings.empty());
  CHECK(violation_without("wgmma.wait_group.sync.aligned 0;", "", &report) == std::nullopt);
  REQUIRE(report.warnings.size() == 1);
  CHECK_THAT(report.warnings[0].seen, Catch::Contains("accumulator of a wgmma"));
  const auto fence = violation_without("fence.proxy.async.shared::cta;");
  REQUIRE(fence);
  CHECK(fence->code == ViolationCode::undefined_by_ptx);
  CHECK_THAT(fence->fix, Catch::Contains("fence.proxy.async"));
  const auto copy = violation_without("mbarrier.try_wait", "setp.eq.u32 done, 0, 0; //");
  REQUIRE(copy);
  CHECK(copy->code == ViolationCode::unwritten_read);
  CHECK_THAT(copy->field, Catch::Contains("wgmma"));
}

TEST_CASE("tensor maps that the driver refuses, or that do not fit the memory, are refused") {
  std::vector<uint8_t> memory(4096);
  const TensorMap good{.element_bytes = 2, .sizes = {64, 32}, .strides_bytes = {128}, .box = {64, 8}};
  CHECK_NOTHROW(tensor_map_argument(memory, good));
  const auto refused = [&](const auto& change) {
    TensorMap map = good;
    change(map);
    CHECK_THROWS_AS(tensor_map_argument(memory, map), Error);
  };
  refused([](TensorMap& map) { map.element_bytes = 3; });
  refused([](TensorMap& map) { map.sizes = {}; });
  refused([](TensorMap& map) { map.sizes = {64, 33}; });
  refused([](TensorMap& map) { map.sizes[0] = int64_t{1} << 60; });
  refused([](TensorMap& map) { map.strides_bytes = {120}; });
  refused([](TensorMap& map) { map.strides_bytes = {}; });
  refused([](TensorMap& map) { map.box = {64, 257}; });
  refused([](TensorMap& map) { map.box = {4, 8}; });
  refused([](TensorMap& map) { map.element_strides = {1, 9}; });
  refused([](TensorMap& map) { map.element_strides = {2, 1}; });
  refused([](TensorMap& map) { map.element_bytes = 1, map.fills_with_nan = true; });
  refused([](TensorMap& map) { map.swizzle = Swizzle::b64; });
  refused([](TensorMap& map) { map.type = TensorMapType::b6x16_p32; });  // a box of 128
  refused([](TensorMap& map) { map.type = TensorMapType::b4x16, map.sizes[0] = 63; });
  const PtxEntry kernel = test::kernel_of_data("bulk.ptx", "bulk_scale");
  CHECK_THROWS_AS(launch(kernel, {.block = {160, 1, 1},
                                  .arguments = {tensor_map_argument(memory, good), tensor_map_argument(memory, good),
                                                number(1.0F), number(256), number(0)}}),
                  Error);
}

TEST_CASE("a phase ends with its last arrival and its last byte, and a wait is for the phase of its parity or state") {
  // Words: is phase 0 complete before and after the arrivals; arrivals that are pending.
  const auto words = run_words(with_barrier(2, R"(
mbarrier.test_wait.parity.shared.b64 %p1, [%r20], 0;
selp.u32 %r1, 1, 0, %p1;
mbarrier.arrive.shared.b64 %rd2, [%r20];
mbarrier.arrive.expect_tx.shared.b64 %rd3, [%r20], 64;
mbarrier.test_wait.shared.b64 %p2, [%r20], %rd3;
selp.u32 %r2, 1, 0, %p2;
mbarrier.complete_tx.shared.b64 [%r20], 64;
mbarrier.test_wait.shared.b64 %p3, [%r20], %rd3;
selp.u32 %r3, 1, 0, %p3;
mbarrier.test_wait.parity.shared.b64 %p4, [%r20], 1;
selp.u32 %r4, 1, 0, %p4;
mbarrier.pending_count.b64 %r5, %rd2;
mbarrier.pending_count.b64 %r6, %rd3;
st.global.u32 [%rd1], %r1;
st.global.u32 [%rd1+4], %r2;
st.global.u32 [%rd1+8], %r3;
st.global.u32 [%rd1+12], %r4;
st.global.u32 [%rd1+16], %r5;
st.global.u32 [%rd1+20], %r6;)"),
                               std::vector<uint32_t>(6, 9), 0);
  CHECK(words == std::vector<uint32_t>{0, 0, 1, 0, 2, 1});
}

TEST_CASE(
    "tensor copies stop where an H100 does: innermost coordinates between 16 bytes, stores in front of the tensor") {
  std::vector<uint32_t> tensor(64 * 8, 7), box(512);
  const TensorMap map{.element_bytes = 4, .sizes = {64, 8}, .strides_bytes = {256}, .box = {16, 8}};
  const auto fault_at = [&](const std::string& entry, int32_t x, int32_t y) {
    std::vector<int32_t> at{x, y};
    Launch launch_of{.block = {64, 1, 1}, .dynamic_shared_bytes = 2048};
    launch_of.arguments = {tensor_map_argument({reinterpret_cast<uint8_t*>(tensor.data()), tensor.size() * 4}, map),
                           memory(at), memory(box), number(512)};
    if (entry.starts_with("load")) launch_of.arguments.push_back(number(1024));
    const auto violation = test::violation_of([&] { launch(test::kernel_of_data("tma.ptx", entry), launch_of); });
    return violation ? std::optional(violation->code) : std::nullopt;
  };
  CHECK(fault_at("load_2", 4, -3) == std::nullopt);
  CHECK(fault_at("load_2", -8, 7) == std::nullopt);
  CHECK(fault_at("load_2", 5, 0) == ViolationCode::misaligned);
  CHECK(fault_at("store_2", 60, 7) == std::nullopt);
  CHECK(fault_at("store_2", 2, 0) == ViolationCode::misaligned);
  CHECK(fault_at("store_2", 0, -1) == ViolationCode::out_of_bounds);
  CHECK(fault_at("store_2", -4, 0) == ViolationCode::out_of_bounds);
}

// CUTLASS's mainloops of mixed 8-bit, 6-bit and 4-bit elements (examples 72c and 79c) expect the bytes of the elements.
TEST_CASE("a barrier counts the bytes of elements of 4 and 6 bits without their padding in shared memory") {
  const auto code = [](TensorMapType type, int64_t row_bytes, int64_t expected_bytes) {
    const std::string ptx = fmt::format(
        ".version 8.7\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .align 64 .b8 map[128]) {{\n"
        ".reg .pred %p<2>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n"
        ".shared .align 128 .b8 box[512];\n.shared .align 8 .b64 bar;\n"
        "mov.b32 %r1, 0;\nmov.u32 %r2, box;\nmov.u32 %r3, bar;\nmov.b64 %rd2, map;\ncvta.param.u64 %rd1, %rd2;\n"
        "mbarrier.init.shared.b64 [%r3], 1;\nmbarrier.arrive.expect_tx.shared.b64 _, [%r3], {};\n"
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1, {{%r1, %r1}}], "
        "[%r3];\n"
        "W: mbarrier.try_wait.parity.shared.b64 %p1, [%r3], 0;\n@!%p1 bra W;\nret;\n}}\n",
        expected_bytes);
    std::vector<uint8_t> memory(static_cast<size_t>(4 * row_bytes));
    const TensorMap map{.sizes = {128, 4}, .strides_bytes = {row_bytes}, .box = {128, 4}, .type = type};
    const auto violation =
        test::violation_of([&] { launch(PtxEntry(ptx), {.arguments = {tensor_map_argument(memory, map)}}); });
    UNSCOPED_INFO((violation ? print(*violation) : ""));
    return violation ? std::optional(violation->code) : std::nullopt;
  };
  CHECK(code(TensorMapType::b4x16_p64, 64, 256) == std::nullopt);
  CHECK(code(TensorMapType::b4x16_p64, 64, 512) == ViolationCode::deadlock);
  CHECK(code(TensorMapType::b6x16_p32, 96, 384) == std::nullopt);
  CHECK(code(TensorMapType::b6x16_p32, 96, 512) == ViolationCode::deadlock);
}

TEST_CASE("a kernel makes a tensor map and copies by it, and what is no tensor map is refused") {
  const auto run = [](std::string_view change) {
    std::vector<uint32_t> words(64 * 8, 7);
    std::string body =
        ".shared .align 128 .b8 map[128];\n.shared .align 128 .b32 box[64];\n.shared .align 8 .b64 bar;\n"
        "mov.u32 %r20, map;\nmov.u32 %r21, box;\nmov.u32 %r22, bar;\nmov.b32 %r1, 0;\n";
    for (int i = 0; i < 32; ++i) body += "st.shared.b32 [%r20+" + std::to_string(4 * i) + "], %r1;\n";
    const std::string t = "tensormap.replace.tile.";
    body += t + "global_address.shared::cta.b1024.b64 [%r20], %rd1;\n" + t + "rank.shared::cta.b1024.b32 [%r20], 1;\n" +
            t + "box_dim.shared::cta.b1024.b32 [%r20], 0, 8;\n" + t + "box_dim.shared::cta.b1024.b32 [%r20], 1, 8;\n" +
            t + "global_dim.shared::cta.b1024.b32 [%r20], 0, 8;\n" + t +
            "global_dim.shared::cta.b1024.b32 [%r20], 1, 64;\n" + t +
            "global_stride.shared::cta.b1024.b64 [%r20], 0, 32;\n" + t +
            "element_stride.shared::cta.b1024.b32 [%r20], 0, 1;\n" + t +
            "element_stride.shared::cta.b1024.b32 [%r20], 1, 1;\n" + t + "elemtype.shared::cta.b1024.b32 [%r20], 2;\n" +
            t + "swizzle_mode.shared::cta.b1024.b32 [%r20], 0;\n" + std::string(change) +
            "mov.b32 %r2, 9;\nst.shared.b32 [%r21+36], %r2;\nfence.proxy.async;\n"
            "cvta.shared.u64 %rd5, %rd6;\nmov.u64 %rd6, map;\ncvta.shared.u64 %rd5, %rd6;\n"
            "mov.b32 %r3, 16;\nmbarrier.init.shared.b64 [%r22], 1;\n"
            "mbarrier.arrive.expect_tx.shared.b64 _, [%r22], 256;\n"
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r21], [%rd5, {%r1, %r3}], "
            "[%r22];\n"
            "W: mbarrier.try_wait.parity.shared.b64 %p1, [%r22], 0;\n@!%p1 bra W;\n"
            "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%rd5, {%r1, %r1}], [%r21];\n";
    const PtxEntry kernel(test::module_of(body));
    launch(kernel, {.arguments = {memory(words)}});
    return words;
  };
  const std::vector<uint32_t> words = run("");
  for (size_t i = 0; i < words.size(); ++i) REQUIRE(words[i] == (i < 64 ? 14 : 7));
  const auto code = [&](std::string_view change) {
    const auto violation = test::violation_of([&] { run(change); });
    return violation ? std::optional(violation->code) : std::nullopt;
  };
  CHECK(code("mov.b32 %r4, 5;\nst.shared.b32 [%r20], %r4;\n") == ViolationCode::misaligned);  // the tensor at 5
  CHECK(code("tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r20], 5;\n") == ViolationCode::undefined_by_ptx);
  CHECK(code("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r20], 0, 3;\n") == ViolationCode::illegal_value);
  CHECK(code("tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%r20], 1;\n") ==
        ViolationCode::undefined_by_ptx);
  CHECK(code("add.u32 %r5, %r20, 16;\ntensormap.replace.tile.rank.shared::cta.b1024.b32 [%r5], 1;\n") ==
        ViolationCode::misaligned);
}

TEST_CASE("a thread waits for a copy while the other warps reach the barrier: none misses a phase") {
  // Thread 0 copies 16 bytes `count` times and waits for each copy; the threads of warp 1 wait for the same phases.
  const auto run = [](int count, int waits) {
    return run_words_of_block(with_barrier_of_block(
        ".shared .align 16 .b8 to[16];\nmov.u32 %r21, to;\nmov.u32 %r23, 0;\n"
        "fence.proxy.async;\nbar.sync 0;\nL:\nand.b32 %r24, %r23, 1;\n"
        "@!%p1 bra W;\nmbarrier.arrive.expect_tx.shared.b64 _, [%r20], 16;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r21], [%rd1], 16, [%r20];\nW:\n"
        "mbarrier.try_wait.parity.shared.b64 %p2, [%r20], %r24;\n@!%p2 bra W;\nadd.u32 %r23, %r23, 1;\n"
        "setp.gt.u32 %p3, %r22, 31;\nselp.u32 %r25, " +
        std::to_string(waits) + ", " + std::to_string(count) +
        ", %p3;\nsetp.lt.u32 %p4, %r23, %r25;\n@%p4 bra L;\n"
        "setp.eq.u32 %p5, %r22, 32;\n@%p5 st.global.u32 [%rd1+16], %r23;"));
  };
  CHECK(run(2, 2) == 2);
  CHECK(run(6, 6) == 6);
  CHECK(test::violation_of([&] { run(4, 5); })->code == ViolationCode::deadlock);
}

TEST_CASE("mbarrier.complete_tx makes visible what a fence before it released") {
  // Thread 0 stores and completes the bytes of the phase; thread 32 waits and reads.
  const auto code_with = [](std::string_view fence) {
    const std::string body = with_barrier_of_block(
        ".shared .b32 word;\nbar.sync 0;\n"
        "@!%p1 bra W;\nmbarrier.arrive.expect_tx.shared.b64 _, [%r20], 16;\nst.shared.u32 [word], 7;\n" +
        std::string(fence) +
        "\nmbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r20], 16;\nret;\nW:\n"
        "mbarrier.try_wait.parity.shared.b64 %p2, [%r20], 0;\n@!%p2 bra W;\nld.shared.u32 %r23, [word];\n"
        "setp.eq.u32 %p3, %r22, 32;\n@%p3 st.global.u32 [%rd1+16], %r23;");
    uint32_t word = 0;
    const auto violation = test::violation_of([&] { word = run_words_of_block(body); });
    CHECK(word == (violation ? 0 : 7));
    return violation ? std::optional(violation->code) : std::nullopt;
  };
  CHECK(code_with("fence.acq_rel.cta;") == std::nullopt);
  CHECK(code_with("fence.release.sync_restrict::shared::cta.cluster;") == std::nullopt);
  CHECK(code_with("") == ViolationCode::shared_memory_race);
}
