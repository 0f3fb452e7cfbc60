#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bitmma/descriptor/instruction_descriptor.hpp"
#include "bitmma/descriptor/smem_descriptor.hpp"
#include "bitmma/descriptor/zero_column_mask.hpp"
#include "bitmma/instruction/legality.hpp"
#include "bitmma/instruction/simulate.hpp"
#include "commands.hpp"

namespace bitmma::cli {
namespace {

using Json = nlohmann::ordered_json;

Arch require_arch(const std::string& name) {
  if (const auto arch = arch_named(name)) return *arch;
  throw Error({.field = "--arch", .seen = name, .legal = "sm_90a, sm_100a or sm_103a"});
}

Swizzle require_swizzle(const std::string& name) {
  if (const auto swizzle = swizzle_named(name)) return *swizzle;
  throw Error({.field = "--swizzle", .seen = name, .legal = "none, 32, 64, 128 or 128-atom32"});
}

uint64_t require_word(const std::string& text) {
  if (const auto word = parse_word(text)) return *word;
  throw Error({.field = "descriptor", .seen = text, .legal = "a 64-bit number such as 0x4000004000010000"});
}

Json to_json(const std::vector<Violation>& findings) {
  Json json = Json::array();
  for (const Violation& finding : findings) {
    json.push_back({{"field", finding.field},
                    {"seen", finding.seen},
                    {"legal", finding.legal},
                    {"fix", finding.fix},
                    {"source", finding.source}});
  }
  return json;
}

struct DecodeFlags {
  std::vector<std::string> texts;
  std::string arch = "sm_90a", major, kind;
  bool json = false, mask = false;
  int m = 128, n = 256;
};

MmaKind require_kind(const std::string& name) {
  if (const auto kind = mma_kind_named(name)) return *kind;
  throw Error({.field = "--kind", .seen = name, .legal = "f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4 or mxf4nvf4"});
}

void decode_instruction_descriptor(Context& context, const DecodeFlags& flags, const std::string& text, Json& json) {
  const uint64_t word = require_word(text);
  if (word > 0xFFFFFFFF) throw Error({.field = "instruction descriptor", .seen = text, .legal = "a 32-bit number"});
  const MmaKind kind = require_kind(flags.kind);
  const InstructionDescriptor descriptor = bitmma::decode_instruction_descriptor(kind, static_cast<uint32_t>(word));
  const std::vector<Violation> found = warnings(descriptor);
  const bool scaled = info(kind).table != 42;
  const std::string shape = fmt::format("M = {}, N = {}", descriptor.m, descriptor.n);
  const std::string types =
      fmt::format("D {}, A {}{}, B {}{}", info(descriptor.d).name, descriptor.negate_a ? "-" : "",
                  info(descriptor.a).name, descriptor.negate_b ? "-" : "", info(descriptor.b).name);
  Json fields = Json::object();
  std::vector<std::vector<std::string>> table{{"bits", "field", "raw", "meaning"}};
  for (const InstructionDescriptorField& field : instruction_descriptor_fields(kind)) {
    const uint64_t raw = extract(word, field.bits);
    fields[std::string(field.bits.name)] = raw;
    table.push_back({fmt::format("{}-{}", field.bits.low_bit, field.bits.low_bit + field.bits.width_bits - 1),
                     std::string(field.bits.name), std::to_string(raw), std::string(field.meaning)});
  }
  if (flags.json) {
    Json result{{"idesc", fmt::format("{:#010x}", word)},
                {"kind", info(kind).name},
                {"m", descriptor.m},
                {"n", descriptor.n},
                {"d", info(descriptor.d).name},
                {"a", info(descriptor.a).name},
                {"b", info(descriptor.b).name}};
    if (scaled) result["scale_type"] = info(descriptor.scale_type).name;
    result["fields"] = fields;
    result["warnings"] = to_json(found);
    json.push_back(std::move(result));
    return;
  }
  context.terminal.out << fmt::format(
                              "{:#010x}, instruction descriptor of kind::{} (PTX ISA Table {})\n{}; {}; A {}, B {}{}\n",
                              word, info(kind).name, info(kind).table, shape, types,
                              descriptor.transpose_a ? "M-major" : "K-major",
                              descriptor.transpose_b ? "N-major" : "K-major",
                              scaled ? fmt::format("; scales {}", info(descriptor.scale_type).name) : "")
                       << print_table(table)
                       << fmt::format(
                              "D takes {} columns of Tensor Memory, {} with two or four parts of N side by side in "
                              "lanes; tcgen05.alloc gives 32, 64, 128, 256 or 512\n",
                              descriptor.n, fmt::format("{} or {}", descriptor.n / 2, descriptor.n / 4));
  for (const Violation& warning : found)
    context.terminal.out << colored(context, 33, "warning: ") << print(warning) << '\n';
}

void decode_mask(Context& context, const DecodeFlags& flags, const std::string& text, Json& json) {
  const uint64_t word = require_word(text);
  const ZeroColumnMask mask = decode_zero_column_mask(word);
  if ((flags.m != 32 && flags.m != 64 && flags.m != 128) || flags.n < 8 || flags.n > 256) {
    throw Error({.field = "--m, --n",
                 .seen = fmt::format("{}, {}", flags.m, flags.n),
                 .legal = "32, 64 or 128, and 8..256",
                 .fix = "the shape of the .ws instruction cuts the mask into parts"});
  }
  std::string columns;
  for (const bool zeroed : zeroed_columns(mask, flags.m, flags.n)) columns += zeroed ? '1' : '0';
  Json fields = Json::object();
  std::vector<std::vector<std::string>> table{{"bits", "field", "raw", "meaning"}};
  for (const ZeroColumnMaskField& field : zero_column_mask_fields()) {
    const uint64_t raw = extract(word, field.bits);
    fields[std::string(field.bits.name)] = raw;
    table.push_back({fmt::format("{}-{}", field.bits.low_bit, field.bits.low_bit + field.bits.width_bits - 1),
                     std::string(field.bits.name), std::to_string(raw), std::string(field.meaning)});
  }
  if (flags.json) {
    json.push_back({{"zero_column_mask", fmt::format("{:#018x}", word)},
                    {"m", flags.m},
                    {"n", flags.n},
                    {"fields", fields},
                    {"columns", columns}});
    return;
  }
  context.terminal.out << fmt::format("{:#018x}, zero-column mask of tcgen05.mma.ws with M = {}, N = {}\n", word,
                                      flags.m, flags.n)
                       << print_table(table) << "columns of D, 1: their column of B counts as zero\n";
  for (int first = 0; first < flags.n; first += 64)
    context.terminal.out << fmt::format("{:>4}  {}\n", first, columns.substr(static_cast<size_t>(first), 64));
}

void decode_descriptor(Context& context, const DecodeFlags& flags, const std::string& text, Json& json) {
  const uint64_t word = require_word(text);
  const SmemDescriptor descriptor = decode_smem_descriptor(require_arch(flags.arch), word);
  std::optional<Major> major;
  if (!flags.major.empty()) major = flags.major == "mn" ? Major::mn : Major::k;
  const std::vector<Violation> found = warnings(descriptor, major);
  Json fields = Json::object();
  std::vector<std::vector<std::string>> table{{"bits", "field", "raw", "bytes", "meaning"}};
  for (const DescriptorField& field : smem_descriptor_fields(descriptor.arch)) {
    const uint64_t raw = extract(word, field.bits);
    const bool in_bytes = field.unit == DescriptorField::Unit::bytes_16;
    fields[std::string(field.bits.name)] = in_bytes ? raw * 16 : raw;
    std::string meaning(field.meaning);
    if (field.bits.name == "swizzle")
      meaning = fmt::format("{}: {}", info(descriptor.swizzle).name, print(info(descriptor.swizzle)));
    table.push_back({fmt::format("{}-{}", field.bits.low_bit, field.bits.low_bit + field.bits.width_bits - 1),
                     std::string(field.bits.name), std::to_string(raw), in_bytes ? std::to_string(raw * 16) : "",
                     meaning});
  }
  if (flags.json) {
    json.push_back({{"descriptor", fmt::format("{:#018x}", word)},
                    {"arch", print(descriptor.arch)},
                    {"fields", fields},
                    {"swizzle_mode", info(descriptor.swizzle).name},
                    {"warnings", to_json(found)}});
    return;
  }
  context.terminal.out << fmt::format("{:#018x}, shared-memory descriptor of {}\n", word, print(descriptor.arch))
                       << print_table(table);
  for (const Violation& warning : found)
    context.terminal.out << colored(context, 33, "warning: ") << print(warning) << '\n';
}

void decode_move(Context& context, const DecodeFlags& flags, const TmemMove& move, Json& json) {
  std::string what;
  if (move.has_registers()) {
    what =
        fmt::format("{} registers of each of 32 threads {} lanes of their warp{}", move.ldst.registers(),
                    move.kind == MoveKind::ld ? "<-" : "->", move.ldst.pack_16b ? ", two 16-bit cells a register" : "");
  } else if (move.kind == MoveKind::cp) {
    what = fmt::format("{} rows of {} bytes of shared memory -> Tensor Memory, {} lanes each{}", move.shape().rows,
                       move.shape().row_bytes, move.shape().copies,
                       move.source_format.empty() ? "" : fmt::format("; {} unpacked into bytes", move.source_format));
  } else {
    what = "31 of 32 lanes move down by one, in 8 columns";
  }
  if (flags.json) {
    json.push_back({{"instruction", print(move)}, {"moves", what}, {"choices", Json::array()}});
    for (const Choice& choice : choices_of(move)) json.back()["choices"].push_back(choice.what);
    return;
  }
  context.terminal.out << print(move) << '\n' << what << '\n';
  for (const Choice& choice : choices_of(move)) context.terminal.out << "chosen: " << choice.what << '\n';
}

void decode_mnemonic(Context& context, const DecodeFlags& flags, const std::string& text, Json& json) {
  if (is_tmem_move(text)) {
    decode_move(context, flags, parse_tmem_move(text), json);
    return;
  }
  const Instruction instruction = parse_instruction(text);
  if (instruction.family == Family::tcgen05) {
    const MmaKindInfo& kind = info(instruction.kind);
    if (flags.json) {
      json.push_back({{"instruction", print(instruction)},
                      {"kind", kind.name},
                      {"cta_group", instruction.cta_group},
                      {"ws", instruction.weight_stationary},
                      {"sparse", instruction.sparse}});
    } else {
      context.terminal.out << print(instruction)
                           << fmt::format(
                                  "\nkind::{}, {} CTA{}{}{}; shape, types and signs are in the instruction descriptor "
                                  "(decode it with --kind {})\n",
                                  kind.name, instruction.cta_group, instruction.cta_group == 2 ? "s" : "",
                                  instruction.weight_stationary ? ", weight-stationary" : "",
                                  instruction.sparse ? ", sparse A" : "", kind.name);
    }
    return;
  }
  const std::vector<Violation> found = violations_of(instruction);
  if (!found.empty()) throw Error(found);
  const AccumulatorModel& model = model_for(instruction);
  if (instruction.family == Family::mma_sync) {
    const std::string rule = fmt::format("{}; {}", print_rule(model), print(evidence_of(instruction)));
    const int a_registers = a_fragment(instruction).registers(), b_registers = b_fragment(instruction).registers(),
              scales = instruction.scale_count();
    if (flags.json) {
      json.push_back({{"instruction", print(instruction)},
                      {"m", 16},
                      {"n", 8},
                      {"k", instruction.k},
                      {"d", "f32"},
                      {"a", info(instruction.a).name},
                      {"b", info(instruction.b).name},
                      {"sparse", instruction.sparse},
                      {"a_registers", a_registers},
                      {"b_registers", b_registers},
                      {"d_registers", 4},
                      {"scales", scales},
                      {"scale_type", info(instruction.scale_type).name},
                      {"arithmetic", print_rule(model)},
                      {"evidence", print(evidence_of(instruction))}});
      return;
    }
    context.terminal.out
        << print(instruction) << '\n'
        << print_table(
               {{"runs in", "one warp, everything in registers: no descriptors, no Tensor Memory (sm_120a)"},
                {"D", "16 x 8 f32, 4 registers a thread; C the same"},
                {"A",
                 fmt::format("16 x {} {}{}, {} registers", instruction.stored_k(), info(instruction.a).name,
                             instruction.sparse ? fmt::format(" stored of k = {}", instruction.k) : "", a_registers)},
                {"B", fmt::format("{} x 8 {}, {} registers", instruction.k, info(instruction.b).name, b_registers)},
                {"scales", fmt::format("{} {} of a row of A and a column of B, bytes of one register each; the ids say "
                                       "which byte of which thread",
                                       scales, info(instruction.scale_type).name)},
                {"arithmetic", rule},
                {"legal", "PTX ISA 9.7.14.5.14; ptxas 13.0"}});
    return;
  }
  const LegalForm& form = *find_legal_form(instruction);
  if (flags.json) {
    json.push_back({{"instruction", print(instruction)},
                    {"m", instruction.m},
                    {"n", instruction.n},
                    {"k", instruction.k},
                    {"d", info(instruction.d).name},
                    {"a", info(instruction.a).name},
                    {"b", info(instruction.b).name},
                    {"sparse", instruction.sparse},
                    {"satfinite", instruction.satfinite},
                    {"d_registers", d_fragment(instruction).registers()},
                    {"arithmetic", print_rule(model)},
                    {"evidence", print(model.evidence)}});
    return;
  }
  const std::string immediates = fmt::format("scale-d{}{}", form.scale ? ", imm-scale-a, imm-scale-b" : "",
                                             form.transpose ? ", imm-trans-a (A in shared memory), imm-trans-b" : "");
  std::vector<std::vector<std::string>> table{
      {"D", fmt::format("{} x {} {}, {} registers a thread", instruction.m, instruction.n, info(instruction.d).name,
                        d_fragment(instruction).registers())},
      {"A", fmt::format("{} x {} {}{}", instruction.m, instruction.stored_k(), info(instruction.a).name,
                        instruction.sparse ? fmt::format(" stored of k = {}", instruction.k) : "")},
      {"B", fmt::format("{} x {} {}", instruction.k, instruction.n, info(instruction.b).name)},
      {"immediates", immediates},
      {"arithmetic", fmt::format("{}; {}", print_rule(model), print(model.evidence))},
      {"legal", std::string(form.source)}};
  context.terminal.out << print(instruction) << '\n' << print_table(table);
}

void run_decode(Context& context, const DecodeFlags& flags) {
  Json json = Json::array();
  for (const std::string& text : flags.texts) {
    const bool number = !text.empty() && ((text.front() >= '0' && text.front() <= '9') || text.front() == '-');
    if (!number)
      decode_mnemonic(context, flags, text, json);
    else if (flags.mask)
      decode_mask(context, flags, text, json);
    else if (!flags.kind.empty())
      decode_instruction_descriptor(context, flags, text, json);
    else
      decode_descriptor(context, flags, text, json);
  }
  if (flags.json) context.terminal.out << (json.size() == 1 ? json[0] : json).dump(2) << '\n';
}

struct EncodeFlags {
  std::string arch = "sm_90a", swizzle = "none";
  int64_t start = 0, lbo = 0, sbo = 0;
  int base_offset = 0;
  std::string d = "f32", a = "f16", b = "f16";
  int n = 0;
  bool sparse = false, satfinite = false;
  std::string kind, scale_type = "ue8m0";
  InstructionDescriptor idesc;
  bool json = false;
};

Format require_format(std::string_view option, const std::string& name) {
  if (const auto format = format_named(name)) return *format;
  throw Error({.field = std::string(option), .seen = name, .legal = "the name of a format, as PTX spells it"});
}

void run_encode_idesc(Context& context, EncodeFlags flags) {
  InstructionDescriptor& idesc = flags.idesc;
  idesc.kind = require_kind(flags.kind);
  idesc.d = require_format("--d", flags.d), idesc.a = require_format("--a", flags.a),
  idesc.b = require_format("--b", flags.b);
  idesc.scale_type = require_format("--scale-type", flags.scale_type);
  const uint32_t word = encode(idesc);
  print_warnings(context, warnings(idesc));
  context.terminal.out << (flags.json ? Json{{"idesc", fmt::format("{:#010x}", word)}}.dump()
                                      : fmt::format("{:#010x}", word))
                       << '\n';
}

void run_encode_descriptor(Context& context, const EncodeFlags& flags) {
  SmemDescriptor descriptor{.arch = require_arch(flags.arch),
                            .start_address_bytes = flags.start,
                            .strides = {.leading_dim_byte_offset = flags.lbo, .stride_dim_byte_offset = flags.sbo},
                            .base_offset = flags.base_offset,
                            .swizzle = require_swizzle(flags.swizzle)};
  if (descriptor.arch == Arch::sm_100a) descriptor.reserved = uint64_t{1} << 46;  // the fixed 0b001 of Table 40
  const uint64_t word = encode(descriptor);
  print_warnings(context, warnings(descriptor));
  context.terminal.out << (flags.json ? Json{{"descriptor", fmt::format("{:#018x}", word)}}.dump()
                                      : fmt::format("{:#018x}", word))
                       << '\n';
}

void run_encode_instruction(Context& context, const EncodeFlags& flags) {
  Instruction instruction{.sparse = flags.sparse, .n = flags.n, .satfinite = flags.satfinite};
  std::vector<Violation> violations;
  for (const auto& [name, text, format] :
       {std::tuple("--d", &flags.d, &instruction.d), std::tuple("--a", &flags.a, &instruction.a),
        std::tuple("--b", &flags.b, &instruction.b)}) {
    const auto found = format_named(*text);
    if (found)
      *format = *found;
    else
      violations.push_back(
          {.field = name, .seen = *text, .legal = "f16, bf16, tf32, f32, e4m3, e5m2, s8, u8, b1 or s32"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
  if (const LegalForm* form = find_legal_form(instruction)) {
    instruction.k = flags.sparse ? form->k_sparse : form->k_dense;
    instruction.bit_operation = std::string(form->bit_operation);
  }
  require_legal(instruction);
  context.terminal.out << (flags.json ? Json{{"instruction", print(instruction)}}.dump() : print(instruction)) << '\n';
}

}  // namespace

void add_decode(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("decode", "take descriptors and mnemonics apart");
  const auto flags = std::make_shared<DecodeFlags>();
  command->add_option("words", flags->texts, "64-bit descriptors (0x...) or PTX mnemonics")->required();
  command->add_option("--arch", flags->arch, "whose descriptor: sm_90a, sm_100a or sm_103a")->capture_default_str();
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
      "Examples:\n  bitmma decode 0x4000004000010000 --major k\n  bitmma decode 0x08100010 --kind f16\n  bitmma decode "
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16");
  command->callback([flags, &context] { run_decode(context, *flags); });
}

void add_encode(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("encode", "put descriptors and mnemonics together");
  command->require_subcommand(1);
  const auto flags = std::make_shared<EncodeFlags>();
  CLI::App* descriptor = command->add_subcommand("descriptor", "a shared-memory descriptor, from bytes");
  descriptor->add_option("--arch", flags->arch, "sm_90a, sm_100a or sm_103a")->capture_default_str();
  descriptor->add_option("--start", flags->start, "start address in bytes");
  descriptor->add_option("--lbo", flags->lbo, "leading dimension byte offset, in bytes");
  descriptor->add_option("--sbo", flags->sbo, "stride dimension byte offset, in bytes");
  descriptor->add_option("--swizzle", flags->swizzle, "none, 32, 64, 128, or on sm_100a 128-atom32")
      ->capture_default_str();
  descriptor->add_option("--base-offset", flags->base_offset, "0..7");
  descriptor->add_flag("--json", flags->json, "the result as JSON");
  descriptor->footer("Example:\n  bitmma encode descriptor --start 0x800 --lbo 16 --sbo 1024 --swizzle 128");
  descriptor->callback([flags, &context] { run_encode_descriptor(context, *flags); });
  const auto idesc_flags = std::make_shared<EncodeFlags>();
  CLI::App* idesc = command->add_subcommand("idesc", "an instruction descriptor of tcgen05.mma");
  idesc->add_option("--kind", idesc_flags->kind, "f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4 or mxf4nvf4")->required();
  idesc->add_option("--m", idesc_flags->idesc.m, "rows of D, over the CTA group")->required();
  idesc->add_option("--n", idesc_flags->idesc.n, "columns of D")->required();
  idesc->add_option("--d", idesc_flags->d, "type of D; the block-scaled kinds have f32 only")->capture_default_str();
  idesc->add_option("--a", idesc_flags->a, "type of A")->capture_default_str();
  idesc->add_option("--b", idesc_flags->b, "type of B")->capture_default_str();
  idesc->add_flag("--negate-a", idesc_flags->idesc.negate_a, "-A");
  idesc->add_flag("--negate-b", idesc_flags->idesc.negate_b, "-B");
  idesc->add_flag("--transpose-a", idesc_flags->idesc.transpose_a, "A is M-major");
  idesc->add_flag("--transpose-b", idesc_flags->idesc.transpose_b, "B is N-major");
  idesc->add_flag("--sparse", idesc_flags->idesc.sparse, "A is sparse");
  idesc->add_option("--sparsity-selector", idesc_flags->idesc.sparsity_selector, "0..3");
  idesc->add_flag("--saturate", idesc_flags->idesc.saturate, "clamp integers");
  idesc->add_option("--max-shift", idesc_flags->idesc.max_shift_code, ".ws: 0 none, 1 = 8, 2 = 16, 3 = 32 columns");
  idesc->add_option("--scale-type", idesc_flags->scale_type, "ue8m0 or ue4m3")->capture_default_str();
  idesc->add_option("--scale-a-id", idesc_flags->idesc.scale_a_id, "0..3");
  idesc->add_option("--scale-b-id", idesc_flags->idesc.scale_b_id, "0..3");
  idesc->add_flag("--k96", idesc_flags->idesc.k_96, "K = 96 (sm_103a)");
  idesc->add_flag("--json", idesc_flags->json, "the result as JSON");
  idesc->footer("Example:\n  bitmma encode idesc --kind f16 --m 128 --n 64 --d f32 --a bf16 --b bf16");
  idesc->callback([idesc_flags, &context] { run_encode_idesc(context, *idesc_flags); });
  const auto mask = std::make_shared<ZeroColumnMask>();
  CLI::App* columns = command->add_subcommand("mask", "a zero-column mask of tcgen05.mma.ws");
  columns->add_option("--use", mask->use_span, "used columns in a run, less one");
  columns->add_option("--skip", mask->skip_span, "zeroed columns in a run, less one");
  for (size_t i = 0; i < 4; ++i) {
    columns->add_option(fmt::format("--start-{}", i), mask->start_count[i],
                        fmt::format("columns of the pattern skipped before sub-mask {}", i));
    columns->add_option(fmt::format("--first-{}", i), mask->first_span[i],
                        fmt::format("1: sub-mask {} begins with zeroed columns", i));
  }
  columns->add_option("--column-shift", mask->column_shift, "first column of the stored B that is used");
  columns->add_flag("!--no-mask", mask->non_zero_mask, "every column is used; the shift alone counts")
      ->default_val(true);
  columns->footer(
      "Example:\n  bitmma encode mask --use 3 --skip 2        0000 111 0000 111 ..., 1 for a zeroed column");
  columns->callback([mask, &context] { context.terminal.out << fmt::format("{:#018x}\n", encode(*mask)); });
  CLI::App* instruction = command->add_subcommand("instruction", "a wgmma mnemonic; m and k follow from the types");
  instruction->add_option("--n", flags->n, "columns of D")->required();
  instruction->add_option("--d", flags->d, "type of D")->capture_default_str();
  instruction->add_option("--a", flags->a, "type of A")->capture_default_str();
  instruction->add_option("--b", flags->b, "type of B")->capture_default_str();
  instruction->add_flag("--sp", flags->sparse, "sparse A");
  instruction->add_flag("--satfinite", flags->satfinite, "clamp integer results");
  instruction->add_flag("--json", flags->json, "the result as JSON");
  instruction->footer("Example:\n  bitmma encode instruction --n 128 --d f16 --a e4m3 --b e5m2 --sp");
  instruction->callback([flags, &context] { run_encode_instruction(context, *flags); });
}

}  // namespace bitmma::cli
