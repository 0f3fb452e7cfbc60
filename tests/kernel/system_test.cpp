// SPDX-License-Identifier: MIT
// What programs need of the driver and of the machine: printf, a heap, a stack, functions by their addresses and
// recursion, clocks, tables of labels, blocks that take over others, lanes that spin, and tensor maps as bytes.
#include <fmt/format.h>

#include <set>

#include "bitmma/kernel/memory.hpp"
#include "run_kernel.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"
#include "support/violation.hpp"

using namespace bitmma;
using test::memory;
using test::number;

namespace {

/// A module with an entry k of (p, n); `head` stands in front of it.
std::string module_of(std::string_view head, std::string_view body, std::string_view target = "sm_90a") {
  return fmt::format(
      ".version 8.6\n.target {}\n.address_size 64\n{}\n.visible .entry k(.param .u64 p, .param .u32 n)\n{{\n.reg .b32 "
      "%r<40>;\n.reg .b64 %rd<40>;\n.reg .f64 %d<8>;\n.reg .b16 %h<8>;\n.reg .pred %p<8>;\n.reg .b128 %q<4>;\n"
      "ld.param.u64 %rd1, [p];\nld.param.u32 %r1, [n];\nmov.u32 %r2, %tid.x;\nmov.u32 %r3, %ctaid.x;\n"
      "mov.u32 %r4, %ntid.x;\nmad.lo.u32 %r5, %r3, %r4, %r2;\nmul.wide.u32 %rd2, %r5, 4;\nadd.u64 %rd2, %rd2, %rd1;\n"
      "{}\nret;\n}}\n",
      target, head, body);
}

/// The words that p points to after a launch; p has a word for each thread.
std::vector<uint32_t> run(const std::string& text, int64_t threads, int64_t blocks = 1, int32_t n = 0) {
  std::vector<uint32_t> words(static_cast<size_t>(threads * blocks));
  (void)launch(PtxEntry(text),
               {.grid = {blocks, 1, 1}, .block = {threads, 1, 1}, .arguments = {memory(words), number(n)}});
  return words;
}

std::optional<ViolationCode> fault_of(const std::string& text, int64_t threads = 1) {
  const auto violation = test::violation_of([&] { run(text, threads); });
  return violation ? std::optional(violation->code) : std::nullopt;
}

constexpr std::string_view printf_head =
    ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
    ".global .align 1 .b8 format[40] = "
    "{37,100,32,37,53,46,50,102,124,37,45,52,120,124,37,115,124,37,99,37,37,32,37,108,"
    "108,117,10,0};\n"  // "%d %5.2f|%-4x|%s|%c%% %llu\n"
    ".global .align 1 .b8 word[3] = {104,105,0};\n";
constexpr std::string_view print_body =
    ".local .align 8 .b8 area[64];\nst.local.u32 [area], %r5;\nmov.f64 %d1, 0d400921FB54442D18;\n"
    "st.local.f64 [area+8], %d1;\nst.local.u32 [area+16], 255;\nmov.u64 %rd3, word;\nst.local.u64 [area+24], %rd3;\n"
    "st.local.u32 [area+32], 65;\nst.local.u64 [area+40], -1;\nmov.u64 %rd4, area;\ncvta.local.u64 %rd4, %rd4;\n"
    "mov.u64 %rd5, format;\n{ .param .b64 x; .param .b64 y; .param .b32 z;\nst.param.b64 [x], %rd5;\n"
    "st.param.b64 [y], %rd4;\ncall (z), vprintf, (x, y);\nld.param.b32 %r6, [z]; }\nst.global.u32 [%rd2], %r6;";

}  // namespace

TEST_CASE("printf prints in the order of blocks and threads, and returns the number of its arguments") {
  const PtxEntry kernel(module_of(printf_head, print_body));
  for (const int threads : {1, 2}) {
    std::vector<uint32_t> words(6);
    const LaunchReport report = launch(
        kernel, {.grid = {3, 1, 1}, .block = {2, 1, 1}, .arguments = {memory(words), number(0)}, .threads = threads});
    std::string expected;
    for (int i = 0; i < 6; ++i) expected += fmt::format("{}  3.14|ff  |hi|A% 18446744073709551615\n", i);
    CHECK(report.printed == expected);
    CHECK(words == std::vector<uint32_t>(6, 6));
  }
}

