#include "bitmma/instruction/support_instruction.hpp"

#include <fmt/format.h>

#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"
#include "support/ptxas.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

TEST_CASE("the instructions around matrix instructions: every example reads as its row") {
  int examples = 0;
  for (const SupportInstructionInfo& row : support_instructions()) {
    INFO(row.name << " " << row.example);
    CHECK(
        find_support_instruction(row.word.empty() ? std::string(row.name) : fmt::format("{}.{}", row.name, row.word)));
    CHECK(row.least_operands <= row.most_operands);
    CHECK((row.does.size() > 10 && !row.targets.empty() && !row.source.empty()));
    if (row.example.empty()) continue;
    const SupportInstruction instruction = parse_support_instruction(row.example);
    CHECK(instruction.info == &row);
    CHECK(meaning_of(instruction).find('{') == std::string::npos);
    CHECK(meaning_of(parse_support_instruction(instruction.mnemonic)).find('{') == std::string::npos);
    ++examples;
  }
  CHECK(examples >= 16);
  CHECK(find_support_instruction("tcgen05.mma.cta_group::1.kind::f16") == nullptr);
  CHECK(find_support_instruction("wgmma.fenced") == nullptr);
  CHECK(find_support_instruction("") == nullptr);
}

TEST_CASE("numbers of a statement are in what it means, and a guard is kept") {
  const auto meaning = [](std::string_view text) { return meaning_of(parse_support_instruction(text)); };
  CHECK_THAT(meaning("wgmma.wait_group.sync.aligned 2;"), ContainsSubstring("at most the 2 most recent groups"));
  CHECK_THAT(meaning("tcgen05.alloc.cta_group::2.sync.aligned.b32 [%r1], 0x80"), ContainsSubstring("0x80 columns"));
  CHECK_THAT(meaning("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"),
             ContainsSubstring("4 matrices of 8 x 8") && ContainsSubstring("transposed"));
  CHECK(parse_support_instruction("@!%p7 tcgen05.wait::st.sync.aligned;").guard == "@!%p7");
  CHECK(violations_of(parse_support_instruction("wgmma.fence.sync.aligned"), Target::sm_100a).front().expected ==
        "sm_90a");
}

TEST_CASE("what is wrong with them is said by name") {
  for (const auto& [text, refusal] : std::vector<std::pair<std::string, test::Refusal>>{
           {"tcgen05.alloc.cta_group::1.sync.aligned.b32 [d], 48", {illegal_value, "nCols"}},
           {"tcgen05.alloc.exclusive.cta_group::1.sync.aligned.b32 [d], 48", {illegal_value, "nCols"}},
           {"tcgen05.alloc.exclusive.cta_group::1.sync.aligned.b32 [d], 608", {illegal_value, "nCols"}},
           {"tcgen05.relinquish_alloc_permit.exclusive.cta_group::1.sync.aligned;", {malformed, "qualifier"}},
           {"tcgen05.commit.cta_group::1.mbarrier::arrive::one.multicast::cluster::64b.b64 [m], 3",
            {malformed, "qualifier"}},
           {"tcgen05.commit.cta_group::1.mbarrier::arrive::one.multicast::cluster::32b.b64 [m]",
            {illegal_value, "operands"}},
           {"tcgen05.ld.spcompress.sync.aligned.32x32b.x2.max.sp::2:4.f32.b2", {malformed, "qualifier"}},
           {"tcgen05.ld.spcompress.sync.aligned.32x32b.x4.max.NaN.sp::2:4.f32.b2", {malformed, "qualifier"}},
           {"spcompress.sp::2:4.x1.b32.b2", {malformed, "qualifier"}},
           {"spdecompress.sp::8:16.x1.b8.b4", {malformed, "qualifier"}},
           {"tcgen05.mma.ws.cta_group::1.kind::f8f6f4.decompress::lut::b", {malformed, "qualifier"}},
           {"tcgen05.mma.sp.cta_group::1.kind::f8f6f4.decompress::lut::b", {malformed, "qualifier"}},
           {"tcgen05.mma.cta_group::1.kind::f16.decompress::lut::b", {malformed, "qualifier"}},
           {"tcgen05.mma.cta_group::1.kind::f8f6f4.decompress::lut::b.ashift", {malformed, "qualifier"}},
           {"tcgen05.mma.cta_group::1.kind::f8f6f4.decompress::lut::b [d], a, b, i, 1", {illegal_value, "operands"}},
           {"tcgen05.alloc.cta_group::3.sync.aligned.b32 [d], 32", {malformed, "qualifier"}},
           {"tcgen05.alloc.sync.aligned.b32 [d], 32", {malformed, "qualifier"}},
           {"tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1", {illegal_value, "operands"}},
           {"wgmma.wait_group.sync.aligned -1", {illegal_value, "N"}},
           {"wgmma.wait_group.sync.aligned;", {illegal_value, "operands"}},
           {"tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [m], 3",
            {illegal_value, "operands"}},
           {"tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [m];",
            {illegal_value, "operands"}},
           {"wgmma.fence.sync.aligned 0", {illegal_value, "operands"}},
           {"ldmatrix.sync.aligned.m8n8.x3.shared.b16 {a}, [p]", {malformed, "qualifier"}},
           {"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {a, [p]", {malformed, "operands"}},
           {"@1 wgmma.fence.sync.aligned", {malformed, "guard"}},
           {"wgmma.fence.sync.aligned; x", {malformed, "text after the semicolon"}},
           {"add.s32 a, b, c", {unknown_name, "instruction"}},
           {"", {unknown_name, "instruction"}},
       }) {
    INFO(text);
    CHECK_THROWS_MATCHES(parse_support_instruction(text), Error, refused(refusal));
  }
}

