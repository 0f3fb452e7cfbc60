// SPDX-License-Identifier: MIT
// Decodes an entry of a module into a Program: an instruction becomes one or more Ops, or is refused by name and line.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fusion.hpp"
#include "machine.hpp"
#include "opcode.hpp"

namespace bitmma::kernel {

/// The words of an opcode after its first. The decoder takes each word it knows; any other is an unknown modifier.
class Words {
 public:
  explicit Words(const PtxInstruction& instruction) : instruction_(instruction), used_(instruction.words.size()) {
    used_[0] = true;
  }

  Word name() const { return instruction_.words[0]; }
  bool take(Word word);
  /// Takes and returns the first of `choices` that is present; Word::none if none is.
  Word take_one(std::initializer_list<Word> choices);
  /// Takes every word: the instruction is read as a whole.
  void take_all() { used_.assign(used_.size(), true); }
  /// Takes the last word that names a type; nothing if none does.
  std::optional<Type> take_type();
  /// The last word that names a type, taken or not.
  std::optional<Type> type() const;
  /// The words not taken, as text: ".ftz.foo".
  std::string left() const;
  size_t count() const { return used_.size(); }

 private:
  const PtxInstruction& instruction_;
  std::vector<bool> used_;
};

/// .and, .or or .xor of setp.
Combine take_combine(Words& words);

/// Why an instruction cannot run.
struct Refusal {
  std::string why;
  std::string fix = {};
};

class Decoder {
 public:
  /// `fusions`: the products and sums that are computed as one fma.
  Decoder(const Module& module, const Entry& entry, Target target, Fusions fusions);

  /// Throws Error that lists every refused instruction.
  Program decode();
  /// Decodes every instruction of the entry to learn the roles of its operands, and sets them in `instructions`, a copy
  /// of the entry's.
  void find_roles(std::vector<PtxInstruction>& instructions);

  const Module& module() const { return module_; }
  const Entry& entry() const { return entry_; }
  Program& program() { return program_; }
  Target target() const { return program_.target; }
  const Fusions& fusions() const { return fusions_; }
  /// Whether the current instruction stands in a subroutine.
  bool is_in_subroutine() const { return current_subroutine() >= 0; }

  Type type_of(const Operand& operand) const;
  /// The slot of an operand that an instruction of `type` reads. A constant gets a slot too.
  uint32_t read(const Operand& operand, Type type);
  /// The same for a register that may be wider or narrower than the type; `bits` receives its width.
  uint32_t read_wide(const Operand& operand, Type type, int& bits);
  /// The slot of a register of which the instruction takes a part, or the negative value.
  uint32_t read_part(const Operand& operand, Type type);
  uint32_t write_part(const Operand& operand, Type type);
  /// The slot of a predicate or of a constant 0 or 1.
  uint32_t read_mask(const Operand& operand);
  uint32_t write(const Operand& operand, Type type);
  uint32_t write_wide(const Operand& operand, Type type, int& bits);
  uint32_t write_mask(const Operand& operand);
  uint32_t constant(uint64_t value, int bytes);
  uint32_t variable_address(int variable, int64_t offset, int bytes);
  uint32_t special(const std::string& name);
  uint32_t scratch(int bytes);
  int current() const { return current_; }
  /// The number that an operand is, or that a mov put into its register; nullptr if it is none.
  const Operand* constant_of(const Operand& operand);
  /// Whether ptxas puts `a` behind `b` in a commutative instruction: it orders operands by where their values are
  /// computed, seen through mov, neg and abs, and numbers come last. Measured on an H100: data/kernels/instructions.py.
  bool comes_later(const Operand& a, const Operand& b);
  /// The slot that holds factor 0 or 1 of a product when its sum runs.
  uint32_t factor_slot(const Join& join, size_t factor, Type type);
  /// Copies the factors of a product if they are overwritten before its sum runs.
  void keep_factors(const uint32_t* slots, Type type);
  uint32_t slot_of(int reg) const { return program_.register_slots[static_cast<size_t>(reg)]; }

  /// Appends an Op with the guard of the current instruction.
  Op& emit(Run run);
  template <typename T>
  const T* keep(T details) {
    auto kept = std::make_shared<const T>(std::move(details));
    program_.details.push_back(kept);
    return kept.get();
  }

