#include <fmt/format.h>

#include <algorithm>

#include "bitmma/analysis/report.hpp"
#include "bitmma/descriptor/instruction_descriptor.hpp"
#include "bitmma/descriptor/smem_descriptor.hpp"
#include "bitmma/descriptor/zero_column_mask.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/statement.hpp"
#include "flags.hpp"
#include "json_list.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct DecodeFlags {
  std::vector<std::string> texts;
  TargetFlag target;
  std::string major, kind;
  bool json = false, mask = false;
  int m = 128, n = 256;
};

using Table = std::vector<std::vector<std::string>>;

/// A word as its field table says it.
template <typename Rows>
Table table_of(const Rows& rows, uint64_t word) {
  Table table{{"bits", "field", "raw", "meaning"}};
  for (const auto& row : rows) {
    table.push_back({fmt::format("{}-{}", row.bits.low_bit, row.bits.low_bit + row.bits.width_bits - 1),
                     std::string(row.bits.name), std::to_string(extract(word, row.bits)), std::string(row.meaning)});
  }
  return table;
}

void print_found(Context& context, const std::vector<Violation>& found) {
  for (const Violation& warning : found) {
    context.terminal.out << colored(context, 33, "warning: ") << print(warning) << '\n';
  }
}

void decode_idesc(Context& context, const DecodeFlags& flags, const std::string& text, Json& json) {
  const uint64_t word = require_word("descriptor", text);
  if (word > 0xFFFFFFFF) throw Error({.field = "instruction descriptor", .seen = text, .expected = "a 32-bit number"});
  const MmaKind kind = require_kind(flags.kind);
  const InstructionDescriptor descriptor = decode_instruction_descriptor(kind, static_cast<uint32_t>(word));
  const std::vector<Violation> found = as_warnings(warnings(descriptor));
  const bool scaled = info(kind).has_block_scales();
  if (flags.json) {
    json.push_back(Json::parse(report_instruction_descriptor(kind, static_cast<uint32_t>(word))));
    return;
  }
  const std::string types =
      fmt::format("D {}, A {}{}, B {}{}", info(descriptor.d).name, descriptor.negate_a ? "-" : "",
                  info(descriptor.a).name, descriptor.negate_b ? "-" : "", info(descriptor.b).name);
  context.terminal.out
      << fmt::format("{:#010x}, instruction descriptor of kind::{} (PTX ISA Table {})\n", word, info(kind).name,
                     info(kind).table)
      << fmt::format("M = {}, N = {}; {}; A {}, B {}{}\n", descriptor.m, descriptor.n, types,
                     descriptor.transpose_a ? "M-major" : "K-major", descriptor.transpose_b ? "N-major" : "K-major",
                     scaled ? fmt::format("; scales {}", info(descriptor.scale_type).name) : "")
      << print_table(table_of(instruction_descriptor_fields(kind), word))
      << fmt::format(
             "D takes {} columns of Tensor Memory, {} or {} with two or four parts of N side by side in lanes; "
             "tcgen05.alloc gives 32, 64, 128, 256 or 512\n",
             descriptor.n, descriptor.n / 2, descriptor.n / 4);
  print_found(context, found);
}

void decode_mask(Context& context, const DecodeFlags& flags, const std::string& text, Json& json) {
  const uint64_t word = require_word("descriptor", text);
  const ZeroColumnMask mask = decode_zero_column_mask(word);
  if ((flags.m != 32 && flags.m != 64 && flags.m != 128) || flags.n < 8 || flags.n > 256) {
    throw Error({.field = "--m, --n",
                 .seen = fmt::format("{}, {}", flags.m, flags.n),
                 .expected = "32, 64 or 128, and 8..256",
                 .fix = "the shape of the .ws instruction cuts the mask into parts"});
  }
  std::string columns;
  for (const bool zeroed : zeroed_columns(mask, flags.m, flags.n)) columns += zeroed ? '1' : '0';
  if (flags.json) {
    json.push_back(Json::parse(report_zero_column_mask(word, flags.m, flags.n)));
    return;
  }
  context.terminal.out << fmt::format("{:#018x}, zero-column mask of tcgen05.mma.ws with M = {}, N = {}\n", word,
                                      flags.m, flags.n)
                       << print_table(table_of(zero_column_mask_fields(), word))
                       << "columns of D, 1: their column of B counts as zero\n";
  for (int first = 0; first < flags.n; first += 64) {
    context.terminal.out << fmt::format("{:>4}  {}\n", first, columns.substr(static_cast<size_t>(first), 64));
  }
}

