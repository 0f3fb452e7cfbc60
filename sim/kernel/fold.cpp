// SPDX-License-Identifier: MIT
#include "fold.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "../math/f32.hpp"
#include "../math/loops.hpp"
#include "bitmma/core/bits.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/formats/ieee.hpp"
#include "bitmma/math/math_instruction.hpp"
#include "decode.hpp"
#include "flow.hpp"

namespace bitmma::kernel {
namespace {

using Kind = Operand::Kind;
/// The registers with a known constant at a program point.
using Known = std::map<int, uint64_t>;

bool has(const Instruction& one, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(
      words, [&](std::string_view word) { return std::ranges::find(one.words, word) != one.words.end(); });
}
bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

bool is_approximate(const Instruction& one) { return has(one, {"approx", "full"}); }

/// Conversions that ptxas folds. It does not fold those from 64-bit integers and most of those from 16-bit floats.
bool is_folded_cvt(const Instruction& one) {
  if (one.words.size() < 3 || has(one, {"rz", "rm", "rp", "rna", "rs", "relu", "satfinite", "pack"})) return false;
  const auto to = type_named(one.words[one.words.size() - 2]), from = type_named(one.words.back());
  if (!to || !from) return false;
  const auto is_number = [](Type type) { return info(type).kind == TypeClass::floating; };
  if (!is_number(*to) && !is_number(*from)) return true;
  if (*from == Type::f16 || *from == Type::bf16) return *to == Type::f32;
  if (!is_number(*from)) return *to == Type::f32 && info(*from).bits == 32;
  return *to != Type::bf16x2;
}

/// Instructions that ptxas folds if their operands are constants. It does not fold fma, roundings other than to
/// nearest, 16-bit floating types, integer division, prmt and lop3. Read from SASS of ptxas 13.0, one instruction per
/// kernel: tests/kernel/fold_test.cpp.
bool is_folded(const Instruction& one) {
  const std::string& name = one.words[0];
  const auto type = type_named(one.words.back());
  if (one.operands.empty() || !type || has(one, {"cc"})) return false;
  if (name == "cvt") return is_folded_cvt(one);
  if (is_one_of(name, {"mov", "selp"})) return true;
  if (info(*type).kind != TypeClass::floating) {
    if (name == "mul" && has(one, {"hi"})) return info(*type).bits == 32;
    return is_one_of(name, {"add", "sub", "mul", "mad",  "min", "max",   "abs", "neg", "and", "or",   "xor",  "not",
                            "shl", "shr", "shf", "popc", "clz", "bfind", "bfe", "bfi", "sad", "setp", "brev", "cnot"});
  }
  if (*type != Type::f32 && *type != Type::f64) return name == "neg";
  if (is_approximate(one)) return *type == Type::f32;
  if (is_one_of(name, {"add", "sub", "mul"})) return !has(one, {"rz", "rm", "rp"});
  if (is_one_of(name, {"min", "max"})) return !has(one, {"NaN", "xorsign"}) && one.operands.size() == 3;
  return is_one_of(name, {"abs", "neg", "setp"});
}

Operand constant_operand(uint64_t value) { return {.kind = Kind::integer, .value = value}; }
Operand register_operand(int reg) { return {.kind = Kind::reg, .reg = reg}; }

void append_registers(const Operand& operand, std::vector<int>& to) {
  if (operand.kind == Kind::reg) to.push_back(operand.reg);
  for (const Operand& element : operand.elements) append_registers(element, to);
}

/// Replaces the known registers of an operand. False if a register is unknown, or if the operand has no value.
bool replace_known(Operand& operand, const Known& known) {
  switch (operand.kind) {
    case Kind::integer:
    case Kind::real: return true;
    case Kind::vector:
      return std::ranges::all_of(operand.elements, [&](Operand& element) { return replace_known(element, known); });
    case Kind::reg: {
      const auto found = known.find(operand.reg);
      if (found == known.end()) return false;
      operand = constant_operand(operand.negated ? found->second ^ 1 : found->second);
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
  for (Instruction& one : result.instructions) {
    if (is_branch(one) && !one.operands.empty() && one.operands.back().target >= 0)
      one.operands.back().target = place[static_cast<size_t>(one.operands.back().target)];
  }
  return result;
}

void become(Instruction& one, std::vector<std::string> words) {
  one.words = std::move(words);
  one.opcode = one.words[0];
  for (size_t i = 1; i < one.words.size(); ++i) one.opcode += "." + one.words[i];
}

class Folder {
 public:
  Folder(const Entry& entry, Target target) : entry_(entry), target_(target), flow_(flow_of(entry)) {}

  Entry fold() {
    find_constants();
    return rewritten(entry_, [this](int i, Entry& result) {
      const auto block = static_cast<size_t>(flow_.block_of[static_cast<size_t>(i)]);
      if (!is_reached_[block]) return;
      if (i == flow_.blocks[block].begin) known_ = at_begin_[block];
      append(i, known_, result);
    });
  }

 private:
  const Instruction& at(int index) const { return entry_.instructions[static_cast<size_t>(index)]; }

  /// Whether the guard holds, if it is known.
  static std::optional<bool> guard_of(const Instruction& one, const Known& known) {
    if (one.guard < 0) return true;
    const auto found = known.find(one.guard);
    if (found == known.end()) return std::nullopt;
    return (found->second != 0) != one.guard_negated;
  }

  /// Values of the registers that an instruction writes; nothing if they are unknown.
  std::optional<Known> values_of(const Instruction& one, const Known& known) const {
    if (!is_folded(one)) return std::nullopt;
    Instruction constant = one;
    constant.guard = -1;
    if (const auto chosen = chosen_operand(one, known); chosen > 0) {
      constant.operands = {one.operands[0], one.operands[chosen]};
      become(constant, {"mov", one.words.back()});
    }
    for (size_t i = 1; i < constant.operands.size(); ++i) {
      if (!replace_known(constant.operands[i], known)) return std::nullopt;
    }
    if (is_approximate(one)) return approximation_of(constant);
    return evaluated(constant);
  }

  /// The operand that a selp with a known predicate selects; 0 if there is none.
  static size_t chosen_operand(const Instruction& one, const Known& known) {
    if (one.words[0] != "selp" || one.operands.size() != 4 || one.operands[0].kind != Kind::reg) return 0;
    Operand predicate = one.operands[3];
    if (!replace_known(predicate, known)) return 0;
    return (predicate.value & 1) != 0 ? 1 : 2;
  }

  static std::optional<uint32_t> word_of(const Operand& operand) {
    if (operand.kind == Kind::real && operand.is_double) return std::nullopt;
    return static_cast<uint32_t>(operand.value);
  }

  static std::optional<Known> approximation_of(const Instruction& one) {
    if (one.words.back() != "f32" || one.operands[0].kind != Kind::reg) return std::nullopt;
    const MathInstruction instruction = parse_math_instruction(one.opcode);
    const std::optional<uint32_t> a = word_of(one.operands[1]);
    if (!a || one.operands.size() != 1 + static_cast<size_t>(operand_count(instruction.operation))) return std::nullopt;
    if (instruction.operation != MathOperation::div) {
      const auto result = math::folded_result(instruction, *a);
      if (!result) return std::nullopt;
      return Known{{one.operands[0].reg, *result}};
    }
    const std::optional<uint32_t> b = word_of(one.operands[2]);
    const auto divisor = b ? math::folded_divisor(instruction, *b) : std::nullopt;
    if (!divisor) return std::nullopt;
    const MathInstruction product{.operation = MathOperation::mul, .ftz = instruction.ftz};
    const uint64_t scaled = math::compute_known(product, *a, divisor->second, 0);
    return Known{{one.operands[0].reg, math::compute_known(product, scaled, divisor->first, 0)}};
  }

  /// The results of an instruction whose operands are all constants; the executor runs it alone.
  std::optional<Known> evaluated(Instruction one) const {
    std::vector<int> results;
    append_registers(one.operands[0], results);
    Module module;
    module.entries.emplace_back();
    Entry& alone = module.entries.back();
    for (const int reg : results) alone.registers.push_back(entry_.registers[static_cast<size_t>(reg)]);
    int next = 0;
    const auto renumber = [&next](auto&& self, Operand& operand) -> void {
      if (operand.kind == Kind::reg) operand.reg = next++;
      for (Operand& element : operand.elements) self(self, element);
    };
    renumber(renumber, one.operands[0]);
    alone.instructions.push_back(std::move(one));
    try {
      Decoder decoder(module, alone, target_, {});
      const Program program = decoder.decode();
      std::vector<uint8_t> file(program.file_bytes + 64);
      Warp warp{.file = reinterpret_cast<uint8_t*>(round_up(reinterpret_cast<intptr_t>(file.data()), 64))};
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
  void step(const Instruction& one, Known& known) const {
    const std::optional<bool> guard = guard_of(one, known);
    if (guard == false) return;
    std::optional<Known> values;
    if (guard) values = values_of(one, known);
    if (values) {
      for (const auto& [reg, value] : *values) known[reg] = value;
      return;
    }
    // Do not look up which registers it writes: treat every register of its first operand as written.
    std::vector<int> named;
    if (!one.operands.empty()) append_registers(one.operands[0], named);
    for (const int reg : named) known.erase(reg);
  }

  void reach(int block, const Known& known) {
    const auto b = static_cast<size_t>(block);
    if (!is_reached_[b]) {
      is_reached_[b] = true;
      at_begin_[b] = known;
    } else {
      const size_t before = at_begin_[b].size();
      std::erase_if(at_begin_[b], [&](const auto& row) {
        const auto other = known.find(row.first);
        return other == known.end() || other->second != row.second;
      });
      if (at_begin_[b].size() == before) return;
    }
    work_.insert(block);
  }

  /// Conditional constant propagation, Wegman and Zadeck (1991).
  void find_constants() {
    is_reached_.resize(flow_.blocks.size());
    at_begin_.resize(flow_.blocks.size());
    reach(0, {});
    while (!work_.empty()) {
      const int index = *work_.begin();
      work_.erase(work_.begin());
      const Block& block = flow_.blocks[static_cast<size_t>(index)];
      Known known = at_begin_[static_cast<size_t>(index)];
      for (int i = block.begin; i + 1 < block.end; ++i) step(at(i), known);
      const Instruction& last = at(block.end - 1);
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
    Instruction one = at(index);
    const Known before = known;
    const std::optional<bool> guard = guard_of(one, before);
    step(one, known);
    if (guard == false) return;
    if (guard) one.guard = -1;
    // With a constant operand ptxas emits no slow path, and thus no branch.
    if (is_one_of(one.words[0], {"rcp", "sqrt"}) && one.operands.size() == 2) replace_known(one.operands[1], before);
    if (is_branch(one) && one.guard < 0 && is_next_reached(one, index)) return;
    const bool writes_one = !one.operands.empty() && one.operands[0].kind == Kind::reg;
    const Type type = writes_one ? entry_.registers[static_cast<size_t>(one.operands[0].reg)].type : Type::pred;
    const int bits = info(type).bits;
    if (one.guard >= 0 || !is_folded(one) || type == Type::pred || bits > 64) {
      result.instructions.push_back(std::move(one));
      return;
    }
    if (const size_t chosen = chosen_operand(one, before); chosen > 0) {
      one.operands = {one.operands[0], one.operands[chosen]};
      become(one, {"mov", one.words.back()});
    } else if (const auto value = known.find(one.operands[0].reg); value != known.end()) {
      one.operands = {one.operands[0], constant_operand(value->second)};
      become(one, {"mov", fmt::format("b{}", std::max(bits, 16))});
    } else if (one.words[0] == "div" && is_approximate(one)) {
      return append_quotient(std::move(one), before, result);
    }
    result.instructions.push_back(std::move(one));
  }

  /// Whether the branch leads to the next reachable instruction anyway.
  bool is_next_reached(const Instruction& branch, int index) const {
    const int target = branch.operands.empty() ? -1 : branch.operands.back().target;
    if (target <= index) return false;
    for (int i = index + 1; i < target; ++i) {
      if (is_reached_[static_cast<size_t>(flow_.block_of[static_cast<size_t>(i)])]) return false;
    }
    return true;
  }

  /// Replaces a quotient by a constant with a product by its reciprocal.
  static void append_quotient(Instruction one, const Known& known, Entry& result) {
    Operand divisor = one.operands[2];
    const bool is_known = replace_known(divisor, known);
    const std::optional<uint32_t> b = is_known ? word_of(divisor) : std::nullopt;
    const MathInstruction instruction = parse_math_instruction(one.opcode);
    const auto factors = b ? math::folded_divisor(instruction, *b) : std::nullopt;
    if (!factors) {
      result.instructions.push_back(std::move(one));
      return;
    }
    const auto as_product = [&](bool rounded) {
      std::vector<std::string> words{"mul"};
      if (rounded) words.emplace_back("rn");
      if (instruction.ftz) words.emplace_back("ftz");
      words.emplace_back("f32");
      become(one, std::move(words));
    };
    if (factors->second != 0x3F800000) {
      const int scaled = static_cast<int>(result.registers.size());
      result.registers.push_back({.name = fmt::format("{} scaled", one.text), .type = Type::f32});
      const Operand quotient = one.operands[0];
      one.operands = {register_operand(scaled), one.operands[1], constant_operand(factors->second)};
      as_product(true);
      result.instructions.push_back(one);
      one.operands = {quotient, register_operand(scaled), constant_operand(factors->first)};
    } else {
      one.operands[2] = constant_operand(factors->first);
    }
    as_product(false);
    result.instructions.push_back(std::move(one));
  }

  const Entry& entry_;
  Target target_;
  Flow flow_;
  std::vector<bool> is_reached_ = {};  // by block
  std::vector<Known> at_begin_ = {};
  std::set<int> work_ = {};
  Known known_ = {};  // at the instruction that is being rewritten
};

bool is_approximate_ftz(const Instruction& one, std::string_view name) {
  return one.words[0] == name && one.words.back() == "f32" && has(one, {"approx"}) && has(one, {"ftz"});
}

/// With .ftz, ptxas replaces the reciprocal of a reciprocal by the number itself, and that of 2^x by 2^-x if 2^x has no
/// other use. Quotients with such divisors become products.
class Reciprocals {
 public:
  explicit Reciprocals(const Entry& entry) : entry_(entry) {
    std::vector<int> reads(entry.registers.size()), writes = reads;
    writer_.resize(entry.registers.size(), -1);
    for (int i = 0; i < std::ssize(entry.instructions); ++i) {
      const Instruction& one = entry.instructions[static_cast<size_t>(i)];
      if (one.guard >= 0) ++reads[static_cast<size_t>(one.guard)];
      for (size_t k = 0; k < one.operands.size(); ++k) {
        std::vector<int> named;
        append_registers(one.operands[k], named);
        for (const int reg : named) ++(k == 0 ? writes : reads)[static_cast<size_t>(reg)];
        if (k == 0 && one.operands[0].kind == Kind::reg) writer_[static_cast<size_t>(one.operands[0].reg)] = i;
      }
    }
    for (int i = 0; i < std::ssize(entry.instructions); ++i) {
      const Instruction& outer = entry.instructions[static_cast<size_t>(i)];
      if (!is_approximate_ftz(outer, "rcp") && !is_approximate_ftz(outer, "div")) continue;
      if (outer.operands.back().kind != Kind::reg || outer.operands[0].kind != Kind::reg) continue;
      const auto divisor = static_cast<size_t>(outer.operands.back().reg);
      const int inner = writer_[divisor];
      if (inner < 0 || writes[divisor] != 1 || replaced_.contains(inner)) continue;
      const Instruction& one = entry.instructions[static_cast<size_t>(inner)];
      if (one.guard >= 0 || one.operands.size() != 2) continue;
      const bool is_power = is_approximate_ftz(one, "ex2") && reads[divisor] == 1;
      if (is_power || is_approximate_ftz(one, "rcp")) inner_of_[i] = inner, replaced_.insert(i);
    }
    for (const auto& [outer, inner] : inner_of_) arguments_.emplace(inner, -1);
  }

  Entry replace() {
    if (inner_of_.empty()) return entry_;
    return rewritten(entry_, [this](int i, Entry& result) {
      Instruction one = entry_.instructions[static_cast<size_t>(i)];
      if (const auto argument = arguments_.find(i); argument != arguments_.end()) {
        argument->second = static_cast<int>(result.registers.size());
        result.registers.push_back({.name = "argument of " + one.text, .type = Type::f32});
        const bool is_power = one.words[0] == "ex2";
        Instruction copy = one;
        copy.operands[0] = register_operand(argument->second);
        become(copy, {is_power ? "neg" : "mov", "f32"});
        result.instructions.push_back(std::move(copy));
        if (is_power) one.operands[1] = register_operand(argument->second);
      }
      if (const auto inner = inner_of_.find(i); inner != inner_of_.end()) {
        const bool is_power = entry_.instructions[static_cast<size_t>(inner->second)].words[0] == "ex2";
        if (!is_power) one.operands.back() = register_operand(arguments_.at(inner->second));
        if (one.words[0] == "rcp") become(one, {"mov", "f32"});
        else become(one, {"mul", "ftz", "f32"});
      }
      result.instructions.push_back(std::move(one));
    });
  }

 private:
  const Entry& entry_;
  std::vector<int> writer_ = {};       // for each register: the last instruction that writes it
  std::map<int, int> inner_of_ = {};   // from a reciprocal or quotient to the instruction that computes its divisor
  std::set<int> replaced_ = {};        // instructions that are no longer reciprocals
  std::map<int, int> arguments_ = {};  // from those inner instructions to the register that keeps their argument
};

}  // namespace

Entry folded(const Entry& entry, Target target) {
  if (entry.instructions.empty()) return entry;
  const math::IeeeEnvironment environment;
  const Entry constant = Folder(entry, target).fold();
  return Reciprocals(constant).replace();
}

}  // namespace bitmma::kernel
