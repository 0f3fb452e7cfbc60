#include <fmt/format.h>

#include "bitmma/descriptor/descriptor_meaning.hpp"
#include "bitmma/descriptor/smem_descriptor.hpp"
#include "bitmma/memory/smem.hpp"
#include "flags.hpp"
#include "layout.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct SmemFlags {
  Flag<std::string> descriptor, major = "k";
  Flag<std::optional<std::string>> atom;
  TargetFlag target;
  Flag<int> element_bits = 16, rows = 8, cols = 16;
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
    violations.push_back(
        {.field = "--descriptor", .seen = "(missing)", .expected = "a 64-bit descriptor, or --atom MODE"});
  } else if (!parse_word(flags.descriptor)) {
    violations.push_back(
        {.field = "--descriptor", .seen = flags.descriptor, .expected = "a 64-bit number such as 0x4000004000010000"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
  return {.descriptor = decode_smem_descriptor(flags.target.of_smem_descriptor(), *parse_word(flags.descriptor)),
          .major = flags.major != "k" ? Major::mn : Major::k,
          .element_bits = flags.element_bits,
          .rows = flags.rows,
          .cols = flags.cols};
}

/// The swizzle atom of a mode, without a descriptor.
void show_atom(Context& context, const SmemFlags& flags) {
  const std::optional<Swizzle> mode = swizzle_named(*flags.atom);
  std::vector<Violation> violations;
  if (!mode) violations.push_back({.field = "--atom", .seen = *flags.atom, .legal = row_names(swizzles)});
  if (!flags.descriptor.empty())
    violations.push_back({.field = "--atom", .seen = "beside --descriptor", .expected = "one of them"});
  if (const auto target = flags.target.asked(); target && mode == Swizzle::b128_atom32) {
    if (info(flags.target.of_smem_descriptor()).smem_descriptor == SmemDescriptorVersion::sm_90)
      violations.push_back({.field = "--atom",
                            .seen = *flags.atom,
                            .expected = fmt::format("none, 32, 64 or 128 on {}", print(*target)),
                            .fix = "128-byte swizzling with 32-byte atoms is Blackwell's"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
  const Major major = flags.major != "k" ? Major::mn : Major::k;
  const SwizzleInfo& swizzle = info(*mode);
  const CuteLayout atom =
      naming_flag("element bits", "--element-bits", [&] { return cute_atom(major, *mode, flags.element_bits); });
  const int units = swizzle.width_bytes / 16;
  show_cute(context, flags.map, atom,
            fmt::format("{}, {}: atom of {} x {} units of 128 bits", cute_atom_name(major, *mode), print(major),
                        major == Major::k ? 8 : units, major == Major::k ? units : swizzle.rows_per_atom));
}

void run_smem(Context& context, const SmemFlags& flags) {
  if (flags.atom) return show_atom(context, flags);
  const SmemMatrix matrix = require_matrix(flags);
  const Map map = map_of(matrix);
  flags.map.show(context, map,
                 {.header = {{"target", print(matrix.descriptor.target)},
                             {"cute", print_cute(matrix)},
                             {"hardware_cute", print_hardware_cute(matrix)},
                             {"wide_row_evidence", wide_row_evidence(matrix)},
                             {"start_address", matrix.descriptor.start_address_bytes}},
                  .has_object_of_element = true,
                  .where = fmt::format(" of {} x {} elements (--rows, --cols)", flags.rows, flags.cols)});
  if (flags.map.prints_text()) {
    const int row_bytes = matrix.cols * matrix.element_bits / 8;
    print_warnings(context, as_warnings(warnings(matrix.descriptor, matrix.major, row_bytes)));
  }
}

}  // namespace

void add_smem_layout(Command& layout, Context& context) {
  const auto flags = std::make_shared<SmemFlags>();
  Command* smem = layout.add_command("smem", "shared memory, by descriptor");
  smem->add_option("--descriptor", flags->descriptor, "64-bit matrix descriptor");
  smem->add_option("--atom", flags->atom,
                   "or the swizzle atom of a mode: none, 32, 64, 128 or 128-atom32; --element-bits up to 128");
  flags->target.add(*smem, "the GPU by its PTX name; default sm_90a", true);
  smem->add_option("--major", flags->major, "k, or mn (also m, n) for transposed operands")
      ->check(CLI::IsMember({"k", "mn", "m", "n"}))
      ->capture_default_str();
  smem->add_option("--element-bits", flags->element_bits, "bits of an element in memory")->capture_default_str();
  smem->add_option("--rows", flags->rows, "extent along M or N")->capture_default_str();
  smem->add_option("--cols", flags->cols, "extent along K")->capture_default_str();
  flags->map.ask(*smem, {.flag = "--byte", .is_place = true, .axis = "byte"},
                 "the reverse: which elements does this byte hold?");
  flags->map.lines = 32;
  smem->add_option("--max-lines", flags->map.lines, "lines of the picture")->capture_default_str();
  flags->map.add_row_and_col(*smem);
  flags->map.add_outputs(*smem);
  smem->footer(
      "Examples:\n"
      "  bitmma layout smem --descriptor 0x4000004000010000 --rows 64 --cols 16\n"
      "  bitmma layout smem --descriptor 0x4000004000010000 --rows 64 --row 9 --col 8\n"
      "  bitmma layout smem --descriptor 0x4000004000010000 --rows 64 --cols 64 --byte 1184\n"
      "  bitmma layout smem --atom 128 --major mn --element-bits 128");
  smem->callback([flags, &context] { run_smem(context, *flags); });
}

}  // namespace bitmma::cli
