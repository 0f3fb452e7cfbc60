// The plan that a product's file gets: one order for the program and everybody else.
#include "bitmma/acts/gemm_file.hpp"

#include "bitmma/core/error.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/violation.hpp"

using namespace bitmma;

namespace {

/// A recorded product of e4m3 on an H100, and what gemm_file tells about it.
struct Recorded {
  ProductFile product = read_product_file(test::source_path("data/products/nvjet_algo2_e4m3_k1024.safetensors"));
  std::vector<ViolationCode> warnings = {};
  GemmFileEvents events = {.warn = [this](const std::vector<Violation>& told) {
    for (const Violation& warning : told) warnings.push_back(warning.code);
  }};

  GemmPlan plan(const ProductPlanRequest& request) {
    warnings.clear();
    return plan_of_product(product, request, 1, events).plan;
  }
};

}  // namespace

TEST_CASE("a product's plan is the request's, then the file's, then the flat one") {
  Recorded recorded;
  const GemmPlan named = recorded.plan({.plan = "nvjet-algo2"}), flat = recorded.plan({.plan = "flat"});
  CHECK(print_plan(named) != print_plan(flat));
  recorded.product.file.set_metadata("plan", "nvjet-algo2");
  CHECK(takes_plan_of_file(recorded.product, {}));
  CHECK(print_plan(recorded.plan({})) == print_plan(named));
  CHECK(recorded.warnings.empty());
  CHECK(print_plan(recorded.plan({.plan = "flat"})) == print_plan(flat));
  CHECK_FALSE(takes_plan_of_file(recorded.product, {.output = Format::bf16}));
  const GemmPlan other = recorded.plan({.output = Format::bf16});  // is not that of the file's key
  CHECK(print_plan(other) == print_plan(flat));
  CHECK(other.output == Format::bf16);
  REQUIRE(recorded.warnings.size() == 2);
  CHECK(recorded.warnings.front() == ViolationCode::unread_argument);  // then the key kernel, which is not read either
  CHECK(print_plan(recorded.plan({.kernel = "file"})) == print_plan(named));
}

TEST_CASE("gemm_file gives the recorded D, and refuses what contradicts, before it computes") {
  Recorded recorded;
  int64_t last = 0, all = 0;
  recorded.events.outputs = [&](int64_t done, int64_t total) { last = done, all = total; };
  const GemmFileReport done = gemm_file(recorded.product, {.plan = {.plan = "nvjet-algo2"}}, recorded.events);
  CHECK(done.result.differing() == 0);
  CHECK(all == std::ssize(done.result.d.words()));
  CHECK(last == all);
  CHECK(gemm_file(recorded.product, {.plan = {.plan = "flat"}}).result.differing() > 0);
  const GemmFileReport part =
      gemm_file(recorded.product, {.plan = {.plan = "nvjet-algo2"}, .rows = {3, 1}, .cols = {}});
  CHECK(part.result.d.rows() == 2);
  CHECK(part.result.d.cols() == recorded.product.inputs.b.cols());
  CHECK(part.result.differing() == 0);

  const auto refused = [&](const GemmFileRequest& request) {
    const auto violation = test::violation_of([&] { (void)gemm_file(recorded.product, request); });
    REQUIRE(violation);
    return std::pair(violation->code, violation->field);
  };
  const ProductLibraryRequest library{.library = "cublas-13.1", .gpu = "H100"};
  CHECK(refused({.plan = {.split_count = 3}, .library = library}) ==
        std::pair(ViolationCode::not_together, std::string("split_k")));
  CHECK(refused({.plan = {.plan = "flat"}, .library = library}) ==
        std::pair(ViolationCode::not_together, std::string("plan")));
  CHECK(refused({.library = library}).second == "types");  // no recorded call has e4m3 to f32 without scales
  recorded.product.file.metadata.clear();
  CHECK(refused({.plan = {.kernel = "file"}}).second == "kernel");
  CHECK(refused({.plan = {.plan = "flat", .split_count = 4}}).second == "split_k");
}

TEST_CASE("a recorded D that differs is replaced only on request") {
  Recorded recorded;
  const GemmFileReport same = gemm_file(recorded.product, {.plan = {.plan = "nvjet-algo2"}});
  CHECK(read_product_file(file_with_d(same)).d == recorded.product.d);
  const GemmFileReport other = gemm_file(recorded.product, {.plan = {.plan = "flat"}});
  const auto violation = test::violation_of([&] { (void)file_with_d(other); });
  REQUIRE(violation);
  CHECK(violation->field == "d");
  CHECK(violation->fix.find("`replace_d`") != std::string::npos);
  CHECK(read_product_file(file_with_d(other, true)).d == other.result.d);
}

TEST_CASE("find_plans_of_file needs a recorded D, and finds the plan of its kernel") {
  Recorded recorded;
  const PlanSearch search = find_plans_of_file(recorded.product, {}, {});
  REQUIRE_FALSE(search.all_bits.empty());
  CHECK(print_plan(search.all_bits.front()) == print_plan(recorded.plan({.plan = "nvjet-algo2"})));
  recorded.product.d.reset();
  const auto violation = test::violation_of([&] { (void)find_plans_of_file(recorded.product, {}, {}); });
  REQUIRE(violation);
  CHECK(violation->code == ViolationCode::missing_argument);
}
