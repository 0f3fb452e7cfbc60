// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>

#include "arguments.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/files/file.hpp"
#include "bitmma/files/tensor_file.hpp"
#include "bitmma/layout/scale_image.hpp"
#include "bitmma/memory/tmem.hpp"
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

  bool is_b() const { return operand == "b"; }
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

constexpr const char* whole_matrix =
    "for the scales of a whole matrix, use --row and --block, --byte, --image or --pack";

/// The scales' place in Tensor Memory, by the form of the instruction that reads them.
TmemScales require_scales(const ScalesFlags& flags) {
  std::vector<Violation> violations;
  if (flags.rows < 1 || flags.rows > 256) {
    violations.push_back({.field = "--rows",
                          .seen = std::to_string(flags.rows),
                          .expected = "1..256, the number that one instruction reads",
                          .fix = whole_matrix});
  }
  if (flags.blocks < 1 || flags.blocks > 8) {
    violations.push_back({.field = "--blocks",
                          .seen = std::to_string(flags.blocks),
                          .expected = "1..8, the number that one instruction reads",
                          .fix = whole_matrix});
  }
  if (flags.id < 0 || flags.id > 3) {
    violations.push_back({.field = "--id", .seen = std::to_string(flags.id), .expected = "0..3"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
  const TmemLayoutInfo& layout = find_tmem_layout(flags.m, flags.cta_group, false, false);
  const auto rows = static_cast<int>(flags.rows);
  const TmemScales scales =
      flags.is_b() ? scales_of_b(layout, rows, flags.address, flags.id) : scales_of_a(layout, flags.address, flags.id);
  if (scales.parts == 2 && rows % 2 != 0) {
    throw Error({.field = "--rows",
                 .seen = std::to_string(rows),
                 .expected = "an even number: the halves of N are in different lanes"});
  }
  require_fits(scales, rows, static_cast<int>(flags.blocks), flags.is_b() ? "scale_B" : "scale_A");
  return scales;
}

/// The image in shared memory: the scale at a byte, or the first tile.
void show_image(Context& context, const ScalesFlags& flags, const ScaleImage& image) {
  constexpr int64_t most = 1 << 20;
  if (flags.rows < 1 || flags.blocks < 1 || flags.rows > most || flags.blocks > most)
    throw Error({.field = "--rows, --blocks",
                 .seen = fmt::format("{}, {}", flags.rows, flags.blocks),
                 .expected = "1..1048576 each"});
  MapFlags asked = flags.map;
  if (flags.byte) {
    if (*flags.byte < 0) throw Error({.field = "--byte", .seen = std::to_string(*flags.byte), .expected = "0 or more"});
    const auto [row, block] = image.element_at(*flags.byte);
    if (row >= image.rows || block >= image.blocks)
      return answer_nothing(context, flags.map.json, fmt::format("byte {} of the image", *flags.byte));
    asked.asks[0].value = row, asked.asks[1].value = block;
  }
  Map map = map_of(image);
  if (!asked.asked(false) && !asked.csv && !asked.json) {
    map.axes[0].extent = std::min<int64_t>(128, image.rows), map.axes[1].extent = std::min<int64_t>(4, image.blocks);
    if (image.bytes() > 512)
      map.notes.push_back(
          fmt::format("the first of {} tiles, which are ordered by blocks first, then by rows", image.bytes() / 512));
  }
  asked.show(context, map);
}

void run_scales(Context& context, const ScalesFlags& flags) {
  const ScaleImage image{flags.rows, flags.blocks};
  if (!flags.pack.empty() || !flags.unpack.empty()) return convert_scales(context, flags, image);
  // Several instructions read them: the image does not depend on the instruction, but places in Tensor Memory
  // do.
  const bool is_whole_matrix = flags.rows > 256 || flags.blocks > 8;
  if (flags.image || flags.byte || (is_whole_matrix && flags.map.asked(false)))
    return show_image(context, flags, image);
  const TmemScales scales = require_scales(flags);
  Map map = map_of(scales, image);
  map.title = fmt::format("scales of {}: {} x {} along K, one byte each", flags.is_b() ? "B" : "A",
                          counted(flags.rows, "row"), counted(flags.blocks, "block"));
  map.notes = {
      "1  row-major                     byte row * blocks + block",
      fmt::format(
          "2  image in shared memory        {} bytes: tiles of 128 rows x 4 blocks; 512 * tile + 16 * (row % 32) "
          "+ 4 * (row / 32 % 4) + block % 4",
          image.bytes()),
      "                                 CuTe of a tile: ((32,4),4):((16,4),1)",
      scales.parts == 1
          ? fmt::format("3  tcgen05.cp .32x128b.warpx4    each tile to 4 columns, from column {} on; a 16-byte line to "
                        "a lane",
                        scales.address.column)
          : "3  two by two: columns of B from N / 2 on go to lanes 64 and up, which .warpx4 cannot do",
      fmt::format("4  Tensor Memory                 the {} replicas of a scale, 32 lanes apart", scales.replicas())};
  flags.map.show(context, map);
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
  scales->callback([flags, &context] { run_scales(context, *flags); });
}

}  // namespace bitmma::cli
