#include "bitmma/files/dataset.hpp"

#include <filesystem>

#include "bitmma/files/file.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/refusal.hpp"

using namespace bitmma;

TEST_CASE("dataset:NAME is the file of the dataset wherever a file is read") {
  use_datasets(test::source_path("python/bitmma/data"));
  REQUIRE(datasets().size() >= 10);
  for (const Dataset& dataset : datasets()) {
    INFO(dataset.name);
    CHECK(located("dataset:" + dataset.name) == dataset.path);
    CHECK(std::filesystem::exists(dataset.path));
    CHECK_FALSE((dataset.about.empty() || dataset.source.empty()));
    if (dataset.kind == "capture") CHECK(std::filesystem::is_directory(dataset.path));
    else CHECK(read_whole("dataset:" + dataset.name) == read_whole(dataset.path));
  }
  CHECK(located("nvjet_fast_e4m3") == "nvjet_fast_e4m3");
  CHECK(located("./dataset:nvjet_fast_e4m3") == "./dataset:nvjet_fast_e4m3");
}

TEST_CASE("an unknown dataset is refused with the names of the others") {
  use_datasets(test::source_path("python/bitmma/data"));
  REQUIRE_THROWS_MATCHES(read_whole("dataset:nosuch"), Error, test::refused(ViolationCode::unknown_name, "dataset"));
  use_datasets("");
  REQUIRE_THROWS_MATCHES(read_whole("dataset:nvjet_fast_e4m3"), Error,
                         test::refused(ViolationCode::unusable_file, "datasets"));
  use_datasets(test::source_path("python/bitmma/data"));
}
