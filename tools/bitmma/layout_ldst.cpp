#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "bitmma/analysis/draw.hpp"
#include "bitmma/memory/tmem.hpp"
#include "json_list.hpp"
#include "layout.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct LdStFlags {
  std::string shape = "32x32b";
  LdSt move;
  std::optional<int> lane, column, thread, reg;
  bool csv = false, json = false;
  SvgFlag svg;

  bool asked() const { return lane || column || thread || reg; }
};

/// Half a register and its cell.
struct LdStEntry {
  int thread, reg, half;
  TmemAddress cell;
};

LdSt require_move(const LdStFlags& flags) {
  const auto row = std::ranges::find(ldst_shapes, flags.shape, &LdStInfo::name);
  if (row == ldst_shapes.end()) {
    throw Error(
        {.field = "--shape", .seen = flags.shape, .legal = {"32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"}});
  }
  LdSt move = flags.move;
  move.shape = row->id;
  require_legal(move);
  // The second piece follows the first.
  if (row->id == LdStShape::s16x32bx2 && move.split_columns == 0) move.split_columns = move.num;
  return move;
}

std::vector<LdStEntry> entries_of(const LdStFlags& flags, const LdSt& move) {
  std::vector<LdStEntry> entries;
  for (int thread = 0; thread < 32; ++thread) {
    for (int reg = 0; reg < move.registers(); ++reg) {
      for (int half = 0; half < 2; ++half) entries.push_back({thread, reg, half, move.place_of(thread, reg, half)});
    }
  }
  std::erase_if(entries, [&](const LdStEntry& e) {
    return (flags.lane && e.cell.lane != *flags.lane) || (flags.column && e.cell.column != *flags.column) ||
           (flags.thread && e.thread != *flags.thread) || (flags.reg && e.reg != *flags.reg);
  });
  return entries;
}

/// Lanes down and columns across, at most 16 of them.
void draw_entries(Context& context, const LdSt& move, const std::string& shape, std::span<const LdStEntry> entries) {
  std::map<std::pair<int, int>, std::string> cells;
  int columns = 0;
  for (const LdStEntry& e : entries) {
    if (!move.pack_16b && e.half == 1) continue;
    cells[{e.cell.lane, e.cell.column}] =
        fmt::format("T{}:r{}{}", e.thread, e.reg, move.pack_16b ? (e.half ? "h" : "l") : "");
    columns = std::max(columns, e.cell.column + 1);
  }
  const int shown = std::min(columns, 16);
  std::vector<std::vector<std::string>> table(1, {"lane"});
  for (int column = 0; column < shown; ++column) table[0].push_back(fmt::format("col {}", column));
  for (int lane = 0; lane < 32; ++lane) {
    if (!cells.contains({lane, 0})) continue;
    std::vector<std::string> line{std::to_string(lane)};
    for (int column = 0; column < shown; ++column) line.push_back(cells[{lane, column}]);
    table.push_back(std::move(line));
  }
  std::ostream& out = context.terminal.out;
  out << fmt::format(
             "tcgen05.ld/.st {}.x{}{}: {} a thread; lanes of one warp's partition, columns from the address\n\n", shape,
             move.num, move.pack_16b ? " packed (l, h: lower and upper half of the register)" : "",
             counted(move.registers(), "register"))
      << print_table(table);
  if (columns > shown) out << fmt::format("columns {}-{}: --csv shows them\n", shown, columns - 1);
}

void write_picture(const Context& context, const LdStFlags& flags, const LdSt& move,
                   std::span<const LdStEntry> entries) {
  int most_cols = 16;
  for (const LdStEntry& e : entries) {
    if (flags.asked()) most_cols = std::max(most_cols, e.cell.column + 1);
  }
  Picture picture = picture_of_ldst(move, most_cols);
  picture.title = fmt::format("tcgen05.ld/.st {}.x{}{}: {} a thread", flags.shape, move.num,
                              move.pack_16b ? " packed" : "", counted(move.registers(), "register"));
  if (move.pack_16b) picture.notes.push_back("l, h: lower and upper half of the register");
  picture.notes.push_back("register figures of the PTX ISA (9.7.16.2.3)");
  for (const LdStEntry& e : entries) {
    const auto row =
        std::ranges::find(picture.rows, std::to_string(e.cell.lane), [](const auto& one) { return one.first; });
    const auto column = std::ranges::find(picture.column_heads, fmt::format("+{}", e.cell.column));
    if (!flags.asked() || row == picture.rows.end() || column == picture.column_heads.end()) continue;
    row->second[static_cast<size_t>(column - picture.column_heads.begin())].is_marked = true;
  }
  flags.svg.write(context, picture);
}

void run_ldst(Context& context, const LdStFlags& flags) {
  const LdSt move = require_move(flags);
  const std::vector<LdStEntry> entries = entries_of(flags, move);
  std::ostream& out = context.terminal.out;
  if (entries.empty()) {
    std::string place;
    for (const auto& [name, value] : {std::pair("thread", flags.thread), std::pair("register", flags.reg),
                                      std::pair("lane", flags.lane), std::pair("column", flags.column)}) {
      if (value) place += fmt::format("{}{} {}", place.empty() ? "" : ", ", name, *value);
    }
    return answer_nothing(context, {.json = flags.json}, place);
  }
  if (flags.svg.asked()) return write_picture(context, flags, move, entries);
  if (flags.json) {
    JsonList list(out);
    for (const LdStEntry& e : entries) {
      list.add({{"thread", e.thread},
                {"register", e.reg},
                {"half", e.half},
                {"lane", e.cell.lane},
                {"column", e.cell.column}});
    }
    list.end();
  } else if (flags.csv || flags.asked()) {
    out << "thread,register,half,lane,column\n";
    for (const LdStEntry& e : entries) {
      out << fmt::format("{},{},{},{},{}\n", e.thread, e.reg, e.half, e.cell.lane, e.cell.column);
    }
  } else {
    draw_entries(context, move, flags.shape, entries);
  }
}

}  // namespace

void add_ldst_layout(CLI::App& layout, Context& context) {
  const auto flags = std::make_shared<LdStFlags>();
  CLI::App* ldst = layout.add_subcommand("ldst", "registers of tcgen05.ld and tcgen05.st");
  ldst->add_option("--shape", flags->shape, "32x32b, 16x64b, 16x128b, 16x256b or 16x32bx2")->capture_default_str();
  ldst->add_option("--num", flags->move.num, "of .xNUM, a power of two")->capture_default_str();
  ldst->add_flag("--pack", flags->move.pack_16b, ".pack::16b, or .unpack::16b of st");
  ldst->add_option("--split", flags->move.split_columns, "16x32bx2: columns between the pieces; default NUM");
  ldst->add_option("--thread", flags->thread, "only this thread of the warp");
  ldst->add_option("--register", flags->reg, "only this register");
  ldst->add_option("--lane", flags->lane, "the reverse: only this lane of the partition");
  ldst->add_option("--column", flags->column, "and this column");
  flags->svg.add(*ldst);
  ldst->add_flag("--csv", flags->csv, "the whole map as CSV");
  ldst->add_flag("--json", flags->json, "the answer as JSON");
  ldst->footer(
      "Examples:\n  bitmma layout ldst --shape 16x64b --num 4\n  bitmma layout ldst --shape 16x256b --num 2 --lane 9 "
      "--column 3");
  ldst->callback([flags, &context] { run_ldst(context, *flags); });
}

}  // namespace bitmma::cli
