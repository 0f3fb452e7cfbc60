#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/memory/ldmatrix.hpp"
#include "flags.hpp"
#include "json_list.hpp"
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

/// What stands behind the name, in PTX's order. ptxas takes any order, and CUTLASS writes .x4.trans.m8n8.
struct LdMatrixQualifier {
  std::string_view legal;
  std::array<std::string_view, 3> words;
  bool optional = false;
};
constexpr auto ldmatrix_qualifiers = std::to_array<LdMatrixQualifier>({
    {.legal = ".sync", .words = {"sync"}},
    {.legal = ".aligned", .words = {"aligned"}},
    {.legal = ".m8n8", .words = {"m8n8"}},
    {.legal = ".x1, .x2 or .x4", .words = {"x1", "x2", "x4"}},
    {.legal = ".trans", .words = {"trans"}, .optional = true},
    {.legal = ".shared", .words = {"shared", "shared::cta"}, .optional = true},  // unwritten: a generic address
    {.legal = ".b16", .words = {"b16"}},
});

LdMatrix parse_ldmatrix(std::string_view text) {
  const size_t name_end = std::min(text.find('.'), text.size());
  const std::string name(text.substr(0, name_end));
  std::vector<Violation> violations;
  if (name != "ldmatrix" && name != "stmatrix")
    violations.push_back({.field = "--instruction", .seen = name, .legal = {"ldmatrix", "stmatrix"}});
  std::array<std::string_view, ldmatrix_qualifiers.size()> written;
  for (std::string_view left = text.substr(name_end); !left.empty();) {
    const std::string_view word = left.substr(1, left.find('.', 1) - 1);
    left.remove_prefix(word.size() + 1);
    const auto row = std::ranges::find_if(ldmatrix_qualifiers, [&](const LdMatrixQualifier& one) {
      return !word.empty() && std::ranges::find(one.words, word) != one.words.end();
    });
    if (row == ldmatrix_qualifiers.end()) {
      violations.push_back({.field = "qualifier",
                            .seen = fmt::format(".{}", word),
                            .expected = ".sync.aligned.m8n8, .x1, .x2 or .x4, .trans, .shared and .b16",
                            .fix = "the shapes of 8-bit elements (sm_100a) are not here",
                            .source = "PTX ISA 9.7.14.5.15"});
      continue;
    }
    std::string_view& place = written[static_cast<size_t>(row - ldmatrix_qualifiers.begin())];
    if (!place.empty()) {
      violations.push_back({.field = "qualifier",
                            .seen = fmt::format(".{} and .{}", place, word),
                            .expected = fmt::format("{}, once", row->legal)});
    }
    place = word;
  }
  for (size_t i = 0; i < written.size(); ++i) {
    const auto& [legal, words, optional] = ldmatrix_qualifiers[i];
    if (written[i].empty() && !optional)
      violations.push_back({.field = "qualifier", .seen = "(missing)", .expected = std::string(legal)});
  }
  if (!violations.empty()) throw Error(std::move(violations));
  return {.count = written[3][1] - '0', .transposed = !written[4].empty(), .store = name == "stmatrix"};
}

std::string targets_of(const LdMatrix& move) {
  return print(TargetSet::from(move.store ? Target::sm_90 : Target::sm_75));
}

/// The first thread whose register 0 begins elsewhere.
std::string why_no_ldmatrix(const Fragment& fragment) {
  if (fragment.is_wide()) return "the fragment's registers have 64 bits, those of ldmatrix 32";
  for (int thread = 0; thread < fragment.threads; ++thread) {
    const MatrixPlace held = element_at(fragment, thread, 0, 0);
    const LdMatrixElement moved = element_at(LdMatrix{}, thread, 0, 0);
    const int byte = held.col * fragment.element_bits / 8;
    if (held.row == moved.row && byte == 2 * moved.col) continue;
    return fmt::format(
        "register 0 of thread {} begins with row {}, byte {} of the fragment, and with row {}, byte {} "
        "of an ldmatrix",
        thread, held.row, byte, moved.row, 2 * moved.col);
  }
  return "the fragment's elements are in other registers";
}

