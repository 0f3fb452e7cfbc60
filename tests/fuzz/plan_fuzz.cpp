// Plans of whole products as JSON: what is read prints as what reads as the same, and adds up a small product or
// refuses it.
#include "bitmma/gemm/accuracy.hpp"
#include "bitmma/gemm/gemm.hpp"
#include "bitmma/gemm/plan.hpp"
#include "fuzz.hpp"

namespace bitmma::fuzz {
namespace {

Matrix values(Bytes& in, Format format, int rows, int cols) { return matrix(in, format, rows, cols); }

GemmInputs any_inputs(Bytes& in, const GemmPlan& plan) {
  const int m = between(in, 1, 4), n = between(in, 1, 4), k = between(in, 1, in.ConsumeBool() ? 40 : 600);
  Format a = Format::f32, b = Format::f32;
  const TensorCoreChain* const chain = plan.tensor_cores();
  if (chain && is_mma(chain->instruction)) a = mma_of(chain->instruction).a, b = mma_of(chain->instruction).b;
  if (one_in(in, 12)) a = any_format(in), b = any_format(in);
  GemmInputs inputs{.a = values(in, a, m, k), .b = values(in, b, k, n)};
  const auto side = [&] { return one_in(in, 8) ? any_format(in) : Format::f32; };
  if (in.ConsumeBool()) inputs.c = values(in, side(), m, n);
  if (in.ConsumeBool()) inputs.bias = values(in, side(), 1, n);
  if (one_in(in, 3)) {
    inputs.scale_a = values(in, side(), one_in(in, 2) ? m : 1, one_in(in, 2) ? (k + 127) / 128 : 1);
    inputs.scale_b = values(in, side(), one_in(in, 2) ? (k + 127) / 128 : 1, one_in(in, 2) ? n : 1);
  }
  if (one_in(in, 4)) {
    const int size = in.ConsumeBool() ? 32 : 16;
    const Format type = in.ConsumeBool() ? Format::ue8m0 : Format::ue4m3;
    inputs.sfa = values(in, type, m, (k + size - 1) / size), inputs.sfb = values(in, type, (k + size - 1) / size, n);
  }
  if (one_in(in, 6)) {
    for (int i = 0; i < m; ++i) inputs.rows.push_back(number<int64_t>(in));
    for (int i = 0; i < n; ++i) inputs.cols.push_back(number<int64_t>(in));
    inputs.whole_m = number<int64_t>(in), inputs.whole_n = number<int64_t>(in);
  }
  return inputs;
}

}  // namespace
}  // namespace bitmma::fuzz

void fuzz_one(bitmma::fuzz::Bytes& in) {
  using namespace bitmma;
  using namespace bitmma::fuzz;
  const int64_t k = in.ConsumeBool() ? between(in, 0, 5000) : number<int64_t>(in);
  const std::string json = in.ConsumeRandomLengthString(1500);
  GemmPlan plan;
  if (!accepts([&] { plan = parse_plan(json); })) return;
  const std::string printed = print_json(plan);
  require(is_utf8(printed) && is_utf8(print_plan(plan)), "a plan is UTF-8");
  const GemmPlan again = parse_plan(printed);
  require(print_json(again) == printed, "a plan prints as it was read");
  require(violations_of(plan).empty() == violations_of(again).empty(), "and is as legal");
  (void)multiplies(plan, any_format(in), any_format(in));
  accepts([&] {
    const auto slices = slices_of(plan.split_k, k);
    require(slices.size() <= 1u << 21, "slices are as many as somebody can have");
    int64_t last = 0;
    for (const auto& [first, end] : slices) {
      require(first >= last && end > first && end <= std::max<int64_t>(k, 0), "slices follow each other inside K");
      last = end;
    }
    require(k_added(plan, k) <= std::max<int64_t>(k, 0), "no more of K is added than there is");
  });
  const GemmInputs inputs = any_inputs(in, plan);
  Matrix d;
  if (!accepts([&] { d = gemm(plan, inputs); })) return;
  require(d.rows() == inputs.a.rows() && d.cols() == inputs.b.cols() && d.format() == plan.output,
          "D has its shape and type");
  require(gemm(plan, inputs, 2) == d, "two threads give the same bits");
  accepts([&] { (void)unread_by(plan, inputs); });
  accepts([&] { (void)accuracy_of(inputs, d); });
}
