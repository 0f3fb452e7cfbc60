#include "decode.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <type_traits>

#include "bitmma/analysis/report.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/descriptor/descriptor_meaning.hpp"
#include "bitmma/descriptor/instruction_descriptor.hpp"
#include "bitmma/descriptor/smem_descriptor.hpp"
#include "bitmma/descriptor/zero_column_mask.hpp"
#include "json_list.hpp"
#include "numbers.hpp"

namespace bitmma::cli {
namespace {

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

void decode_idesc(Context& context, const DecodeFlags& flags, const PastedWord& pasted, Json& json) {
  const uint64_t word = pasted.value;
  if (word > 0xFFFFFFFF) {
    throw Error({.field = "instruction descriptor",
                 .seen = fmt::format("{:#x}", word),
                 .expected = "a 32-bit number, or one in the upper half of a 64-bit word"});
  }
  const MmaKind kind = require_kind(flags.kind);
  const InstructionDescriptor descriptor = decode_instruction_descriptor(kind, static_cast<uint32_t>(word));
  const std::vector<Violation> found = as_warnings(warnings(descriptor));
  require_kind_on(flags.target, descriptor);
  if (flags.json) {
    json.push_back(Json::parse(report_instruction_descriptor(kind, static_cast<uint32_t>(word))));
    return;
  }
  context.terminal.out
      << fmt::format("{:#010x}, instruction descriptor of kind::{} (PTX ISA Table {})\n", word, info(kind).name,
                     info(kind).table)
      << print_shape_and_types(descriptor) << '\n'
      << print_table(table_of(instruction_descriptor_fields(kind), word))
      << fmt::format(
             "D takes {} columns of Tensor Memory, {} or {} with two or four parts of N side by side in lanes; "
             "tcgen05.alloc gives 32, 64, 128, 256 or 512\n",
             descriptor.n, descriptor.n / 2, descriptor.n / 4);
  print_found(context, found);
}

void decode_mask(Context& context, const DecodeFlags& flags, const PastedWord& pasted, Json& json) {
  const uint64_t word = pasted.value;
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

void decode_descriptor(Context& context, const DecodeFlags& flags, const PastedWord& pasted, Json& json) {
  const uint64_t word = pasted.value;
  const SmemDescriptor descriptor = decode_smem_descriptor(flags.target.of_smem_descriptor(), word);
  std::optional<Major> major;
  if (!flags.major.empty()) major = flags.major == "mn" ? Major::mn : Major::k;
  const std::vector<Violation> found = as_warnings(warnings(descriptor, major));
  Table table{{"bits", "field", "raw", "bytes", "meaning"}};
  Json meanings = Json::object();
  for (const DescriptorField& field : smem_descriptor_fields(descriptor.target)) {
    const uint64_t raw = extract(word, field.bits);
    const bool in_bytes = field.unit == DescriptorField::Unit::bytes_16;
    const std::string meaning = meaning_of(descriptor, field.bits.name, major);
    meanings[std::string(field.bits.name)] = meaning;
    table.push_back({fmt::format("{}-{}", field.bits.low_bit, field.bits.low_bit + field.bits.width_bits - 1),
                     std::string(field.bits.name), std::to_string(raw), in_bytes ? std::to_string(raw * 16) : "",
                     meaning});
  }
  if (flags.json) {
    json.push_back(Json::parse(report_smem_descriptor(descriptor.target, word, major)));
    json.back()["meanings"] = std::move(meanings);
    return;
  }
  context.terminal.out << fmt::format("{:#018x}, shared-memory descriptor of {}\n", word, print(descriptor.target))
                       << print_table(table);
  print_found(context, found);
}

/// Digits of 0x..., without zeros in front; 0 for what is none.
size_t hexadecimal_digits(std::string_view text) {
  if (!text.starts_with("0x") && !text.starts_with("0X")) return 0;
  text.remove_prefix(2);
  text.remove_prefix(std::min(text.find_first_not_of('0'), text.size()));
  return text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos ? text.size() : 0;
}

/// What debuggers print around a number is taken away: "$1 = 0x10," is 0x10.
std::string without_surroundings(std::string_view text) {
  if (text.starts_with('$')) {
    const size_t equals = text.find("= ");
    const bool is_history = equals != std::string_view::npos && equals > 1 &&
                            text.substr(1, equals - 1).find_first_not_of("0123456789 ") == std::string_view::npos;
    if (is_history) text.remove_prefix(equals + 2);
  }
  if (text.ends_with(',')) text.remove_suffix(1);
  return std::string(text);
}

/// A word of the command line, and how it was read where that is worth saying.
PastedWord require_pasted(const std::string& text) {
  if (auto word = read_word(text)) return *word;
  const size_t digits = hexadecimal_digits(text);
  throw Error({.field = "descriptor",
               .seen = shortened(text),
               .expected = digits > 16
                               ? fmt::format("a 64-bit number, 16 hexadecimal digits; {} are more than 64 bits", digits)
                               : "a 64-bit number such as 0x4000004000010000",
               .fix = "digits of hexadecimal or decimal numbers, _ or ' between them, U and L behind them"});
}

/// The 32 bits of an instruction descriptor: tcgen05.mma takes them from a register of their own, and CUTLASS keeps
/// them in the upper half of one of 64 bits.
void take_idesc(PastedWord& word) {
  const uint64_t upper = word.value >> 32, lower = word.value & 0xFFFFFFFF;
  if (word.is_negative && upper == 0xFFFFFFFF && lower >> 31 == 1) {
    word.value = lower;
    word.how = "a signed number of 32 bits, in two's complement";
  } else if (upper != 0 && lower == 0) {
    word.value = upper;
    word.how += fmt::format("{}the upper half of a 64-bit word", word.how.empty() ? "" : "; ");
  }
}

/// Field by field, what the second of two words says otherwise.
template <typename Rows>
void print_difference(Context& context, const DecodeFlags& flags, const Rows& rows, const std::vector<uint64_t>& words,
                      Json& json) {
  Table table{{"field", "first", "second", "second - first"}};
  Json changed = Json::object();
  uint64_t known = 0;
  const auto add = [&](std::string_view field, uint64_t first, uint64_t second, bool in_units = false) {
    if (first == second) return;
    const bool fell = second < first;
    const uint64_t by = fell ? first - second : second - first;
    table.push_back({std::string(field), fmt::format("{:#x}", first), fmt::format("{:#x}", second),
                     fmt::format("{}{}{}", fell ? "-" : "+", by,
                                 in_units ? fmt::format(" ({}{} bytes)", fell ? "-" : "+", 16 * by) : "")});
    changed[std::string(field)] = {first, second};
  };
  for (const auto& row : rows) {
    known |= row.bits.mask();
    bool in_units = false;
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(row)>, DescriptorField>)
      in_units = row.unit == DescriptorField::Unit::bytes_16;
    add(row.bits.name, extract(words[0], row.bits), extract(words[1], row.bits), in_units);
  }
  add("other bits", words[0] & ~known, words[1] & ~known);
  if (flags.json) {
    json.back()["difference_from_first"] = std::move(changed);
  } else if (table.size() == 1) {
    context.terminal.out << "no difference: the words are the same\n";
  } else {
    context.terminal.out << "difference, in the fields as they are stored:\n" << print_table(table);
  }
}

/// Mnemonics have no such end, and no file is called as one. Also a pipe: standard input.
bool is_file(const std::string& text) {
  std::error_code error;
  return text.ends_with(".ptx") || text == "/dev/stdin" ||
         (text.size() < 256 && std::filesystem::exists(text, error) && !error);
}

/// A descriptor of the kind that the flags say.
void decode_word(Context& context, const DecodeFlags& flags, const PastedWord& word, Json& json) {
  if (!word.how.empty() && !flags.json)
    context.terminal.out << fmt::format("read as {:#x}: {}\n", word.value, word.how);
  if (flags.mask) decode_mask(context, flags, word, json);
  else if (!flags.kind.empty()) decode_idesc(context, flags, word, json);
  else decode_descriptor(context, flags, word, json);
  if (!word.how.empty() && flags.json) json.back()["read_as"] = word.how;
}

void compare_words(Context& context, const DecodeFlags& flags, const std::vector<uint64_t>& words, Json& json) {
  if (flags.mask) print_difference(context, flags, zero_column_mask_fields(), words, json);
  else if (!flags.kind.empty())
    print_difference(context, flags, instruction_descriptor_fields(require_kind(flags.kind)), words, json);
  else print_difference(context, flags, smem_descriptor_fields(flags.target.of_smem_descriptor()), words, json);
}

/// What is no word begins with a letter, a guard or a brace.
bool is_word(const std::string& text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const bool begins_as_number = !text.empty() && (is_digit(text[0]) || text[0] == '-' || text[0] == '+');
  return begins_as_number || read_word(text).has_value();
}

void run_decode(Context& context, const DecodeFlags& flags) {
  Json json = Json::array();
  std::vector<uint64_t> words;
  for (const std::string& given : flags.texts) {
    const std::string bare = without_surroundings(given);
    const std::string& text = is_word(bare) ? bare : given;
    if (is_file(text)) {
      decode_ptx_file(context, flags, text, json);
    } else if (is_word(text)) {
      PastedWord word = require_pasted(text);
      if (!flags.kind.empty() && !flags.mask) take_idesc(word);
      decode_word(context, flags, word, json);
      words.push_back(word.value);
    } else {
      decode_ptx(context, flags, text, json);
    }
  }
  if (words.size() == 2 && flags.texts.size() == 2) compare_words(context, flags, words, json);
  if (flags.json) context.terminal.out << json_text(json.size() == 1 ? json[0] : json) << '\n';
}

}  // namespace

std::string print_shape_and_types(const InstructionDescriptor& descriptor) {
  const bool scaled = info(descriptor.kind).has_block_scales;
  return fmt::format("M = {}, N = {}; D {}, A {}{}, B {}{}; A {}, B {}{}", descriptor.m, descriptor.n,
                     info(descriptor.d).name, descriptor.negate_a ? "-" : "", info(descriptor.a).name,
                     descriptor.negate_b ? "-" : "", info(descriptor.b).name,
                     descriptor.transpose_a ? "M-major" : "K-major", descriptor.transpose_b ? "N-major" : "K-major",
                     scaled ? fmt::format("; scales {}", info(descriptor.scale_type).name) : "");
}

void add_decode(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("decode", "take descriptors, PTX statements and files of PTX apart");
  const auto flags = std::make_shared<DecodeFlags>();
  command
      ->add_option("words", flags->texts,
                   "64-bit descriptors, PTX mnemonics or statements, names of CUTLASS atoms, files of PTX. Two "
                   "descriptors are compared, too")
      ->required();
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
      "  bitmma decode 0x4000004000010000 0x4000004000010002 --major k\n"
      "  bitmma decode SM90_64x128x16_F32F16F16_SS\n"
      "  bitmma decode wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16\n"
      "  bitmma decode '@p wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, q, 1, "
      "-1, "
      "0, 1;'\n"
      "  bitmma decode data/ptx/triton_sm90_f16.ptx\n"
      "Exit codes: 0 decoded; 1 a file of PTX has an instruction that is illegal on its target, or that bitmma does "
      "not "
      "know; 2 bad request, and whatever is wrong on the command line itself.");
  command->callback([flags, &context] { run_decode(context, *flags); });
}

}  // namespace bitmma::cli
