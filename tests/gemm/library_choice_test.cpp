// Which kernel a library takes: the table of data/choices, calls without recordings, and the plans of the kernels.
#include "bitmma/gemm/library_choice.hpp"

#include "bitmma/core/error.hpp"
#include "bitmma/gemm/catalogue.hpp"
#include "random_matrix.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;

namespace {

Matrix drawn(Format format, int rows, int cols) {
  RandomStream random(static_cast<uint64_t>(rows), 0);
  return test::random_matrix(format, rows, cols, random);
}

LibraryCall call_with(int64_t m, int64_t n, int64_t k) { return {.gpu = "H100", .m = m, .n = n, .k = k}; }

const Violation& first_of(const Error& error) { return error.violations().front(); }

template <typename Call>
Violation refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return first_of(error);
  }
  FAIL("nothing was refused");
  return {};
}

}  // namespace

TEST_CASE("the library's choice for recorded shapes, by GPU, types, layout, bias and scales") {
  // Of data/products/recorded.tar.xz: h100/0480, whose recorded bits tell 2 or 3 slices.
  const LibraryChoice split = library_choice(call_with(8, 64, 4096));
  CHECK(split.exact);
  CHECK(split.slices == 3);
  CHECK_THAT(split.kernel, Catch::Matchers::StartsWith("nvjet_sm90_tst_*_splitK + cublasLt::splitKreduce_kernel<"));
  LibraryCall call = call_with(1024, 4096, 14336);
  CHECK(library_choice(call).kernel == "nvjet_sm90_tst_*");
  call.bias = true;
  CHECK(library_choice(call).kernel == "nvjet_sm90_tst_*_bias");
  CHECK(library_choice(call).kind == "bf16 bias");
  call.bias = false, call.d = Format::f32, call.gpu = "H200", call.library = "cublas-13.1";
  CHECK(library_choice(call).kernel == "nvjet_sm90_tss_*");
  LibraryCall fp8 = call_with(1024, 4096, 14336);
  fp8.a = fp8.b = Format::e4m3, fp8.scales = CallScales::rows;
  CHECK(library_choice(fp8).kernel == "nvjet_sm90_qqtst_*_algo2_ovscale");
  CHECK(library_choice(fp8).d == Format::bf16);
  fp8.fast_accumulation = true;
  CHECK(library_choice(fp8).kernel == "nvjet_sm90_qqtst_*_ovscale");
}

TEST_CASE("the library's choice for other shapes is an error, or that of the nearest recorded shape") {
  LibraryCall call = call_with(100, 4096, 4104);
  CHECK_THROWS_MATCHES(library_choice(call), Error, test::refused(ViolationCode::illegal_value, "m, n, k"));
  CHECK(refusal([&] { library_choice(call); }).seen == "100 x 4096 x 4104");
  call.nearest = true;
  const LibraryChoice near = library_choice(call);
  CHECK_FALSE(near.exact);
  CHECK(near.m == 100);
  CHECK(near.n == 4096);
  CHECK(near.k == 4096);
  call = call_with(20000, 4096, 4096);
  CHECK_THROWS_MATCHES(library_choice(call), Error, test::refused(ViolationCode::illegal_value, "m, n, k"));
  call.nearest = true;
  CHECK(library_choice(call).m == 16384);
  // With contiguous columns of A the last bits of M decide: only multiples of 8 were recorded.
  call = call_with(20, 4096, 4096), call.layout = "tn";
  CHECK(refusal([&] { library_choice(call); }).field == "m, n, k");
  call.m = 24;
  CHECK(library_choice(call).exact);
  call.m = 20, call.nearest = true;
  CHECK(library_choice(call).m == 16);
}

