#include "bitmma/memory/fragment_chain.hpp"

#include <array>
#include <numeric>

#include "bitmma/core/random.hpp"
#include "bitmma/formats/codes.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/place.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

namespace {

/// Small whole numbers, whose products and sums every instruction computes exactly.
Matrix whole_numbers(Format format, int rows, int cols, uint64_t seed) {
  RandomStream random(11, seed);
  std::vector<float> values(static_cast<size_t>(rows) * static_cast<size_t>(cols));
  for (float& value : values) value = static_cast<float>(static_cast<int>(random.below(5)) - 2);
  return from_floats(format, rows, cols, values);
}

Matrix product_of(const Matrix& a, const Matrix& b) {
  const std::vector<float> x = to_floats(a), y = to_floats(b);
  std::vector<float> sums(static_cast<size_t>(a.rows()) * static_cast<size_t>(b.cols()));
  for (int row = 0; row < a.rows(); ++row) {
    for (int col = 0; col < b.cols(); ++col) {
      for (int k = 0; k < a.cols(); ++k)
        sums[static_cast<size_t>(row * b.cols() + col)] +=
            x[static_cast<size_t>(row * a.cols() + k)] * y[static_cast<size_t>(k * b.cols() + col)];
    }
  }
  return from_floats(Format::f32, a.rows(), b.cols(), sums);
}

/// A as `second` reads it from registers that hold each thread's own elements of D.
Matrix packed_by_threads(const FragmentChain& chain, const Fragment& d, const Fragment& a,
                         const std::vector<std::vector<uint32_t>>& d_registers, Format format) {
  std::vector<uint32_t> registers(static_cast<size_t>(a.words()), 0);
  for (int thread = 0; thread < a.threads; ++thread) {
    for (size_t reg = 0; reg < chain.registers.size(); ++reg) {
      uint32_t& word = registers[static_cast<size_t>(thread * a.registers()) + reg];
      for (size_t i = 0; i < chain.registers[reg].size(); ++i) {
        const ChainElement& element = chain.registers[reg][i];
        const uint32_t bits = d_registers[static_cast<size_t>(element.instruction)]
                                         [static_cast<size_t>(thread * d.registers() + element.element)];
        Matrix one(Format::f32, 1, 1);
        one(0, 0) = bits;
        const Matrix converted = from_floats(format, 1, 1, to_floats(one));
        word |= converted(0, 0) << static_cast<int>(i) * a.element_bits;
      }
    }
  }
  return gather(registers, a, format, "a");
}

/// D of the instruction in one state, as its registers.
std::vector<uint32_t> d_registers_of(const Instruction& instruction, const Matrix& a, const Matrix& b,
                                     const Fragment& d) {
  const Mma mma = mma_of(instruction);
  State state = place_operands(instruction, {}, {.a = a, .b = b, .c = Matrix(mma.c, mma.m, mma.n)}, RandomStream(1, 1));
  execute(instruction, default_target(instruction), state);
  const std::span<const uint32_t> words = state.words(Field::accumulator);
  REQUIRE(std::ssize(words) == d.words());
  return {words.begin(), words.end()};
}

/// Both products on registers: O = (Q K^T) V with V's rows in the chain's order equals the exact product.
void check_products(const std::string& first_text, const std::string& second_text) {
  INFO(first_text << " " << second_text);
  const Instruction first = parse_instruction(first_text), second = parse_instruction(second_text);
  const Mma before = mma_of(first), after = mma_of(second);
  const bool is_warp = std::holds_alternative<MmaSync>(first);
  const Fragment d = is_warp ? fragment_of(std::get<MmaSync>(first), "d") : wgmma_d_fragment(before.d, before.n);
  const Fragment a = is_warp ? fragment_of(std::get<MmaSync>(second), "a") : wgmma_a_fragment(after.a, after.k);
  const FragmentChain chain = chain_of(d, a);
  REQUIRE(std::ssize(chain.column_of_k) == after.k);
  const Matrix q = whole_numbers(before.a, before.m, before.k, 1);
  const Matrix k = whole_numbers(before.b, before.k, chain.instructions * before.n, 2);
  std::vector<std::vector<uint32_t>> s;
  for (int i = 0; i < chain.instructions; ++i)
    s.push_back(d_registers_of(first, q, block_of(k, 0, before.k, i * before.n, before.n), d));
  const Matrix p = packed_by_threads(chain, d, a, s, after.a);
  const Matrix v = whole_numbers(after.b, after.k, after.n, 3);
  Matrix ordered = v;
  for (int row = 0; row < after.k; ++row)
    set_block(ordered, row, 0, block_of(v, chain.column_of_k[static_cast<size_t>(row)], 1, 0, after.n));
  const Fragment o_fragment =
      is_warp ? fragment_of(std::get<MmaSync>(second), "d") : wgmma_d_fragment(after.d, after.n);
  const Matrix o = gather(d_registers_of(second, p, ordered, o_fragment), o_fragment, after.d, "d");
  const Matrix scores = product_of(q, block_of(k, 0, before.k, 0, after.k));
  CHECK(o == product_of(from_floats(after.a, scores.rows(), scores.cols(), to_floats(scores)), v));
}

const std::string wgmma_f16 = "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16",
                  wgmma_fp8 = "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3",
                  mma_f16 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
                  mma_bf16 = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
                  mma_fp8 = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32",
                  mma_tf32 = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32";

FragmentChain chain_of(const std::string& first, const std::string& second) {
  return bitmma::chain_of(register_fragment_of(parse_instruction(first), "d"),
                          register_fragment_of(parse_instruction(second), "a"));
}

}  // namespace

