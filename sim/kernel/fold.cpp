// SPDX-License-Identifier: MIT
#include "fold.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "../math/f32.hpp"
#include "../math/loops.hpp"
#include "bitmma/core/bits.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/formats/ieee.hpp"
#include "bitmma/math/math_instruction.hpp"
#include "decode.hpp"
#include "flow.hpp"
#include "webs.hpp"

namespace bitmma::kernel {
namespace {

using Kind = Operand::Kind;
/// The registers with a known constant at a program point.
using Known = std::unordered_map<int, uint64_t>;
constexpr uint64_t one_f32 = 0x3F800000, minus_one_f32 = 0xBF800000;
/// Instructions that the search for constants may look at before it gives up.
constexpr uint64_t most_steps = uint64_t{1} << 23;

bool is_approximate(const PtxInstruction& instruction) { return has_one_of(instruction, {Word::approx, Word::full}); }

/// Instructions that ptxas folds if their operands are constants: those whose rows name the type. It does not fold
/// roundings other than to nearest, and those with .NaN or .xorsign. Read from SASS of ptxas 13.0, one instruction per
/// kernel: tests/kernel/fold_test.cpp.
bool is_folded(const PtxInstruction& instruction) {
  const auto type = last_type(instruction);
  if (instruction.is_refused || instruction.operands.empty() || !type || has_word(instruction, Word::cc)) return false;
  if (is_approximate(instruction)) return *type == Type::f32;
  const Opcode& row = *instruction.row;
  if (row.folds.empty()) return row.folds_if && row.folds_if(instruction);
  const bool is_other_form = info(*type).kind == TypeClass::floating &&
                             has_one_of(instruction, {Word::rz, Word::rm, Word::rp, Word::NaN, Word::xorsign});
  return row.folds.contains(*type) && !is_other_form && (!row.folds_if || row.folds_if(instruction));
}

Word type_of_bits(int bits) { return bits > 32 ? Word::b64 : bits > 16 ? Word::b32 : Word::b16; }
Operand constant_operand(uint64_t value) { return {.kind = Kind::integer, .value = value}; }
Operand register_operand(int reg) { return {.kind = Kind::reg, .reg = reg}; }
Operand result_operand(int reg) { return {.kind = Kind::reg, .role = Operand::Role::out, .reg = reg}; }

/// Replaces the known registers of an operand. False if a register is unknown, or if the operand has no value.
bool replace_known(Operand& operand, const Known& known) {
  switch (operand.kind) {
    case Kind::integer:
    case Kind::real: return true;
    case Kind::vector:
      return std::ranges::all_of(operand.elements, [&](Operand& element) { return replace_known(element, known); });
    case Kind::reg: {
      const auto entry = known.find(operand.reg);
      if (entry == known.end() || !operand.selector.empty()) return false;
      operand = constant_operand(operand.negated ? entry->second ^ 1 : entry->second);
      return true;
    }
    default: return false;
  }
}

/// The entry in which append(i, result) has replaced each instruction i.
template <typename Append>
Entry rewritten(const Entry& entry, const Append& append) {
  Entry result = entry;
  result.instructions.clear();
  result.labels.clear();
  std::vector<int> place;  // index of each old instruction in the result
  for (int i = 0; i < std::ssize(entry.instructions); ++i) {
    place.push_back(static_cast<int>(result.instructions.size()));
    append(i, result);
  }
  place.push_back(static_cast<int>(result.instructions.size()));
  for (const auto& [at, name] : entry.labels) result.labels.emplace(place[static_cast<size_t>(at)], name);
  for (PtxInstruction& instruction : result.instructions) {
    if (is_branch(instruction) && !instruction.operands.empty() && instruction.operands.back().target >= 0)
      instruction.operands.back().target = place[static_cast<size_t>(instruction.operands.back().target)];
  }
  return result;
}

class Folder {
 public:
  Folder(const Entry& entry, Target target)
      : entry_(entry), target_(target), flow_(flow_of(entry)), live_(live_registers(entry, flow_)) {}

