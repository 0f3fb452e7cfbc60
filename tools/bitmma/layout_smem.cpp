// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "arguments.hpp"
#include "bitmma/analysis/describe.hpp"
#include "bitmma/analysis/describe_layout.hpp"
#include "bitmma/descriptor/descriptor_meaning.hpp"
#include "bitmma/descriptor/smem_descriptor.hpp"
#include "bitmma/memory/smem.hpp"
#include "flags.hpp"
#include "layout.hpp"
#include "numbers.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct SmemFlags {
  Flag<std::string> descriptor, major = "k";
  Flag<std::optional<std::string>> atom, tma;
  Flag<std::string> box, conflicts;
  TargetFlag target;
  Flag<int> element_bits = 16, rows = 8, cols = 16;
  Flag<std::optional<int>> code_bits;
  MapFlags map;
};

SmemMatrix require_matrix(const SmemFlags& flags) {
  std::vector<Violation> violations;
  const bool power =
      flags.element_bits >= 1 && flags.element_bits <= 32 && (flags.element_bits & (flags.element_bits - 1)) == 0;
  if (!power) {
    violations.push_back({.field = "--element-bits",
                          .seen = std::to_string(flags.element_bits),
                          .legal = {"1", "2", "4", "8", "16", "32"}});
  }
  for (const auto& [name, value] : {std::pair("--rows", flags.rows), std::pair("--cols", flags.cols)}) {
    if (value >= 1 && value <= 4096) continue;
    violations.push_back({.field = name, .seen = std::to_string(value), .expected = "1..4096"});
  }
  if (flags.descriptor.empty()) {
    violations.push_back({.code = ViolationCode::missing_argument,
                          .field = "--descriptor",
                          .seen = "missing",
                          .expected = "a 64-bit descriptor, or --atom MODE"});
  }
  uint64_t descriptor = 0;
  try {
    if (!flags.descriptor.empty()) descriptor = require_word("--descriptor", flags.descriptor);
  } catch (const Error& error) {
    std::ranges::copy(error.violations(), std::back_inserter(violations));
  }
  if (!violations.empty()) throw Error(std::move(violations));
  return {.descriptor = decode_smem_descriptor(flags.target.of_smem_descriptor(), descriptor),
          .major = flags.major != "k" ? Major::mn : Major::k,
          .element_bits = flags.element_bits,
          .rows = flags.rows,
          .cols = flags.cols};
}

/// Warnings about the descriptor and the bytes that it reads.
std::vector<Violation> smem_warnings(const SmemMatrix& matrix) {
  std::vector<Violation> found = doubts_about(matrix.descriptor.target, encode(matrix.descriptor));
  const int row_bytes = matrix.cols * matrix.element_bits / 8;
  for (const std::vector<Violation>& more :
       {as_warnings(warnings(matrix.descriptor, matrix.major, row_bytes)), reach_warnings(SmemMap(matrix))})
    found.insert(found.end(), more.begin(), more.end());
  return found;
}

