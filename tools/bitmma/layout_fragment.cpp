#include <fmt/format.h>

#include <algorithm>

#include "bitmma/analysis/draw.hpp"
#include "bitmma/instruction/cutlass_atom.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/memory/fragment.hpp"
#include "bitmma/memory/metadata.hpp"
#include "flags.hpp"
#include "json_list.hpp"
#include "layout.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct FragmentFlags {
  std::string instruction, operand = "d", element;
  TargetFlag target;
  std::optional<int> thread, reg, bit;
  int max_cols = 16, selector = 0, byte_id = 0, thread_id = 0;
  Query query;
  SvgFlag svg;
};

/// Block scales of mma.sync: a row for every row of A or column of B, a column for every scale of it.
struct ScalesInRegisters {
  bool is_a = true;
  int rows = 0, count = 0;
  int byte_id = 0, thread_id = 0;

  RegisterPlace place_of(int row, int scale) const {
    return is_a ? mma_scale_a_place(row, scale, byte_id, thread_id) : mma_scale_b_place(row, scale, byte_id, thread_id);
  }
};

/// The places of one operand's elements: matrix operands by fragment, metadata and scales by their own rules.
struct FragmentMap {
  Fragment fragment = {};
  std::optional<MetadataLayout> metadata = {};
  int selector = 0;
  std::optional<ScalesInRegisters> scales = {};
  bool is_b = false;  // a fragment of B, as n x k: a row is an n

  bool is_metadata() const { return metadata.has_value(); }
  bool is_fragment() const { return !metadata && !scales; }
  int rows() const { return scales ? scales->rows : fragment.rows; }
  int cols() const { return scales ? scales->count : fragment.cols; }
  int threads() const { return scales ? 32 : fragment.threads; }
  int width_bits() const { return scales ? 8 : metadata ? metadata->field_bits : fragment.element_bits; }
  int registers() const { return is_fragment() ? fragment.registers() : 1; }
  RegisterPlace place(int row, int col) const {
    if (scales) return scales->place_of(row, col);
    return metadata ? metadata_place_of(*metadata, row, col, selector) : place_of(fragment, row, col);
  }
  /// The names of both coordinates: scales have a row of A or a column of B, and a number; B is n x k here.
  std::string_view outer() const { return is_b ? "n" : scales && !scales->is_a ? "col" : "row"; }
  std::string_view inner() const { return is_b ? "k" : scales ? "scale" : "col"; }
  std::string heading() const { return fmt::format("{},{},thread,register,bit\n", outer(), inner()); }
  Json json(int row, int col) const {
    Json json;
    json[std::string(outer())] = row, json[std::string(inner())] = col;
    if (is_b) json["row"] = row, json["col"] = col;
    if (is_fragment()) {
      const RegisterPlace at = place(row, col);
      json["element"] = at.reg * fragment.elements_per_register() + (fragment.is_wide() ? 0 : at.bit / width_bits());
    }
    json.update(to_json(Place(place(row, col))));
    return json;
  }
  std::string line(int row, int col) const {
    const RegisterPlace at = place(row, col);
    return fmt::format("{},{},{},{},{}\n", row, col, at.thread, at.reg, at.bit);
  }
};

/// The map of an operand, for each family that has operands in registers. Throws Error for the others, and for what is
/// illegal.
class MapOfOperand {
 public:
  MapOfOperand(const FragmentFlags& flags, const std::string& operand)
      : flags_(flags), target_(flags.target), operand_(operand), selector_(flags.selector) {}