TEST_CASE("a format that is none of printf's is a fault") {
  const std::string text = module_of(
      ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n.global .b8 format[4] = {37, 113, 0};\n",
      "mov.u64 %rd3, format;\n{ .param .b64 x; .param .b64 y; .param .b32 z;\nst.param.b64 [x], %rd3;\n"
      "st.param.b64 [y], 0;\ncall (z), vprintf, (x, y); }");
  CHECK(fault_of(text) == ViolationCode::undefined_by_ptx);
}

TEST_CASE("a failed assertion is a fault that says what failed") {
  const std::string text = module_of(
      ".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);\n"
      ".global .b8 text[6] = {110, 32, 62, 32, 48, 0};\n",  // "n > 0"
      "mov.u64 %rd3, text;\n{ .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e;\n"
      "st.param.b64 [a], %rd3;\nst.param.b64 [b], %rd3;\nst.param.b32 [c], 17;\nst.param.b64 [d], %rd3;\n"
      "st.param.b64 [e], 1;\ncall __assertfail, (a, b, c, d, e); }");
  const auto violation = test::violation_of([&] { run(text, 1); });
  REQUIRE(violation);
  CHECK(violation->code == ViolationCode::failed_assertion);
  CHECK(violation->seen == "the failed assertion n > 0 of n > 0:17 in n > 0");
}

TEST_CASE("malloc gives memory that lasts over launches until free, and nothing beyond the heap") {
  constexpr std::string_view heap =
      ".extern .func (.param .b64 r) malloc(.param .b64 a);\n.extern .func free(.param .b64 a);\n";
  // Entry k stores a new block's address at p, with n in the block.
  const std::string allocate = module_of(
      heap,
      "{ .param .b64 x; .param .b64 z;\ncvt.u64.u32 %rd3, %r1;\nst.param.b64 [x], %rd3;\ncall (z), malloc, (x);\n"
      "ld.param.b64 %rd4, [z]; }\nst.global.u64 [%rd1], %rd4;\nsetp.eq.u64 %p1, %rd4, 0;\n@!%p1 st.u32 [%rd4], %r1;");
  const std::string read_and_free = module_of(
      heap,
      "ld.global.u64 %rd3, [%rd1];\nld.u32 %r6, [%rd3];\n{ .param .b64 x;\nst.param.b64 [x], %rd3;\ncall free, (x); }\n"
      "st.global.u32 [%rd1], %r6;");
  Memory device;
  const uint64_t p = device.allocate(16);
  const auto call = [&](const std::string& text, uint32_t n) {
    std::vector<uint8_t> parameters(12);
    std::memcpy(parameters.data(), &p, 8);
    std::memcpy(parameters.data() + 8, &n, 4);
    (void)launch(PtxEntry(text), {.parameter_bytes = parameters, .memory = &device});
    uint64_t word = 0;
    device.read(p, {reinterpret_cast<uint8_t*>(&word), 8});
    return word;
  };
  const uint64_t block = call(allocate, 24);
  CHECK(block % 16 == 0);
  CHECK(call(allocate, 24) == block + 32);
  device.write(p, {reinterpret_cast<const uint8_t*>(&block), 8});
  CHECK((call(read_and_free, 0) & 0xFFFFFFFF) == 24);
  CHECK(call(allocate, 8) == block);  // the first gap
  CHECK(call(allocate, 16U << 20) == 0);
  device.write(p, {reinterpret_cast<const uint8_t*>(&block), 8});
  CHECK((call(read_and_free, 0) & 0xFFFFFFFF) == 8);
  device.write(p, {reinterpret_cast<const uint8_t*>(&block), 8});
  const auto again = test::violation_of([&] { call(read_and_free, 0); });
  REQUIRE(again);
  CHECK(again->code == ViolationCode::undefined_by_ptx);  // the block is free already
}

