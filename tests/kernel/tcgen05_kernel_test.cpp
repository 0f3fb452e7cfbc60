// Kernels with tcgen05: a product in Tensor Memory, moves, allocation, and what is wrong with them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bitmma/instruction/execute.hpp"
#include "run_kernel.hpp"
#include "support/catch.hpp"
#include "support/violation.hpp"

using namespace bitmma;

namespace {

constexpr int rows = 128, columns = 64, k = 16;

std::string registers(int count, const std::string& prefix = "%d") {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(fmt::format("{}{}", prefix, i));
  return fmt::format("{{{}}}", fmt::join(names, ", "));
}

/// D of 128 x 64 from A of 128 x 16 and B of 64 x 16, both f16 and row by row; a thread has a row. Shared memory has
/// core matrices of 8 rows x 16 bytes: 128 bytes to the next one along K, 256 to the next eight rows.
std::string product_kernel(std::string_view fence = "fence.proxy.async.shared::cta;", int allocated = 64,
                           std::string_view column_of_d = "0", std::string_view end = "dealloc") {
  std::string text = R"(.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 d)
{
.reg .b32 %r<30>; .reg .b64 %rd<30>; .reg .pred %p<4>; .reg .b32 %w<4>; .reg .b32 %d<64>;
.shared .align 128 .b8 words_of_a[4096]; .shared .align 128 .b8 words_of_b[2048];
.shared .align 8 .b64 bar; .shared .align 4 .b32 slot;
ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [d];
mov.u32 %r1, %tid.x; mul.wide.u32 %rd4, %r1, 32; add.s64 %rd5, %rd1, %rd4; add.s64 %rd6, %rd2, %rd4;
shr.u32 %r2, %r1, 3; and.b32 %r3, %r1, 7; shl.b32 %r2, %r2, 8; shl.b32 %r3, %r3, 4; add.u32 %r2, %r2, %r3;
mov.u32 %r4, words_of_a; add.u32 %r5, %r4, %r2; mov.u32 %r6, words_of_b; add.u32 %r7, %r6, %r2;
ld.global.v4.b32 {%w0, %w1, %w2, %w3}, [%rd5]; st.shared.v4.b32 [%r5], {%w0, %w1, %w2, %w3};
ld.global.v4.b32 {%w0, %w1, %w2, %w3}, [%rd5+16]; st.shared.v4.b32 [%r5+128], {%w0, %w1, %w2, %w3};
setp.ge.u32 %p1, %r1, 64; @%p1 bra filled;
ld.global.v4.b32 {%w0, %w1, %w2, %w3}, [%rd6]; st.shared.v4.b32 [%r7], {%w0, %w1, %w2, %w3};
ld.global.v4.b32 {%w0, %w1, %w2, %w3}, [%rd6+16]; st.shared.v4.b32 [%r7+128], {%w0, %w1, %w2, %w3};
filled:
mov.u32 %r8, bar; mov.u32 %r9, slot; setp.ne.u32 %p2, %r1, 0;
@!%p2 mbarrier.init.shared::cta.b64 [%r8], 1;
)";
  text += fmt::format("{}\nshr.u32 %r10, %r1, 5; setp.ne.u32 %p1, %r10, 0; @%p1 bra ready;\n", fence);
  text += fmt::format("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r9], {};\n", allocated);
  text += R"(tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
ready:
tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
ld.shared.b32 %r11, [%r9];
)";
  text += fmt::format("add.u32 %r11, %r11, {};\n@%p2 bra issued;\n", column_of_d);
  // Version 1 of descriptors in bit 46; 128 bytes and 256 bytes, in units of 16.
  text += R"(shr.u32 %r12, %r4, 4; cvt.u64.u32 %rd7, %r12; or.b64 %rd7, %rd7, 0x0000401000080000;
shr.u32 %r13, %r6, 4; cvt.u64.u32 %rd8, %r13; or.b64 %rd8, %rd8, 0x0000401000080000;
)";
  const auto mma = std::get<Tcgen05Mma>(tcgen05({.kind = MmaKind::f16, .m = rows, .n = columns}));
  text += fmt::format("mov.b32 %r14, {:#x}; setp.ne.u32 %p3, %r14, %r14;\n", idesc_of(mma));
  text += R"(tcgen05.mma.cta_group::1.kind::f16 [%r11], %rd7, %rd8, %r14, %p3;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];
issued:
mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r8], 0; @!%p1 bra issued;
tcgen05.fence::after_thread_sync;
)";
  text += "shl.b32 %r15, %r10, 21; add.u32 %r15, %r15, %r11;\n";  // a warp has 32 lanes
  text += fmt::format("tcgen05.ld.sync.aligned.32x32b.x64.b32 {}, [%r15];\n", registers(columns));
  text += "tcgen05.wait::ld.sync.aligned; mul.wide.u32 %rd9, %r1, 256; add.s64 %rd9, %rd3, %rd9;\n";
  for (int i = 0; i < columns; ++i) text += fmt::format("st.global.b32 [%rd9+{}], %d{};\n", 4 * i, i);
  text += "bar.sync 0; setp.ne.u32 %p1, %r10, 0; @%p1 bra done;\n";
  text += end == "dealloc" ? fmt::format("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r11, {};\n", allocated)
                           : std::string(end);
  return text + "done:\nret;\n}\n";
}

