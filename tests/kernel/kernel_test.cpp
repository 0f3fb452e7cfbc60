// Kernels that nvcc compiled, against the same computation written by hand.
#include "bitmma/kernel/kernel.hpp"

#include <bit>
#include <cmath>
#include <numeric>

#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/math/math_instruction.hpp"
#include "block_sums.hpp"
#include "run_kernel.hpp"
#include "support/catch.hpp"
#include "support/violation.hpp"

using namespace bitmma;
using test::butterfly;
using test::kernel_of_data;
using test::memory;
using test::number;
using test::random_floats;
using test::real;
using test::sum_of_block;
using test::word;
using test::words_of;

TEST_CASE("a reduction gives the sum in the order of its shuffles") {
  constexpr int threads = 256, n = 5000;
  std::vector<float> x = random_floats(n, 1), y(2);
  launch(kernel_of_data("cuda.ptx", "reduce"),
         {.grid = {2, 1, 1}, .block = {threads, 1, 1}, .arguments = {memory(x), memory(y), number(n)}});
  for (int block = 0; block < 2; ++block) {
    std::array<float, 32> parts{};
    for (int warp = 0; warp < threads / 32; ++warp) {
      std::array<float, 32> lanes{};
      for (int lane = 0; lane < 32; ++lane) {
        for (int i = block * threads + warp * 32 + lane; i < n; i += 2 * threads)
          lanes[static_cast<size_t>(lane)] += x[static_cast<size_t>(i)];
      }
      parts[static_cast<size_t>(warp)] = butterfly(lanes);
    }
    CHECK(word(y[static_cast<size_t>(block)]) == word(butterfly(parts)));
  }
}