  Entry fold() {
    find_late_registers();
    find_constants();
    return rewritten(entry_, [this](int i, Entry& result) {
      const auto block = static_cast<size_t>(flow_.block_of[static_cast<size_t>(i)]);
      if (!is_reached_[block]) return;
      if (i == flow_.blocks[block].begin) known_ = known_at_begin(block);
      append(i, known_, result);
    });
  }

 private:
  const PtxInstruction& at(int index) const { return entry_.instructions[static_cast<size_t>(index)]; }

  /// Whether the guard holds, if it is known.
  static std::optional<bool> guard_of(const PtxInstruction& instruction, const Known& known) {
    if (instruction.guard < 0) return true;
    const auto entry = known.find(instruction.guard);
    if (entry == known.end()) return std::nullopt;
    return (entry->second != 0) != instruction.guard_negated;
  }

  /// Registers whose values come from div.approx, or from an approximation that scales subnormal numbers. ptxas folds
  /// those after it has made additions of abs.ftz and neg.ftz, which it does not fold then. Read from SASS:
  /// tests/kernel/fold_test.cpp.
  void find_late_registers() {
    is_late_.resize(entry_.registers.size());
    for (bool is_complete = false; !is_complete;) {
      is_complete = true;
      for (const PtxInstruction& instruction : entry_.instructions) {
        if (instruction.is_refused || instruction.operands.empty() || instruction.operands[0].kind != Kind::reg)
          continue;
        const bool is_late = has_word(instruction, Word::approx) &&
                             (instruction.row->contraction == Contraction::quotient ||
                              (instruction.row->scales_subnormal && !has_word(instruction, Word::ftz)));
        const auto reg = static_cast<size_t>(instruction.operands[0].reg);
        if (is_late_[reg] || !(is_late || reads_late(instruction))) continue;
        is_late_[reg] = true, is_complete = false;
      }
    }
  }
  bool reads_late(const PtxInstruction& instruction) const {
    bool reads = false;
    for_each_register(std::span(instruction.operands).subspan(1),
                      [&](const Operand& operand) { reads = reads || is_late_[static_cast<size_t>(operand.reg)]; });
    return reads;
  }
  bool can_fold(const PtxInstruction& instruction) const {
    const bool changes_sign = instruction.row->passes == Passes::negated || instruction.row->passes == Passes::absolute;
    return is_folded(instruction) && !(changes_sign && has_word(instruction, Word::ftz) && reads_late(instruction));
  }

  /// Values of the registers that an instruction writes; nothing if they are unknown.
  std::optional<Known> values_of(const PtxInstruction& instruction, const Known& known) const {
    if (!can_fold(instruction)) return std::nullopt;
    PtxInstruction constant = instruction;
    constant.guard = -1;
    if (const auto chosen = chosen_operand(instruction, known); chosen > 0) {
      constant.operands = {instruction.operands[0], instruction.operands[chosen]};
      become(constant, {Word::mov, instruction.words.back()});
    }
    for (size_t i = 1; i < constant.operands.size(); ++i) {
      if (!replace_known(constant.operands[i], known)) return std::nullopt;
    }
    if (is_approximate(instruction)) return approximation_of(constant);
    if (const auto value = compile_time_result(constant)) return Known{{instruction.operands[0].reg, *value}};
    return evaluated(constant);
  }

