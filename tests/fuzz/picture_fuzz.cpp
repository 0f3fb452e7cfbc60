// Pictures with any text in them are well-formed XML in UTF-8; drawings of registers and Tensor Memory are drawn or
// refused.
#include <expat.h>

#include "bitmma/analysis/draw.hpp"
#include "bitmma/analysis/picture.hpp"
#include "fuzz.hpp"

namespace bitmma::fuzz {
namespace {

void require_xml(const std::string& svg) {
  XML_Parser parser = XML_ParserCreate("UTF-8");
  const bool holds = XML_Parse(parser, svg.data(), static_cast<int>(svg.size()), 1) == XML_STATUS_OK;
  if (!holds)
    std::fprintf(stderr, "%s, line %lu\n", XML_ErrorString(XML_GetErrorCode(parser)), XML_GetCurrentLineNumber(parser));
  XML_ParserFree(parser);
  require(holds, "a picture is well-formed XML");
}

Picture any_picture(Bytes& in) {
  const auto text = [&] { return in.ConsumeBool() ? in.ConsumeRandomLengthString(16) : in.ConsumeBytesAsString(3); };
  Picture picture{.title = text(), .corner = text()};
  for (int i = between(in, 0, 2); i > 0; --i) picture.notes.push_back(text());
  for (int i = between(in, 0, 4); i > 0; --i) picture.column_heads.push_back(text());
  for (int rows = between(in, 0, 3); rows > 0; --rows) {
    auto& [head, cells] = picture.rows.emplace_back(text(), std::vector<PictureCell>{});
    for (int i = between(in, 0, 5); i > 0; --i)
      cells.push_back({.text = text(), .color = one_in(in, 12) ? number(in) : between(in, -1, 7)});
  }
  for (int i = between(in, 0, 2); i > 0; --i)
    picture.legend.emplace_back(one_in(in, 12) ? number(in) : between(in, 0, 7), text());
  return picture;
}

Fragment any_fragment(Bytes& in) {
  constexpr int bits[] = {1, 4, 8, 16, 32, 64};
  switch (between(in, 0, 5)) {
    case 0: return wgmma_d_fragment(in.ConsumeBool() ? Format::f32 : Format::f16, 8 * between(in, 1, 32));
    case 1: return wgmma_a_fragment(any_format(in), 8 << between(in, 0, 5));
    case 2: return mma_a_fragment(pick(in, bits), 8 << between(in, 0, 5), 8 * between(in, 1, 2));
    case 3: return mma_b_fragment(pick(in, bits), 8 << between(in, 0, 5));
    case 4: return mma_d_fragment(pick(in, bits), 8 * between(in, 1, 2));
    default:
      return in.ConsumeBool() ? quad_a_fragment(in.ConsumeBool())
                              : quad_d_fragment(in.ConsumeBool() ? Format::f32 : Format::f16);
  }
}

}  // namespace
}  // namespace bitmma::fuzz

void fuzz_one(bitmma::fuzz::Bytes& in) {
  using namespace bitmma;
  using namespace bitmma::fuzz;
  switch (between(in, 0, 9)) {
    case 0: {
      const int most = one_in(in, 4) ? number(in) : between(in, 0, 20);
      accepts([&] {
        const Fragment fragment = any_fragment(in);
        const Picture picture = picture_of(map_of(fragment), {}, {.columns = most});
        require(is_utf8(to_text(picture)), "a drawing is UTF-8");
        require_xml(to_svg(picture));
      });
      break;
    }
    case 1:
    case 2: {
      constexpr int bits[] = {1, 4, 8, 16, 32};
      const int rows = between(in, 1, 8), cols = between(in, 1, 8),
                lines = one_in(in, 4) ? number(in) : between(in, 1, 12);
      Map map = in.ConsumeBool() ? map_of(CuteLayout{.rows = rows, .cols = cols, .element_bits = pick(in, bits)})
                                 : map_of(TmemD{.layout = tmem_layouts[3], .n = 8});
      const bool is_tmem = map.picture == MapPicture::tensor_memory;
      std::vector<std::array<int64_t, 3>> places;
      for (int i = 0; i < 64; ++i)
        places.push_back({is_tmem          ? 0
                          : one_in(in, 12) ? number(in)
                                           : between(in, 0, 4096),
                          between(in, 0, 127), between(in, 0, 511)});
      map.locate = [places, is_tmem](MapEntry& entry) {
        const auto& place = places[static_cast<size_t>(entry[0] * 8 + entry[1]) % places.size()];
        entry[2] = place[0], entry[3] = is_tmem ? place[1] : 0, entry[4] = place[2];
      };
      accepts([&] {
        const Picture picture = picture_of(map, {}, {.lines = lines});
        require(is_utf8(to_text(picture)), "a drawing is UTF-8");
        require_xml(to_svg(picture));
      });
      break;
    }
    default: require_xml(to_svg(any_picture(in)));
  }
}