  FragmentMap operator()(const Wgmma& one) const {
    require_legal(with_sparsity_selector(one, selector_), target_.of(one));
    if (operand_ == "b") {
      throw Error({.field = "--operand",
                   .seen = "b",
                   .expected = "a, c or d: B of wgmma is in shared memory",
                   .fix = "layout smem"});
    }
    require_no_scales();
    if (operand_ == "d") return {.fragment = wgmma_d_fragment(one.d, one.n)};
    const Fragment a = wgmma_a_fragment(one.a, mma_of(one).stored_k());
    if (operand_ == "a") return {.fragment = a};
    require_sparse(one.sparse, "a, c or d");
    return {.fragment = a, .metadata = metadata_layout(info(one.a).bits), .selector = selector_};
  }
  FragmentMap operator()(const MmaSync& one) const {
    require_legal(with_sparsity_selector(one, selector_), target_.of(one));
    const Mma mma = mma_of(one);
    if (operand_ == "scale_a" || operand_ == "scale_b") return scales_of(one);
    if (operand_ != "metadata") return {.fragment = fragment_of(one, operand_), .is_b = operand_ == "b"};
    require_sparse(one.sparse, "a, b, c or d");
    return {.fragment = fragment_of(one, "a"),
            .metadata = metadata_layout(mma.a_container_bits, mma.stored_k()),
            .selector = selector_};
  }
  template <typename Other>
  FragmentMap operator()(const Other& one) const {
    throw Error({.field = "--instruction",
                 .seen = print(Instruction(one)),
                 .legal = {"wgmma.mma_async", "mma.sync"},
                 .fix = "tcgen05.mma keeps D in Tensor Memory: layout tmem, layout ldst"});
  }

 private:
  static void require_sparse(bool sparse, std::string_view others) {
    if (sparse) return;
    throw Error({.field = "--operand",
                 .seen = "metadata",
                 .expected = fmt::format("{}: the instruction is not sparse", others)});
  }

  void require_no_scales() const {
    if (operand_ != "scale_a" && operand_ != "scale_b") return;
    throw Error({.field = "--operand",
                 .seen = operand_,
                 .expected = "a, d or metadata: only mma.sync with .block_scale has scales in registers",
                 .fix = "those of tcgen05.mma: layout scales"});
  }
  FragmentMap scales_of(MmaSync one) const {
    if (!one.has_scales()) require_no_scales();
    const bool is_a = operand_ == "scale_a";
    (is_a ? one.byte_id_a : one.byte_id_b) = flags_.byte_id;
    (is_a ? one.thread_id_a : one.thread_id_b) = flags_.thread_id;
    require_legal(Instruction(one), target_.of(one));
    const Mma mma = mma_of(one);
    return {.scales = ScalesInRegisters{.is_a = is_a,
                                        .rows = is_a ? mma.m : mma.n,
                                        .count = mma.scale_count,
                                        .byte_id = flags_.byte_id,
                                        .thread_id = flags_.thread_id}};
  }

  const FragmentFlags& flags_;
  const TargetFlag& target_;
  const std::string& operand_;
  int selector_;
};

/// --element: PTX's names of a thread's elements, "low to high": d5 is the sixth of D. The flags with its register and
/// bit.
FragmentFlags with_element(FragmentFlags flags, const FragmentMap& map) {
  if (flags.element.empty()) return flags;
  const int per_register = map.is_fragment() ? map.fragment.elements_per_register() : 0;
  const std::optional<uint64_t> index = parse_word(flags.element.substr(1));
  const bool is_named = flags.element[0] == flags.operand[0] && map.is_fragment() && index;
  if (!is_named || !flags.thread ||
      *index >= static_cast<uint64_t>(per_register) * static_cast<uint64_t>(map.registers())) {
    throw Error({.field = "--element",
                 .seen = flags.element + (flags.thread ? "" : " without --thread"),
                 .expected = fmt::format("{0}0..{0}{1} of a --thread", flags.operand,
                                         std::max(0, per_register * map.registers() - 1))});
  }
  flags.reg = static_cast<int>(*index) / per_register;
  flags.bit = static_cast<int>(*index) % per_register * map.width_bits();
  return flags;
}

/// Of B --row is n and --col is k, while files and other programs have B as k x n.
void require_n_and_k(const Query& query, const FragmentMap& map) {
  const bool fits = query.row && query.col && *query.row >= 0 && *query.row < map.rows() && *query.col >= 0 &&
                    *query.col < map.cols();
  if (fits || (!query.row && !query.col)) return;
  const auto shown = [](const std::optional<int>& one) { return one ? std::to_string(*one) : "(missing)"; };
  throw Error({.field = "--row, --col",
               .seen = fmt::format("{}, {}", shown(query.row), shown(query.col)),
               .expected = fmt::format("0..{}, 0..{} of B as n x k", map.rows() - 1, map.cols() - 1),
               .fix = "--row is n, --col is k"});
}