  /// Results of constants that differ from those of the instruction, which returns the GPU's own NaN: ptxas changes the
  /// sign of a NaN, takes x for x * 1 and for the smaller of x and x, and makes other NaNs quiet. Measured on an H100:
  /// data/kernels/instructions.py.
  static std::optional<uint64_t> compile_time_result(const PtxInstruction& constant) {
    const auto type = last_type(constant);
    const Opcode& row = *constant.row;
    if (!type || constant.operands[0].kind != Kind::reg || constant.operands.size() < 2) return std::nullopt;
    const bool is_f64 = type == Type::f64;
    const auto is_word_of = [&](const Operand& operand) {
      return operand.kind == Kind::integer || operand.is_double == is_f64;
    };
    if (!std::ranges::all_of(std::span(constant.operands).subspan(1), is_word_of)) return std::nullopt;
    const uint64_t x = constant.operands[1].value;
    const bool negates = row.passes == Passes::negated, clears_sign = row.passes == Passes::absolute;
    if ((negates || clears_sign) && type == Type::f16x2)
      return static_cast<uint32_t>(negates ? x ^ 0x80008000 : x & 0x7FFF7FFF);
    if (is(constant, {Word::cvt, Word::f32, Word::bf16}) && (x & 0x7FFF) > 0x7F80) return 0x7FFFFFFF;
    if (type != Type::f32 && type != Type::f64) return std::nullopt;
    const uint64_t sign = is_f64 ? uint64_t{1} << 63 : uint64_t{1} << 31,
                   infinity = is_f64 ? 0x7FF0000000000000 : 0x7F800000, quiet = is_f64 ? 0 : 0x00400000;
    if (is(constant, {Word::mul, Word::ftz, Word::f32})) {
      // The product of infinity and a subnormal number: ptxas does not flush the number.
      const uint64_t y = constant.operands[2].value;
      const auto is_subnormal = [](uint64_t word) { return (word & 0x7F800000) == 0 && (word & 0x7FFFFF) != 0; };
      const auto is_infinite = [&](uint64_t word) { return (word & (sign - 1)) == infinity; };
      if ((is_infinite(x) && is_subnormal(y)) || (is_infinite(y) && is_subnormal(x)))
        return ((x ^ y) & sign) | infinity;
    }
    if ((x & (sign - 1)) <= infinity) return std::nullopt;
    if (negates) return (x ^ sign) | quiet;
    if (clears_sign) return (x & ~sign) | quiet;
    if (is(constant, {Word::cvt, Word::ftz, Word::f32, Word::f32})) return x | quiet;
    if (is_f64 || constant.operands.size() != 3) return std::nullopt;
    const uint64_t y = constant.operands[2].value;
    if (row.contraction == Contraction::product && !has_word(constant, Word::ftz) && y == one_f32) return x;
    if (row.is_idempotent && x == y) return has_word(constant, Word::ftz) ? x | quiet : x;
    return std::nullopt;
  }

  /// The operand that a selp with a known predicate selects; 0 if there is none.
  static size_t chosen_operand(const PtxInstruction& instruction, const Known& known) {
    if (!instruction.row->selects || instruction.operands.size() != 4 || instruction.operands[0].kind != Kind::reg)
      return 0;
    Operand predicate = instruction.operands[3];
    if (!replace_known(predicate, known)) return 0;
    return (predicate.value & 1) != 0 ? 1 : 2;
  }

  static std::optional<uint32_t> word_of(const Operand& operand) {
    if (operand.kind == Kind::real && operand.is_double) return std::nullopt;
    return static_cast<uint32_t>(operand.value);
  }

  static std::optional<Known> approximation_of(const PtxInstruction& statement) {
    if (last_type(statement) != Type::f32 || statement.operands[0].kind != Kind::reg) return std::nullopt;
    const MathInstruction instruction = parse_math_instruction(statement.opcode);
    const std::optional<uint32_t> a = word_of(statement.operands[1]);
    if (!a || statement.operands.size() != 1 + static_cast<size_t>(operand_count(instruction.operation)))
      return std::nullopt;
    if (instruction.operation != MathOperation::div) {
      const auto result = math::folded_result(instruction, *a);
      if (!result) return std::nullopt;
      return Known{{statement.operands[0].reg, *result}};
    }
    const std::optional<uint32_t> b = word_of(statement.operands[2]);
    const auto divisor = b ? math::folded_divisor(instruction, *b) : std::nullopt;
    if (!divisor) return std::nullopt;
    const MathInstruction product{.operation = MathOperation::mul, .ftz = instruction.ftz};
    const uint64_t scaled = math::compute_known(product, *a, divisor->second, 0);
    return Known{{statement.operands[0].reg, math::compute_known(product, scaled, divisor->first, 0)}};
  }

