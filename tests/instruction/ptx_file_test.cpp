#include "bitmma/instruction/ptx_file.hpp"

#include <filesystem>

#include "bitmma/core/error.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/support_instruction.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

namespace {

/// "line: text" of every statement.
std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (const PtxStatement& statement : scan_ptx(text).statements)
    lines.push_back(fmt::format("{}: {}", statement.line, statement.text));
  return lines;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("statements about tensor cores are found with their lines, and all others are passed over") {
  CHECK(lines_of(
            ".version 8.7\n.target sm_90a, debug\n.visible .entry k(\n\t.param .u64 a,\n)\n.reqntid 128\n{\n"
            ".reg .b32 %r<4>;\nmov.b32 %r1, 0;\n\tldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r2];\n ret;\n}") ==
        Lines{"10: ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r2]"});
  // Several lines, comments, a label, a guard.
  CHECK(lines_of("$L__BB0_1: @%p1 wgmma.fence.sync.aligned; // one; two\n"
                 "/* mma.sync; \n */ mma.sync.aligned /* ; */\n  {a, b}, // d }\n {c};") ==
        Lines{"1: @%p1 wgmma.fence.sync.aligned", "3: mma.sync.aligned {a, b}, {c}"});
  // Scopes of inline assembly, also on one line, and a call's.
  CHECK(lines_of("{\n.reg .pred p;\nsetp.ne.b32 p, %r1, 0;\nwgmma.x {a}, p;\n}\n{ tcgen05.wait::ld.sync.aligned; }\n"
                 "{ // callseq 0\n.param .b32 param0;\ncall.uni (r), f, (param0);\n}\nfence.proxy.async;") ==
        Lines{"4: wgmma.x {a}, p", "6: tcgen05.wait::ld.sync.aligned", "11: fence.proxy.async"});
  // Names of files and variables are no statements.
  CHECK(lines_of(".file 1 \"mma.sync; \"\n.global .align 4 .b8 x[4] = {1,\n 2};\n.pragma \"wgmma.fence;\";\nmmax.y;") ==
        Lines{});
  const PtxFile file = scan_ptx("// .target sm_80\n.version 8.7\n.target sm_100a\n.target sm_80\n");
  CHECK(file.version == "8.7");
  CHECK(file.target == "sm_100a");
}

TEST_CASE("registers that are written once, with a number, are known") {
  const PtxFile file = scan_ptx(
      "mov.b32 %r1, 134414352;\nmov.b32 %r2, -5; mov.u32 %r3, 1; add.s32 %r3, %r3, 1; @%p1 mov.b32 %r4, 1; mov.b32 "
      "%r5, "
      "%r1;\nmov.b64 {%r6, %r7}, 8; setp.ne.b32 %p2|%p3, %r1, 0; mov.b64 %rd1, 0x4000404000010000; mov.b32 %r8, 1; "
      "ld.v2.b32 {%r9, %r8}, [%r1]; call (%r10), f, (%r1); st.b32 [%r1], 3;");
  CHECK(file.constants ==
        std::map<std::string, int64_t, std::less<>>{{"%r1", 134414352}, {"%r2", -5}, {"%rd1", 0x4000'4040'0001'0000}});
}

TEST_CASE("text that no compiler prints ends somewhere: open comments, strings, braces") {
  for (const char* text :
       {"", "/*", "/", "\"", "{", "}", "}}}}", ":", "::", ";;;;", "@", "@%p", "mma", "wgmma.x {{{{ ; }",
        "\"mma.sync;\\", "/* /* */ */", ".target", ".version\n.target\n", "\n\n\n"}) {
    INFO(text);
    CHECK_NOTHROW(scan_ptx(text));
  }
  CHECK(lines_of("mma.sync {a; wgmma.fence } ;") == Lines{"1: mma.sync {a", "1: wgmma.fence"});
  CHECK(lines_of("wgmma.fence /* open") == Lines{"1: wgmma.fence"});
  // A million pieces take a moment.
  for (const char* piece : {"a:", "{", "}", ";", "@p ", "/**/", "\"\"", "mma.sync ", "x y:z "}) {
    std::string text;
    for (int i = 0; i < 300'000; ++i) text += piece;
    CHECK_NOTHROW(scan_ptx(text));
  }
}

TEST_CASE("every instruction of tensor cores in PTX of nvcc and Triton is read, and legal on its target") {
  int files = 0, instructions = 0, support_instructions_found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_path("data/ptx"))) {
    if (entry.path().extension() != ".ptx") continue;
    const PtxFile file = scan_ptx(test::read_text(entry.path().string()));
    INFO(entry.path().filename().string());
    const Target target = parse_target(file.target);
    CHECK(file.statements.size() >= 4);
    for (const PtxStatement& statement : file.statements) {
      INFO(statement.line << ": " << statement.text);
      const size_t guard = statement.text.starts_with('@') ? statement.text.find(' ') + 1 : 0;
      if (find_support_instruction(statement.text.substr(guard, statement.text.find_first_of(" ", guard) - guard))) {
        CHECK(violations_of(parse_support_instruction(statement.text), target).empty());
        ++support_instructions_found;
        continue;
      }
      CHECK(violations_of(parse_ptx_statement(statement.text).instruction, target).empty());
      ++instructions;
    }
    ++files;
  }
  CHECK(files == 8);
  CHECK(instructions >= 15);
  CHECK(support_instructions_found >= 30);
}

TEST_CASE("ids of scales may be registers where a statement is only read") {
  const std::string text =
      "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3 "
      "{%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f4, %f5, %f6, %f7}, {%r6}, {%rs1, %rs2}, {%r7}, "
      "{%rs1, "
      "3};";
  CHECK_THROWS_MATCHES(parse_statement(text), Error, refused(malformed, "byte-id-a"));
  const Statement statement = parse_ptx_statement(text);
  CHECK(std::get<MmaSync>(statement.instruction).thread_id_a == 0);
  CHECK(std::get<MmaSync>(statement.instruction).thread_id_b == 3);
  CHECK(print(statement) == text);
  CHECK_THROWS_MATCHES(
      parse_ptx_statement("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {a, b, c, d}, x, y, p, q, 1, 0, 0"), Error,
      refused(malformed, "imm-scale-a"));
}
