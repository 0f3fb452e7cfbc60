// Whole products against a second implementation, output by output: the slow oracle for the chain, integer IEEE
// arithmetic between instructions.
#include "bitmma/gemm/gemm.hpp"

#include <bit>
#include <functional>

#include "bitmma/core/random.hpp"
#include "bitmma/formats/ieee.hpp"
#include "bitmma/formats/round.hpp"
#include "bitmma/gemm/find.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/statement.hpp"
#include "gemm/gemm_inside.hpp"
#include "oracle/slow_dot.hpp"
#include "support/catch.hpp"
#include "support/instructions.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using test::refusal_of;

namespace {

constexpr Format f32_format = Format::f32;

Matrix random_matrix(Format format, int rows, int cols, RandomStream& random) {
  std::vector<float> values(static_cast<size_t>(rows) * static_cast<size_t>(cols));
  for (float& value : values) value = static_cast<float>(random.between(-20000, 20000)) / 4096;
  return from_floats(format == Format::tf32 ? Format::f32 : format, rows, cols, values);
}

uint32_t rounded(uint32_t code, Format to) {
  return static_cast<uint32_t>(convert(f32_format, code, to, Rounding::nearest_even, Overflow::infinity));
}
uint32_t through(uint32_t code, Format format) {
  return static_cast<uint32_t>(
      convert(format, rounded(code, format), f32_format, Rounding::nearest_even, Overflow::infinity));
}
uint32_t add(uint32_t x, uint32_t y) { return static_cast<uint32_t>(ieee_add(f32_format, x, y)); }

/// One output by the words of docs/products.md.
class Reference {
 public:
  Reference(const GemmPlan& plan, const GemmInputs& inputs, int row, int col)
      : plan_(plan),
        inputs_(inputs),
        row_(row),
        col_(col),
        step_(plan.tensor().k_step ? plan.tensor().k_step : mma_of(plan.tensor().instruction).k) {}

  uint32_t d() const {
    std::vector<uint32_t> partials;
    for (const auto& [first, last] : slices_of(plan_.split_k, inputs_.a.cols())) {
      partials.push_back(slice(first, last));
      if (plan_.reduction.partial == SumType::out) partials.back() = through(partials.back(), plan_.output);
    }
    const bool running = plan_.reduction.running == SumType::out;
    if (plan_.reduction.order != ReductionOrder::ascending) {
      while (partials.size() > 1) {
        std::vector<uint32_t> next;
        const bool odd_first = plan_.reduction.order == ReductionOrder::pairs_from_end && partials.size() % 2 == 1;
        if (odd_first) next.push_back(partials[0]);
        for (size_t i = odd_first; i < partials.size(); i += 2) {
          const bool pair = i + 1 < partials.size();
          const uint32_t sum = pair ? add(partials[i], partials[i + 1]) : partials[i];
          next.push_back(pair && running ? through(sum, plan_.output) : sum);
        }
        partials = next;
      }
    }
    uint32_t sum = partials.front();
    for (size_t i = 1; i < partials.size(); ++i) sum = add(running ? through(sum, plan_.output) : sum, partials[i]);
    return plan_.output == f32_format ? sum : rounded(sum, plan_.output);
  }

 private:
  uint32_t chain(std::optional<uint32_t> c, int64_t first, int64_t last) const {
    const Mma mma = mma_of(plan_.tensor().instruction);
    const bool fp8 = mma.a == Format::e4m3;
    const oracle::Rule rule{fp8 ? 13 : 25, -133, fp8 ? 13 : 23, false, false};
    std::vector<uint32_t> a, b;
    for (int64_t k = first; k < last; ++k) {
      const auto at = static_cast<int>(k);
      a.push_back(inputs_.a(row_, at)), b.push_back(inputs_.b(at, col_));
      if (plan_.tensor().input_rounding == InputRounding::tf32_rne)
        a.back() = rounded(a.back(), Format::tf32), b.back() = rounded(b.back(), Format::tf32);
    }
    const std::string type(info(mma.a).name);
    return oracle::fused_dot(rule, type, type, a, b, false, false, c);
  }

