// Products of an instruction on codes in the caller's memory, with any strides that stay inside it: the same D from one
// call, from several, and from matrices.
#include "bitmma/instruction/batch.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"
#include "fuzz.hpp"

namespace bitmma::fuzz {
namespace {

/// Memory of somebody else and how `count` matrices lie in it.
struct Lent {
  std::vector<uint8_t> memory = {};
  BatchView view = {};
};

Lent lend(Bytes& in, int64_t count, int rows, int cols, int code_size) {
  const bool turned = in.ConsumeBool();
  int64_t col_stride = turned ? int64_t{rows} * code_size : code_size;
  int64_t row_stride = turned ? code_size : int64_t{cols} * code_size;
  if (one_in(in, 4)) row_stride += between(in, 0, 5), col_stride += between(in, 0, 5);
  if (one_in(in, 6)) row_stride = 0;
  if (one_in(in, 6)) col_stride = -col_stride;
  if (one_in(in, 6)) row_stride = -row_stride;
  const int64_t span = std::abs(row_stride) * (rows - 1) + std::abs(col_stride) * (cols - 1) + code_size;
  const int64_t batch_stride = one_in(in, 4) ? 0 : one_in(in, 4) ? -span : span;
  const int64_t steps[] = {row_stride * (rows - 1), col_stride * (cols - 1), batch_stride * (count - 1)};
  int64_t first = 0, last = 0;
  for (const int64_t step : steps) (step < 0 ? first : last) += step;
  Lent lent{.memory = bytes(in, static_cast<std::size_t>(last - first + code_size))};
  lent.view = {{lent.memory.data() - first, row_stride, col_stride}, batch_stride};
  return lent;
}

}  // namespace
}  // namespace bitmma::fuzz

void fuzz_one(bitmma::fuzz::Bytes& in) {
  using namespace bitmma;
  using namespace bitmma::fuzz;
  const Instruction instruction = listed_instruction(in);
  const Target target = one_in(in, 16) ? any_target(in) : default_target(instruction);
  if (!is_mma(instruction)) {
    require(!accepts([&] { (void)PreparedMma(instruction, target, false); }), "a move is no product");
    return;
  }
  const Mma mma = mma_of(instruction);
  if (int64_t{mma.m} * mma.n * mma.k > 128 * 32 * 64 && !one_in(in, 16)) return;
  const int64_t count = between(in, 1, 3);
  const auto lend_matrix = [&](Format format, int rows, int cols) {
    return lend(in, count, rows, cols, code_bytes(format));
  };
  const bool stored = mma.sparse && in.ConsumeBool();
  const Lent a = lend_matrix(mma.a, mma.m, stored ? mma.stored_k() : mma.a_cols()),
             b = lend_matrix(mma.b, mma.k, mma.n);
  Lent c, scale_a, scale_b, metadata;
  BatchOperands operands{.a = a.view, .b = b.view};
  if (in.ConsumeBool()) c = lend_matrix(mma.c, mma.m, mma.n), operands.c = c.view;
  if ((mma.scale_count > 0) != one_in(in, 32)) {
    const int scales = std::max(1, mma.scale_count);
    scale_a = lend_matrix(mma.scale_type, mma.m, scales), operands.scale_a = scale_a.view;
    scale_b = lend_matrix(mma.scale_type, scales, mma.n), operands.scale_b = scale_b.view;
  }
  if (stored)
    metadata = lend(in, count, mma.m, std::max(1, metadata_chunks(mma)), 1), operands.metadata = metadata.view;

  const auto outputs =
      static_cast<std::size_t>(count) * static_cast<std::size_t>(mma.m) * static_cast<std::size_t>(mma.n);
  std::vector<uint8_t> d(outputs * static_cast<std::size_t>(code_bytes(mma.d)), 0xA5), again = d;
  const std::vector<uint8_t> untouched = d;
  const bool runs = accepts([&] { multiply_batch(instruction, target, count, operands, d.data(), 1); });
  require(runs || d == untouched, "a refusal writes nothing");
  std::optional<PreparedMma> prepared;
  if (!accepts([&] { prepared.emplace(instruction, target, in.ConsumeBool()); })) return;
  if (accepts([&] { prepared->multiply_batch(count, operands, again.data(), 2); })) {
    require(again == d, "a prepared instruction and two threads give the same bits");
  }
}
