#include "bitmma/gemm/plan.hpp"

#include <limits>

#include "bitmma/gemm/gemm.hpp"
#include "support/catch.hpp"
#include "support/documents.hpp"
#include "support/instructions.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;
using test::refusal_of;

namespace {

const std::string w = R"("instruction": "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16")";
const std::string fp8 = R"("instruction": "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3")";
const std::string tf32 = R"("instruction": "wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32")";

using Slices = std::vector<std::pair<int64_t, int64_t>>;

}  // namespace

TEST_CASE("plans of libraries read, print and read back as themselves") {
  for (const std::string& text : {
           "{" + w + "}",
           "{" + w + R"(, "name": "x", "output": {"type": "bf16"}, "evidence": {"split_k": "H100"}})",
           "{" + fp8 + R"(, "promotion": {"every": 128}, "output": {"type": "bf16"}})",
           "{" + fp8 + R"(, "promotion": {"every": 128, "scale": "mul_fma"}})",
           "{" + fp8 + R"(, "k_tile": 128, "promotion": {"every": 64, "restart_at_tile": true}})",
           "{" + w + R"(, "split_k": {"count": 9, "unit": 64, "rule": "nvjet"}})",
           "{" + w + R"(, "k_step": 8, "k_tile": 64, "residue": "first", "sliced_k": 2})",
           "{" + w + R"(, "k_tile": 64, "residue": "first", "split_k": {"count": 6, "unit": 8},
                       "reduction": {"running": "out", "partial": "out", "start": "zero", "ftz": true}})",
           "{" + tf32 + R"(, "input_rounding": "tf32_rna", "reduction": {"order": "pairs"}})",
           "{" + w + R"(, "tile_mn": [128, 64], "raster": "n", "regions": [
                       {"tiles": [0, 3], "split_k": {"cuts": [0, 64, 512]}, "reduction": {"ftz": true}}]})",
           "{" + w + R"(, "start": "c", "epilogue": [{"op": "alpha_beta", "alpha": 0.5, "beta": 2}, {"op": "bias"},
                       {"op": "relu"}], "output": {"type": "e4m3", "saturate": false}})",
           std::string(R"({"target": "sm_100a", "instruction": "tcgen05.mma.cta_group::1.kind::f8f6f4",
                           "types": {"a": "e2m1", "b": "e5m2", "d": "f16"}, "output": {"type": "f16"}})"),
           std::string(R"({"target": "sm_103a", "types": {"k": 96, "scale": "ue4m3"},
                           "instruction": "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X"})"),
           std::string(R"({"target": "sm_80", "instruction": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"})"),
       }) {
    INFO(text);
    const GemmPlan plan = parse_plan(text);
    CHECK(parse_plan(print_json(plan)) == plan);
    CHECK_FALSE(print_plan(plan).empty());
  }
  CHECK(print_plan(parse_plan("{" + w + "}")) == "flat");
  // The mnemonic of a tcgen05.mma does not say its types: JSON does.
  for (const auto& [a, b] : {std::pair(Format::bf16, Format::bf16), std::pair(Format::e5m2, Format::e4m3),
                             std::pair(Format::tf32, Format::tf32), std::pair(Format::e4m3, Format::e4m3)}) {
    GemmPlan plan = flat_plan(Target::sm_100a, a, b, Format::f32);
    const GemmPlan again = parse_plan(print_json(plan));
    CHECK(mma_of(again.tensor().instruction) == mma_of(plan.tensor().instruction));
  }
  CHECK(print_plan(parse_plan("{" + w + R"(, "split_k": {"count": 3, "unit": 64, "rule": "nvjet"}})")) ==
        "split-K 3 (nvjet, unit 64)");
}