  /// The results of an instruction whose operands are all constants; the executor runs it alone.
  std::optional<Known> evaluated(PtxInstruction instruction) const {
    std::vector<int> results;
    for_each_register(std::span(instruction.operands).first(1),
                      [&](const Operand& operand) { results.push_back(operand.reg); });
    Module module;
    module.entries.emplace_back();
    Entry& alone = module.entries.back();
    for (const int reg : results) alone.registers.push_back(entry_.registers[static_cast<size_t>(reg)]);
    int next = 0;
    for_each_register(std::span(instruction.operands).first(1), [&](Operand& operand) { operand.reg = next++; });
    alone.instructions.push_back(std::move(instruction));
    try {
      Decoder decoder(module, alone, target_, {});
      const Program program = decoder.decode();
      std::vector<uint8_t> file(program.file_bytes + 64);
      Warp warp;
      warp.file = reinterpret_cast<uint8_t*>(round_up(reinterpret_cast<intptr_t>(file.data()), 64));
      for (const Program::Constant& constant : program.constants) {
        if (constant.bytes == 0) warp.mask_of(constant.slot) = static_cast<Mask>(constant.value);
        else if (constant.bytes == 4) *warp.lanes_of<uint32_t>(constant.slot) = static_cast<uint32_t>(constant.value);
        else *warp.lanes_of<uint64_t>(constant.slot) = constant.value;
      }
      for (const Op& op : program.ops) {
        if (op.control == Control::none) op.run(warp, op, 1);
      }
      Known values;
      for (size_t i = 0; i < results.size(); ++i) {
        const int bits = info(alone.registers[i].type).bits;
        const uint32_t slot = program.register_slots[i];
        if (bits > 64) return std::nullopt;
        values[results[i]] = bits == 1    ? warp.mask_of(slot) & 1
                             : bits <= 32 ? *warp.lanes_of<const uint32_t>(slot)
                                          : *warp.lanes_of<const uint64_t>(slot);
      }
      return values;
    } catch (const Error&) {
      return std::nullopt;  // decoding the entry refuses this instruction
    }
  }

  /// Updates the known registers after an instruction.
  void step(const PtxInstruction& instruction, Known& known) const {
    const std::optional<bool> guard = guard_of(instruction, known);
    if (guard == false) return;
    std::optional<Known> values;
    if (guard) values = values_of(instruction, known);
    if (values) {
      for (const auto& [reg, value] : *values) known[reg] = value;
      return;
    }
    for_each_register(instruction.operands, [&](const Operand& operand) {
      if (operand.role != Operand::Role::in) known.erase(operand.reg);
    });
  }

  Known known_at_begin(size_t block) const { return {at_begin_[block].begin(), at_begin_[block].end()}; }

  void reach(int block, const Known& known) {
    const auto b = static_cast<size_t>(block);
    if (!is_reached_[b]) {
      is_reached_[b] = true;
      for (const int reg : live_[b]) {
        if (const auto value = known.find(reg); value != known.end()) at_begin_[b].emplace_back(*value);
      }
    } else {
      const size_t removed = std::erase_if(at_begin_[b], [&](const auto& row) {
        const auto other = known.find(row.first);
        return other == known.end() || other->second != row.second;
      });
      if (removed == 0) return;
    }
    work_.insert(block);
  }

  /// Conditional constant propagation, Wegman and Zadeck (1991).
  void find_constants() {
    is_reached_.resize(flow_.blocks.size());
    at_begin_.resize(flow_.blocks.size());
    reach(0, {});
    // Calls reach the subroutines, of whose registers nothing is known.
    for (int i = 1; i < std::ssize(entry_.instructions); ++i) {
      if (at(i).subroutine != at(i - 1).subroutine) reach(flow_.block_of[static_cast<size_t>(i)], {});
    }
    while (!work_.empty()) {
      const int index = *work_.begin();
      work_.erase(work_.begin());
      const Block& block = flow_.blocks[static_cast<size_t>(index)];
      steps_ += static_cast<uint64_t>(block.end - block.begin) + at_begin_[static_cast<size_t>(index)].size();
      if (steps_ > most_steps) {
        throw Error({.code = ViolationCode::unsupported_ptx,
                     .field = fmt::format("PTX line {}", entry_.line),
                     .seen = fmt::format("constants that take more than {} steps to find", most_steps),
                     .expected = "a smaller kernel"});
      }
      Known known = known_at_begin(static_cast<size_t>(index));
      for (int i = block.begin; i + 1 < block.end; ++i) step(at(i), known);
      const PtxInstruction& last = at(block.end - 1);
      const std::optional<bool> guard = guard_of(last, known);
      step(last, known);
      const bool is_decided = is_branch(last) && last.guard >= 0 && guard;
      const int target = is_branch(last) && !last.operands.empty() ? last.operands.back().target : -1;
      for (const int next : block.successors) {
        const bool is_target = target >= 0 && flow_.blocks[static_cast<size_t>(next)].begin == target;
        if (!is_decided || is_target == *guard || (is_target && target == block.end)) reach(next, known);
      }
    }
  }