  uint32_t slice(int64_t first, int64_t last) const {
    const int64_t tile = plan_.tensor().k_tile ? plan_.tensor().k_tile : last - first;
    std::vector<int64_t> bounds{first};
    const int64_t rest = (last - first) % tile;
    if (plan_.tensor().residue == Residue::first && rest) bounds.push_back(first + rest);
    while (bounds.back() < last) bounds.push_back(std::min(bounds.back() + tile, last));
    std::optional<uint32_t> joined;
    for (int warp = 0; warp < plan_.tensor().sliced_k; ++warp) {
      std::optional<uint32_t> acc;
      uint32_t run = 0;
      for (size_t t = 0; t + 1 < bounds.size(); ++t) {
        const int64_t share = plan_.tensor().sliced_k > 1 ? tile / plan_.tensor().sliced_k : tile;
        const int64_t begin = std::min(bounds[t] + warp * share, bounds[t + 1]),
                      end = std::min(begin + share, bounds[t + 1]);
        for (int64_t k = begin; k < end; k += step_) {
          acc = chain(acc, k, std::min(k + step_, end));
          const bool closes = plan_.tensor().promotion && (k + step_ - first) % plan_.tensor().promotion->every == 0;
          if (closes) run = add(run, *acc), acc.reset();
        }
      }
      if (plan_.tensor().promotion) acc = acc ? add(run, *acc) : run;
      const uint32_t sum = acc.value_or(0);
      joined = joined ? add(*joined, sum) : sum;
    }
    return *joined;
  }

  const GemmPlan& plan_;
  const GemmInputs& inputs_;
  int row_, col_, step_;
};

std::string wgmma_of(const char* types, int k) {
  return R"({"instruction": "wgmma.mma_async.sync.aligned.m64n256k)" + std::to_string(k) + ".f32." + types + '"';
}

}  // namespace

TEST_CASE("whole products are what the slow oracle chains, for plans of every kind") {
  const std::string bf16 = wgmma_of("bf16.bf16", 16), f16 = wgmma_of("f16.f16", 16), fp8 = wgmma_of("e4m3.e4m3", 32),
                    tf32 = wgmma_of("tf32.tf32", 8);
  RandomStream random(31, 0);
  for (const std::string& text :
       {bf16 + "}", f16 + R"(, "output": {"type": "f16"}})", fp8 + R"(, "promotion": {"every": 128}})",
        fp8 + R"(, "promotion": {"every": 64}, "output": {"type": "bf16"}})",
        bf16 + R"(, "split_k": {"count": 3, "unit": 64, "rule": "nvjet"}})",
        fp8 + R"(, "promotion": {"every": 128}, "split_k": {"count": 2, "unit": 128, "rule": "nvjet"}})",
        bf16 +
            R"(, "k_step": 8, "k_tile": 32, "residue": "first", "split_k": {"count": 4, "unit": 8, "rule": "ceil"}})",
        bf16 + R"(, "k_tile": 64, "residue": "first", "split_k": {"count": 5, "unit": 8, "rule": "ceil"},
                    "reduction": {"partial": "out"}, "output": {"type": "bf16"}})",
        f16 + R"(, "split_k": {"count": 4, "unit": 32, "rule": "floor"}, "reduction": {"running": "out"},
                   "output": {"type": "f16"}})",
        bf16 + R"(, "k_step": 8, "k_tile": 64, "residue": "first", "sliced_k": 2})",
        tf32 + R"(, "input_rounding": "tf32_rne", "split_k": {"count": 4, "unit": 32, "rule": "ceil"},
                    "reduction": {"order": "pairs"}})",
        tf32 + R"(, "split_k": {"count": 5, "unit": 16, "rule": "big_first"}, "reduction": {"order": "pairs"}})",
        tf32 +
            R"(, "split_k": {"count": 7, "unit": 32, "rule": "big_last"}, "reduction": {"order": "pairs_from_end"}})",
        f16 + R"(, "split_k": {"count": 3, "unit": 64, "rule": "big_last"}, "output": {"type": "f16"},
                   "reduction": {"order": "pairs_from_end", "partial": "out", "running": "out"}})"}) {
    const GemmPlan plan = parse_plan(text);
    const Format type = mma_of(plan.tensor().instruction).a;
    for (const int k : {40, 136, 264, 523}) {
      GemmInputs inputs{.a = random_matrix(type, 5, k, random), .b = random_matrix(type, k, 7, random)};
      if (type == Format::tf32) inputs.a = inputs.a.as(type), inputs.b = inputs.b.as(type);
      const Matrix d = gemm(plan, inputs);
      INFO(text << " K " << k);
      for (int row = 0; row < 5; ++row) {
        for (int col = 0; col < 7; ++col) REQUIRE(d(row, col) == Reference(plan, inputs, row, col).d());
      }
    }
  }
}