TEST_CASE("on the H200 all multiples of 64 are recorded; for the H100 they are predictions") {
  // Of the recording: the first and the last pair, and kernels that cuBLAS takes for few M.
  struct Row {
    Format type;
    bool allow_tf32, bias;
    int64_t m, n, k;
    std::string kernel;
    int slices;
  };
  for (const Row& row : {
           Row{Format::bf16, false, false, 1263, 64, 4160, "nvjet_sm90_tst_*_splitK + ", 3},
           Row{Format::bf16, false, false, 1300, 64, 4160, "nvjet_sm90_tst_*_splitK + ", 2},
           Row{Format::bf16, false, false, 16384, 16384, 16384, "nvjet_sm90_tst_*", 1},
           Row{Format::f16, false, true, 200, 1024, 6144, "nvjet_sm90_hsh_*_bias", 1},
           Row{Format::tf32, false, false, 1, 1088, 1024, "internal::gemvx::kernel<int, int, float, ", 1},
           Row{Format::tf32, true, true, 100, 7168, 14336,
               "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_*_execute_segment_k_off_", 1},
       }) {
    const LibraryChoice choice = library_choice({.gpu = "H200",
                                                 .a = row.type,
                                                 .b = row.type,
                                                 .allow_tf32 = row.allow_tf32,
                                                 .bias = row.bias,
                                                 .m = row.m,
                                                 .n = row.n,
                                                 .k = row.k});
    CAPTURE(row.m, row.n, row.k);
    CHECK(choice.exact);
    CHECK(choice.recorded_on == "H200");
    CHECK_THAT(choice.kernel, Catch::Matchers::StartsWith(row.kernel));
    CHECK(choice.slices == row.slices);
  }
  // The gradients of a linear layer: by its input in layout nn, by the weights in tn.
  const auto gradient = [](std::string layout, Format type, int64_t m, int64_t n, int64_t k) {
    return library_choice({.gpu = "H200", .a = type, .b = type, .layout = std::move(layout), .m = m, .n = n, .k = k});
  };
  CHECK(gradient("nn", Format::bf16, 5, 4096, 1792).kernel == "nvjet_sm90_tst_*");
  CHECK(gradient("tn", Format::f16, 64, 1024, 4096).slices == 3);
  CHECK(gradient("tn", Format::f16, 72, 1024, 4096).slices == 2);
  CHECK(gradient("tn", Format::f16, 104, 1024, 4096).slices == 3);
  CHECK(gradient("tn", Format::f16, 136, 1024, 4096).kernel == "nvjet_sm90_hsh_*");
  CHECK(gradient("tn", Format::f16, 136, 1024, 4096).exact);
  CHECK(refusal([&] { gradient("tn", Format::f16, 100, 1024, 4096); }).expected == "M of 8..16384, in steps of 8");
  LibraryCall of_h100{
      .gpu = "H100", .a = Format::f16, .b = Format::f16, .layout = "tn", .m = 136, .n = 1024, .k = 4096};
  CHECK(refusal([&] { library_choice(of_h100); }).field == "m, n, k");
  of_h100.nearest = true;
  CHECK(library_choice(of_h100).recorded_on == "H200");
  LibraryCall call{.gpu = "H200", .m = 1000, .n = 4160, .k = 6208};
  const LibraryChoice recorded = library_choice(call);
  CHECK(recorded.exact);
  call.gpu = "H100";
  CHECK(refusal([&] { library_choice(call); }).field == "m, n, k");
  call.nearest = true;
  const LibraryChoice predicted = library_choice(call);
  CHECK_FALSE(predicted.exact);
  CHECK(predicted.recorded_on == "H200");
  CHECK(predicted.kernel == recorded.kernel);
  CHECK(predicted.slices == recorded.slices);
  CHECK(predicted.drawn > 0);
  call.gpu = "H200", call.m = 16385, call.nearest = false;
  CHECK(refusal([&] { library_choice(call); }).field == "m, n, k");
  call.m = 1000, call.n = 4161;
  CHECK(refusal([&] { library_choice(call); }).field == "m, n, k");
}

