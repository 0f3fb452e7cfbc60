// SPDX-License-Identifier: MIT
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
  flags.map.show(
      context,
      shown_layout(LdStRequest{
          .shape = flags.shape, .num = flags.num, .pack_16b = flags.pack_16b, .split_columns = flags.split_columns}));
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
  ldst->callback([flags, &context] { naming_flags(context, [&] { run_ldst(context, *flags); }); });
}

}  // namespace bitmma::cli
