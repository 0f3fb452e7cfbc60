#include "bitmma/instruction/batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "bitmma/instruction/case.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/memory/metadata.hpp"
#include "bitmma/stimulus/random_operands.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"
#include "support/instructions.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;
using test::refusal_of;

namespace {

using Bytes = std::vector<uint8_t>;

Bytes bytes_of(const Matrix& matrix) {
  Bytes bytes(matrix.size() * static_cast<size_t>(code_bytes(matrix.format())));
  write_codes(matrix, bytes.data());
  return bytes;
}

/// The first instruction of every form, and whatever the samples add.
std::vector<Instruction> one_of_each_form() {
  std::vector<Instruction> all;
  for (const Form& form : forms()) {
    const std::vector<Instruction> of_form = instructions_of(form);
    if (!is_mma(of_form.front())) continue;
    all.push_back(of_form.front());
    all.push_back(of_form.back());
  }
  for (const Instruction& instruction : test::sample_instructions()) {
    if (is_mma(instruction)) all.push_back(instruction);
  }
  for (const Tcgen05Mma& instruction : test::tcgen05_mmas()) {
    if (instruction.m * instruction.n <= 128 * 16) all.push_back(instruction);
  }
  return all;
}

/// Some random products of an instruction, one after the other in memory.
struct Batch {
  Mma mma = {};
  Bytes a = {}, b = {}, c = {}, scale_a = {}, scale_b = {};
  std::vector<LogicalMatrices> logical = {};

  Batch(const Instruction& instruction, int count) : mma(mma_of(instruction)) {
    const Target target = default_target(instruction);
    for (int i = 0; i < count; ++i) {
      const auto distribution = static_cast<Distribution>(static_cast<size_t>(i) % distributions.size());
      const Operands operands = random_operands(instruction, target, distribution, 11, static_cast<uint64_t>(i));
      logical.push_back(logical_of(instruction, operands));
      const LogicalMatrices& matrices = logical.back();
      append(a, matrices.a), append(b, matrices.b), append(c, matrices.c), append(scale_a, matrices.scale_a),
          append(scale_b, matrices.scale_b);
    }
  }

  BatchView view(const Bytes& bytes, int rows, int cols, Format format) const {
    const int64_t size = code_bytes(format);
    return {.codes = {bytes.data(), cols * size, size}, .batch_stride = rows * cols * size};
  }
  BatchOperands operands() const {
    BatchOperands all{
        .a = view(a, mma.m, mma.a_cols(), mma.a), .b = view(b, mma.k, mma.n, mma.b), .c = view(c, mma.m, mma.n, mma.c)};
    if (mma.scale_count > 0) {
      all.scale_a = view(scale_a, mma.m, mma.scale_count, mma.scale_type);
      all.scale_b = view(scale_b, mma.scale_count, mma.n, mma.scale_type);
    }
    return all;
  }
  size_t d_bytes() const {
    return static_cast<size_t>(mma.m) * static_cast<size_t>(mma.n) * static_cast<size_t>(code_bytes(mma.d));
  }

 private:
  static void append(Bytes& to, const std::optional<Matrix>& matrix) {
    if (!matrix) return;
    const Bytes bytes = bytes_of(*matrix);
    to.insert(to.end(), bytes.begin(), bytes.end());
  }
};

Bytes multiplied(const Instruction& instruction, int count, const BatchOperands& operands, size_t d_bytes,
                 int threads = 1) {
  Bytes d(d_bytes * static_cast<size_t>(count) + 1, 0xAB);
  multiply_batch(instruction, default_target(instruction), count, operands, d.data(), threads);
  CHECK(d.back() == 0xAB);
  d.pop_back();
  return d;
}

}  // namespace