/// The elements that --row and --col, or --thread, --register and --bit ask for; nothing where none of them is given.
std::optional<std::vector<MatrixPlace>> asked_elements(const FragmentFlags& flags, const FragmentMap& map) {
  if (!flags.thread && !flags.reg && !flags.bit) {
    if (map.is_b) require_n_and_k(flags.query, map);
    if (!flags.query.one_element(map.rows(), map.cols())) return std::nullopt;
    return {{{*flags.query.row, *flags.query.col}}};
  }
  flags.query.refuse_beside("--thread, --register, --bit or --element", "are there");
  const int last_thread = map.threads() - 1, registers = map.registers();
  if (!flags.thread) {
    throw Error({.field = "--thread",
                 .seen = "(missing)",
                 .expected = fmt::format("0..{}: --register and --bit are of a thread", last_thread)});
  }
  const int thread = flags.thread.value_or(-1), reg = flags.reg.value_or(0), bit = flags.bit.value_or(0);
  if (thread < 0 || thread > last_thread || reg < 0 || reg >= registers || bit < 0 || bit > 31) {
    throw Error({.field = "--thread, --register, --bit",
                 .seen = fmt::format("{}, {}, {}", thread, reg, bit),
                 .expected = fmt::format("0..{}, 0..{}, 0..31", last_thread, registers - 1)});
  }
  std::vector<MatrixPlace> elements;
  for (int row = 0; row < map.rows(); ++row) {
    for (int col = 0; col < map.cols(); ++col) {
      const RegisterPlace place = map.place(row, col);
      const bool holds = place.thread == thread && (!flags.reg || place.reg == reg) &&
                         (!flags.bit || (bit >= place.bit && bit < place.bit + map.width_bits()));
      if (holds) elements.push_back({row, col});
    }
  }
  return elements;
}

void print_answer(Context& context, const FragmentFlags& flags, const FragmentMap& map,
                  const std::vector<MatrixPlace>& elements) {
  std::ostream& out = context.terminal.out;
  if (elements.empty()) {
    const std::string place =
        fmt::format("thread {}{}{}", *flags.thread, flags.reg ? fmt::format(", register {}", *flags.reg) : "",
                    flags.bit ? fmt::format(", bit {}", *flags.bit) : "");
    return answer_nothing(context, flags.query, place);
  }
  const bool is_one = !flags.thread;
  if (flags.query.json && is_one) {
    out << json_text(map.json(elements[0].row, elements[0].col)) << '\n';
  } else if (flags.query.json) {
    JsonList list(out);
    for (const MatrixPlace& e : elements) list.add(map.json(e.row, e.col));
    list.end();
  } else {
    out << map.heading();
    for (const MatrixPlace& e : elements) out << map.line(e.row, e.col);
  }
}

/// Rows down and columns across, for what is no fragment: thread and bit of every element. The first 16 columns.
std::vector<std::vector<std::string>> table_of(const FragmentMap& map) {
  constexpr int most_cols = 16;
  std::vector<std::vector<std::string>> table(1, {std::string(map.outer())});
  for (int col = 0; col < std::min(map.cols(), most_cols); ++col)
    table[0].push_back(fmt::format("{} {}", map.inner(), col));
  for (int row = 0; row < std::min(map.rows(), most_cols); ++row) {
    std::vector<std::string> line{std::to_string(row)};
    for (int col = 0; col < std::min(map.cols(), most_cols); ++col) {
      const RegisterPlace place = map.place(row, col);
      line.push_back(map.scales ? fmt::format("T{} byte {}", place.thread, place.bit / 8)
                                : fmt::format("T{} b{}", place.thread, place.bit));
    }
    table.push_back(std::move(line));
  }
  return table;
}

Picture picture_of_places(const FragmentMap& map) {
  const auto table = table_of(map);
  Picture picture{.corner = table[0][0], .has_equal_columns = true};
  picture.column_heads.assign(table[0].begin() + 1, table[0].end());
  for (size_t row = 1; row < table.size(); ++row) {
    std::vector<PictureCell> cells;
    for (size_t col = 1; col < table[row].size(); ++col) {
      const RegisterPlace place = map.place(static_cast<int>(row) - 1, static_cast<int>(col) - 1);
      cells.push_back({.text = table[row][col], .color = place.thread % 32});
    }
    picture.rows.emplace_back(table[row][0], std::move(cells));
  }
  if (map.rows() > 16 || map.cols() > 16)
    picture.notes.push_back(fmt::format("the first {} rows and {} columns of {} x {}", std::min(16, map.rows()),
                                        std::min(16, map.cols()), map.rows(), map.cols()));
  return picture;
}

