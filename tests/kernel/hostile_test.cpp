// SPDX-License-Identifier: MIT
// Kernels that nobody would write: addresses at the ends of the number range, types without a row, modules that grow.
#include <fmt/format.h>

#include "run_kernel.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"
#include "support/violation.hpp"

namespace bitmma {
namespace {

/// ViolationCode::unsupported_ptx and the like; nothing if the module is accepted.
std::optional<ViolationCode> refusal_of(const std::string& text) {
  const auto violation = test::violation_of([&] { const PtxEntry kernel(text); });
  return violation ? std::optional(violation->code) : std::nullopt;
}

std::optional<ViolationCode> refusal_of_statement(std::string_view statement) {
  return refusal_of(test::module_of(statement));
}

}  // namespace

TEST_CASE("directives of an entry that change no result are accepted, and those that PTX does not have are refused") {
  const auto with = [](std::string_view head, std::string_view directives) {
    return fmt::format(".version 8.6\n.target sm_90a\n.address_size 64\n{}\n{}\n{{\nret;\n}}\n{}", head, directives,
                       head.starts_with(".func") ? ".visible .entry k() { ret; }\n" : "");
  };
  for (const std::string_view head : {".visible .entry k()", ".func f()"}) {
    for (const std::string_view directives :
         {"", ".maxnreg 32", ".minnctapersm 2", ".maxnctapersm 2", ".noreturn", ".explicitcluster", ".abi_preserve 4",
          ".abi_preserve_control 4", ".pragma \"nounroll\";", ".maxntid 128, 1, 1\n.minnctapersm 1",
          ".loc 1 2 3\n.reqntid 32", ".maxclusterrank 4 .blocksareclusters .reqnctapercluster 2"}) {
      INFO(head << " " << directives);
      CHECK(refusal_of(with(head, directives)) == std::nullopt);
    }
    for (const std::string_view directives : {".maxthreads 128", "maxnreg 32", ".reqntid", ".maxnreg", ".maxnreg 1, 2",
                                              ".noreturn 1", ".reqntid 1,1,1,1"}) {
      INFO(head << " " << directives);
      const auto violation = test::violation_of([&] { const PtxEntry kernel(with(head, directives)); });
      REQUIRE(violation);
      CHECK(violation->code == ViolationCode::unusable_file);
      CHECK(violation->field == "PTX line 5");
      CHECK(violation->seen == directives.substr(0, directives.find(' ')));
    }
  }
}

TEST_CASE("an address that wraps is out of bounds, in every space, at every size") {
  constexpr std::string_view variables = ".shared .align 16 .b8 in_shared[64];\n.local .align 16 .b8 in_local[64];\n";
  struct Row {
    std::string_view space, store, load;
  };
  for (const Row& row : std::initializer_list<Row>{{"shared", "st", "ld"},
                                                   {"local", "st", "ld"},
                                                   {"global", "st", "ld"},
                                                   {"param", "", "ld"},
                                                   {"const", "", "ld"},
                                                   {"", "st", "ld"}}) {
    for (const std::string_view type : {"b8", "b16", "b32", "b64", "v2.b64", "v4.b32"}) {
      for (const uint64_t address :
           {~uint64_t{0}, ~uint64_t{0} - 15, ~uint64_t{0} - 7, ~uint64_t{0} - 3, uint64_t{1} << 63,
            (uint64_t{1} << 32) - 16, uint64_t{1} << 32, (uint64_t{1} << 24) - 16, uint64_t{1} << 40}) {
        const int parts = type[0] == 'v' ? type[1] - '0' : 1, bits = type.ends_with("64")   ? 64
                                                                     : type.ends_with("32") ? 32
                                                                                            : 16;
        const std::string registers = bits == 64 ? "%rd" : bits == 32 ? "%r" : "%h";
        std::string data = parts == 1 ? registers + "5" : "{" + registers + "5, " + registers + "6";
        if (parts > 1) data += parts == 4 ? ", " + registers + "7, " + registers + "8}" : "}";
        for (const bool is_store : {false, true}) {
          const std::string_view name = is_store ? row.store : row.load;
          if (name.empty()) continue;
          const std::string opcode = fmt::format("{}{}{}.{}", name, row.space.empty() ? "" : ".", row.space, type);
          const std::string body = fmt::format(
              "{}mov.u64 %rd2, {:#x};\n{};", variables, address,
              is_store ? fmt::format("{} [%rd2], {}", opcode, data) : fmt::format("{} {}, [%rd2]", opcode, data));
          std::vector<uint32_t> words(16, 7);
          const auto violation = test::violation_of(
              [&] { (void)launch(PtxEntry(test::module_of(body)), {.arguments = {test::memory(words)}}); });
          INFO(body);
          REQUIRE(violation);
          CHECK((violation->code == ViolationCode::out_of_bounds || violation->code == ViolationCode::misaligned));
          CHECK(words == std::vector<uint32_t>(16, 7));
        }
      }
    }
  }
}

TEST_CASE("types and vectors that no instruction has are refused by line") {
  for (const std::string_view statement :
       {"st.global.v8.b128 [%rd1], {%rd1, %rd1, %rd1, %rd1, %rd1, %rd1, %rd1, %rd1};",
        "st.global.v4.b64 [%rd1], {%rd1, %rd1, %rd1, %rd1};",
        "red.global.and.b128 [%rd1], %rd1;",
        "ld.global.tf32 %r1, [%rd1];",
        "atom.global.add.u8 %r1, [%rd1], %r2;",
        "selp.b128 %rd1, %rd1, %rd1, %p1;",
        "add.b32 %r1, %r2, %r3;",
        "and.u32 %r1, %r2, %r3;",
        "popc.u32 %r1, %r2;",
        "setp.lt.b32 %p1, %r1, %r2;",
        "add.f32 %f1, %f2, 1;",
        "add.u32 %r1, %r2, 0f3F800000;",
        "mov.u64 %rd2, %tid.x;",
        "mad.rn.f16 %h1, %h2, %h3, %h4;",
        "min.ftz.f64 %rd1, %rd2, %rd3;",
        "fence.anything;",
        "fence;",
        "membar.all;",
        "membar.gl %r1;",
        "prefetch.here [%rd1];",
        "prefetch.global.L1 %rd1;",
        "nanosleep.s32 %r1;",
        "nanosleep.u32;",
        "cp.async.wait_group -1;",
        "cp.async.commit_group 1;",
        "cp.async.cg.shared.global [%rd1], [%rd1], 4;",
        "wgmma.wait_group.sync.aligned -1;",
        "griddepcontrol.now;",
        "setmaxnreg.inc.sync.aligned.u32 13;",
        "pmevent 16;",
        "createpolicy.any.b64 %rd1;",
        "bar.sync 16;",
        "bar.sync 0, 33;",
        "barrier.cluster.wait.release;",
        "ld.acquire.global.u32 %r1, [%rd1];",
        "ld.volatile.const.u32 %r1, [%rd1];",
        "ld.relaxed.gpu.local.u32 %r1, [%rd1];",
        "st.acquire.gpu.global.u32 [%rd1], %r1;",
        "ldu.shared.u32 %r1, [%rd1];",
        "ldu.global.v8.b8 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%rd1];",
        "ld.global.v8.u16 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%rd1];",
        "add.u32 _, %r1, %r2;",
        "ld.global.u32 _, [%rd1];",
        "ld.global.v2.u32 {_, _}, [%rd1];",
        "setp.eq.u32 _|_, %r1, %r2;",
        "shfl.sync.idx.b32 _|%p1, %r2, 0, 31, -1;",
        "mbarrier.test_wait.shared.b64 _, [%rd1], %rd2;",
        "setp.eq.ftz.f64 %p1, %rd1, %rd2;",
        "setp.eq.ftz.bf16 %p1, %h1, %h2;",
        "cvt.rn.satfinite.tf32.f32 %r1, %f1;",
        "cvt.rn.bf16x2.e4m3x2 %r1, %h2;",
        "cvta.u64 %rd2, %rd1;",
        "trap %r1;",
        "ret %r1;",
        "exit.uni;",
        "shfl.sync.idx.u32 %r1, %r2, %r3, %r4, %r5;",
        "redux.sync.and.u32 %r1, %r2, %r3;",
        "match.any.sync.u32 %r1, %r2, %r3;",
        "mbarrier.inval.shared.b64 [%rd1], 1;",
        "mbarrier.test_wait.parity.shared.b64 %p1, [%rd1], %r1, 100;",
        "rcp.approx.ftz.f32;",
        "div.approx.ftz.f32 %f0;",
        "ex2.approx.ftz.f32 %f0;",
        "mul.f32;",
        "add.f32 %f1;",
        "setp.eq.f32 %p1;",
        "selp.f32 %f1;",
        "cvt.f64.f32 %rd1;"}) {
    INFO(statement);
    CHECK(refusal_of_statement(statement) == ViolationCode::unsupported_ptx);
  }
  CHECK(refusal_of_statement("@%r1 mov.u32 %r2, %r3;") == ViolationCode::unusable_file);
  // What stands beside them is accepted.
  for (const std::string_view statement :
       {"ldu.global.v4.b8 {%r1, %r2, %r3, %r4}, [%rd1];",
        "ld.global.v8.u8 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%rd1];", "setp.eq.f64 %p1, %rd1, %rd2;",
        "setp.eq.ftz.f32 %p1, %f1, %f2;", "setp.eq.bf16 %p1, %h1, %h2;", "cvt.rna.satfinite.tf32.f32 %r1, %f1;",
        "cvt.rn.f16x2.e4m3x2 %r1, %h2;", "atom.global.add.u32 _, [%rd1], %r1;", "ld.global.v2.u32 {_, %r1}, [%rd1];",
        "setp.eq.u32 _|%p1, %r1, %r2;", "setp.eq.u32 _, %r1, %r2;", "shfl.sync.idx.b32 %r1|_, %r2, 0, 31, -1;",
        "mbarrier.arrive.shared.b64 _, [%rd1];"}) {
    INFO(statement);
    CHECK_FALSE(refusal_of_statement(statement));
  }
}

TEST_CASE("atomics of 128 bits exchange and compare whole values") {
  std::vector<uint64_t> words{1, 2, 3, 4, 0, 0, 0, 0};
  const std::string text = test::module_of(
      ".reg .b128 %q<9>;\nld.global.b128 %q1, [%rd1+16];\natom.global.exch.b128 %q2, [%rd1], %q1;\nst.global.b128 "
      "[%rd1+32], %q2;\n"
      "atom.global.cas.b128 %q3, [%rd1], %q1, %q2;\nst.global.b128 [%rd1+48], %q3;");
  (void)launch(PtxEntry(text), {.arguments = {test::memory(words)}});
  CHECK(words == std::vector<uint64_t>{1, 2, 3, 4, 1, 2, 3, 4});
}

TEST_CASE("modules that grow without bound are refused, and large ones take little time") {
  // 33 calls of a function that declares 262143 wide registers and uses one.
  std::string text =
      ".version 8.0\n.target sm_90a\n.address_size 64\n.func f()\n{\n.reg .b128 %q<262143>;\n.reg .b32 %r<2>;\nmov.u32 "
      "%r1, 1;\nret;\n}\n"
      ".visible .entry k(.param .u64 p)\n{\n";
  for (int i = 0; i < 33; ++i) text += "call f, ();\n";
  std::vector<uint32_t> words(4);
  (void)launch(PtxEntry(text + "ret;\n}\n"), {.block = {256, 1, 1}, .arguments = {test::memory(words)}});

  // A prototype without a function behind it.
  (void)PtxEntry(
      ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n.reg .b32 %r<2>;\nmov.u32 %r1, "
      "1;\nret;\n}\n"
      ".extern .func (.param .b32 r) f(.param .b64 a, .param .b32 b);\n",
      {.entry = "k"});
  // Calls that double the instructions 40 times.
  text = ".version 8.0\n.target sm_90a\n.address_size 64\n.func f0()\n{\n.reg .b32 %r<2>;\nmov.u32 %r1, 1;\nret;\n}\n";
  for (int i = 1; i <= 40; ++i)
    text += fmt::format(".func f{}()\n{{\ncall f{}, ();\ncall f{}, ();\nret;\n}}\n", i, i - 1, i - 1);
  CHECK(refusal_of(text + ".visible .entry k()\n{\ncall f40, ();\nret;\n}\n") == ViolationCode::unsupported_ptx);

  // Constants, products and names in numbers at which a square shows.
  std::string constants = ".reg .b32 %c<20000>;\n", products = ".reg .f32 %x<20000>;\n",
              branches = ".reg .b32 %c<20000>;\n";
  for (int i = 0; i < 20000; ++i) constants += fmt::format("mov.u32 %c{}, {};\n", i, i);
  for (int i = 1; i < 20000; ++i)
    products += fmt::format("mul.f32 %x{}, %f1, %f2;\nadd.f32 %x{}, %x{}, %f3;\n", i, i - 1, i);
  for (int i = 0; i < 2500; ++i)
    branches += fmt::format("setp.eq.u32 %p1, %c{}, 0;\n@%p1 bra L{};\nmov.u32 %c{}, {};\nL{}:\n", i, i, i + 1, i, i);
  for (const std::string& body : {constants, products, branches}) CHECK(refusal_of_statement(body) == std::nullopt);
  std::string opcode = "fence";
  for (int i = 0; i < 100000; ++i) opcode += ".a";
  CHECK(refusal_of_statement(opcode + ";") == ViolationCode::unusable_file);
}

TEST_CASE("a launch that would take more memory than its limit is refused before it begins") {
  std::string body = ".reg .b64 %w<4000>;\n";
  for (int i = 0; i < 4000; ++i) body += fmt::format("ld.global.u64 %w{}, [%rd1];\n", i);
  const PtxEntry kernel(test::module_of(body));
  std::vector<uint32_t> words(2);
  const Launch fits{.block = {1024, 1, 1}, .arguments = {test::memory(words)}};
  (void)launch(kernel, fits);
  Launch small = fits;
  small.most_bytes = 1 << 20;
  const auto violation = test::violation_of([&] { (void)launch(kernel, small); });
  REQUIRE(violation);
  CHECK(violation->field == "memory");
}

TEST_CASE("blanks in declarations are optional, and a vector register has elements") {
  std::vector<uint32_t> words{0x40400000, 0x40000000, 0, 0};
  (void)launch(PtxEntry(".version 8.0\n.target sm_90a\n.address_size 64\n.visible.entry k(.param.u64 p)\n{\n.reg.b64 "
                        "%rd<2>;\n.reg.v2.f32 m, n;\n"
                        ".reg.f32 %f<3>;\nld.param.u64 %rd1, [p];\nld.global.v2.f32 m, [%rd1];\nadd.f32 n.x, m.x, "
                        "m.y;\nmax.f32 n.g, m.r, m.g;\n"
                        "st.global.v2.f32 [%rd1+8], n;\nret;\n}\n"),
               {.arguments = {test::memory(words)}});
  CHECK(words == std::vector<uint32_t>{0x40400000, 0x40000000, 0x40A00000, 0x40400000});
}

TEST_CASE("lanes that store to one address leave what an H100 leaves, with a warning") {
  // Each lane stores its number; 64-bit stores go in two passes of 16 lanes, of which the later one stays.
  for (const auto& [store, value] : {std::pair{"st.global.u32 [%rd1], %r1;", 0},
                                     {"st.global.u64 [%rd1], %rd3;", 16},
                                     {"st.global.v2.u64 [%rd1], {%rd3, %rd3};", 24}}) {
    std::vector<uint32_t> words(4, 99);
    const LaunchReport report =
        launch(PtxEntry(test::module_of(fmt::format("mov.u32 %r1, %tid.x;\ncvt.u64.u32 %rd3, %r1;\n{}", store))),
               {.block = {32, 1, 1}, .arguments = {test::memory(words)}});
    CHECK(words[0] == static_cast<uint32_t>(value));
    REQUIRE(report.warnings.size() == 1);
    CHECK(report.warnings.front().code == ViolationCode::undefined_by_ptx);
  }
  std::vector<uint32_t> words(4, 99);
  const LaunchReport same = launch(PtxEntry(test::module_of("mov.u32 %r1, 5;\nst.global.u32 [%rd1], %r1;")),
                                   {.block = {32, 1, 1}, .arguments = {test::memory(words)}});
  CHECK(same.warnings.empty());
}

TEST_CASE("blocks whose order decides bits are warned of, for any number of threads") {
  struct Row {
    std::string_view body;
    bool races;
  };
  constexpr std::string_view own = "mov.u32 %r1, %ctaid.x;\nmul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd3, %rd1, %rd2;\n";
  for (const Row& row : std::initializer_list<Row>{
           {"ld.global.u32 %r2, [%rd1];\nadd.u32 %r2, %r2, 1;\nst.global.u32 [%rd1], %r2;", true},
           {"st.global.u32 [%rd1], %r1;", true},                    // another value from each block
           {"st.global.u32 [%rd3], %r1;", false},                   // memory of its own
           {"mov.u32 %r2, 7;\nst.global.u32 [%rd1], %r2;", false},  // one value
           {"ld.global.u32 %r2, [%rd1+4];\nadd.u32 %r2, %r2, %r1;\nst.global.u32 [%rd3], %r2;",
            true},  // block 1 writes what the others read
           {"ld.global.u32 %r2, [%rd3];\nadd.u32 %r2, %r2, 1;\nst.global.u32 [%rd3], %r2;", false},
           {"cvt.u16.u32 %h1, %r1;\nmul.wide.u32 %rd2, %r1, 1;\nadd.s64 %rd3, %rd1, %rd2;\nst.global.u8 [%rd3], %h1;",
            false},
           {"atom.global.add.u32 %r2, [%rd1], 1;", false},
       }) {
    for (const int threads : {1, 3}) {
      std::vector<uint32_t> words(64, 3);
      const PtxEntry kernel(test::module_of(fmt::format("{}{}", own, row.body)));
      const LaunchReport report =
          launch(kernel, {.grid = {64, 1, 1}, .arguments = {test::memory(words)}, .threads = threads});
      INFO(row.body << ", " << threads);
      CHECK(report.warnings.size() == (row.races ? 1 : 0));
    }
  }
}

TEST_CASE("the carry flag is that of the sum, also after a difference") {
  // 5 - 3 and 3 - 5 by a + ~b + 1: no borrow is a carry.
  CHECK(test::run_words("sub.cc.u32 %r3, %r1, %r2;\naddc.u32 %r4, 0, 0;\nst.global.u32 [%rd1], %r4;", {5, 3}, 2)[0] ==
        1);
  CHECK(test::run_words("sub.cc.u32 %r3, %r1, %r2;\naddc.u32 %r4, 0, 0;\nst.global.u32 [%rd1], %r4;", {3, 5}, 2)[0] ==
        0);
  CHECK(test::run_words("add.cc.u32 %r3, %r1, %r2;\nsubc.u32 %r4, 0, 0;\nst.global.u32 [%rd1], %r4;", {5, 3}, 2)[0] ==
        0xFFFFFFFF);
  CHECK(test::run_words("add.cc.u32 %r3, %r1, %r2;\nsubc.u32 %r4, 0, 0;\nst.global.u32 [%rd1], %r4;", {0xFFFFFFFF, 3},
                        2)[0] == 0);
  CHECK(test::run_words("sub.cc.u32 %r3, %r1, %r2;\nmadc.lo.u32 %r4, %r1, %r2, 0;\nst.global.u32 [%rd1], %r4;", {5, 3},
                        2)[0] == 16);
}

}  // namespace bitmma
