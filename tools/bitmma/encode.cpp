// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "bitmma/core/text.hpp"
#include "bitmma/core/word.hpp"
#include "bitmma/descriptor/instruction_descriptor.hpp"
#include "bitmma/descriptor/smem_descriptor.hpp"
#include "bitmma/descriptor/zero_column_mask.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "flags.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

Swizzle require_swizzle(const std::string& name) {
  if (const auto swizzle = swizzle_named(name)) return *swizzle;
  throw Error({.code = ViolationCode::unknown_name, .field = "--swizzle", .seen = name, .legal = row_names(swizzles)});
}

/// Prints a word or mnemonic: as a line, or as JSON under `key` with the warnings; for text the warnings go to stderr.
void print_encoded(Context& context, bool as_json, std::string_view key, const std::string& text,
                   const std::vector<Violation>& warnings = {}) {
  if (as_json) {
    context.out() << to_json(Report{{std::string(key), text}, {"warnings", warnings}}) << '\n';
    return;
  }
  print_warnings(context, warnings);
  context.out() << text << '\n';
}

/// Throws Error unless a flag gives a field of the encoded value; --json and --target do not count.
void require_any(const Command& command, const std::vector<std::string>& flags) {
  if (std::ranges::any_of(flags, [&](const std::string& flag) { return command.count(flag) > 0; })) return;
  throw Error({.code = ViolationCode::missing_argument,
               .field = "encode " + command.get_name(),
               .seen = "no field is given",
               .legal = flags,
               .fix = fmt::format("bitmma encode {} --help shows examples", command.get_name())});
}

struct DescriptorFlags {
  TargetFlag target;
  Flag<std::string> swizzle = "none";
  Flag<int64_t> start = 0, lbo = 0, sbo = 0;
  Flag<int> base_offset = 0;
  Flag<bool> absolute = false, mask_address = false, json = false;
  const Command* command = nullptr;

  bool has(const std::string& flag) const { return command->count(flag) > 0; }
};

/// PTX's matrix-descriptor-encode(x) = (x & 0x3FFFF) >> 4; returns the byte value of the resulting field.
int64_t masked(std::vector<Violation>& found, std::string_view flag, int64_t bytes) {
  constexpr int64_t window = 0x3FFFF;
  if (bytes % 16 != 0) {
    found.push_back({.field = std::string(flag),
                     .seen = std::to_string(bytes),
                     .expected = "a multiple of 16",
                     .fix = "the formula drops the lower 4 bits"});
  }
  return bytes & window & ~int64_t{15};
}

/// Encodes the word. If an address does not fit the field, the error names the flag that accepts it.
uint64_t encoded(const SmemDescriptor& descriptor) {
  try {
    return encode(descriptor);
  } catch (const Error& error) {
    std::vector<Violation> violations = error.violations();
    for (Violation& violation : violations) {
      if (violation.code == ViolationCode::address_beyond_field)
        violation.fix = "--mask-address encodes real addresses as (x & 0x3FFFF) >> 4, as PTX's formula does";
    }
    throw Error(std::move(violations));
  }
}

void encode_descriptor(Context& context, const DescriptorFlags& flags) {
  const Target target = flags.target.of_smem_descriptor();
  const bool is_swizzled = require_swizzle(flags.swizzle) != Swizzle::none;
  // Only --swizzle none: every bit is 0.
  std::vector<std::string> fields{"--start", "--lbo", "--sbo", "--base-offset", "--absolute"};
  if (is_swizzled) fields.emplace_back("--swizzle");
  require_any(*flags.command, fields);
  std::vector<Violation> found;
  const auto taken = [&](std::string_view flag, int64_t bytes) {
    return flags.mask_address ? masked(found, flag, bytes) : bytes;
  };
  const SmemDescriptor descriptor{.target = target,
                                  .start_address_bytes = taken("--start", flags.start),
                                  .strides = {.leading_dim_byte_offset = taken("--lbo", flags.lbo),
                                              .stride_dim_byte_offset = taken("--sbo", flags.sbo)},
                                  .base_offset = flags.base_offset,
                                  .swizzle = require_swizzle(flags.swizzle),
                                  .leading_dim_absolute = flags.absolute};
  const uint64_t word = encoded(descriptor);
  const std::vector<Violation> of_word = warnings(descriptor);
  found.insert(found.end(), of_word.begin(), of_word.end());
  const auto require_stride = [&](const std::string& flag, std::string_view expected) {
    if (flags.has(flag)) return;
    found.push_back(
        {.field = flag, .seen = "(missing)", .expected = std::string(expected), .fix = "with 0 they all coincide"});
  };
  require_stride("--sbo", "the bytes from one group of rows to the next");
  if (descriptor.swizzle == Swizzle::none)
    require_stride("--lbo", "the bytes between core matrices along K, or along M or N of a transposed operand");
  print_encoded(context, flags.json, "descriptor", fmt::format("{:#018x}", word), as_warnings(std::move(found)));
}

