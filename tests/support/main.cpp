// The main program of the tests. Its exit status is 77, which ctest shows as skipped, if no test failed and one warned
// that it could NOT check something.
#define CATCH_CONFIG_RUNNER
#include "catch.hpp"

namespace {

constexpr int skipped_status = 77;
bool has_unchecked = false;

#if __has_include(<catch2/catch_all.hpp>)
using Listener = Catch::EventListenerBase;
#else
using Listener = Catch::TestEventListenerBase;
#endif

class Unchecked : public Listener {
 public:
  using Listener::Listener;
#if __has_include(<catch2/catch_all.hpp>)
  void assertionEnded(const Catch::AssertionStats& stats) override { see(stats); }
#else
  bool assertionEnded(const Catch::AssertionStats& stats) override { return see(stats), true; }
#endif

 private:
  static void see(const Catch::AssertionStats& stats) {
    const Catch::AssertionResult& result = stats.assertionResult;
    if (result.getResultType() != Catch::ResultWas::Warning) return;
    has_unchecked = has_unchecked || std::string(result.getMessage()).find("NOT checked") != std::string::npos;
  }
};
CATCH_REGISTER_LISTENER(Unchecked)

}  // namespace

int main(int argc, char** argv) {
  const int failed = Catch::Session().run(argc, argv);
  return failed == 0 && has_unchecked ? skipped_status : failed;
}