TEST_CASE("a batch gives what multiply gives one by one: every form, with C and without") {
  constexpr int count = 3;
  const int every = test::amount(19, 1, 1);
  int tried = 0, checked = 0;
  for (const Instruction& instruction : one_of_each_form()) {
    if (tried++ % every != 0) continue;
    INFO(print(instruction));
    const Target target = default_target(instruction);
    const Batch batch(instruction, count);
    for (const bool has_c : {true, false}) {
      BatchOperands operands = batch.operands();
      if (!has_c) operands.c = {};
      const Bytes d = multiplied(instruction, count, operands, batch.d_bytes());
      Bytes expected;
      for (const LogicalMatrices& matrices : batch.logical) {
        const BlockScales scales = matrices.scale_a ? BlockScales{*matrices.scale_a, *matrices.scale_b} : BlockScales{};
        const Matrix product = multiply(instruction, target, *matrices.a, *matrices.b, has_c ? &*matrices.c : nullptr,
                                        matrices.scale_a ? &scales : nullptr);
        const Bytes bytes = bytes_of(product);
        expected.insert(expected.end(), bytes.begin(), bytes.end());
      }
      CHECK(d == expected);
      ++checked;
    }
  }
  CHECK(checked > 200 / every);
}

TEST_CASE("a batch gives the same bits for any number of threads") {
  constexpr int count = 300;  // more than a thread takes at once
  for (const Instruction& instruction : {Instruction(MmaSync{}), Instruction(MmaSync{.sparse = true}),
                                         Instruction(MmaSync{.kind = MmaKind::mxf4nvf4})}) {
    const Batch batch(instruction, count);
    const Bytes d = multiplied(instruction, count, batch.operands(), batch.d_bytes());
    for (const int threads : {2, 3, 16})
      CHECK(multiplied(instruction, count, batch.operands(), batch.d_bytes(), threads) == d);
  }
}

TEST_CASE("products may share an operand, and operands may lie column by column") {
  constexpr int count = 4;
  for (const Instruction& instruction : test::sample_instructions()) {
    if (!is_mma(instruction)) continue;
    INFO(print(instruction));
    const Batch batch(instruction, count);
    const Mma& mma = batch.mma;

    // B of the first product for all.
    BatchOperands shared = batch.operands();
    shared.b.batch_stride = 0;
    BatchOperands repeated = batch.operands();
    Bytes b;
    for (int i = 0; i < count; ++i)
      b.insert(b.end(), batch.b.begin(), batch.b.begin() + batch.operands().b.batch_stride);
    repeated.b.codes.data = b.data();
    CHECK(multiplied(instruction, count, shared, batch.d_bytes()) ==
          multiplied(instruction, count, repeated, batch.d_bytes()));

    // A column by column.
    Bytes a;
    for (const LogicalMatrices& matrices : batch.logical) {
      const Bytes bytes = bytes_of(transposed(*matrices.a));
      a.insert(a.end(), bytes.begin(), bytes.end());
    }
    BatchOperands by_columns = batch.operands();
    by_columns.a.codes = {a.data(), code_bytes(mma.a), int64_t{mma.m} * code_bytes(mma.a)};
    CHECK(multiplied(instruction, count, by_columns, batch.d_bytes()) ==
          multiplied(instruction, count, batch.operands(), batch.d_bytes()));

    // From the last product to the first.
    BatchOperands backwards = batch.operands();
    for (BatchView* view : {&backwards.a, &backwards.b, &*backwards.c}) {
      view->codes.data = static_cast<const uint8_t*>(view->codes.data) + (count - 1) * view->batch_stride;
      view->batch_stride = -view->batch_stride;
    }
    if (backwards.scale_a) continue;
    const Bytes forwards = multiplied(instruction, count, batch.operands(), batch.d_bytes()),
                reversed = multiplied(instruction, count, backwards, batch.d_bytes());
    for (int i = 0; i < count; ++i) {
      const auto size = static_cast<std::ptrdiff_t>(batch.d_bytes());
      CHECK(std::equal(forwards.begin() + i * size, forwards.begin() + (i + 1) * size,
                       reversed.begin() + (count - 1 - i) * size));
    }
  }
}