TEST_CASE("a scan in dynamic shared memory and a histogram with atomics give exact integers") {
  constexpr int threads = 192, blocks = 3;
  std::vector<int32_t> x(threads * blocks), y(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int32_t>(i * i % 97) - 40;
  launch(kernel_of_data("cuda.ptx", "scan"), {.grid = {blocks, 1, 1},
                                              .block = {threads, 1, 1},
                                              .dynamic_shared_bytes = 4 * threads,
                                              .arguments = {memory(x), memory(y)}});
  std::vector<int32_t> sums(x.size());
  for (size_t first = 0; first < x.size(); first += threads)
    std::partial_sum(x.begin() + static_cast<std::ptrdiff_t>(first),
                     x.begin() + static_cast<std::ptrdiff_t>(first + threads),
                     sums.begin() + static_cast<std::ptrdiff_t>(first));
  CHECK(y == sums);

  std::vector<uint8_t> bytes(10'000);
  RandomStream random(3, 0);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.word() % 200);
  std::vector<uint32_t> counts(256), exact(256);
  for (const uint8_t byte : bytes) ++exact[byte];
  launch(kernel_of_data("cuda.ptx", "histogram"), {.grid = {4, 1, 1},
                                                   .block = {128, 1, 1},
                                                   .arguments = {memory(bytes), memory(counts), number(10'000)},
                                                   .threads = 4});
  CHECK(counts == exact);
}

TEST_CASE("a transpose through padded shared memory moves every element, with any number of host threads") {
  constexpr int rows = 70, cols = 45;
  for (const int threads : {1, 3}) {
    std::vector<float> x(rows * cols), y(x.size()), expected(x.size());
    std::iota(x.begin(), x.end(), 1.0F);
    for (int row = 0; row < rows; ++row) {
      for (int col = 0; col < cols; ++col)
        expected[static_cast<size_t>(col * rows + row)] = x[static_cast<size_t>(row * cols + col)];
    }
    launch(kernel_of_data("cuda.ptx", "transpose"), {.grid = {2, 3, 1},
                                                     .block = {32, 8, 1},
                                                     .arguments = {memory(x), memory(y), number(rows), number(cols)},
                                                     .threads = threads});
    CHECK(y == expected);
  }
}

TEST_CASE("a layer norm gives the bits of its fused sums and of rsqrt.approx") {
  constexpr int threads = 64, cols = 200;
  constexpr float eps = 1e-5F;
  std::vector<float> x = random_floats(cols, 7), w = random_floats(cols, 8), b = random_floats(cols, 9), y(cols);
  launch(
      kernel_of_data("cuda.ptx", "layer_norm"),
      {.block = {threads, 1, 1}, .arguments = {memory(x), memory(w), memory(b), memory(y), number(cols), number(eps)}});
  std::vector<float> sums(threads), squares(threads);
  for (int i = 0; i < cols; ++i) sums[static_cast<size_t>(i % threads)] += x[static_cast<size_t>(i)];
  const float mean = sum_of_block(sums) / float{cols};
  for (int i = 0; i < cols; ++i) {
    const float d = x[static_cast<size_t>(i)] - mean;
    squares[static_cast<size_t>(i % threads)] = std::fma(d, d, squares[static_cast<size_t>(i % threads)]);
  }
  const float variance = sum_of_block(squares) / float{cols} + eps;
  const float scale = real(compute(parse_math_instruction("rsqrt.approx.f32"), word(variance)));
  std::vector<float> expected;
  for (size_t i = 0; i < cols; ++i) expected.push_back(std::fma(scale * (x[i] - mean), w[i], b[i]));
  CHECK(words_of(y) == words_of(expected));
}

TEST_CASE("a product by cp.async, ldmatrix and mma.sync is the chain of k16 steps of multiply") {
  constexpr int m = 32, n = 16, k = 64;
  RandomStream random(11, 0);
  std::vector<uint16_t> a(m * k), b(n * k);
  for (auto* codes : {&a, &b}) {
    for (uint16_t& code : *codes)
      code = static_cast<uint16_t>((random.word() & 0x83FF) | (11 + random.word() % 8) << 10);
  }
  std::vector<float> d(m * n);
  launch(kernel_of_data("cuda.ptx", "matmul"), {.grid = {n / 8, m / 16, 1},
                                                .block = {32, 1, 1},
                                                .arguments = {memory(a), memory(b), memory(d), number(n), number(k)}});
  const Instruction mma = parse_instruction("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
  for (int row = 0; row < m; row += 16) {
    for (int col = 0; col < n; col += 8) {
      Matrix c(Format::f32, 16, 8);
      for (int from = 0; from < k; from += 16) {
        Matrix left(Format::f16, 16, 16), right(Format::f16, 16, 8);
        for (int i = 0; i < 16; ++i) {
          for (int j = 0; j < 16; ++j) left.set_code(i, j, a[static_cast<size_t>((row + i) * k + from + j)]);
          for (int j = 0; j < 8; ++j) right.set_code(i, j, b[static_cast<size_t>((col + j) * k + from + i)]);
        }
        c = multiply(mma, Target::sm_90a, left, right, &c);
      }
      for (int i = 0; i < 16; ++i) {
        for (int j = 0; j < 8; ++j) CHECK(word(d[static_cast<size_t>((row + i) * n + col + j)]) == c.code(i, j));
      }
    }
  }
}

TEST_CASE("lanes that diverge in branches, loops and returns give what each gives alone") {
  constexpr int threads = 128;
  std::vector<int32_t> x(threads), y(threads);
  for (int i = 0; i < threads; ++i) x[static_cast<size_t>(i)] = (i % 7 == 3 ? -1 : 1) * (i * 37 % 101 + 1);
  launch(kernel_of_data("cuda.ptx", "diverge"), {.block = {threads, 1, 1}, .arguments = {memory(x), memory(y)}});
  for (int i = 0; i < threads; ++i) {
    int value = x[static_cast<size_t>(i)], steps = 0;
    const int got = y[static_cast<size_t>(i)];
    if (value < 0 && value % 2 != 0) {
      CHECK(got == -1);
      continue;
    }
    value = std::abs(value);
    for (; value != 1 && steps < 200; ++steps) value = value % 2 != 0 ? 3 * value + 1 : value / 2;
    CHECK(got % 1000 == steps);
  }
}

TEST_CASE("faults are named with their thread and line: bounds, alignment, unwritten memory, races, deadlocks, traps") {
  const PtxEntry kernel = kernel_of_data("cuda.ptx", "faulty");
  std::vector<float> x = random_floats(128, 1), y(128);
  const auto run = [&](int which, bool checks = true) {
    return test::violation_of([&] {
      launch(kernel, {.block = {128, 1, 1}, .arguments = {memory(x), memory(y), number(which)}, .checks = checks});
    });
  };
  const auto check = [&](int which, ViolationCode code, const std::string& thread) {
    const std::optional<Violation> violation = run(which);
    REQUIRE(violation);
    CHECK(print(violation->code) == print(code));
    CHECK_THAT(violation->field, ContainsSubstring("block (0, 0, 0)"));
    CHECK_THAT(violation->field, ContainsSubstring(thread));
    if (code != ViolationCode::deadlock) CHECK_THAT(violation->field, ContainsSubstring("PTX line "));
  };
  check(0, ViolationCode::out_of_bounds, "thread (127, 0, 0)");
  check(1, ViolationCode::misaligned, "thread (1, 0, 0)");
  check(2, ViolationCode::unwritten_read, "thread (0, 0, 0)");
  check(3, ViolationCode::unwritten_read, "thread (0, 0, 0)");  // the other warps have not run yet
  check(4, ViolationCode::deadlock, "block");
  CHECK_FALSE(run(5));
  for (size_t i = 0; i < 128; ++i) CHECK(word(y[i]) == word(x[127 - i]));
  check(6, ViolationCode::kernel_trap, "thread (0, 0, 0)");
  CHECK_FALSE(run(2, false));  // without checks what is there is read
}

TEST_CASE("a race in shared memory is named with both threads and lines") {
  // Warp 1 reads what warp 0 wrote; then the same behind a barrier, and a write after a read.
  const auto module = [](const std::string& between, const std::string& after) {
    return ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<9>;\n"
           ".reg .b64 %rd<9>;\n.reg .pred %p<4>;\n.shared .align 4 .b8 s[256];\nmov.u32 %r1, %tid.x;\nshl.b32 %r2, "
           "%r1, 2;\n"
           "mov.u32 %r3, s;\nadd.s32 %r4, %r3, %r2;\nst.shared.u32 [%r4], %r1;\n" +
           between + "\nxor.b32 %r5, %r2, 128;\nadd.s32 %r6, %r3, %r5;\nld.shared.u32 %r7, [%r6];\n" + after +
           "\nret;\n}\n";
  };
  const auto run = [&](const std::string& between, const std::string& after) {
    uint64_t nothing = 0;
    const PtxEntry kernel(module(between, after));
    return test::violation_of([&] {
      launch(kernel, {.block = {64, 1, 1}, .arguments = {scalar_argument(nothing, 8)}});
    });
  };
  CHECK_FALSE(run("bar.sync 0;", ""));
  CHECK_FALSE(run("barrier.sync 3, 64;", "bar.sync 0;\nst.shared.u32 [%r6], %r1;"));
  const std::optional<Violation> after_write = run("bar.warp.sync 0xffffffff;", "");
  REQUIRE(after_write);
  CHECK(after_write->code == ViolationCode::shared_memory_race);  // warp 0 reads, before warp 1 writes
  const std::optional<Violation> after_read = run("bar.sync 0;", "st.shared.u32 [%r4], %r1;");
  REQUIRE(after_read);
  CHECK(after_read->code == ViolationCode::shared_memory_race);
  CHECK_THAT(after_read->seen, ContainsSubstring("st.shared.u32"));
  // Two warps may write the same value, not two values.
  CHECK_FALSE(run("bar.sync 0;\nmov.u32 %r8, 5;\nst.shared.u32 [s], %r8;\nbar.sync 0;", ""));
  const auto other_value = run("bar.sync 0;\nshr.u32 %r8, %r1, 5;\nst.shared.u32 [s], %r8;\nbar.sync 0;", "");
  REQUIRE(other_value);
  CHECK(other_value->code == ViolationCode::shared_memory_race);
  // A warp may use what it wrote itself.
  CHECK_FALSE(run("ld.shared.u32 %r8, [%r4];\nbar.sync 0;", ""));
}

TEST_CASE("what is not run here is refused before anything runs, by its name and line") {
  const std::string text = test::module_of(
      "add.s32 %r1, %r2, %r3;\nsured.b.add.1d.u32.trap [%rd1, {%r2}], %r1;\nmul.foo.f32 %f1, %f2, %f3;");
  try {
    const PtxEntry kernel(text);
    FAIL("taken");
  } catch (const Error& error) {
    REQUIRE(error.violations().size() == 2);
    CHECK(error.violations()[0].code == ViolationCode::unsupported_ptx);
    CHECK(error.violations()[0].field == "PTX line 13");
    CHECK_THAT(error.violations()[0].seen, ContainsSubstring("sured.b.add.1d.u32.trap"));
    CHECK_THAT(error.violations()[1].field, ContainsSubstring("PTX line 14"));
  }
  CHECK_THROWS_AS(PtxEntry("not PTX"), Error);
  CHECK_THROWS_AS(PtxEntry(test::module_of("bra NOWHERE;")), Error);
  CHECK_THROWS_AS(PtxEntry(test::module_of("mov.u32 %r1, %undeclared;")), Error);
  // A parameter of an entry lies in .param, nowhere else.
  CHECK_THROWS_AS(PtxEntry(".version 8.0\n.target sm_90a\n.address_size 64\n.entry k(.local .u64 p) { ret; }"), Error);
}

/// A module whose kernel calls `scale_and_add` in the lanes whose number is odd, and twice in lane 3.
std::string module_with_calls(std::string_view called = "scale_and_add") {
  return R"(
.version 8.0
.target sm_90a
.address_size 64
.extern .func (.param .b32 r) elsewhere(.param .b32 a, .param .b32 b);
.func (.param .b32 r) add_one(.param .b32 a) {
  .reg .b32 %r<3>;
  ld.param.u32 %r1, [a];
  add.s32 %r1, %r1, 1;
  st.param.b32 [r], %r1;
  ret;
}
.func (.param .b32 r) scale_and_add(.param .b32 a, .param .b32 b) {
  .reg .b32 %r<5>;
  .reg .pred %p<2>;
  ld.param.u32 %r1, [a];
  ld.param.u32 %r2, [b];
  setp.gt.u32 %p1, %r1, 5;
  @%p1 bra BIG;
  { .param .b32 to; .param .b32 back;
    st.param.b32 [to], %r1; call.uni (back), add_one, (to); ld.param.b32 %r1, [back]; }
  st.param.b32 [r], %r1;
  ret;
BIG:
  mad.lo.s32 %r1, %r1, %r2, 100;
  st.param.b32 [r], %r1;
  ret;
}
.func (.param .b32 r) for_ever(.param .b32 a, .param .b32 b) {
  .param .b32 back;
  call.uni (back), for_ever, (a, b);
  ret;
}
.visible .entry k(.param .u64 p) {
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  .reg .pred %p<3>;
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd2, %rd1, %rd2;
  and.b32 %r2, %r1, 1;
  setp.ne.u32 %p1, %r2, 0;
  setp.eq.u32 %p2, %r1, 3;
  .param .b32 x; .param .b32 y; .param .b32 z;
  st.param.b32 [x], %r1;
  st.param.b32 [y], 3;
  st.param.b32 [z], 7;
  @%p1 call (z), )" +
         std::string(called) + R"(, (x, y);
  ld.param.b32 %r3, [z];
  st.param.b32 [x], %r3;
  @%p2 call (z), )" +
         std::string(called) + R"(, (x, y);
  ld.param.b32 %r3, [z];
  st.global.b32 [%rd2], %r3;
  ret;
}
)";
}

TEST_CASE("functions are called with parameters of each lane's own, within each other and under a guard") {
  std::vector<uint32_t> words(32);
  launch(PtxEntry(module_with_calls()), {.block = {32, 1, 1}, .arguments = {memory(words)}});
  const auto called = [](uint32_t a) { return a > 5 ? 3 * a + 100 : a + 1; };
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t once = lane % 2 == 0 ? 7 : called(lane);
    CHECK(words[lane] == (lane == 3 ? called(once) : once));
  }
  const auto refused = [](std::string_view function) {
    return test::violation_of([&] { PtxEntry{module_with_calls(function)}; })->code;
  };
  CHECK(refused("elsewhere") == ViolationCode::unsupported_ptx);
  CHECK(refused("add_one") == ViolationCode::unsupported_ptx);  // it has one parameter
}

