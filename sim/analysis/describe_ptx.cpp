// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>

#include "bitmma/analysis/describe.hpp"
#include "bitmma/core/numbers.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/core/word.hpp"
#include "bitmma/instruction/cutlass_atom.hpp"
#include "bitmma/instruction/evidence.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/ptx_file.hpp"
#include "bitmma/instruction/sass.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/instruction/support_instruction.hpp"
#include "bitmma/memory/ldmatrix.hpp"
#include "statement_text.hpp"

namespace bitmma {
namespace {

/// The number of each thread's registers that hold a field; 0 if none do.
int64_t registers_of(const Instruction& instruction, Field field) {
  for (const FieldRule& rule : fields_of(instruction)) {
    if (rule.field == field && !rule.extents.empty()) return rule.extents[rule.extents.size() - 1];
  }
  return 0;
}

/// Describes an instruction of each family.
class Describer {
 public:
  /// `operands`: the operands of a statement; nullptr for a mnemonic alone.
  Describer(Target target, const std::vector<StatementOperand>* operands) : target_(target), operands_(operands) {}

  Report operator()(const Wgmma& wgmma) const {
    const Form& form = *find_form(wgmma);
    const Mma mma = mma_of(wgmma);
    const int64_t d_registers = registers_of(wgmma, Field::accumulator);
    const std::string immediates = fmt::format("scale-d{}{}", form.negate ? ", imm-scale-a, imm-scale-b" : "",
                                               form.transpose ? ", imm-trans-a (A in shared memory), imm-trans-b" : "");
    Report report = shape_and_types(mma);
    report.add("satfinite", wgmma.saturate).add("d_registers", d_registers).update(arithmetic(wgmma));
    return report.add_text(
        {{"D", fmt::format("{} x {} {}, {} registers a thread", mma.m, mma.n, info(mma.d).name, d_registers)},
         {"A", print_a(mma)},
         {"B", fmt::format("{} x {} {}", mma.k, mma.n, info(mma.b).name)},
         {"immediates", immediates},
         {"arithmetic", print_arithmetic(wgmma, target_)},
         {"legal", std::string(form.source)}});
  }

  Report operator()(const MmaSync& instruction) const {
    const Mma mma = mma_of(instruction);
    const int64_t a = registers_of(instruction, Field::a_regs), b = registers_of(instruction, Field::b_regs),
                  d = registers_of(instruction, Field::accumulator);
    Report report = shape_and_types(mma);
    report.update({{"c", info(mma.c).name}, {"a_registers", a}, {"b_registers", b}, {"d_registers", d}});
    if (instruction.has_scales()) report.add("scales", mma.scale_count).add("scale_type", info(mma.scale_type).name);
    if (instruction.sparse) report.add("metadata", instruction.ordered_metadata ? ".sp::ordered_metadata" : ".sp");
    report.update(arithmetic(instruction));
    std::vector<std::vector<std::string>> rows{
        {"runs in",
         fmt::format("one warp, everything in registers: no descriptors, no Tensor Memory ({})", print(target_))},
        {"D", fmt::format("{} x {} {}, {} a thread; C {}", instruction.m, instruction.n, info(mma.d).name,
                          counted(d, "register"), mma.c == mma.d ? "the same" : std::string(info(mma.c).name))},
        {"A", fmt::format("{}, {}", print_a(mma), counted(a, "register"))},
        {"B", fmt::format("{} x {} {}, {}", instruction.k, mma.n, info(mma.b).name, counted(b, "register"))}};
    if (mma.products > 1)
      rows.push_back({"products",
                      fmt::format("{}, one per quad pair: threads 4p .. 4p + 3 and 16 + 4p .. 19 + 4p", mma.products)});
    if (instruction.sparse)
      rows.push_back(
          {"metadata", instruction.ordered_metadata ? "positions ascend in every chunk" : "positions in any order"});
    if (instruction.has_scales()) {
      rows.push_back({"scales", fmt::format("{} {} for each row of A and column of B, stored as bytes of one register; "
                                            "the ids select the byte and the thread",
                                            mma.scale_count, info(mma.scale_type).name)});
      rows.push_back({"scale A", fmt::format("row m of A: {} of thread 4 (m % 8) + 2 * {} + m / 8",
                                             print_bytes("byte-id-a", mma.scale_count), id("thread-id-a"))});
      rows.push_back({"scale B", fmt::format("column n of B: {} of thread 4 n + {}",
                                             print_bytes("byte-id-b", mma.scale_count), id("thread-id-b"))});
    }
    rows.push_back({"arithmetic", print_arithmetic(instruction, target_)});
    rows.push_back({"legal", std::string(find_form(instruction)->source)});
    return report.add_text(rows);
  }