/// Which ldmatrix fill a fragment of mma.sync, and from where.
void answer_fragment(Context& context, const LdMatrixFlags& flags) {
  const Instruction instruction = parse_instruction(flags.fragment);
  const MmaSync* const warp_mma = std::get_if<MmaSync>(&instruction);
  if (!warp_mma) {
    throw Error({.field = "--fragment",
                 .seen = print(instruction),
                 .expected = "mma.sync or mma.sp, whose operands are in registers of one warp"});
  }
  require_legal(instruction, TargetFlag{}.of(instruction));
  const std::string& operand = flags.operand;
  const Fragment fragment = fragment_of(*warp_mma, operand);
  const std::string_view rows_are = operand == "b" ? "n" : "m", cols_are = operand == "a" || operand == "b" ? "k" : "n";
  const std::vector<int> counts = ldmatrix_counts(fragment.registers());
  Json moves = Json::array();
  std::string text;
  for (const bool transposed : {false, true}) {
    const auto blocks = ldmatrix_blocks(fragment, transposed);
    if (!blocks) continue;
    const int rows = transposed ? fragment.cols : fragment.rows, cols = transposed ? fragment.rows : fragment.cols;
    std::string mnemonics;
    std::vector<std::vector<std::string>> table{{"register", "matrix", "rows", "bytes", "addresses"}};
    size_t reg = 0;
    for (const int count : counts) {
      const LdMatrix move{.count = count, .transposed = transposed, .store = flags.store || operand == "d"};
      Json matrices = Json::array();
      for (int matrix = 0; matrix < count; ++matrix, ++reg) {
        const auto [row, byte] = (*blocks)[reg];
        matrices.push_back({{"matrix", matrix}, {"register", reg}, {"row", row}, {"byte", byte}});
        table.push_back({std::to_string(reg), std::to_string(matrix), fmt::format("{}-{}", row, row + 7),
                         fmt::format("{}-{}", byte, byte + 15),
                         fmt::format("T{}-T{}", address_thread(move, matrix, 0), address_thread(move, matrix, 7))});
      }
      moves.push_back({{"instruction", print(move)},
                       {"targets", targets_of(move)},
                       {"stored_rows", rows},
                       {"stored_cols", cols},
                       {"matrices", matrices}});
      mnemonics += fmt::format("{}{} ({})", mnemonics.empty() ? "" : ", ", print(move), targets_of(move));
    }
    text += fmt::format("\nin memory {} x {}, {} rows of {} bytes: {}\n", transposed ? cols_are : rows_are,
                        transposed ? rows_are : cols_are, rows, cols * fragment.element_bits / 8, mnemonics) +
            print_table(table);
  }
  Json json{{"fragment", print(instruction)},
            {"operand", operand},
            {"rows", fragment.rows},
            {"cols", fragment.cols},
            {"element_bits", fragment.element_bits},
            {"registers", fragment.registers()},
            {"moves", moves}};
  if (moves.empty()) {
    json["reason"] = why_no_ldmatrix(fragment);
    text = fmt::format("\nno ldmatrix or stmatrix fits: {}\n", why_no_ldmatrix(fragment));
  } else if (fragment.element_bits != 16) {
    text += fmt::format("\nin memory {} x {}: none, .trans turns elements of 16 bits, and these have {}\n", cols_are,
                        rows_are, fragment.element_bits);
  }
  if (flags.map.json) context.out() << json_text(json) << '\n';
  else
    context.out() << fmt::format("{} of {}: {} x {}, {} x {} elements of {} bits, {} a thread\n",
                                 operand == "a"   ? "A"
                                 : operand == "b" ? "B"
                                 : operand == "c" ? "C"
                                                  : "D",
                                 print(instruction), rows_are, cols_are, fragment.rows, fragment.cols,
                                 fragment.element_bits, counted(fragment.registers(), "register"))
                  << text;
}

