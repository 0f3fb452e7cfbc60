#include <nlohmann/json.hpp>

#include "run.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;
using test::f16, test::run, test::run_line;

namespace {

const test::BadRequests bad_requests({
    {"encode", missing_argument, "command of bitmma encode"},
    {"encode smem", not_found, "command of bitmma encode"},
    {"encode smem --help", not_found, "command of bitmma encode"},
    {"encode descriptor", missing_argument, "encode descriptor"},
    {"encode descriptor --swizzle none", missing_argument, "encode descriptor"},
    {"encode idesc --kind mxf4 --m 128 --n 8 --sparse --k 192", illegal_value, "sparsity_version"},
    {"encode idesc --kind mxf4nvf4 --m 128 --n 8 --scale-a-id 5", illegal_value, "scale_a_id"},
    {"encode idesc --kind f16 --m 128 --n 64 --scale-type ue4m3", no_effect, "--scale-type"},
    // What is the default is refused where it does nothing, as any other value is.
    {"encode idesc --kind f16 --m 128 --n 64 --scale-type ue8m0", no_effect, "--scale-type"},
    {"encode idesc --kind f16 --m 128 --n 64 --scale-a-id 0", no_effect, "--scale-a-id"},
    {"encode idesc --kind f16 --m 128 --n 64 --sparsity-selector 0", no_effect, "--sparsity-selector"},
    {"encode idesc --kind f16 --m 128 --n 64 --sparsity-selector 1", no_effect, "--sparsity-selector"},
    {"encode idesc --kind f16 --m 128 --n 64 --sparsity-version 0", no_effect, "--sparsity-version"},
    {"encode idesc --kind mxf4 --m 128 --n 64 --max-shift 0", no_effect, "--max-shift"},
    {"encode mask", missing_argument, "encode mask"},
    {"encode mask --json", missing_argument, "encode mask"},
    {"encode idesc --kind mxf4 --m 128 --n 64 --scale-type ue8m3", unknown_name, "--scale-type"},
    {"encode idesc --kind f16 --m 128 --n 64 --a bf61", unknown_name, "--a"},
    {"encode foo --n 8", not_found, "command of bitmma encode"},
    {"encode descriptor --start 0x40400 --lbo 16 --sbo 1024 --swizzle 128", address_beyond_field, "start_address"},
    {"encode descriptor --absolute", unsupported_target, "leading_dim_mode"},
    {"encode idesc --kind i8 --m 128 --n 64 --d s32 --a s8 --b s8 --arch sm_103a", unsupported_target,
     "--target, --arch"},
    {"encode idesc --kind f8f6f4 --m 128 --n 64 --k 64 --target sm_103a", unsupported_target, "--target, --arch"},
    {"encode idesc --kind mxf4nvf4 --m 128 --n 64 --k 128 --scale-type ue5m3 --target sm_110a", unsupported_target,
     "--target, --arch"},
    {"encode idesc --kind mxf4nvf4 --m 128 --n 64 --scale-type ue5m3 --target sm_103a", unsupported_target,
     "--target, --arch"},
    {"encode idesc --kind f16 --m 128 --n 64 --k 32", illegal_value, "--k"},
    {"encode idesc --kind mxf4 --m 128 --n 64 --sparse --k96", illegal_value, "--k96"},
    {"encode idesc --kind mxf4 --m 128 --n 64 --sparse --sparsity-version 1 --target sm_103a", unsupported_target,
     "--target, --arch"},
    {"encode idesc --kind mxf4 --m 128 --n 64 --a e2m1 --b e2m1 --k96 --target sm_100a", unsupported_target,
     "--target, --arch"},
    {"encode idesc --kind mxf4nvf4 --m 128 --n 64 --a e2m1 --b e2m1 --scale-type ue4m3 --scale-a-id 1", illegal_value,
     "scale_a_id"},
    {"encode idesc --kind mxf4nvf4 --m 128 --n 64 --a e2m1 --b e2m1 --scale-type ue4m3 --scale-b-id 2 --k 128",
     illegal_value, "scale_b_id"},
    {"encode descriptor --start 8", illegal_value, "start_address"},
    {"encode descriptor --lbo 262144", address_beyond_field, "leading_dim_byte_offset"},
    {"encode descriptor --base-offset 8", illegal_value, "base_offset"},
    {"encode descriptor --swizzle 256", unknown_name, "--swizzle"},
    {"encode descriptor --swizzle 128-atom32", unsupported_target, "swizzle"},
    {"encode instruction --n 8 --d f33", illegal_value, "--d"},
    {"encode instruction --n 8 --a s8", illegal_value, "types"},
    {"encode mask --use 256", illegal_value, "use_span"},
    {"encode idesc --kind f16 --m 128 --n 12", illegal_value, "n"},
    {"encode idesc --kind mxf4 --m 64 --n 8 --a e2m1 --b e2m1", illegal_value, "m"},
    {"encode idesc --kind f16 --m 128 --n 8 --d f99", unknown_name, "--d"},
    {"encode descriptor --target sm_120a", illegal_value, "--target, --arch"},
});

}  // namespace

