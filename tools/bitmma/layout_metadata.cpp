// SPDX-License-Identifier: MIT
#include "arguments.hpp"
#include "bitmma/analysis/describe_layout.hpp"
#include "bitmma/memory/metadata_order.hpp"
#include "flags.hpp"
#include "layout.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct MetadataFlags {
  Flag<std::string> order = "sm80";
  Flag<int> element_bits = 16;
  Flag<int64_t> rows = 32, cols = 64;
  Flag<std::optional<int64_t>> tile_k;
  Flag<bool> check = false;
  MapFlags map;
};

void run_metadata(Context& context, const MetadataFlags& flags) {
  MetadataImage image{.order = metadata_order_named(flags.order),
                      .element_bits = flags.element_bits,
                      .rows = flags.rows,
                      .cols = flags.cols};
  if (image.order == MetadataOrder::sm90) image.tile_k = flags.tile_k.get().value_or(image.tile_k);
  if (flags.check) {
    const LayoutComparison comparison = describe_places(image);
    context.exit_code = comparison.is_same ? exit_same : exit_differs;
    return show(context, comparison.report, flags.map.json);
  }
  const ShownLayout shown = shown_layout(image);
  flags.map.show(context, shown);
  if (flags.map.prints_text() || flags.map.svg.is_given()) print_warnings(context, shown.warnings);
}

}  // namespace

void add_metadata_layout(Command& layout, Context& context) {
  const auto flags = std::make_shared<MetadataFlags>();
  Command* metadata =
      layout.add_command("metadata", "show the metadata of a whole sparse A in memory, in the orders of CUTLASS");
  metadata
      ->add_option("--order", flags->order,
                   "sm80, sm90 or sm100 (also sm_120): CUTLASS's for these GPUs, sm80 also PyTorch's; or row-major. "
                   "cuSPARSELt's is not published")
      ->capture_default_str();
  metadata->add_option("--element-bits", flags->element_bits, "bits of an element's container of A: 4, 8, 16 or 32")
      ->capture_default_str();
  metadata->add_option("--rows", flags->rows, "rows of A")->capture_default_str();
  metadata->add_option("--cols", flags->cols, "columns of A, of which half are stored")->capture_default_str();
  metadata->add_option("--tile-k", flags->tile_k, "sm90: K of the kernel's tile; default 128 and more");
  metadata->add_flag("--check", flags->check, "check that every chunk has a place of its own");
  flags->map.ask(*metadata, {.flag = "--row"}, "show one chunk: its row");
  flags->map.ask(*metadata, {.flag = "--chunk"}, "... and its number in the row");
  flags->map.ask(*metadata, {.flag = "--byte", .is_place = true, .axis = "byte"}, "show the chunks at this byte");
  flags->map.lines = 32;
  metadata->add_option("--max-lines", flags->map.lines, "number of lines of the picture")->capture_default_str();
  flags->map.add_outputs(*metadata);
  metadata->footer(
      "Examples:\n"
      "  bitmma layout metadata --order sm80 --rows 32 --cols 64\n"
      "  bitmma layout metadata --order sm80 --rows 48 --cols 64 --check\n"
      "  bitmma layout metadata --order sm90 --rows 64 --cols 128 --row 9 --chunk 5\n"
      "  bitmma layout metadata --order sm100 --element-bits 8 --rows 128 --cols 256 --byte 4096");
  metadata->callback([flags, &context] { naming_flags(context, [&] { run_metadata(context, *flags); }); });
}

}  // namespace bitmma::cli