TEST_CASE("a product is the same for any number of threads, and a part is the part of the whole") {
  RandomStream random(41, 0);
  const GemmPlan plan =
      parse_plan(wgmma_of("f16.f16", 16) + R"(, "split_k": {"count": 3, "unit": 64, "rule": "ceil"}})");
  // Larger than the largest block, 256 x 512; the part is in four of them.
  const GemmInputs inputs{.a = random_matrix(Format::f16, 270, 400, random),
                          .b = random_matrix(Format::f16, 400, 530, random)};
  const Matrix d = gemm(plan, inputs);
  for (const int threads : {2, 3, 64}) CHECK(gemm(plan, inputs, threads) == d);
  GemmInputs part{.a = block_of(inputs.a, 250, 9, 0, 400), .b = block_of(inputs.b, 0, 400, 510, 4)};
  CHECK(gemm(plan, part) == block_of(d, 250, 9, 510, 4));
}

TEST_CASE("tiles of stream-K are cut in ways of their own, wherever they are in the whole") {
  RandomStream random(43, 0);
  const std::string text = wgmma_of("f16.f16", 16);
  const GemmPlan plan = parse_plan(text + R"(, "tile_mn": [4, 8], "raster": "m",
      "regions": [{"tiles": [1, 2], "split_k": {"cuts": [0, 96, 256]}}]})");
  const GemmPlan flat = parse_plan(text + "}"), cut = parse_plan(text + R"(, "split_k": {"cuts": [0, 96, 256]}})");
  GemmInputs inputs{.a = random_matrix(Format::f16, 8, 256, random), .b = random_matrix(Format::f16, 256, 16, random)};
  const Matrix d = gemm(plan, inputs), of_flat = gemm(flat, inputs), of_cut = gemm(cut, inputs);
  CHECK(of_flat != of_cut);
  for (int row = 0; row < 8; ++row) {
    for (int col = 0; col < 16; ++col) {
      const int tile = col / 8 * 2 + row / 4;  // along M first
      CHECK(d(row, col) == (tile == 1 || tile == 2 ? of_cut : of_flat)(row, col));
    }
  }
  const GemmInputs sampled{.a = block_of(inputs.a, 6, 1, 0, 256),
                           .b = block_of(inputs.b, 0, 256, 3, 1),
                           .rows = {6},
                           .cols = {3},
                           .whole_m = 8,
                           .whole_n = 16};
  CHECK(gemm(plan, sampled)(0, 0) == d(6, 3));
}

TEST_CASE("the epilogue acts on the f32 sum, each operation rounded once") {
  RandomStream random(47, 0);
  const std::string text = wgmma_of("f16.f16", 16);
  const GemmInputs inputs{.a = random_matrix(Format::f16, 3, 32, random),
                          .b = random_matrix(Format::f16, 32, 4, random),
                          .c = random_matrix(Format::bf16, 3, 4, random),
                          .bias = random_matrix(Format::f32, 1, 4, random),
                          .scale_a = random_matrix(Format::f32, 3, 1, random),
                          .scale_b = random_matrix(Format::f32, 1, 4, random)};
  const Matrix sum = gemm(parse_plan(text + "}"), inputs);
  const Matrix d = gemm(parse_plan(text + R"(, "epilogue": [{"op": "alpha_beta", "alpha": 0.3, "beta": 0.7},
      {"op": "row_scale"}, {"op": "col_scale"}, {"op": "bias"}, {"op": "relu"}], "output": {"type": "f16"}})"),
                        inputs);
  const auto multiply = [](uint32_t x, uint32_t y) {
    return static_cast<uint32_t>(ieee_fma(f32_format, x, y, (x ^ y) & 0x80000000));
  };
  for (int row = 0; row < 3; ++row) {
    for (int col = 0; col < 4; ++col) {
      const auto c = static_cast<uint32_t>((*inputs.c)(row, col) << 16);
      auto x = static_cast<uint32_t>(ieee_fma(f32_format, std::bit_cast<uint32_t>(0.3f), sum(row, col),
                                              multiply(std::bit_cast<uint32_t>(0.7f), c)));
      x = multiply(multiply(x, (*inputs.scale_a)(row, 0)), (*inputs.scale_b)(0, col));
      x = add(x, (*inputs.bias)(0, col));
      CHECK(d(row, col) == rounded(x >> 31 ? 0 : x, Format::f16));
    }
  }
}

