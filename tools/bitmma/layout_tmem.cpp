#include <fmt/format.h>

#include <algorithm>

#include "bitmma/analysis/draw.hpp"
#include "bitmma/memory/tmem.hpp"
#include "json_list.hpp"
#include "layout.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct TmemFlags {
  std::string operand = "d";
  int m = 128, n = 64, cta_group = 1, cols = 16, element_bits = 16;
  bool ws = false, sparse = false;
  uint32_t address = 0;
  std::optional<int> cta, lane, column;
  Query query;
  SvgFlag svg;

  bool is_d() const { return operand == "d"; }
  int matrix_cols() const { return is_d() ? n : cols; }
};

std::vector<TmemElement> elements_of_d(const TmemFlags& flags, const TmemD& d) {
  require_fits(d);
  std::vector<TmemElement> elements;
  for (int row = 0; row < flags.m; ++row) {
    for (int col = 0; col < flags.n; ++col) elements.push_back({row, col, d.place_of(row, col)});
  }
  return elements;
}

std::vector<TmemElement> elements_of_a(const TmemFlags& flags, const TmemA& a) {
  const bool power =
      flags.element_bits == 4 || flags.element_bits == 8 || flags.element_bits == 16 || flags.element_bits == 32;
  if (!power || flags.cols < 1 || flags.cols > 128) {
    throw Error({.field = "--element-bits, --cols",
                 .seen = fmt::format("{}, {}", flags.element_bits, flags.cols),
                 .expected = "4, 8, 16 or 32 bits; 1..128 columns"});
  }
  require_fits(a, flags.cols);
  std::vector<TmemElement> elements;
  for (int row = 0; row < flags.m; ++row) {
    for (int col = 0; col < flags.cols; ++col) {
      for (int copy = 0; copy < a.copies(); ++copy) elements.push_back({row, col, a.place_of(row, col, copy)});
    }
  }
  return elements;
}

Json tmem_json(const TmemElement& e) {
  Json json{{"row", e.row}, {"col", e.col}};
  json.update(to_json(Place(e.place)));
  return json;
}

std::string tmem_line(const TmemElement& e) {
  return fmt::format("{},{},{},{},{},{}\n", e.row, e.col, e.place.cta, e.place.lane, e.place.column, e.place.bit);
}

/// Leaves the elements that are asked for; true when it is not all of them.
bool take_asked(const TmemFlags& flags, std::vector<TmemElement>& elements) {
  const bool forward = flags.query.one_element(flags.m, flags.matrix_cols());
  if (!flags.cta && !flags.lane && !flags.column) {
    if (!forward) return false;
    std::erase_if(elements,
                  [&](const TmemElement& e) { return e.row != *flags.query.row || e.col != *flags.query.col; });
    return true;
  }
  flags.query.refuse_beside("--cta, --lane or --column", "a cell holds");
  if (!flags.lane || !flags.column) {
    throw Error({.field = "--lane, --column", .seen = "(missing)", .expected = "both"});
  }
  std::erase_if(elements, [&](const TmemElement& e) {
    return e.place.lane != *flags.lane || e.place.column != *flags.column || e.place.cta != flags.cta.value_or(0);
  });
  return true;
}

