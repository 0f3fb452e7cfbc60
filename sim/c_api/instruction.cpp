// SPDX-License-Identifier: MIT
#include "bitmma/instruction/instruction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "bitmma/core/target_names.hpp"
#include "bitmma/instruction/batch.hpp"
#include "bitmma/instruction/cutlass_atom.hpp"
#include "bitmma/instruction/evidence.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/make_instruction.hpp"
#include "bitmma/instruction/statement.hpp"
#include "c_api.hpp"

static_assert(BITMMA_WGMMA == static_cast<int>(bitmma::Family::wgmma));
static_assert(BITMMA_TCGEN05_MMA == static_cast<int>(bitmma::Family::tcgen05));
static_assert(BITMMA_MMA_SYNC == static_cast<int>(bitmma::Family::mma_sync));
static_assert(BITMMA_TMEM_MOVE == static_cast<int>(bitmma::Family::tmem_move));
static_assert(BITMMA_MEASURED == static_cast<int>(bitmma::Evidence::measured));
static_assert(BITMMA_PUBLISHED_WORDS == static_cast<int>(bitmma::Evidence::published_words));
static_assert(BITMMA_MEASURED_BY_OTHERS == static_cast<int>(bitmma::Evidence::measured_by_others));
static_assert(BITMMA_CONSISTENT_WORDS == static_cast<int>(bitmma::Evidence::consistent_words));
static_assert(BITMMA_PUBLISHED_MODEL == static_cast<int>(bitmma::Evidence::published_model));
static_assert(BITMMA_MODEL_CHOICE == static_cast<int>(bitmma::Evidence::model_choice));

using namespace bitmma;
using namespace bitmma::c_api;

namespace {

/// A mnemonic is one word; a statement has operands or a guard. CUTLASS's names begin with SM and a number.
Instruction parse_either(std::string_view text) {
  constexpr std::string_view white = " \t\r\n\v\f";
  const size_t first = text.find_first_not_of(white), last = text.find_last_not_of(white);
  if (first == std::string_view::npos) return parse_instruction("");
  const std::string_view trimmed = text.substr(first, last - first + 1);
  if (looks_like_cutlass_atom(trimmed)) return parse_cutlass_atom(trimmed);
  if (trimmed.find_first_of(white) == std::string_view::npos && !trimmed.ends_with(';'))
    return parse_instruction(trimmed);
  return parse_statement(trimmed).instruction;
}

const Instruction& value_of(const bitmma_instruction* instruction) { return pointee(instruction, "instruction").value; }

Target target_for(const Instruction& instruction, const char* target) {
  return target ? target_from(target) : default_target(instruction);
}

/// C's values in the form that the family's fields have.
std::vector<NamedValue> named_values(Family family, const bitmma_named_value* fields, size_t count) {
  if (count > 0) static_cast<void>(pointee(fields, "fields"));
  const std::vector<InstructionField>& known = instruction_fields(family);
  std::vector<NamedValue> values;
  for (const bitmma_named_value& field_value : std::span(fields, count)) {
    const std::string name(text_given(field_value.name, "name"));
    const auto field = std::ranges::find(known, name, &InstructionField::name);
    const bool is_flag = field != known.end() && std::holds_alternative<bool>(field->default_value);
    if (field_value.word) values.push_back({name, std::string(field_value.word)});
    else if (is_flag && (field_value.number == 0 || field_value.number == 1))
      values.push_back({name, field_value.number == 1});
    else values.push_back({name, field_value.number});
  }
  return values;
}

}  // namespace

