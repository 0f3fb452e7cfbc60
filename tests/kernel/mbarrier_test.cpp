// mbarrier objects and the copies that complete on them.
#include <cmath>

#include "bitmma/kernel/kernel.hpp"
#include "run_kernel.hpp"
#include "support/catch.hpp"

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

std::optional<ViolationCode> code_of(const std::string& body) {
  const auto found = test::violation_of([&] { run_words(body, {0, 0, 0}, 0); });
  return found ? std::optional(found->code) : std::nullopt;
}

}  // namespace

TEST_CASE("a producer copies in bulk two stages ahead of the warps that wait on mbarriers") { scaled(0); }

TEST_CASE("faults around mbarriers are found: no wait, a stage that nobody frees, bytes that nobody expects") {
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
