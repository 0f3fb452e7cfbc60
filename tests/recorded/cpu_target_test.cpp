#include "bitmma/arithmetic/cpu_target.hpp"

#include "bitmma/files/compare.hpp"
#include "bitmma/files/vector_file.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

TEST_CASE("every instruction set and thread count reproduces the dumps of a real H200", "[rule:fused-sum]") {
  const std::string_view best = cpu_target();
  for (const std::string_view target : cpu_targets()) {
    use_cpu_target(target);
    Comparison total;
    int threads = 1;
    for (const std::string& path : test::golden_files()) {
      total += verify(read_vector_file(path), threads, {});
      threads = threads % 3 + 1;
    }
    INFO(target);
    CHECK(total.mismatches == 0);
    CHECK(total.outputs > 1'000'000);
  }
  use_cpu_target(best);
}
