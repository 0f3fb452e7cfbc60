#include "bitmma/files/test_bench.hpp"

#include <algorithm>
#include <sstream>

#include "support/case_files.hpp"
#include "support/catch.hpp"
#include "support/violation.hpp"

using namespace bitmma;

TEST_CASE("a test bench has a line for each output, in every format, and a request the same as its file") {
  const GoldenRequest request{
      .instruction = parse_instruction(test::small_mma), .cases = 18, .seed = 3, .distribution = Distribution::normal};
  const VectorFile vectors = as_vector_file(make_golden(request, 1));
  for (const BenchFormatInfo& format : bench_formats) {
    std::ostringstream of_file, of_request;
    write_test_bench(of_file, format.id, vectors);
    write_golden_test_bench(of_request, format.id, request, 2);
    CHECK(of_file.str() == of_request.str());
    const int64_t headers = format.id == BenchFormat::jsonl ? 0 : format.id == BenchFormat::csv ? 1 : 1 + 18;
    CHECK(std::ranges::count(of_file.str(), '\n') == 18 * 16 * 8 + headers);
  }
}

TEST_CASE("cases without outputs of one instruction make no test bench") {
  const auto refused = [](const VectorFile& vectors) {
    return test::violation_of([&] { require_test_bench(vectors); });
  };
  CHECK_FALSE(refused(as_vector_file(test::golden_file("file"))));
  CHECK(refused(as_vector_file(test::golden_file("file", "tcgen05.ld.sync.aligned.32x32b.x1.b32")))->field ==
        "instruction");
  const VectorFile tile =
      as_tiled_file(test::plain_file("file", "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16", 128, 16, 16));
  CHECK(refused(tile)->code == ViolationCode::not_together);
}
