// Kernels of files with arguments as text: what the program, and a C++ program, asks for.
#include "bitmma/acts/run_kernel.hpp"

#include "bitmma/core/error.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/violation.hpp"

using namespace bitmma;

namespace {

/// Each thread writes its index times n to p, and reads the word behind the array if n is 0.
const std::string scale = R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry scale(.param .u64 p, .param .u32 n)
{
.reg .pred %q;
.reg .b32 %r<4>;
.reg .b64 %rd<4>;
ld.param.u64 %rd1, [p];
ld.param.u32 %r1, [n];
mov.u32 %r2, %tid.x;
mul.lo.u32 %r3, %r2, %r1;
mul.wide.u32 %rd2, %r2, 4;
add.u64 %rd3, %rd1, %rd2;
st.global.u32 [%rd3], %r3;
setp.eq.u32 %q, %r1, 0;
@%q ld.global.u32 %r3, [%rd3+16];
ret;
}
)";

KernelFileRequest request_of(std::string number) {
  return {.ptx = scale, .block = "4", .arguments = {"empty:u32[4]", std::move(number)}};
}

}  // namespace

TEST_CASE("run_kernel_file runs a kernel with arguments as text") {
  KernelRun run;
  run_kernel_file(request_of("u32:3"), run);
  const Tensor* const words = run.memory.find("arg0");
  REQUIRE(words);
  CHECK(words->dtype == "U32");
  CHECK(words->bytes.copy() == std::vector<uint8_t>{0, 0, 0, 0, 3, 0, 0, 0, 6, 0, 0, 0, 9, 0, 0, 0});
  CHECK(*run.memory.find_metadata("kernel") == "scale");
  CHECK(run.warnings.empty());
  const auto& arguments = std::get<Report::List>(run.report.find("arguments")->value);
  REQUIRE(arguments.size() == 1);
  CHECK(std::get<std::string>(arguments[0].find("dtype")->value) == "U32");
  CHECK(std::get<Report::List>(arguments[0].find("shape")->value).size() == 1);
}

TEST_CASE("run_kernel_file names the field that it refuses") {
  const auto field = [](KernelFileRequest request) {
    KernelRun run;
    const auto violation = test::violation_of([&] { run_kernel_file(request, run); });
    return violation ? violation->field : "none";
  };
  CHECK(field(request_of("u32:-1")) == "argument");
  CHECK(field(request_of("zeros:u32")) == "argument");
  for (auto [member, name] :
       {std::pair(&KernelFileRequest::grid, "grid"), std::pair(&KernelFileRequest::block, "block"),
        std::pair(&KernelFileRequest::cluster, "cluster")}) {
    KernelFileRequest request = request_of("u32:3");
    request.*member = "4,,1";
    CHECK(field(request) == name);
  }
  KernelFileRequest traced = request_of("u32:3");
  traced.trace = {.thread = "0:x"};
  CHECK(field(traced) == "trace");
  traced.trace = {.thread = "0:1", .lines = "9-3"};
  CHECK(field(traced) == "trace_lines");
  traced.trace = {.thread = "0:1", .finds_product = true};
  CHECK(field(traced) == "trace_product");
  KernelFileRequest large = request_of("u32:3");
  large.limits.memory_bytes = 15;
  CHECK(field(large) == "argument");
}

TEST_CASE("after a fault a run has the steps that led to it") {
  KernelFileRequest request = request_of("u32:0");
  request.trace = {.thread = "3", .keeps_rows = true};
  KernelRun run;
  const auto violation = test::violation_of([&] { run_kernel_file(request, run); });
  REQUIRE(violation);
  CHECK(violation->code == ViolationCode::out_of_bounds);
  REQUIRE_FALSE(run.rows.empty());
  CHECK(run.rows.back().statement.starts_with("setp.eq.u32"));
  CHECK(std::get<Report::List>(run.steps.value).size() >= 7);
}

TEST_CASE("run_launch_plan and run_kernel_file run cooperative launches") {
  const std::string ptx = test::read_text(test::source_path("data/kernels/cooperative.ptx"));
  const LaunchPlanRun run = run_launch_plan({.ptx = ptx, .plan = R"({"memory": {"p": "zeros:u32[4]"},
    "launches": [{"entry": "ring", "grid": [2], "cooperative": true, "arguments": ["p"]}]})"});
  const std::vector<uint8_t> expected{100, 0, 0, 0, 101, 0, 0, 0, 101, 0, 0, 0, 0x4C, 4, 0, 0};
  CHECK(run.memory.find("p")->bytes.copy() == expected);
  KernelRun alone;
  run_kernel_file({.ptx = ptx, .entry = "ring", .grid = "2", .cooperative = true, .arguments = {"zeros:u32[4]"}},
                  alone);
  CHECK(alone.memory.find("arg0")->bytes.copy() == expected);
}

TEST_CASE("run_launch_plan runs several launches over one memory") {
  const LaunchPlanRun run = run_launch_plan({.ptx = scale, .plan = R"({
    "memory": {"x": "empty:u32[4]"},
    "launches": [{"entry": "scale", "block": [4], "arguments": ["x", "u32:1"]},
                 {"entry": "scale", "block": [2], "arguments": ["x", "u32:7"]}]})"});
  const Tensor* const words = run.memory.find("x");
  REQUIRE(words);
  CHECK(words->bytes.copy() == std::vector<uint8_t>{0, 0, 0, 0, 7, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0});
  const auto violation = test::violation_of([] {
    (void)run_launch_plan({.ptx = scale, .plan = R"({"memory": {"x": "empty:u32[4]"},
      "launches": [{"block": [4], "arguments": ["y", "u32:1"]}]})"});
  });
  REQUIRE(violation);
  CHECK(violation->code == ViolationCode::not_found);
  CHECK(violation->field == "memory in launches[0]");
}