TEST_CASE("integers, f64 and other targets chain as well") {
  RandomStream random(53, 0);
  const Matrix a = from_floats(Format::s8, 2, 70, std::vector<float>(140, 3)),
               b = from_floats(Format::s8, 70, 3, std::vector<float>(210, -2));
  const Matrix d = gemm(flat_plan(Target::sm_90a, Format::s8, Format::s8, Format::s32), {.a = a, .b = b});
  CHECK(decode_integer(Format::s32, d(1, 2)) == -420);
  // On an A100 a k16 is two steps: bits differ from Hopper's.
  const GemmInputs inputs{.a = random_matrix(Format::f16, 16, 512, random),
                          .b = random_matrix(Format::f16, 512, 16, random)};
  CHECK(gemm(flat_plan(Target::sm_80, Format::f16, Format::f16, Format::f32), inputs) !=
        gemm(flat_plan(Target::sm_90a, Format::f16, Format::f16, Format::f32), inputs));
  CHECK(gemm(flat_plan(Target::sm_100a, Format::f16, Format::f16, Format::f32), inputs) ==
        gemm(flat_plan(Target::sm_90a, Format::f16, Format::f16, Format::f32), inputs));
}

TEST_CASE("a target with smaller instructions than Ampere's chains those that it has") {
  RandomStream random(54, 0);
  const Matrix a = random_matrix(Format::f16, 8, 64, random), b = random_matrix(Format::f16, 64, 8, random);
  struct Row {
    Target target;
    Format a, d;
    std::string_view instruction;
  };
  for (const Row& row : {
           Row{Target::sm_75, Format::f16, Format::f32, "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"},
           Row{Target::sm_75, Format::s8, Format::s32, "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32"},
           Row{Target::sm_70, Format::f16, Format::f32, "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32"},
           Row{Target::sm_80, Format::f64, Format::f64, "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"},
       }) {
    const GemmPlan plan = flat_plan(row.target, row.a, row.a, row.d);
    CHECK(print(plan.tensor().instruction) == row.instruction);
    CHECK(violations_of(plan).empty());
  }
  // m8n8k4 is four products of 8 x 8 x 4: one of them, step by step, gives the same bits.
  const Matrix d = gemm(flat_plan(Target::sm_70, Format::f16, Format::f16, Format::f32), {.a = a, .b = b});
  Matrix c(Format::f32, 8, 8);
  for (int k = 0; k < 64; k += 4) {
    Matrix of_a(Format::f16, 8, 4), of_b(Format::f16, 4, 8);
    for (int i = 0; i < 8; ++i) {
      for (int j = 0; j < 4; ++j) of_a(i, j) = a(i, k + j), of_b(j, i) = b(k + j, i);
    }
    c = multiply_accumulate(model_for(MmaSync{.m = 8}, Target::sm_70),
                            {.a = std::move(of_a), .b = std::move(of_b), .c = std::move(c)});
  }
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 8; ++j) CHECK(d(i, j) == c(i, j));
  }
}

TEST_CASE("what a product lacks is refused by name, all at once") {
  const GemmPlan plan = parse_plan(wgmma_of("e4m3.e4m3", 32) + R"(, "promotion": {"every": 128, "scale": "fma"},
      "epilogue": [{"op": "bias"}, {"op": "alpha_beta", "beta": 1}]})");
  const std::vector<Violation> refusal =
      refusal_of([&] { gemm(plan, {.a = Matrix(Format::e4m3, 4, 256), .b = Matrix(Format::e4m3, 256, 8)}); });
  for (const test::Refusal& lacking : std::vector<test::Refusal>{
           {illegal_value, "scale_a"}, {illegal_value, "scale_b"}, {illegal_value, "bias"}, {illegal_value, "c"}})
    CHECK_THAT(refusal, test::refused(lacking));
  const GemmPlan flat = flat_plan(Target::sm_90a, Format::f16, Format::f16, Format::f32);
  CHECK_THAT(refusal_of([&] { gemm(flat, {.a = Matrix(Format::f16, 4, 16), .b = Matrix(Format::f16, 8, 8)}); }),
             test::refused(illegal_value, "b"));
  CHECK_THAT(refusal_of([&] { gemm(flat, {}); }), test::refused(illegal_value, "a, b"));
  CHECK_THAT(refusal_of([&] { flat_plan(Target::sm_70, Format::bf16, Format::bf16, Format::f32); }),
             test::refused(wrong_type, "types"));
}