TEST_CASE("what is wrong with a plan is said by its field") {
  const struct {
    std::string text;
    test::Refusal refusal;
  } table[]{
      {"", {illegal_value, "plan: JSON"}},
      {"[1]", {illegal_value, "plan"}},
      {"{}", {illegal_value, "plan: instruction"}},
      {R"({"instruction": 5})", {illegal_value, "plan: instruction"}},
      {R"({"instruction": "wgmma.x"})", {malformed, "instruction"}},
      {R"({"instruction": "tcgen05.ld.sync.aligned.32x32b.x1.b32"})", {illegal_value, "plan: instruction"}},
      {"{" + w + R"(, "spllit_k": 3})", {illegal_value, "plan: spllit_k"}},
      {"{" + w + R"(, "types": {"a": "f16"}})", {no_effect, "plan: types"}},
      {R"({"instruction": "tcgen05.mma.cta_group::1.kind::f16", "types": {"a": "f17"}})",
       {illegal_value, "plan: types.a"}},
      {R"({"instruction": "tcgen05.mma.cta_group::1.kind::f16", "types": {"c": "f16"}})",
       {illegal_value, "plan: types.c"}},
      {"{" + w + R"(, "k_step": 0})", {illegal_value, "plan: k_step"}},
      {"{" + w + R"(, "k_step": 17})", {illegal_value, "plan: k_step"}},
      {"{" + w + R"(, "k_step": 1e9})", {illegal_value, "plan: k_step"}},
      {"{" + w + R"(, "residue": "first"})", {illegal_value, "plan: k_tile"}},
      {"{" + w + R"(, "residue": "middle"})", {illegal_value, "plan: residue"}},
      {"{" + w + R"(, "promotion": {"evry": 3}})", {illegal_value, "plan: promotion.evry"}},
      {"{" + w + R"(, "promotion": 128})", {illegal_value, "plan: promotion"}},
      {"{" + w + R"(, "split_k": {"count": 0}})", {illegal_value, "plan: split_k.count"}},
      {"{" + w + R"(, "split_k": {"count": 99999999999999999999}})", {illegal_value, "plan: split_k.count"}},
      {"{" + w + R"(, "split_k": {"cuts": [0, 8, 4]}})", {illegal_value, "plan: split_k.cuts"}},
      {"{" + w + R"(, "split_k": {"cuts": "all"}})", {illegal_value, "plan: split_k.cuts"}},
      {"{" + w + R"(, "epilogue": [{"op": "gelu"}]})", {illegal_value, "plan: epilogue[0].op"}},
      {"{" + w + R"(, "epilogue": [{"op": "square"}]})", {illegal_value, "plan: epilogue[0].op"}},
      {"{" + w + R"(, "epilogue": [{}]})", {missing_input, "plan: epilogue[0].op"}},
      {"{" + w + R"(, "input_rounding": "tf32_rne"})", {illegal_value, "plan: input_rounding"}},
      {"{" + w + R"(, "output": {"type": "s32"}})", {illegal_value, "plan: output"}},
      {"{" + w + R"(, "output": {"type": "float"}})", {illegal_value, "plan: output.type"}},
      {"{" + w + R"(, "regions": [{"split_k": {"count": 2}}]})", {missing_input, "plan: regions[0].tiles"}},
      {"{" + w + R"(, "target": "sm_80"})", {unsupported_target, "target"}},
      {"{" + w + R"(, "start": "d"})", {illegal_value, "plan: start"}},
      {"{" + fp8 + R"(, "start": "c", "promotion": {"every": 128}})", {illegal_value, "plan: start"}},
      {R"({"instruction": "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", "output": {"type": "f64"},
           "promotion": {"every": 128}})",
       {illegal_value, "plan: output"}},
      {R"({"instruction": "fma.rn.f32", "k_step": 8})", {illegal_value, "plan: k_step"}},
      {"{" + w + R"(, "tile_mn": [64, 64]})", {illegal_value, "plan: tile_mn"}},
      {"{" + w + R"(, "split_k": {"cuts": [0, 64], "rule": "nvjet"}})", {illegal_value, "plan: split_k.rule"}},
      {"{" + w + R"(, "epilogue": [{"op": "relu", "beta": 1}]})", {illegal_value, "plan: epilogue[0].beta"}},
      {"{" + w + R"(, "evidence": {"split_k": 3}})", {illegal_value, "plan: evidence.split_k"}},
      {"{" + w + R"(, "evidence": {"split_k": {"level": "sure"}}})", {illegal_value, "plan: evidence.split_k.level"}},
      {R"({"instruction": "fma.rn.f32", "lanes": {"count": 12, "join": "butterfly"}})",
       {illegal_value, "plan: lanes.count"}},
      {"{" + w + R"(, "lanes": {"count": 2}})", {illegal_value, "plan: lanes"}},
      {"{" + w + R"(, "output": {"type": "bf16", "rounding": "up"}})", {illegal_value, "plan: output.rounding"}},
      {"{" + fp8 + R"(, "promotion": {"sb": [64, 128]}})", {illegal_value, "plan: promotion.sb"}},
      {"{" + w + R"(, "reduction": {"serial": true, "order": "pairs"}})", {illegal_value, "plan: reduction.serial"}},
      {R"({"instruction": "wgmma.mma_async.sp.sync.aligned.m64n256k32.f32.bf16.bf16"})",
       {illegal_value, "plan: instruction"}},
  };
  for (const auto& [text, refusal] : table) {
    INFO(text);
    const std::string json = text;
    CHECK_THAT(refusal_of([&] { parse_plan(json); }), refused(refusal));
  }
}

