// ptxas as a judge of PTX, where it is installed.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/target.hpp"
#include "bitmma/instruction/instruction.hpp"

namespace bitmma::test {

/// True where there is a ptxas: $BITMMA_PTXAS, or the one that is installed. Otherwise says aloud that `what` was NOT
/// checked against it.
bool require_ptxas(std::string_view what);

/// The newest PTX ISA that the ptxas found here reads: 9.0 of CUDA 13.0.
PtxVersion ptxas_isa();

/// Of `wanted`, the targets that this ptxas knows. Says aloud which it does not.
std::vector<Target> known_to_ptxas(std::span<const Target> wanted);

/// What each module calls its kernel, as those of hardware/ptx_kernel.hpp do.
inline constexpr std::string_view entry_name = "bitmma_case";

/// A module of one kernel called entry_name, and the target to assemble it for.
struct PtxModule {
  std::string text;
  Target target = Target::sm_90a;
};

/// Whether ptxas takes each. Up to `at_once` modules of one target are joined, and assembled one by one only where
/// ptxas refuses them together.
std::vector<char> ptxas_takes(std::span<const PtxModule> modules, std::size_t at_once = 1);

/// Whether ptxas takes each of the statements, one a line behind `declarations` in a module of `version`: it names the
/// line of every error. Statements that it refuses are left out, and the others asked again, until it takes all.
std::vector<char> ptxas_takes_statements(std::string_view declarations, std::span<const std::string> statements,
                                         Target target, PtxVersion version);

}  // namespace bitmma::test