TEST_CASE("D may take the place of C") {
  const Instruction instruction = MmaSync{};
  const Batch batch(instruction, 5);
  const Bytes d = multiplied(instruction, 5, batch.operands(), batch.d_bytes());
  Bytes in_place = batch.c;
  BatchOperands operands = batch.operands();
  operands.c->codes.data = in_place.data();
  multiply_batch(instruction, default_target(instruction), 5, operands, in_place.data(), 2);
  CHECK(in_place == d);
}

TEST_CASE("a sparse A as it is stored with its metadata, every nibble, multiplies as from the state of a machine") {
  int checked = 0;
  std::vector<Instruction> sparse;
  for (const Instruction& instruction : one_of_each_form()) {
    if (mma_of(instruction).sparse) sparse.push_back(instruction);
  }
  for (const Instruction& instruction : sparse) {
    const Mma mma = mma_of(instruction);
    const Target target = default_target(instruction);
    const int chunks = metadata_chunks(mma);
    INFO(print(instruction) << " with " << chunks << " chunks a row");
    REQUIRE(chunks > 0);
    Operands operands = random_operands(instruction, target, Distribution::normal, 5, 0);
    const Bytes a = bytes_of(operands.a), b = bytes_of(operands.b), c = bytes_of(*operands.c);
    Bytes scale_a, scale_b;
    if (operands.scales) scale_a = bytes_of(operands.scales->a), scale_b = bytes_of(operands.scales->b);
    // Nibbles that PTX leaves undefined among them: what they select is what memory/metadata.hpp says.
    Bytes metadata(static_cast<size_t>(mma.m * chunks));
    for (size_t i = 0; i < metadata.size(); ++i) metadata[i] = static_cast<uint8_t>(0xF0 | (i * 7 + i / 16) % 16);
    Selection selection = select(
        sparse_pattern(mma.a_container_bits, mma.sparsity_version), mma.m, mma.stored_k(),
        [&](int row, int chunk) -> uint32_t { return metadata[static_cast<size_t>(row * chunks + chunk)] & 0xF; },
        mma.ordered_metadata, mma.a);
    operands.selected_k = selection.k, operands.mixed = selection.mixed;
    const Matrix expected = multiply_accumulate(model_for(instruction, target), operands);

    const auto view = [](const Bytes& bytes, int cols, Format format) {
      return BatchView{.codes = {bytes.data(), int64_t{cols} * code_bytes(format), code_bytes(format)}};
    };
    BatchOperands batch{.a = view(a, mma.stored_k(), mma.a), .b = view(b, mma.n, mma.b), .c = view(c, mma.n, mma.c)};
    batch.metadata = view(metadata, chunks, Format::u8);
    if (operands.scales) {
      batch.scale_a = view(scale_a, mma.scale_count, mma.scale_type);
      batch.scale_b = view(scale_b, mma.n, mma.scale_type);
    }
    Bytes d(bytes_of(expected).size());
    multiply_batch(instruction, target, 1, batch, d.data());
    CHECK(d == bytes_of(expected));
    ++checked;
  }
  CHECK(checked > 30);
}

