// SPDX-License-Identifier: MIT
// Which instructions exist: *documented* facts, one row per form over all families, each with its PTX section and
// targets. The *measured* arithmetic is in arithmetic/accumulator_model.hpp.
//
//   wgmma.mma_async  sm_90a  D f32, A e4m3, B e5m2, K = 32 (64 .sp), M = 64, N = 8..256 in steps of 8, negate
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/core/target.hpp"
#include "bitmma/instruction/instruction.hpp"

namespace bitmma {

/// Legal values of N.
struct LegalN {
  int first = 0, last = 0, step = 0;  // first, first + step, ... last
  bool i8_list = false;               // only those in PTX's integer list: 8, 16, 24, then steps of 16
  bool powers_of_2 = false;           // only the powers of two
  std::string_view text = {};         // "8..256 in steps of 8"

  constexpr bool contains(int n) const {
    if (n < first || n > last || (n - first) % step != 0) return false;
    if (i8_list && n > 24 && n % 16 != 0) return false;
    return !powers_of_2 || (n & (n - 1)) == 0;
  }
};

/// Legal combinations of M and N; a form has one or more. The first three columns select tcgen05's rows.
struct LegalShape {
  bool weight_stationary = false;
  int cta_group = 1;
  bool dense = true, sparse = true;  // the row applies to a dense A, to a sparse A
  std::array<int, 3> m = {};         // padded with 0
  LegalN n = {};
};

/// A scale-vector size with its types of scales.
struct LegalScales {
  ScaleVec scale_vec = ScaleVec::unwritten;
  FormatSet types = {};
  int id_step = 1, last_id = 3;  // the first scale may be in byte 0, id_step, ... last_id of its cell or register
  PtxVersion ptx = {};           // that introduced this line, if later than the form

  bool operator==(const LegalScales&) const = default;
};

struct [[nodiscard]] Form {
  Family family = Family::wgmma;
  std::string_view name = {};  // "wgmma.mma_async", "tcgen05.mma kind::f16", "tcgen05.cp"
  TargetSet targets = {};
  std::optional<MmaKind> kind = {};  // for tcgen05.mma, and mma.sync with a kind
  Format d = Format::f32;
  FormatSet a = {}, b = {};
  Format c = d;
  int k_dense = 0;
  int k_sparse = 0;  // 0: no .sp form
  std::span<const LegalShape> shapes = {};
  std::span<const LegalScales> scales = {};
  bool negate = false, transpose = false, saturate = false;
  BitOperation bit_operation = BitOperation::none;
  bool any_layout = false;                    // mma.sync: A and B may each be row- or column-major
  bool rounds = false;                        // .rn, .rz, .rm or .rp
  bool ordered_only = false;                  // mma.sp: only .sp::ordered_metadata
  int selectors = 1;                          // for a sparse A: 0 .. selectors-1
  MoveKind move = MoveKind::ld;               // for moves
  std::string_view further = {};              // options without a column of their own
  std::optional<Target> default_target = {};  // the default target if none is given; without it the first of `targets`
  PtxVersion ptx = {};                        // PTX version that introduced the form
  std::string_view source = {};
  std::vector<Instruction> (*instances)(const Form&) = nullptr;  // lists every legal mnemonic of the form
};

/// Every row. No instruction fits two.
std::span<const Form> forms();

/// The row for the instruction's family, kind, types and K, on any target; nullptr if there is none.
const Form* find_form(const Instruction& instruction);

/// All violations of `instruction` on `target`; empty if it is legal there.
std::vector<Violation> violations_of(const Instruction& instruction, Target target);
/// Throws Error with all violations.
void require_legal(const Instruction& instruction, Target target);

/// The PTX version that a module must declare to use the instruction on `target`.
PtxVersion ptx_version_of(const Instruction& instruction, Target target);

/// The targets that have the instruction's form and all of its optional parts, such as .scale_vec::NX, which some
/// targets of a form lack; empty if the instruction has no form.
TargetSet targets_of(const Instruction& instruction);
/// The default target: sm_90a for wgmma, sm_100a for tcgen05 (sm_103a for forms that only it has), sm_120a for mma.sync
/// with block scales or kind::f8f6f4, sm_90a for every other mma.sync that it supports.
Target default_target(const Instruction& instruction);

/// Every legal mnemonic of a form, with its legal shapes, types and operand sources.
inline std::vector<Instruction> instructions_of(const Form& form) { return form.instances(form); }
/// Every legal mnemonic of all forms, each once.
std::vector<Instruction> all_instructions();
/// The same for one family.
std::vector<Instruction> all_instructions(Family family);

/// The part of a form that a target supports: some lack .sp, a scale-vector size or a type of scales.
struct FormOn {
  bool dense = false, sparse = false;
  int sparsity_version = 0;  // for a sparse fp4
  std::vector<LegalScales> scales = {};

  bool operator==(const FormOn&) const = default;
};
/// In the order of `targets`.
std::array<FormOn, targets.size()> form_on_targets(const Form& form);

/// The options of a form in the output of `list`: "negate, transpose, .ws, cta_group 1 and 2".
std::string print_options(const Form& form, const FormOn& on);
/// "8..256 in steps of 8", "by shape".
std::string print_n(const Form& form);

}  // namespace bitmma
