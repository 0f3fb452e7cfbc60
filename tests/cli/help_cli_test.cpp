#include "run.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using test::Outcome, test::run, test::run_line;

namespace {

const test::BadRequests bad_requests({
    {"", "subcommand"},
    {"frobnicate", "frobnicate"},
});

}  // namespace

TEST_CASE("bitmma refuses bad requests: message and exit code of each") { bad_requests.check(); }

TEST_CASE("no bad request of any verb got lost") { CHECK(test::BadRequests::total() >= 208); }

TEST_CASE("help has examples, goes to stdout and is no error") {
  for (const char* line : {"--help",
                           "simulate --help",
                           "golden --help",
                           "verify --help",
                           "compare --help",
                           "decode --help",
                           "encode descriptor --help",
                           "encode instruction --help",
                           "layout smem --help",
                           "layout tmem --help",
                           "layout ldst --help",
                           "encode idesc --help",
                           "layout fragment --help",
                           "list --help",
                           "layout --help",
                           "layout scales --help",
                           "explain --help",
                           "diagnose --help",
                           "encode mask --help",
                           "layout descriptor --help",
                           "layout tmem-plan --help",
                           "ptx --help",
                           "gpu --help",
                           "bench --help"}) {
    const Outcome outcome = run_line(line);
    INFO(line);
    CHECK(outcome.code == 0);
    CHECK(outcome.err.empty());
    CHECK_THAT(outcome.out, ContainsSubstring("Example") && ContainsSubstring("bitmma "));
  }
  CHECK(run({"--version"}).out == "bitmma 0.1.0\n");
}