void run_tmem(Context& context, const TmemFlags& flags) {
  const TmemLayoutInfo& layout = find_tmem_layout(flags.m, flags.cta_group, flags.ws, flags.sparse);
  const TmemAddress address = decode_tmem_address(flags.address);
  const TmemD d{.layout = layout, .n = flags.n, .address = address};
  std::vector<TmemElement> elements =
      flags.is_d() ? elements_of_d(flags, d)
                   : elements_of_a(flags, {.layout = layout, .element_bits = flags.element_bits, .address = address});
  const std::vector<TmemElement> all = flags.svg.asked() ? elements : std::vector<TmemElement>{};
  const bool is_answer = take_asked(flags, elements);
  if (is_answer && elements.empty()) {
    const std::string place = fmt::format("CTA {}, lane {}, column {}", flags.cta.value_or(0), flags.lane.value_or(0),
                                          flags.column.value_or(0));
    return answer_nothing(context, flags.query, place);
  }
  std::ostream& out = context.terminal.out;
  if (flags.query.json && !flags.svg.asked()) {
    JsonList list(out);
    for (const TmemElement& e : elements) list.add(tmem_json(e));
    list.end();
    return;
  }
  if (!flags.svg.asked() && (flags.query.csv || is_answer)) {
    out << "row,col,cta,lane,column,bit\n";
    for (const TmemElement& e : elements) out << tmem_line(e);
    return;
  }
  const int columns = flags.is_d() ? d.columns() : (flags.cols * flags.element_bits + 31) / 32;
  const std::string title = fmt::format(
      "{} in Tensor Memory, layout {} (M = {}, cta_group::{}{}{}), {} of cells", flags.is_d() ? "D" : "A", layout.name,
      flags.m, flags.cta_group, flags.ws ? ", .ws" : "", flags.sparse ? ", .sp" : "", counted(columns, "column"));
  const std::string cute = flags.is_d() ? "CuTe: " + print_cute(TmemD{.layout = layout, .n = flags.n}) : "";
  if (flags.svg.asked()) {
    Picture picture = picture_of_tmem(all, flags.cta_group);
    if (is_answer) {
      for (const TmemElement& e : elements) {
        picture.rows[static_cast<size_t>(e.place.lane / 16)].second[static_cast<size_t>(e.place.cta)].is_marked = true;
        picture.notes.push_back(
            fmt::format("framed: row {}, col {} in lane {}, column {}", e.row, e.col, e.place.lane, e.place.column));
      }
    }
    picture.title = title;
    if (!cute.empty()) picture.notes.push_back(cute);
    picture.notes.push_back("lanes down, 16 at a time, as the data path layouts of the PTX ISA (9.7.16.10.5)");
    flags.svg.write(context, picture);
    return;
  }
  out << title << '\n';
  if (!cute.empty()) out << cute << '\n';
  out << '\n' << draw_tmem(elements, flags.cta_group);
  if (!flags.is_d() && layout.n_parts > 1) out << "copy p of A feeds the p-th part of N; all must be written\n";
}

}  // namespace

void add_tmem_layout(CLI::App& layout, Context& context) {
  const auto flags = std::make_shared<TmemFlags>();
  CLI::App* tmem = layout.add_subcommand("tmem", "Tensor Memory of tcgen05.mma: D, and A where it lies there");
  tmem->add_option("--operand", flags->operand, "d or a")->check(CLI::IsMember({"d", "a"}))->capture_default_str();
  tmem->add_option("--m", flags->m, "rows, over the CTA group")->capture_default_str();
  tmem->add_option("--n", flags->n, "columns of D")->capture_default_str();
  tmem->add_option("--cta-group", flags->cta_group, "1 or 2")->check(CLI::Range(1, 2))->capture_default_str();
  tmem->add_flag("--ws", flags->ws, "weight-stationary form");
  tmem->add_flag("--sparse", flags->sparse, ".sp form");
  tmem->add_option("--cols", flags->cols, "A: stored k")->capture_default_str();
  tmem->add_option("--element-bits", flags->element_bits, "A: bits of a container: 4, 8, 16 or 32")
      ->capture_default_str();
  tmem->add_option("--address", flags->address, "Tensor Memory address, lane << 16 | column");
  tmem->add_option("--cta", flags->cta, "the reverse: CTA of the pair (0) ...");
  tmem->add_option("--lane", flags->lane, "... lane ...");
  tmem->add_option("--column", flags->column, "... and column: which elements are there?");
  flags->query.add(*tmem);
  flags->svg.add(*tmem);
  tmem->footer(
      "Examples:\n  bitmma layout tmem --m 64 --n 32  # where is row 17 at M = 64?\n  bitmma "
      "layout tmem --m 128 --n 64 --cta-group 2 --row 70 --col 40\n  bitmma layout tmem --operand a --m 64 --ws --csv");
  tmem->callback([flags, &context] { run_tmem(context, *flags); });
}

}  // namespace bitmma::cli
