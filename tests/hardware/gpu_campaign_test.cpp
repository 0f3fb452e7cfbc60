// What a campaign on a GPU decides without one: its units, its end and what it reports.
#include "bitmma/hardware/gpu_campaign.hpp"

#include <limits>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/violation.hpp"

using namespace bitmma;

TEST_CASE("outputs become units, and what no unit gives is refused by its field") {
  const GpuCampaignRequest thousands{.options = {.outputs_per_unit = 1000}, .outputs = 1e6};
  CHECK(campaign_options(thousands).units == 1001);
  CHECK(campaign_options({.options = {.units = 7}}).units == 7);
  const auto field_of = [](const GpuCampaignRequest& request) {
    const auto violation = test::violation_of([&] { (void)campaign_options(request); });
    return violation ? violation->field : std::string();
  };
  for (const double outputs : {0.0, -1.0, 1e300, std::numeric_limits<double>::quiet_NaN()}) {
    INFO(outputs);
    CHECK(field_of({.outputs = outputs}) == "outputs");
  }
  CHECK(field_of({.options = {.first_unit = campaign_units - 1}, .outputs = 1e9}) == "outputs");
  CHECK(field_of({.options = {.units = 0}}) == "units");
  const test::TemporaryFolder folder;
  CHECK(field_of({.options = {.save_folder = folder.path("none")}}) == "save_folder");
  CHECK(field_of({.options = {.save_folder = folder.path(".")}}).empty());
}

TEST_CASE("a campaign ends with done, with its time, by a reason or by an error, and nothing compared is an error") {
  GpuCampaign campaign{.options = {.first_unit = 5, .units = 3}};
  campaign.report.next_unit = 8;
  campaign.report.total.outputs = 10;
  CHECK(campaign.ended_by() == "done");
  CHECK_NOTHROW(require_results(campaign));
  campaign.report.next_unit = 7;
  CHECK(campaign.ended_by() == "--seconds");
  campaign.stopped_by = "SIGINT";
  CHECK(campaign.ended_by() == "SIGINT");
  campaign.report.total.outputs = 0;
  auto violation = test::violation_of([&] { require_results(campaign); });
  REQUIRE(violation);
  CHECK(violation->field == "outputs");
  campaign.failure = {{.field = "GPU", .seen = "gone", .expected = "present"}};
  violation = test::violation_of([&] { require_results(campaign); });
  REQUIRE(violation);
  CHECK(violation->field == "GPU");
  campaign.report.not_saved = {{.unit = 6, .case_index = 2, .cases = 3, .reason = "Read-only file system"}};
  const std::vector<Violation> warnings = warnings_of(campaign);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].severity == Severity::warning);
  CHECK(warnings[0].field == "unit 6, case 2");
}

TEST_CASE("c-functions need their compiled kernels, and other families of word functions take none") {
  const auto field_of = [](const GpuWordCampaignRequest& request) {
    const auto violation = test::violation_of([&] { require_valid(request); });
    return violation ? violation->field : std::string();
  };
  CHECK(field_of({.functions = WordFunctions::math}).empty());
  CHECK(field_of({.functions = WordFunctions::cvt, .kernels = {"text"}}) == "family");
  CHECK(field_of({.functions = WordFunctions::c_functions}) == "family");
  CHECK_FALSE(field_of({.functions = WordFunctions::c_functions, .kernels = {"no kernel"}}).empty());
  CHECK(field_of({.functions = WordFunctions::math, .outputs = 0.5}) == "outputs");
}