/// The picture of an operand, with the elements that are asked for in frames: the rows of their warp, and as many
/// columns as show them.
Picture picture_of_operand(const FragmentFlags& flags, const FragmentMap& map,
                           const std::optional<std::vector<MatrixPlace>>& asked) {
  if (!map.is_fragment()) {
    Picture picture = picture_of_places(map);
    for (const MatrixPlace& e : asked.value_or(std::vector<MatrixPlace>{})) {
      const auto row = static_cast<size_t>(e.row), col = static_cast<size_t>(e.col);
      if (row < picture.rows.size() && col < picture.rows[row].second.size())
        picture.rows[row].second[col].is_marked = true;
    }
    return picture;
  }
  int first_row = 0, max_cols = flags.max_cols;
  if (asked && !asked->empty()) {
    if (map.fragment.threads > 32) first_row = asked->front().row / 16 * 16;
    const int across = 8 * map.fragment.elements_per_register();  // of a line of the picture: whole ones
    if (flags.query.col) max_cols = std::max(max_cols, (*flags.query.col / across + 1) * across);
  }
  Picture picture = picture_of_fragment(map.fragment, max_cols, first_row);
  const int per_register = map.fragment.elements_per_register();
  for (const MatrixPlace& e : asked.value_or(std::vector<MatrixPlace>{})) {
    const int row = e.row - first_row;
    const auto col = static_cast<size_t>(e.col / per_register);
    if (row < 0 || static_cast<size_t>(row) >= picture.rows.size()) continue;
    auto& cells = picture.rows[static_cast<size_t>(row)].second;
    if (col < cells.size()) cells[col].is_marked = true;
    const RegisterPlace place = map.place(e.row, e.col);
    picture.notes.push_back(fmt::format("framed: {} {}, {} {} in thread {}, register {}{}", map.outer(), e.row,
                                        map.inner(), e.col, place.thread, place.reg,
                                        per_register > 1 ? fmt::format(", bit {}", place.bit) : ""));
  }
  return picture;
}

void print_map(Context& context, const FragmentFlags& flags, const FragmentMap& map) {
  std::ostream& out = context.terminal.out;
  const auto for_each = [&](const auto& print_element) {
    for (int row = 0; row < map.rows(); ++row) {
      for (int col = 0; col < map.cols(); ++col) print_element(row, col);
    }
  };
  if (flags.query.json) {
    JsonList list(out);
    for_each([&](int row, int col) { list.add(map.json(row, col)); });
    list.end();
  } else {
    out << map.heading();
    for_each([&](int row, int col) { out << map.line(row, col); });
  }
}