  /// Throws Refusal unless the instruction has `least` to `most` operands.
  void require_operands(const PtxInstruction& instruction, size_t least, size_t most) const;
  [[noreturn]] void refuse(std::string why, std::string fix = {}) const {
    throw Refusal{std::move(why), std::move(fix)};
  }

 private:
  void lay_out_subroutines();
  void finish_subroutines(const std::vector<int>& first_op);
  int current_subroutine() const;
  void lay_out_registers();
  void lay_out_variables();
  void note_variables(const Operand& operand);
  void decode_instruction(const PtxInstruction& instruction);
  void note(const Operand& operand, bool writes) const;
  void require_whole(const Operand& operand) const;
  /// The slot of a register or constant, without a note of its role.
  uint32_t slot_as(const Operand& operand, Type type);
  uint32_t slot_of_any_width(const Operand& operand, int& bits) const;
  /// The operand behind copies and, if `with_signs`, sign changes of registers that are written once.
  const Operand& origin_of(const Operand& operand, bool with_signs);

  const Module& module_;
  const Entry& entry_;
  Program program_;
  Fusions fusions_;
  std::set<int> named_;  // variables that an instruction names
  std::map<std::pair<uint64_t, int>, uint32_t> constants_;
  std::map<std::tuple<int, int64_t, int>, uint32_t> addresses_;
  std::map<std::string, uint32_t> specials_;
  std::map<int, std::array<uint32_t, 2>> kept_factors_;
  int current_ = -1;
  bool without_guard_ = false;
  bool is_as_written_ = false;                  // folding replaces operands by integers that are the bits of any type
  std::vector<std::vector<int>> writers_ = {};  // of each register; found on first use
  // The operands that the current instruction reads and writes.
  mutable std::vector<const Operand*> read_ = {}, written_ = {};
};

/// Sets the roles of all operands of an entry, Instruction::acts and is_refused, by decoding each instruction: what the
/// decoder reads and writes is what runs.
void assign_roles(const Module& module, Entry& entry, Target target);

/// cp.async.bulk, st.async and cp.async.mbarrier.arrive.
void decode_bulk_copy(Decoder& decoder, const PtxInstruction& instruction, Words& words);
void decode_async_store(Decoder& decoder, const PtxInstruction& instruction, Words& words);
void decode_copy_arrives(Decoder& decoder, const PtxInstruction& instruction, Words& words);
/// A call of a function that the driver supplies: vprintf, __assertfail, malloc, free. False for any other.
bool decode_system_call(Decoder& decoder, const PtxInstruction& instruction, std::string_view name);
/// Completes the bytes of a red.async on its mbarrier in shared memory.
void complete_bytes(Warp& warp, const Op& op, int lane, const Address& barrier, int bytes);

enum class Atomic : uint8_t { add, min, max, inc, dec, and_, or_, xor_, exch, cas };
std::optional<Atomic> take_atomic(Words& words);
/// Where an atomic runs. f32 sums by atom and red in global memory flush subnormal numbers to zero (PTX ISA, atom);
/// bulk reductions keep them. f64 NaNs pass through unchanged in both. Measured on an H100.
enum class AtomicPlace : uint8_t { shared, global, bulk };
/// The value that an atomic writes in place of `old`.
uint64_t combined(Atomic what, Type type, uint64_t old, uint64_t b, uint64_t c, AtomicPlace place);

/// An operand in brackets. Its space is `space`, or .local if it names a .param variable that a call passes.
Address address_of(Decoder& decoder, const Operand& operand, Space space);

// add, sub, mul, mad, min, max, abs, neg, setp, ... exist for integer and floating-point types.
bool is_floating(Type type);
/// add.f64, and min and max of a floating-point type without modifiers: a number wins over a NaN.
uint64_t add_f64(uint64_t a, uint64_t b);
uint64_t least_or_greatest(Type type, bool is_max, uint64_t a, uint64_t b);
void decode_float(Decoder& decoder, const PtxInstruction& instruction, Words& words, Type type);
/// cvt.pack: integers, clamped and packed into a word.
void decode_cvt_pack(Decoder& decoder, const PtxInstruction& instruction, Words& words);
void decode_float_compare(Decoder& decoder, const PtxInstruction& instruction, Words& words, Type type);

}  // namespace bitmma::kernel
