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

void ask(const Case& this_case, const Point& point) {
  accepts([&] { (void)to_json(lint(this_case)); });
  accepts([&] { (void)warnings_of(this_case); });
  accepts([&] {
    const Explanation explanation = explain(this_case, point.row, point.col);
    require(is_utf8(print(explanation)) && is_utf8(to_json(describe(explanation, this_case.target))),
            "an explanation is UTF-8");
  });
  accepts([&] { (void)recorded_d(this_case); });
  if (is_mma(this_case.instruction)) accepts([&] { (void)logical_of(this_case.instruction, operands_of(this_case)); });
  for (const Role role : {Role::a, Role::b, Role::d}) {
    accepts([&] {
      const PlaceMap map(this_case.instruction, this_case.target, this_case.before, role);
      (void)to_json(describe(map.place_of(0, 0)));
    });
  }
  accepts([&] {
    for (const SmemOperand& operand : smem_operands(this_case.instruction, this_case.target, this_case.before)) {
      (void)print_cute(operand.matrix);
      (void)end_byte(SmemMap(operand.matrix));
    }
  });
  if (point.diagnosed) {
    accepts([&] {
      const std::vector<Matrix> actual{this_case.has_recorded_d() ? recorded_d(this_case) : computed_d(this_case)};
      (void)diagnose(std::span(&this_case, 1), actual, {.max_cases = 1, .pairs = false});
    });
  }
}

void ask_kernel(const VectorFile& vectors, const Case& this_case) {
  accepts([&] {
    const std::vector<State> states{this_case.before};
    KernelShape shape = kernel_shape_of(states);
    shape.target = vectors.target;
    const Kernel kernel = ptx_kernel(this_case.instruction, shape);
    const auto inputs = launch_inputs(kernel, states);
    const std::vector<uint8_t> output(static_cast<std::size_t>(kernel.output.bytes_per_case));
    (void)launch_results(kernel, states, output);
  });
}

}  // namespace

Placement placement_of(uint8_t layout) {
  const OperandLayout operand_layout{.major = layout & 1 ? Major::mn : Major::k,
                                     .swizzle = swizzles[layout / 2 % swizzles.size()].id};
  return {.a = operand_layout, .b = {.major = layout & 64 ? Major::mn : Major::k, .swizzle = operand_layout.swizzle}};
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
  Case this_case;
  if (!accepts([&] { this_case = case_at(few, std::min(point.case_index, few.cases)); })) return;
  ask(this_case, point);
  if (this_case.has_state()) ask_kernel(few, this_case);
  accepts([&] { (void)single_case_file(this_case, {}); });
}

}  // namespace bitmma::fuzz
