// SPDX-License-Identifier: MIT
// A PTX module as values: entries with their registers, variables, labels and instructions. Every name is resolved;
// decode.hpp interprets the words of an instruction.
//
//   .visible .entry scale(.param .u64 x, .param .f32 by) {
//     .reg .b64 %rd<3>;
//     ld.param.u64 %rd1, [x];            Instruction{.words = {ld, param, u64}, .operands = {register, address}}
//     ...
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "opcode.hpp"
#include "type.hpp"
#include "word.hpp"

namespace bitmma::kernel {

/// One operand of an instruction.
struct Operand {
  enum class Kind : uint8_t {
    reg,       // %r1, !%p1
    special,   // %tid.x: `name`
    integer,   // 12: `value`, sign-extended
    real,      // 0f3F800000, 0d..., 1.5: `value` is the bits of an f32 (`is_double` false) or of an f64
    symbol,    // x, x+4: `variable` and `offset`
    address,   // [%r1+4]: elements[0] is the base, a register, a symbol or an integer; `offset`
    vector,    // {a, b}
    label,     // `target`
    sink,      // _
    pair,      // %r1|%p1
    list,      // (a, b)
    function,  // `name`
  };
  /// Whether the instruction reads the register or writes it. An accumulator of wgmma is both.
  enum class Role : uint8_t { in, out, both };
  Kind kind = Kind::sink;
  Role role = Role::in;  // of a register; assign_roles() sets it
  int reg = -1;
  bool negated = false;
  std::string selector = {};  // of a register in a video instruction: "h0" of %r1.h0
  bool is_double = false;
  uint64_t value = 0;
  int64_t offset = 0;
  int variable = -1;
  int target = -1;
  std::string name = {};
  std::vector<Operand> elements = {};
};

/// The elements of a vector, or the operand itself.
inline std::span<const Operand> parts_of(const Operand& operand) {
  if (operand.kind == Operand::Kind::vector) return operand.elements;
  return {&operand, 1};
}

struct PtxInstruction {
  int line = 0;         // in the module's text
  int source_line = 0;  // line of the last .loc; 0 if there is none
  int source_file = 0;
  int guard = -1;  // a predicate register
  bool guard_negated = false;
  std::string opcode = {};       // "add.rn.f32"
  std::vector<Word> words = {};  // add, rn, f32
  const Opcode* row = nullptr;   // of the first word; never nullptr in a module
  std::vector<Operand> operands = {};
  std::vector<std::string> operand_texts = {};  // as written, where the row wants them
  std::string text = {};                        // as written, for messages
  int subroutine = -1;                          // in which it stands: an index of Entry::subroutines; -1: the entry
  // Set by assign_roles():
  bool acts = false;        // the instruction has effects beyond its registers
  bool is_refused = false;  // bitmma does not run it
};

inline bool has_word(const PtxInstruction& instruction, Word word) {
  return std::ranges::find(instruction.words, word) != instruction.words.end();
}
inline bool has_one_of(const PtxInstruction& instruction, std::initializer_list<Word> words) {
  return std::ranges::any_of(words, [&](Word word) { return has_word(instruction, word); });
}
/// Whether the opcode is exactly these words.
inline bool is(const PtxInstruction& instruction, std::initializer_list<Word> words) {
  return std::ranges::equal(instruction.words, words);
}
/// The type that the last word names: of most instructions, that of their operands.
inline std::optional<Type> last_type(const PtxInstruction& instruction) { return type_of(instruction.words.back()); }
/// Gives the instruction another opcode.
void become(PtxInstruction& instruction, std::vector<Word> words);

/// Calls body(operand) for each operand of kind reg, also those inside of vectors and addresses.
template <typename Operands, typename Body>
void for_each_register(Operands&& operands, const Body& body) {
  for (auto& operand : operands) {
    if (operand.kind == Operand::Kind::reg) body(operand);
    for_each_register(operand.elements, body);
  }
}

struct Register {
  std::string name = {};
  Type type = Type::b32;
};

struct Variable {
  std::string name = {};
  Space space = Space::global;
  Type type = Type::b8;
  int64_t count = 1;  // elements
  int align = 1;
  int entry = -1;                // index of the entry that owns it; -1: the module; -2 - i: function i
  bool is_extern_array = false;  // .extern .shared x[]: dynamic shared memory begins here
  int line = 0;
  std::vector<uint8_t> bytes = {};  // initial bytes; empty: no initialiser
  struct Address {
    int64_t at = 0;
    std::string of = {};
    int64_t offset = 0;
  };
  std::vector<Address> addresses = {};  // initialisers that are addresses of other variables

  int64_t size_bytes() const { return count * bytes_of(type); }
};

/// A function that the entry calls and that is not inlined, since it calls itself or is called by its address. Its
/// instructions follow those of the entry.
struct Subroutine {
  std::string name = {};
  int function = -1;                         // in Module::functions
  int first_variable = 0, end_variable = 0;  // its variables in Module::variables, and those of functions inlined in it
  std::vector<int> params = {}, returns = {};
};

struct Entry {
  std::string name = {};
  int line = 0;
  std::vector<int> params = {};   // variables
  std::vector<int> returns = {};  // only for functions
  std::vector<Register> registers = {};
  std::vector<PtxInstruction> instructions = {};
  std::vector<Subroutine> subroutines = {};
  std::map<int, std::string> labels = {};      // by the index of the instruction that follows the label
  std::vector<int64_t> required_block = {};    // of .reqntid
  std::vector<int64_t> most_block = {};        // of .maxntid
  std::vector<int64_t> required_cluster = {};  // of .reqnctapercluster
  int64_t most_cluster = 0;                    // of .maxclusterrank
  bool grid_of_clusters = false;               // .blocksareclusters
};

// Limits: registers of an entry with the functions that it calls, bytes of a module's variables.
inline constexpr int64_t most_registers = 1 << 18, most_variable_bytes = int64_t{1} << 29;

struct Module {
  std::string version = {}, target = {};
  std::vector<Entry> entries = {};
  std::vector<Variable> variables = {};   // of the module and of all entries
  std::vector<Entry> functions = {};      // functions with a body
  std::map<int, std::string> files = {};  // of .file

  /// Returns nullptr if no entry has this name.
  const Entry* find(std::string_view name) const;
};

/// Where the variables of the module in .const memory are in it: of each variable its offset, or -1 if it is elsewhere.
/// One place for all entries, since the host writes there by a variable's name.
std::vector<int64_t> places_of_constants(const Module& module);

/// Throws Error, with the line, for text that is not a PTX module.
Module read_module(std::string_view text);

/// Generic address of a function of the module, as a register and a table of functions hold it.
constexpr uint64_t function_window = 0x0000'6400'0000'0000;
constexpr uint64_t function_address(int function) {
  return function_window + 16 * (static_cast<uint64_t>(function) + 1);
}

/// Replaces the calls of an entry by the instructions of the called functions. Functions that call themselves, and
/// those whose address the entry may call, become subroutines. A call of a function that the module does not define
/// stays.
void inline_calls(Module& module, int entry);

}  // namespace bitmma::kernel
