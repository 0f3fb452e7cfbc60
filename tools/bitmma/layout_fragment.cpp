#include <fmt/format.h>

#include "bitmma/analysis/draw.hpp"
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
  std::string instruction, operand = "d";
  TargetFlag target;
  std::optional<int> thread, reg;
  int bit = 0, max_cols = 16, selector = 0;
  Query query;
  SvgFlag svg;
};

/// The places of one operand's elements: matrix operands by fragment, metadata by its own rule.
struct FragmentMap {
  Fragment fragment = {};
  std::optional<MetadataLayout> metadata = {};
  int selector = 0;

  bool is_metadata() const { return metadata.has_value(); }
  int rows() const { return fragment.rows; }
  int cols() const { return fragment.cols; }
  int width_bits() const { return metadata ? metadata->field_bits : fragment.element_bits; }
  int registers() const { return is_metadata() ? 1 : fragment.registers(); }
  RegisterPlace place(int row, int col) const {
    return metadata ? metadata_place_of(*metadata, row, col, selector) : place_of(fragment, row, col);
  }
  Json json(int row, int col) const {
    Json json{{"row", row}, {"col", col}};
    json.update(to_json(Place(place(row, col))));
    return json;
  }
  std::string line(int row, int col) const {
    const RegisterPlace at = place(row, col);
    return fmt::format("{},{},{},{},{}\n", row, col, at.thread, at.reg, at.bit);
  }
};

constexpr std::string_view fragment_heading = "row,col,thread,register,bit\n";

/// The map of an operand, for each family that has operands in registers. Throws Error for the others, and for what is
/// illegal.
class MapOfOperand {
 public:
  MapOfOperand(const TargetFlag& target, const std::string& operand, int selector)
      : target_(target), operand_(operand), selector_(selector) {}

  FragmentMap operator()(const Wgmma& one) const {
    require_legal(with_sparsity_selector(one, selector_), target_.of(one));
    if (operand_ == "b") {
      throw Error({.field = "--operand",
                   .seen = "b",
                   .expected = "a or d: B of wgmma is in shared memory",
                   .fix = "layout smem"});
    }
    if (operand_ == "d") return {.fragment = wgmma_d_fragment(one.d, one.n)};
    const Fragment a = wgmma_a_fragment(one.a, mma_of(one).stored_k());
    if (operand_ == "a") return {.fragment = a};
    require_sparse(one.sparse);
    return {.fragment = a, .metadata = metadata_layout(info(one.a).bits), .selector = selector_};
  }
  FragmentMap operator()(const MmaSync& one) const {
    require_legal(with_sparsity_selector(one, selector_), target_.of(one));
    const Mma mma = mma_of(one);
    if (operand_ != "metadata") return {.fragment = fragment_of(one, operand_)};
    require_sparse(one.sparse);
    return {.fragment = fragment_of(one, "a"),
            .metadata = metadata_layout(mma.a_container_bits, mma.stored_k()),
            .selector = selector_};
  }
  template <typename Other>
  FragmentMap operator()(const Other& one) const {
    throw Error({.field = "--instruction",
                 .seen = print(Instruction(one)),
                 .expected = "wgmma.mma_async or mma.sync",
                 .fix = "tcgen05.mma keeps D in Tensor Memory: layout tmem, layout ldst"});
  }

 private:
  static void require_sparse(bool sparse) {
    if (sparse) return;
    throw Error({.field = "--operand", .seen = "metadata", .expected = "a or d: the instruction is not sparse"});
  }

  const TargetFlag& target_;
  const std::string& operand_;
  int selector_;
};

/// The reverse: which elements does a bit of a register hold?
void answer_register(Context& context, const FragmentFlags& flags, const FragmentMap& map) {
  const int last_thread = map.fragment.threads - 1, registers = map.registers();
  const int thread = flags.thread.value_or(-1), reg = flags.reg.value_or(map.is_metadata() ? 0 : -1);
  if (thread < 0 || thread > last_thread || reg < 0 || reg >= registers || flags.bit < 0 || flags.bit > 31) {
    throw Error({.field = "--thread, --register, --bit",
                 .seen = fmt::format("{}, {}, {}", thread, reg, flags.bit),
                 .expected = fmt::format("0..{}, 0..{}, 0..31", last_thread, registers - 1)});
  }
  Json json = Json::array();
  std::string text(fragment_heading);
  for (int row = 0; row < map.rows(); ++row) {
    for (int col = 0; col < map.cols(); ++col) {
      const RegisterPlace place = map.place(row, col);
      const bool holds = place.thread == thread && place.reg == reg && flags.bit >= place.bit &&
                         flags.bit < place.bit + map.width_bits();
      if (!holds) continue;
      json.push_back(map.json(row, col));
      text += map.line(row, col);
    }
  }
  context.terminal.out << (flags.query.json ? json_text(json) + "\n" : text);
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
    out << fragment_heading;
    for_each([&](int row, int col) { out << map.line(row, col); });
  }
}

void run_fragment(Context& context, const FragmentFlags& flags) {
  const Instruction instruction = parse_instruction(flags.instruction);
  const bool has_own_c = is_mma(instruction) && mma_of(instruction).c != mma_of(instruction).d;
  const std::string operand = flags.operand == "c" && !has_own_c ? "d" : flags.operand;
  const FragmentMap map = std::visit(MapOfOperand(flags.target, operand, flags.selector), instruction);
  if (flags.thread || flags.reg) {
    answer_register(context, flags, map);
    return;
  }
  std::ostream& out = context.terminal.out;
  if (flags.query.one_element(map.rows(), map.cols())) {
    const int row = *flags.query.row, col = *flags.query.col;
    if (flags.query.json) out << json_text(map.json(row, col)) << '\n';
    else out << fragment_heading << map.line(row, col);
    return;
  }
  if (map.is_metadata() && flags.svg.asked()) {
    throw Error({.field = "--svg",
                 .seen = "given",
                 .expected = "absent with --operand metadata",
                 .fix = "its map comes as CSV or --json"});
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
    Picture picture = picture_of_fragment(map.fragment, flags.max_cols);
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
  fragment->add_option("--instruction", flags->instruction, "PTX mnemonic")->required();
  flags->target.add(*fragment, "the GPU by its PTX name; default the one that the instruction means", true);
  fragment
      ->add_option("--operand", flags->operand,
                   "a, b (mma.sync), d (C is the same) or metadata; the columns of a sparse A are its stored ones")
      ->check(CLI::IsMember({"a", "b", "c", "d", "metadata"}))
      ->capture_default_str();
  fragment->add_option("--sparsity-selector", flags->selector, "metadata: sp-sel, which threads of a quad supply it")
      ->capture_default_str();
  fragment->add_option("--thread", flags->thread, "the reverse: thread of the warpgroup or warp ...");
  fragment->add_option("--register", flags->reg, "... register ...");
  fragment->add_option("--bit", flags->bit, "... and bit: which element is there?")->capture_default_str();
  fragment->add_option("--max-cols", flags->max_cols, "columns of the picture")->capture_default_str();
  flags->query.add(*fragment);
  flags->svg.add(*fragment);
  fragment->footer(
      "Examples:\n"
      "  bitmma layout fragment --instruction wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 --operand d\n"
      "  bitmma layout fragment --instruction wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 --operand a --thread "
      "5 --register 2\n"
      "  bitmma layout fragment --instruction "
      "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 --operand b");
  fragment->callback([flags, &context] { run_fragment(context, *flags); });
}

}  // namespace bitmma::cli
