// CuTe's notation: what is read prints as text that reads as the same; its elements can be placed and drawn.
#include "bitmma/analysis/draw.hpp"
#include "bitmma/layout/cute.hpp"
#include "bitmma/memory/layout_descriptor.hpp"
#include "fuzz.hpp"

void fuzz_one(bitmma::fuzz::Bytes& in) {
  using namespace bitmma;
  using namespace bitmma::fuzz;
  constexpr int usual_bits[] = {1, 2, 4, 8, 16, 32, 64};
  const int element_bits = one_in(in, 8) ? number(in) : pick(in, usual_bits);
  const std::string text = in.ConsumeRemainingBytesAsString();
  CuteLayout cute;
  if (!accepts([&] { cute = parse_cute(text, element_bits); })) return;
  const std::string printed = print(cute);
  const CuteLayout again = parse_cute(printed, cute.element_bits);
  require(again.layout == cute.layout && again.rows == cute.rows && again.cols == cute.cols &&
              again.more == cute.more && print(again) == printed,
          "a layout prints as it was read");
  require(cute.rows > 0 && cute.cols > 0, "a layout has elements");
  (void)cute.byte_of(cute.rows - 1, cute.cols - 1, element_bits);
  if (cute.rows > 4096 / std::min<int64_t>(cute.cols, 4096)) return;
  (void)accepts([&] { (void)descriptors_of(cute, {.target = Target::sm_100a}); });
  (void)accepts([&] {
    const Picture picture = picture_of(map_of(cute), {}, {.lines = 8});
    (void)to_text(picture);
    (void)to_svg(picture);
  });
}
