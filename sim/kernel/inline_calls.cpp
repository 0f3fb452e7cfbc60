// SPDX-License-Identifier: MIT
// Inlines function calls: each call gets fresh registers and variables, parameters map to the variables that the call
// passes, and ret jumps to the instruction after the call. Functions that call themselves and functions that are called
// by their addresses become subroutines behind the entry.
#include <fmt/format.h>

#include <algorithm>

#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"
#include "flow.hpp"
#include "ptx_module.hpp"

namespace bitmma::kernel {
namespace {

using Kind = Operand::Kind;

constexpr size_t most_instructions = 1 << 18, most_nested_calls = 64;
constexpr size_t most_variables = 1 << 16;  // each call has registers and variables of its own

bool is_call(const PtxInstruction& instruction) { return instruction.row->jump == Jump::call; }

[[noreturn]] void refuse(const PtxInstruction& instruction, std::string expected) {
  throw Error({.code = ViolationCode::unsupported_ptx,
               .field = fmt::format("PTX line {}", instruction.line),
               .seen = shortened(printable(instruction.text), 160),
               .expected = std::move(expected)});
}

/// The caller's registers and variables for the names of a function.
struct Frame {
  int first_register = 0;
  std::map<int, int> variables = {};
};

class Inliner {
 public:
  Inliner(Module& module, int entry) : module_(module), entry_(entry), own_variables_(module.functions.size()) {
    for (size_t i = 0; i < module.functions.size(); ++i)
      functions_.emplace(module.functions[i].name, &module.functions[i]);
    for (size_t i = 0; i < module.variables.size(); ++i) {
      const Variable& variable = module.variables[i];
      variable_bytes_ += variable.size_bytes();
      if (variable.entry <= -2) own_variables_[static_cast<size_t>(-2 - variable.entry)].push_back(static_cast<int>(i));
    }
  }

  Entry run() {
    const Entry from = module_.entries[static_cast<size_t>(entry_)];
    Entry to = from;
    to.instructions.clear();
    to.labels.clear();
    append(from, Frame{}, to);
    // Subroutines call further ones.
    for (size_t i = 0; i < to.subroutines.size(); ++i) append_subroutine(static_cast<int>(i), to);
    return to;
  }

 private:
  void renumber(Operand& operand, const Frame& frame) const {
    if (operand.reg >= 0) operand.reg += frame.first_register;
    if (const auto entry = frame.variables.find(operand.variable); entry != frame.variables.end())
      operand.variable = entry->second;
    for (Operand& element : operand.elements) renumber(element, frame);
  }

  static PtxInstruction jump(const PtxInstruction& like) {
    PtxInstruction instruction = like;
    become(instruction, {Word::bra});
    instruction.operands = {{.kind = Kind::label}};
    return instruction;
  }

  /// Appends the instructions of `from` to `to`. Jumps are resolved to the new places of their targets.
  void append(const Entry& from, const Frame& frame, Entry& to) {
    std::vector<int> place;                             // new index of each instruction of `from`, and of its end
    std::vector<std::pair<size_t, size_t>> jumps = {};  // an instruction of `to`, and its target in `from`
    const size_t end = from.instructions.size();
    for (size_t i = 0; i < end; ++i) {
      place.push_back(static_cast<int>(to.instructions.size()));
      if (to.instructions.size() > most_instructions)
        refuse(from.instructions[i],
               fmt::format("at most {} instructions, including those of called functions", most_instructions));
      PtxInstruction instruction = from.instructions[i];
      if (instruction.guard >= 0) instruction.guard += frame.first_register;
      for (Operand& operand : instruction.operands) renumber(operand, frame);
      instruction.subroutine = subroutine_;
      const Entry* const function = is_call(instruction) ? function_of(instruction) : nullptr;
      const bool stays = is_call(instruction) && (function ? is_recursive(*function) : is_by_address(instruction));
      if (function || stays) {
        if (instruction.guard >= 0) {  // lanes that do not call continue after it
          PtxInstruction around = jump(instruction);
          around.guard_negated = !instruction.guard_negated;
          jumps.emplace_back(to.instructions.size(), i + 1);
          to.instructions.push_back(std::move(around));
          instruction.guard = -1;
        }
        if (stays) keep_call(std::move(instruction), function, to);
        else call(instruction, *function, to);
        continue;
      }
      const bool returns = !open_.empty() && instruction.row->jump == Jump::ret;
      if (returns) instruction = jump(instruction);
      if (returns) jumps.emplace_back(to.instructions.size(), end);
      else if (instruction.row->jump == Jump::branch && !instruction.operands.empty() &&
               instruction.operands.back().target >= 0)
        jumps.emplace_back(to.instructions.size(), static_cast<size_t>(instruction.operands.back().target));
      to.instructions.push_back(std::move(instruction));
    }
    place.push_back(static_cast<int>(to.instructions.size()));
    for (const auto& [at, target] : jumps) to.instructions[at].operands.back().target = place[target];
    for (const auto& [at, name] : from.labels) to.labels.emplace(place[static_cast<size_t>(at)], name);
  }