TEST_CASE("alloca takes the thread's stack, and stackrestore gives it back") {
  const std::string text = module_of(
      "",
      "stacksave.u64 %rd3;\nmul.wide.u32 %rd4, %r2, 8;\nalloca.u64 %rd5, 64, 16;\nalloca.u64 %rd6, %rd4, 8;\n"
      "cvta.local.u64 %rd7, %rd6;\nst.local.u32 [%rd5+60], 4;\nsetp.eq.u32 %p1, %r2, 0;\n@!%p1 st.u32 [%rd7], %r2;\n"
      "ld.local.u32 %r6, [%rd5+60];\nstackrestore.u64 %rd3;\nalloca.u64 %rd8, 16;\nsetp.eq.u64 %p2, %rd8, %rd5;\n"
      "selp.u32 %r7, 10, 0, %p2;\nadd.u32 %r6, %r6, %r7;\nst.global.u32 [%rd2], %r6;");
  CHECK(run(text, 3) == std::vector<uint32_t>{14, 14, 14});
  CHECK(fault_of(module_of("", "alloca.u64 %rd5, 20000;")) == ViolationCode::out_of_bounds);
  CHECK(fault_of(module_of("", "alloca.u64 %rd5, 16;\nld.local.u32 %r6, [%rd5];\nst.global.u32 [%rd2], %r6;")) ==
        ViolationCode::unwritten_read);
}

namespace {

constexpr std::string_view functions = R"(
.func (.param .b32 r) fib(.param .b32 n)
{
  .reg .b32 %r<8>; .reg .pred %p;
  ld.param.b32 %r1, [n];
  setp.lt.u32 %p, %r1, 2;
  @%p bra BASE;
  sub.u32 %r2, %r1, 1;
  { .param .b32 a; .param .b32 q; st.param.b32 [a], %r2; call.uni (q), fib, (a); ld.param.b32 %r3, [q]; }
  sub.u32 %r2, %r1, 2;
  { .param .b32 a; .param .b32 q; st.param.b32 [a], %r2; call.uni (q), fib, (a); ld.param.b32 %r4, [q]; }
  add.u32 %r1, %r3, %r4;
BASE:
  st.param.b32 [r], %r1;
  ret;
}
// The sum of 1 to n by an array of its own in each activation.
.func (.param .b32 r) sum(.param .b32 n)
{
  .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p; .local .align 4 .b8 own[8];
  ld.param.b32 %r1, [n];
  mov.u64 %rd1, own;
  cvta.local.u64 %rd1, %rd1;
  st.u32 [%rd1+4], %r1;
  setp.eq.u32 %p, %r1, 0;
  mov.u32 %r3, 0;
  @%p bra BASE;
  sub.u32 %r2, %r1, 1;
  { .param .b32 a; .param .b32 q; st.param.b32 [a], %r2; call.uni (q), sum, (a); ld.param.b32 %r3, [q]; }
BASE:
  ld.u32 %r4, [%rd1+4];
  add.u32 %r3, %r3, %r4;
  st.param.b32 [r], %r3;
  ret;
}
.func (.param .b32 r) for_ever(.param .b32 n)
{
  .reg .b32 %r<4>;
  ld.param.b32 %r1, [n];
  { .param .b32 a; .param .b32 q; st.param.b32 [a], %r1; call.uni (q), for_ever, (a); ld.param.b32 %r2, [q]; }
  st.param.b32 [r], %r2;
  ret;
}
.func (.param .b32 r) twice(.param .b32 a)
{
  .reg .b32 %r<4>;
  ld.param.b32 %r1, [a]; add.u32 %r2, %r1, %r1; st.param.b32 [r], %r2; ret;
}
.func (.param .b32 r) square(.param .b32 a)
{
  .reg .b32 %r<4>;
  ld.param.b32 %r1, [a]; mul.lo.u32 %r2, %r1, %r1; st.param.b32 [r], %r2; ret;
}
.global .align 8 .u64 table[2] = {twice, square};
)";

