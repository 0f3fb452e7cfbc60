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
  std::string instruction, fragment, operand = "a";
  LdMatrix move;
  std::optional<int> matrix, thread, reg;
  int bit = 0;
  Query query;
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

constexpr std::string_view ldmatrix_heading = "matrix,row,col,thread,register,bit\n";

Json ldmatrix_json(const LdMatrix& move, const LdMatrixElement& element) {
  Json json{{"matrix", element.matrix}, {"row", element.row}, {"col", element.col}};
  json.update(to_json(Place(place_of(move, element))));
  return json;
}

std::string ldmatrix_line(const LdMatrix& move, const LdMatrixElement& element) {
  const auto [thread, reg, bit] = place_of(move, element);
  return fmt::format("{},{},{},{},{},{}\n", element.matrix, element.row, element.col, thread, reg, bit);
}

/// The element asked for, by itself or by its register.
std::optional<LdMatrixElement> asked_element(const LdMatrixFlags& flags, const LdMatrix& move) {
  if (flags.thread.has_value() != flags.reg.has_value()) {
    throw Error({.field = flags.thread ? "--register" : "--thread",
                 .seen = "(missing)",
                 .expected = "both --thread and --register"});
  }
  if (flags.thread) return element_at(move, *flags.thread, *flags.reg, flags.bit);
  if (flags.query.one_element(8, 8))
    return LdMatrixElement{.matrix = flags.matrix.value_or(0), .row = *flags.query.row, .col = *flags.query.col};
  if (flags.matrix)
    throw Error({.field = "--row, --col", .seen = "(missing)", .expected = "both --row and --col with --matrix"});
  return std::nullopt;
}

std::vector<LdMatrixElement> all_elements(const LdMatrix& move) {
  std::vector<LdMatrixElement> elements;
  for (int i = 0; i < 64 * move.count; ++i) elements.push_back({.matrix = i / 64, .row = i / 8 % 8, .col = i % 8});
  return elements;
}

void print_ldmatrix_json(std::ostream& out, const LdMatrix& move) {
  Json addresses = Json::array(), elements = Json::array();
  for (const LdMatrixElement& e : all_elements(move)) {
    elements.push_back(ldmatrix_json(move, e));
    if (e.col == 0)
      addresses.push_back({{"matrix", e.matrix}, {"row", e.row}, {"thread", address_thread(move, e.matrix, e.row)}});
  }
  out << json_text(Json{{"instruction", print(move)},
                        {"targets", targets_of(move)},
                        {"addresses", addresses},
                        {"elements", elements}})
      << '\n';
}

void draw_ldmatrix(std::ostream& out, const LdMatrix& move) {
  out << fmt::format(
      "{}, {}: {} of 8 rows of 16 bytes, {} a thread\n"
      "T thread, r register, lo bits 15:0, hi bits 31:16; address: the thread that supplies the row's address\n",
      print(move), targets_of(move), move.count == 1 ? "1 matrix" : fmt::format("{} matrices", move.count),
      counted(move.count, "register"));
  for (int matrix = 0; matrix < move.count; ++matrix) {
    std::vector<std::vector<std::string>> table{{"row", "address"}};
    for (int col = 0; col < 8; ++col) table[0].push_back(fmt::format("col {}", col));
    for (int row = 0; row < 8; ++row) {
      table.push_back({std::to_string(row), fmt::format("T{}", address_thread(move, matrix, row))});
      for (int col = 0; col < 8; ++col) {
        const auto [thread, reg, bit] = place_of(move, {.matrix = matrix, .row = row, .col = col});
        table.back().push_back(fmt::format("T{} r{}.{}", thread, reg, bit == 0 ? "lo" : "hi"));
      }
    }
    out << fmt::format("\nmatrix {}, row addresses from threads {}-{}\n", matrix, address_thread(move, matrix, 0),
                       address_thread(move, matrix, 7))
        << print_table(table);
  }
  if (move.count == 4) return;
  out << fmt::format("\nthe addresses of threads {}-31 are not used{}\n", 8 * move.count,
                     move.store ? "" : "; sm_75 wants valid ones there too");
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
      const LdMatrix move{.count = count, .transposed = transposed, .store = flags.move.store || operand == "d"};
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
  if (flags.query.json) context.terminal.out << json_text(json) << '\n';
  else
    context.terminal.out << fmt::format("{} of {}: {} x {}, {} x {} elements of {} bits, {} a thread\n",
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
  const LdMatrix move = flags.instruction.empty() ? flags.move : parse_ldmatrix(flags.instruction);
  require_legal(move);
  std::ostream& out = context.terminal.out;
  if (const std::optional<LdMatrixElement> element = asked_element(flags, move)) {
    out << (flags.query.json ? json_text(ldmatrix_json(move, *element)) + "\n"
                             : std::string(ldmatrix_heading) + ldmatrix_line(move, *element));
  } else if (flags.query.json) {
    print_ldmatrix_json(out, move);
  } else if (flags.query.csv) {
    std::string text(ldmatrix_heading);
    for (const LdMatrixElement& e : all_elements(move)) text += ldmatrix_line(move, e);
    out << text;
  } else {
    draw_ldmatrix(out, move);
  }
}

}  // namespace