TEST_CASE("the metadata that a machine's registers hold give the bits that the machine gives") {
  // mma.sp of f16: the nibbles of row r lie in the words of lanes 4 (r % 8) and 4 (r % 8) + 1 (selector 0), rows 0..7
  // in the low halves. PTX ISA, sparse mma m16n8k32 of f16, metadata.
  const Instruction instruction = MmaSync{.sparse = true};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Case this_case = test::sample_case(instruction, seed);
    std::vector<uint32_t> words = test::words_of(this_case.before, Field::metadata);
    for (size_t i = 0; i < words.size(); ++i) words[i] = static_cast<uint32_t>(0x9E3779B9 * (i + 1 + 32 * seed));
    this_case.before.set(Field::metadata, words, {32, 1});
    const Operands operands = gather_operands(instruction, this_case.target, this_case.before);
    const Mma mma = mma_of(instruction);
    const int chunks = metadata_chunks(mma);
    REQUIRE(chunks == 8);
    Bytes metadata;
    for (int row = 0; row < 16; ++row) {
      for (int chunk = 0; chunk < chunks; ++chunk) {
        const auto lane = static_cast<size_t>(4 * (row % 8) + chunk / 4);
        metadata.push_back(static_cast<uint8_t>(words[lane] >> (16 * (row / 8) + 4 * (chunk % 4)) & 0xF));
      }
    }
    const Bytes a = bytes_of(operands.a), b = bytes_of(operands.b), c = bytes_of(*operands.c);
    Bytes d(16 * 8 * 4);
    multiply_batch(instruction, this_case.target, 1,
                   {.a = {{a.data(), 32, 2}},
                    .b = {{b.data(), 16, 2}},
                    .c = BatchView{{c.data(), 32, 4}},
                    .metadata = BatchView{{metadata.data(), chunks, 1}}},
                   d.data());
    CHECK(d == bytes_of(result_of(instruction, this_case.target, this_case.before)));
  }
}

TEST_CASE("what a batch refuses is named, and D stays as it was") {
  const Instruction dense = MmaSync{}, sparse = MmaSync{.sparse = true}, scaled = MmaSync{.kind = MmaKind::mxf4nvf4};
  const auto refusal = [](const Instruction& instruction, Target target, int64_t count, const BatchOperands& operands) {
    Bytes d(1 << 18, 0xAB);
    const std::vector<Violation> violations =
        refusal_of([&] { multiply_batch(instruction, target, count, operands, d.data(), 2); });
    CHECK(violations.empty() != std::ranges::all_of(d, [](uint8_t byte) { return byte == 0xAB; }));
    return violations;
  };
  const Batch of_dense(dense, 2), of_scaled(scaled, 2), of_sparse(sparse, 130);
  CHECK_THAT(refusal(dense, Target::sm_80, -1, of_dense.operands()), refused(illegal_value, "count"));
  CHECK_THAT(refusal(dense, Target::sm_70, 1, of_dense.operands()), refused(unsupported_target, "target"));
  CHECK_THAT(refusal(MmaSync{.n = 12}, Target::sm_80, 1, of_dense.operands()), refused(illegal_value, "shape"));
  CHECK_THAT(refusal(TmemMove{}, Target::sm_100a, 1, of_dense.operands()), refused(wrong_instruction, "instruction"));

  BatchOperands operands = of_dense.operands();
  operands.scale_a = operands.a, operands.metadata = operands.b;
  const std::vector<Violation> surplus = refusal(dense, Target::sm_80, 1, operands);
  CHECK_THAT(surplus, refused(no_effect, "scale_a"));
  CHECK_THAT(surplus, refused(no_effect, "metadata"));

  operands = of_scaled.operands(), operands.scale_b = {};
  CHECK_THAT(refusal(scaled, Target::sm_120a, 1, operands), refused(missing_input, "scale_b"));

  // The first products are fine, the last one is not sparse enough.
  Bytes a = of_sparse.a;
  std::fill(a.end() - 16, a.end(), uint8_t{0x3C});
  operands = of_sparse.operands(), operands.a.codes.data = a.data();
  CHECK_THAT(refusal(sparse, Target::sm_80, 130, operands),
             refused(contradiction, "product 129: a row 15, columns 24..27"));
  CHECK(refusal(sparse, Target::sm_80, 129, of_sparse.operands()).empty());
}

