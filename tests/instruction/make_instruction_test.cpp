#include "bitmma/instruction/make_instruction.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"
#include "support/documents.hpp"
#include "support/instructions.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using test::refusal_of;

namespace {

constexpr Family families[]{Family::wgmma, Family::tcgen05, Family::mma_sync, Family::tmem_move};

Instruction made(Family family, const std::vector<NamedValue>& fields) { return make_instruction(family, fields); }

/// Values that the field does not have in `base`.
std::vector<FieldValue> other_values(const Instruction& base, const InstructionField& field) {
  const std::vector<NamedValue> fields = named_fields(base);
  const auto is =
      std::ranges::find(fields, field.name, [](const NamedValue& value) { return std::string_view(value.name); });
  if (const bool* now = std::get_if<bool>(&is->value)) return {!*now};
  if (const int64_t* now = std::get_if<int64_t>(&is->value)) {
    std::vector<FieldValue> others{*now + 1, *now * 2, *now / 2, *now + 8, *now * 3 / 2};
    std::erase(others, is->value);
    return others;
  }
  std::vector<FieldValue> others;
  for (const std::string& word : field.words) {
    if (FieldValue(word) != is->value) others.emplace_back(word);
  }
  return others;
}

/// Its text, its immediates and, of tcgen05.mma, its instruction descriptor.
std::string seen_by_hardware(const Instruction& instruction) {
  std::string text = print(statement_of(instruction));
  for (const ImmediateInfo& row : immediates_of(instruction))
    text += fmt::format(" {}", immediate_of(instruction, row.name));
  if (const Tcgen05Mma* mma = std::get_if<Tcgen05Mma>(&instruction)) text += fmt::format(" {:#x}", idesc_of(*mma));
  return text;
}

}  // namespace

TEST_CASE("every legal instruction is what its named fields make") {
  for (const Family family : families) {
    for (const Instruction& instruction : all_instructions(family)) {
      const std::vector<NamedValue> fields = named_fields(instruction);
      INFO(print(instruction));
      REQUIRE(instruction_of(family, fields) == instruction);
      REQUIRE(with_fields(instruction, {}) == instruction);
    }
  }
}

// Text, immediates and the instruction descriptor are all that hardware sees of an instruction.
TEST_CASE("every field acts somewhere, and where it does nothing it is refused") {
  std::string never_acted;
  for (const Family family : families) {
    std::map<std::string_view, int> acted;
    std::vector<Instruction> bases;
    std::set<std::string> forms;
    std::map<std::string, std::set<std::string>, std::less<>> values;  // over all legal instructions
    for (const Instruction& instruction : all_instructions(family)) {
      if (forms
              .insert(std::string(find_form(instruction)->name) +
                      (is_mma(instruction) && mma_of(instruction).sparse ? " sparse" : ""))
              .second)
        bases.push_back(instruction);
      for (const NamedValue& field : named_fields(instruction)) values[field.name].insert(print(field.value));
    }
    bases.push_back(instruction_of(family, {}));
    for (const Instruction& base : bases) {
      for (const InstructionField& field : instruction_fields(family)) {
        for (const FieldValue& value : other_values(base, field)) {
          std::optional<Instruction> changed;
          const std::vector<NamedValue> fields{{std::string(field.name), value}};
          try {
            changed = with_fields(base, fields);
            require_legal(*changed, default_target(*changed));
          } catch (const Error&) {
            continue;
          }
          INFO(print(base) << ": " << field.name << " = " << print(value));
          CHECK(seen_by_hardware(*changed) != seen_by_hardware(base));
          ++acted[field.name];
        }
      }
    }
    for (const InstructionField& field : instruction_fields(family)) {
      INFO(print(family) << " " << field.name);
      CHECK_FALSE(field.meaning.empty());
      if (acted[field.name] == 0 && values.find(field.name)->second.size() == 1)
        never_acted += fmt::format("{} {}, ", print(family), field.name);
    }
  }
  // The first and the last have one value; B is shifted where N and the collector buffer of B allow it.
  CHECK(never_acted == "wgmma m, tcgen05 max_shift, mma.sync n, ");
}

TEST_CASE("a field that an instruction has no use for is refused when it is asked for, its default included") {
  for (const Family family : families) {
    std::set<std::string> seen_forms;
    int refused = 0;
    for (const Instruction& base : all_instructions(family)) {
      if (!seen_forms
               .insert(std::string(find_form(base)->name) + (is_mma(base) && mma_of(base).sparse ? " sparse" : ""))
               .second)
        continue;
      for (const NamedValue& field : named_fields(base)) {
        const auto code_of = [&](const FieldValue& value) -> std::optional<ViolationCode> {
          const std::vector<NamedValue> values{{field.name, value}};
          try {
            static_cast<void>(with_used_fields(base, values));
          } catch (const Error& error) {
            return error.violations().front().code;
          }
          return std::nullopt;
        };
        const bool is_useless = code_of(field.value) == ViolationCode::no_effect;
        refused += is_useless;
        const InstructionField& row =
            *std::ranges::find(instruction_fields(family), field.name, &InstructionField::name);
        for (const FieldValue& value : other_values(base, row)) {
          INFO(print(base) << ": " << field.name << " = " << print(value));
          CHECK((code_of(value) == ViolationCode::no_effect) == is_useless);
        }
      }
    }
    INFO(print(family));
    CHECK(refused > 0);
  }
  const auto refuses = [](const std::string& mnemonic, const std::string& field, const FieldValue& value) {
    const std::vector<NamedValue> values{{field, value}};
    CHECK_THROWS_MATCHES(with_used_fields(parse_instruction(mnemonic), values), Error, test::refused(no_effect, field));
  };
  refuses("tcgen05.mma.cta_group::1.kind::f16", "scale_type", "ue8m0");
  refuses("tcgen05.mma.cta_group::1.kind::f16", "max_shift", int64_t{0});
  refuses("tcgen05.mma.cta_group::1.kind::i8", "scale_input_d", int64_t{0});
  refuses("wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8", "negate_a", false);
  refuses("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16", "sparsity_selector", int64_t{0});
}