TEST_CASE("launches refuse arguments, grids and blocks that the kernel has not") {
  const PtxEntry kernel(test::module_of("ld.global.u32 %r1, [%rd1];"));
  std::vector<uint32_t> x(1);
  CHECK_NOTHROW(launch(kernel, {.arguments = {memory(x)}}));
  CHECK_THROWS_AS(launch(kernel, {}), Error);
  CHECK_THROWS_AS(launch(kernel, {.arguments = {number(1)}}), Error);
  CHECK_THROWS_AS(launch(kernel, {.block = {2048, 1, 1}, .arguments = {memory(x)}}), Error);
  CHECK_THROWS_AS(launch(kernel, {.grid = {0, 1, 1}, .arguments = {memory(x)}}), Error);
  CHECK_THROWS_AS(launch(kernel, {.dynamic_shared_bytes = 300'000, .arguments = {memory(x)}}), Error);
}

TEST_CASE("text that ends early is refused, wherever it ends") {
  const std::string whole = test::module_of("mul.f32 %f1, %f2, %f3;\nbra.uni end;\nend:", 1);
  for (size_t length = 0; length + 2 < whole.size(); ++length) {
    INFO(length);
    CHECK_THROWS_AS(PtxEntry(whole.substr(0, length)), Error);
  }
}