  /// Appends what replaces an instruction, and updates the known registers.
  void append(int index, Known& known, Entry& result) const {
    PtxInstruction instruction = at(index);
    // What the operands are before the instruction, which may overwrite them.
    const std::optional<bool> guard = guard_of(instruction, known);
    if (guard == false) return;
    if (guard) instruction.guard = -1;
    // With a constant operand ptxas may emit no slow path, and thus no branch.
    if (!instruction.is_refused && instruction.operands.size() == 2 && ends_block(instruction)) {
      PtxInstruction of_constant = instruction;
      if (replace_known(of_constant.operands[1], known) && !ends_block(of_constant)) instruction = of_constant;
    }
    const size_t chosen = instruction.is_refused ? 0 : chosen_operand(instruction, known);
    std::optional<Operand> divisor;
    if (!instruction.is_refused && instruction.row->contraction == Contraction::quotient &&
        instruction.operands.size() == 3) {
      divisor = instruction.operands[2];
      if (!replace_known(*divisor, known)) divisor.reset();
    }
    const auto unit = unit_factor_of(instruction, known);
    step(at(index), known);
    if (is_branch(instruction) && instruction.guard < 0 && is_next_reached(instruction, index)) return;
    const bool writes_one = !instruction.operands.empty() && instruction.operands[0].kind == Kind::reg;
    const Type type = writes_one ? entry_.registers[static_cast<size_t>(instruction.operands[0].reg)].type : Type::pred;
    const int bits = info(type).bits;
    if (instruction.guard >= 0 || !can_fold(instruction) || type == Type::pred || bits > 64) {
      result.instructions.push_back(std::move(instruction));
      return;
    }
    if (chosen > 0) {
      instruction.operands = {instruction.operands[0], instruction.operands[chosen]};
      become(instruction, {Word::mov, instruction.words.back()});
    } else if (const auto value = known.find(instruction.operands[0].reg); value != known.end()) {
      instruction.operands = {instruction.operands[0], constant_operand(value->second)};
      become(instruction, {Word::mov, type_of_bits(bits)});
    } else if (instruction.row->contraction == Contraction::quotient && is_approximate(instruction)) {
      return append_quotient(std::move(instruction), divisor, result);
    } else if (unit) {
      instruction.operands.pop_back();
      if (*unit == one_f32) become(instruction, {Word::mov, Word::b32});
      else become(instruction, {Word::neg, Word::f32});
    }
    result.instructions.push_back(std::move(instruction));
  }

  /// 1 or -1 if it is the second factor of an f32 product: ptxas emits a copy or a sign change, which keep NaNs.
  static std::optional<uint64_t> unit_factor_of(const PtxInstruction& product, const Known& known) {
    if (product.is_refused || !is(product, {Word::mul, Word::f32}) || product.operands.size() != 3) return std::nullopt;
    Operand factor = product.operands[2];
    if (!replace_known(factor, known) || factor.is_double) return std::nullopt;
    if (factor.value != one_f32 && factor.value != minus_one_f32) return std::nullopt;
    return factor.value;
  }

