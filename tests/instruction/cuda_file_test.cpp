#include <string>
#include <vector>

#include "bitmma/instruction/ptx_file.hpp"
#include "support/catch.hpp"

using namespace bitmma;

namespace {

std::vector<PtxStatement> statements_of(std::string_view text) { return scan_ptx(asm_of_cuda(text).ptx).statements; }

}  // namespace

TEST_CASE("inline PTX is read with the lines of its source: pieces, escapes, raw strings, comments and macros") {
  const std::vector<PtxStatement> statements = statements_of(
      "// asm(\"wgmma.fence.sync.aligned;\")\n"
      "const char* s = \"asm(\\\"wgmma.fence.sync.aligned;\\\")\"; char c = '\"'; int n = 1'000;\n"
      "asm volatile(\n"
      "  \"{\\n\\t.reg .pred p;\\n\"   // a comment: \"x\"\n"
      "  \"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 \" /* another */\n"
      "  \"{%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;\\n}\\n\"\n"
      "  : \"+f\"(d[0]), \"l\"(f(\"wgmma.fence.sync.aligned;\")));\n"
      "__asm__ __volatile__ (R\"ptx(\n"
      "   mbarrier.init.shared::cta.b64 [%0], 1; // not \"this\"\n"
      "   tcgen05.wait::ld.sync.aligned;)ptx\" :: \"r\"(x));\n"
      "asm(\"wgmma.wait_group.sync.aligned \" DEPTH \";\" ::: \"memory\");\n"
      "asm(\"wgmma.commit_group.sync.aligned\");\n"
      "asm volatile (\"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%%r1];\\n\" \\\n"
      "  : \"=r\"(y) : : \"memory\"); myasm(\"wgmma.fence.sync.aligned;\");\n");
  const std::vector<PtxStatement> expected{
      {5, "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0"},
      {9, "mbarrier.init.shared::cta.b64 [%0], 1"},
      {10, "tcgen05.wait::ld.sync.aligned"},
      {11, "wgmma.wait_group.sync.aligned DEPTH"},
      {12, "wgmma.commit_group.sync.aligned"},
      {13, "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%r1]"}};
  REQUIRE(statements.size() == expected.size());
  for (size_t i = 0; i < statements.size(); ++i) {
    INFO(statements[i].text);
    CHECK(statements[i] == expected[i]);
  }
}

TEST_CASE("every piece of CUDA C++ is read without running past its end") {
  const std::string text =
      "asm volatile(\"wgmma.fence.sync.aligned;\\n\" R\"x(a)x\" /* c */ // d\n : \"r\"(1)); 'a' \"b\\\"\" R\"(c)\"";
  for (size_t end = 0; end <= text.size(); ++end) {
    for (size_t begin = 0; begin <= end; begin += 7) {
      const CudaAsm cuda_asm = asm_of_cuda(std::string_view(text).substr(begin, end - begin));
      CHECK(cuda_asm.statements <= 1);
      CHECK(cuda_asm.ptx.size() <= text.size());
    }
  }
  CHECK(asm_of_cuda("__global__ void k() {}").statements == 0);
  CHECK(asm_of_cuda("int asmx(int); asm goto;").statements == 0);
}
