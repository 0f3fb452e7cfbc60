#include "bitmma/instruction/companion.hpp"

#include "bitmma/hardware/ptx_kernel.hpp"
#include "support/catch.hpp"
#include "support/ptxas.hpp"

using namespace bitmma;

TEST_CASE("the instructions around matrix instructions: every example reads as its row") {
  int examples = 0;
  for (const CompanionInfo& row : companions()) {
    INFO(row.name << " " << row.example);
    CHECK(find_companion(row.name) != nullptr);
    CHECK(row.least_operands <= row.most_operands);
    CHECK((row.does.size() > 10 && !row.targets.empty() && !row.source.empty()));
    if (row.example.empty()) continue;
    const Companion one = parse_companion(row.example);
    CHECK(one.info == &row);
    CHECK(meaning_of(one).find('{') == std::string::npos);
    CHECK(meaning_of(parse_companion(one.mnemonic)).find('{') == std::string::npos);
    ++examples;
  }
  CHECK(examples >= 16);
  CHECK(find_companion("tcgen05.mma.cta_group::1.kind::f16") == nullptr);
  CHECK(find_companion("wgmma.fenced") == nullptr);
  CHECK(find_companion("") == nullptr);
}

TEST_CASE("numbers of a statement are in what it means, and a guard is kept") {
  const auto meaning = [](std::string_view text) { return meaning_of(parse_companion(text)); };
  CHECK_THAT(meaning("wgmma.wait_group.sync.aligned 2;"), ContainsSubstring("no more than 2 groups"));
  CHECK_THAT(meaning("tcgen05.alloc.cta_group::2.sync.aligned.b32 [%r1], 0x80"), ContainsSubstring("0x80 columns"));
  CHECK_THAT(meaning("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"),
             ContainsSubstring("4 matrices of 8 x 8") && ContainsSubstring("transposed"));
  CHECK(parse_companion("@!%p7 tcgen05.wait::st.sync.aligned;").guard == "@!%p7");
  CHECK(violations_of(parse_companion("wgmma.fence.sync.aligned"), Target::sm_100a).front().expected == "sm_90a");
}

TEST_CASE("what is wrong with them is said by name") {
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"tcgen05.alloc.cta_group::1.sync.aligned.b32 [d], 48", "nCols = 48: legal is 32, 64, 128, 256 or 512"},
           {"tcgen05.alloc.exclusive.cta_group::1.sync.aligned.b32 [d], 48", "nCols = 48: legal is a multiple of 32"},
           {"tcgen05.alloc.cta_group::3.sync.aligned.b32 [d], 32", "qualifier = .cta_group::3"},
           {"tcgen05.alloc.sync.aligned.b32 [d], 32", "qualifier = (nothing): legal is .cta_group::1 or .cta_group::2"},
           {"tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1", "operands = 1: legal is 2: taddr, nCols"},
           {"wgmma.wait_group.sync.aligned -1", "N = -1: legal is 0 or more"},
           {"wgmma.wait_group.sync.aligned;", "operands = 0: legal is 1: N"},
           {"tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [m], 3",
            "operands = 2: legal is 1 without .multicast"},
           {"tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [m];",
            "operands = 1: legal is 2 with .multicast"},
           {"wgmma.fence.sync.aligned 0", "operands = 1: legal is none"},
           {"ldmatrix.sync.aligned.m8n8.x3.shared.b16 {a}, [p]", "qualifier = .x3"},
           {"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {a, [p]", "a partner of each brace"},
           {"@1 wgmma.fence.sync.aligned", "guard = @1"},
           {"wgmma.fence.sync.aligned; x", "text behind the semicolon = x"},
           {"add.s32 a, b, c", "instruction = add.s32"},
           {"", "instruction = (nothing)"},
       }) {
    INFO(text);
    CHECK_THROWS_WITH(parse_companion(text), ContainsSubstring(message));
  }
}

TEST_CASE("ptxas takes every example on the targets of its row and on no other") {
  if (!test::require_ptxas("the targets of the instructions around matrix instructions")) return;
  constexpr TargetSet judged{Target::sm_80,   Target::sm_90,   Target::sm_90a, Target::sm_100a,
                             Target::sm_103a, Target::sm_110a, Target::sm_120a};  // that ptxas 13.0 knows
  std::vector<test::PtxModule> modules;
  std::vector<bool> expected;
  for (const CompanionInfo& row : companions()) {
    if (row.example.empty()) continue;
    for (const TargetInfo& target : targets) {
      if (!judged.contains(target.id) || target.ptx > test::ptxas_isa()) continue;
      modules.push_back(
          {.text = fmt::format(".version {}.{}\n.target {}\n.address_size 64\n.visible .entry {}()\n"
                               "{{\n.reg .b32 r<8>;\n.reg .b64 rd<4>;\n{}\nret;\n}}\n",
                               test::ptxas_isa().major, test::ptxas_isa().minor, target.name, kernel_name, row.example),
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