void decode_descriptor(Context& context, const DecodeFlags& flags, const std::string& text, Json& json) {
  const uint64_t word = require_word("descriptor", text);
  const SmemDescriptor descriptor = decode_smem_descriptor(flags.target.of_smem_descriptor(), word);
  std::optional<Major> major;
  if (!flags.major.empty()) major = flags.major == "mn" ? Major::mn : Major::k;
  const std::vector<Violation> found = as_warnings(warnings(descriptor, major));
  Table table{{"bits", "field", "raw", "bytes", "meaning"}};
  for (const DescriptorField& field : smem_descriptor_fields(descriptor.target)) {
    const uint64_t raw = extract(word, field.bits);
    const bool in_bytes = field.unit == DescriptorField::Unit::bytes_16;
    std::string meaning(field.meaning);
    if (field.bits.name == "swizzle") {
      meaning = fmt::format("{}: {}", info(descriptor.swizzle).name, print(info(descriptor.swizzle)));
    }
    table.push_back({fmt::format("{}-{}", field.bits.low_bit, field.bits.low_bit + field.bits.width_bits - 1),
                     std::string(field.bits.name), std::to_string(raw), in_bytes ? std::to_string(raw * 16) : "",
                     meaning});
  }
  if (flags.json) {
    json.push_back(Json::parse(report_smem_descriptor(descriptor.target, word, major)));
    return;
  }
  context.terminal.out << fmt::format("{:#018x}, shared-memory descriptor of {}\n", word, print(descriptor.target))
                       << print_table(table);
  print_found(context, found);
}

/// Registers of each thread that hold a field; 0 for none.
int64_t registers_of(const Instruction& instruction, Field field) {
  for (const FieldRule& rule : fields_of(instruction)) {
    if (rule.field == field && !rule.extents.empty()) return rule.extents[rule.extents.size() - 1];
  }
  return 0;
}

/// What is said of an instruction: keys of JSON and lines of text.
struct Description {
  Json json = {};
  std::string text = {};
};

/// Says what each family wants said.
class Describer {
 public:
  explicit Describer(Target target) : target_(target) {}

  Description operator()(const Wgmma& one) const {
    const Form& form = *find_form(one);
    const Mma mma = mma_of(one);
    const int64_t d_registers = registers_of(one, Field::accumulator);
    const std::string immediates = fmt::format("scale-d{}{}", form.negate ? ", imm-scale-a, imm-scale-b" : "",
                                               form.transpose ? ", imm-trans-a (A in shared memory), imm-trans-b" : "");
    Json json = shape_and_types(mma);
    json.update(Json{{"satfinite", one.saturate}, {"d_registers", d_registers}});
    json.update(arithmetic_json(one));
    return {.json = json,
            .text = print_table({
                {"D", fmt::format("{} x {} {}, {} registers a thread", mma.m, mma.n, info(mma.d).name, d_registers)},
                {"A", print_a(mma)},
                {"B", fmt::format("{} x {} {}", mma.k, mma.n, info(mma.b).name)},
                {"immediates", immediates},
                {"arithmetic", print_arithmetic(one, target_)},
                {"legal", std::string(form.source)},
            })};
  }

