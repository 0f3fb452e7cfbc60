#include "bitmma/analysis/report.hpp"

#include <algorithm>

#include "bitmma/analysis/describe.hpp"
#include "support/catch.hpp"

using namespace bitmma;

TEST_CASE("a report keeps the order of its members") {
  Report report{{"descriptor", "0x40"}, {"fields", {{"start_address", 0}, {"swizzle", 2}}}};
  report.add("word", uint64_t{18446744073709551615u});
  report.add("legal", std::vector<std::string>{"16", "32"});
  report.add("error_ulp", std::optional<double>{});
  report.add("exact", true);
  CHECK(to_json(report) ==
        R"({"descriptor":"0x40","fields":{"start_address":0,"swizzle":2},"word":18446744073709551615,)"
        R"("legal":["16","32"],"error_ulp":null,"exact":true})");
}

TEST_CASE("a report prints its lines, then those of its elements, in colours where they are wanted") {
  Report report = Report::list();
  report.add_text("a heading\n").append(Report(1).add_text("all are the same", Tone::good));
  CHECK(print(report) == "a heading\nall are the same\n");
  CHECK(print(report, true) == "a heading\n\033[32mall are the same\033[0m\n");
  CHECK(to_json(report) == "[1]");
}

TEST_CASE("no text in a report reaches a terminal as a command") {
  const std::string hostile = "\x1b[2J\xc2\x9b\x7f\r\b";
  Report report{{"name", hostile}, {hostile, 1}};
  report.add_text(hostile, Tone::good).add_text({{"name", "n"}, {hostile, "1"}});
  const std::string text = print(report), json = to_json(report, 2);
  for (const std::string& printed : {text, json}) {
    CHECK(printed.find_first_of("\x1b\x7f\r\b") == std::string::npos);
    CHECK(printed.find("\xc2\x9b") == std::string::npos);
  }
  CHECK_THAT(json, ContainsSubstring(R"("\u001b[2J\u009b\u007f\r\b")"));
  const std::string colored = print(report, true);
  CHECK(std::ranges::count(colored, '\x1b') == 2);  // its own colour
  CHECK(to_json(Report("\xc3\xa9 \xc2\xa0")) == "\"\xc3\xa9 \xc2\xa0\"");
}

TEST_CASE("a table of a report has aligned columns, numbers to the right") {
  const Report report = Report().add_text({{"count", "name"}, {"12", "wgmma"}, {"3", "mma"}});
  CHECK(print(report) == "count  name\n   12  wgmma\n    3  mma\n");
}

TEST_CASE("rows are members of the tree and lines of the text, or one of both") {
  Report report;
  report.add_rows({{"kind", "kind", "f16"},
                   {"n", "N", 64, "64 columns"},
                   {"sparse", "", false},
                   {"", "legal", "PTX ISA"},
                   {"orders", "order", ""}});
  CHECK(to_json(report) == R"({"kind":"f16","n":64,"sparse":false,"orders":""})");
  CHECK(print(report) == "kind   f16\nN      64 columns\nlegal  PTX ISA\n");
  CHECK(Report().add_rows({{"m", "", 1}}).lines.empty());
}

TEST_CASE("rows of elements are a list of objects, and a table of their labels") {
  const auto rows = [](int row, Report maybe) {
    return std::vector<ReportRow>{{"row", "row", row}, {"maybe", "maybe", std::move(maybe)}, {"", "twice", 2 * row}};
  };
  const ReportRows elements{rows(8, Report()), rows(16, "yes"), rows(24, true)};
  CHECK(to_json(objects_of(elements)) ==
        R"([{"row":8,"maybe":null},{"row":16,"maybe":"yes"},{"row":24,"maybe":true}])");
  CHECK(table_of(elements, 2) ==
        std::vector<std::vector<std::string>>{{"row", "maybe", "twice"}, {"8", "", "16"}, {"16", "yes", "32"}});
  CHECK(table_of(elements).size() == 4);
  CHECK(table_of({}).empty());
  CHECK(print_markdown(table_of(elements, 1)) == "| row | maybe | twice |\n|---|---|---|\n| 8 |  | 16 |\n");
}

TEST_CASE("folded text has at most 80 columns and is indented further after its first line") {
  const std::string word(39, 'w');
  CHECK(folded(word + " " + word + " x", 1) == " " + word + " " + word + "\n     x\n");
  CHECK(folded("", 0) == "\n");
}

TEST_CASE("warnings in a report are lines and data") {
  const std::vector<Violation> warnings{{.field = "n", .seen = "9", .expected = "8", .severity = Severity::warning}};
  const Report report = Report().add_warnings(warnings);
  CHECK(print(report) == "warning: " + print(warnings.front()) + "\n");
  CHECK(print(report, true) == "\033[33mwarning: " + print(warnings.front()) + "\033[0m\n");
  CHECK(
      to_json(report) ==
      R"({"warnings":[{"field":"n","seen":"9","legal":"8","fix":"","source":"","code":"illegal_value","severity":"warning"}]})");
}

TEST_CASE("update replaces members in place and adds new ones at the end") {
  Report report{{"a", 1}, {"b", 2}};
  report.update({{"a", 3}, {"c", 4}});
  CHECK(report == Report{{"a", 3}, {"b", 2}, {"c", 4}});
  CHECK(report != Report{{"a", 3}, {"b", 2}, {"c", 5}});
  REQUIRE(report.find("b"));
  CHECK(*report.find("b") == Report(2));
  CHECK(report.find("d") == nullptr);
}

TEST_CASE("bytes that are not UTF-8 become U+FFFD in a report's JSON, and no members are an object") {
  CHECK(to_json(Report{{"name", "\xff"}}) == "{\"name\":\"\xef\xbf\xbd\"}");
  CHECK(to_json(Report::object()) == "{}");
  CHECK(to_json(Report::list()) == "[]");
  CHECK(to_json(Report()) == "null");
}

TEST_CASE("the report of a descriptor has the sizes of its fields in bytes, in data and text") {
  const Report report = describe(SmemWord{.target = Target::sm_90a}, 0x4000004000010000);
  REQUIRE(report.find("fields"));
  REQUIRE(report.find("fields")->find("stride_dim_byte_offset"));
  CHECK(*report.find("fields")->find("stride_dim_byte_offset") == Report(uint64_t{1024}));
  CHECK_THAT(print(report), Catch::Matchers::StartsWith("0x4000004000010000, shared-memory descriptor of sm_90a\n"));
  CHECK_THROWS_AS(describe(InstructionWord{MmaKind::f16}, 0x108100010), Error);
}

TEST_CASE("the difference of two words lists the fields that differ, first and second value") {
  const Report report = describe_difference(SmemWord{}, 0x4000004000010000, 0x4000004000010002);
  CHECK(to_json(report) ==
        R"({"difference_from_first":{"start_address":[0,2]},"read_alike":{"k-major":false,"mn-major":false}})");
  CHECK_THAT(print(report), ContainsSubstring("+2 (+32 bytes)"));
  CHECK(to_json(describe_difference(ZeroColumnWord{}, 1, 1)) == R"({"difference_from_first":{}})");
}

TEST_CASE("PTX text becomes a report for each instruction, a file one report") {
  const Report report = describe_ptx("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16");
  REQUIRE(report.find("x") == nullptr);
  const auto& all = std::get<Report::List>(report.value);
  REQUIRE(all.size() == 1);
  REQUIRE(all[0].find("n"));
  CHECK(*all[0].find("n") == Report(64));
  CHECK_THROWS_AS(describe_ptx("wgmma.mma_async.sync.aligned.m64n9k16.f32.f16.f16"), Error);
  const PtxFileReport file = describe_ptx_file("k.ptx", ".target sm_90a\nwgmma.fence.sync.aligned;\nmma.nonsense;");
  CHECK(file.legal == 1);
  CHECK(file.illegal == 0);
  CHECK(file.not_read == 1);
  REQUIRE(file.report.find("instructions"));
  CHECK_THAT(print(file.report), ContainsSubstring("k.ptx:2: wgmma.fence.sync.aligned\n"));
}
