#include "bitmma/instruction/sass.hpp"

#include <set>

#include "support/catch.hpp"

using namespace bitmma;

TEST_CASE("a listing of SASS: guards, encodings and brackets are passed over, shapes and types come from the names") {
  const auto listing = scan_sass(
      "code for sm_90a\narch = sm_90a\n"
      "        /*0000*/                   LDC R1, c[0x0][0x28] ;   /* 0x00000a00ff017b82 */\n"
      "                                                            /* 0x000fe20000000800 */\n"
      "        /*0a20*/              @!P0 HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24, gsb0 ;\n"
      "        /*0a30*/                   HGMMA.64x8x16.F16 R24, gdesc[UR4], R24 ;\n"
      "        /*0a40*/                   QGMMA.64x256x32.F32.E4M3.E5M2 R24, gdesc[UR4], R24 ;\n"
      "        /*0a50*/                   IMMA.16832.S8.U8 R4, R8.ROW, R12.COL, R4 ;\n"
      "        /*0a60*/                   HMMA.1688.F32.TF32 R4, R8, R12, R4 ;\n"
      "        /*0a70*/                 { LDSM.16.MT88.4 R4, [R2] ;\n"
      "        /*0a80*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R3], R4 ;\n"
      "        /*0a90*/                   UTCHMMA.2CTA gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR10], idesc[UR11], "
      "!UPT ;\n"
      "        /*0aa0*/                   HMMAX R4 ;\n");
  REQUIRE(listing);
  CHECK(listing->arch == "sm_90a");
  CHECK(listing->instructions == 10);
  REQUIRE(listing->matrix_instructions.size() == 8);
  const auto& instructions = listing->matrix_instructions;
  CHECK((instructions[0].line == 5 && instructions[0].shape == "m64n128k16" &&
         instructions[0].types == std::vector<std::string>{"F32", "BF16"}));
  CHECK((instructions[1].shape == "m64n8k16" && instructions[1].types == std::vector<std::string>{"F16", "F16"}));
  CHECK(instructions[2].types == std::vector<std::string>{"F32", "E4M3", "E5M2"});
  CHECK((instructions[3].shape == "m16n8k32" && instructions[3].info->ptx == "mma.sync"));
  CHECK(instructions[4].types == std::vector<std::string>{"F32", "TF32"});
  CHECK((instructions[5].info->ptx == "ldmatrix" && instructions[5].shape.empty()));
  CHECK(instructions[6].info->ptx == "mbarrier");
  CHECK((instructions[7].opcode == "UTCHMMA.2CTA" && instructions[7].info->name == "UTCHMMA"));
}

TEST_CASE("lines of SASS without addresses are a listing too") {
  const auto listing = scan_sass("  @P0 HMMA.16816.F32 R4, R8, R10, R4 ;\n  IADD3 R1, R1, 0x1, RZ ;\n");
  REQUIRE(listing);
  REQUIRE(listing->matrix_instructions.size() == 1);
  CHECK(listing->matrix_instructions[0].shape == "m16n8k16");
  CHECK(find_sass("HMMA.16816.F32")->ptx == "mma.sync");
  CHECK(find_sass("hmma") == nullptr);
}

TEST_CASE("what is no listing is none, and no name stands twice in the table") {
  CHECK_FALSE(scan_sass(""));
  CHECK_FALSE(scan_sass("wgmma.fence.sync.aligned; /* HGMMA */\n// /*0000*/ HGMMA.64x8x16.F32 R0 ;\n"));
  CHECK_FALSE(scan_sass("/*0000*/ lower case\n/*00*/ A\n/*zzzz*/ HGMMA\n"));
  CHECK(scan_sass("  /*0000*/ EXIT ;")->matrix_instructions.empty());
  std::set<std::string_view> names;
  for (const SassInfo& row : sass_instructions()) CHECK(names.insert(row.name).second);
}