  /// Whether the branch leads to the next reachable instruction anyway.
  bool is_next_reached(const PtxInstruction& branch, int index) const {
    const int target = branch.operands.empty() ? -1 : branch.operands.back().target;
    if (target <= index) return false;
    for (int i = index + 1; i < target; ++i) {
      if (is_reached_[static_cast<size_t>(flow_.block_of[static_cast<size_t>(i)])]) return false;
    }
    return true;
  }

  /// Replaces a quotient by a constant with a product by its reciprocal.
  static void append_quotient(PtxInstruction statement, const std::optional<Operand>& divisor, Entry& result) {
    const std::optional<uint32_t> b = divisor ? word_of(*divisor) : std::nullopt;
    const MathInstruction instruction = parse_math_instruction(statement.opcode);
    const auto factors = b ? math::folded_divisor(instruction, *b) : std::nullopt;
    if (!factors) {
      result.instructions.push_back(std::move(statement));
      return;
    }
    const auto as_product = [&](bool rounded) {
      std::vector<Word> words{Word::mul};
      if (rounded) words.push_back(Word::rn);
      if (instruction.ftz) words.push_back(Word::ftz);
      words.push_back(Word::f32);
      become(statement, std::move(words));
    };
    if (factors->second != 0x3F800000) {
      const int scaled = static_cast<int>(result.registers.size());
      result.registers.push_back({.name = fmt::format("{} scaled", statement.text), .type = Type::f32});
      const Operand quotient = statement.operands[0];
      statement.operands = {result_operand(scaled), statement.operands[1], constant_operand(factors->second)};
      as_product(true);
      result.instructions.push_back(statement);
      statement.operands = {quotient, register_operand(scaled), constant_operand(factors->first)};
    } else {
      statement.operands[2] = constant_operand(factors->first);
    }
    as_product(false);
    result.instructions.push_back(std::move(statement));
  }

  const Entry& entry_;
  Target target_;
  Flow flow_;
  std::vector<std::vector<int>> live_;
  std::vector<bool> is_reached_ = {};  // by block
  std::vector<bool> is_late_;
  /// The known registers among those that are live, in ascending order.
  std::vector<std::vector<std::pair<int, uint64_t>>> at_begin_ = {};
  uint64_t steps_ = 0;
  std::set<int> work_ = {};
  Known known_ = {};  // at the instruction that is being rewritten
};

bool is_approximate_ftz(const PtxInstruction& instruction, Word name) {
  return !instruction.is_refused && instruction.row->name == name && last_type(instruction) == Type::f32 &&
         has_word(instruction, Word::approx) && has_word(instruction, Word::ftz);
}

/// With .ftz, ptxas replaces the reciprocal of a reciprocal by the number itself, and that of 2^x by 2^-x if 2^x has no
/// other use. Quotients with such divisors become products.
class Reciprocals {
 public:
  explicit Reciprocals(const Entry& entry) : entry_(entry) {
    const std::vector<std::vector<int>> writers = writers_of(entry);
    std::vector<int> reads(entry.registers.size());
    for (const PtxInstruction& instruction : entry.instructions) {
      if (instruction.guard >= 0) ++reads[static_cast<size_t>(instruction.guard)];
      for_each_register(instruction.operands, [&](const Operand& operand) {
        if (operand.role != Operand::Role::out) ++reads[static_cast<size_t>(operand.reg)];
      });
    }
    for (int i = 0; i < std::ssize(entry.instructions); ++i) {
      const PtxInstruction& outer = entry.instructions[static_cast<size_t>(i)];
      if (!is_approximate_ftz(outer, Word::rcp) && !is_approximate_ftz(outer, Word::div)) continue;
      if (outer.operands.back().kind != Kind::reg || outer.operands[0].kind != Kind::reg) continue;
      const auto divisor = static_cast<size_t>(outer.operands.back().reg);
      if (writers[divisor].size() != 1) continue;
      const int inner = writers[divisor].front();
      if (replaced_.contains(inner)) continue;
      const PtxInstruction& instruction = entry.instructions[static_cast<size_t>(inner)];
      if (instruction.guard >= 0 || instruction.operands.size() != 2) continue;
      const bool is_power = is_approximate_ftz(instruction, Word::ex2) && reads[divisor] == 1;
      if (is_power || is_approximate_ftz(instruction, Word::rcp)) inner_of_[i] = inner, replaced_.insert(i);
    }
    for (const auto& [outer, inner] : inner_of_) arguments_.emplace(inner, -1);
  }