  /// A call of a function whose address is in a register.
  static bool is_by_address(const PtxInstruction& instruction) {
    return std::ranges::none_of(instruction.operands,
                                [](const Operand& operand) { return operand.kind == Kind::function; });
  }

  /// The functions that a function calls by their names.
  std::vector<const Entry*> callees_of(const Entry& function) const {
    std::vector<const Entry*> callees;
    for (const PtxInstruction& instruction : function.instructions) {
      const Entry* const callee = is_call(instruction) ? function_of(instruction) : nullptr;
      if (callee) callees.push_back(callee);
    }
    return callees;
  }

  bool is_recursive(const Entry& function) {
    const auto [known, is_new] = recursive_.emplace(&function, false);
    if (!is_new) return known->second;
    std::vector<const Entry*> work = callees_of(function), seen;
    while (!work.empty()) {
      const Entry* const callee = work.back();
      work.pop_back();
      if (callee == &function) return known->second = true;
      if (std::ranges::find(seen, callee) != seen.end()) continue;
      seen.push_back(callee);
      const std::vector<const Entry*> next = callees_of(*callee);
      work.insert(work.end(), next.begin(), next.end());
    }
    return false;
  }

  /// The functions whose addresses the module takes.
  std::vector<const Entry*> functions_with_address() const {
    std::vector<const Entry*> taken;
    const auto take = [&](std::string_view name) {
      const auto function = functions_.find(name);
      if (function != functions_.end() && std::ranges::find(taken, function->second) == taken.end())
        taken.push_back(function->second);
    };
    const auto take_of = [&](const Entry& entry) {
      for (const PtxInstruction& instruction : entry.instructions) {
        if (is_call(instruction)) continue;
        for (const Operand& operand : instruction.operands) {
          if (operand.kind == Kind::function) take(operand.name);
        }
      }
    };
    take_of(module_.entries[static_cast<size_t>(entry_)]);
    for (const Entry& function : module_.functions) take_of(function);
    for (const Variable& variable : module_.variables) {
      for (const Variable::Address& address : variable.addresses) take(address.of);
    }
    return taken;
  }

  /// The number of a function among the subroutines, to which it is added.
  static int subroutine_number(const Entry& function, const Module& module, Entry& to) {
    const auto index = static_cast<int>(&function - module.functions.data());
    const auto known = std::ranges::find(to.subroutines, index, &Subroutine::function);
    if (known != to.subroutines.end()) return static_cast<int>(known - to.subroutines.begin());
    to.subroutines.push_back({.name = function.name, .function = index});
    return static_cast<int>(to.subroutines.size()) - 1;
  }

  void keep_call(PtxInstruction instruction, const Entry* function, Entry& to) {
    if (function) {
      std::ranges::find(instruction.operands, Kind::function, &Operand::kind)->target =
          subroutine_number(*function, module_, to);
    } else {
      for (const Entry* const taken : functions_with_address()) subroutine_number(*taken, module_, to);
    }
    to.instructions.push_back(std::move(instruction));
  }

  void append_subroutine(int number, Entry& to) {
    // What runs into the end of the code before it ends there.
    if (to.instructions.empty() || !leaves(to.instructions.back()) || to.instructions.back().guard >= 0) {
      PtxInstruction end{.line = to.line, .subroutine = subroutine_};
      become(end, {Word::ret});
      end.text = "ret;";
      to.instructions.push_back(std::move(end));
    }
    subroutine_ = number;
    const auto index = static_cast<size_t>(number);
    const Entry& function = module_.functions[static_cast<size_t>(to.subroutines[index].function)];
    if (std::ssize(to.registers) + std::ssize(function.registers) > most_registers)
      throw Error(
          {.code = ViolationCode::unsupported_ptx,
           .field = fmt::format("PTX line {}", function.line),
           .seen = function.name,
           .expected = fmt::format("at most {} registers, including those of called functions", most_registers)});
    Frame frame{.first_register = static_cast<int>(to.registers.size()), .variables = {}};
    to.registers.insert(to.registers.end(), function.registers.begin(), function.registers.end());
    to.subroutines[index].first_variable = static_cast<int>(module_.variables.size());
    for (const int variable : own_variables_[static_cast<size_t>(to.subroutines[index].function)]) {
      Variable own = module_.variables[static_cast<size_t>(variable)];
      if (own.space == Space::global || own.space == Space::constant) continue;
      if (own.space == Space::param) own.space = Space::local;
      frame.variables.emplace(variable, static_cast<int>(module_.variables.size()));
      own.entry = entry_;
      module_.variables.push_back(std::move(own));
    }
    for (const int variable : function.params) to.subroutines[index].params.push_back(frame.variables.at(variable));
    for (const int variable : function.returns) to.subroutines[index].returns.push_back(frame.variables.at(variable));
    const Entry body = function;
    append(body, frame, to);
    if (body.instructions.empty()) {
      PtxInstruction end{.line = function.line, .text = "ret;", .subroutine = number};
      become(end, {Word::ret});
      to.instructions.push_back(std::move(end));
    }
    to.subroutines[index].end_variable = static_cast<int>(module_.variables.size());
  }

