// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "bitmma/memory/tmem.hpp"
#include "flags.hpp"
#include "layout.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct LdStFlags {
  Flag<std::string> shape = "32x32b";
  Flag<int> num = LdSt{}.num;
  Flag<std::optional<int>> split_columns;
  Flag<bool> pack_16b;
  MapFlags map;
};

void run_ldst(Context& context, const LdStFlags& flags) {
  if (flags.split_columns && (flags.shape != "16x32bx2" || *flags.split_columns == 0)) {
    throw Error({.code = ViolationCode::no_effect,
                 .field = "--split",
                 .seen = std::to_string(*flags.split_columns),
                 .expected = flags.shape == "16x32bx2" ? "1 or more" : "absent",
                 .fix = flags.shape == "16x32bx2" ? "omit it if the second piece follows the first"
                                                  : "only 16x32bx2 has two pieces"});
  }
  const LdSt move = naming_flag("shape", "--shape", [&] {
    return ldst_of(flags.shape, flags.num, flags.pack_16b, flags.split_columns.value_or(0));
  });
  Map map = map_of(move);
  map.title = fmt::format("tcgen05.ld/.st {}.x{}{}: {} per thread", flags.shape, move.num,
                          move.pack_16b ? " packed" : "", counted(move.registers(), "register"));
  flags.map.show(context, map);
}

}  // namespace

void add_ldst_layout(Command& layout, Context& context) {
  const auto flags = std::make_shared<LdStFlags>();
  Command* ldst = layout.add_command("ldst", "show the registers of tcgen05.ld and tcgen05.st");
  ldst->add_option("--shape", flags->shape, "32x32b, 16x64b, 16x128b, 16x256b or 16x32bx2")->capture_default_str();
  ldst->add_option("--num", flags->num, "the number in .xNUM, a power of two")->capture_default_str();
  ldst->add_flag("--pack", flags->pack_16b, ".pack::16b, or .unpack::16b of st");
  ldst->add_option("--split", flags->split_columns,
                   "16x32bx2: columns between the pieces; default: the second follows the first");
  flags->map.any_combination = true;
  flags->map.ask(*ldst, {.flag = "--thread"}, "show only this thread of the warp");
  flags->map.ask(*ldst, {.flag = "--register"}, "show only this register");
  flags->map.ask(*ldst, {.flag = "--lane", .is_place = true, .axis = "lane"},
                 "show the register at a place: lane of the partition");
  flags->map.ask(*ldst, {.flag = "--column", .is_place = true, .axis = "column"}, "column of the partition");
  flags->map.add_outputs(*ldst);
  ldst->footer(
      "Examples:\n  bitmma layout ldst --shape 16x64b --num 4\n  bitmma layout ldst --shape 16x256b --num 2 --lane 9 "
      "--column 3");
  ldst->callback([flags, &context] { run_ldst(context, *flags); });
}

}  // namespace bitmma::cli
