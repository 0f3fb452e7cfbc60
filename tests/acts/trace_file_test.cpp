#include "bitmma/acts/trace_file.hpp"

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/violation.hpp"

using namespace bitmma;

TEST_CASE("trace files: what was written is read, and the first difference is found") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("t.csv");
  const std::vector<TraceRow> rows{{1, 18, "%f10", "0x3fc00000", "mul.f32 %f10,%f1,\"x\";"},
                                   {2, 19, "%p1", "true", ""}};
  write_trace_file(path, rows);
  CHECK(read_trace_file(path) == rows);
  CHECK_FALSE(first_difference(rows, rows));
  std::vector<TraceRow> other = rows;
  other[1].bits = "false";
  CHECK(print(*first_difference(rows, other)) == "line 19, %p1 = true expected, false actual");
  other[1].line = 30;
  CHECK(print(*first_difference(rows, other)).starts_with("the runs take different paths: line 19"));
  other.pop_back();
  CHECK_FALSE(first_difference(rows, other)->actual);
  for (const std::string_view text : {"", "step,line\n", "step,line,register,bits,statement\n1,2,3\n",
                                      "step,line,register,bits,statement\nx,2,%r1,0x0,\n"}) {
    test::write_text(path, std::string(text));
    CHECK(test::violation_of([&] { read_trace_file(path); })->code == ViolationCode::unusable_file);
  }
}
