// Files that the program computes itself: golden cases from a seed, and D for files that lack it.
#pragma once

#include <cstdint>
#include <optional>

#include "bitmma/instruction/place.hpp"
#include "bitmma/instruction/random_operands.hpp"
#include "bitmma/io/compare.hpp"
#include "bitmma/io/vector_file.hpp"

namespace bitmma {

struct GoldenRequest {
  Instruction instruction;
  int64_t cases = 1;
  int64_t first_case = 0;  // cases first_case .. first_case + cases - 1 of the seed
  uint64_t seed = 0;
  Distribution distribution = Distribution::bits;
  OperandLayout layout_a, layout_b;
  std::optional<uint64_t> zero_column_mask;  // tcgen05.mma.ws
};

/// A complete vector file, D and logical matrices included. The same request gives the same bytes on any machine and
/// for any number of threads. Throws Error when the instruction or a layout is illegal.
TensorFile make_golden(const GoldenRequest& request, int threads, const Progress& progress = {});

/// The same for tcgen05.ld, .st, .cp and .shift: random Tensor Memory, registers and addresses; `swizzle` of cp's
/// source.
TensorFile make_golden(const TmemMove& move, int64_t cases, uint64_t seed, Swizzle swizzle, int64_t first_case = 0);

/// The same files, written to `path` a few cases at a time: memory does not grow with the file.
void write_golden(const std::string& path, const GoldenRequest& request, int threads, const Progress& progress = {});
void write_golden(const std::string& path, const TmemMove& move, int64_t cases, uint64_t seed, Swizzle swizzle);

/// A file with images: `vectors` itself, or its logical matrices laid out in image, descriptors and registers.
VectorFile laid_out(const VectorFile& vectors, const OperandLayout& layout_a, const OperandLayout& layout_b);

/// `vectors` with D computed by the model: d_regs, and d where the file has logical matrices. A file with logical
/// matrices alone also gets the image, descriptors and registers, laid out as asked.
TensorFile with_simulated_d(const VectorFile& vectors, const OperandLayout& layout_a, const OperandLayout& layout_b,
                            int threads, const Progress& progress = {});

/// The same file, written to `path` a few cases at a time.
void write_simulated(const std::string& path, const VectorFile& vectors, const OperandLayout& layout_a,
                     const OperandLayout& layout_b, int threads, const Progress& progress = {});

}  // namespace bitmma
