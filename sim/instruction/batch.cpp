// SPDX-License-Identifier: MIT
#include "bitmma/instruction/batch.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bitmma/arithmetic/multiply_accumulate.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/memory/metadata.hpp"
#include "family.hpp"

namespace bitmma {
namespace {

__extension__ using Wide = __int128;

/// Number of products that share buffers for their operands.
constexpr int64_t products_a_piece = 64;

CodeView view_of(const BatchView& view, int64_t index) {
  CodeView code_view = view.codes;
  code_view.data = static_cast<const uint8_t*>(code_view.data) + index * view.batch_stride;
  return code_view;
}

/// Reads the operands of successive products from the caller's memory.
class BatchReader {
 public:
  BatchReader(const Instruction& instruction, const Mma& mma, const BatchOperands& batch)
      : instruction_(instruction), mma_(mma), batch_(batch) {
    operands_ = family::options_of(mma_);
    operands_.b = Matrix(mma_.b, mma_.k, mma_.n);
    const bool is_stored = !mma_.sparse || batch.metadata;
    (is_stored ? operands_.a : logical_a_) = Matrix(mma_.a, mma_.m, is_stored ? mma_.stored_k() : mma_.a_cols());
    // If the instruction always reads C and there is none, use +0: it adds nothing.
    if (mma_.enable_input_d) operands_.c = Matrix(mma_.c, mma_.m, mma_.n);
    if (mma_.scale_count > 0) {
      operands_.scales = BlockScales{.a = Matrix(mma_.scale_type, mma_.m, mma_.scale_count),
                                     .b = Matrix(mma_.scale_type, mma_.scale_count, mma_.n)};
    }
    if (mma_.products > 1) operands_.selected_k = family::positions_of_products(mma_);
  }

  const Operands& read(int64_t index) {
    read_a(index);
    read_codes(view_of(batch_.b, index), operands_.b);
    if (batch_.c && operands_.c) read_codes(view_of(*batch_.c, index), *operands_.c);
    if (operands_.scales) {
      read_codes(view_of(*batch_.scale_a, index), operands_.scales->a);
      read_codes(view_of(*batch_.scale_b, index), operands_.scales->b);
    }
    return operands_;
  }

  void read_a(int64_t index) {
    if (!mma_.sparse) return read_codes(view_of(batch_.a, index), operands_.a);
    if (batch_.metadata) {
      read_codes(view_of(batch_.a, index), operands_.a);
      read_metadata(view_of(*batch_.metadata, index));
      return;
    }
    read_codes(view_of(batch_.a, index), logical_a_);
    try {
      compress_a(instruction_, logical_a_, operands_);
    } catch (const Error& error) {
      std::vector<Violation> violations = error.violations();
      for (Violation& violation : violations) violation.field = fmt::format("product {}: {}", index, violation.field);
      throw Error(std::move(violations));
    }
  }

 private:
  void read_metadata(const CodeView& metadata) {
    const auto* nibbles = static_cast<const uint8_t*>(metadata.data);
    Selection selection = select(
        sparse_pattern(mma_.a_container_bits, mma_.sparsity_version), mma_.m, mma_.stored_k(),
        [&](int row, int chunk) -> uint32_t {
          return nibbles[row * metadata.row_stride + chunk * metadata.col_stride] & 0xF;
        },
        mma_.ordered_metadata, mma_.a);
    operands_.selected_k = std::move(selection.k);
    operands_.mixed = std::move(selection.mixed);
  }

