// SPDX-License-Identifier: MIT
// `bitmma encode`, with `encode mask` and `encode instruction`.
#include "encode.hpp"

#include <fmt/format.h>

#include "bitmma/descriptor/zero_column_mask.hpp"
#include "bitmma/instruction/statement.hpp"
#include "flags.hpp"
#include "output.hpp"

namespace bitmma::cli {

void print_encoded(Context& context, bool as_json, std::string_view key, const std::string& text,
                   const std::vector<Violation>& warnings) {
  if (as_json) {
    context.out() << to_json(Report{{std::string(key), text}, {"warnings", warnings}}) << '\n';
    return;
  }
  print_warnings(context, warnings);
  context.out() << text << '\n';
}

void require_any(const Command& command, const std::vector<std::string>& flags) {
  if (std::ranges::any_of(flags, [&](const std::string& flag) { return command.count(flag) > 0; })) return;
  throw Error({.code = ViolationCode::missing_argument,
               .field = "encode " + command.get_name(),
               .seen = "no field is given",
               .legal = flags,
               .fix = fmt::format("bitmma encode {} --help shows examples", command.get_name())});
}

namespace {

struct MaskFlags {
  Flag<int> use_span = 0, skip_span = 0, column_shift = 0;
  std::array<Flag<int>, 4> start_count, first_span;
  Flag<bool> no_mask, json;
};

void encode_mask(Context& context, const Command& command, const MaskFlags& flags) {
  require_any(command, {"--use", "--skip", "--start-0", "--start-1", "--start-2", "--start-3", "--first-0", "--first-1",
                        "--first-2", "--first-3", "--column-shift", "--no-mask"});
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
  columns->callback([flags, columns, &context] { encode_mask(context, *columns, *flags); });
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
    if (const auto named = format_named(**text)) {
      *format = *named;
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
  add_encode_descriptor(*command, context);
  add_encode_idesc(*command, context);
  add_mask(*command, context);
  add_mnemonic(*command, context);
}

}  // namespace bitmma::cli
