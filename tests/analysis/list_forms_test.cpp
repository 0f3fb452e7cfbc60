#include "bitmma/analysis/list_forms.hpp"

#include <algorithm>

#include "support/catch.hpp"

using namespace bitmma;

TEST_CASE("the forms of a target are those that its table has, each with the words") {
  const std::vector<ListedForm> listed = list_of({.target = Target::sm_90a, .words = {"wgmma", "e4m3"}});
  REQUIRE_FALSE(listed.empty());
  for (const ListedForm& row : listed) {
    CHECK(row.targets == std::vector{Target::sm_90a});
    CHECK(row.form->name.starts_with("wgmma"));
    CHECK((row.form->a.contains(Format::e4m3) || row.form->b.contains(Format::e4m3)));
  }
  CHECK(listed.size() < list_of({.target = Target::sm_90a}).size());
}

TEST_CASE("a row is an object of JSON and a line of the table with the same name and types") {
  const std::vector<ListedForm> listed = list_of({.words = {"wgmma", "e4m3"}});
  const Report list = describe(listed);
  const auto& objects = std::get<Report::List>(list.value);
  const auto table = table_of(listed);
  REQUIRE(objects.size() == listed.size());
  REQUIRE(table.size() == listed.size() + 1);
  for (size_t i = 0; i < listed.size(); ++i) {
    for (size_t column = 0; column < table[0].size(); ++column) {
      const std::string& heading = table[0][column];
      const std::string key = heading == "D" ? "d" : heading == "A" ? "a" : heading == "N" ? "n" : heading;
      if (key == "instruction" || key == "d" || key == "a" || key == "n" || key == "arithmetic")
        CHECK(*objects[i].find(key) == Report(table[i + 1][column]));
    }
  }
}

TEST_CASE("every mnemonic of a list has its words, and words that no row has are refused") {
  const std::vector<std::string> mnemonics = list_mnemonics({.target = Target::sm_90a, .words = {"m64n8k16", "bf16"}});
  REQUIRE_FALSE(mnemonics.empty());
  CHECK(std::ranges::all_of(mnemonics, [](const std::string& mnemonic) {
    return mnemonic.find("m64n8k16") != std::string::npos && mnemonic.find("bf16") != std::string::npos;
  }));
  for (const auto& list : {+[](const ListRequest& request) { return list_of(request).size(); },
                           +[](const ListRequest& request) { return list_mnemonics(request).size(); }}) {
    try {
      (void)list({.words = {"wgmma", "nonsense"}});
      FAIL("no row has these words");
    } catch (const Error& error) {
      CHECK(error.violations().front().field == "words");
      CHECK(error.violations().front().seen == "wgmma nonsense");
    }
  }
}

TEST_CASE("the matrix of evidence has a row for equal GPUs and a column for equal instructions") {
  const auto matrix = evidence_matrix_of(list_of({}));
  REQUIRE(matrix.size() > 2);
  for (size_t i = 0; i < matrix.size(); ++i) {
    CHECK(matrix[i].size() == matrix[0].size());
    for (size_t j = i + 1; j < matrix.size(); ++j)
      CHECK_FALSE(std::equal(matrix[i].begin() + 1, matrix[i].end(), matrix[j].begin() + 1));
  }
}