TEST_CASE("calls of libraries, GPUs, types and layouts without recordings are refused by name") {
  const auto field_of = [](LibraryCall call) { return refusal([&] { library_choice(call); }).field; };
  LibraryCall call = call_with(16, 4096, 4096);
  call.library = "cublas 12.8";
  CHECK(field_of(call) == "library");
  call = call_with(16, 4096, 4096), call.gpu = "B200";
  CHECK(field_of(call) == "gpu");
  call.gpu = "sm_90a";
  CHECK_THAT(refusal([&] { library_choice(call); }).fix, Catch::Matchers::EndsWith("name the board"));
  call = call_with(16, 4096, 4096), call.gpu = "h200";
  CHECK(library_choice(call).gpu == "H200");
  call = call_with(16, 4096, 4096), call.layout = "tt", call.a = call.b = Format::f16;
  CHECK(field_of(call) == "layout");
  call = call_with(0, 4096, 4096);
  CHECK(field_of(call) == "m, n, k");
  for (const auto& change : std::initializer_list<void (*)(LibraryCall&)>{
           [](LibraryCall& library_call) { library_call.a = Format::f64, library_call.b = Format::f64; },
           [](LibraryCall& library_call) { library_call.b = Format::f16; },
           [](LibraryCall& library_call) { library_call.d = Format::f16; },
           [](LibraryCall& library_call) { library_call.d = Format::f32, library_call.bias = true; },
           [](LibraryCall& library_call) { library_call.scales = CallScales::tensor; },
           [](LibraryCall& library_call) { library_call.fast_accumulation = true; },
           [](LibraryCall& library_call) { library_call.a = library_call.b = Format::e4m3; },
       }) {
    call = call_with(16, 4096, 4096);
    change(call);
    CHECK(field_of(call) == "types");
  }
}

TEST_CASE("the plan of a library's choice has its slices, and a kernel without a plan is named") {
  const GemmInputs inputs{.a = drawn(Format::bf16, 8, 4096), .b = drawn(Format::bf16, 4096, 64)};
  LibraryCall call = call_of(inputs);
  CHECK(call == LibraryCall{.a = Format::bf16, .b = Format::bf16, .m = 8, .n = 64, .k = 4096});
  call.gpu = "H100";
  const GemmPlan plan = plan_of_choice(library_choice(call), inputs);
  CHECK(print_plan(plan) == "split-K 3 (nvjet, unit 64)");
  CHECK(plan.output == Format::bf16);
  const Violation unknown =
      refusal([&] { plan_of_choice({.kernel = "dot_kernel<float, 128>", .library = "cublas 13.1"}, inputs); });
  CHECK(unknown.code == ViolationCode::unknown_kernel);
  CHECK_THAT(unknown.seen, Catch::Matchers::StartsWith("dot_kernel<float, 128>"));
  GemmInputs with_c = inputs;
  with_c.c = drawn(Format::bf16, 8, 64);
  CHECK(refusal([&] { call_of(with_c); }).field == "c");
}

TEST_CASE("PyTorch converts neither a bias nor scales, so other types are refused") {
  GemmInputs inputs{.a = drawn(Format::f16, 8, 4096), .b = drawn(Format::f16, 4096, 64)};
  const LibraryChoice choice{.kernel = "nvjet_sm90_hsh_*", .d = Format::f16, .library = "cublas 13.1"};
  for (const Format bias : {Format::f32, Format::bf16}) {
    inputs.bias = drawn(bias, 1, 64);
    CHECK(refusal([&] { plan_of_choice(choice, inputs); }).field == "bias");
  }
  inputs.bias.reset();
  inputs.a = drawn(Format::e4m3, 8, 4096), inputs.b = drawn(Format::e4m3, 4096, 64);
  inputs.scale_a = drawn(Format::f16, 1, 1), inputs.scale_b = drawn(Format::f32, 1, 1);
  CHECK(refusal([&] { plan_of_choice(choice, inputs); }).field == "scale_a");
}

TEST_CASE("a star in a name of CUTLASS leaves the tile of K and the types readable") {
  const GemmInputs inputs{.a = drawn(Format::tf32, 8, 264), .b = drawn(Format::tf32, 264, 8)};
  const std::vector<GemmPlan> starred =
      plans_of_kernel("cutlass_80_tensorop_s1688gemm_*_16x*_tn", inputs, {}, {.split_count = 1});
  CHECK(starred ==
        plans_of_kernel("cutlass_80_tensorop_s1688gemm_128x128_16x5_tn_align4", inputs, {}, {.split_count = 1}));
}