TEST_CASE("encode refuses bad requests: message and exit code of each") { bad_requests.check(); }

TEST_CASE("encode puts descriptors, masks and mnemonics together, as text and as JSON") {
  CHECK(run_line("encode descriptor --target sm_90a --start 2048 --lbo 16 --sbo 1024 --swizzle 128").out ==
        "0x4000004000010080\n");
  CHECK(run_line("encode descriptor --target sm_103a --start 0x800 --lbo 16 --sbo 1024 --swizzle 128").out ==
        "0x4000404000010080\n");
  CHECK(nlohmann::json::parse(run_line("encode descriptor --lbo 16 --json").out)["descriptor"] == "0x0000000000010000");
  CHECK(nlohmann::json::parse(run_line("encode idesc --kind f16 --m 128 --n 64 --json").out)["idesc"] == "0x08100010");
  CHECK(nlohmann::json::parse(run_line("encode instruction --n 8 --json").out)["instruction"] == f16);
  CHECK(nlohmann::json::parse(run_line("encode mask --use 3 --skip 2 --json").out)["mask"] ==
        run_line("encode mask --use 3 --skip 2").out.substr(0, 18));
  // Types that nobody gave are those that the kind has.
  for (const char* kind : {"f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4"}) {
    INFO(kind);
    CHECK(run({"encode", "idesc", "--kind", kind, "--m", "128", "--n", "64"}).code == 0);
  }
  CHECK_THAT(run_line("encode descriptor --swizzle 128").violations, refused(missing_input, "--sbo"));
  CHECK(nlohmann::json::parse(run_line("encode descriptor --swizzle 128 --json").out)["warnings"].size() == 1);
}

TEST_CASE("encode takes real addresses by PTX's formula, and the absolute leading dimension of sm_103a") {
  const std::string rest = " --lbo 16 --sbo 1024 --swizzle 128";
  for (const char* start : {"0x40400", "0x400", "0x7f1200040400", "0x10000000400"})
    CHECK(run_line("encode descriptor --mask-address --start " + std::string(start) + rest).out ==
          "0x4000004000010040\n");
  CHECK_THAT(run_line("encode descriptor --mask-address --start 0x408" + rest).violations,
             refused(illegal_value, "--start"));
  const test::Outcome absolute =
      run_line("encode descriptor --arch sm_103a --start 96 --lbo 4096 --sbo 1024 --swizzle 128 --absolute");
  CHECK(absolute.out == "0x4010404001000006\n");
  CHECK(absolute.err.empty());
  CHECK_THAT(run_line("encode descriptor --arch sm_100a --sbo 1024 --swizzle 128 --absolute").violations,
             refused(illegal_value, "leading_dim_mode"));
  CHECK(run_line("encode idesc --kind i8 --m 128 --n 64 --d s32 --a s8 --b s8 --arch sm_100a").code == 0);
}

TEST_CASE("a number beyond its field is refused with what is legal") {
  const auto outcome = run({"encode", "idesc", "--kind", "f16", "--m", "2147483648", "--n", "8"});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.violations, refused(illegal_value, "--m"));
}
