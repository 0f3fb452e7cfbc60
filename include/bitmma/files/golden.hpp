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

}  // namespace bitmma