TEST_CASE("what came with PTX 9.4 says so, where it exists, and that nothing executes it") {
  const auto fields = [](std::string_view text, Target target) {
    std::string names;
    for (const Violation& violation : violations_of(parse_support_instruction(text), target))
      names += violation.field + " ";
    return names;
  };
  const std::string alloc = "tcgen05.alloc.exclusive.cta_group::1.sync.aligned.b32 [d], ";
  CHECK(fields(alloc + "512", Target::sm_100a).empty());
  CHECK(fields(alloc + "576", Target::sm_100a) == "nCols ");
  CHECK(fields(alloc + "544", Target::sm_110f) == "nCols ");
  CHECK(fields(alloc + "576", Target::sm_107f).empty());
  CHECK(fields(alloc + "%r1", Target::sm_100a).empty());
  CHECK(fields(alloc + "96", Target::sm_90a) == "target ");
  const std::string commit = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.";
  CHECK(fields(commit + "multicast::cluster::16b.b64", Target::sm_103a).empty());
  CHECK(fields(commit + "multicast::cluster::32b.b64", Target::sm_103a) == "target ");
  CHECK(fields(commit + "sync_restrict::shared::read::mma::a.b64", Target::sm_100a) == "target ");
  CHECK(fields(commit + "sync_restrict::shared::read::mma::a.b64", Target::sm_107f).empty());
  int of_9_4 = 0;
  for (const SupportInstructionInfo& row : support_instructions()) of_9_4 += row.ptx == PtxVersion{9, 4};
  CHECK(of_9_4 == 11);
  for (const char* name : {"tcgen05.ld.spcompress", "tcgen05.ld.red.spcompress", "spcompress", "spdecompress"}) {
    INFO(name);
    const SupportInstructionInfo* row = find_support_instruction(name);
    REQUIRE(row);
    CHECK(row->targets == TargetSet{Target::sm_107a});
    CHECK_THAT(std::string(row->does), ContainsSubstring("bitmma does not execute it"));
    CHECK_THROWS_MATCHES(parse_instruction(row->example.substr(0, row->example.find(' '))), Error,
                         refused(wrong_instruction, "instruction"));
  }
}

TEST_CASE("a tcgen05.mma that unpacks B by tables is read, with collectors and sizes in any order, and not executed") {
  const std::string kind = "tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale",
                    operands = " [d], [a], b, [t], i, [x], [y], p;";
  for (const char* rest :
       {".decompress::lut::b", ".block32.decompress::lut::b", ".collector::b::use.decompress::lut::b.block32",
        ".decompress::lut::b.collector::a::lastuse.collector::b::fill"}) {
    INFO(rest);
    const SupportInstruction instruction = parse_support_instruction(kind + rest + operands);
    CHECK(instruction.info->targets == TargetSet{Target::sm_107a, Target::sm_107f});
    CHECK_THAT(meaning_of(instruction), ContainsSubstring("an index of 3 bits"));
  }
  CHECK(parse_support_instruction(kind + ".scale_vec::1X.decompress::lut::b" + operands).info->targets ==
        TargetSet{Target::sm_107a});
  CHECK_THROWS_MATCHES(parse_instruction("tcgen05.mma.cta_group::1.kind::f8f6f4.decompress::lut::b"), Error,
                       refused(wrong_instruction, "instruction"));
  CHECK_NOTHROW(parse_instruction("tcgen05.mma.cta_group::1.kind::f8f6f4"));
}

TEST_CASE("ptxas takes every example on the targets of its row and on no other", "[long]") {
  if (!test::require_ptxas("the targets of the instructions around matrix instructions")) return;
  constexpr TargetSet judged{Target::sm_80,   Target::sm_90,   Target::sm_90a,  Target::sm_100a, Target::sm_103a,
                             Target::sm_107a, Target::sm_107f, Target::sm_110a, Target::sm_120a};
  std::vector<test::PtxModule> modules;
  std::vector<bool> expected;
  for (const SupportInstructionInfo& row : support_instructions()) {
    if (row.example.empty()) continue;
    for (const TargetInfo& target : targets) {
      if (row.ptx > test::ptxas_isa()) continue;
      if (!judged.contains(target.id) || target.ptx > test::ptxas_isa()) continue;
      modules.push_back(
          {.text = fmt::format(
               ".version {}.{}\n.target {}\n.address_size 64\n.visible .entry {}()\n"
               "{{\n.reg .b16 rs<2>;\n.reg .b32 r<8>;\n.reg .b64 rd<4>;\n.reg .pred p<2>;\n{}\nret;\n}}\n",
               test::ptxas_isa().major, test::ptxas_isa().minor, target.name, test::entry_name, row.example),
           .target = target.id});
      expected.push_back(row.targets.contains(target.id));
    }
  }
  const std::vector<char> taken = test::ptxas_takes(modules);
  for (size_t i = 0; i < modules.size(); ++i) {
    INFO(modules[i].text);
    CHECK((taken[i] != 0) == expected[i]);
  }
}