  const Instruction& instruction_;
  const Mma& mma_;
  const BatchOperands& batch_;
  Operands operands_ = {};
  Matrix logical_a_ = {};
};

}  // namespace

int metadata_chunks(const Mma& mma) {
  return mma.sparse ? mma.stored_k() / sparse_pattern(mma.a_container_bits, mma.sparsity_version).stored_per_chunk : 0;
}

PreparedMma::PreparedMma(const Instruction& instruction, Target target, bool has_c)
    : instruction_(has_c ? instruction : with_enable_input_d(instruction, false)), target_(target), has_c_(has_c) {
  require_legal(instruction_, target);
  mma_ = mma_of(instruction_);
  model_ = &model_for(instruction_, target);
}

void PreparedMma::require_complete(const BatchOperands& operands) const {
  const bool scaled = mma_.scale_count > 0;
  const bool complete = operands.c.has_value() == has_c_ && operands.scale_a.has_value() == scaled &&
                        operands.scale_b.has_value() == scaled && (mma_.sparse || !operands.metadata);
  if (complete) return;
  std::vector<Violation> violations;
  const auto require = [&](bool wanted, const std::optional<BatchView>& view, std::string_view name,
                           std::string expected) {
    if (wanted == view.has_value()) return;
    violations.push_back({.code = view ? ViolationCode::no_effect : ViolationCode::missing_input,
                          .field = std::string(name),
                          .seen = view ? "given" : "(missing)",
                          .expected = std::move(expected)});
  };
  const std::string name = print(instruction_);
  const auto scales = [&](int rows, int cols) {
    return scaled ? fmt::format("{} x {} {}", rows, cols, info(mma_.scale_type).name)
                  : fmt::format("absent: {} has no block scales", name);
  };
  require(has_c_, operands.c, "c", has_c_ ? fmt::format("{} x {} {}", mma_.m, mma_.n, info(mma_.c).name) : "none");
  require(scaled, operands.scale_a, "scale_a", scales(mma_.m, mma_.scale_count));
  require(scaled, operands.scale_b, "scale_b", scales(mma_.scale_count, mma_.n));
  if (!mma_.sparse) require(false, operands.metadata, "metadata", fmt::format("absent: A of {} is dense", name));
  throw Error(std::move(violations));
}

void PreparedMma::require_readable(int64_t count, const BatchOperands& operands, const void* d) const {
  std::vector<Violation> violations;
  const auto require = [&](const void* data, bool fits, std::string_view name, int rows, int cols, Format format) {
    if (!data && count > 0) {
      violations.push_back(
          {.code = ViolationCode::missing_input,
           .field = std::string(name),
           .seen = "NULL",
           .expected = fmt::format("a pointer to {} x {} {} per product", rows, cols, info(format).name)});
    }
    if (!fits) {
      violations.push_back({.code = ViolationCode::too_large,
                            .field = std::string(name),
                            .seen = "too large",
                            .expected = "small enough that all sizes and distances fit 64 bits"});
    }
  };
  const auto read = [&](const BatchView& view, int rows, int cols, Format format, std::string_view name) {
    Wide lowest = 0, highest = code_bytes(format);
    const auto reach = [&](int64_t steps, int64_t stride) { (stride < 0 ? lowest : highest) += Wide{steps} * stride; };
    reach(rows - 1, view.codes.row_stride), reach(cols - 1, view.codes.col_stride);
    reach(std::max<int64_t>(count - 1, 0), view.batch_stride);
    require(view.codes.data, lowest >= INT64_MIN && highest <= INT64_MAX, name, rows, cols, format);
  };
  read(operands.a, mma_.m, operands.metadata ? mma_.stored_k() : mma_.a_cols(), mma_.a, "a");
  read(operands.b, mma_.k, mma_.n, mma_.b, "b");
  if (operands.c) read(*operands.c, mma_.m, mma_.n, mma_.c, "c");
  if (operands.scale_a) read(*operands.scale_a, mma_.m, mma_.scale_count, mma_.scale_type, "scale_a");
  if (operands.scale_b) read(*operands.scale_b, mma_.scale_count, mma_.n, mma_.scale_type, "scale_b");
  if (operands.metadata) read(*operands.metadata, mma_.m, metadata_chunks(mma_), Format::u8, "metadata");
  require(d, Wide{count} * mma_.m * mma_.n * code_bytes(mma_.d) <= INT64_MAX, "d", mma_.m, mma_.n, mma_.d);
  if (!violations.empty()) throw Error(std::move(violations));
}

void PreparedMma::multiply_batch(int64_t count, const BatchOperands& operands, void* d, int threads) const {
  if (count < 0)
    throw Error({.field = "count", .seen = std::to_string(count), .expected = "a number of products, 0 or more"});
  require_complete(operands);
  require_readable(count, operands, d);
  const auto for_all = [&](const auto& body) {
    parallel_for(static_cast<size_t>((count + products_a_piece - 1) / products_a_piece), threads, [&](size_t piece) {
      BatchReader reader(instruction_, mma_, operands);
      const int64_t first = static_cast<int64_t>(piece) * products_a_piece;
      for (int64_t i = first; i < std::min(count, first + products_a_piece); ++i) body(reader, i);
    });
  };
  // Only the codes of A show whether A is sparse enough, so check them before writing anything.
  if (mma_.sparse && !operands.metadata) for_all([](BatchReader& reader, int64_t i) { reader.read_a(i); });
  const int64_t bytes = int64_t{mma_.m} * mma_.n * code_bytes(mma_.d);
  for_all([&](BatchReader& reader, int64_t i) {
    write_codes(multiply_accumulate(*model_, reader.read(i)), static_cast<uint8_t*>(d) + i * bytes);
  });
}

void multiply_batch(const Instruction& instruction, Target target, int64_t count, const BatchOperands& operands,
                    void* d, int threads) {
  PreparedMma(instruction, target, operands.c.has_value()).multiply_batch(count, operands, d, threads);
}

}  // namespace bitmma