  Description operator()(const MmaSync& one) const {
    const Mma mma = mma_of(one);
    const int64_t a = registers_of(one, Field::a_regs), b = registers_of(one, Field::b_regs),
                  d = registers_of(one, Field::accumulator);
    Json json = shape_and_types(mma);
    json.update(Json{{"c", info(mma.c).name}, {"a_registers", a}, {"b_registers", b}, {"d_registers", d}});
    if (one.has_scales()) json.update(Json{{"scales", mma.scale_count}, {"scale_type", info(mma.scale_type).name}});
    if (one.sparse) json["metadata"] = one.ordered_metadata ? ".sp::ordered_metadata" : ".sp";
    json.update(arithmetic_json(one));
    std::vector<std::vector<std::string>> rows{
        {"runs in",
         fmt::format("one warp, everything in registers: no descriptors, no Tensor Memory ({})", print(target_))},
        {"D", fmt::format("{} x {} {}, {} a thread; C {}", one.m, one.n, info(mma.d).name, counted(d, "register"),
                          mma.c == mma.d ? "the same" : std::string(info(mma.c).name))},
        {"A", fmt::format("{}, {}", print_a(mma), counted(a, "register"))},
        {"B", fmt::format("{} x {} {}, {}", one.k, mma.n, info(mma.b).name, counted(b, "register"))}};
    if (mma.products > 1)
      rows.push_back(
          {"products", fmt::format("{}, one a quad pair: threads 4p .. 4p + 3 and 16 + 4p .. 19 + 4p", mma.products)});
    if (one.sparse)
      rows.push_back({"metadata", one.ordered_metadata ? "positions rise in every chunk" : "positions in any order"});
    if (one.has_scales()) {
      rows.push_back({"scales", fmt::format("{} {} of a row of A and a column of B, bytes of one register each; the "
                                            "ids say which byte of which thread",
                                            mma.scale_count, info(mma.scale_type).name)});
    }
    rows.push_back({"arithmetic", print_arithmetic(one, target_)});
    rows.push_back({"legal", std::string(find_form(one)->source)});
    return {.json = json, .text = print_table(rows)};
  }

  Description operator()(const Tcgen05Mma& one) const {
    const std::string_view kind = info(one.kind).name;
    return {
        .json = {{"kind", kind}, {"cta_group", one.cta_group}, {"ws", one.weight_stationary}, {"sparse", one.sparse}},
        .text = fmt::format("kind::{}, {}{}{}; shape, types and signs are in the instruction descriptor (decode it "
                            "with --kind {})\n",
                            kind, counted(one.cta_group, "CTA"), one.weight_stationary ? ", weight-stationary" : "",
                            one.sparse ? ", sparse A" : "", kind)};
  }

  Description operator()(const TmemMove& one) const {
    const std::string what = what_moves(one);
    const std::vector<Choice> choices = bitmma::choices_of(one, target_);
    Description said{.json = {{"moves", what}, {"choices", to_json(choices)}}, .text = what + "\n"};
    for (const Choice& choice : choices) said.text += fmt::format("chosen: {}\n", choice.what);
    return said;
  }