extern "C" {

bitmma_status bitmma_instruction_parse(const char* text, bitmma_instruction** instruction) {
  return guarded([&] {
    bitmma_instruction*& to = pointee(instruction, "instruction");
    to = new bitmma_instruction{parse_either(text_given(text, "text"))};
  });
}

bitmma_status bitmma_instruction_copy(const bitmma_instruction* instruction, bitmma_instruction** copy) {
  return guarded([&] {
    bitmma_instruction*& to = pointee(copy, "copy");
    to = new bitmma_instruction{value_of(instruction)};
  });
}

void bitmma_instruction_destroy(bitmma_instruction* instruction) { delete instruction; }

bitmma_status bitmma_instruction_set(bitmma_instruction* instruction, const char* name, int64_t value) {
  return guarded([&] {
    bitmma_instruction& handle = pointee(instruction, "instruction");
    handle.change(with_immediate(handle.value, text_given(name, "name"), value));
  });
}

bitmma_status bitmma_instruction_get(const bitmma_instruction* instruction, const char* name, int64_t* value) {
  return guarded([&] {
    const Instruction& statement = value_of(instruction);
    const std::string_view wanted = text_given(name, "name");
    int64_t& to = pointee(value, "value");
    const std::vector<ImmediateInfo> rows = immediates_of(statement);
    if (std::ranges::find(rows, wanted, &ImmediateInfo::name) == rows.end()) {
      throw Error({.code = ViolationCode::unknown_name,
                   .field = "name",
                   .seen = std::string(wanted),
                   .expected = "an immediate that " + print(statement) + " has"});
    }
    to = immediate_of(statement, wanted);
  });
}

bitmma_status bitmma_instruction_set_tcgen05(bitmma_instruction* instruction, const bitmma_tcgen05* fields) {
  return guarded([&] {
    bitmma_instruction& handle = pointee(instruction, "instruction");
    const bitmma_tcgen05& from = pointee(fields, "fields");
    handle.change(with_shape_and_types(handle.value, {.m = from.m,
                                                      .n = from.n,
                                                      .k = from.k,
                                                      .d = format_of(from.d, "d"),
                                                      .a = format_of(from.a, "a"),
                                                      .b = format_of(from.b, "b"),
                                                      .scale_type = format_of(from.scale, "scale")}));
  });
}

bitmma_status bitmma_instruction_make(int family, const bitmma_named_value* fields, size_t count,
                                      bitmma_instruction** instruction) {
  return guarded([&] {
    bitmma_instruction*& to = pointee(instruction, "instruction");
    if (family < BITMMA_WGMMA || family > BITMMA_TMEM_MOVE)
      throw Error({.field = "family", .seen = std::to_string(family), .expected = "a bitmma_family"});
    const auto of = static_cast<Family>(family);
    to = new bitmma_instruction{make_instruction(of, named_values(of, fields, count))};
  });
}

bitmma_status bitmma_instruction_set_fields(bitmma_instruction* instruction, const bitmma_named_value* fields,
                                            size_t count) {
  return guarded([&] {
    bitmma_instruction& handle = pointee(instruction, "instruction");
    handle.change(with_fields(handle.value, named_values(family_of(handle.value), fields, count)));
  });
}

bitmma_status bitmma_instruction_print(const bitmma_instruction* instruction, char* text, size_t size, size_t* length) {
  return guarded([&] { write_text(print(value_of(instruction)), text, size, length); });
}

bitmma_status bitmma_instruction_get_info(const bitmma_instruction* instruction, bitmma_instruction_info* info) {
  return guarded([&] {
    const Instruction& statement = value_of(instruction);
    bitmma_instruction_info& to = pointee(info, "info");
    to = {};
    to.family = static_cast<bitmma_family>(family_of(statement));
    if (!is_mma(statement)) return;
    const Mma mma = mma_of(statement);
    to.m = mma.m, to.n = mma.n, to.k = mma.k;
    to.products = mma.products;
    to.sparse = mma.sparse;
    to.stored_k = mma.stored_k();
    to.metadata_chunks = metadata_chunks(mma);
    to.scale_count = mma.scale_count;
    to.d = c_format(mma.d), to.a = c_format(mma.a), to.b = c_format(mma.b), to.c = c_format(mma.c);
    to.scale = c_format(mma.scale_type);
    to.d_bytes = static_cast<size_t>(mma.m) * static_cast<size_t>(mma.n) * static_cast<size_t>(code_bytes(mma.d));
  });
}

const char* bitmma_instruction_target(const bitmma_instruction* instruction) {
  const char* name = nullptr;
  // The names of targets are literals, so they end with a 0.
  static_cast<void>(guarded([&] { name = print(default_target(value_of(instruction))).data(); }));
  return name;
}

bitmma_status bitmma_instruction_check(const bitmma_instruction* instruction, const char* target) {
  return guarded([&] {
    const Instruction& statement = value_of(instruction);
    require_legal(statement, target_for(statement, target));
  });
}

bitmma_status bitmma_instruction_evidence(const bitmma_instruction* instruction, const char* target,
                                          bitmma_evidence* evidence, size_t* choices) {
  return guarded([&] {
    const Instruction& statement = value_of(instruction);
    bitmma_evidence& to = pointee(evidence, "evidence");
    const Target on = target_for(statement, target);
    require_legal(statement, on);
    const Evidence level = evidence_of(statement, on);
    const size_t count = choices_of(statement, on).size();
    to = static_cast<bitmma_evidence>(level);
    if (choices) *choices = count;
  });
}

bitmma_status bitmma_choice_print(const bitmma_instruction* instruction, const char* target, size_t index, char* text,
                                  size_t size, size_t* length) {
  return guarded([&] {
    const Instruction& statement = value_of(instruction);
    const std::vector<Choice> choices = choices_of(statement, target_for(statement, target));
    if (index >= choices.size()) {
      throw Error({.field = "index",
                   .seen = std::to_string(index),
                   .expected = choices.empty() ? "not requested: the instruction has no choices"
                                               : fmt::format("0..{}", choices.size() - 1)});
    }
    write_text(print(choices[index]), text, size, length);
  });
}

bitmma_status bitmma_rule_print(const bitmma_instruction* instruction, const char* target, char* text, size_t size,
                                size_t* length) {
  return guarded([&] {
    const Instruction& statement = value_of(instruction);
    const Target on = target_for(statement, target);
    require_legal(statement, on);
    write_text(print_rule(model_for(statement, on)), text, size, length);
  });
}

}  // extern "C"