TEST_CASE("a part of a product whose operands are too short is refused, never read past the end") {
  GemmInputs inputs{.a = Matrix(Format::f16, 4, 16), .b = Matrix(Format::f16, 16, 6)};
  const std::vector<int> rows{3}, cols{5};
  CHECK(part_of(inputs, rows, cols).a.rows() == 1);
  CHECK_THROWS_AS(part_of(inputs, std::vector<int>{4}, cols), Error);
  CHECK_THROWS_AS(part_of(inputs, rows, std::vector<int>{-1}), Error);
  const auto refused = [&](auto&& spoil, const test::Refusal& refusal) {
    GemmInputs spoiled = inputs;
    spoil(spoiled);
    CHECK_THAT(refusal_of([&] { part_of(spoiled, rows, cols); }), test::refused(refusal));
  };
  refused([](GemmInputs& spoiled) { spoiled.bias = Matrix(Format::f32, 1, 3); }, {illegal_value, "columns of bias"});
  refused([](GemmInputs& spoiled) { spoiled.c = Matrix(Format::f32, 2, 6); }, {illegal_value, "rows of c"});
  refused([](GemmInputs& spoiled) { spoiled.sfb = Matrix(Format::ue8m0, 1, 2); }, {illegal_value, "columns of sfb"});
  refused([](GemmInputs& spoiled) { spoiled.rows = {0, 1}; }, {illegal_value, "rows"});
  refused([](GemmInputs& spoiled) { spoiled.cols = {7}; }, {illegal_value, "cols"});
}

TEST_CASE(
    "kernels that add to C round first, and a serial split adds C and bias to slice 0, splitKreduce adds C after "
    "alpha") {
  RandomStream random(59, 0);
  const std::string text = wgmma_of("bf16.bf16", 16);
  const GemmInputs inputs{.a = random_matrix(Format::bf16, 4, 200, random),
                          .b = random_matrix(Format::bf16, 200, 5, random),
                          .c = random_matrix(Format::bf16, 4, 5, random),
                          .bias = random_matrix(Format::f32, 1, 5, random)};
  const auto compute = [&](const std::string& fields) { return gemm(parse_plan(text + fields + "}"), inputs); };
  const std::string split = R"(, "split_k": {"cuts": [0, 96, 200]})", alpha = R"({"op": "alpha_beta", "alpha": 0.3})";
  const Matrix sum = compute(""), first = compute(R"(, "split_k": {"cuts": [0, 96]})"), both = compute(split);
  const Matrix to_memory = compute(R"(, "epilogue": [{"op": "round"}, {"op": "beta_c"}], "output": {"type": "bf16"})"),
               reduced = compute(split + R"(, "epilogue": [)" + alpha + R"(, {"op": "beta_c", "beta": 0.7}])"),
               serial = compute(split + R"(, "reduction": {"serial": true}, "epilogue": [{"op": "bias"}])"),
               scaled = compute(split + R"(, "reduction": {"serial": true}, "epilogue": [)" + alpha + "]");
  const GemmInputs rest{.a = block_of(inputs.a, 0, 4, 96, 104), .b = block_of(inputs.b, 96, 104, 0, 5)};
  const Matrix second = gemm(parse_plan(text + "}"), rest);
  const auto times = [](float factor, uint32_t x, uint32_t y) {
    return static_cast<uint32_t>(ieee_fma(f32_format, std::bit_cast<uint32_t>(factor), x, y));
  };
  for (int row = 0; row < 4; ++row) {
    for (int col = 0; col < 5; ++col) {
      const uint32_t c = (*inputs.c)(row, col) << 16, bias = (*inputs.bias)(0, col), p0 = first(row, col),
                     p1 = second(row, col);
      CHECK(to_memory(row, col) == rounded(add(through(sum(row, col), Format::bf16), c), Format::bf16));
      CHECK(both(row, col) == add(p0, p1));
      // A product alone is an fma with a zero of its sign.
      const uint32_t product = times(0.3f, both(row, col), both(row, col) & 0x80000000);
      CHECK(reduced(row, col) == times(0.7f, c, product));
      CHECK(serial(row, col) == add(add(p0, bias), p1));
      CHECK(scaled(row, col) == add(times(0.3f, p0, p0 & 0x80000000), times(0.3f, p1, p1 & 0x80000000)));
    }
  }
}