void run_ldmatrix(Context& context, const LdMatrixFlags& flags) {
  if (!flags.fragment.empty()) {
    answer_fragment(context, flags);
    return;
  }
  const LdMatrix move = flags.instruction.empty()
                            ? LdMatrix{.count = flags.count, .transposed = flags.transposed, .store = flags.store}
                            : parse_ldmatrix(flags.instruction);
  Map map = map_of(move);
  map.title = fmt::format("{}, {}: {} of 8 rows of 16 bytes, {} a thread", print(move), targets_of(move),
                          move.count == 1 ? "1 matrix" : fmt::format("{} matrices", move.count),
                          counted(move.count, "register"));
  Json addresses = Json::array();
  for (int i = 0; i < 8 * move.count; ++i)
    addresses.push_back({{"matrix", i / 8}, {"row", i % 8}, {"thread", address_thread(move, i / 8, i % 8)}});
  flags.map.show(context, map,
                 {.header = {{"instruction", print(move)}, {"targets", targets_of(move)}, {"addresses", addresses}},
                  .has_object_of_element = true,
                  .has_object_of_place = true});
}

}  // namespace

void add_ldmatrix_layout(Command& layout, Context& context) {
  const auto flags = std::make_shared<LdMatrixFlags>();
  Command* ldmatrix = layout.add_command("ldmatrix", "registers of ldmatrix and stmatrix, and what they fill");
  CLI::Option* instruction = ldmatrix->add_option("--instruction", flags->instruction, "PTX mnemonic, or ...");
  CLI::Option* num = ldmatrix->add_option("--num", flags->count, "... of .xNUM: 1, 2 or 4")
                         ->capture_default_str()
                         ->excludes(instruction);
  CLI::Option* trans = ldmatrix->add_flag("--trans", flags->transposed, "... and .trans")->excludes(instruction);
  ldmatrix->add_flag("--store", flags->store, "... and stmatrix")->excludes(instruction);
  flags->map.ask(*ldmatrix, {.flag = "--matrix", .is_required = false, .fallback = 0},
                 "matrix of one element; default 0");
  flags->map.add_row_and_col(*ldmatrix);
  flags->map.ask(*ldmatrix, {.flag = "--thread", .is_place = true, .axis = "thread"},
                 "the reverse: thread of the warp ...");
  flags->map.ask(*ldmatrix, {.flag = "--register", .is_place = true, .axis = "register"}, "... register ...");
  flags->map.ask(*ldmatrix, {.flag = "--bit", .is_place = true, .axis = "bit", .is_required = false, .fallback = 0},
                 "... and bit: which element is there? default 0");
  flags->map.add_outputs(*ldmatrix);
  CLI::Option* fragment =
      ldmatrix->add_option("--fragment", flags->fragment, "mnemonic of an mma.sync: which ldmatrix fill its operand?");
  ldmatrix
      ->add_option("--operand", flags->operand,
                   "--fragment: a, b, c or d; the columns of a sparse A are its stored ones. d, or --store: stmatrix")
      ->check(CLI::IsMember({"a", "b", "c", "d"}))
      ->capture_default_str()
      ->needs(fragment);
  for (CLI::Option* other : {instruction, num, trans}) fragment->excludes(other);
  for (const char* other : {"--matrix", "--row", "--col", "--thread", "--register", "--bit", "--csv", "--svg"})
    fragment->excludes(ldmatrix->get_option(other));
  ldmatrix->footer(
      "Examples:\n"
      "  bitmma layout ldmatrix --instruction ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16\n"
      "  bitmma layout ldmatrix --num 2 --matrix 1 --row 3 --col 5\n"
      "  bitmma layout ldmatrix --num 4 --trans --thread 9 --register 2 --bit 16\n"
      "  bitmma layout ldmatrix --fragment mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 --operand b");
  ldmatrix->callback([flags, &context] { run_ldmatrix(context, *flags); });
}

}  // namespace bitmma::cli