/// The swizzle atom of a mode, without a descriptor.
void show_atom(Context& context, const SmemFlags& flags) {
  const std::optional<Swizzle> mode = swizzle_named(*flags.atom);
  std::vector<Violation> violations;
  if (!mode) violations.push_back({.field = "--atom", .seen = *flags.atom, .legal = row_names(swizzles)});
  if (!flags.descriptor.empty())
    violations.push_back({.code = ViolationCode::not_together, .field = "--atom", .seen = "--descriptor"});
  if (mode == Swizzle::b128_atom32 && flags.target.asked()) {
    const Target target = flags.target.of_smem_descriptor();
    if (info(target).smem_descriptor == SmemDescriptorVersion::sm_90)
      violations.push_back({.field = "--atom",
                            .seen = *flags.atom,
                            .expected = fmt::format("none, 32, 64 or 128 on {}", print(target)),
                            .fix = "128-byte swizzling with 32-byte atoms is Blackwell's"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
  const Major major = flags.major != "k" ? Major::mn : Major::k;
  if (mode == Swizzle::b128_atom32 && major == Major::k) {
    throw Error({.code = ViolationCode::contradiction,
                 .field = "--atom, --major",
                 .seen = "128-atom32, k",
                 .expected = "mn with 128-atom32: CUTLASS has no K-major atom with it",
                 .source = "PTX ISA 9.7.16.3, Table 55"});
  }
  const SwizzleInfo& swizzle = info(*mode);
  const CuteLayout atom =
      naming_flag("element bits", "--element-bits", [&] { return cute_atom(major, *mode, flags.element_bits); });
  const int units = swizzle.width_bytes / 16;
  show_cute(context, flags.map, atom,
            fmt::format("{}, {}: atom of {} x {} units of 128 bits", cute_atom_name(major, *mode), print(major),
                        major == Major::k ? 8 : units, major == Major::k ? units : swizzle.rows_per_atom));
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
               .major = flags.major != "k" ? Major::mn : Major::k,
               .element_bits = flags.element_bits,
               .rows = flags.rows,
               .cols = flags.cols};
  if (const std::string& box = flags.box; !box.empty()) {
    const size_t x = box.find('x');
    const auto inner = parse_whole(box.substr(0, x)),
               outer = x == std::string::npos ? inner : parse_whole(box.substr(x + 1));
    if (!inner || !outer || *inner == 0 || *inner > 65536 || *outer == 0 || *outer > 65536)
      throw Error({.field = "--box", .seen = box, .expected = "INNER or INNERxOUTER elements, each 1..65536: 64x16"});
    tile.box_inner = static_cast<int64_t>(*inner);
    if (x != std::string::npos) tile.box_outer = static_cast<int64_t>(*outer);
  }
  return naming_flags(
      std::to_array<FlagOfField>({{"element bits", "--element-bits"}, {"inner box", "--box"}, {"outer box", "--box"}}),
      [&] { return checked(tile); });
}

/// Compares the descriptor with what TMA writes.
void compare_with_tma(Context& context, const SmemFlags& flags) {
  const TmaTile tile = require_tile(flags);
  const SmemMatrix matrix = require_matrix(flags);
  LayoutComparison found = compare(tile, matrix);
  context.exit_code = found.is_same ? exit_same : exit_differs;
  found.report.add_warnings(smem_warnings(matrix));
  show(context, found.report, flags.map.json);
}

/// Wavefronts of ldmatrix or stmatrix for every matrix of the map.
void show_conflicts(Context& context, const SmemFlags& flags, const Map& map) {
  if (flags.conflicts != "ldmatrix" && flags.conflicts != "stmatrix")
    throw Error({.field = "--conflicts", .seen = flags.conflicts, .legal = {"ldmatrix", "stmatrix"}});
  const std::vector<MatrixBankUse> uses = matrix_bank_use(map);
  const auto worst = std::ranges::max_element(uses, {}, [](const MatrixBankUse& use) { return use.use.wavefronts; });
  int64_t wavefronts = 0;
  Report matrices = Report::list();
  for (const MatrixBankUse& use : uses) {
    wavefronts += use.use.wavefronts;
    matrices.append({{"row", use.row}, {"col", use.col}, {"wavefronts", use.use.wavefronts}});
  }
  const auto count = static_cast<int64_t>(uses.size());
  context.exit_code = wavefronts == count ? exit_same : exit_differs;
  Report report{{"access", flags.conflicts.get()},
                {"matrices", std::move(matrices)},
                {"wavefronts", wavefronts},
                {"without_conflicts", count}};
  report.add("worst", report_of(worst->use));
  report.add_text(
      fmt::format("{} of all {} of 8 rows of 16 bytes: {}, {} without conflicts", flags.conflicts.get(),
                  count == 1 ? "1 matrix" : fmt::format("{} matrices", count), counted(wavefronts, "wavefront"), count),
      wavefronts == count ? Tone::good : Tone::bad);
  report.add_text(fmt::format("worst, from row {}, col {}: {}", worst->row, worst->col, print_bank_use(worst->use)));
  show(context, report, flags.map.json);
}

void run_smem(Context& context, const SmemFlags& flags) {
  if (flags.atom) return show_atom(context, flags);
  if (flags.tma && !flags.descriptor.empty()) return compare_with_tma(context, flags);
  if (flags.tma) {
    const Map written = map_of(require_tile(flags));
    return flags.conflicts.empty() ? flags.map.show(context, written, {.has_object_of_element = true})
                                   : show_conflicts(context, flags, written);
  }
  const SmemMatrix matrix = require_matrix(flags);
  const Map map =
      naming_flag("code bits", "--code-bits", [&] { return map_of(matrix, flags.code_bits.get().value_or(0)); });
  if (!flags.conflicts.empty()) return show_conflicts(context, flags, map);
  const std::vector<Violation> doubtful = smem_warnings(matrix);
  flags.map.show(context, map,
                 {.header = {{"target", print(matrix.descriptor.target)},
                             {"cute", print_cute(matrix)},
                             {"hardware_cute", print_hardware_cute(matrix)},
                             {"wide_row_evidence", wide_row_evidence(matrix)},
                             {"start_address", matrix.descriptor.start_address_bytes},
                             {"warnings", doubtful}},
                  .has_object_of_element = true,
                  .where = fmt::format(" of {} x {} elements (--rows, --cols), which end at byte {},", matrix.rows,
                                       matrix.cols, end_byte(SmemMap(matrix)) - 1)});
  if (flags.map.prints_text() || flags.map.svg.asked()) print_warnings(context, doubtful);
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
      "  bitmma layout smem --tma 128 --rows 64 --cols 64 --conflicts ldmatrix");
  smem->callback([flags, &context] { run_smem(context, *flags); });
}

}  // namespace bitmma::cli
