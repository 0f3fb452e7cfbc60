#include "analyses.hpp"

#include "bitmma/analysis/describe.hpp"
#include "bitmma/analysis/diagnose.hpp"
#include "bitmma/analysis/explain.hpp"
#include "bitmma/analysis/lint.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/hardware/ptx_kernel.hpp"
#include "bitmma/instruction/evidence.hpp"

namespace bitmma::fuzz {
namespace {

void ask(const Case& one, const Point& point) {
  accepts([&] { (void)to_json(lint(one)); });
  accepts([&] { (void)warnings_of(one); });
  accepts([&] {
    const Explanation explanation = explain(one, point.row, point.col);
    require(is_utf8(print(explanation)) && is_utf8(to_json(describe(explanation, one.target))),
            "an explanation is UTF-8");
  });
  accepts([&] { (void)recorded_d(one); });
  if (is_mma(one.instruction)) accepts([&] { (void)logical_of(one.instruction, operands_of(one)); });
  for (const Role role : {Role::a, Role::b, Role::d}) {
    accepts([&] {
      const PlaceMap map(one.instruction, one.target, one.before, role);
      (void)to_json(describe(map.place_of(0, 0)));
    });
  }
  accepts([&] {
    for (const SmemOperand& operand : smem_operands(one.instruction, one.target, one.before)) {
      (void)print_cute(operand.matrix);
      (void)end_byte(SmemMap(operand.matrix));
    }
  });
  if (point.diagnosed) {
    accepts([&] {
      const std::vector<Matrix> actual{one.has_recorded_d() ? recorded_d(one) : computed_d(one)};
      (void)diagnose(std::span(&one, 1), actual, {.max_cases = 1, .pairs = false});
    });
  }
}

void ask_kernel(const VectorFile& vectors, const Case& one) {
  accepts([&] {
    const std::vector<State> states{one.before};
    KernelShape shape = kernel_shape_of(states);
    shape.target = vectors.target;
    const Kernel kernel = ptx_kernel(one.instruction, shape);
    const auto inputs = launch_inputs(kernel, states);
    const std::vector<uint8_t> output(static_cast<std::size_t>(kernel.output.bytes_per_case));
    (void)launch_results(kernel, states, output);
  });
}

}  // namespace

Placement placement_of(uint8_t layout) {
  const OperandLayout one{.major = layout & 1 ? Major::mn : Major::k,
                          .swizzle = swizzles[layout / 2 % swizzles.size()].id};
  return {.a = one, .b = {.major = layout & 64 ? Major::mn : Major::k, .swizzle = one.swizzle}};
}

Point any_point(Bytes& in) {
  return {.row = number(in),
          .col = number(in),
          .case_index = between(in, 0, 3),
          .diagnosed = one_in(in, 32),
          .layout = in.ConsumeIntegral<uint8_t>()};
}

void analyse(const VectorFile& vectors, const Point& point) {
  require(vectors.cases > 0, "a file has cases");
  accepts([&] { (void)choices_of(vectors.instruction, vectors.target); });
  accepts([&] { (void)tensors_without_cases(vectors), (void)wants_logical_d(vectors); });
  VectorFile few = vectors;
  if (vectors.cases > 4) few = cases_of(vectors, vectors.cases - 4, 4);
  accepts([&] { (void)verify(few, 1); });
  accepts([&] { (void)compare(few, few); });
  accepts([&] {
    const TensorFile computed = with_simulated_d(few, placement_of(point.layout), 1);
    require(verify(as_vector_file(computed), 1).mismatches == 0, "what is simulated is verified");
  });
  Case one;
  if (!accepts([&] { one = case_at(few, std::min(point.case_index, few.cases)); })) return;
  ask(one, point);
  if (one.has_state()) ask_kernel(few, one);
  accepts([&] { (void)single_case_file(one, {}); });
}

}  // namespace bitmma::fuzz
