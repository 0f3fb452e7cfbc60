// A thread of a launch, followed step by step.
#include "run_kernel.hpp"
#include "support/catch.hpp"
#include "support/violation.hpp"

using namespace bitmma;

namespace {

struct Kept {
  int line;
  std::vector<std::pair<std::string, uint64_t>> registers;
};

std::vector<Kept> traced(const PtxEntry& kernel, Launch call, int thread, int stop_line = 0) {
  std::vector<Kept> steps;
  ThreadTrace trace{.thread = {thread, 0, 0}};
  trace.step = [&](const ThreadStep& step) {
    steps.push_back({step.line, {}});
    for (const ThreadRegister& reg : step.written) steps.back().registers.emplace_back(reg.name, reg.bits[0]);
    return step.line != stop_line;
  };
  call.trace = &trace;
  CHECK(launch(kernel, call).was_stopped == (stop_line != 0));
  return steps;
}

}  // namespace

TEST_CASE("a thread's own way and registers are told, of each width, behind barriers and branches too") {
  std::vector<uint32_t> words(64);
  const PtxEntry kernel(
      test::module_of("mov.u32 %r1, %tid.x;\n"                     // line 12
                      "setp.gt.u32 %p1, %r1, 40;\n"                //
                      "@%p1 bra high;\n"                           //
                      "add.u32 %r2, %r1, 100;\n"                   // 15
                      "bra.uni join;\nhigh:\n"                     //
                      "mul.wide.u32 %rd2, %r1, 3;\n"               // 18
                      "cvt.u32.u64 %r2, %rd2;\njoin:\n"            //
                      "bar.sync 0;\n"                              // 21
                      "shfl.sync.idx.b32 %r3, %r2, 1, 31, -1;"));  // 22
  const Launch call{.block = {64, 1, 1}, .arguments = {test::memory(words)}};
  const auto lines = [](const std::vector<Kept>& steps) {
    std::vector<int> numbers;
    for (const Kept& kept : steps) numbers.push_back(kept.line);
    return numbers;
  };
  const std::vector<Kept> low = traced(kernel, call, 5), high = traced(kernel, call, 50);
  CHECK(lines(low) == std::vector{11, 12, 13, 15, 16, 21, 22, 23});
  CHECK(lines(high) == std::vector{11, 12, 13, 14, 18, 19, 21, 22, 23});
  CHECK(low[2].registers == std::vector<std::pair<std::string, uint64_t>>{{"%p1", 0}});
  CHECK(high[2].registers == std::vector<std::pair<std::string, uint64_t>>{{"%p1", 1}});
  CHECK(low[3].registers == std::vector<std::pair<std::string, uint64_t>>{{"%r2", 105}});
  CHECK(high[4].registers == std::vector<std::pair<std::string, uint64_t>>{{"%rd2", 150}});
  CHECK(low[6].registers == std::vector<std::pair<std::string, uint64_t>>{{"%r3", 101}});
  CHECK(high[7].registers == std::vector<std::pair<std::string, uint64_t>>{{"%r3", 133}});
  CHECK(lines(traced(kernel, call, 5, 15)) == std::vector{11, 12, 13, 15});
}

TEST_CASE("a thread that waits at an mbarrier, and one whose warpgroup multiplies") {
  const PtxEntry kernel = test::kernel_of_data("bulk.ptx", "tma_product");
  std::vector<uint16_t> a(64 * 64, 0x3F80), b(64 * 64, 0x4000);
  std::vector<float> d(64 * 64);
  const auto map = [](auto& values, int bytes, Swizzle swizzle) {
    return tensor_map_argument({reinterpret_cast<uint8_t*>(values.data()), values.size() * sizeof values[0]},
                               {.element_bytes = bytes,
                                .sizes = {64, 64},
                                .strides_bytes = {64 * bytes},
                                .box = {64, 64},
                                .swizzle = swizzle});
  };
  std::vector<Matrix> products;
  ThreadTrace trace{.thread = {3, 0, 0}};  // of the first warp: the last one runs wgmma for all
  trace.step = [&](const ThreadStep& step) {
    if (step.product) products.push_back(computed_d(*step.product));
    return true;
  };
  launch(kernel,
         {.block = {128, 1, 1},
          .arguments = {map(a, 2, Swizzle::b128), map(b, 2, Swizzle::b128), map(d, 4, Swizzle::none), test::number(64)},
          .trace = &trace});
  REQUIRE(products.size() == 4);  // K of 64 in steps of 16
  CHECK(products.front()(0, 0) == std::bit_cast<uint32_t>(32.0f));
  CHECK(products.back()(63, 63) == std::bit_cast<uint32_t>(128.0f));
  CHECK(d[0] == 128.0f);
}

TEST_CASE("a trace of a block, of a thread or without a function that do not exist is refused") {
  std::vector<uint32_t> words(64);
  const PtxEntry kernel(test::module_of("mov.u32 %r1, %tid.x;"));
  const auto step = [](const ThreadStep&) { return true; };
  for (const ThreadTrace& trace :
       {ThreadTrace{.block = {1, 0, 0}, .step = step}, ThreadTrace{.thread = {0, 1, 0}, .step = step},
        ThreadTrace{.thread = {-1, 0, 0}, .step = step}, ThreadTrace{}}) {
    CHECK(test::violation_of([&] {
            launch(kernel, {.block = {64, 1, 1}, .arguments = {test::memory(words)}, .trace = &trace});
          })->code == ViolationCode::illegal_value);
  }
}