std::string call_of(std::string_view function, std::string_view argument) {
  return fmt::format(
      "{{ .param .b32 x; .param .b32 z; st.param.b32 [x], {};\ncall (z), {}, (x);\nld.param.b32 %r6, [z]; }}\n"
      "st.global.u32 [%rd2], %r6;",
      argument, function);
}

}  // namespace

TEST_CASE("functions that call themselves have variables and registers of their own, in each lane") {
  const std::vector<uint32_t> fib = run(module_of(functions, "and.b32 %r7, %r2, 15;\n" + call_of("fib", "%r7")), 40);
  std::vector<uint32_t> expected{0, 1};
  while (expected.size() < 16) expected.push_back(expected[expected.size() - 2] + expected.back());
  for (size_t i = 0; i < fib.size(); ++i) CHECK(fib[i] == expected[i % 16]);
  const std::vector<uint32_t> sums = run(module_of(functions, call_of("sum", "%r2")), 40);
  for (uint32_t i = 0; i < 40; ++i) CHECK(sums[i] == i * (i + 1) / 2);
  CHECK(fault_of(module_of(functions, call_of("for_ever", "1"))) == ViolationCode::out_of_bounds);
}

TEST_CASE("functions are called by addresses from registers and tables, each lane its own") {
  const std::string prototype = "proto: .callprototype (.param .b32 _) _ (.param .b32 _);\n";
  const std::string from_table = module_of(
      functions,
      prototype +
          "and.b32 %r7, %r2, 1;\nmul.wide.u32 %rd3, %r7, 8;\nmov.u64 %rd4, table;\nadd.u64 %rd4, %rd4, %rd3;\n"
          "ld.global.u64 %rd5, [%rd4];\n{ .param .b32 x; .param .b32 z; st.param.b32 [x], %r2;\n"
          "call (z), %rd5, (x), proto;\nld.param.b32 %r6, [z]; }\nst.global.u32 [%rd2], %r6;");
  const std::vector<uint32_t> words = run(from_table, 32);
  for (uint32_t i = 0; i < 32; ++i) CHECK(words[i] == (i % 2 == 0 ? 2 * i : i * i));
  const std::string from_nowhere = module_of(
      functions, prototype +
                     "mov.u64 %rd4, twice;\nadd.u64 %rd5, %rd4, 8;\n{ .param .b32 x; .param .b32 z;\nst.param.b32 [x], "
                     "%r2;\ncall (z), %rd5, (x), proto; }");
  CHECK(fault_of(from_nowhere) == ViolationCode::undefined_by_ptx);
}

TEST_CASE("brx.idx jumps to a label of its list, and an index beyond it is a fault") {
  const auto text = [](std::string_view before) {
    return module_of("", fmt::format("{}\ntargets: .branchtargets A, B, C;\nsetp.lt.u32 %p1, %r2, 5;\nmov.u32 %r6, 9;\n"
                                     "@%p1 brx.idx %r7, targets;\nbra D;\nA: mov.u32 %r6, 10;\nbra D;\n"
                                     "B: mov.u32 %r6, 11;\nbra D;\nC: mov.u32 %r6, 12;\nD: st.global.u32 [%rd2], %r6;",
                                     before));
  };
  CHECK(run(text("rem.u32 %r7, %r2, 3;"), 7) == std::vector<uint32_t>{10, 11, 12, 10, 11, 9, 9});
  CHECK(fault_of(text("mov.u32 %r7, 3;")) == ViolationCode::undefined_by_ptx);
}

TEST_CASE("clocks and places of a GPU are there if the launch asks for them") {
  const PtxEntry kernel(module_of(
      "",
      "mov.u64 %rd3, %clock64;\nmov.u32 %r6, %clock;\nmov.u64 %rd4, %globaltimer;\nmov.u32 %r7, %smid;\n"
      "mov.u32 %r8, %nsmid;\nsetp.lt.u32 %p1, %r7, %r8;\nsetp.le.u64 %p2, %rd3, %rd4;\nand.pred %p3, %p1, %p2;\n"
      "cvt.u32.u64 %r9, %rd3;\nselp.u32 %r10, %r9, 0, %p3;\nst.global.u32 [%rd2], %r10;"));
  std::vector<uint32_t> words(1);
  Launch request{.arguments = {memory(words), number(0)}};
  CHECK(test::violation_of([&] { (void)launch(kernel, request); })->code == ViolationCode::missing_argument);
  request.clock = 1000;
  (void)launch(kernel, request);
  const uint32_t first = words[0];
  CHECK(first >= 1000);
  CHECK(first < 1100);
  (void)launch(kernel, request);
  CHECK(words[0] == first);
}

