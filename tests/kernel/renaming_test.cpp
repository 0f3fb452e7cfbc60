// SPDX-License-Identifier: MIT
// Names of registers decide nothing, and neither does the order of statements that do not depend on each other: kernels
// are rewritten at random, and give the same words and the same values at each statement. ptxas renames and moves
// statements, too, before it contracts.
#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "run_kernel.hpp"
#include "support/catch.hpp"

using namespace bitmma;

namespace {

/// A statement without a branch, and its registers in the order of the text; `writes` says that the first is the
/// result.
struct Statement {
  std::string text = {};
  std::vector<std::pair<size_t, std::string>> registers = {};  // place in the text, name with %
  bool writes = false, stores = false, loads = false;
  int number = 0;  // in the original kernel
};

struct Kernel {
  std::string head = {};  // up to and with the declarations
  std::vector<Statement> statements = {};
};

Statement statement_of(const std::string& text, int number) {
  Statement statement{.text = text, .number = number};
  for (size_t at = text.find('%'); at != std::string::npos; at = text.find('%', at + 1)) {
    size_t end = at + 1;
    while (end < text.size() && std::isalnum(static_cast<unsigned char>(text[end])) != 0) ++end;
    statement.registers.emplace_back(at, text.substr(at, end - at));
  }
  statement.stores = text.starts_with("st.");
  statement.loads = text.starts_with("ld.global");
  statement.writes = !statement.stores && !statement.registers.empty();
  return statement;
}

/// The 240 kernels of data/kernels/fusions.ptx have one basic block each.
std::vector<Kernel> kernels() {
  std::istringstream lines(test::read_text(test::source_path("data/kernels/fusions.ptx")));
  std::vector<Kernel> all;
  std::string head;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(".visible")) all.push_back({.head = head + line + "\n"});
    else if (all.empty()) head += line + "\n";
    else if (line == "{" || line.starts_with(".reg")) all.back().head += line + "\n";
    else if (line != "}" && !line.empty())
      all.back().statements.push_back(statement_of(line, static_cast<int>(all.back().statements.size())));
  }
  return all;
}

std::string print(const Kernel& kernel) {
  std::string text = kernel.head;
  for (const Statement& statement : kernel.statements) text += statement.text + "\n";
  return text + "}\n";
}

/// The statement with other names for its registers, in the order of the text.
Statement renamed(const Statement& statement, const std::vector<std::string>& names) {
  std::string text;
  size_t from = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto& [at, old] = statement.registers[i];
    text += statement.text.substr(from, at - from) + names[i];
    from = at + old.size();
  }
  return statement_of(text + statement.text.substr(from), statement.number);
}

/// "%f" of "%f12".
std::string class_of(const std::string& name) { return name.substr(0, name.find_first_of("0123456789")); }
int count_of(const std::string& of_class) { return of_class == "%f" ? 40 : of_class == "%r" ? 8 : 4; }

/// Exchanges the names of each class.
Kernel with_other_names(const Kernel& kernel, RandomStream& random) {
  std::map<std::string, std::vector<int>> numbers;
  for (const std::string of_class : {"%f", "%r", "%rd"}) {
    std::vector<int>& all = numbers[of_class];
    for (int i = 0; i < count_of(of_class); ++i) all.push_back(i);
    for (size_t i = all.size(); i-- > 1;) std::swap(all[i], all[random.word() % (i + 1)]);
  }
  Kernel result{.head = kernel.head};
  for (const Statement& statement : kernel.statements) {
    std::vector<std::string> names;
    for (const auto& [at, name] : statement.registers) {
      const std::string of_class = class_of(name);
      const auto number = static_cast<size_t>(std::stoi(name.substr(of_class.size())));
      names.push_back(of_class + std::to_string(numbers[of_class][number]));
    }
    result.statements.push_back(renamed(statement, names));
  }
  return result;
}

