#include "bitmma/instruction/legality.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "bitmma/instruction/mma_sync.hpp"
#include "bitmma/instruction/tcgen05.hpp"

namespace bitmma {
namespace {

constexpr std::string_view shapes = "PTX ISA 9.7.15.2";
using enum Format;

constexpr auto forms = std::to_array<LegalForm>({
    {.d = f32,
     .a = f16,
     .b = f16,
     .k_dense = 16,
     .k_sparse = 32,
     .scale = true,
     .transpose = true,
     .selectors = 2,
     .source = shapes},
    {.d = f16,
     .a = f16,
     .b = f16,
     .k_dense = 16,
     .k_sparse = 32,
     .scale = true,
     .transpose = true,
     .selectors = 2,
     .source = shapes},
    {.d = f32,
     .a = bf16,
     .b = bf16,
     .k_dense = 16,
     .k_sparse = 32,
     .scale = true,
     .transpose = true,
     .selectors = 2,
     .source = shapes},
    {.d = f32, .a = tf32, .b = tf32, .k_dense = 8, .k_sparse = 16, .scale = true, .selectors = 2, .source = shapes},
    {.d = f32, .a = e4m3, .b = e4m3, .k_dense = 32, .k_sparse = 64, .scale = true, .selectors = 1, .source = shapes},
    {.d = f32, .a = e4m3, .b = e5m2, .k_dense = 32, .k_sparse = 64, .scale = true, .selectors = 1, .source = shapes},
    {.d = f32, .a = e5m2, .b = e4m3, .k_dense = 32, .k_sparse = 64, .scale = true, .selectors = 1, .source = shapes},
    {.d = f32, .a = e5m2, .b = e5m2, .k_dense = 32, .k_sparse = 64, .scale = true, .selectors = 1, .source = shapes},
    {.d = f16, .a = e4m3, .b = e4m3, .k_dense = 32, .k_sparse = 64, .scale = true, .selectors = 1, .source = shapes},
    {.d = f16, .a = e4m3, .b = e5m2, .k_dense = 32, .k_sparse = 64, .scale = true, .selectors = 1, .source = shapes},
    {.d = f16, .a = e5m2, .b = e4m3, .k_dense = 32, .k_sparse = 64, .scale = true, .selectors = 1, .source = shapes},
    {.d = f16, .a = e5m2, .b = e5m2, .k_dense = 32, .k_sparse = 64, .scale = true, .selectors = 1, .source = shapes},
    // 9.7.15.3 asks for equal integer types; 9.7.15.5.2 since ISA 8.4 and ptxas 13.0 take all four mixes.
    {.d = s32,
     .a = s8,
     .b = s8,
     .k_dense = 32,
     .k_sparse = 64,
     .n = NumberList::multiples_of_16_or_24,
     .satfinite = true,
     .selectors = 1,
     .source = shapes},
    {.d = s32,
     .a = s8,
     .b = u8,
     .k_dense = 32,
     .k_sparse = 64,
     .n = NumberList::multiples_of_16_or_24,
     .satfinite = true,
     .selectors = 1,
     .source = shapes},
    {.d = s32,
     .a = u8,
     .b = s8,
     .k_dense = 32,
     .k_sparse = 64,
     .n = NumberList::multiples_of_16_or_24,
     .satfinite = true,
     .selectors = 1,
     .source = shapes},
    {.d = s32,
     .a = u8,
     .b = u8,
     .k_dense = 32,
     .k_sparse = 64,
     .n = NumberList::multiples_of_16_or_24,
     .satfinite = true,
     .selectors = 1,
     .source = shapes},
    {.d = s32,
     .a = b1,
     .b = b1,
     .k_dense = 256,
     .n = NumberList::multiples_of_16_or_24,
     .bit_operation = ".and.popc",
     .source = shapes},
});

consteval bool no_two_forms_share_types() {
  for (size_t i = 0; i < forms.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (forms[i].family == forms[j].family && forms[i].d == forms[j].d && forms[i].a == forms[j].a &&
          forms[i].b == forms[j].b) {
        return false;
      }
    }
  }
  return true;
}
static_assert(no_two_forms_share_types());

std::string types(Format d, Format a, Format b) {
  return fmt::format(".{}.{}.{}", info(d).name, info(a).name, info(b).name);
}

/// The type triples that share the most with what was asked, for a message.
std::string legal_types_near(const Instruction& instruction) {
  std::vector<std::string> near, all;
  for (const LegalForm& form : forms) {
    const std::string name = types(form.d, form.a, form.b);
    all.push_back(name);
    if (form.a == instruction.a || form.b == instruction.b) near.push_back(name);
  }
  return fmt::format("{}", fmt::join(near.empty() ? all : near, ", "));
}

class Checker {
 public:
  explicit Checker(std::string_view source) : source_(source) {}

  void refuse(std::string_view field, auto seen, std::string legal, std::string fix = {},
              std::string_view source = {}) {
    found_.push_back({.field = std::string(field),
                      .seen = fmt::format("{}", seen),
                      .legal = std::move(legal),
                      .fix = std::move(fix),
                      .source = std::string(source.empty() ? source_ : source)});
  }
  std::vector<Violation> found() && { return std::move(found_); }

 private:
  std::string_view source_;
  std::vector<Violation> found_;
};

std::string fix_for_n(NumberList list, int n) {
  if (n <= 0) return "";
  if (n >= 256) return "split the tile into several instructions";
  for (int next = n + 1; next <= 256; ++next) {
    if (contains(list, next)) return fmt::format("use n = {} and zero the extra columns of B", next);
  }
  return "";
}

}  // namespace