TEST_CASE("lanes that spin for a lock of another lane of their warp let it go on") {
  const std::string text =
      module_of("",
                "SPIN:\natom.global.cas.b32 %r6, [%rd1], 0, 1;\nsetp.ne.u32 %p1, %r6, 0;\n@%p1 bra SPIN;\n"
                "ld.volatile.global.u32 %r7, [%rd1+4];\nadd.u32 %r7, %r7, %r2;\nst.volatile.global.u32 [%rd1+4], %r7;\n"
                "membar.gl;\natom.global.exch.b32 %r8, [%rd1], 0;");
  const std::vector<uint32_t> words = run(text, 32);
  CHECK(words[0] == 0);
  CHECK(words[1] == 496);
}

TEST_CASE("lanes with masks of their own are groups, together or one after the other") {
  // Groups of 8; in the odd ones the upper half arrives later than the lower one.
  const std::string text = module_of(
      "",
      "shr.u32 %r6, %r2, 3;\nand.b32 %r7, %r6, 1;\nshl.b32 %r6, %r6, 3;\nshl.b32 %r8, 0xff, %r6;\nand.b32 %r9, %r2, "
      "4;\n"
      "setp.ne.u32 %p1, %r9, 0;\nsetp.ne.and.u32 %p2, %r7, 0, %p1;\nmov.u32 %r10, %r2;\n@%p2 bra LATE;\nbra MEET;\n"
      "LATE: add.u32 %r10, %r10, 100;\nMEET:\nredux.sync.add.u32 %r11, %r10, %r8;\nst.global.u32 [%rd2], %r11;");
  const std::vector<uint32_t> words = run(text, 32);
  for (uint32_t i = 0; i < 32; ++i) {
    const uint32_t group = i / 8, sum = 8 * (8 * group) + 28;
    CHECK(words[i] == sum + (group % 2 == 1 ? 400 : 0));
  }
}

TEST_CASE("a warp that waits for a phase sees it, also when the next one is complete before it runs") {
  const std::string text = module_of(
      "",
      ".shared .align 8 .b64 bar;\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 bra INITED;\nmbarrier.init.shared.b64 [bar], 1;\n"
      "INITED:\nbar.sync 0;\nsetp.ge.u32 %p2, %r2, 32;\n@%p2 bra WAIT;\n@%p1 bra DONE;\nmbarrier.arrive.shared.b64 "
      "%rd3, [bar];\nmbarrier.arrive.shared.b64 %rd3, [bar];\nbra DONE;\nWAIT:\n"
      "mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0;\n@!%p3 bra WAIT;\nDONE:\nst.global.u32 [%rd2], 1;");
  CHECK(run(text, 64) == std::vector<uint32_t>(64, 1));
}

TEST_CASE("clusters take over others that have not begun, and each is computed once") {
  const PtxEntry kernel(module_of("", R"(
.shared .align 16 .b8 answer[16]; .shared .align 8 .b64 bar;
mbarrier.init.shared.b64 [bar], 1;
mov.u32 %r6, %ctaid.x;
mov.u32 %r7, 0;
mov.u32 %r8, 0;
AGAIN:
mul.wide.u32 %rd3, %r6, 4;
add.u64 %rd3, %rd3, %rd1;
atom.global.add.u32 %r9, [%rd3], 1;
fence.proxy.async;
mbarrier.arrive.expect_tx.shared.b64 %rd4, [bar], 16;
clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [answer], [bar];
WAIT:
mbarrier.try_wait.parity.shared.b64 %p1, [bar], %r7;
@!%p1 bra WAIT;
xor.b32 %r7, %r7, 1;
ld.shared.b128 %q1, [answer];
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p2, %q1;
@!%p2 bra DONE;
clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r6, %q1;
add.u32 %r8, %r8, 1;
bra AGAIN;
DONE:
mul.wide.u32 %rd3, %r3, 4;
add.u64 %rd3, %rd3, %rd1;
st.global.u32 [%rd3+400], %r8;)",
                                  "sm_100a"));
  std::vector<uint32_t> words(200);
  (void)launch(kernel, {.grid = {100, 1, 1}, .arguments = {memory(words), number(0)}});
  uint32_t taken = 0;
  for (size_t i = 0; i < 100; ++i) {
    CHECK(words[i] == 1);
    taken += words[100 + i];
  }
  CHECK(taken > 50);  // the blocks that began did the work of the others
}

