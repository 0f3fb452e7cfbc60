#include "bitmma/analysis/picture.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "bitmma/analysis/draw.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/layout/cute.hpp"
#include "bitmma/memory/map.hpp"
#include "bitmma/memory/smem.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

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

TEST_CASE("pictures of more elements than anybody looks at, of places that are none, and of no width are refused") {
  const SmemMatrix matrix{.descriptor = decode_smem_descriptor(Target::sm_90a, 0x4000'0040'0001'0000),
                          .element_bits = 16,
                          .rows = 4096,
                          .cols = 4096};
  const Map large = map_of(matrix), small = map_of(parse_cute("(8,8):(8,1)", 16));
  Map below = small;
  below.locate = [](MapEntry& entry) { entry[2] = -1; };
  CHECK_THROWS_MATCHES(picture_of(large), Error, refused(too_large, "picture"));
  CHECK_THROWS_MATCHES(picture_of(below), Error, refused(illegal_value, "byte"));
  CHECK_THROWS_MATCHES(picture_of(small, {}, {.lines = -1}), Error, refused(illegal_value, "lines of the picture"));
  CHECK_THROWS_MATCHES(picture_of(small, {}, {.columns = -1}), Error, refused(illegal_value, "columns"));
}

TEST_CASE("texts of a picture make XML, whatever bytes they have") {
  std::string every;
  for (int byte = 0; byte < 256; ++byte) every += static_cast<char>(byte);
  every += "\xEF\xBF\xBE\xEF\xBF\xBF ]]> &amp;";
  const Picture picture{.title = every,
                        .notes = {every},
                        .corner = every,
                        .column_heads = {every},
                        .rows = {{every, {PictureCell{.text = every, .color = 1}}}},
                        .legend = {{0, every}}};
  const std::string svg = to_svg(picture);
  CHECK(svg == printable(svg));
  CHECK(svg.find("\xEF\xBF\xBE") == std::string::npos);
  CHECK(svg.find("\xEF\xBF\xBF") == std::string::npos);
  CHECK(svg.find("]]>") == std::string::npos);
  for (size_t at = 0; (at = svg.find('&', at)) != std::string::npos; ++at) {
    const std::string_view rest = std::string_view(svg).substr(at);
    CHECK((rest.starts_with("&amp;") || rest.starts_with("&lt;") || rest.starts_with("&gt;")));
  }
}
