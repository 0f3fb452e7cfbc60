// Runs one thread of a kernel in PTX, as compilers emit it for functions on one or two words of f32: straight code,
// uniform loops, local memory. Floating-point instructions are those of math_instruction.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace bitmma::test {

class PtxKernel {
 public:
  /// The entry of this name in the text of a module, a kernel of (a, results) or of (a, b, results), all of these
  /// pointers to words. Throws std::runtime_error for an instruction that is not known.
  PtxKernel(const std::string& module, const std::string& entry, int operands);
  PtxKernel(const PtxKernel&) = delete;
  PtxKernel& operator=(const PtxKernel&) = delete;

  /// What thread 0 stores at results[0], for a[0] and b[0].
  uint32_t run(uint32_t a, uint32_t b = 0);

  /// The names of a module's entries.
  static std::vector<std::string> entries(const std::string& module);

 private:
  struct Operand {
    int reg = -1;        // a register, or
    uint64_t value = 0;  // an immediate; with a register, what is added to an address
  };
  struct Step {
    enum Kind : uint8_t { compute, load, store, branch, leave } kind = compute;
    int predicate = -1;
    bool negated = false;
    int bytes = 0;  // of a load or store
    int target = -1, result = -1;
    std::vector<Operand> operands;
    std::function<uint64_t(const uint64_t*)> function;
  };

  int register_of(const std::string& name);
  Operand operand_of(std::string text);
  void read_line(std::string line, std::map<std::string, int>& labels, std::vector<std::string>& targets);
  std::function<uint64_t(const uint64_t*)> function_of(const std::string& opcode);
  uint8_t* memory_at(uint64_t address, int bytes);

  std::map<std::string, int> registers_;
  std::map<std::string, uint64_t> symbols_;  // addresses
  std::vector<Step> steps_;
  std::vector<uint64_t> values_;
  std::vector<uint8_t> memory_;
  size_t operands_ = 0, parameters_ = 0;
  uint64_t carry_ = 0;
};

}  // namespace bitmma::test
