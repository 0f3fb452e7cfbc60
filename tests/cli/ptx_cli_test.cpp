#include "run.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using test::f16, test::one_golden, test::run;

namespace {

const test::BadRequests bad_requests({
    {"ptx nosuch.st", not_found, "file"},
    {"ptx $FOLDER", unusable_file, "$FOLDER/."},
    {"ptx tcgen05.mma.cta_group::1.kind::f16.ashift.collector::a::use", illegal_value, "instruction"},
    {"ptx wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 --target sm_100a", unsupported_target, "target"},
    {"ptx wgmma.mma_async.sync.aligned.m64n9k16.f32.f16.f16", illegal_value, "n"},
    {"ptx tcgen05.mma.cta_group::1.kind::i8 --target sm_103a", unsupported_target, "target"},
});

}  // namespace

TEST_CASE("ptx refuses bad requests: message and exit code of each") { bad_requests.check(); }

TEST_CASE("ptx prints a kernel for the target asked for, of a file and of a mnemonic of each family") {
  const test::TemporaryFolder folder;
  const std::string kernel = folder.path("case.ptx"), ldst = folder.path("ld.safetensors");
  REQUIRE(run({"ptx", one_golden, "-o", kernel}).code == 0);
  CHECK_THAT(test::read_text(kernel), ContainsSubstring(".target sm_90a"));
  CHECK_THAT(run({"ptx", f16}).out, ContainsSubstring(".target sm_90a"));
  const std::string mma = "tcgen05.mma.cta_group::2.kind::f16";
  CHECK_THAT(run({"ptx", mma, "--image-bytes", "65536", "--columns", "256"}).out, ContainsSubstring(".target sm_100a"));
  CHECK_THAT(run({"ptx", mma, "--target", "sm_103a"}).out, ContainsSubstring(".target sm_103a"));
  // Its A must be in Tensor Memory, which the mnemonic does not say.
  CHECK(run({"ptx", mma + ".ashift"}).code == 0);
  REQUIRE(run({"golden", "tcgen05.ld.sync.aligned.16x64b.x4.b32", "--cases", "1", "-o", ldst}).code == 0);
  CHECK_THAT(run({"ptx", ldst}).out, ContainsSubstring("tcgen05.ld.sync.aligned.16x64b.x4.b32"));
  CHECK_THAT(run({"ptx", "tcgen05.shift.cta_group::1.down"}).out, ContainsSubstring("tcgen05.shift"));
}
