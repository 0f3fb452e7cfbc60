// SPDX-License-Identifier: MIT
// Files that the program computes itself: golden cases from a seed, and D for files without it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bitmma/files/compare.hpp"
#include "bitmma/files/vector_file.hpp"
#include "bitmma/stimulus/random_case.hpp"

namespace bitmma {

struct GoldenRequest {
  Instruction instruction = Wgmma{};
  std::optional<Target> target = {};  // default: default_target
  int64_t cases = 1;
  int64_t first_case = 0;  // cases first_case .. first_case + cases - 1 of the seed
  uint64_t seed = 0;
  Distribution distribution = Distribution::bits;
  Placement placement = {};  // for moves only the swizzle of `a` applies, to the source of cp
};

/// The instruction, which reads A from the operand source with this name: smem, registers or tmem. Throws Error (field
/// a_source) if it cannot.
Instruction with_a_source_named(const Instruction& instruction, Target target, const std::string& name);

/// Which of the layouts of A and B act, and why others do not.
struct LayoutUse {
  bool a = false, b = false;
  std::string why = {};
};
/// Those of operands that the instruction reads from shared memory.
LayoutUse layouts_used_by(const Instruction& instruction);

/// A complete vector file, including D and logical matrices. The same request gives the same bytes on any machine and
/// with any number of threads. Throws Error if the instruction or a layout is illegal, or if numbers of the placement
/// have no effect.
TensorFile make_golden(const GoldenRequest& request, int threads, const Progress& progress = {});
/// Its first case alone, to see how large it is and what is suspicious about it.
VectorFile first_golden_case(GoldenRequest request);

/// The same file, written to `path` a few cases at a time: memory use does not grow with the file.
void write_golden(const std::string& path, const GoldenRequest& request, int threads, const Progress& progress = {});

/// A file with states: `vectors` itself, or its logical matrices in the given layout.
VectorFile laid_out(const VectorFile& vectors, const Placement& placement);

/// `vectors` with D from the model: the fields that the instruction writes, and d if the file has logical matrices. A
/// file with only logical matrices also gets states, in the requested layout; a file of tiles gets only d.
TensorFile with_simulated_d(const VectorFile& vectors, const Placement& placement, int threads,
                            const Progress& progress = {});

/// The same file, written to `path` a few cases at a time.
void write_simulated(const std::string& path, const VectorFile& vectors, const Placement& placement, int threads,
                     const Progress& progress = {});

/// True for plain matrices with M and N of one instruction and more K: each case is a K loop over one tile.
bool is_k_loop(const VectorFile& vectors);

/// The steps of a K loop, with states and D: a case for each.
///
///   a [cases, M, 4 K], b [cases, 4 K, N]  ->  four cases each, in sequence; C of each is D of the previous one
///
/// The tile is in shared memory once, and the descriptors of each step start at its part of K. Throws Error if
/// is_k_loop(loops) is false (field tile), if no descriptor can start at a step, or if the tile does not fit.
VectorFile unroll_k(const VectorFile& loops, const Placement& placement);

/// The steps per tile of a file that was made by unrolling a K loop; 0 for other files.
int64_t unrolled_steps(const VectorFile& vectors);

/// `file` after `previous`: the instruction of `file` starts from the state that the instruction of `previous` left,
/// tensor by tensor (tmem_after becomes tmem, d_regs becomes c_regs; for a K loop from the last step). Buffers that
/// `previous` did not write are taken over if `file` lacks them. The states, results and plain matrices of `file`
/// itself are dropped; results of a file without such a state belong to this one and stay. Throws Error if the
/// instructions have no buffer in common, or if `previous` has no result.
TensorFile after(const VectorFile& previous, TensorFile file, const VectorFileDefaults& defaults);

}  // namespace bitmma