  /// Returns nullptr if the module has no function of this name with a body.
  const Entry* function_of(const PtxInstruction& instruction) const {
    const auto name = std::ranges::find(instruction.operands, Kind::function, &Operand::kind);
    if (name == instruction.operands.end()) return nullptr;
    const auto function = functions_.find(name->name);
    return function == functions_.end() ? nullptr : function->second;
  }

  void call(const PtxInstruction& instruction, const Entry& function, Entry& to) {
    if (open_.size() >= most_nested_calls)
      refuse(instruction, fmt::format("at most {} nested calls", most_nested_calls));
    if (std::ssize(to.registers) + std::ssize(function.registers) > most_registers)
      refuse(instruction, fmt::format("at most {} registers, including those of called functions", most_registers));
    Frame frame{.first_register = static_cast<int>(to.registers.size()), .variables = {}};
    to.registers.insert(to.registers.end(), function.registers.begin(), function.registers.end());
    const auto name = std::ranges::find(instruction.operands, Kind::function, &Operand::kind);
    const auto pass = [&](const std::vector<int>& formal, auto list, bool is_there) {
      const std::vector<Operand> none;
      const std::vector<Operand>& actual = is_there ? list->elements : none;
      if (actual.size() != formal.size())
        refuse(instruction, fmt::format("{} for {}", counted(std::ssize(formal), "operand"), function.name));
      for (size_t i = 0; i < formal.size(); ++i) {
        if (actual[i].kind != Kind::symbol || actual[i].offset != 0)
          refuse(instruction, ".param variables as arguments");
        const auto &argument = module_.variables[static_cast<size_t>(actual[i].variable)],
                   &wanted = module_.variables[static_cast<size_t>(formal[i])];
        if (argument.size_bytes() < wanted.size_bytes())
          refuse(instruction, fmt::format("{} for {}", counted(wanted.size_bytes(), "byte"), wanted.name));
        frame.variables[formal[i]] = actual[i].variable;
      }
    };
    pass(function.returns, instruction.operands.begin(), name != instruction.operands.begin());
    pass(function.params, name + 1, name + 1 != instruction.operands.end());
    for (const int variable : own_variables_[static_cast<size_t>(&function - module_.functions.data())]) {
      if (frame.variables.contains(variable)) continue;
      Variable own = module_.variables[static_cast<size_t>(variable)];
      // Those of all calls, and of the host.
      if (own.space == Space::global || own.space == Space::constant) continue;
      variable_bytes_ += own.size_bytes();
      if (module_.variables.size() >= most_variables || variable_bytes_ > most_variable_bytes)
        refuse(instruction, fmt::format("at most {} variables of {} bytes, including those of called functions",
                                        most_variables, most_variable_bytes));
      frame.variables.emplace(variable, static_cast<int>(module_.variables.size()));
      own.entry = entry_;
      module_.variables.push_back(std::move(own));
    }
    open_.push_back(&function);
    append(function, frame, to);
    open_.pop_back();
  }

  Module& module_;
  int entry_ = 0;
  std::map<std::string_view, const Entry*> functions_ = {};
  std::vector<std::vector<int>> own_variables_;  // of each function
  int64_t variable_bytes_ = 0;
  std::vector<const Entry*> open_ = {};  // functions whose calls are being inlined
  std::map<const Entry*, bool> recursive_ = {};
  int subroutine_ = -1;  // that is being appended
};

}  // namespace

void inline_calls(Module& module, int entry) {
  Entry& caller = module.entries[static_cast<size_t>(entry)];
  if (std::ranges::any_of(caller.instructions, is_call)) caller = Inliner(module, entry).run();
}

}  // namespace bitmma::kernel