struct ProductOperands {
  Matrix a = Matrix(Format::f16, rows, k), b = Matrix(Format::f16, columns, k);
  std::vector<uint16_t> words_of_a, words_of_b;
  std::vector<uint32_t> d = std::vector<uint32_t>(rows * columns);

  ProductOperands() {
    RandomStream random(31, 0);
    for (Matrix* matrix : {&a, &b}) {
      for (uint32_t& word : matrix->words()) word = (random.word() & 0x87FF) | (12 + random.word() % 6) << 10;
    }
    for (const uint32_t word : a.words()) words_of_a.push_back(static_cast<uint16_t>(word));
    for (const uint32_t word : b.words()) words_of_b.push_back(static_cast<uint16_t>(word));
  }
  LaunchReport run(const std::string& ptx) {
    return launch(PtxEntry(ptx), {.block = {128, 1, 1},
                                  .arguments = {test::memory(words_of_a), test::memory(words_of_b), test::memory(d)}});
  }
};

}  // namespace

TEST_CASE("a kernel multiplies in Tensor Memory with the bits of the instruction") {
  ProductOperands operands;
  operands.run(product_kernel());
  Matrix b(Format::f16, k, columns);
  for (int row = 0; row < k; ++row) {
    for (int column = 0; column < columns; ++column) b(row, column) = operands.b(column, row);
  }
  const Instruction mma = tcgen05({.kind = MmaKind::f16, .m = rows, .n = columns, .enable_input_d = false});
  const Matrix expected = multiply(mma, Target::sm_100a, operands.a, b);
  CHECK(std::ranges::equal(operands.d, expected.words()));
  // The last columns do as well as the first.
  const std::vector<uint32_t> first = operands.d;
  operands.run(product_kernel("fence.proxy.async.shared::cta;", 512, "448",
                              "sub.u32 %r11, %r11, 448;\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 %r11, 512;\n"));
  CHECK(operands.d == first);
}

TEST_CASE("what is wrong with Tensor Memory is a fault") {
  const auto fault_of = [](const std::string& ptx) {
    return test::violation_of([&] { ProductOperands().run(ptx); })->code;
  };
  CHECK(fault_of(product_kernel("")) == ViolationCode::undefined_by_ptx);  // no fence before the async proxy
  CHECK(fault_of(product_kernel("fence.proxy.async.shared::cta;", 48)) == ViolationCode::undefined_by_ptx);
  CHECK(fault_of(product_kernel("fence.proxy.async.shared::cta;", 64, "64")) == ViolationCode::undefined_by_ptx);
  CHECK(fault_of(product_kernel("fence.proxy.async.shared::cta;", 64, "0",
                                "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r11, 32;\n")) ==
        ViolationCode::undefined_by_ptx);
  CHECK(fault_of(product_kernel("fence.proxy.async.shared::cta;", 64, "0",
                                "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r9], 512;\n")) ==
        ViolationCode::deadlock);
  const auto refused = [](const std::string& ptx) {
    return test::violation_of([&] { PtxEntry{ptx, {.target = Target::sm_90a}}; })->code;
  };
  CHECK(refused(product_kernel()) == ViolationCode::unsupported_ptx);
}

TEST_CASE("pairs of f32, and redux of f32, on sm_100a alone") {
  const std::string body =
      "ld.global.b64 %rd2, [%rd1];\nld.global.b64 %rd3, [%rd1+8];\nld.global.b64 %rd4, [%rd1+16];\n"
      "fma.rn.f32x2 %rd5, %rd2, %rd3, %rd4;\nst.global.b64 [%rd1], %rd5;\n"
      "mul.f32x2 %rd6, %rd2, %rd3;\nsub.f32x2 %rd7, %rd4, %rd6;\nst.global.b64 [%rd1+8], %rd7;\n"
      "ld.global.f32 %f1, [%rd1+16];\nredux.sync.max.abs.f32 %f2, %f1, 1;\nst.global.f32 [%rd1+16], %f2;";
  std::string text = test::module_of(body);
  const auto refusal = test::violation_of([&] { PtxEntry{text}; });
  REQUIRE(refusal);
  CHECK(refusal->code == ViolationCode::unsupported_ptx);
  text.replace(text.find("sm_90a"), 6, "sm_100a");
  std::vector<float> words{3, 1.5F, -2, 4, 0.25F, -8};
  const PtxEntry kernel(text);
  CHECK(std::ranges::count(kernel.fusions(), true, &KernelFusion::is_joined) == 1);
  launch(kernel, {.arguments = {test::memory(words)}});
  CHECK(words == std::vector<float>{-5.75F, -2, 6.25F, -14, 0.25F, -8});
}