  Report operator()(const Tcgen05Mma& instruction) const {
    const std::string_view kind = info(instruction.kind).name;
    Report report{{"kind", kind},
                  {"cta_group", instruction.cta_group},
                  {"ws", instruction.weight_stationary},
                  {"sparse", instruction.sparse}};
    return report.add_text(fmt::format(
        "kind::{}, {}{}{}; shape, types and signs are in the instruction descriptor (decode it with "
        "--kind {})",
        kind, counted(instruction.cta_group, "CTA"), instruction.weight_stationary ? ", weight-stationary" : "",
        instruction.sparse ? ", sparse A" : "", kind));
  }

  Report operator()(const TmemMove& move) const {
    const std::string what = what_moves(move);
    const std::vector<Choice> choices = bitmma::choices_of(move, target_);
    Report report{{"moves", what}, {"choices", describe(choices)}};
    report.add_text(what);
    for (const Choice choice : choices) report.add_text(fmt::format("chosen: {}", print(choice)));
    return report;
  }

 private:
  static std::string print_a(const Mma& mma) {
    return fmt::format("{} x {} {}{}", mma.m / mma.products, mma.stored_k(), info(mma.a).name,
                       mma.sparse ? fmt::format(" stored of k = {}", mma.k) : "");
  }
  static Report shape_and_types(const Mma& mma) {
    return {{"m", mma.m / mma.products}, {"n", mma.n},
            {"k", mma.k / mma.products}, {"d", info(mma.d).name},
            {"a", info(mma.a).name},     {"b", info(mma.b).name},
            {"sparse", mma.sparse}};
  }
  Report arithmetic(const Instruction& instruction) const {
    return {{"arithmetic", print_rule(model_for(instruction, target_))},
            {"evidence", print_evidence(instruction, target_)}};
  }
  static std::string print_reduction(const LoadReduction& reduction) {
    return fmt::format("{} of the thread's registers{} as {}{}",
                       reduction.operation == ReduceOperation::min ? "least" : "largest",
                       reduction.absolute ? ", without their signs," : "", info(reduction.type).name,
                       reduction.propagate_nan ? "; NaN if one of them is NaN" : "");
  }
  static std::string what_moves(const TmemMove& move) {
    if (move.has_registers()) {
      return fmt::format("{} of each of 32 threads {} lanes of their warp{}",
                         counted(move.ldst.registers(), "register"), move.loads() ? "<-" : "->",
                         move.ldst.pack_16b              ? ", two 16-bit cells per register"
                         : move.kind == MoveKind::ld_red ? "; redval: the " + print_reduction(move.reduction)
                                                         : "");
    }
    if (move.kind != MoveKind::cp) return "31 of 32 lanes move down by one, in 8 columns";
    const std::string_view unpacked =
        move.source_format == CpSourceFormat::b4x16_p64   ? "; b4x16_p64 unpacked into bytes"
        : move.source_format == CpSourceFormat::b6x16_p32 ? "; b6x16_p32 unpacked into bytes"
                                                          : "";
    return fmt::format("{} rows of {} bytes of shared memory -> Tensor Memory, {} each{}", move.shape().rows,
                       move.shape().row_bytes, counted(move.shape().copies, "lane"), unpacked);
  }

  /// A scale id as the statement gives it, a number or a register; without a statement, its name.
  std::string id(std::string_view name) const {
    if (!operands_) return std::string(name);
    for (const StatementOperand& operand : *operands_) {
      const size_t comma = operand.text.find(',');
      if (operand.name.find(name) == std::string_view::npos || comma == std::string::npos) continue;
      const bool second = name.starts_with("thread");
      std::string part = second ? operand.text.substr(comma + 1) : operand.text.substr(0, comma);
      std::erase_if(part, [](char c) { return c == '{' || c == '}' || c == ' '; });
      return printable(part);
    }
    return std::string(name);
  }
  /// "bytes 0..3", "byte %rs1", "bytes byte-id-a and up, 2 of them".
  std::string print_bytes(std::string_view name, int count) const {
    const std::string first = id(name);
    if (count == 1) return "byte " + first;
    if (first.size() == 1 && first[0] >= '0' && first[0] <= '3')
      return fmt::format("bytes {}..{}", first, first[0] - '0' + count - 1);
    return fmt::format("{} bytes from {}", count, first);
  }

