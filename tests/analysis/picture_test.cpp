#include "bitmma/analysis/picture.hpp"

#include <algorithm>

#include "support/catch.hpp"

using namespace bitmma;

TEST_CASE("a picture is a whole SVG document, its text escaped, for light and dark pages") {
  const Picture picture{.title = "a < b & c",
                        .notes = {"a note"},
                        .corner = "row",
                        .column_heads = {"x", "a long head"},
                        .rows = {{"0", {{"text", 0}, {"", -1}}}},
                        .legend = {{0, "blue"}}};
  const std::string svg = to_svg(picture);
  CHECK_THAT(svg, ContainsSubstring("<svg xmlns") && ContainsSubstring("a &lt; b &amp; c") &&
                      ContainsSubstring("prefers-color-scheme: dark") && ContainsSubstring("</svg>"));
  CHECK(std::count(svg.begin(), svg.end(), '<') == std::count(svg.begin(), svg.end(), '>'));
}