void add_descriptor(Command& command, Context& context) {
  const auto flags = std::make_shared<DescriptorFlags>();
  Command* descriptor = command.add_command("descriptor", "make a shared-memory descriptor from offsets in bytes");
  flags->command = descriptor;
  flags->target.add(*descriptor, "the GPU by its PTX name; default sm_90a", true);
  descriptor->add_option("--start", flags->start, "start address in bytes");
  descriptor->add_option("--lbo", flags->lbo, "leading dimension byte offset, in bytes");
  descriptor->add_option("--sbo", flags->sbo, "stride dimension byte offset, in bytes");
  descriptor->add_option("--swizzle", flags->swizzle, "none, 32, 64, 128, or on sm_100a 128-atom32")
      ->capture_default_str();
  descriptor->add_option("--base-offset", flags->base_offset, "0..7");
  descriptor->add_flag("--absolute", flags->absolute,
                       "sm_103a with K = 96: --lbo is the address at which rows continue (bit 52)");
  descriptor->add_flag("--mask-address", flags->mask_address,
                       "accept full addresses: start, LBO and SBO are encoded as (x & 0x3FFFF) >> 4, as in PTX");
  descriptor->add_flag("--json", flags->json, "print the result as JSON");
  descriptor->footer(
      "Examples:\n  bitmma encode descriptor --start 0x800 --lbo 16 --sbo 1024 --swizzle 128\n"
      "  bitmma encode descriptor --start 0x7f1200040400 --mask-address --lbo 16 --sbo 1024 --swizzle 128\n"
      "  bitmma encode descriptor --arch sm_103a --start 96 --lbo 4096 --absolute --sbo 1024 --swizzle 128");
  descriptor->callback([flags, &context] { encode_descriptor(context, *flags); });
}

struct IdescFlags {
  TargetFlag target;
  Flag<std::string> kind;
  FieldFlags fields;
  Flag<bool> sparse, k_96, json;
};

void encode_idesc(Context& context, const IdescFlags& flags) {
  const MmaKind kind = require_kind(flags.kind);
  // The descriptor does not contain .ws. A requested shift implies an instruction with .ws.
  const bool has_shift = flags.fields.is_given("max_shift") && !info(kind).has_block_scales;
  auto mma = std::get<Tcgen05Mma>(
      flags.fields.apply(Tcgen05Mma{.kind = kind, .weight_stationary = has_shift, .sparse = flags.sparse}));
  if (flags.k_96) mma.k = 96;
  naming_flag("k", flags.k_96 ? "--k96" : "--k", [&] { return require_k_code(mma.kind, mma.sparse, mma.k); });
  const uint32_t word = naming_flag("max_shift", "--max-shift", [&] { return idesc_of(mma); });
  const InstructionDescriptor idesc = decode_instruction_descriptor(mma.kind, word);
  require_kind_on(flags.target, idesc);
  print_encoded(context, flags.json, "idesc", fmt::format("{:#010x}", word),
                as_warnings(warnings(idesc, flags.target.asked())));
}

void add_idesc(Command& command, Context& context) {
  const auto flags = std::make_shared<IdescFlags>();
  Command* idesc = command.add_command("idesc", "make an instruction descriptor of tcgen05.mma");
  flags->target.add(*idesc, "the GPU by its PTX name; rejects what this GPU does not support", true);
  idesc->add_option("--kind", flags->kind, print_mma_kinds())->required();
  idesc->add_flag("--sparse", flags->sparse, "A is sparse");
  flags->fields.add(*idesc, {Family::tcgen05}, [](const InstructionField& field) { return field.in_descriptor; });
  for (const char* name : {"--m", "--n"}) idesc->get_option(name)->required();
  idesc->add_flag("--k96", flags->k_96, "--k 96")->excludes(idesc->get_option("--k"));
  idesc->add_flag("--json", flags->json, "print the result as JSON");
  idesc->footer("Example:\n  bitmma encode idesc --kind f16 --m 128 --n 64 --d f32 --a bf16 --b bf16");
  idesc->callback([flags, &context] { encode_idesc(context, *flags); });
}