TEST_CASE("a batch refuses pointers that are NULL and distances that 64 bits do not hold, in every view") {
  constexpr int64_t most = INT64_MAX, least = INT64_MIN;
  for (const Instruction& instruction : {Instruction(MmaSync{}), Instruction(MmaSync{.kind = MmaKind::mxf4nvf4})}) {
    const Target target = default_target(instruction);
    const Batch batch(instruction, 2);
    Bytes d(2 * batch.d_bytes(), 0xAB);
    const auto refusal = [&](const auto& change, void* to) {
      BatchOperands operands = batch.operands();
      change(operands);
      const std::vector<Violation> violations =
          refusal_of([&] { multiply_batch(instruction, target, 2, operands, to); });
      CHECK(violations == refusal_of([&] { PreparedMma(instruction, target, true).multiply_batch(2, operands, to); }));
      CHECK(std::ranges::all_of(d, [](uint8_t byte) { return byte == 0xAB; }));
      return violations;
    };
    using View = BatchView& (*)(BatchOperands&);
    std::vector<std::pair<std::string, View>> views{{"a", [](BatchOperands& all) -> BatchView& { return all.a; }},
                                                    {"b", [](BatchOperands& all) -> BatchView& { return all.b; }},
                                                    {"c", [](BatchOperands& all) -> BatchView& { return *all.c; }}};
    if (mma_of(instruction).scale_count > 0) {
      views.emplace_back("scale_a", [](BatchOperands& all) -> BatchView& { return *all.scale_a; });
      views.emplace_back("scale_b", [](BatchOperands& all) -> BatchView& { return *all.scale_b; });
    }
    for (const auto& [name, view] : views) {
      const auto expect = [&, &of = view, &called = name](const auto& change, std::string_view seen) {
        const std::vector<Violation> violations = refusal([&](BatchOperands& all) { change(of(all)); }, d.data());
        REQUIRE_FALSE(violations.empty());
        CHECK(violations.front().field == called);
        CHECK(violations.front().seen == seen);
      };
      expect([](BatchView& batch_view) { batch_view.codes.data = nullptr; }, "NULL");
      expect([](BatchView& batch_view) { batch_view.codes.row_stride = most; }, "too large");
      expect([](BatchView& batch_view) { batch_view.codes.row_stride = batch_view.codes.col_stride = least; },
             "too large");
      expect([](BatchView& batch_view) { batch_view.batch_stride = most; }, "too large");
      expect(
          [](BatchView& batch_view) {
            batch_view.codes.row_stride = least / 2, batch_view.batch_stride = least / 2 - 1;
          },
          "too large");
    }
    CHECK_THAT(refusal([](BatchOperands&) {}, nullptr), refused(missing_input, "d"));
    CHECK_THAT(refusal_of([&] { multiply_batch(instruction, target, most / 8, batch.operands(), d.data()); }),
               refused(too_large, "d"));
  }
  CHECK_THAT(refusal_of([&] { multiply_batch(MmaSync{}, Target::sm_80, 1, {}, nullptr); }),
             refused(missing_input, "a") && refused(missing_input, "b") && refused(missing_input, "d"));
}

TEST_CASE("no products are no work") {
  Bytes d(4, 0xAB);
  multiply_batch(MmaSync{}, Target::sm_80, 0, {}, d.data(), 4);
  CHECK(d == Bytes(4, 0xAB));
}

TEST_CASE("a prepared instruction takes C where it was announced, and only there") {
  const Instruction instruction = MmaSync{};
  const Batch batch(instruction, 2);
  const Target target = default_target(instruction);
  const PreparedMma with_c(instruction, target, true), without_c(instruction, target, false);
  CHECK(with_c.mma() == mma_of(instruction));
  CHECK(with_c.target() == target);
  BatchOperands operands = batch.operands();
  Bytes d(2 * batch.d_bytes());
  with_c.multiply_batch(2, operands, d.data());
  CHECK(d == multiplied(instruction, 2, operands, batch.d_bytes()));
  CHECK_THAT(refusal_of([&] { without_c.multiply_batch(2, operands, d.data()); }), refused(no_effect, "c"));
  operands.c = {};
  CHECK_THAT(refusal_of([&] { with_c.multiply_batch(2, operands, d.data()); }), refused(missing_input, "c"));
  CHECK_THROWS_AS(PreparedMma(instruction, Target::sm_70, true), Error);
}