 private:
  static std::string print_a(const Mma& mma) {
    return fmt::format("{} x {} {}{}", mma.m / mma.products, mma.stored_k(), info(mma.a).name,
                       mma.sparse ? fmt::format(" stored of k = {}", mma.k) : "");
  }
  static Json shape_and_types(const Mma& mma) {
    return {{"m", mma.m / mma.products}, {"n", mma.n},
            {"k", mma.k / mma.products}, {"d", info(mma.d).name},
            {"a", info(mma.a).name},     {"b", info(mma.b).name},
            {"sparse", mma.sparse}};
  }
  Json arithmetic_json(const Instruction& one) const {
    return {{"arithmetic", print_rule(model_for(one, target_))}, {"evidence", print_evidence(one, target_)}};
  }
  static std::string what_moves(const TmemMove& move) {
    if (move.has_registers()) {
      return fmt::format("{} of each of 32 threads {} lanes of their warp{}",
                         counted(move.ldst.registers(), "register"), move.kind == MoveKind::ld ? "<-" : "->",
                         move.ldst.pack_16b ? ", two 16-bit cells a register" : "");
    }
    if (move.kind != MoveKind::cp) return "31 of 32 lanes move down by one, in 8 columns";
    const std::string_view unpacked =
        move.source_format == CpSourceFormat::b4x16_p64   ? "; b4x16_p64 unpacked into bytes"
        : move.source_format == CpSourceFormat::b6x16_p32 ? "; b6x16_p32 unpacked into bytes"
                                                          : "";
    return fmt::format("{} rows of {} bytes of shared memory -> Tensor Memory, {} each{}", move.shape().rows,
                       move.shape().row_bytes, counted(move.shape().copies, "lane"), unpacked);
  }

  Target target_;
};

void decode_mnemonic(Context& context, const DecodeFlags& flags, const std::string& text, Json& json) {
  const Instruction instruction = parse_instruction(text);
  const Target target = flags.target.of(instruction);
  std::vector<Violation> found = violations_of(instruction, target);
  if (has_descriptor(instruction)) {
    // The descriptor decides the rest.
    std::erase_if(found, [](const Violation& violation) { return violation.field != "target"; });
  }
  if (!found.empty()) throw Error(std::move(found));
  const Description said = std::visit(Describer(target), instruction);
  if (flags.json) {
    json.push_back({{"instruction", print(instruction)}, {"target", print(target)}});
    json.back().update(said.json);
  } else {
    context.terminal.out << fmt::format("{}\ntarget: {}\n", print(instruction), print(target)) << said.text;
  }
}

void run_decode(Context& context, const DecodeFlags& flags) {
  Json json = Json::array();
  for (const std::string& text : flags.texts) {
    const bool number = !text.empty() && ((text.front() >= '0' && text.front() <= '9') || text.front() == '-');
    if (!number) decode_mnemonic(context, flags, text, json);
    else if (flags.mask) decode_mask(context, flags, text, json);
    else if (!flags.kind.empty()) decode_idesc(context, flags, text, json);
    else decode_descriptor(context, flags, text, json);
  }
  if (flags.json) context.terminal.out << json_text(json.size() == 1 ? json[0] : json) << '\n';
}

}  // namespace

void add_decode(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("decode", "take descriptors and mnemonics apart");
  const auto flags = std::make_shared<DecodeFlags>();
  command->add_option("words", flags->texts, "64-bit descriptors (0x...) or PTX mnemonics")->required();
  flags->target.add(*command,
                    "the GPU by its PTX name; default sm_90a for descriptors, for mnemonics the one that the "
                    "instruction means",
                    true);
  command
      ->add_option("--major", flags->major, "k or mn: what the instruction's transpose bit says, for better warnings")
      ->check(CLI::IsMember({"k", "mn"}));
  command->add_option(
      "--kind", flags->kind,
      "f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4 or mxf4nvf4: the words are instruction descriptors of tcgen05.mma");
  command->add_flag("--zero-column-mask", flags->mask, "the words are zero-column masks of tcgen05.mma.ws");
  command->add_option("--m", flags->m, "zero-column mask: M of the instruction")->capture_default_str();
  command->add_option("--n", flags->n, "zero-column mask: N of the instruction")->capture_default_str();
  command->add_flag("--json", flags->json, "the result as JSON");
  command->footer(
      "Examples:\n  bitmma decode 0x4000004000010000 --major k\n  bitmma decode 0x4000404000010000 --target sm_103a\n"
      "  bitmma decode 0x08100010 --kind f16\n"
      "  bitmma decode wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16");
  command->callback([flags, &context] { run_decode(context, *flags); });
}

}  // namespace bitmma::cli
