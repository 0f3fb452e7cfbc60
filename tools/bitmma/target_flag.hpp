// SPDX-License-Identifier: MIT
// --target, and --cpu-target.
#pragma once

#include <optional>
#include <string>

#include "bitmma/core/target.hpp"
#include "bitmma/instruction/instruction.hpp"
#include "flag.hpp"

namespace bitmma::cli {

/// --target: the GPU by its PTX name.
struct TargetFlag {
  Flag<std::string> name = {};
  std::string flags = "--target";  // all names of the flag

  /// With `and_arch`, --arch is an alias.
  void add(Command& command, const std::string& meaning, bool and_arch = false);
  /// Nothing if the flag is not given. Throws Error if no target has this name.
  std::optional<Target> requested() const;
  /// The requested target, or the instruction's default.
  Target of(const Instruction& instruction) const;
  /// The requested target, or sm_90a. Throws Error if it has no shared-memory descriptors.
  Target of_smem_descriptor() const;
};

/// --cpu-target: the CPU instruction set of the hot loops, by default the best that the processor supports.
struct CpuTargetFlag {
  Flag<std::string> name = {};

  void add(Command& command);
  /// Selects it for the whole process. Throws Error, which names the flag, if the processor does not support it.
  void use() const;
};

}  // namespace bitmma::cli
