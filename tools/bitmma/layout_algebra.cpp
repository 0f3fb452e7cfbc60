// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <array>

#include "bitmma/analysis/describe_banks.hpp"
#include "bitmma/layout/algebra.hpp"
#include "flags.hpp"
#include "layout.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct AlgebraFlags {
  Flag<std::vector<std::string>> words;
  Flag<bool> csv = false, json = false;
};

void run_algebra(Context& context, const AlgebraFlags& flags) {
  const std::vector<std::string>& words = flags.words;
  const LayoutOperation& operation = layout_operation_named(words[0]);
  if (words.size() < 2)
    throw Error({.code = ViolationCode::missing_argument,
                 .field = "layout",
                 .seen = "missing",
                 .expected = fmt::format("the layout of {}: {}", operation.name, operation.meaning)});
  const AlgebraLayout result = apply_layout_operation(
      operation.name, words[1], words.size() > 2 ? std::optional<std::string_view>(words[2]) : std::nullopt);
  const int64_t size = result.size();
  if (flags.csv) {
    context.out() << "index,offset\n";
    for (int64_t index = 0; index < size; ++index) context.out() << fmt::format("{},{}\n", index, result(index));
    return;
  }
  Report report{{"operation", operation.name}, {"first", words[1]}};
  if (words.size() > 2) report.add("second", words[2]);
  report.add("result", print(result)).add("size", size).add("cosize", result.cosize());
  report.add_text(print(result));
  report.add_text(fmt::format("{}: {} indices, offsets below {}{}", operation.meaning, size, result.cosize(),
                              result.swizzle ? " before the swizzle" : ""));
  show(context, report, flags.json);
}

struct BankFlags {
  Flag<std::vector<int64_t>> addresses;
  Flag<int> bytes = 4;
  Flag<bool> json = false;
};

void run_banks(Context& context, const BankFlags& flags) {
  const BankUse use =
      naming_flags(std::to_array<FlagOfField>(
                       {{"addresses", "--addresses"}, {"address", "--addresses"}, {"bytes a thread", "--bytes"}}),
                   [&] { return bank_use(flags.addresses.get(), flags.bytes); });
  context.exit_code = use.wavefronts == use.requests ? exit_same : exit_differs;
  show(context, describe(use), flags.json);
}

struct SwizzleFlags {
  Flag<bool> json = false;
};

void run_swizzles(Context& context, const SwizzleFlags& flags) { show(context, describe_swizzle_uses(), flags.json); }

}  // namespace

void add_algebra_layout(Command& layout, Context& context) {
  const auto flags = std::make_shared<AlgebraFlags>();
  Command* algebra = layout.add_command(
      "algebra", "compute CuTe's layout algebra: composition, complement, divides, products, inverses");
  algebra->add_option("words", flags->words, "an operation, its layout, and its second operand if it has one")
      ->required()
      ->expected(1, 3);
  CLI::Option* const csv = algebra->add_flag("--csv", flags->csv, "print index and offset of the result as CSV");
  algebra->add_flag("--json", flags->json, "print the result as JSON")->excludes(csv);
  std::string operations;
  for (const LayoutOperation& operation : layout_operations())
    operations += fmt::format("  {:<17} {}\n", operation.name, operation.meaning);
  algebra->footer("Operations. A is the layout; B is a layout, a shape, or a tile <B, B> with one for each mode:\n" +
                  operations +
                  "Results are those of CuTe 4.7 for static integers.\n"
                  "Examples:\n"
                  "  bitmma layout algebra composition '(6,2):(8,2)' '(4,3):(3,1)'\n"
                  "  bitmma layout algebra complement 4:2 24\n"
                  "  bitmma layout algebra zipped_divide '(9,(4,8)):(59,(13,1))' '<3:3, (2,4):(1,8)>'\n"
                  "  bitmma layout algebra composition 'Swizzle<3,3,3> o (8,64):(64,1)' '(4,8)'");
  algebra->callback([flags, &context] { run_algebra(context, *flags); });
}

void add_banks_layout(Command& layout, Context& context) {
  const auto flags = std::make_shared<BankFlags>();
  Command* banks =
      layout.add_command("banks", "count the bank conflicts of the addresses that a warp accesses in shared memory");
  banks->add_option("addresses,--addresses", flags->addresses, "byte addresses of the threads, up to 32")
      ->required()
      ->delimiter(',');
  banks->add_option("--bytes", flags->bytes, "bytes per thread: 1, 2, 4, 8 or 16")->capture_default_str();
  banks->add_flag("--json", flags->json, "print the result as JSON");
  banks->footer(
      "Exit code 1 if there are conflicts. bitmma layout smem --conflicts ldmatrix counts the conflicts of a "
      "matrix.\nExample:\n  bitmma layout banks --bytes 16 --addresses 0,128,256,384,512,640,768,896\n  bitmma layout "
      "banks 0 4 8 12");
  banks->callback([flags, &context] { run_banks(context, *flags); });
}

void add_swizzles_layout(Command& layout, Context& context) {
  const auto flags = std::make_shared<SwizzleFlags>();
  Command* table = layout.add_command(
      "swizzles", "list the swizzles that each instruction supports, by element width and major-ness");
  table->add_flag("--json", flags->json, "print the table as JSON, with the reasons");
  table->footer("Example:\n  bitmma layout swizzles");
  table->callback([flags, &context] { run_swizzles(context, *flags); });
}

}  // namespace bitmma::cli