TEST_CASE("the site's table of the fields of an instruction has every field", "[unsanitized]") {
  std::string text;
  for (const Family family : families) {
    text += fmt::format("{}### {}\n\n| field | value | default | meaning |\n|---|---|---|---|\n",
                        text.empty() ? "" : "\n", print(family));
    for (const InstructionField& field : instruction_fields(family)) {
      std::vector<std::string> words = field.words;
      std::erase(words, "");
      const std::string value = field.is_format  ? "a format"
                                : !words.empty() ? fmt::format("{}", fmt::join(words, ", "))
                                : std::holds_alternative<bool>(field.default_value) ? "true, false"
                                                                                    : "a number";
      text += fmt::format("| `{}` | {} | {} | {} |\n", field.name, value, print(field.default_value), field.meaning);
    }
  }
  test::check_table("instruction_fields", text);
}

TEST_CASE("fields that are left out follow from the others") {
  struct Row {
    Family family;
    std::vector<NamedValue> fields;
    std::string text;
  };
  const int64_t m64 = 64, n128 = 128, k8 = 8;
  for (const Row& row : {
           Row{Family::wgmma, {}, "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"},
           {Family::wgmma, {{"n", n128}, {"a", "e4m3"}}, "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3"},
           {Family::wgmma,
            {{"n", m64}, {"a", "s8"}, {"b", "u8"}, {"saturate", true}},
            "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.u8.satfinite"},
           {Family::wgmma, {{"sparse", true}, {"a", "tf32"}}, "wgmma.mma_async.sp.sync.aligned.m64n8k16.f32.tf32.tf32"},
           {Family::mma_sync, {}, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"},
           {Family::mma_sync, {{"d", "f16"}, {"k", k8}}, "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16"},
           {Family::mma_sync, {{"a", "f64"}}, "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64"},
           {Family::mma_sync, {{"a", "b1"}}, "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc"},
           {Family::mma_sync,
            {{"kind", "mxf4nvf4"}},
            "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3"},
           {Family::tcgen05, {{"kind", "i8"}, {"cta_group", int64_t{2}}}, "tcgen05.mma.cta_group::2.kind::i8"},
           {Family::tcgen05,
            {{"kind", "mxf4nvf4"}},
            "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X"},
           {Family::tmem_move, {}, "tcgen05.ld.sync.aligned.32x32b.x1.b32"},
           {Family::tmem_move, {{"kind", "cp"}, {"shape", "32x128b.warpx4"}}, "tcgen05.cp.cta_group::1.32x128b.warpx4"},
           {Family::tmem_move, {{"kind", "shift"}}, "tcgen05.shift.cta_group::1.down"},
       }) {
    CHECK(print(made(row.family, row.fields)) == row.text);
  }
  // K follows A's type. M keeps its value.
  const Instruction f16 = made(Family::tcgen05, {{"kind", "f8f6f4"}, {"m", m64}});
  const std::vector<NamedValue> other{{"a", "e2m1"}};
  const Mma changed = mma_of(with_fields(f16, other));
  CHECK((changed.m == 64 && changed.a == Format::e2m1 && changed.b == Format::e2m1));
}

TEST_CASE("fields that a family lacks, and values that a field may not have, are refused by name") {
  const auto refusal = [](Family family, std::vector<NamedValue> fields) {
    return refusal_of([&] { make_instruction(family, fields); });
  };
  using Catch::Contains;
  CHECK_THAT(refusal(Family::wgmma, {{"kind", "f16"}}), test::refused(unknown_name, "field"));
  CHECK_THAT(refusal(Family::tcgen05, {{"kind", "f17"}}), test::refused(unknown_name, "kind"));
  CHECK_THAT(refusal(Family::tcgen05, {{"a", "f17"}}), test::refused(unknown_name, "a"));
  CHECK_THAT(refusal(Family::wgmma, {{"n", true}}), test::refused(wrong_type, "n"));
  CHECK_THAT(refusal(Family::wgmma, {{"n", "8"}}), test::refused(wrong_type, "n"));
  CHECK_THAT(refusal(Family::wgmma, {{"sparse", int64_t{1}}}), test::refused(wrong_type, "sparse"));
  CHECK_THAT(refusal(Family::wgmma, {{"n", int64_t{8}}, {"n", int64_t{16}}}), test::refused(contradiction, "n"));
  CHECK_THAT(refusal(Family::wgmma, {{"n", int64_t{12}}}), test::refused(illegal_value, "n"));
  CHECK_THAT(refusal(Family::wgmma, {{"n", INT64_MAX}}), test::refused(illegal_value, "n"));
  CHECK_THAT(refusal(Family::mma_sync, {{"a", "e4m3"}, {"d", "s32"}}), test::refused(illegal_value, "dtype"));
  CHECK_THAT(refusal(static_cast<Family>(7), {}), test::refused(illegal_value, "family"));
  // Everything that is wrong at once.
  CHECK_THAT(refusal(Family::wgmma, {{"x", true}, {"a", "f17"}}),
             test::refused(unknown_name, "field") && test::refused(unknown_name, "a"));
}