/// Gives each value a name at random among those that no living value has, as an allocator of registers does: a name
/// then stands for several values.
Kernel with_shared_names(const Kernel& kernel, RandomStream& random) {
  Kernel result{.head = kernel.head};
  std::map<std::string, std::string> name_of;  // of the value that a register holds
  std::map<std::string, size_t> end_of;        // of each living value, by its new name: its last statement
  for (size_t i = 0; i < kernel.statements.size(); ++i) {
    const Statement& statement = kernel.statements[i];
    std::vector<std::string> names;
    const size_t first_read = statement.writes ? 1 : 0;
    for (size_t k = first_read; k < statement.registers.size(); ++k)
      names.push_back(name_of.at(statement.registers[k].second));
    if (statement.writes) {
      const std::string& old = statement.registers[0].second;
      // Its value lives up to the last read before the next write.
      size_t end = i;
      for (size_t j = i + 1; j < kernel.statements.size(); ++j) {
        const Statement& other = kernel.statements[j];
        for (size_t k = other.writes ? 1 : 0; k < other.registers.size(); ++k)
          if (other.registers[k].second == old) end = j;
        if (other.writes && other.registers[0].second == old) break;
      }
      const std::string of_class = class_of(old);
      std::vector<std::string> free;
      for (int number = 0; number < count_of(of_class); ++number) {
        const std::string name = of_class + std::to_string(number);
        const auto living = end_of.find(name);
        if (living == end_of.end() || living->second <= i) free.push_back(name);
      }
      // Few names, so that values share them.
      const std::string name = free[random.word() % std::min<size_t>(free.size(), 3)];
      name_of[old] = name;
      end_of[name] = end;
      names.insert(names.begin(), name);
    }
    result.statements.push_back(renamed(statement, names));
  }
  return result;
}

/// Puts the statements into another order that keeps what each reads.
Kernel reordered(const Kernel& kernel, RandomStream& random) {
  const size_t count = kernel.statements.size();
  const auto must_follow = [&](size_t later, size_t earlier) {
    const Statement &a = kernel.statements[earlier], &b = kernel.statements[later];
    if (b.text == "ret;" || (a.stores && (b.stores || b.loads)) || (a.loads && b.stores)) return true;
    const auto names = [](const Statement& statement) {
      std::set<std::string> all;
      for (const auto& [at, name] : statement.registers) all.insert(name);
      return all;
    };
    return (a.writes && names(b).contains(a.registers[0].second)) ||
           (b.writes && names(a).contains(b.registers[0].second));
  };
  Kernel result{.head = kernel.head};
  std::vector<bool> is_done(count);
  for (size_t n = 0; n < count; ++n) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < count; ++i) {
      bool waits = is_done[i];
      for (size_t j = 0; j < i && !waits; ++j) waits = !is_done[j] && must_follow(i, j);
      if (!waits) ready.push_back(i);
    }
    const size_t next = ready[random.word() % ready.size()];
    is_done[next] = true;
    result.statements.push_back(kernel.statements[next]);
  }
  return result;
}

struct Outcome {
  std::vector<uint32_t> words = {};
  std::map<int, uint64_t> values = {};  // that each statement of the original kernel writes
};

Outcome run(const Kernel& kernel, const std::vector<uint32_t>& words) {
  Outcome outcome{.words = words};
  const PtxEntry entry(print(kernel));
  // Statements follow each other without a branch: the traced lines are those of the text.
  const auto lines_of_head = std::ranges::count(kernel.head, '\n');
  const ThreadTrace trace{.step = [&](const ThreadStep& step) {
    const auto at = static_cast<size_t>(step.line - 1 - lines_of_head);
    for (const ThreadRegister& written : step.written)
      outcome.values[kernel.statements.at(at).number] = written.bits[0];
    return true;
  }};
  launch(entry, {.arguments = {test::memory(outcome.words)}, .trace = &trace});
  return outcome;
}

}  // namespace

TEST_CASE("other names of registers and another order of independent statements change no word and no value") {
  RandomStream random(23, 0);
  int compared = 0, shared = 0, moved = 0;
  for (const Kernel& kernel : kernels()) {
    std::vector<uint32_t> words(64);
    // Numbers near one: roundings differ in their last bits.
    for (size_t i = 1; i <= 6; ++i) words[i] = (random.word() & 0x807FFFFF) | (125 + random.word() % 4) << 23;
    const Outcome original = run(kernel, words);
    for (int round = 0; round < 3; ++round) {
      const Kernel names = with_other_names(kernel, random), allocated = with_shared_names(kernel, random),
                   order = reordered(kernel, random), both = with_shared_names(order, random);
      shared += print(allocated) != print(kernel);
      moved += print(order) != print(kernel);
      for (const Kernel* const other : {&names, &allocated, &order, &both}) {
        const Outcome outcome = run(*other, words);
        INFO(print(kernel) << "\n" << print(*other));
        REQUIRE(outcome.words == original.words);
        REQUIRE(outcome.values == original.values);
        ++compared;
      }
    }
  }
  CHECK(compared == 240 * 12);
  CHECK(shared > 600);
  CHECK(moved > 600);
}