void run_fragment(Context& context, const FragmentFlags& given) {
  FragmentFlags flags = given;
  const Instruction instruction = looks_like_cutlass_atom(flags.instruction) ? parse_cutlass_atom(flags.instruction)
                                                                             : parse_instruction(flags.instruction);
  const bool has_own_c = is_mma(instruction) && mma_of(instruction).c != mma_of(instruction).d;
  const std::string operand = flags.operand == "c" && !has_own_c ? "d" : flags.operand;
  const FragmentMap map = std::visit(MapOfOperand(flags, operand), instruction);
  flags = with_element(flags, map);
  std::ostream& out = context.terminal.out;
  const auto asked = asked_elements(flags, map);
  if (asked && (!flags.svg.asked() || asked->empty())) return print_answer(context, flags, map, *asked);
  if (!map.is_fragment() && flags.svg.asked()) {
    Picture picture = picture_of_operand(flags, map, asked);
    picture.title = map.scales ? fmt::format("scales of {}, {} of each",
                                             map.scales->is_a ? "A, by row" : "B, by column", map.cols())
                               : fmt::format("metadata of {} x {} stored elements", map.rows(), map.cols());
    picture.notes.insert(picture.notes.begin(),
                         {print(instruction), map.scales ? "T thread, byte of its register"
                                                         : "T thread, b lowest bit of the field in its register"});
    flags.svg.write(context, picture);
    return;
  }
  if (map.scales && !flags.query.csv && !flags.query.json) {
    out << fmt::format("{} of {}: {} x {} of {}, one register a thread\n\n", operand, print(instruction), map.rows(),
                       counted(map.cols(), "scale"), info(mma_of(instruction).scale_type).name)
        << print_table(table_of(map));
    return;
  }
  if (flags.query.csv || flags.query.json || map.is_metadata()) {
    print_map(context, flags, map);
    return;
  }
  const Mma mma = mma_of(instruction);
  const Format format = operand == "a" ? mma.a : operand == "b" ? mma.b : operand == "c" ? mma.c : mma.d;
  const std::string cute =
      fmt::format("CuTe (thread, value) -> row + {} * col: {}", map.rows(), print_cute(map.fragment));
  if (flags.svg.asked()) {
    Picture picture = picture_of_operand(flags, map, asked);
    picture.title = fmt::format("{}, {} x {} {}",
                                operand == "a"   ? "A"
                                : operand == "b" ? "B as n x k"
                                : operand == "c" ? "C"
                                : has_own_c      ? "D"
                                                 : "C and D",
                                map.rows(), map.cols(), info(format).name);
    picture.notes.insert(picture.notes.begin(), {print(instruction), cute,
                                                 "T thread, r register; rows down and columns across, as the register "
                                                 "figures of the PTX ISA (9.7.15.5.1.1, 9.7.14.5.14)"});
    flags.svg.write(context, picture);
    return;
  }
  out << fmt::format("{} of {}: {} x {} {}, {} a thread\n{}\n\n",
                     operand == "a"   ? "A"
                     : operand == "b" ? "B, as n x k,"
                     : operand == "c" ? "C"
                     : has_own_c      ? "D"
                                      : "C and D",
                     print(instruction), map.rows(), map.cols(), info(format).name,
                     counted(map.fragment.registers(), "register"), cute)
      << draw_fragment(map.fragment, flags.max_cols);
}

}  // namespace

void add_fragment_layout(CLI::App& layout, Context& context) {
  const auto flags = std::make_shared<FragmentFlags>();
  CLI::App* fragment = layout.add_subcommand("fragment", "registers, by instruction");
  fragment->add_option("--instruction", flags->instruction, "PTX mnemonic, or the name of a CUTLASS atom")->required();
  flags->target.add(*fragment, "the GPU by its PTX name; default the one that the instruction means", true);
  fragment
      ->add_option("--operand", flags->operand,
                   "a, b (mma.sync; as n x k: --row is n, --col is k), d (C is the same), metadata, scale_a or scale_b "
                   "(mma.sync with .block_scale); the columns "
                   "of a sparse A are its stored ones, those of scale_a its scales")
      ->check(CLI::IsMember({"a", "b", "c", "d", "metadata", "scale_a", "scale_b"}))
      ->capture_default_str();
  fragment->add_option("--sparsity-selector", flags->selector, "metadata: sp-sel, which threads of a quad supply it")
      ->capture_default_str();
  fragment->add_option("--byte-id", flags->byte_id, "scale_a, scale_b: {byte-id} of the statement")
      ->capture_default_str();
  fragment->add_option("--thread-id", flags->thread_id, "scale_a, scale_b: {thread-id} of the statement")
      ->capture_default_str();
  fragment->add_option("--thread", flags->thread, "the reverse: thread of the warpgroup or warp ...");
  fragment->add_option("--register", flags->reg, "... one of its registers ...");
  fragment->add_option("--bit", flags->bit, "... and one bit: which elements are there?");
  fragment->add_option("--element", flags->element, "PTX's name of one of the thread's elements, instead: a0, d5 ...");
  fragment->add_option("--max-cols", flags->max_cols, "columns of the picture")->capture_default_str();
  flags->query.add(*fragment);
  flags->svg.add(*fragment);
  fragment->footer(
      "Examples:\n"
      "  bitmma layout fragment --instruction wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 --operand d\n"
      "  bitmma layout fragment --instruction wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 --operand a --thread "
      "5 --register 2\n"
      "  bitmma layout fragment --instruction "
      "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 --operand b\n"
      "  bitmma layout fragment --instruction "
      "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 --operand scale_a --row 9 "
      "--col 1");
  fragment->callback([flags, &context] { run_fragment(context, *flags); });
}

}  // namespace bitmma::cli