TEST_CASE("values of a plan made in C++ are held to the ranges of their fields") {
  const auto field_of = [](const auto& change) {
    GemmPlan plan = flat_plan(Target::sm_90a, Format::bf16, Format::bf16, Format::f32);
    change(plan);
    const std::vector<Violation> violations = violations_of(plan);
    return violations.size() == 1 ? violations.front().field : std::to_string(violations.size());
  };
  CHECK(field_of([](GemmPlan&) {}) == "0");
  CHECK(field_of([](GemmPlan& plan) { plan.tensor().sliced_k = 0; }) == "plan: sliced_k");
  CHECK(field_of([](GemmPlan& plan) { plan.tensor().promotion = {.every = -1}; }) == "plan: promotion.every");
  CHECK(field_of([](GemmPlan& plan) { plan.regions = {{.split_k = {.unit = 0}}}; }) == "plan: regions[0].split_k.unit");
  CHECK(field_of([](GemmPlan& plan) { plan.rounding = Rounding::toward_positive; }) == "plan: output.rounding");
  CHECK(field_of([](GemmPlan& plan) { plan.chain = CudaCoreChain{.count = 0}; }) == "plan: lanes.count");
}

TEST_CASE("evidence has a level, which holds on the GPU where it was seen") {
  const FieldEvidence measured{.level = EvidenceLevel::measured, .seen_on = Target::sm_90a, .gpus = "H100, H200"};
  CHECK(level_on(measured, Target::sm_90) == EvidenceLevel::measured);
  CHECK(level_on(measured, Target::sm_80) == EvidenceLevel::model_choice);
  CHECK(print(measured, Target::sm_90a) == "measured: H100, H200");
  CHECK(print(measured, Target::sm_80) == "model choice on sm_80; on sm_90a measured: H100, H200");
  FieldEvidence by_name = measured;
  by_name.only_by_this_name = true, by_name.note = "2 calls";
  CHECK(level_on(by_name, Target::sm_90) == EvidenceLevel::model_choice);
  GemmPlan plan = flat_plan(Target::sm_90a, Format::bf16, Format::bf16, Format::f32);
  for (const Target target : {Target::sm_90a, Target::sm_90, Target::sm_100a}) {
    plan.target = target;
    plan.chain = CudaCoreChain{};
    plan.evidence = {{"a", measured},
                     {"b", by_name},
                     {"c", {.note = "K above 256 was not measured"}},
                     {"d", {.level = EvidenceLevel::stated, .note = "measured: by me"}}};
    CHECK(parse_plan(print_json(plan)) == plan);
  }
  // A text in a plan is repeated, and no word in it makes it a measurement.
  const GemmPlan read = parse_plan("{" + w + R"(, "evidence": {"split_k": "measured: H100"}})");
  CHECK(read.evidence.at("split_k").level == EvidenceLevel::stated);
  CHECK(print(read.evidence.at("split_k"), read.target) == "measured: H100");
}

TEST_CASE("the site's table of the fields of a plan has every field", "[unsanitized]") {
  std::string table = "| field | values | default | meaning | evidence |\n|---|---|---|---|---|\n";
  for (const PlanFieldInfo& field : plan_fields())
    table += "| `" + field.name + "` | " + field.values + " | " + field.by_default + " | " + field.meaning + " | " +
             (field.evidence.empty() ? "-" : field.evidence) + " |\n";
  test::check_table("plan_fields", table);
}