TEST_CASE("CUDA cores chain fma in lanes, in the order that the plan names", "[rule:ieee]") {
  RandomStream random(67, 0);
  for (const std::string& lanes : {std::string(R"({"count": 1})"), std::string(R"({"count": 16, "chunk": 2})"),
                                   std::string(R"({"count": 8, "vector": 2, "join": "butterfly"})"),
                                   std::string(R"({"count": 4, "vector": 4, "chunk": 3, "join": "neighbours"})")}) {
    const GemmPlan plan = parse_plan(R"({"instruction": "fma.rn.f32", "lanes": )" + lanes + "}");
    for (const Format type : {Format::f16, Format::bf16, Format::tf32}) {
      GemmInputs inputs{.a = random_matrix(type, 3, 210, random), .b = random_matrix(type, 210, 4, random)};
      if (type == Format::tf32) inputs.a = inputs.a.as(type), inputs.b = inputs.b.as(type);
      const Matrix d = gemm(plan, inputs);
      const auto wide = [&](uint32_t code) {
        return type == Format::tf32
                   ? code
                   : static_cast<uint32_t>(convert(type, code, f32_format, Rounding::nearest_even, Overflow::infinity));
      };
      const CudaCoreChain& of = *plan.cuda_cores();
      INFO(lanes << " " << info(type).name);
      for (int row = 0; row < 3; ++row) {
        for (int col = 0; col < 4; ++col) {
          std::vector<uint32_t> totals;
          for (int lane = 0; lane < of.count; ++lane) {
            uint32_t total = 0, chain = 0;
            const int tiles = (210 + of.count * of.vector - 1) / (of.count * of.vector);
            bool first = true;
            for (int t = 0; t < tiles; ++t) {
              for (int v = 0; v < of.vector; ++v) {
                const int k = (t * of.count + lane) * of.vector + v;
                if (k < 210)
                  chain = static_cast<uint32_t>(
                      ieee_fma(f32_format, wide(inputs.a(row, k)), wide(inputs.b(k, col)), chain));
              }
              if (t + 1 == tiles || (of.chunk > 0 && (t + 1) % of.chunk == 0)) {
                total = first ? chain : add(total, chain);
                chain = 0, first = false;
              }
            }
            totals.push_back(total);
          }
          while (totals.size() > 1) {
            std::vector<uint32_t> next;
            const size_t half = totals.size() / 2;
            if (of.join == LaneJoin::ascending) {
              next.assign(totals.begin() + 1, totals.end());
              next[0] = add(totals[0], totals[1]);
            } else {
              for (size_t i = 0; i < half; ++i)
                next.push_back(of.join == LaneJoin::butterfly ? add(totals[i], totals[i + half])
                                                              : add(totals[2 * i], totals[2 * i + 1]));
            }
            totals = next;
          }
          REQUIRE(d(row, col) == totals[0]);
        }
      }
    }
  }
}

TEST_CASE("block-scaled products chain the instruction that their scales ask for") {
  RandomStream random(71, 0);
  struct Row {
    Target target;
    Format type, scale;
    int size, step;
    std::string_view kind;
  };
  for (const Row& row : {Row{Target::sm_100a, Format::e4m3, Format::ue8m0, 32, 32, "mxf8f6f4"},
                         Row{Target::sm_100a, Format::e2m1, Format::ue4m3, 16, 64, "mxf4nvf4"},
                         Row{Target::sm_100a, Format::e2m1, Format::ue8m0, 32, 64, "mxf4"},
                         Row{Target::sm_120a, Format::e2m1, Format::ue4m3, 16, 64, "mxf4nvf4"},
                         Row{Target::sm_120a, Format::e3m2, Format::ue8m0, 32, 32, "mxf8f6f4"}}) {
    const int k = 4 * row.step, blocks = k / row.size;
    GemmInputs inputs{.a = Matrix(row.type, 5, k), .b = Matrix(row.type, k, 6)};
    for (Matrix* matrix : {&inputs.a, &inputs.b}) {
      for (uint32_t& word : matrix->words()) word = random.word() & ((1u << info(row.type).bits) - 1);
    }
    for (uint32_t& word : inputs.a.words()) word = row.type == Format::e4m3 && (word & 0x7F) == 0x7F ? 0 : word;
    for (uint32_t& word : inputs.b.words()) word = row.type == Format::e4m3 && (word & 0x7F) == 0x7F ? 0 : word;
    const auto scales = [&](int rows, int cols) {
      Matrix matrix(row.scale, rows, cols);
      for (uint32_t& word : matrix.words())
        word = row.scale == Format::ue8m0 ? 120 + random.below(16) : 1 + random.below(0x7E);
      return matrix;
    };
    inputs.sfa = scales(5, blocks), inputs.sfb = scales(blocks, 6);
    const GemmPlan plan = flat_plan(row.target, inputs, Format::f32);
    INFO(print(plan.tensor().instruction));
    CHECK_THAT(print(plan.tensor().instruction), ContainsSubstring(std::string(row.kind)));
    // One instruction after the other, by hand.
    const AccumulatorModel& model = model_for(plan.tensor().instruction, row.target);
    std::optional<Matrix> c;
    for (int first = 0; first < k; first += row.step) {
      const int chunk = first / row.size, chunks = row.step / row.size;
      c = multiply_accumulate(model, {.a = block_of(inputs.a, 0, 5, first, row.step),
                                      .b = block_of(inputs.b, first, row.step, 0, 6),
                                      .c = std::move(c),
                                      .scales = BlockScales{.a = block_of(*inputs.sfa, 0, 5, chunk, chunks),
                                                            .b = block_of(*inputs.sfb, chunk, chunks, 0, 6)}});
    }
    const Matrix d = gemm(plan, inputs);
    CHECK(d == *c);
    const PlanSearch search = find_plans(inputs, d, {.target = row.target});
    REQUIRE_FALSE(search.all_bits.empty());
    CHECK(search.all_bits.front().tensor().instruction == plan.tensor().instruction);
    // Without them another instruction would multiply, and scales of another block size are refused.
    GemmInputs odd = inputs;
    odd.sfa = scales(5, blocks + 1);
    CHECK_THROWS_AS(flat_plan(row.target, odd, Format::f32), Error);
    CHECK_THROWS_AS(flat_plan(Target::sm_90a, inputs, Format::f32), Error);
  }
}