TEST_CASE("D of f16 products is A of the next, register by register") {
  const FragmentChain chain = chain_of(mma_f16, mma_f16);
  CHECK(chain.keeps_order());
  CHECK(chain.instructions == 2);
  std::vector<int> order(16);
  std::iota(order.begin(), order.end(), 0);
  CHECK(chain.column_of_k == order);
  CHECK(chain.registers ==
        std::vector<std::vector<ChainElement>>{{{0, 0}, {0, 1}}, {{0, 2}, {0, 3}}, {{1, 0}, {1, 1}}, {{1, 2}, {1, 3}}});
}

// FlashAttention-3, section 3.3: d0 d1 d4 d5 d2 d3 d6 d7, and the rows of V in the order 0 1 8 9 2 3 10 11 ...
TEST_CASE("D as A of e4m3 has FlashAttention-3's order of registers and of k") {
  const FragmentChain chain = bitmma::chain_of(wgmma_d_fragment(Format::f32, 64), wgmma_a_fragment(Format::e4m3, 32));
  CHECK_FALSE(chain.keeps_order());
  CHECK(chain.column_of_k == std::vector<int>{0,  1,  8,  9,  2,  3,  10, 11, 4,  5,  12, 13, 6,  7,  14, 15,
                                              16, 17, 24, 25, 18, 19, 26, 27, 20, 21, 28, 29, 22, 23, 30, 31});
  REQUIRE(chain.registers.size() == 4);
  CHECK(chain.registers[0] == std::vector<ChainElement>{{0, 0}, {0, 1}, {0, 4}, {0, 5}});
  CHECK(chain.registers[1] == std::vector<ChainElement>{{0, 2}, {0, 3}, {0, 6}, {0, 7}});
  CHECK(chain.registers[2] == std::vector<ChainElement>{{0, 8}, {0, 9}, {0, 12}, {0, 13}});
}

TEST_CASE("two products on the registers of a chain give the exact result") {
  check_products(mma_f16, mma_f16);
  check_products(mma_bf16, mma_bf16);
  check_products(mma_f16, mma_fp8);
  check_products(mma_fp8, mma_fp8);
  check_products(mma_tf32, mma_tf32);
  check_products(wgmma_f16, wgmma_f16);
  check_products(wgmma_fp8, wgmma_fp8);
}

TEST_CASE("the sources of an exchange hold the elements that A needs") {
  const Fragment d = mma_d_fragment(), a = mma_a_fragment(8, 32);
  for (int thread = 0; thread < 32; ++thread) {
    for (int reg = 0; reg < a.registers(); ++reg) {
      for (int bit = 0; bit < 32; bit += 8) {
        const ChainSource source = source_of(d, a, thread, reg, bit);
        const MatrixPlace held = element_at(d, source.thread, source.element.element, 0);
        CHECK(MatrixPlace{held.row, held.col + 8 * source.element.instruction} == element_at(a, thread, reg, bit));
        CHECK(source.thread / 4 == thread / 4);  // of the same quad
      }
    }
  }
}

TEST_CASE("chains refuse fragments of other threads and shapes") {
  CHECK_THROWS_MATCHES(bitmma::chain_of(mma_d_fragment(), wgmma_a_fragment(Format::f16, 16)), Error,
                       refused(contradiction, "threads"));
  CHECK_THROWS_MATCHES(bitmma::chain_of(wgmma_d_fragment(Format::f32, 24), wgmma_a_fragment(Format::f16, 16)), Error,
                       refused(contradiction, "shapes"));
}
