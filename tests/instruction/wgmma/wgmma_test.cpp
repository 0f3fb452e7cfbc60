#include <algorithm>

#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/memory/fragment.hpp"
#include "bitmma/stimulus/random_operands.hpp"
#include "support/catch.hpp"
#include "support/instructions.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

namespace {

constexpr Target hopper = Target::sm_90a;

/// The first type of a set of one.
Format only(const FormatSet& set) {
  return std::ranges::find_if(formats, [&](const FormatInfo& format) { return set.contains(format.id); })->id;
}

}  // namespace

TEST_CASE("gather reads back what place_operands laid out: every type of wgmma, layout, source and padding") {
  for (const Form& form : forms()) {
    if (form.family != Family::wgmma) continue;
    for (const bool sparse : {false, true}) {
      if (sparse && !form.k_sparse) continue;
      for (const OperandSource source : {OperandSource::smem, OperandSource::registers}) {
        for (const char* layout_a : {"k-major:none", "k-major:32", "k-major:64", "k-major:128", "mn-major:none",
                                     "mn-major:32", "mn-major:64", "mn-major:128"}) {
          for (const char* layout_b : {"k-major:none", "k-major:32", "k-major:64", "k-major:128", "mn-major:none",
                                       "mn-major:32", "mn-major:128"}) {
            for (const int64_t padding : {0, 48}) {
              OperandLayout a = parse_operand_layout(layout_a), b = parse_operand_layout(layout_b);
              if (!form.transpose && (a.major == Major::mn || b.major == Major::mn)) continue;
              a.padding_bytes = b.padding_bytes = padding;
              const Instruction instruction = with_majors(wgmma({.n = 24,
                                                                 .d = form.d,
                                                                 .a = only(form.a),
                                                                 .b = only(form.b),
                                                                 .sparse = sparse,
                                                                 .a_source = source,
                                                                 .sparsity_selector = sparse ? form.selectors - 1 : 0}),
                                                          a, b);
              const Operands operands = random_operands(instruction, hopper, Distribution::bits, 9, 1);
              const State state = place_operands(instruction, {.a = a, .b = b}, operands, filler_stream(9, 1));
              const Operands back = gather_operands(instruction, hopper, state);
              INFO(print(instruction) << " " << layout_a << " " << layout_b << " padding " << padding);
              REQUIRE(back.a == operands.a);
              REQUIRE(back.b == operands.b);
              REQUIRE(*back.c == *operands.c);
              REQUIRE(back.selected_k == operands.selected_k);
              REQUIRE(warnings_of(instruction, hopper, state).size() <= (padding ? 2u : 0u));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("registers after a wgmma are D as result_of has it, for every type, width, source and direction") {
  int index = 0;
  for (const Instruction& plain : all_instructions(Family::wgmma)) {
    if (std::get<Wgmma>(plain).n > 24) continue;
    const Form& form = *find_form(plain);
    for (const OperandSource source : {OperandSource::smem, OperandSource::registers}) {
      for (const Major major : {Major::k, Major::mn}) {
        if (major == Major::mn && !form.transpose) continue;
        const OperandLayout layout{.major = major}, a_layout{.major = source == OperandSource::smem ? major : Major::k};
        Wgmma wgmma = std::get<Wgmma>(with_majors(with_a_source(plain, source), a_layout, layout));
        if (form.negate) wgmma.negate_a = index % 2 != 0, wgmma.negate_b = index % 3 == 0;
        wgmma.enable_input_d = index % 5 != 0;
        const Distribution distribution = distributions[static_cast<size_t>(index) % distributions.size()].id;
        State state = place_operands(wgmma, {.a = a_layout, .b = layout},
                                     random_operands(wgmma, hopper, distribution, 9, static_cast<uint64_t>(index)),
                                     filler_stream(9, static_cast<uint64_t>(index)));
        const Matrix d = result_of(wgmma, hopper, state);
        execute(wgmma, hopper, state);
        INFO(print(wgmma));
        REQUIRE(gather(state.words(Field::accumulator), wgmma_d_fragment(wgmma.d, wgmma.n), wgmma.d, "d_regs") == d);
        ++index;
      }
    }
  }
  CHECK(index > 250);
}

TEST_CASE("metadata that PTX leaves undefined is warned about, chunk by chunk") {
  const Instruction instruction = Wgmma{.sparse = true};
  State state = test::sample_case(instruction, 1).before;
  CHECK(warnings_of(instruction, hopper, state).empty());
  state.writable_words(Field::metadata)[0] &= ~0xFu;  // positions 0 and 0 of the first chunk
  const std::vector<Violation> warnings = warnings_of(instruction, hopper, state);
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings, test::refused(ViolationCode::illegal_value, "metadata"));
  CHECK(warnings[0].severity == Severity::warning);
}

TEST_CASE("an image that ends before the matrix does is refused, and nothing is written") {
  const Instruction instruction = Wgmma{};
  State state = test::sample_case(instruction, 1).before;
  state.set(Field::smem, std::vector<uint8_t>(100), {100});
  const State before = state;
  CHECK_THAT(test::refusal_of([&] { execute(instruction, hopper, state); }),
             refused(illegal_value, "B element row 0, k 0"));
  CHECK(state == before);
}
