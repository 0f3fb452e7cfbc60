#include "bitmma/io/lint.hpp"

#include "bitmma/io/golden.hpp"
#include "bitmma/io/picture.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

/// The fields that lint names, after `change` to a good file.
std::string fields(const GoldenRequest& request, const std::function<void(TensorFile&)>& change) {
  const test::TemporaryFolder folder;
  TensorFile file = make_golden(request, 1);
  change(file);
  write_tensor_file(folder.path("x"), file);
  std::string names;
  for (const Violation& finding : lint(read_vector_file(folder.path("x")), 0)) names += finding.field + ";";
  return names;
}

void set_words(TensorFile& file, const char* name, const char* dtype, uint64_t word) {
  std::vector<uint8_t> bytes;
  for (int i = 0; i < dtype_bytes(dtype); ++i) bytes.push_back(static_cast<uint8_t>(word >> 8 * i));
  file.set(Tensor::from_bytes(name, dtype, {1}, bytes));
}

}  // namespace

TEST_CASE("lint says what is suspicious, and nothing of what is not") {
  const GoldenRequest f16{.instruction = parse_instruction("wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16"),
                          .distribution = Distribution::normal};
  const auto nothing = [](TensorFile&) {};
  CHECK(fields(f16, nothing).empty());
  const auto with_a = [&](uint64_t word) {
    return fields(f16, [word](TensorFile& file) { set_words(file, "a_desc", "U64", word); });
  };
  CHECK_THAT(with_a(0x4000000400010000), ContainsSubstring("A bytes;"));  // SBO 64: rows overlap
  CHECK_THAT(with_a(0x4000004000010200), ContainsSubstring("A and B;"));  // A begins where B does
  CHECK_THAT(with_a(0x4000004000010208), ContainsSubstring("A reads;"));  // and runs past the image
  CHECK_THAT(
      with_a(0x4000004001000000),
      ContainsSubstring("A leading_dim_byte_offset;A leading_dim_byte_offset;"));  // ignored, and changes nothing
  CHECK_THAT(with_a(0x4000004000010008),
             ContainsSubstring("A start_address;"));  // inside the pattern without base offset
  GoldenRequest special = f16;
  special.distribution = Distribution::special;
  CHECK_THAT(fields(special, nothing), ContainsSubstring("A values;") && ContainsSubstring("B values;"));
  GoldenRequest eight = f16;
  eight.instruction.n = 8;
  CHECK(fields(eight, nothing).empty());  // 8 rows have no second group, and 1024 is what everybody writes there
  eight.layout_b = {.swizzle = Swizzle::b128, .padding_bytes = 1024};
  CHECK_THAT(fields(eight, nothing), ContainsSubstring("B stride_dim_byte_offset;"));
  Instruction scaled{.family = Family::tcgen05,
                     .m = 128,
                     .n = 16,
                     .d = Format::f32,
                     .a = Format::e2m1,
                     .b = Format::e2m1,
                     .kind = MmaKind::mxf4nvf4,
                     .scale_vec = ".scale_vec::4X",
                     .scale_type = Format::ue4m3};
  scaled = with_idesc(scaled, idesc_of(scaled));
  GoldenRequest nvfp4{.instruction = scaled, .distribution = Distribution::normal};
  CHECK(fields(nvfp4, nothing).empty());
  nvfp4.distribution = Distribution::special;
  CHECK_THAT(fields(nvfp4, nothing), ContainsSubstring("scales of A;"));
  CHECK_THAT(fields({.instruction = scaled, .distribution = Distribution::normal},
                    [](TensorFile& file) {
                      const Tensor& tmem = *file.find("tmem");
                      file.set(Tensor::from_bytes("tmem", "U32", tmem.shape, std::vector<uint8_t>(tmem.bytes.size())));
                    }),
             ContainsSubstring("scales of A;scales of B;"));
}

TEST_CASE("a picture is a whole SVG document, its text escaped, for light and dark pages") {
  Picture picture{.title = "a < b & c",
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