  Entry replace() {
    if (inner_of_.empty()) return entry_;
    return rewritten(entry_, [this](int i, Entry& result) {
      PtxInstruction instruction = entry_.instructions[static_cast<size_t>(i)];
      if (const auto argument = arguments_.find(i); argument != arguments_.end()) {
        argument->second = static_cast<int>(result.registers.size());
        result.registers.push_back({.name = "argument of " + instruction.text, .type = Type::f32});
        const bool is_power = instruction.row->name == Word::ex2;
        PtxInstruction copy = instruction;
        copy.operands[0] = result_operand(argument->second);
        become(copy, {is_power ? Word::neg : Word::mov, Word::f32});
        result.instructions.push_back(std::move(copy));
        if (is_power) instruction.operands[1] = register_operand(argument->second);
      }
      if (const auto inner = inner_of_.find(i); inner != inner_of_.end()) {
        const bool is_power = entry_.instructions[static_cast<size_t>(inner->second)].row->name == Word::ex2;
        if (!is_power) instruction.operands.back() = register_operand(arguments_.at(inner->second));
        if (instruction.row->name == Word::rcp) become(instruction, {Word::mov, Word::f32});
        else become(instruction, {Word::mul, Word::ftz, Word::f32});
      }
      result.instructions.push_back(std::move(instruction));
    });
  }

 private:
  const Entry& entry_;
  std::map<int, int> inner_of_ = {};   // from a reciprocal or quotient to the instruction that computes its divisor
  std::set<int> replaced_ = {};        // instructions that are no longer reciprocals
  std::map<int, int> arguments_ = {};  // from those inner instructions to the register that keeps their argument
};

/// Sign changes that ptxas makes modifiers of an operand, so that a NaN is not that of the adder which neg and abs are
/// by themselves: it passes neg of neg and cvt.f64.f32 unchanged, and selp.f32 changes its sign. All other instructions
/// return their own NaN. ptxas sees through copies and blocks. Measured on an H100: data/kernels/instructions.py.
class SignModifiers {
 public:
  explicit SignModifiers(const Entry& entry) : entry_(entry), flow_(flow_of(entry)), writers_(writers_of(entry)) {
    for (size_t b = 0; b < flow_.blocks.size(); ++b) {
      for (const int next : flow_.blocks[b].successors) has_loops_ = has_loops_ || next <= static_cast<int>(b);
    }
  }

  Entry replace() const {
    return rewritten(entry_, [this](int i, Entry& result) {
      PtxInstruction instruction = at(i);
      std::vector<Word> signs;
      if (!instruction.is_refused) signs = replace_in(i, instruction, result);
      result.instructions.push_back(std::move(instruction));
      for (const Word name : signs) {
        PtxInstruction change = result.instructions.back();
        change.operands = {change.operands[0], change.operands[0]};
        change.operands[1].role = Operand::Role::in;
        become(change, {name, Word::f64});
        result.instructions.push_back(std::move(change));
      }
    });
  }

  static bool changes_sign(const PtxInstruction& instruction) {
    return instruction.row->passes == Passes::negated || instruction.row->passes == Passes::absolute;
  }
  static bool is_sign_change(const PtxInstruction& instruction) {
    const auto type = last_type(instruction);
    return is_between_registers(instruction) && changes_sign(instruction) && type &&
           info(*type).kind == TypeClass::floating;
  }

 private:
  /// A register and the sign changes of its value, the first change first.
  struct Source {
    int reg = -1;
    std::vector<Word> signs = {};
  };

  const PtxInstruction& at(int index) const { return entry_.instructions[static_cast<size_t>(index)]; }