bool contains(NumberList list, int n) {
  if (n < 8 || n > 256 || n % 8 != 0) return false;
  return list == NumberList::multiples_of_8 || n % 16 == 0 || n <= 24;
}

std::string_view print(NumberList list) {
  return list == NumberList::multiples_of_8 ? "8..256 in steps of 8" : "8, 16, 24, 32 and 48..256 in steps of 16";
}

std::span<const LegalForm> legal_forms() { return forms; }

const LegalForm* find_legal_form(const Instruction& instruction) {
  const auto row = std::find_if(forms.begin(), forms.end(), [&](const LegalForm& form) {
    return form.family == instruction.family && form.d == instruction.d && form.a == instruction.a &&
           form.b == instruction.b;
  });
  return row == forms.end() ? nullptr : row;
}

std::vector<Violation> violations_of(const Instruction& instruction) {
  if (instruction.family == Family::tcgen05) return tcgen05_violations(instruction);
  if (instruction.family == Family::mma_sync) return mma_sync_violations(instruction);
  constexpr std::string_view syntax = "PTX ISA 9.7.15.5.2";
  const LegalForm* form = find_legal_form(instruction);
  Checker check(form ? form->source : "PTX ISA 9.7.15.3");
  if (instruction.m != 64) check.refuse("m", instruction.m, "64", "a warpgroup always computes 64 rows");
  if (!form) {
    check.refuse("types", types(instruction.d, instruction.a, instruction.b), legal_types_near(instruction));
    return std::move(check).found();
  }
  if (!contains(form->n, instruction.n))
    check.refuse("n", instruction.n, std::string(print(form->n)), fix_for_n(form->n, instruction.n));
  if (instruction.sparse && form->k_sparse == 0) {
    check.refuse(".sp", "present", fmt::format("no sparse form for .{}", info(form->a).name), "remove .sp",
                 "PTX ISA 9.7.15.6");
  } else {
    const int k = instruction.sparse ? form->k_sparse : form->k_dense;
    if (instruction.k != k)
      check.refuse("k", instruction.k, fmt::format("{}", k),
                   fmt::format("{} bytes of K per instruction", instruction.sparse ? 64 : 32));
  }
  if (instruction.bit_operation != form->bit_operation)
    check.refuse("operation", instruction.bit_operation.empty() ? "(none)" : instruction.bit_operation,
                 form->bit_operation.empty() ? "none" : std::string(form->bit_operation),
                 form->bit_operation.empty() ? "only b1 has one" : "Hopper has no xor", syntax);
  if (instruction.satfinite && !form->satfinite)
    check.refuse(".satfinite", "present", "absent for these types", "only s8 and u8 have it", syntax);
  const auto is_sign = [](int value) { return value == 1 || value == -1; };
  const auto is_bit = [](int value) { return value == 0 || value == 1; };
  for (const auto& [name, value] :
       {std::pair("imm_scale_a", instruction.imm_scale_a), std::pair("imm_scale_b", instruction.imm_scale_b)}) {
    if (form->scale) {
      if (!is_sign(value)) check.refuse(name, value, "1 or -1", "", syntax);
    } else {
      if (value != 1) check.refuse(name, value, "1: these types have no such immediate", "", syntax);
    }
  }
  for (const auto& [name, value] :
       {std::pair("imm_trans_a", instruction.imm_trans_a), std::pair("imm_trans_b", instruction.imm_trans_b)}) {
    if (form->transpose) {
      if (!is_bit(value)) check.refuse(name, value, "0 or 1", "", syntax);
    } else {
      if (value != 0)
        check.refuse(name, value, "0: these types are K-major only",
                     "store the matrix K-major; only f16 and bf16 can be transposed", syntax);
    }
  }
  if (instruction.a_source == OperandSource::registers && instruction.imm_trans_a != 0)
    check.refuse("imm_trans_a", instruction.imm_trans_a, "0 when A is in registers", "", syntax);
  if (!is_bit(instruction.scale_d)) check.refuse("scale_d", instruction.scale_d, "0 or 1", "", syntax);
  const int selectors = instruction.sparse ? form->selectors : 1;
  if (instruction.sparsity_selector < 0 || instruction.sparsity_selector >= std::max(selectors, 1))
    check.refuse("sparsity_selector", instruction.sparsity_selector,
                 selectors == 2 ? "0 or 1" : (instruction.sparse ? "0 for 8-bit types" : "0 without .sp"), "",
                 "ptxas 13.0; PTX ISA 9.7.15.6.2");
  return std::move(check).found();
}

void require_legal(const Instruction& instruction) {
  std::vector<Violation> violations = violations_of(instruction);
  if (!violations.empty()) throw Error(std::move(violations));
}

std::vector<Instruction> all_legal_instructions() {
  std::vector<Instruction> all;
  for (const LegalForm& form : forms) {
    for (const bool sparse : {false, true}) {
      if (sparse && form.k_sparse == 0) continue;
      for (const bool satfinite : {false, true}) {
        if (satfinite && !form.satfinite) continue;
        for (int n = 8; n <= 256; n += 8) {
          if (!contains(form.n, n)) continue;
          all.push_back({.family = form.family,
                         .sparse = sparse,
                         .m = form.m,
                         .n = n,
                         .k = sparse ? form.k_sparse : form.k_dense,
                         .d = form.d,
                         .a = form.a,
                         .b = form.b,
                         .satfinite = satfinite,
                         .bit_operation = std::string(form.bit_operation)});
        }
      }
    }
  }
  return all;
}

}  // namespace bitmma