void add_ldmatrix_layout(CLI::App& layout, Context& context) {
  const auto flags = std::make_shared<LdMatrixFlags>();
  CLI::App* ldmatrix = layout.add_subcommand("ldmatrix", "registers of ldmatrix and stmatrix, and what they fill");
  CLI::Option* instruction = ldmatrix->add_option("--instruction", flags->instruction, "PTX mnemonic, or ...");
  CLI::Option* num = ldmatrix->add_option("--num", flags->move.count, "... of .xNUM: 1, 2 or 4")
                         ->capture_default_str()
                         ->excludes(instruction);
  CLI::Option* trans = ldmatrix->add_flag("--trans", flags->move.transposed, "... and .trans")->excludes(instruction);
  ldmatrix->add_flag("--store", flags->move.store, "... and stmatrix")->excludes(instruction);
  CLI::Option* matrix = ldmatrix->add_option("--matrix", flags->matrix, "matrix of one element; default 0");
  flags->query.add(*ldmatrix);
  CLI::Option* thread = ldmatrix->add_option("--thread", flags->thread, "the reverse: thread of the warp ...");
  CLI::Option* reg = ldmatrix->add_option("--register", flags->reg, "... register ...");
  CLI::Option* bit =
      ldmatrix->add_option("--bit", flags->bit, "... and bit: which element is there?")->capture_default_str();
  CLI::Option* fragment =
      ldmatrix->add_option("--fragment", flags->fragment, "mnemonic of an mma.sync: which ldmatrix fill its operand?");
  ldmatrix
      ->add_option("--operand", flags->operand,
                   "--fragment: a, b, c or d; the columns of a sparse A are its stored ones. d, or --store: stmatrix")
      ->check(CLI::IsMember({"a", "b", "c", "d"}))
      ->capture_default_str()
      ->needs(fragment);
  for (CLI::Option* other : {matrix, ldmatrix->get_option("--row"), ldmatrix->get_option("--col")}) {
    thread->excludes(other);
    fragment->excludes(other);
  }
  for (CLI::Option* other : {instruction, num, trans, thread, reg, bit, ldmatrix->get_option("--csv")})
    fragment->excludes(other);
  ldmatrix->footer(
      "Examples:\n"
      "  bitmma layout ldmatrix --instruction ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16\n"
      "  bitmma layout ldmatrix --num 2 --matrix 1 --row 3 --col 5\n"
      "  bitmma layout ldmatrix --num 4 --trans --thread 9 --register 2 --bit 16\n"
      "  bitmma layout ldmatrix --fragment mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 --operand b");
  ldmatrix->callback([flags, &context] { run_ldmatrix(context, *flags); });
}

}  // namespace bitmma::cli