TEST_CASE("f64 in slices is added in f64, and found") {
  RandomStream random(79, 0);
  Matrix a(Format::f64, 2, 300), b(Format::f64, 300, 3);
  for (Matrix* matrix : {&a, &b}) {
    for (int row = 0; row < matrix->rows(); ++row) {
      for (int col = 0; col < matrix->cols(); ++col)
        matrix->set_code(row, col, std::bit_cast<uint64_t>(static_cast<double>(random.word()) / 7 - 3e8));
    }
  }
  const GemmInputs inputs{.a = a, .b = b};
  GemmPlan plan = flat_plan(Target::sm_90a, Format::f64, Format::f64, Format::f64);
  const Matrix whole = gemm(plan, inputs);
  plan.split_k = {.count = 2, .unit = 16};
  const Matrix d = gemm(plan, inputs);
  CHECK(d != whole);
  const Matrix first = gemm(flat_plan(Target::sm_90a, Format::f64, Format::f64, Format::f64),
                            {.a = block_of(a, 0, 2, 0, 160), .b = block_of(b, 0, 160, 0, 3)}),
               second = gemm(flat_plan(Target::sm_90a, Format::f64, Format::f64, Format::f64),
                             {.a = block_of(a, 0, 2, 160, 140), .b = block_of(b, 160, 140, 0, 3)});
  for (int row = 0; row < 2; ++row) {
    for (int col = 0; col < 3; ++col)
      CHECK(d.code(row, col) == ieee_add(Format::f64, first.code(row, col), second.code(row, col)));
  }
  const PlanSearch search = find_plans(inputs, d);
  REQUIRE_FALSE(search.all_bits.empty());
  CHECK(gemm(search.all_bits.front(), inputs) == d);
}

TEST_CASE("stream-K is found where some tiles are one chain and the others are cut") {
  RandomStream random(83, 0);
  const GemmPlan plan = parse_plan(wgmma_of("tf32.tf32", 8) + R"(, "input_rounding": "tf32_rne", "tile_mn": [128, 64],
      "raster": "n", "regions": [{"tiles": [6, 11], "split_k": {"count": 2, "unit": 32, "rule": "big_last"},
      "reduction": {"order": "pairs_from_end"}}]})");
  GemmInputs inputs{.a = random_matrix(Format::tf32, 8, 640, random), .b = random_matrix(Format::tf32, 640, 9, random)};
  inputs.a = inputs.a.as(Format::tf32), inputs.b = inputs.b.as(Format::tf32);
  inputs.rows = {0, 50, 127, 128, 200, 300, 383, 260}, inputs.cols = {0, 63, 64, 100, 127, 128, 190, 191, 255};
  inputs.whole_m = 384, inputs.whole_n = 256;
  const Matrix d = gemm(plan, inputs);
  const PlanSearch search = find_plans(inputs, d, {.threads = 2});
  REQUIRE(search.all_bits.size() == 1);
  CHECK(search.all_bits.front().regions.size() == 1);
  CHECK(gemm(search.all_bits.front(), inputs) == d);
}