TEST_CASE("tensor maps have the bytes of the driver") {
  // Of cuTensorMapEncodeTiled on an H200: data/kernels/tensor_maps.txt.
  const auto words_of = [](const std::array<uint8_t, tensor_map_bytes>& bytes) {
    std::array<uint32_t, 32> words;
    std::memcpy(words.data(), bytes.data(), sizeof words);
    return words;
  };
  const auto bytes = encode_tensor_map(
      {.sizes = {256, 128, 64}, .strides_bytes = {512, 65536}, .box = {16, 8, 4}, .type = TensorMapType::f16},
      0x7F0000000000);
  const std::array<uint32_t, 32> expected{0,    0x7F00, 0x320, 0x20,       0x1000, 0, 0,     0, 0xFF, 0x7F,
                                          0x3F, 0,      0,     0x0F000000, 0x307,  0, 0x400, 0, 0x10};
  CHECK(words_of(bytes) == expected);
}

TEST_CASE("elements of an array, pairs of bytes and addresses in a cluster without a block are as PTX says") {
  CHECK(run(module_of("",
                      ".shared .align 4 .b32 area[8];\nmov.u32 %r6, area[3];\nst.shared.u32 [%r6], 5;\n"
                      "ld.shared.u32 %r7, [area+12];\nst.global.u32 [%rd2], %r7;"),
            1) == std::vector<uint32_t>{5});
  CHECK(run(module_of("",
                      ".reg .b8 %b<3>;\nmov.b32 %r6, 0x0201;\ncvt.u16.u32 %h1, %r6;\nmov.b16 {%b1, %b2}, %h1;\n"
                      "mov.b16 %h2, {%b2, %b1};\ncvt.u32.u16 %r7, %h2;\nst.global.u32 [%rd2], %r7;"),
            1) == std::vector<uint32_t>{0x0102});
  CHECK(run(module_of("",
                      ".shared .b32 area[1];\nmov.u32 %r6, area;\nmapa.shared::cluster.u32 %r7, %r6, 5;\n"
                      "st.global.u32 [%rd2], 3;"),
            1) == std::vector<uint32_t>{3});
  CHECK(fault_of(module_of("",
                           ".shared .b32 area[1];\nmov.u32 %r6, area;\nmapa.shared::cluster.u32 %r7, %r6, 5;\n"
                           "st.shared::cluster.u32 [%r7], 3;")) == ViolationCode::out_of_bounds);
}

