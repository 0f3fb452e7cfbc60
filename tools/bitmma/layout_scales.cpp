// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "arguments.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/files/file.hpp"
#include "bitmma/files/tensor_file.hpp"
#include "bitmma/layout/scale_image.hpp"
#include "flags.hpp"
#include "layout.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct ScalesFlags {
  Flag<std::string> operand = "a", pack, unpack, out;
  Flag<int64_t> rows = 128, blocks = 4;
  Flag<int> m = 128, cta_group = 1, id = 0;
  Flag<uint32_t> address = 0;
  Flag<std::optional<int64_t>> byte;
  Flag<bool> image = false;
  MapFlags map;
};

/// The bytes of a file, or of a NumPy array of one-byte elements.
std::string bytes_of_scales(const std::string& path) {
  if (!path.ends_with(".npy")) return read_whole(path);
  const TensorFile file = read_tensor_file(path);
  const Tensor& tensor = file.tensors.front();
  if (dtype_bytes(tensor.dtype) != 1)
    throw Error({.field = path,
                 .seen = tensor.dtype,
                 .expected = "elements of one byte: save the codes of the scales as uint8"});
  const std::vector<uint8_t> bytes = tensor.bytes.copy();
  return {bytes.begin(), bytes.end()};
}

void convert_scales(Context& context, const ScalesFlags& flags, const ScaleImage& image) {
  if (flags.out.empty())
    throw Error(
        {.code = ViolationCode::missing_argument, .field = "-o", .seen = "missing", .expected = "the file to write"});
  if (!flags.pack.empty() && !flags.unpack.empty()) {
    throw Error({.code = ViolationCode::not_together, .field = "--pack", .seen = "--unpack"});
  }
  const std::string& path = flags.pack.empty() ? flags.unpack.get() : flags.pack.get();
  const std::string file = bytes_of_scales(path);
  const std::span input(reinterpret_cast<const uint8_t*>(file.data()), file.size());
  const std::vector<uint8_t> bytes = flags.pack.empty() ? unpack_scales(image, input) : pack_scales(image, input);
  context.require_flags_acted();
  write_whole(flags.out, [&](std::ostream& stream) {
    stream.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  });
  context.terminal.err << fmt::format("{}: {} bytes, {} rows x {} blocks {}\n", printable(flags.out), bytes.size(),
                                      image.rows, image.blocks,
                                      flags.pack.empty() ? "row-major" : "in tiles of 128 x 4");
}

/// The image in shared memory: the scale at a byte, or the first tile.
void show_image(Context& context, const ScalesFlags& flags, const ScaleImage& image) {
  MapFlags map_flags = flags.map;
  const bool is_whole = flags.byte || map_flags.has_question(false) || map_flags.csv || map_flags.json;
  const ShownLayout shown = shown_layout(image, is_whole);
  if (flags.byte) {
    if (*flags.byte < 0) throw Error({.field = "--byte", .seen = std::to_string(*flags.byte), .expected = "0 or more"});
    const auto [row, block] = image.element_at(*flags.byte);
    if (row >= image.rows || block >= image.blocks)
      return answer_nothing(context, flags.map.json, fmt::format("byte {} of the image", *flags.byte));
    map_flags.asks[0].value = row, map_flags.asks[1].value = block;
  }
  map_flags.show(context, shown);
}

void run_scales(Context& context, const ScalesFlags& flags) {
  const ScaleImage image{flags.rows, flags.blocks};
  if (!flags.pack.empty() || !flags.unpack.empty()) return convert_scales(context, flags, image);
  // Several instructions read a whole matrix: the image does not depend on the instruction, but places in Tensor Memory
  // do.
  const bool is_whole_matrix = flags.rows > 256 || flags.blocks > 8;
  if (flags.image || flags.byte || (is_whole_matrix && flags.map.has_question(false)))
    return show_image(context, flags, image);
  const ScalesRequest request{.is_b = flags.operand == "b",
                              .rows = flags.rows,
                              .blocks = flags.blocks,
                              .m = flags.m,
                              .cta_group = flags.cta_group,
                              .id = flags.id,
                              .address = flags.address};
  flags.map.show(context, shown_layout(request));
}

}  // namespace

void add_scales_layout(Command& layout, Context& context) {
  const auto flags = std::make_shared<ScalesFlags>();
  Command* scales = layout.add_command("scales",
                                       "show block scales as a row-major matrix, as an image of 128 x 4 tiles and in "
                                       "Tensor Memory, or convert between the first two");
  scales->add_option("--operand", flags->operand, "a, whose rows are M of one CTA, or b, whose rows are N")
      ->capture_default_str();
  one_of(scales->get_option("--operand"), {"a", "b"});
  scales->add_option("--rows", flags->rows, "number of rows of A in the CTA, or of columns of B")
      ->capture_default_str();
  scales
      ->add_option("--blocks", flags->blocks,
                   "number of scales along K, for one instruction; with --pack for the whole matrix")
      ->capture_default_str();
  scales
      ->add_option("--m", flags->m,
                   "M of the instruction over the CTA group; with 128 and two CTAs, N is split as well")
      ->capture_default_str();
  scales->add_option("--cta-group", flags->cta_group, "1 or 2")->capture_default_str();
  between(scales->get_option("--cta-group"), 1, 2);
  scales->add_option("--id", flags->id, "byte of the first scale, from the instruction descriptor")
      ->capture_default_str();
  scales->add_option("--address", flags->address, "Tensor Memory address of the scales");
  flags->map.ask(*scales, {.flag = "--row"}, "show one scale: its row");
  flags->map.ask(*scales, {.flag = "--block"}, "... and block");
  scales->add_flag("--image", flags->image, "show the image in shared memory, as text, or with --svg as a picture");
  scales->add_option("--byte", flags->byte, "show the scale at this byte of the image");
  scales->add_input("--pack", flags->pack,
                    "convert rows x blocks bytes in row-major order, from a raw file or a .npy, to an image in -o");
  scales->add_input("--unpack", flags->unpack, "convert an image to row-major bytes in -o");
  scales->add_output("-o,--output", flags->out, "file to write with --pack or --unpack");
  flags->map.add_outputs(*scales);
  scales->footer(
      "Examples:\n"
      "  bitmma layout scales --operand b --rows 64 --blocks 4\n"
      "  bitmma layout scales --row 37 --block 2\n"
      "  bitmma layout scales --image --svg image.svg\n"
      "  bitmma layout scales --rows 4096 --blocks 256 --row 300 --block 9\n"
      "  bitmma layout scales --rows 4096 --blocks 256 --pack row_major.bin -o image.bin");
  scales->callback([flags, &context] { naming_flags(context, [&] { run_scales(context, *flags); }); });
}

}  // namespace bitmma::cli
