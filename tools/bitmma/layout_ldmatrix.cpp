// SPDX-License-Identifier: MIT
#include "arguments.hpp"
#include "bitmma/analysis/describe_layout.hpp"
#include "bitmma/analysis/shown_layout.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/place.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/memory/ldmatrix.hpp"
#include "flags.hpp"
#include "layout.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct LdMatrixFlags {
  Flag<std::string> instruction, fragment, operand = "a";
  Flag<int> count = LdMatrix{}.count;
  Flag<bool> transposed, store;
  MapFlags map;
};

/// Prints the ldmatrix that fill a fragment of mma.sync, and their sources.
void answer_fragment(Context& context, const LdMatrixFlags& flags) {
  const Instruction instruction = parse_instruction(flags.fragment);
  const MmaSync* const warp_mma = std::get_if<MmaSync>(&instruction);
  if (!warp_mma) {
    throw Error({.field = "--fragment",
                 .seen = print(instruction),
                 .expected = "mma.sync or mma.sp, whose operands are in registers of one warp"});
  }
  require_legal(instruction, TargetFlag{}.of(instruction));
  const Fragment fragment = fragment_of(*warp_mma, flags.operand);
  const bool is_moved = ldmatrix_blocks(fragment, false) || ldmatrix_blocks(fragment, true);
  show(context, describe_moves(*warp_mma, flags.operand, is_moved && flags.store), flags.map.json);
}

void run_ldmatrix(Context& context, const LdMatrixFlags& flags) {
  if (!flags.fragment.empty()) return answer_fragment(context, flags);
  const LdMatrix move = flags.instruction.empty()
                            ? LdMatrix{.count = flags.count, .transposed = flags.transposed, .store = flags.store}
                            : parse_ldmatrix(flags.instruction);
  flags.map.show(context, shown_layout(move));
}

}  // namespace

void add_ldmatrix_layout(Command& layout, Context& context) {
  const auto flags = std::make_shared<LdMatrixFlags>();
  Command* ldmatrix =
      layout.add_command("ldmatrix", "show the registers of ldmatrix and stmatrix, and the fragments that they fill");
  CLI::Option* instruction =
      ldmatrix->add_option("--instruction", flags->instruction, "PTX mnemonic; alternatively use --num and --trans");
  CLI::Option* num = ldmatrix->add_option("--num", flags->count, "the number in .xNUM: 1, 2 or 4")
                         ->capture_default_str()
                         ->excludes(instruction);
  CLI::Option* trans = ldmatrix->add_flag("--trans", flags->transposed, "... and .trans")->excludes(instruction);
  ldmatrix->add_flag("--store", flags->store, "... and stmatrix")->excludes(instruction);
  flags->map.ask(*ldmatrix, {.flag = "--matrix", .is_required = false, .fallback = 0},
                 "matrix of one element; default 0");
  flags->map.add_row_and_col(*ldmatrix);
  flags->map.ask(*ldmatrix, {.flag = "--thread", .is_place = true, .axis = "thread"},
                 "show the element at a place: thread of the warp");
  flags->map.ask(*ldmatrix, {.flag = "--register", .is_place = true, .axis = "register"}, "... register ...");
  flags->map.ask(*ldmatrix, {.flag = "--bit", .is_place = true, .axis = "bit", .is_required = false, .fallback = 0},
                 "bit of the register; default 0");
  flags->map.add_outputs(*ldmatrix);
  CLI::Option* fragment = ldmatrix->add_option("--fragment", flags->fragment,
                                               "show which ldmatrix instructions fill an operand of this mma.sync");
  ldmatrix
      ->add_option("--operand", flags->operand,
                   "--fragment: a, b, c or d. A sparse A has only its stored columns. d, or --store, means stmatrix")
      ->capture_default_str()
      ->needs(fragment);
  one_of(ldmatrix->get_option("--operand"), {"a", "b", "c", "d"});
  for (CLI::Option* other : {instruction, num, trans}) fragment->excludes(other);
  for (const char* other : {"--matrix", "--row", "--col", "--thread", "--register", "--bit", "--csv", "--svg"})
    fragment->excludes(ldmatrix->get_option(other));
  ldmatrix->footer(
      "Examples:\n"
      "  bitmma layout ldmatrix --instruction ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16\n"
      "  bitmma layout ldmatrix --num 2 --matrix 1 --row 3 --col 5\n"
      "  bitmma layout ldmatrix --num 4 --trans --thread 9 --register 2 --bit 16\n"
      "  bitmma layout ldmatrix --fragment mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 --operand b");
  ldmatrix->callback([flags, &context] { naming_flags(context, [&] { run_ldmatrix(context, *flags); }); });
}

}  // namespace bitmma::cli