TEST_CASE("a plan with a key twice is refused: one of the two values would be ignored") {
  for (const auto& [text, key] :
       {std::pair(R"({"split_k": {"count": 2}, )" + fp8 + R"(, "split_k": {"count": 3}})", "plan: split_k"),
        {"{" + fp8 + R"(, "promotion": {"every": 128, "every": 64}})", "plan: every"},
        {"{" + fp8 + R"(, "evidence": {"k": "a", "\u006b": "b"}})", "plan: k"}}) {
    try {
      parse_plan(text);
      FAIL(text);
    } catch (const Error& error) {
      CHECK(error.violations().front().field == key);
    }
  }
  CHECK(parse_plan("{" + fp8 + R"(, "promotion": {"every": 128}, "split_k": {"count": 2}})").split_k.count == 2);
}

TEST_CASE("a plan that nests deeper than any stack is refused") {
  const std::string deep(200'000, '['), text = "{" + w + ", \"more\": " + deep + std::string(deep.size(), ']') + "}";
  CHECK_THROWS_AS(parse_plan(text), Error);
}

TEST_CASE("the rules cut K as libraries do, and say what they lose") {
  const auto slices = [](int count, int unit, SplitRule rule, int64_t k) {
    return slices_of({.count = count, .unit = unit, .rule = rule}, k);
  };
  CHECK(slices(1, 64, SplitRule::ceil, 100) == Slices{{0, 100}});
  CHECK(slices(3, 64, SplitRule::nvjet, 4096) == Slices{{0, 1408}, {1408, 2816}, {2816, 4096}});
  CHECK(slices(6, 8, SplitRule::ceil, 1000) ==
        Slices{{0, 168}, {168, 336}, {336, 504}, {504, 672}, {672, 840}, {840, 1000}});
  CHECK(slices(3, 64, SplitRule::floor, 1000) == Slices{{0, 320}, {320, 640}, {640, 1000}});
  CHECK(slices(8, 64, SplitRule::floor, 100) == Slices{{0, 100}});
  CHECK(slices(3, 64, SplitRule::big_first, 1000) == Slices{{0, 384}, {384, 704}, {704, 1000}});
  CHECK(slices(64, 64, SplitRule::ceil, 128).size() == 2);
  CHECK(slices(1 << 30, 1, SplitRule::ceil, 8).size() == 8);
  CHECK(slices(std::numeric_limits<int>::max(), 1, SplitRule::big_last, 3) == Slices{{0, 1}, {1, 2}, {2, 3}});
  for (const int64_t k : {int64_t{-1}, int64_t{1} << 31, std::numeric_limits<int64_t>::max()}) {
    CHECK_THROWS_MATCHES(slices(1, 64, SplitRule::ceil, k), Error, refused(illegal_value, "K"));
  }
  CHECK_THROWS_MATCHES(slices(0, 64, SplitRule::floor, 8), Error, refused(illegal_value, "split_k"));
  CHECK_THROWS_MATCHES(slices(1, 0, SplitRule::nvjet, 8), Error, refused(illegal_value, "split_k"));
  CHECK(slices(1 << 30, 64, SplitRule::floor, 8) == Slices{{0, 8}});
  CHECK(slices_of({.cuts = {0, 5, 5, 9, 100}}, 20) == Slices{{0, 5}, {5, 9}, {9, 20}});
  // The last 8 of 11528 are lost in nine slices and not in five.
  GemmPlan plan = parse_plan("{" + w + R"(, "split_k": {"count": 9, "unit": 64, "rule": "nvjet"}})");
  CHECK(k_added(plan, 11528) == 11520);
  plan.split_k.count = 5;
  CHECK(k_added(plan, 11528) == 11528);
  // nvjet is ceil but for 0 < K mod (unit * count) < count.
  for (int64_t k = 1; k < 3000; k += 7) {
    for (int s = 2; s < 12; ++s) {
      const int64_t rest = k % (64 * s);
      CHECK((slices(s, 64, SplitRule::nvjet, k) == slices(s, 64, SplitRule::ceil, k)) == !(rest > 0 && rest < s));
    }
  }
}