  Target target_;
  const std::vector<StatementOperand>* operands_;
};

/// The description of an instruction of any family.
Report describe_in_detail(const Instruction& described, Target target, const std::vector<StatementOperand>* operands) {
  return std::visit(Describer(target, operands), described);
}

/// The meaning of an immediate number.
struct ImmediateMeaning {
  std::string_view name;
  int64_t value;
  std::string_view meaning;
};
constexpr auto immediate_meanings = std::to_array<ImmediateMeaning>({
    {"scale-d", 0, "D = A B; the previous D is ignored"},
    {"scale-d", 1, "D = A B + D"},
    {"enable-input-d", 0, "D = A B; the previous D is ignored"},
    {"enable-input-d", 1, "D = A B + D"},
    {"imm-scale-a", 1, "A is not negated"},
    {"imm-scale-a", -1, "-A"},
    {"imm-scale-b", 1, "B is not negated"},
    {"imm-scale-b", -1, "-B"},
    {"imm-trans-a", 0, "A is K-major"},
    {"imm-trans-a", 1, "A is M-major"},
    {"imm-trans-b", 0, "B is K-major"},
    {"imm-trans-b", 1, "B is N-major"},
});

std::string meaning_of(const StatementOperand& operand) {
  for (const ImmediateMeaning& row : immediate_meanings) {
    if (operand.name == row.name && operand.value == row.value) return std::string(row.meaning);
  }
  switch (operand.kind) {
    case OperandKind::registers: return counted(static_cast<int64_t>(operand.registers.size()), "register");
    case OperandKind::descriptor:
      return operand.name == "idesc" ? "the instruction descriptor; bitmma decode WORD --kind KIND decodes it"
                                     : "a descriptor; bitmma decode WORD decodes it";
    case OperandKind::address: return "an address";
    case OperandKind::predicate: return "1: D = A B + D, 0: D = A B";
    default: return "";
  }
}

/// The operand as written; a long vector shows only its first and last registers.
std::string text_of(const StatementOperand& operand) {
  const std::vector<std::string>& all = operand.registers;
  if (all.size() <= 4) return shortened(operand.text);
  return printable(fmt::format("{{{}, {}, ... {}}}", all[0], all[1], all.back()));
}

Report describe_operands(const std::vector<StatementOperand>& operands) {
  Report list = Report::list();
  for (const StatementOperand& operand : operands) {
    Report row{{"name", operand.name}, {"text", printable(operand.text)}};
    if (operand.kind == OperandKind::registers) row.add("registers", operand.registers.size());
    if (operand.value) row.add("value", *operand.value);
    if (const std::string meaning = meaning_of(operand); !meaning.empty()) row.add("meaning", meaning);
    list.append(std::move(row));
  }
  return list;
}

/// Warns of a vector of A, B or D that names a register twice: the place of another register then holds the wrong
/// elements. A vector of one register alone is a constant operand, and registers of C may share a zero.
std::vector<Violation> repeated_registers(const std::vector<StatementOperand>& operands) {
  std::vector<Violation> warnings;
  for (const StatementOperand& operand : operands) {
    const bool is_result = operand.name == "d";
    if (operand.kind != OperandKind::registers || (operand.name != "a" && operand.name != "b" && !is_result)) continue;
    const std::vector<std::string>& all = operand.registers;
    const bool is_constant = std::ranges::all_of(all, [&](const std::string& name) { return name == all.front(); });
    if (all.size() < 2 || (is_constant && !is_result)) continue;
    for (size_t i = 1; i < all.size(); ++i) {
      const auto first = std::ranges::find(all, all[i]);
      if (all[i] == "_" || first - all.begin() == static_cast<int64_t>(i)) continue;
      warnings.push_back({.code = ViolationCode::contradiction,
                          .field = std::string(operand.name),
                          .seen = fmt::format("{} as registers {} and {}", printable(all[i]), first - all.begin(), i),
                          .expected = "another register in each place",
                          .severity = Severity::warning});
    }
  }
  return warnings;
}

/// One decoded PTX instruction.
struct DecodedPtx {
  std::string guard = {}, mnemonic = {};
  std::string alike = {};  // equal for instructions with the same description: the mnemonic with its immediates
  Target target = Target::sm_90a;
  std::vector<Violation> violations = {};  // why it is illegal on the target
  Report report = Report::object();
};

/// Which matrix fills a register of ldmatrix, or is stored from it, and which of its elements a thread has.
std::string meaning_of_register(const LdMatrix& move, int reg) {
  const int each = move.registers_per_matrix(), matrix = reg / each;
  const std::string rows = fmt::format("matrix {}, rows at the addresses of T{}-T{}", matrix,
                                       address_thread(move, matrix, 0), address_thread(move, matrix, move.rows() - 1));
  switch (move.shape) {
    case LdMatrixShape::m8n16: return rows + "; T4g+q: row g, columns 4q..4q+3 in bytes 0..3";
    case LdMatrixShape::m16n16:
      return fmt::format("{}; T4g+q: rows 4q..4q+3 in bytes 0..3, column {}", rows, reg % each == 0 ? "g" : "g+8");
    case LdMatrixShape::m16n8: return rows + "; T4g+q: rows 2q, 2q+1, column g in bytes 0, 1 and g+8 in bytes 2, 3";
    case LdMatrixShape::m8n8: break;
  }
  return rows + (move.transposed ? "; T4g+q: rows 2q, 2q+1 of column g" : "; T4g+q: row g, columns 2q, 2q+1");
}

/// A row of the report for every register of ldmatrix or stmatrix.
void add_registers_of_matrices(std::vector<ReportRow>& rows, const SupportInstruction& instruction) {
  if (instruction.info->name != "ldmatrix" && instruction.info->name != "stmatrix") return;
  const LdMatrix move = parse_ldmatrix(instruction.mnemonic);
  const auto vector =
      std::ranges::find_if(instruction.operands, [](const std::string& operand) { return operand.starts_with('{'); });
  if (vector != instruction.operands.end()) {
    const std::vector<std::string> registers = split_list(vector->substr(1, vector->find('}') - 1), ",");
    for (size_t i = 0; std::ssize(registers) == move.registers() && i < registers.size(); ++i) {
      const size_t first = registers[i].find_first_not_of(' ');
      rows.push_back({"", printable(registers[i].substr(std::min(first, registers[i].size()))),
                      meaning_of_register(move, static_cast<int>(i))});
    }
  }
  if (move.packed_bits != 0) {
    rows.push_back({"", "codes",
                    fmt::format("in bits {}:0 of their bytes; mma.sync .kind::f8f6f4 reads {}", move.packed_bits - 1,
                                move.packed_bits == 4 ? "an e2m1 in bits 5:2: shift left by 2" : "them there")});
  }
}

DecodedPtx decode_support_instruction(const std::string& text, std::optional<Target> target) {
  const SupportInstruction instruction = parse_support_instruction(text);
  const SupportInstructionInfo& row = *instruction.info;
  const Target usual = row.targets.contains(Target::sm_90a) ? Target::sm_90a : row.targets.first();
  DecodedPtx decoded{.guard = instruction.guard, .mnemonic = instruction.mnemonic, .target = target.value_or(usual)};
  decoded.alike = instruction.mnemonic;
  for (const std::string& operand : instruction.operands) {
    if (operand.find_first_not_of("0123456789") == std::string::npos) decoded.alike += " " + operand;
  }
  decoded.violations = violations_of(instruction, decoded.target);
  const std::string since = row.ptx > PtxVersion{} ? fmt::format("{}.{}", row.ptx.major, row.ptx.minor) : "";
  std::vector<ReportRow> rows{
      {"does", "does", meaning_of(instruction)},
      {"orders", "order", row.orders},
      {"targets", "has it", print(row.targets)},
      {"", "since", since.empty() ? "" : "PTX ISA " + since},
      {"source", "written", row.source,
       fmt::format("{} [{}]", row.operands.empty() ? "no operands" : row.operands, row.source)}};
  if (!since.empty()) rows.push_back({"ptx", "", since});
  if (decoded.violations.empty()) add_registers_of_matrices(rows, instruction);
  Report operands;
  for (const NamedOperand& operand : named_operands(instruction)) {
    operands.append(printable(operand.text));
    if (!operand.meaning.empty())
      rows.push_back({"", std::string(operand.name), fmt::format("{}: {}", shortened(operand.text), operand.meaning)});
  }
  decoded.report.add_rows(rows);
  if (operands != Report()) decoded.report.add("operands", std::move(operands));
  return decoded;
}

/// Every violation of the instruction as written. Fields of an instruction descriptor are not checked: they hold the
/// default of the kind.
std::vector<Violation> illegal_in(Instruction instruction, bool is_mnemonic, Target target) {
  // .ashift needs A in Tensor Memory, which only the operands show.
  if (is_mnemonic && is_mma(instruction) && mma_of(instruction).repeats_last_rows)
    instruction = with_a_source(instruction, OperandSource::tmem);
  return violations_of(instruction, target);
}

/// The kind of an instruction that takes an instruction descriptor.
std::optional<MmaKind> kind_of(const Instruction& instruction) {
  const Form* form = has_instruction_descriptor(instruction) ? find_form(instruction) : nullptr;
  return form ? form->kind : std::nullopt;
}

/// The number that is given in place of a register.
std::optional<uint64_t> number_in(const StatementOperand& operand) {
  if (operand.text.empty() || operand.text[0] < '0' || operand.text[0] > '9') return std::nullopt;
  const auto word = read_word(operand.text);
  if (!word || !word->is_guess) return word ? std::optional(word->value) : std::nullopt;
  // A debugger omits 0x; PTX does not.
  uint64_t number = 0;
  const char* const last = operand.text.data() + operand.text.size();
  const auto [end, error] = std::from_chars(operand.text.data(), last, number, operand.text[0] == '0' ? 8 : 10);
  return error == std::errc{} && end == last ? std::optional(number) : std::nullopt;
}

/// Decodes a shared-memory descriptor that is written as a number. Throws Error if it is invalid.
std::string print_descriptor(Target target, uint64_t word) {
  const SmemDescriptor descriptor = decode_smem_descriptor(target, word);
  return fmt::format("start {:#x}, LBO {}, SBO {}, swizzle {}", descriptor.start_address_bytes,
                     descriptor.strides.leading_dim_byte_offset, descriptor.strides.stride_dim_byte_offset,
                     info(descriptor.swizzle).name);
}

/// The instruction descriptor, if the statement has it as a number, or if the file moves a number into the register
/// that the statement names.
std::optional<uint32_t> idesc_in(const Statement& statement, const PtxFile& file) {
  if (!kind_of(statement.instruction)) return std::nullopt;
  for (const StatementOperand& operand : statement.operands) {
    if (operand.name != "idesc") continue;
    if (const auto number = number_in(operand)) {
      if (*number > 0xFFFFFFFF)
        throw Error({.code = ViolationCode::malformed,
                     .field = "idesc",
                     .seen = shortened(operand.text),
                     .expected = "a 32-bit number"});
      return static_cast<uint32_t>(*number);
    }
    if (const auto number = file.constants.find(operand.text); number != file.constants.end())
      return static_cast<uint32_t>(number->second);  // may be negative: 32-bit PTX constants are signed
  }
  return std::nullopt;
}

/// True for a placeholder of inline PTX: "%12".
bool is_placeholder(std::string_view text) {
  return text.size() > 1 && text[0] == '%' && text.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

/// Like parse_ptx_statement. In inline PTX the last operands may be placeholders of C++ constants, so that immediates
/// are unknown. The instruction then has 1 for each, which is legal for every immediate.
Statement parse_with_placeholders(const std::string& text) {
  std::vector<std::string> replaced;
  std::string changed = text;
  while (true) {
    try {
      Statement statement = parse_ptx_statement(changed);
      std::vector<StatementOperand>& operands = statement.operands;
      for (size_t i = 0; i < replaced.size() && i < operands.size(); ++i) {
        StatementOperand& operand = operands[operands.size() - 1 - i];
        operand.text = replaced[i];
        operand.value.reset();
      }
      return statement;
    } catch (const Error&) {
      // The last operand that is still a placeholder: ", %12" before the replaced ones.
      size_t end = changed.size();
      for (size_t i = 0; i < replaced.size(); ++i) end = changed.rfind(',', end - 1);
      const size_t comma = end == 0 ? std::string::npos : changed.rfind(',', end - 1);
      if (comma == std::string::npos) throw;
      size_t first = comma + 1;
      while (first < end && changed[first] == ' ') ++first;
      size_t last = end;
      while (last > first && (changed[last - 1] == ' ' || changed[last - 1] == ';')) --last;
      const std::string operand = changed.substr(first, last - first);
      if (!is_placeholder(operand)) throw;
      changed.replace(first, last - first, "1");
      replaced.push_back(operand);
    }
  }
}

/// The instruction names that `decode` accepts: "wgmma.mma_async", "tcgen05.wait::ld", "ldmatrix".
std::vector<std::string> names_of_instructions() {
  std::vector<std::string> names{"wgmma.mma_async", "mma.sync",   "tcgen05.mma",  "tcgen05.ld",
                                 "tcgen05.st",      "tcgen05.cp", "tcgen05.shift"};
  for (const SupportInstructionInfo& row : support_instructions()) {
    if (std::ranges::find(names, row.name) == names.end()) names.emplace_back(row.name);
  }
  return names;
}

/// Throws Error unless the mnemonic starts with a name that `decode` accepts; the error names the wrong word and
/// suggests the nearest. Otherwise the grammar of an arbitrary family would report it.
void require_known_name(std::string_view mnemonic) {
  const std::string_view first = mnemonic.substr(0, mnemonic.find('.'));
  const std::string_view second = mnemonic.substr(std::min(first.size() + 1, mnemonic.size()));
  const std::string_view second_word = second.substr(0, second.find('.'));
  std::vector<std::string> firsts, seconds;
  for (const std::string& name : names_of_instructions()) {
    const std::string begin = name.substr(0, name.find('.'));
    if (std::ranges::find(firsts, begin) == firsts.end()) firsts.push_back(begin);
    if (begin == first) seconds.push_back(name.substr(std::min(begin.size() + 1, name.size())));
  }
  const auto refuse = [](std::string_view seen, std::string expected, const std::string& meant) {
    throw Error({.code = ViolationCode::malformed,
                 .field = "instruction",
                 .seen = seen.empty() ? "(nothing)" : shortened(seen),
                 .expected = std::move(expected),
                 .fix = meant.empty() ? "" : fmt::format("did you mean {}?", meant)});
  };
  if (first == "wmma" || find_sass(first)) static_cast<void>(parse_instruction(mnemonic));  // throws what it is
  if (seconds.empty()) {
    std::string small(first);
    std::ranges::transform(small, small.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const bool is_known = std::ranges::find(firsts, small) != firsts.end();
    refuse(first, fmt::format("a mnemonic that begins with {}", fmt::join(firsts, ", ")),
           is_known ? small + ", in small letters" : nearest(first, firsts));
  }
  if (first == "mma" || std::ranges::find(seconds, second_word) != seconds.end()) return;  // accepts mma.sp.sync too
  refuse(second_word, fmt::format(".{} after {}", fmt::join(seconds, ", ."), first), nearest(second_word, seconds));
}

/// Throws Error for unreadable text; `violations` lists what is readable but illegal.
/// `file` supplies registers that hold numbers. The scanner has already removed a statement's semicolon.
DecodedPtx decode_statement(const std::string& text, bool is_statement, std::optional<Target> target,
                            const PtxFile& file = {}) {
  const std::string_view bare = without_guard(text);
  const std::string mnemonic(mnemonic_in(bare));
  if (find_support_instruction(mnemonic)) return decode_support_instruction(is_statement ? text + ";" : text, target);
  require_known_name(mnemonic);
  const bool is_mnemonic = bare.size() == mnemonic.size();
  Statement statement;
  if (is_mnemonic) statement.instruction = parse_instruction(mnemonic);
  else statement = parse_with_placeholders(text);
  const Instruction& instruction = statement.instruction;
  DecodedPtx decoded{
      .guard = statement.guard, .mnemonic = print(instruction), .target = target.value_or(default_target(instruction))};
  std::optional<uint32_t> idesc;
  try {
    idesc = idesc_in(statement, file);
    decoded.violations =
        illegal_in(idesc ? with_immediate(instruction, "idesc", *idesc) : instruction, is_mnemonic, decoded.target);
  } catch (const Error& error) {
    decoded.violations = error.violations();  // violations of the descriptor
  }
  decoded.alike = decoded.mnemonic;
  std::vector<std::vector<std::string>> operands;
  for (const StatementOperand& operand : statement.operands) {
    operands.push_back({std::string(operand.name), text_of(operand), meaning_of(operand)});
    const auto number = operand.kind == OperandKind::descriptor ? number_in(operand) : std::nullopt;
    if (number && operand.name.ends_with("-desc") && !operand.name.starts_with("zero")) {
      try {
        operands.back()[2] = print_descriptor(decoded.target, *number);
        decoded.alike += fmt::format(" {}={}", operand.name, operand.text);
      } catch (const Error& error) {
        decoded.violations.insert(decoded.violations.end(), error.violations().begin(), error.violations().end());
      }
    }
    if (idesc && number && operand.name == "idesc") {
      operands.back()[2] = "the instruction descriptor; shape and types are shown above";
      decoded.alike += fmt::format(" idesc={:#010x}", *idesc);
    } else if (idesc && operand.name == "idesc") {
      operands.back()[1] += fmt::format(" = {:#010x}", *idesc);
      decoded.alike += operands.back()[1].substr(operand.text.size());
    }
    if (operand.kind == OperandKind::immediate || operand.value)
      decoded.alike += fmt::format(" {}={}", operand.name, operand.text);
  }
  if (!decoded.violations.empty()) return decoded;
  decoded.report = describe_in_detail(instruction, decoded.target, is_mnemonic ? nullptr : &statement.operands);
  if (is_mnemonic) return decoded;
  decoded.report.add("operands", describe_operands(statement.operands));
  if (idesc) {
    const InstructionDescriptor descriptor = decode_instruction_descriptor(*kind_of(instruction), *idesc);
    decoded.report.add("idesc", describe(InstructionWord{descriptor.kind, decoded.target}, *idesc));
    decoded.report.add_text(print_shape_and_types(descriptor));
  }
  decoded.report.add_text(operands);
  if (const std::vector<Violation> repeated = repeated_registers(statement.operands); !repeated.empty()) {
    decoded.report.add_warnings(repeated);
    for (const Violation& warning : repeated) decoded.alike += " " + print(warning);
  }
  return decoded;
}

/// Mnemonic and target first, then the description.
Report report_of(const DecodedPtx& decoded) {
  Report report{{"instruction", decoded.mnemonic}, {"target", print(decoded.target)}};
  if (!decoded.guard.empty()) report.add("guard", decoded.guard);
  return report;
}

std::string with_guard(const DecodedPtx& decoded) {
  return decoded.guard.empty() ? decoded.mnemonic : decoded.guard + " " + decoded.mnemonic;
}

/// The target of a file's instructions, and the remark to print about it.
struct FileTarget {
  std::optional<Target> target = {};  // nothing: the default of each instruction
  std::string remark = {};
};

/// True if every readable instruction is legal on the target.
bool takes_all(const PtxFile& file, Target target) {
  return std::ranges::all_of(file.statements, [&](const PtxStatement& statement) {
    try {
      return decode_statement(statement.text, true, target).violations.empty();
    } catch (const Error&) {
      return true;  // legal on every target
    }
  });
}

FileTarget target_of(const PtxFile& file, std::optional<Target> chosen) {
  if (chosen) return {.target = chosen, .remark = fmt::format("target {}", print(*chosen))};
  if (file.target.empty()) return {.remark = "no .target: each instruction is checked against its own default target"};
  const auto named = target_named(file.target);
  if (!named)
    return {.remark = fmt::format("unknown .target {}: each instruction is checked against its own default target",
                                  shortened(file.target))};
  const auto with_a = target_named(file.target + "a");
  if (with_a && !takes_all(file, *named) && takes_all(file, *with_a)) {
    return {
        .target = with_a,
        .remark = fmt::format("target {}: the file says .target {}, which lacks some of its instructions; compilers "
                              "pass such files to ptxas as {}",
                              print(*with_a), print(*named), print(*with_a))};
  }
  return {.target = named, .remark = fmt::format("target {}", print(*named))};
}

/// The part of a CUTLASS atom's name that follows the mnemonic.
std::string a_source_of(const Instruction& instruction) {
  const Mma mma = mma_of(instruction);
  return mma.b_source == OperandSource::registers   ? "A and B in registers"
         : mma.a_source == OperandSource::registers ? "A in registers, B in shared memory"
         : mma.a_source == OperandSource::tmem      ? "A in Tensor Memory, B in shared memory"
                                                    : "A and B in shared memory";
}

/// The effect of an atom's template arguments: types, shape and scales as written, majors and signs in words.
std::string print_arguments(const CutlassAtom& atom) {
  const Mma mma = mma_of(atom.instruction);
  const auto text_of_parameter = [&](std::string_view name) {
    const auto row = std::ranges::find(atom.arguments, name, &CutlassArgument::parameter);
    return row == atom.arguments.end() ? std::string() : row->text;
  };
  const auto has = [&](std::string_view name) { return !text_of_parameter(name).empty(); };
  std::vector<std::string> parts;
  if (has("c_type"))
    parts.push_back(fmt::format("A {}, B {}, D {}", text_of_parameter("a_type"), text_of_parameter("b_type"),
                                text_of_parameter("c_type")));
  if (has("sf_type")) parts.push_back(fmt::format("scales {}", text_of_parameter("sf_type")));
  if (has("VS")) parts.push_back(fmt::format("a scale for {} elements", text_of_parameter("VS")));
  if (has("N")) parts.push_back(fmt::format("M = {}, N = {}", mma.m, mma.n));
  if (has("b_major"))
    parts.push_back(fmt::format("A {}-major, B {}-major", mma.a_major == Major::k ? "K" : "MN",
                                mma.b_major == Major::k ? "K" : "MN"));
  if (mma.negate_a) parts.emplace_back("-A");
  if (mma.negate_b) parts.emplace_back("-B");
  if (has("c_sat") && mma.saturate) parts.emplace_back("D saturates");
  if (has("ScaleC")) parts.push_back(fmt::format("D * 2^-{} is added", mma.scale_input_d));
  if (has("spsel")) parts.push_back(fmt::format("sparsity selector {}", mma.sparsity_selector));
  return printable(fmt::format("{}", fmt::join(parts, "; ")));
}

/// What the mnemonic of an atom's instruction does not contain: the numbers of wgmma's immediates, tcgen05's
/// instruction descriptor. Only template arguments set them.
Report describe_settings(const CutlassAtom& atom) {
  Report report = Report::object();
  std::vector<std::string> parts;
  for (const ImmediateInfo& immediate : immediates_of(atom.instruction)) {
    if (immediate.name == "idesc") {
      const auto idesc = static_cast<uint32_t>(immediate_of(atom.instruction, immediate.name));
      const InstructionDescriptor descriptor = decode_instruction_descriptor(*kind_of(atom.instruction), idesc);
      report.add("idesc", idesc);
      report.add_text(fmt::format("instruction descriptor {:#010x}: {}", idesc, print_shape_and_types(descriptor)));
    } else if (!immediate.by_case) {
      const int64_t value = immediate_of(atom.instruction, immediate.name);
      report.add(std::string(immediate.name), value);
      parts.push_back(fmt::format("{} = {}", immediate.name, value));
    }
  }
  if (!parts.empty()) report.add_text(fmt::format("immediates: {}", fmt::join(parts, ", ")));
  return report;
}

/// Describes an atom: its instruction, legal on the architecture of the name, or on `target` if it is given.
Report describe_atom(std::string_view text, std::optional<Target> target) {
  const CutlassAtom atom = read_cutlass_atom(text);
  const Target chosen = target ? *target : atom.target.value_or(default_target(atom.instruction));
  require_legal(atom.instruction, chosen);
  const std::string mnemonic = print(atom.instruction), operands = a_source_of(atom.instruction);
  Report all = Report::list();
  all.add_text(fmt::format("{}: {}", shortened(text), operands));
  Report report{{"instruction", mnemonic}, {"target", print(chosen)}};
  report.add_text(fmt::format("{}\ntarget: {}", mnemonic, print(chosen)));
  report.update(describe_in_detail(atom.instruction, chosen, nullptr));
  report.add("atom", shortened(text)).add("operands_from", operands);
  if (!atom.arguments.empty()) {
    const std::string arguments = print_arguments(atom);
    report.add("template_arguments", arguments);
    all.add_text("its template arguments: " + arguments);
    report.update(describe_settings(atom));
  } else if (has_instruction_descriptor(atom.instruction) && info(mma_of(atom.instruction).kind.value()).is_fp4) {
    report.add_text(
        "without template arguments VS is unknown, and with it the kind: kind::mxf4nvf4 has a scale for 16 "
        "elements, kind::mxf4 one for 32");
  }
  all.append(std::move(report));
  return all;
}

}  // namespace

Report describe_ptx(std::string_view text, std::optional<Target> target) {
  if (looks_like_cutlass_atom(text)) return describe_atom(text, target);
  std::vector<std::string> statements;
  Report all = Report::list();
  for (PtxStatement& statement : scan_ptx(text).statements) statements.push_back(std::move(statement.text));
  if (statements.empty()) statements.emplace_back(text);  // reading it then fails with an error that names the text
  const bool has_semicolon = text.find(';') != std::string_view::npos;
  for (const std::string& statement : statements) {
    const DecodedPtx decoded = decode_statement(statement, has_semicolon, target);
    if (!decoded.violations.empty()) throw Error(decoded.violations);
    Report report = report_of(decoded);
    report.add_text(fmt::format("{}\ntarget: {}", with_guard(decoded), print(decoded.target)));
    report.update(decoded.report);
    all.append(std::move(report));
  }
  return all;
}

PtxFileReport describe_ptx_file(std::string_view name, std::string_view text, std::optional<Target> target,
                                bool with_instructions) {
  const PtxFile file = scan_ptx(text);
  const FileTarget chosen = target_of(file, target);
  PtxFileReport described;
  Report& report = described.report;
  Report instructions = Report::list();
  std::map<std::string, size_t> first_line;  // for each description
  std::map<std::string, int64_t> counts;     // keyed by mnemonic
  report.add_text(fmt::format("{}: {}", printable(name), chosen.remark));
  for (const PtxStatement& statement : file.statements) {
    DecodedPtx decoded;
    bool is_known = true;
    try {
      decoded = decode_statement(statement.text, true, chosen.target, file);
    } catch (const Error& error) {
      is_known = false;
      decoded.mnemonic = shortened(without_guard(statement.text).substr(0, without_guard(statement.text).find(' ')));
      decoded.violations = error.violations();
    }
    const bool is_legal = decoded.violations.empty();
    ++(is_legal ? described.legal : is_known ? described.illegal : described.not_read);
    ++described.described;
    ++counts[decoded.mnemonic];
    Report row{{"line", statement.line}, {"legal", is_legal}, {"instruction", decoded.mnemonic}};
    if (is_known) row.add("target", print(decoded.target));
    if (!decoded.guard.empty()) row.add("guard", decoded.guard);
    report.add_text(fmt::format("{}:{}: {}", printable(name), statement.line, with_guard(decoded)));
    for (const Violation& violation : decoded.violations) {
      report.add_text(fmt::format("    {}: {}", is_known ? "illegal" : "not read", print(violation)), Tone::bad);
    }
    if (is_legal) {
      const auto [first, is_new] = first_line.emplace(decoded.alike, statement.line);
      report.add_text(is_new ? indented(print(decoded.report)) : fmt::format("    as in line {}", first->second));
      decoded.report.lines.clear();  // those of the file have them
      row.update(std::move(decoded.report));
    } else {
      row.add("violations", decoded.violations);
    }
    if (with_instructions) instructions.append(std::move(row));
  }
  Report count_of = Report::object();
  std::vector<std::vector<std::string>> table{{"count", "instruction"}};
  for (const auto& [mnemonic, count] : counts) {
    count_of.add(mnemonic, count);
    table.push_back({std::to_string(count), mnemonic});
  }
  report.update({{"file", printable(name)},
                 {"version", printable(file.version)},
                 {"target", chosen.target ? Report(print(*chosen.target)) : Report()},
                 {"instructions", std::move(instructions)},
                 {"counts", std::move(count_of)},
                 {"legal", described.legal},
                 {"illegal", described.illegal},
                 {"not_read", described.not_read}});
  if (file.statements.empty()) {
    report.add_text("it contains no tensor-core instruction");
    return described;
  }
  report.add_text(table);
  report.add_text(fmt::format("{}: {} legal, {} illegal, {} not understood",
                              counted(static_cast<int64_t>(file.statements.size()), "instruction"), described.legal,
                              described.illegal, described.not_read));
  return described;
}

}  // namespace bitmma
