// SPDX-License-Identifier: MIT
// `bitmma encode descriptor` and `bitmma encode idesc`.
#include <fmt/format.h>

#include "bitmma/analysis/words.hpp"
#include "encode.hpp"
#include "field_flags.hpp"
#include "flags.hpp"

namespace bitmma::cli {
namespace {

Swizzle require_swizzle(const std::string& name) {
  if (const auto swizzle = swizzle_named(name)) return *swizzle;
  throw Error({.code = ViolationCode::unknown_name, .field = "--swizzle", .seen = name, .legal = row_names(swizzles)});
}

struct DescriptorFlags {
  TargetFlag target;
  Flag<std::string> swizzle = "none";
  Flag<int64_t> start = 0;
  Flag<std::optional<int64_t>> lbo, sbo;
  Flag<int> base_offset = 0;
  Flag<bool> absolute = false, mask_address = false, json = false;
};

void encode_descriptor(Context& context, const Command& command, const DescriptorFlags& flags) {
  const SmemDescriptorRequest request{.target = flags.target.of_smem_descriptor(),
                                      .start = flags.start,
                                      .lbo = flags.lbo,
                                      .sbo = flags.sbo,
                                      .base_offset = flags.base_offset,
                                      .swizzle = require_swizzle(flags.swizzle),
                                      .leading_dim_absolute = flags.absolute,
                                      .mask_address = flags.mask_address};
  // Only --swizzle none: every bit is 0.
  std::vector<std::string> fields{"--start", "--lbo", "--sbo", "--base-offset", "--absolute"};
  if (request.swizzle != Swizzle::none) fields.emplace_back("--swizzle");
  require_any(command, fields);
  const EncodedWord encoded = encode_word(request);
  print_encoded(context, flags.json, "descriptor", fmt::format("{:#018x}", encoded.word),
                in_flags(context, encoded.warnings));
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
  const std::optional<Target> target = flags.target.requested();
  if (target) naming_flag("target", flags.target.flags, [&] { require_kind_on(*target, idesc); });
  print_encoded(context, flags.json, "idesc", fmt::format("{:#010x}", word), as_warnings(warnings(idesc, target)));
}

}  // namespace

void add_encode_descriptor(Command& command, Context& context) {
  const auto flags = std::make_shared<DescriptorFlags>();
  Command* descriptor = command.add_command("descriptor", "make a shared-memory descriptor from offsets in bytes");
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
  descriptor->callback([flags, descriptor, &context] { encode_descriptor(context, *descriptor, *flags); });
}

void add_encode_idesc(Command& command, Context& context) {
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

}  // namespace bitmma::cli
