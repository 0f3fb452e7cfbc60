#include <nlohmann/json.hpp>

#include "run.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using test::f16, test::run, test::run_line;

namespace {

const test::BadRequests bad_requests({
    {"encode", "command of bitmma encode: missing; expected descriptor, idesc, mask or instruction"},
    {"encode smem", "did you mean descriptor?"},
    {"encode smem --help", "smem: no such command of bitmma encode; did you mean descriptor?"},
    {"encode descriptor", "encode descriptor: no field is given; expected --start"},
    {"encode descriptor --swizzle none", "encode descriptor: no field is given"},
    {"encode idesc --kind mxf4 --m 128 --n 8 --sparse --k 192",
     "sparsity_version = 0: must be 1 with a sparse K = 192"},
    {"encode idesc --kind mxf4nvf4 --m 128 --n 8 --scale-a-id 5", "scale_a_id = 5: must be 0 or 2"},
    {"encode idesc --kind f16 --m 128 --n 64 --scale-type ue4m3", "--scale-type = ue4m3: must be absent"},
    // What is the default is refused where it does nothing, as any other value is.
    {"encode idesc --kind f16 --m 128 --n 64 --scale-type ue8m0", "--scale-type = ue8m0: must be absent"},
    {"encode idesc --kind f16 --m 128 --n 64 --scale-a-id 0", "--scale-a-id = 0: must be absent"},
    {"encode idesc --kind f16 --m 128 --n 64 --sparsity-selector 0", "--sparsity-selector = 0: must be absent"},
    {"encode idesc --kind f16 --m 128 --n 64 --sparsity-selector 1", "--sparsity-selector = 1: must be absent"},
    {"encode idesc --kind f16 --m 128 --n 64 --sparsity-version 0", "--sparsity-version = 0: must be absent"},
    {"encode idesc --kind mxf4 --m 128 --n 64 --max-shift 0", "--max-shift = 0: must be absent"},
    {"encode mask", "encode mask: no field is given; expected --use"},
    {"encode mask --json", "encode mask: no field is given"},
    {"encode idesc --kind mxf4 --m 128 --n 64 --scale-type ue8m3",
     "ue8m3: must be ue8m0, ue4m3 or ue5m3; did you mean ue8m0?"},
    {"encode idesc --kind f16 --m 128 --n 64 --a bf61", "did you mean bf16?"},
    {"encode foo --n 8",
     "foo: no such command of bitmma encode; bitmma encode --help shows examples (available: descriptor, idesc, mask, "
     "instruction)"},
    {"encode descriptor --start 0x40400 --lbo 16 --sbo 1024 --swizzle 128",
     "--mask-address encodes real addresses as (x & 0x3FFFF) >> 4"},
    {"encode descriptor --absolute", "leading_dim_mode = 1: must be 0 on sm_90a"},
    {"encode idesc --kind i8 --m 128 --n 64 --d s32 --a s8 --b s8 --arch sm_103a",
     "sm_103a: must be sm_100a or sm_101a or sm_110a"},
    {"encode idesc --kind f8f6f4 --m 128 --n 64 --k 64 --target sm_103a",
     "sm_103a: must be sm_107a or sm_107f; tcgen05.mma kind::f8f6f4 with K = 64 exists only there"},
    {"encode idesc --kind mxf4nvf4 --m 128 --n 64 --k 128 --scale-type ue5m3 --target sm_110a", "with K = 128"},
    {"encode idesc --kind mxf4nvf4 --m 128 --n 64 --scale-type ue5m3 --target sm_103a",
     "sm_103a: must be sm_107a or sm_107f; tcgen05.mma kind::mxf4nvf4 with scales of ue5m3 exists only there"},
    {"encode idesc --kind f16 --m 128 --n 64 --k 32", "--k = 32: must be 16"},
    {"encode idesc --kind mxf4 --m 128 --n 64 --sparse --k96", "--k96 = 96: must be 128 or 192"},
    {"encode idesc --kind mxf4 --m 128 --n 64 --sparse --sparsity-version 1 --target sm_103a", "sm_103a: must be"},
    {"encode idesc --kind mxf4 --m 128 --n 64 --a e2m1 --b e2m1 --k96 --target sm_100a", "kind::mxf4 with K = 96"},
    {"encode idesc --kind mxf4nvf4 --m 128 --n 64 --a e2m1 --b e2m1 --scale-type ue4m3 --scale-a-id 1",
     "scale_a_id = 1: must be 0 or 2 with K = 64"},
    {"encode idesc --kind mxf4nvf4 --m 128 --n 64 --a e2m1 --b e2m1 --scale-type ue4m3 --scale-b-id 2 --k 128",
     "scale_b_id = 2: must be 0 with K = 128"},
    {"encode descriptor --start 8", "start_address = 8"},
    {"encode descriptor --lbo 262144", "leading_dim_byte_offset = 262144"},
    {"encode descriptor --base-offset 8", "base_offset = 8"},
    {"encode descriptor --swizzle 256", "--swizzle = 256"},
    {"encode descriptor --swizzle 128-atom32", "exists only on sm_100a"},
    {"encode instruction --n 8 --d f33", "--d = f33"},
    {"encode instruction --n 8 --a s8", "types = .f32.s8.f16"},
    {"encode mask --use 256", "use_span = 256: must be 0..255"},
    {"encode idesc --kind f16 --m 128 --n 12", "n = 12: must be 8..256 in steps of 8"},
    {"encode idesc --kind mxf4 --m 64 --n 8 --a e2m1 --b e2m1", "m = 64: must be 128 or 256"},
    {"encode idesc --kind f16 --m 128 --n 8 --d f99", "--d = f99"},
    {"encode descriptor --target sm_120a", "no shared-memory descriptors"},
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
  CHECK_THAT(run_line("encode descriptor --swizzle 128").err, ContainsSubstring("--sbo = (missing)"));
  CHECK(nlohmann::json::parse(run_line("encode descriptor --swizzle 128 --json").out)["warnings"].size() == 1);
}

TEST_CASE("encode takes real addresses by PTX's formula, and the absolute leading dimension of sm_103a") {
  const std::string rest = " --lbo 16 --sbo 1024 --swizzle 128";
  for (const char* start : {"0x40400", "0x400", "0x7f1200040400", "0x10000000400"})
    CHECK(run_line("encode descriptor --mask-address --start " + std::string(start) + rest).out ==
          "0x4000004000010040\n");
  CHECK_THAT(run_line("encode descriptor --mask-address --start 0x408" + rest).err,
             ContainsSubstring("drops the lower 4"));
  const test::Outcome absolute =
      run_line("encode descriptor --arch sm_103a --start 96 --lbo 4096 --sbo 1024 --swizzle 128 --absolute");
  CHECK(absolute.out == "0x4010404001000006\n");
  CHECK(absolute.err.empty());
  CHECK_THAT(run_line("encode descriptor --arch sm_100a --sbo 1024 --swizzle 128 --absolute").err,
             ContainsSubstring("0 on sm_100a, which lacks the mode"));
  CHECK(run_line("encode idesc --kind i8 --m 128 --n 64 --d s32 --a s8 --b s8 --arch sm_100a").code == 0);
}

TEST_CASE("a number beyond its field is refused with what is legal") {
  const auto outcome = run({"encode", "idesc", "--kind", "f16", "--m", "2147483648", "--n", "8"});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("2147483648") && ContainsSubstring("64, 128 or 256"));
}