  static bool is_between_registers(const PtxInstruction& instruction) {
    return !instruction.is_refused && instruction.guard < 0 && instruction.operands.size() == 2 &&
           instruction.operands[0].kind == Kind::reg && instruction.operands[1].kind == Kind::reg &&
           instruction.words.size() == 2;
  }
  /// Whether the value of the register at instruction `writer` is still there when `reader` runs.
  bool lasts(int writer, int reader) const {
    const auto block = [&](int i) { return flow_.block_of[static_cast<size_t>(i)]; };
    return writer < reader && (!has_loops_ || block(writer) == block(reader));
  }

  /// Follows copies and sign changes of one type back from an operand.
  Source source_of(int reg, int reader, Word type) const {
    Source source{.reg = reg};
    for (;;) {
      const std::vector<int>& writers = writers_[static_cast<size_t>(source.reg)];
      if (writers.size() != 1 || !lasts(writers.front(), reader)) return source;
      const PtxInstruction& writer = at(writers.front());
      const bool is_copy = is_between_registers(writer) && writer.row->passes == Passes::value;
      if (!is_copy && !(is_sign_change(writer) && writer.words.back() == type)) return source;
      const std::vector<int>& before = writers_[static_cast<size_t>(writer.operands[1].reg)];
      if (before.size() > 1 || (before.size() == 1 && !lasts(before.front(), writers.front()))) return source;
      reader = writers.front();
      source.reg = writer.operands[1].reg;
      if (!is_copy) source.signs.insert(source.signs.begin(), writer.row->name);
    }
  }

  /// Returns the sign changes that belong behind the instruction.
  std::vector<Word> replace_in(int i, PtxInstruction& instruction, Entry& result) const {
    const Word type = instruction.words.back();
    if (is_sign_change(instruction) && instruction.row->passes == Passes::negated && type != Word::bf16x2) {
      const Source source = source_of(instruction.operands[1].reg, i, type);
      if (source.signs != std::vector<Word>{Word::neg}) return {};
      instruction.operands[1].reg = source.reg;
      const int bits = info(*type_of(type)).bits;
      become(instruction, {Word::mov, type_of_bits(bits)});
    } else if (is(instruction, {Word::cvt, Word::f64, Word::f32}) && instruction.operands.size() == 2 &&
               instruction.operands[1].kind == Kind::reg && instruction.operands[0].kind == Kind::reg) {
      const Source source = source_of(instruction.operands[1].reg, i, Word::f32);
      if (source.signs.empty()) return {};
      instruction.operands[1].reg = source.reg;
      return source.signs;  // cvt is exact: the signs may as well change behind it
    } else if (is(instruction, {Word::selp, Word::f32}) && instruction.operands.size() == 4) {
      for (const size_t k : {size_t{1}, size_t{2}}) {
        Operand& operand = instruction.operands[k];
        if (operand.kind != Kind::reg) continue;
        const Source source = source_of(operand.reg, i, Word::f32);
        for (size_t s = 0; s < source.signs.size(); ++s) {
          PtxInstruction change = instruction;
          change.guard = -1;
          const int changed = static_cast<int>(result.registers.size());
          result.registers.push_back({.name = fmt::format("sign in {}", instruction.text), .type = Type::b32});
          const bool negates = source.signs[s] == Word::neg;
          change.operands = {result_operand(changed), register_operand(s == 0 ? source.reg : operand.reg),
                             constant_operand(negates ? 0x80000000 : 0x7FFFFFFF)};
          become(change, {negates ? Word::xor_ : Word::and_, Word::b32});
          result.instructions.push_back(std::move(change));
          operand.reg = changed;
        }
      }
    }
    return {};
  }

  const Entry& entry_;
  Flow flow_;
  std::vector<std::vector<int>> writers_;
  bool has_loops_ = false;
};

}  // namespace

Entry folded(const Entry& entry, Target target) {
  if (entry.instructions.empty()) return entry;
  const math::IeeeEnvironment environment;
  const Entry constant = Folder(entry, target).fold();
  Entry simplified = Reciprocals(constant).replace();
  if (std::ranges::none_of(simplified.instructions, SignModifiers::is_sign_change)) return simplified;
  return SignModifiers(simplified).replace();
}

}  // namespace bitmma::kernel
