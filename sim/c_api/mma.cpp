// SPDX-License-Identifier: MIT
#include "bitmma/core/target_names.hpp"
#include "bitmma/instruction/batch.hpp"
#include "bitmma/instruction/form.hpp"
#include "c_api.hpp"

using namespace bitmma;
using namespace bitmma::c_api;

namespace {

struct Shape {
  int rows = 0, cols = 0;
  Format format = Format::u8;
};

BatchView batch_view(const bitmma_view& view, const Shape& shape, std::string_view name) {
  const bool has_gaps = view.row_stride != 0 || view.col_stride != 0;
  BatchView to{
      .codes = code_view(view.data, view.row_stride, view.col_stride, shape.rows, shape.cols, shape.format, name),
      .batch_stride = view.batch_stride};
  if (!has_gaps && view.batch_stride == 0) to.batch_stride = shape.rows * to.codes.row_stride;
  return to;
}

/// The checked instruction for the target; usually the call before has already prepared it.
std::shared_ptr<const PreparedMma> prepared_for(const bitmma_instruction& instruction, const char* target, bool has_c) {
  std::shared_ptr<const PreparedMma>& place = instruction.prepared[has_c];
  const auto load = [&] {
    const std::lock_guard lock(instruction.mutex);
    return place;
  };
  std::shared_ptr<const PreparedMma> kept = load();
  const Target on = target ? target_from(target) : default_target(instruction.value);
  if (kept && kept->target() == on) return kept;
  kept = std::make_shared<PreparedMma>(instruction.value, on, has_c);
  const std::lock_guard lock(instruction.mutex);
  place = kept;
  return kept;
}

}  // namespace

bitmma_status bitmma_mma(const bitmma_instruction* instruction, const char* target, int64_t count,
                         const bitmma_operands* operands, void* d, int threads) {
  return guarded([&] {
    const bitmma_operands& from = pointee(operands, "operands");
    const auto prepared = prepared_for(pointee(instruction, "instruction"), target, from.c.data != nullptr);
    const Mma& mma = prepared->mma();
    const auto optional = [&](const bitmma_view& view, const Shape& shape, std::string_view name) {
      return view.data ? std::optional(batch_view(view, shape, name)) : std::nullopt;
    };
    const int a_cols = from.metadata.data ? mma.stored_k() : mma.a_cols();
    prepared->multiply_batch(count,
                             {.a = batch_view(from.a, {mma.m, a_cols, mma.a}, "a"),
                              .b = batch_view(from.b, {mma.k, mma.n, mma.b}, "b"),
                              .c = optional(from.c, {mma.m, mma.n, mma.c}, "c"),
                              .scale_a = optional(from.scale_a, {mma.m, mma.scale_count, mma.scale_type}, "scale_a"),
                              .scale_b = optional(from.scale_b, {mma.scale_count, mma.n, mma.scale_type}, "scale_b"),
                              .metadata = optional(from.metadata, {mma.m, metadata_chunks(mma)}, "metadata")},
                             d, threads_of(threads));
  });
}
