// SPDX-License-Identifier: MIT
// Files that the program computes itself: golden cases from a seed, and D for files that lack it.
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
  std::optional<Target> target = {};  // default_target without
  int64_t cases = 1;
  int64_t first_case = 0;  // cases first_case .. first_case + cases - 1 of the seed
  uint64_t seed = 0;
  Distribution distribution = Distribution::bits;
  Placement placement = {};  // of moves only the swizzle of `a` counts: of cp's source
};

/// A complete vector file, D and logical matrices included. The same request gives the same bytes on any machine and
/// for any number of threads. Throws Error when the instruction or a layout is illegal.
TensorFile make_golden(const GoldenRequest& request, int threads, const Progress& progress = {});

/// The same file, written to `path` a few cases at a time: memory does not grow with the file.
void write_golden(const std::string& path, const GoldenRequest& request, int threads, const Progress& progress = {});

/// A file with states: `vectors` itself, or its logical matrices laid out.
VectorFile laid_out(const VectorFile& vectors, const Placement& placement);

/// `vectors` with D computed by the model: what the instruction writes, and d where the file has logical matrices. A
/// file with logical matrices alone also gets its states, laid out as asked.
TensorFile with_simulated_d(const VectorFile& vectors, const Placement& placement, int threads,
                            const Progress& progress = {});

/// The same file, written to `path` a few cases at a time.
void write_simulated(const std::string& path, const VectorFile& vectors, const Placement& placement, int threads,
                     const Progress& progress = {});

/// A product over more K than one instruction has: a K loop over one tile.
///
///   a [cases, M, 4 K], b [cases, 4 K, N]  ->  four cases each, one after the other; C of each is D of the one before
///
/// The tile lies in shared memory once, and the descriptors of each step begin where its part of K does. Gives the file
/// of all steps, states and D included; nothing where K is that of one instruction, or the file has a state. Throws
/// Error where no descriptor can begin at a step, or the tile does not fit.
struct UnrolledK {
  TensorFile file = {};
  int64_t steps = 0;                        // of each case of the file
  std::optional<Comparison> recorded = {};  // with the file's own d, that of all K
};
std::optional<UnrolledK> unroll_k(const TensorFile& file, const VectorFileDefaults& defaults,
                                  const Placement& placement);

/// The steps of each tile in a file that came of a K loop; 0 in other files.
int64_t unrolled_steps(const VectorFile& vectors);

/// `file` after `previous`: what the instruction of `previous` left is the state that the instruction of `file` begins
/// with, tensor by tensor (tmem_after is tmem, d_regs is c_regs; of a K loop that of the last step), and what it left
/// alone is there where `file` does not have its own. What `file` records of its own state, results and plain matrices,
/// is left out; results of a file that has no such state are of this one, and stay. Throws Error when there is nothing
/// that both instructions have, or `previous` has no result.
TensorFile after(const VectorFile& previous, TensorFile file, const VectorFileDefaults& defaults);

}  // namespace bitmma
