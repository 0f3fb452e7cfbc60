#include "run.hpp"
#include "support/catch.hpp"

using namespace bitmma;

namespace {

const test::BadRequests bad_requests({
    {"gpu", "neither files nor --campaign"},
    {"gpu --campaign $GOLDEN", "files and --campaign"},
    {"gpu $GOLDEN", "-o = (missing)"},
    {"gpu $GOLDEN $GOLDEN $OUT", "an existing folder"},
});

}  // namespace

TEST_CASE("gpu refuses bad requests: message and exit code of each") { bad_requests.check(); }
