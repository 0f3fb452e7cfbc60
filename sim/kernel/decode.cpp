// SPDX-License-Identifier: MIT
#include "decode.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/formats/round.hpp"
#include "flow.hpp"
#include "lanes.hpp"
#include "special.hpp"

namespace bitmma::kernel {
namespace {

using Kind = Operand::Kind;

constexpr uint32_t most_file_bytes = 1 << 28;
constexpr int64_t most_local_bytes = 512 * 1024;  // CUDA C++ Programming Guide, compute capabilities

int slot_bytes(Type type) {
  const int bits = info(type).bits;
  return type == Type::pred ? 4 : bits > 64 ? 16 * lanes : bits > 32 ? 8 * lanes : 4 * lanes;
}

template <typename W>
constexpr W same_word(W a) {
  return a;
}

template <typename W>
void read_special(Warp& warp, const Op& op, Mask mask) {
  const auto& row = *static_cast<const SpecialRegister*>(op.details);
  for_each_lane(mask, [&](int lane) { warp.lanes_of<W>(op.d)[lane] = static_cast<W>(row.value(warp, lane)); });
}

void not_mask(Warp& warp, const Op& op, Mask mask) { set_mask(warp, op.d, mask, ~warp.mask_of(op.a)); }

}  // namespace

bool Words::take(Word word) {
  for (size_t i = 1; i < used_.size(); ++i) {
    if (!used_[i] && instruction_.words[i] == word) return used_[i] = true;
  }
  return false;
}

Word Words::take_one(std::initializer_list<Word> choices) {
  for (const Word choice : choices) {
    if (take(choice)) return choice;
  }
  return Word::none;
}

std::optional<Type> Words::take_type() {
  for (size_t i = used_.size(); i-- > 1;) {
    if (used_[i]) continue;
    if (const auto type = type_of(instruction_.words[i])) {
      used_[i] = true;
      return type;
    }
  }
  return std::nullopt;
}

std::optional<Type> Words::type() const {
  for (size_t i = used_.size(); i-- > 1;) {
    if (const auto type = type_of(instruction_.words[i])) return type;
  }
  return std::nullopt;
}

Combine take_combine(Words& words) {
  switch (words.take_one({Word::and_, Word::or_, Word::xor_})) {
    case Word::and_: return Combine::and_;
    case Word::or_: return Combine::or_;
    case Word::xor_: return Combine::xor_;
    default: return Combine::none;
  }
}

std::string Words::left() const {
  std::string text;
  size_t from = 0;
  for (const bool used : used_) {
    const size_t dot = std::min(instruction_.opcode.find('.', from), instruction_.opcode.size());
    if (!used) text.append(".").append(instruction_.opcode, from, dot - from);
    from = dot + 1;
  }
  return text;
}

Decoder::Decoder(const Module& module, const Entry& entry, Target target, Fusions fusions)
    : module_(module), entry_(entry), fusions_(std::move(fusions)) {
  program_.target = target;
  program_.entry = entry;
  program_.variables = module.variables;
  program_.files = module.files;
}

Type Decoder::type_of(const Operand& operand) const {
  if (operand.kind != Kind::reg) refuse("an operand that is not a register");
  return entry_.registers[static_cast<size_t>(operand.reg)].type;
}

uint32_t Decoder::scratch(int bytes) {
  const uint32_t slot = program_.file_bytes;
  if (slot > most_file_bytes) {
    throw Error({.code = ViolationCode::unsupported_ptx,
                 .field = fmt::format("PTX line {}", entry_.line),
                 .seen = fmt::format("more than {} bytes of registers and constants per warp", most_file_bytes),
                 .expected = "a smaller kernel"});
  }
  program_.file_bytes += static_cast<uint32_t>(round_up(bytes, 64));
  if (const int subroutine = current_subroutine(); subroutine >= 0)
    program_.subroutines[static_cast<size_t>(subroutine)].slots.push_back({slot, bytes});
  return slot;
}

uint32_t Decoder::constant(uint64_t value, int bytes) {
  const auto [entry, is_new] = constants_.emplace(std::pair(value, bytes), 0);
  if (is_new) {
    entry->second = scratch(bytes == 0 ? 4 : bytes * lanes);
    program_.constants.push_back({.slot = entry->second, .value = value, .bytes = bytes});
  }
  return entry->second;
}

uint32_t Decoder::variable_address(int variable, int64_t offset, int bytes) {
  const auto [entry, is_new] = addresses_.emplace(std::tuple(variable, offset, bytes), 0);
  if (is_new) {
    entry->second = scratch(bytes * lanes);
    program_.constants.push_back(
        {.slot = entry->second, .value = static_cast<uint64_t>(offset), .bytes = bytes, .variable = variable});
  }
  return entry->second;
}

uint32_t Decoder::special(const std::string& name) {
  const SpecialRegister* const row = special_register(name);
  if (!row) refuse(fmt::format("special register {}", name));
  if (row->is_chance) program_.chance = row->name;
  if (row->is_cooperative) program_.workspace = row->name;
  if (row->changes) {
    const uint32_t slot = scratch(row->bits / 8 * lanes);
    Op& op = emit(row->bits > 32 ? read_special<uint64_t> : read_special<uint32_t>);
    op.details = row;
    op.d = slot;
    return slot;
  }
  const auto [entry, is_new] = specials_.emplace(name, 0);
  if (is_new) {
    entry->second = scratch(row->bits == 1 ? 4 : 4 * lanes);
    program_.specials.push_back({.slot = entry->second, .row = row});
  }
  return entry->second;
}

void Decoder::require_whole(const Operand& operand) const {
  if (operand.negated) refuse("a negated operand here");
  if (!operand.selector.empty()) refuse(fmt::format("with .{} of a register", operand.selector));
}

uint32_t Decoder::read_part(const Operand& operand, Type type) {
  note(operand, false);
  Operand whole = operand;
  whole.negated = false;
  whole.selector.clear();
  return slot_as(whole, type);
}

uint32_t Decoder::write_part(const Operand& operand, Type type) {
  if (operand.kind != Kind::reg || operand.negated) refuse("a result that is not a register");
  note(operand, true);
  Operand whole = operand;
  whole.selector.clear();
  return slot_as(whole, type);
}

void Decoder::note(const Operand& operand, bool writes) const {
  if (operand.kind == Kind::reg) (writes ? written_ : read_).push_back(&operand);
}

uint32_t Decoder::read(const Operand& operand, Type type) {
  note(operand, false);
  return slot_as(operand, type);
}

uint32_t Decoder::slot_as(const Operand& operand, Type type) {
  const int bits = info(type).bits, bytes = bits > 32 ? 8 : 4;
  switch (operand.kind) {
    case Kind::reg: {
      require_whole(operand);
      const Type own = type_of(operand);
      const bool fits = own != Type::pred && type != Type::pred && (info(own).bits > 64) == (bits > 64) &&
                        (info(own).bits > 32) == (bits > 32);
      if (!fits) {
        refuse(fmt::format("register {} of .{} as .{}", entry_.registers[static_cast<size_t>(operand.reg)].name,
                           info(own).name, info(type).name));
      }
      return slot_of(operand.reg);
    }
    case Kind::integer: {
      if (is_as_written_ && info(type).kind == TypeClass::floating)
        refuse(fmt::format("an integer as .{}; write 0f3F800000 or 1.0", info(type).name));
      if (bits > 64) refuse("a constant of 128 bits");
      return constant(operand.value & low_mask(bits), bytes);
    }
    case Kind::real: {
      if (const TypeClass kind = info(type).kind; kind != TypeClass::floating && kind != TypeClass::bits)
        refuse(fmt::format("a real constant as .{}", info(type).name));
      if (type == Type::f32 || (bits == 32 && !operand.is_double)) {
        return constant(operand.is_double ? convert(Format::f64, operand.value, Format::f32, Rounding::nearest_even,
                                                    Overflow::infinity)
                                          : operand.value,
                        4);
      }
      if (bits == 64 && operand.is_double) return constant(operand.value, 8);
      if (bits == 64)
        return constant(convert(Format::f32, operand.value, Format::f64, Rounding::nearest_even, Overflow::infinity),
                        8);
      refuse(fmt::format("a real constant as .{}", info(type).name));
    }
    case Kind::special:
      if (const SpecialRegister* const row = special_register(operand.name);
          row && (row->bits == 1 || (bits > 32) != (row->bits > 32) || info(type).kind == TypeClass::floating))
        refuse(fmt::format("{} as .{}", operand.name, info(type).name));
      return special(operand.name);
    case Kind::function: {
      const auto function = std::ranges::find(module_.functions, operand.name, &Entry::name);
      if (function == module_.functions.end() || bits != 64)
        refuse(fmt::format("the address of {}, which has no body", operand.name));
      return constant(function_address(static_cast<int>(function - module_.functions.begin())), 8);
    }
    case Kind::symbol:
      if (bits > 64) refuse("an address of 128 bits");
      return variable_address(operand.variable, operand.offset, bytes);
    default: refuse("an operand of this kind");
  }
}

uint32_t Decoder::slot_of_any_width(const Operand& operand, int& bits) const {
  const Type own = type_of(operand);
  if (own == Type::pred) refuse("a predicate as a number");
  require_whole(operand);
  bits = info(own).bits > 64 ? 128 : info(own).bits > 32 ? 64 : 32;
  return slot_of(operand.reg);
}

uint32_t Decoder::read_wide(const Operand& operand, Type type, int& bits) {
  if (operand.kind == Kind::reg) {
    note(operand, false);
    return slot_of_any_width(operand, bits);
  }
  bits = info(type).bits > 32 ? 64 : 32;
  return read(operand, type);
}

uint32_t Decoder::read_mask(const Operand& operand) {
  if (operand.kind == Kind::integer) return constant((operand.value & 1) != 0 ? all_lanes : 0, 0);
  if (const auto* const row = operand.kind == Kind::special ? special_register(operand.name) : nullptr;
      row && row->bits == 1 && !operand.negated)
    return special(operand.name);
  if (operand.kind != Kind::reg || type_of(operand) != Type::pred) refuse("an operand that is not a predicate");
  note(operand, false);
  if (!operand.negated) return slot_of(operand.reg);
  const uint32_t slot = scratch(4);
  without_guard_ = true;
  Op& op = emit(not_mask);
  without_guard_ = false;
  op.a = slot_of(operand.reg);
  op.d = slot;
  return slot;
}

uint32_t Decoder::write(const Operand& operand, Type type) {
  if (operand.kind == Kind::sink) return scratch(slot_bytes(type));
  if (operand.kind != Kind::reg) refuse("a result that is not a register");
  note(operand, true);
  return slot_as(operand, type);
}

uint32_t Decoder::write_wide(const Operand& operand, Type type, int& bits) {
  if (operand.kind == Kind::sink) {
    bits = info(type).bits > 64 ? 128 : info(type).bits > 32 ? 64 : 32;
    return scratch(slot_bytes(type));
  }
  if (operand.kind != Kind::reg) refuse("a result that is not a register");
  note(operand, true);
  return slot_of_any_width(operand, bits);
}

uint32_t Decoder::write_mask(const Operand& operand) {
  if (operand.kind == Kind::sink) return scratch(4);
  if (operand.kind != Kind::reg || type_of(operand) != Type::pred || operand.negated)
    refuse("a result that is not a predicate");
  note(operand, true);
  return slot_of(operand.reg);
}

int Decoder::current_subroutine() const {
  return current_ < 0 || program_.subroutines.empty() ? -1
                                                      : entry_.instructions[static_cast<size_t>(current_)].subroutine;
}

Op& Decoder::emit(Run run) {
  Op op;
  op.run = run;
  op.instruction = current_;
  if (current_ >= 0 && !without_guard_) {
    const PtxInstruction& instruction = entry_.instructions[static_cast<size_t>(current_)];
    if (instruction.guard >= 0) {
      op.guard = slot_of(instruction.guard);
      op.guard_negated = instruction.guard_negated;
    }
  }
  program_.ops.push_back(op);
  return program_.ops.back();
}

uint32_t Decoder::factor_slot(const Join& join, size_t factor, Type type) {
  if (const auto kept = kept_factors_.find(join.product); kept != kept_factors_.end()) return kept->second[factor];
  return read(entry_.instructions[static_cast<size_t>(join.product)].operands[factor + 1], type);
}

void Decoder::keep_factors(const uint32_t* slots, Type type) {
  if (!fusions_.copies_factors(current_)) return;
  const bool wide = info(type).bits > 32;
  for (size_t i = 0; i < 2; ++i) {
    const uint32_t copy = scratch((wide ? 8 : 4) * lanes);
    Op& op = emit(wide ? map<same_word<uint64_t>> : map<same_word<uint32_t>>);
    op.d = copy, op.a = slots[i];
    kept_factors_[current_][i] = copy;
  }
}

const Operand& Decoder::origin_of(const Operand& operand, bool with_signs) {
  if (writers_.empty()) writers_ = writers_of(entry_);
  const Operand* origin = &operand;
  int before = static_cast<int>(entry_.instructions.size());
  while (origin->kind == Kind::reg) {
    const std::vector<int>& writers = writers_[static_cast<size_t>(origin->reg)];
    // Another write, or a loop: the walk ends.
    if (writers.size() != 1 || writers.front() >= before) break;
    const int writer = writers.front();
    const PtxInstruction& instruction = entry_.instructions[static_cast<size_t>(writer)];
    const Passes passes = instruction.row->passes;
    if (passes == Passes::nothing || (passes != Passes::value && !with_signs) || instruction.is_refused ||
        instruction.guard >= 0 || instruction.operands.size() != 2 || instruction.operands[0].kind != Kind::reg)
      break;
    const Kind kind = instruction.operands[1].kind;
    if (kind != Kind::reg && kind != Kind::integer && kind != Kind::real) break;
    origin = &instruction.operands[1];
    before = writer;
  }
  return *origin;
}

const Operand* Decoder::constant_of(const Operand& operand) {
  const Operand& origin = origin_of(operand, false);
  return origin.kind == Kind::integer || origin.kind == Kind::real ? &origin : nullptr;
}

bool Decoder::comes_later(const Operand& a, const Operand& b) {
  const auto place = [&](const Operand& operand) {
    const Operand& origin = origin_of(operand, true);
    if (origin.kind != Kind::reg) return std::numeric_limits<int>::max();
    const std::vector<int>& writers = writers_[static_cast<size_t>(origin.reg)];
    return writers.empty() ? -1 : writers.front();
  };
  return place(a) > place(b);
}

void Decoder::require_operands(const PtxInstruction& instruction, size_t least, size_t most) const {
  const size_t count = instruction.operands.size();
  if (count >= least && count <= most) return;
  refuse(fmt::format("{} instead of {}", counted(static_cast<int64_t>(count), "operand"),
                     least == most ? std::to_string(least) : fmt::format("{} to {}", least, most)));
}

void Decoder::lay_out_registers() {
  // Folding leaves registers that no instruction names.
  std::vector<bool> is_named(entry_.registers.size());
  for (const PtxInstruction& instruction : entry_.instructions) {
    if (instruction.guard >= 0) is_named[static_cast<size_t>(instruction.guard)] = true;
    for_each_register(instruction.operands,
                      [&](const Operand& operand) { is_named[static_cast<size_t>(operand.reg)] = true; });
  }
  for (size_t i = 0; i < is_named.size(); ++i)
    program_.register_slots.push_back(is_named[i] ? scratch(slot_bytes(entry_.registers[i].type)) : Op::no_slot);
}

void Decoder::note_variables(const Operand& operand) {
  if (operand.variable >= 0) named_.insert(operand.variable);
  for (const Operand& element : operand.elements) note_variables(element);
}

void Decoder::lay_out_variables() {
  program_.variable_offsets.assign(module_.variables.size(), -1);
  const auto is_own = [this, entry = static_cast<int>(&entry_ - module_.entries.data())](size_t i) {
    const Variable& variable = module_.variables[i];
    // Shared memory of the module belongs to the entries that name it, as in ptxas' layout.
    const bool is_named = variable.space != Space::shared || named_.contains(static_cast<int>(i));
    return (variable.entry == -1 && is_named) || variable.entry == entry;
  };
  for (const PtxInstruction& instruction : entry_.instructions) {
    for (const Operand& operand : instruction.operands) note_variables(operand);
  }
  int64_t offsets[space_names.size()] = {};
  const auto place = [&](size_t i) {
    const Variable& variable = module_.variables[i];
    int64_t& at = offsets[static_cast<size_t>(variable.space)];
    at = round_up(at, variable.align);
    program_.variable_offsets[i] = at;
    at += variable.size_bytes();
  };
  for (const int param : entry_.params) place(static_cast<size_t>(param));
  program_.param_bytes = offsets[static_cast<size_t>(Space::param)];
  for (size_t i = 0; i < module_.variables.size(); ++i) {
    const Variable& variable = module_.variables[i];
    const bool is_of_module = variable.space == Space::global || variable.space == Space::constant;
    if (variable.space == Space::param || is_of_module || variable.is_extern_array || !is_own(i)) continue;
    place(i);
  }
  const std::vector<int64_t> constants = places_of_constants(module_);
  for (size_t i = 0; i < module_.variables.size(); ++i)
    if (constants[i] >= 0) program_.variable_offsets[i] = constants[i];
  program_.shared_bytes = offsets[static_cast<size_t>(Space::shared)];
  program_.local_bytes = offsets[static_cast<size_t>(Space::local)];
  if (program_.local_bytes > most_local_bytes) {
    throw Error({.code = ViolationCode::unsupported_ptx,
                 .field = fmt::format("PTX line {}", entry_.line),
                 .seen = fmt::format("{} bytes of local memory", program_.local_bytes),
                 .expected = fmt::format("at most {} per thread", most_local_bytes)});
  }
  // Dynamic shared memory follows static shared memory.
  for (size_t i = 0; i < module_.variables.size(); ++i) {
    const Variable& variable = module_.variables[i];
    if (variable.is_extern_array && is_own(i))
      program_.dynamic_align = std::max(program_.dynamic_align, variable.align);
  }
  const int64_t dynamic = round_up(program_.shared_bytes, program_.dynamic_align);
  for (size_t i = 0; i < module_.variables.size(); ++i) {
    if (module_.variables[i].is_extern_array) program_.variable_offsets[i] = dynamic;
  }
}

void Decoder::decode_instruction(const PtxInstruction& instruction) {
  const Opcode& opcode = *instruction.row;
  Words words(instruction);
  if (const auto type = words.type(); type && !opcode.types.empty() && !opcode.types.contains(*type))
    refuse(fmt::format("of .{}", info(*type).name));
  for (const Operand& operand : instruction.operands) {
    const auto is_sink = [](const Operand& part) { return part.kind == Kind::sink; };
    const bool has_parts = !operand.elements.empty();
    // PTX ISA, destination operands: `_` for a part of the result; ptxas wants another part beside it.
    if (has_parts ? std::ranges::all_of(operand.elements, is_sink) : is_sink(operand) && !opcode.may_drop)
      refuse("with _ for its result");
  }
  opcode.decode(*this, instruction, words);
  if (const std::string left = words.left(); !left.empty()) refuse(fmt::format("with {}", left));
}

void Decoder::lay_out_subroutines() {
  if (entry_.subroutines.empty()) return;
  program_.has_stack = true;
  program_.subroutines.resize(entry_.subroutines.size());
  for (size_t i = 0; i < entry_.subroutines.size(); ++i) {
    const kernel::Subroutine& from = entry_.subroutines[i];
    SubroutineCode& code = program_.subroutines[i];
    code.name = from.name;
    code.function = function_address(from.function);
    const auto place = [&](int variable) {
      return SubroutineCode::Parameter{program_.variable_offsets[static_cast<size_t>(variable)],
                                       module_.variables[static_cast<size_t>(variable)].size_bytes()};
    };
    for (const int variable : from.params) code.params.push_back(place(variable));
    for (const int variable : from.returns) code.returns.push_back(place(variable));
    code.frame_begin = program_.local_bytes;
    int64_t end = 0;
    for (int variable = from.first_variable; variable < from.end_variable; ++variable) {
      if (module_.variables[static_cast<size_t>(variable)].space != Space::local) continue;
      const auto [offset, bytes] = place(variable);
      code.frame_begin = std::min(code.frame_begin, offset);
      end = std::max(end, offset + bytes);
    }
    code.frame_bytes = std::max<int64_t>(end - code.frame_begin, 0);
    std::set<int> registers;
    for (const PtxInstruction& instruction : entry_.instructions) {
      if (instruction.subroutine != static_cast<int>(i)) continue;
      if (instruction.guard >= 0) registers.insert(instruction.guard);
      for_each_register(instruction.operands, [&](const Operand& operand) { registers.insert(operand.reg); });
    }
    for (const int reg : registers)
      code.slots.push_back({slot_of(reg), slot_bytes(entry_.registers[static_cast<size_t>(reg)].type)});
  }
}

/// What is known of a subroutine when all is decoded: where its code begins, and which slots hold addresses in its
/// frame.
void Decoder::finish_subroutines(const std::vector<int>& first_op) {
  for (size_t i = 0; i < program_.subroutines.size(); ++i) {
    SubroutineCode& code = program_.subroutines[i];
    const auto begin = std::ranges::find(entry_.instructions, static_cast<int>(i), &PtxInstruction::subroutine);
    code.begin = first_op[static_cast<size_t>(begin - entry_.instructions.begin())];
    const kernel::Subroutine& from = entry_.subroutines[i];
    for (const Program::Constant& constant : program_.constants) {
      if (constant.variable < from.first_variable || constant.variable >= from.end_variable) continue;
      const int64_t offset = program_.variable_offsets[static_cast<size_t>(constant.variable)] - code.frame_begin;
      code.addresses.push_back({constant.slot, constant.bytes, offset + static_cast<int64_t>(constant.value)});
    }
  }
}

Program Decoder::decode() {
  lay_out_registers();
  lay_out_variables();
  lay_out_subroutines();
  std::vector<Violation> refused;
  std::set<std::string> seen;
  std::vector<int> first_op;
  for (size_t i = 0; i < entry_.instructions.size(); ++i) {
    const PtxInstruction& instruction = entry_.instructions[i];
    current_ = static_cast<int>(i);
    first_op.push_back(static_cast<int>(program_.ops.size()));
    is_as_written_ = instruction.is_refused;
    try {
      decode_instruction(instruction);
    } catch (const Refusal& refusal) {
      // Look up each distinct opcode once: a kernel repeats the same opcodes hundreds of times.
      if (!seen.insert(instruction.opcode + refusal.why).second) continue;
      refused.push_back({.code = ViolationCode::unsupported_ptx,
                         .field = fmt::format("PTX line {}", instruction.line),
                         .seen = shortened(fmt::format("{} ({})", instruction.opcode, refusal.why), 160),
                         .expected = "an instruction that bitmma runs",
                         .fix = refusal.fix});
    } catch (const Error& error) {
      if (!seen.insert(instruction.opcode + error.what()).second) continue;
      for (Violation violation : error.violations()) {
        violation.field = fmt::format("PTX line {}: {}: {}", instruction.line, instruction.opcode, violation.field);
        refused.push_back(std::move(violation));
      }
    }
  }
  if (!refused.empty()) throw Error(std::move(refused));
  if (program_.has_stack) program_.local_bytes = round_up(program_.local_bytes, 16) + most_stack_bytes;
  current_ = -1;
  first_op.push_back(static_cast<int>(program_.ops.size()));
  finish_subroutines(first_op);
  Op& end = emit(nullptr);
  end.control = Control::leave;
  if (!entry_.instructions.empty()) {
    const bool has_wgmma = std::ranges::any_of(
        entry_.instructions, [](const PtxInstruction& instruction) { return instruction.row->is_async; });
    for (const PtxInstruction& instruction : entry_.instructions) {
      if (!has_wgmma) break;
      Effects effects = effects_of(instruction);
      // wgmma.mma_async may read accumulators of an earlier one.
      for_each_register(instruction.operands, [&](const Operand& operand) {
        if (operand.role == Operand::Role::both) std::erase(effects.reads, operand.reg);
      });
      program_.reads.push_back(std::move(effects.reads));
      program_.writes.push_back(std::move(effects.writes));
    }
    const Flow flow = flow_of(entry_);
    for (Op& op : program_.ops) {
      if (op.control != Control::branch) continue;
      op.target = first_op[static_cast<size_t>(op.target)];
      op.reconverge = first_op[static_cast<size_t>(flow.meeting_of(op.instruction))];
    }
  }
  return std::move(program_);
}

void Decoder::find_roles(std::vector<PtxInstruction>& instructions) {
  is_as_written_ = true;
  lay_out_registers();
  lay_out_variables();
  for (size_t i = 0; i < entry_.instructions.size(); ++i) {
    current_ = static_cast<int>(i);
    read_.clear();
    written_.clear();
    PtxInstruction& instruction = instructions[i];
    instruction.acts = instruction.row->acts;
    try {
      decode_instruction(entry_.instructions[i]);
    } catch (const Refusal&) {
      instruction.is_refused = true;
    } catch (const Error&) {
      instruction.is_refused = true;
    }
    std::vector<const Operand*> decoded;  // in the order of for_each_register
    for_each_register(entry_.instructions[i].operands, [&](const Operand& operand) { decoded.push_back(&operand); });
    size_t at = 0;
    for_each_register(instruction.operands, [&](Operand& operand) {
      const Operand* const own = decoded[at++];
      const bool writes = std::ranges::find(written_, own) != written_.end();
      const bool reads = std::ranges::find(read_, own) != read_.end();
      operand.role = !writes ? Operand::Role::in : reads ? Operand::Role::both : Operand::Role::out;
    });
    // What a refused instruction writes is unknown: by PTX's custom its first operand.
    if (instruction.is_refused && !instruction.operands.empty())
      for_each_register(std::span(instruction.operands).first(1),
                        [](Operand& operand) { operand.role = Operand::Role::both; });
  }
}

void assign_roles(const Module& module, Entry& entry, Target target) {
  std::vector<PtxInstruction> instructions = entry.instructions;
  Decoder(module, entry, target, {}).find_roles(instructions);
  entry.instructions = std::move(instructions);
}

}  // namespace bitmma::kernel