struct MaskFlags {
  Flag<int> use_span = 0, skip_span = 0, column_shift = 0;
  std::array<Flag<int>, 4> start_count, first_span;
  Flag<bool> no_mask, json;
  const Command* command = nullptr;
};

void encode_mask(Context& context, const MaskFlags& flags) {
  require_any(*flags.command, {"--use", "--skip", "--start-0", "--start-1", "--start-2", "--start-3", "--first-0",
                               "--first-1", "--first-2", "--first-3", "--column-shift", "--no-mask"});
  ZeroColumnMask mask{.non_zero_mask = !flags.no_mask,
                      .skip_span = flags.skip_span,
                      .use_span = flags.use_span,
                      .column_shift = flags.column_shift};
  std::ranges::copy(flags.start_count, mask.start_count.begin());
  std::ranges::copy(flags.first_span, mask.first_span.begin());
  print_encoded(context, flags.json, "mask", fmt::format("{:#018x}", encode(mask)));
}

void add_mask(Command& command, Context& context) {
  const auto flags = std::make_shared<MaskFlags>();
  Command* columns = command.add_command("mask", "make a zero-column mask of tcgen05.mma.ws");
  flags->command = columns;
  columns->add_option("--use", flags->use_span, "length of a run of used columns, minus one");
  columns->add_option("--skip", flags->skip_span, "length of a run of zeroed columns, minus one");
  for (size_t i = 0; i < 4; ++i) {
    columns->add_option(fmt::format("--start-{}", i), flags->start_count[i],
                        fmt::format("columns of the pattern skipped before sub-mask {}", i));
    columns->add_option(fmt::format("--first-{}", i), flags->first_span[i],
                        fmt::format("1: sub-mask {} begins with zeroed columns", i));
  }
  columns->add_option("--column-shift", flags->column_shift, "first column of the stored B that is used");
  columns->add_flag("--no-mask", flags->no_mask, "use every column; only the shift has an effect");
  columns->footer("Example:\n  bitmma encode mask --use 3 --skip 2  # 0000 111 0000 111 ..., 1 for a zeroed column");
  columns->add_flag("--json", flags->json, "print the result as JSON");
  columns->callback([flags, &context] { encode_mask(context, *flags); });
}

struct MnemonicFlags {
  Flag<std::string> d = "f32", a = "f16", b = "f16";
  Flag<int> n = 0;
  Flag<bool> sparse = false, satfinite = false, json = false;
};

void encode_mnemonic(Context& context, const MnemonicFlags& flags) {
  Format d{}, a{}, b{};
  std::vector<Violation> violations;
  for (const auto& [name, text, format] :
       {std::tuple("--d", &flags.d, &d), std::tuple("--a", &flags.a, &a), std::tuple("--b", &flags.b, &b)}) {
    if (const auto found = format_named(**text)) {
      *format = *found;
      continue;
    }
    violations.push_back({.field = name,
                          .seen = **text,
                          .legal = {"f16", "bf16", "tf32", "f32", "e4m3", "e5m2", "s8", "u8", "b1", "s32"}});
  }
  if (!violations.empty()) throw Error(std::move(violations));
  const Instruction instruction =
      wgmma({.n = flags.n, .d = d, .a = a, .b = b, .sparse = flags.sparse, .saturate = flags.satfinite});
  print_encoded(context, flags.json, "instruction", print(instruction));
}

void add_mnemonic(Command& command, Context& context) {
  const auto flags = std::make_shared<MnemonicFlags>();
  Command* instruction = command.add_command("instruction", "make a wgmma mnemonic; m and k follow from the types");
  instruction->add_option("--n", flags->n, "columns of D")->required();
  instruction->add_option("--d", flags->d, "type of D")->capture_default_str();
  instruction->add_option("--a", flags->a, "type of A")->capture_default_str();
  instruction->add_option("--b", flags->b, "type of B")->capture_default_str();
  instruction->add_flag("--sp", flags->sparse, "sparse A");
  instruction->add_flag("--satfinite", flags->satfinite, "clamp integer results");
  instruction->add_flag("--json", flags->json, "print the result as JSON");
  instruction->footer("Example:\n  bitmma encode instruction --n 128 --d f16 --a e4m3 --b e5m2 --sp");
  instruction->callback([flags, &context] { encode_mnemonic(context, *flags); });
}

}  // namespace

void add_encode(Command& app, Context& context) {
  Command* command = app.add_command("encode", "make descriptors and mnemonics from their fields");
  command->require_subcommand(1);
  add_descriptor(*command, context);
  add_idesc(*command, context);
  add_mask(*command, context);
  add_mnemonic(*command, context);
}

}  // namespace bitmma::cli
