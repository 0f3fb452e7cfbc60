// The main program of the tests. It fails where a test case made other messages than tests/messages.txt lists. Its exit
// status is 77, which ctest shows as skipped, if no test failed and one warned that it could NOT check something.
#define CATCH_CONFIG_RUNNER
#include <algorithm>
#include <iostream>

#include "catch.hpp"
#include "messages.hpp"

namespace {

constexpr int skipped_status = 77;
bool has_unchecked = false;

#if __has_include(<catch2/catch_all.hpp>)
using Listener = Catch::EventListenerBase;
#else
using Listener = Catch::TestEventListenerBase;
#endif

class Watcher : public Listener {
 public:
  using Listener::Listener;
  void testCaseStarting(const Catch::TestCaseInfo& test_case) override {
    is_checked_ = true;
    bitmma::test::begin_messages(test_case.lineInfo.file, test_case.name);
  }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    bitmma::test::end_messages(is_checked_ && stats.totals.testCases.failed == 0 &&
                               stats.totals.testCases.failedButOk == 0);
  }
#if __has_include(<catch2/catch_all.hpp>)
  void assertionEnded(const Catch::AssertionStats& stats) override { see(stats); }
#else
  bool assertionEnded(const Catch::AssertionStats& stats) override { return see(stats), true; }
#endif

 private:
  void see(const Catch::AssertionStats& stats) {
    const Catch::AssertionResult& result = stats.assertionResult;
    if (result.getResultType() != Catch::ResultWas::Warning) return;
    if (std::string(result.getMessage()).find("NOT checked") == std::string::npos) return;
    is_checked_ = false;
    has_unchecked = true;
  }

  bool is_checked_ = true;
};
CATCH_REGISTER_LISTENER(Watcher)

bool is_test_case(const std::string& file, const std::string& name) {
  const auto& all = Catch::getAllTestCasesSorted(*Catch::getCurrentContext().getConfig());
  return std::ranges::any_of(all, [&](const auto& handle) {
    const Catch::TestCaseInfo& test_case = handle.getTestCaseInfo();
    return test_case.name == name && std::string(test_case.lineInfo.file).ends_with("tests/" + file);
  });
}

}  // namespace

int main(int argc, char** argv) {
  Catch::Session session;
  const int failed = session.run(argc, argv);
  const std::string differences = bitmma::test::check_messages(is_test_case);
  if (!differences.empty()) {
    std::cerr << differences
              << "tests/messages.txt lists other messages (-) than the test made (+). To approve these:\n"
              << "  BITMMA_UPDATE_MESSAGES=1 " << argv[0] << "\n";
    return std::max(failed, 1);
  }
  return failed == 0 && has_unchecked ? skipped_status : failed;
}