TEST_CASE("the ranges of M have the choices of their first and last rows, and equal bits are equal plans") {
  for (const auto& [gpu, type, n, k] : {std::tuple("H100", Format::bf16, 4096, 4096),
                                        {"H200", Format::bf16, 4096, 14336},
                                        {"H200", Format::tf32, 64, 8192},
                                        {"H200", Format::f16, 1024, 1024}}) {
    LibraryCall call{.gpu = gpu, .a = type, .b = type, .n = n, .k = k};
    const std::vector<ChoiceRange> ranges = library_choices(call);
    REQUIRE_FALSE(ranges.empty());
    CHECK(ranges.front().first == 1);
    for (size_t i = 0; i < ranges.size(); ++i) {
      const ChoiceRange& range = ranges[i];
      if (i > 0) CHECK(range.first == ranges[i - 1].last + 1);
      for (const int64_t m : {range.first, range.last}) {
        call.m = m;
        CHECK(library_choice(call).kernel == range.choice.kernel);
        CHECK(library_choice(call).slices == range.choice.slices);
      }
      CHECK(range.bits.has_value() == range.why.empty());
    }
  }
  // cuBLAS cuts K in two for up to 16 rows, so that a row of a small batch has other bits.
  const std::vector<ChoiceRange> changing = library_choices({.gpu = "H100", .n = 4096, .k = 4096});
  REQUIRE(changing.size() == 2);
  CHECK(changing[0].last == 16);
  CHECK(changing[0].bits != changing[1].bits);
  CHECK(refusal([] { (void)library_choices({.gpu = "A100", .n = 4096, .k = 4096}); }).field == "gpu");
  CHECK(refusal([] { (void)library_choices({.gpu = "H200", .n = 4097, .k = 3}); }).field == "m, n, k");
}

TEST_CASE("the choice for a batch depends on the number of matrices, and other batches are refused") {
  // The products of attention with 100 positions and heads of 64: q k^T, and the weights by the values.
  LibraryCall scores{.gpu = "H200", .a = Format::bf16, .b = Format::bf16, .m = 100, .n = 100, .k = 64, .matrices = 8};
  const LibraryChoice few = library_choice(scores);
  CHECK(few.exact);
  CHECK(few.slices == 1);
  CHECK(few.recorded_on == "H200");
  CHECK_THAT(few.kernel, Catch::Matchers::StartsWith("cutlass_"));
  scores.m = scores.n = 104;
  CHECK(library_choice(scores).kernel == "nvjet_sm90_tst_*");
  LibraryCall gradient{.gpu = "H200", .a = Format::f16, .b = Format::f16, .layout = "tn", .m = 128, .n = 64, .k = 32};
  gradient.matrices = 3;
  CHECK(library_choice(gradient).d == Format::f16);
  for (const auto& [field, matrices, m, n, k] : {std::tuple("matrices, m, n, k", 0 - 1, 64, 64, 64),
                                                 {"matrices, m, n, k", 1025, 64, 64, 64},
                                                 {"matrices, m, n, k", 1000, 4096, 4096, 64},
                                                 {"matrices, m, n, k", 4, 100, 101, 64},
                                                 {"matrices, m, n, k", 4, 100, 100, 65}}) {
    LibraryCall call{.gpu = "H200", .m = m, .n = n, .k = k, .matrices = matrices};
    CHECK(refusal([&] { (void)library_choice(call); }).field == field);
  }
  LibraryCall other = scores;
  other.gpu = "H100";
  CHECK(refusal([&] { (void)library_choice(other); }).field == "matrices");
  other.gpu = "H200", other.bias = true;
  CHECK(refusal([&] { (void)library_choice(other); }).field == "matrices");
  other.bias = false, other.layout = "tt";
  CHECK(refusal([&] { (void)library_choice(other); }).field == "matrices");
  other.layout = "nt", other.gpu = "A100";
  CHECK(refusal([&] { (void)library_choice(other); }).field == "gpu");
}
