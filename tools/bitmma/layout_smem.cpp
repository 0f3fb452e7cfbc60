// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>

#include "arguments.hpp"
#include "bitmma/analysis/describe_banks.hpp"
#include "bitmma/analysis/describe_layout.hpp"
#include "bitmma/descriptor/smem_descriptor.hpp"
#include "bitmma/memory/smem.hpp"
#include "flags.hpp"
#include "layout.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct SmemFlags {
  Flag<std::string> descriptor, major = "k";
  Flag<std::optional<std::string>> atom, tma;
  Flag<std::string> box, conflicts, warp;
  Flag<int> warp_lines = 0;
  TargetFlag target;
  Flag<int> element_bits = 16, rows = 8, cols = 16;
  Flag<std::optional<int>> code_bits;
  MapFlags map;
};

SmemMatrix require_matrix(const SmemFlags& flags) {
  SmemMatrix matrix{
      .major = major_named(flags.major), .element_bits = flags.element_bits, .rows = flags.rows, .cols = flags.cols};
  std::vector<Violation> violations = size_violations_of(matrix);
  if (flags.descriptor.empty()) {
    violations.push_back({.code = ViolationCode::missing_argument,
                          .field = "--descriptor",
                          .seen = "missing",
                          .expected = "a 64-bit descriptor, or --atom MODE"});
  }
  try {
    const uint64_t word = flags.descriptor.empty() ? 0 : require_word("--descriptor", flags.descriptor);
    if (violations.empty()) matrix.descriptor = decode_smem_descriptor(flags.target.of_smem_descriptor(), word);
  } catch (const Error& error) {
    std::ranges::copy(error.violations(), std::back_inserter(violations));
  }
  if (!violations.empty()) throw Error(std::move(violations));
  return matrix;
}

/// The swizzle atom of a mode, without a descriptor.
void show_atom(Context& context, const SmemFlags& flags) {
  const std::optional<Swizzle> mode = swizzle_named(*flags.atom);
  if (!mode) throw Error({.field = "--atom", .seen = *flags.atom, .legal = row_names(swizzles)});
  if (!flags.descriptor.empty())
    throw Error({.code = ViolationCode::not_together, .field = "--atom", .seen = "--descriptor"});
  std::optional<Target> target;
  if (mode == Swizzle::b128_atom32 && flags.target.requested()) target = flags.target.of_smem_descriptor();
  flags.map.show(context, shown_atom(*mode, major_named(flags.major), flags.element_bits, target));
}

/// --tma and --box.
TmaTile require_tile(const SmemFlags& flags) {
  const std::optional<Swizzle> mode = swizzle_named(*flags.tma);
  if (!mode) {
    throw Error({.field = "--tma",
                 .seen = *flags.tma,
                 .legal = row_names(swizzles),
                 .fix = "the patterns of 128B_ATOM_32B_FLIP_8B and 128B_ATOM_64B are published only in figures"});
  }
  TmaTile tile{.swizzle = *mode,
               .major = major_named(flags.major),
               .element_bits = flags.element_bits,
               .rows = flags.rows,
               .cols = flags.cols};
  if (!flags.box.empty()) read_box(tile, "--box", *flags.box);
  constexpr auto names = std::to_array<FlagOfField>({{"inner box", "--box"}, {"outer box", "--box"}});
  return naming_flags(names, [&] { return checked(tile); });
}

/// Compares the descriptor with what TMA writes.
void compare_with_tma(Context& context, const SmemFlags& flags) {
  const TmaTile tile = require_tile(flags);
  const SmemMatrix matrix = require_matrix(flags);
  LayoutComparison comparison = compare(tile, matrix);
  context.exit_code = comparison.is_same ? exit_same : exit_differs;
  comparison.report.add_warnings(warnings_of(matrix));
  show(context, comparison.report, flags.map.json);
}

/// Wavefronts of ldmatrix or stmatrix for every matrix of the map.
void show_conflicts(Context& context, const SmemFlags& flags, const Map& map) {
  if (flags.conflicts != "ldmatrix" && flags.conflicts != "stmatrix")
    throw Error({.field = "--conflicts", .seen = flags.conflicts, .legal = {"ldmatrix", "stmatrix"}});
  const ConflictReport conflicts = describe_conflicts(map, flags.conflicts);
  context.exit_code = conflicts.is_free ? exit_same : exit_differs;
  show(context, conflicts.report, flags.map.json);
}

/// One access of a warp, from --row and --col on.
void show_warp(Context& context, const SmemFlags& flags, const Map& map) {
  const auto move = std::ranges::find(warp_moves, flags.warp.get(), &WarpMoveInfo::name);
  if (move == warp_moves.end()) throw Error({.field = "--warp", .seen = flags.warp, .legal = row_names(warp_moves)});
  if (flags.map.csv) throw Error({.code = ViolationCode::not_together, .field = "--warp", .seen = "--csv"});
  const WarpReport warp = describe_warp(warp_access(map, move->id, flags.map.value_of("--row").value_or(0),
                                                    flags.map.value_of("--col").value_or(0), flags.warp_lines),
                                        move->name);
  context.exit_code = warp.is_free ? exit_same : exit_differs;
  if (flags.map.svg.is_given()) return flags.map.svg.write(context, warp.picture);
  show(context, warp.report, flags.map.json);
}