TEST_CASE("f32 inputs are rounded to tf32 as cvt.rn.tf32 and cvt.rna.tf32 do on an H200, NaN included") {
  const struct {
    uint32_t word, rna, rn;
  } table[]{
      {0x7F800001, 0x7F800000, 0x7FFFE000}, {0x7F801FFF, 0x7F800000, 0x7FFFE000}, {0x7F802000, 0x7F802000, 0x7FFFE000},
      {0xFF800001, 0xFF800000, 0x7FFFE000}, {0xFFC12345, 0xFFC12000, 0x7FFFE000}, {0x7F7FFFFF, 0x7F800000, 0x7F800000},
      {0x7F7FEFFF, 0x7F7FE000, 0x7F7FE000}, {0x7F7FF000, 0x7F800000, 0x7F800000}, {0x00000FFF, 0x00000000, 0x00000000},
      {0x00001000, 0x00002000, 0x00000000}, {0x00003000, 0x00004000, 0x00004000}, {0x80001000, 0x80002000, 0x80000000},
      {0x007FFFFF, 0x00800000, 0x00800000}, {0x7F800000, 0x7F800000, 0x7F800000},
  };
  for (const auto& [word, rna, rn] : table) {
    GemmInputs inputs{.a = Matrix(Format::tf32, 1, 1), .b = Matrix(Format::tf32, 1, 1)};
    inputs.a(0, 0) = inputs.b(0, 0) = word;
    INFO(print_bits(Format::f32, word));
    CHECK(rounded_inputs(inputs, InputRounding::tf32_rna).a(0, 0) == rna);
    CHECK(rounded_inputs(inputs, InputRounding::tf32_rne).b(0, 0) == rn);
  }
}

TEST_CASE("K = 0 gives zeros, beta C, or C where the chain starts with it") {
  GemmInputs inputs{.a = Matrix(Format::f16, 2, 0), .b = Matrix(Format::f16, 0, 3)};
  GemmPlan plan = flat_plan(Target::sm_90a, Format::f16, Format::f16, Format::f32);
  CHECK(gemm(plan, inputs) == Matrix(Format::f32, 2, 3));
  inputs.c = Matrix(Format::f32, 2, 3);
  inputs.c->fill(0x3F800000);
  plan.epilogue = {{.kind = EpilogueKind::alpha_beta, .alpha = 1, .beta = 2}};
  Matrix two(Format::f32, 2, 3);
  two.fill(0x40000000);
  CHECK(gemm(plan, inputs) == two);
  plan.epilogue.clear();
  plan.tensor().start_with_c = true;
  CHECK(gemm(plan, inputs) == *inputs.c);
}

TEST_CASE("a batch has the bits of its products, and products of one shape") {
  RandomStream random(97, 0);
  const GemmPlan plan = flat_plan(Target::sm_90a, Format::bf16, Format::bf16, Format::bf16);
  std::vector<GemmInputs> inputs;
  for (int i = 0; i < 5; ++i)
    inputs.push_back(
        {.a = random_matrix(Format::bf16, 3, 40, random), .b = random_matrix(Format::bf16, 40, 7, random)});
  const auto at = [&](int64_t i) { return inputs[static_cast<size_t>(i)]; };
  for (const int threads : {1, 3}) {
    std::vector<Matrix> d(inputs.size());
    gemm_batch(
        plan, 5, at, [&](int64_t i, const Matrix& matrix) { d[static_cast<size_t>(i)] = matrix; }, threads);
    for (size_t i = 0; i < inputs.size(); ++i) CHECK(d[i] == gemm(plan, inputs[i]));
  }
  for (const int64_t count : {1, 5}) {
    std::vector<int64_t> finished;
    gemm_batch(
        plan, count, at, [](int64_t, const Matrix&) {}, 1, [&](int64_t outputs) { finished.push_back(outputs); });
    REQUIRE(finished.size() == static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) CHECK(finished[static_cast<size_t>(i)] == (i + 1) * 3 * 7);
  }
  inputs[4].b = random_matrix(Format::bf16, 40, 8, random);
  try {
    gemm_batch(plan, 5, at, [](int64_t, const Matrix&) {});
    FAIL("the last product is wider");
  } catch (const Error& error) {
    CHECK(error.violations().front().field == "b of product 4");
    CHECK(error.violations().front().seen == "40 x 8 bf16");
  }
  inputs[0].a = random_matrix(Format::f16, 3, 40, random);
  CHECK_THROWS_AS(gemm_batch(plan, 1, at, [](int64_t, const Matrix&) {}), Error);
}