TEST_CASE("a load of unwritten memory is a fault where its value decides something, and else a warning") {
  const auto body = [](std::string_view use) {
    return module_of("", fmt::format(".shared .align 4 .b32 s[8];\nst.shared.u32 [s], 7;\nld.shared.u32 %r6, [s+4];\n"
                                     "ld.shared.u32 %r7, [s];\nsetp.eq.u32 %p1, %r7, 7;\n{}",
                                     use));
  };
  const auto warning_of = [&](std::string_view use) {
    std::vector<uint32_t> words(1);
    const LaunchReport report = launch(PtxEntry(body(use)), {.arguments = {memory(words), number(0)}});
    REQUIRE(report.warnings.size() == 1);
    CHECK(report.warnings[0].code == ViolationCode::unwritten_read);
    CHECK(report.warnings[0].severity == Severity::warning);
    return words[0];
  };
  CHECK(warning_of("st.global.u32 [%rd2], 9;") == 9);
  CHECK(warning_of("add.u32 %r8, %r6, 1;\nselp.u32 %r9, %r7, %r8, %p1;\nst.global.u32 [%rd2], %r9;") == 7);
  CHECK(warning_of("mov.u32 %r6, 4;\nst.global.u32 [%rd2], %r6;") == 4);
  CHECK(warning_of("st.shared.u32 [s+8], %r6;\nst.shared.u32 [s+8], 3;\nld.shared.u32 %r8, [s+8];\n"
                   "st.global.u32 [%rd2], %r8;") == 3);
  for (const std::string_view use :
       {"st.global.u32 [%rd2], %r6;", "add.u32 %r8, %r6, 1;\nst.global.u32 [%rd2], %r8;",
        "setp.eq.u32 %p2, %r6, 0;\n@%p2 bra NEXT;\nNEXT:",
        "mul.wide.u32 %rd3, %r6, 0;\nadd.u64 %rd3, %rd3, %rd2;\n"
        "ld.global.u32 %r8, [%rd3];",
        "selp.u32 %r9, %r6, %r7, %p1;\nst.global.u32 [%rd2], %r9;",
        "st.shared.u32 [s+8], %r6;\nld.shared.u32 %r8, [s+8];\nst.global.u32 [%rd2], %r8;",
        "shfl.sync.idx.b32 %r8, %r6, 0, 31, 1;\nst.global.u32 [%rd2], %r8;",
        "atom.shared.add.u32 %r8, [s], %r6;\nld.shared.u32 %r8, [s];\nst.global.u32 [%rd2], %r8;",
        "atom.global.add.u32 %r8, [%rd2], %r6;"}) {
    INFO(use);
    CHECK(fault_of(body(use)) == ViolationCode::unwritten_read);
  }
}

TEST_CASE(
    "kernels with references of textures, cube maps, atomics on surfaces and memory of several GPUs are refused, and "
    "others of their module run") {
  constexpr std::string_view head =
      ".version 8.6\n.target sm_90a\n.address_size 64\n.global .texref image;\n.global .surfref canvas;\n"
      ".global .samplerref near = {filter_mode = nearest, addr_mode_0 = wrap};\n"
      ".visible .entry plain(.param .u64 p)\n{\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\n"
      "st.global.u32 [%rd1], 5;\nret;\n}\n"
      ".visible .entry k(.param .u64 p, .param .u64 t)\n{\n.reg .b64 %rd<4>;\n.reg .b32 %r<4>;\n.reg .f32 %f<8>;\n"
      ".reg .pred %p<2>;\n";
  const std::string module(head);
  for (const std::string_view statement :
       {"tex.cube.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6, %f7, %f7}];",
        "tex.grad.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6}], {%f5, %f6}, {%f5, %f6};",
        "tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [image, near, {%r1}];",
        "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}|%p1, [%rd1, {%f5, %f6}], {%r1, %r2};",
        "tld4.r.1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5}];", "txq.width.b32 %r1, [image];",
        "txq.filter_mode.b32 %r1, [%rd1];", "suld.b.1d.b32.trap {%r1}, [canvas, {%r2}];",
        "suld.b.1d.v4.b64.trap {%rd2, %rd3, %rd2, %rd3}, [%rd1, {%r2}];", "sust.p.1d.b32.trap [%rd1, {%r2}], {%r1};",
        "sured.b.add.1d.u32.trap [%rd1, {%r2}], %r1;", "suq.channel_order.b32 %r1, [%rd1];",
        "istypep.texref %p1, %rd1;", "multimem.ld_reduce.relaxed.sys.global.add.u32 %r1, [%rd1];"}) {
    const std::string text = fmt::format("{}{}\nret;\n}}\n", module, statement);
    CHECK_THROWS_MATCHES(PtxEntry(text, {.entry = "k"}), Error,
                         test::refused(ViolationCode::unsupported_ptx, "PTX line 20"));
    std::vector<uint32_t> words(1);
    (void)launch(PtxEntry(text, {.entry = "plain"}), {.arguments = {memory(words)}});
    CHECK(words[0] == 5);
  }
}