void run_smem(Context& context, const SmemFlags& flags) {
  if (flags.atom) return show_atom(context, flags);
  if (flags.tma && !flags.descriptor.empty()) return compare_with_tma(context, flags);
  const ShownLayout shown = [&]() -> ShownLayout {
    if (flags.tma) return {.map = map_of(require_tile(flags)), .has_object_of_element = true};
    return shown_layout(require_matrix(flags), flags.code_bits.value_or(0));
  }();
  if (!flags.warp.empty()) return show_warp(context, flags, shown.map);
  if (!flags.conflicts.empty()) return show_conflicts(context, flags, shown.map);
  flags.map.show(context, shown);
  if (flags.map.prints_text() || flags.map.svg.is_given()) print_warnings(context, shown.warnings);
}

}  // namespace

void add_smem_layout(Command& layout, Context& context) {
  const auto flags = std::make_shared<SmemFlags>();
  Command* smem = layout.add_command("smem", "show shared memory as a descriptor, an atom or TMA describes it");
  smem->add_option("--descriptor", flags->descriptor, "64-bit matrix descriptor");
  smem->add_option(
      "--atom", flags->atom,
      "show the swizzle atom of a mode instead: none, 32, 64, 128 or 128-atom32; --element-bits up to 128");
  smem->add_option("--tma", flags->tma,
                   "show what a tensor map with this swizzle writes: none, 32, 64, 128 or 128-atom32; with "
                   "--descriptor, check that the descriptor reads the same");
  smem->add_option(
      "--box", flags->box,
      "--tma: elements of a box, INNER or INNERxOUTER; default: the swizzle's width by the whole outer extent");
  smem->add_option("--conflicts", flags->conflicts,
                   "show wavefronts and bank conflicts of ldmatrix or stmatrix instead, for every 8 rows of 16 bytes");
  smem->add_option("--warp", flags->warp,
                   "show the bytes and banks of one access of a warp from --row and --col on: ldmatrix.x1, .x2 or .x4 "
                   "(stmatrix is the same), or ld.b8 to ld.b128, whose threads follow each other along a row")
      ->excludes("--conflicts");
  smem->add_option("--warp-lines", flags->warp_lines,
                   "--warp ld: number of rows that the warp reads; default: as few as its threads fill")
      ->needs("--warp");
  flags->target.add(*smem, "the GPU by its PTX name; default sm_90a", true);
  smem->add_option("--major", flags->major, "k, or mn (also m, n) for transposed operands")->capture_default_str();
  one_of(smem->get_option("--major"), {"k", "mn", "m", "n"});
  smem->add_option("--element-bits", flags->element_bits, "bits of an element in memory")->capture_default_str();
  smem->add_option("--code-bits", flags->code_bits,
                   "bits of a code that does not fill its --element-bits 8: 4 of e2m1, 6 of e2m3 and e3m2, as in kinds "
                   "that mix types (b4x16_p64, b6x16_p32)");
  smem->add_option("--rows", flags->rows, "extent along M or N")->capture_default_str();
  smem->add_option("--cols", flags->cols, "extent along K")->capture_default_str();
  flags->map.ask(*smem, {.flag = "--byte", .is_place = true, .axis = "byte"}, "show the elements at this byte");
  flags->map.lines = 32;
  smem->add_option("--max-lines", flags->map.lines, "number of lines of the picture")->capture_default_str();
  flags->map.add_row_and_col(*smem);
  flags->map.add_outputs(*smem);
  smem->footer(
      "Examples:\n"
      "  bitmma layout smem --descriptor 0x4000004000010000 --rows 64 --cols 16\n"
      "  bitmma layout smem --descriptor 0x4000004000010000 --rows 64 --row 9 --col 8\n"
      "  bitmma layout smem --descriptor 0x4000004000010000 --rows 64 --cols 64 --byte 1184\n"
      "  bitmma layout smem --atom 128 --major mn --element-bits 128\n"
      "  bitmma layout smem --tma none --descriptor 0x4000004000010000 --rows 64 --cols 64\n"
      "  bitmma layout smem --tma 128 --rows 64 --cols 64 --conflicts ldmatrix\n"
      "  bitmma layout smem --tma 128 --rows 64 --cols 64 --warp ldmatrix.x4 --row 16 --col 32\n"
      "  bitmma layout smem --tma none --rows 64 --cols 64 --box 64 --warp ld.b128 --warp-lines 32");
  smem->callback([flags, &context] { naming_flags(context, [&] { run_smem(context, *flags); }); });
}

}  // namespace bitmma::cli
