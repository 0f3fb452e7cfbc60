// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <array>
#include <utility>

#include "arguments.hpp"
#include "bitmma/acts/gemm_file.hpp"
#include "bitmma/core/text.hpp"
#include "flags.hpp"
#include "numbers.hpp"
#include "output.hpp"
#include "plan_flags.hpp"
#include "write_result.hpp"

namespace bitmma::cli {
namespace {

struct GemmFlags {
  Flag<std::vector<std::string>> files;
  Flag<std::string> out, only_rows, only_cols, rows = "4", cols = "4";
  ProductPlanFlags plan;
  LibraryFlags library;
  TargetFlag target;
  CpuTargetFlag cpu_target;
  Flag<int> threads = 1;
  Flag<double> timeout = 0;
  Flag<bool> json = false, find = false, error = false, replace_d = false, bias = false;
  Flag<std::vector<int64_t>> choices;
  Flag<std::string> type = "bf16";
};

/// The number of rows or columns to show. The former --rows is now --only-rows.
int shown(std::string_view flag, const std::string& text) {
  const auto count = parse_whole(text);
  if (count && *count <= 1 << 20) return static_cast<int>(*count);
  throw Error({.field = fmt::format("--{}", flag),
               .seen = shortened(text),
               .expected = "the number to show",
               .fix = fmt::format("to compute only these, use --only-{} {}", flag, shortened(text))});
}

ProductFile read_product(const GemmFlags& flags) {
  if (flags.files->empty())
    throw Error({.code = ViolationCode::missing_argument,
                 .field = "file",
                 .seen = "(missing)",
                 .expected = "a product, or --choices N K"});
  if (are_arrays(flags.files)) return read_product_file(read_arrays(flags.files));
  if (flags.files.size() == 1) return read_product_file(flags.files->front());
  throw Error({.field = "file",
               .seen = counted(static_cast<int64_t>(flags.files.size()), "file"),
               .expected = "one product, or its arrays as a.npy, b.npy, ..."});
}

/// Finds the plans that reproduce the D of the file.
void run_find(Context& context, const GemmFlags& flags) {
  const ProductFile product = read_product(flags);
  const FindOptions options{.threads = flags.threads, .timeout_s = flags.timeout};
  const std::optional<Target> target = flags.target.requested();
  const bool as_json = flags.json;
  context.require_flags_acted();
  const PlanSearch search = [&] {
    ProgressLine line(context, "find", 0);
    return find_plans_of_file(product, target, options, [&](int64_t done, int64_t total) { line.update(done, total); });
  }();
  context.exit_code = search.all_bits.empty() ? exit_differs : exit_same;
  show(context, describe(search, product.inputs), as_json);
}

GemmFileRequest request_of(const GemmFlags& flags, const GemmInputs& inputs) {
  GemmFileRequest request{.plan = flags.plan.request(flags.target), .threads = flags.threads};
  if (flags.library.are_given()) request.library = flags.library.request(request.plan.output);
  if (!flags.only_rows.empty()) request.rows = parse_indices("--only-rows", flags.only_rows, inputs.a.rows());
  if (!flags.only_cols.empty()) request.cols = parse_indices("--only-cols", flags.only_cols, inputs.b.cols());
  request.accuracy = flags.error;
  return request;
}

/// The library's kernels for all M of one N and K.
void run_choices(Context& context, const GemmFlags& flags) {
  const ProductLibraryRequest library = flags.library.request({});
  if (library.nearest)
    throw Error({.code = ViolationCode::no_effect,
                 .field = "--nearest",
                 .seen = "given",
                 .expected = "absent: only recorded choices are shown"});
  const Format named = require_format("--type", flags.type), type = named == Format::f32 ? Format::tf32 : named;
  LibraryCall call{.gpu = library.gpu,
                   .a = type,
                   .b = type,
                   .allow_tf32 = library.allow_tf32,
                   .bias = flags.bias,
                   .scales = info(type).bits == 8 ? CallScales::tensor : CallScales::none,
                   .fast_accumulation = library.fast_accumulation,
                   .n = flags.choices.get()[0],
                   .k = flags.choices.get()[1]};
  if (!library.library.empty()) call.library = library.library;
  if (!library.layout.empty()) call.layout = library.layout;
  constexpr std::array<FlagOfField, 3> names{{{"m, n, k", "--choices"}, {"types", "--type"}, {"gpu", "--gpu"}}};
  const std::vector<ChoiceRange> ranges =
      naming_flags(flags_of_products(), [&] { return naming_flags(names, [&] { return library_choices(call); }); });
  show(context, describe(call, ranges), flags.json);
}

void run_gemm(Context& context, const GemmFlags& flags) {
  if (!flags.choices->empty()) return run_choices(context, flags);
  if (!flags.out.empty()) require_tensor_file_name(flags.out);
  flags.cpu_target.use();
  if (flags.find) return run_find(context, flags);
  ProductFile product = read_product(flags);
  const bool as_json = flags.json;
  const int rows = as_json ? 0 : shown("rows", flags.rows), cols = as_json ? 0 : shown("cols", flags.cols);
  const GemmFileRequest request = request_of(flags, product.inputs);
  std::optional<ProgressLine> line;
  const auto progress = [&](const char* what) {
    return [&, what, has_begun = false](int64_t done, int64_t total) mutable {
      if (!std::exchange(has_begun, true)) line.emplace(context, what, total);
      line->update(done, total);
    };
  };
  const GemmFileEvents events{
      .warn = product_warnings_to(context), .plans = progress("slices"), .outputs = progress("gemm")};
  const GemmFileReport computed =
      naming_flags(flags_of_products(), [&] { return gemm_file(std::move(product), request, events); });
  line.reset();
  if (computed.result.recorded) context.exit_code = computed.result.differing() == 0 ? exit_same : exit_differs;
  Report report = describe(computed.result, rows, cols);
  if (!flags.out.empty()) {
    const TensorFile file = naming_flags(flags_of_products(), [&] { return file_with_d(computed, flags.replace_d); });
    write_result(context, flags.out, file, report);
  }
  show(context, report, as_json);
}

std::string without_last_newline(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace

void add_gemm(Command& app, Context& context) {
  Command* command =
      app.add_command("gemm", "compute a whole matrix product in a library's order of additions, bit for bit");
  const auto flags = std::make_shared<GemmFlags>();
  command->add_input(
      "file", flags->files,
      "safetensors file with a [M, K] and b [K, N] or b_t [N, K]; or .npy files: a, b and perhaps c in this order, or "
      "under the names of their arrays; see docs/vectors.md");
  flags->plan.add(*command);
  flags->library.add(*command);
  flags->target.add(*command, "the GPU by its PTX name; default: the target in the file, or sm_90a");
  command
      ->add_option("--choices", flags->choices,
                   "N and K: show which kernel the library takes for which M, and where bits change; with --gpu")
      ->expected(2);
  command->add_option("--type", flags->type, "with --choices: the type of A and B")->capture_default_str();
  command->add_flag("--bias", flags->bias, "with --choices: of calls with a bias");
  command->add_flag("--find", flags->find, "find the plans that give the d of the file");
  command->add_option("--timeout", flags->timeout, "stop --find after these seconds; default: no limit");
  between(command->get_option("--timeout"), 1e-6, 1e9);
  command->add_flag("--error", flags->error, "show how far d is from the exact product, in ulp");
  command->add_option("--rows", flags->rows, "rows of d to show")->capture_default_str();
  command->add_option("--cols", flags->cols, "columns of d to show")->capture_default_str();
  command->add_option("--only-rows", flags->only_rows, "compute only these rows of d: 0..7,96");
  command->add_option("--only-cols", flags->only_cols, "compute only these columns of d");
  command->add_output("-o,--output", flags->out, "write the product with d to this file");
  command->add_flag("--replace-d", flags->replace_d, "with -o: replace the recorded d of the file, even if it differs");
  command->add_flag("--json", flags->json, "print the result as JSON");
  add_threads(*command, flags->threads);
  flags->cpu_target.add(*command);
  // A function: the catalogue is not read for other commands. CLI11 ends its text with a line.
  command->footer([] {
    return std::string(
               "Examples:\n"
               "  bitmma gemm a.npy b.npy --rows 16 --cols 8\n"
               "  bitmma gemm product.safetensors -o with_d.safetensors\n"
               "  bitmma gemm recorded.safetensors --find\n"
               "  bitmma gemm recorded.safetensors --cpu-target baseline\n"
               "  bitmma gemm recorded.safetensors --kernel nvjet_sm90_tss_64x32_64x16_4x2_h_bz_splitK_TNT --split-k "
               "3\n"
               "  bitmma gemm recorded.safetensors --library cublas-13.1 --gpu H100 --nearest\n"
               "  bitmma gemm --choices 4096 4096 --gpu H100\n"
               "  bitmma gemm product.safetensors --plan nvjet-algo2 --only-rows 0..7 --only-cols 0..15 --error\n"
               "  bitmma gemm product.safetensors --plan '{\"instruction\": "
               "\"wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3\",\n"
               "    \"promotion\": {\"every\": 128}, \"output\": {\"type\": \"bf16\"}}'\n"
               "\n"
               "Plans of --plan (docs/products.md):\n") +
           print_plan_names() +
           "\n"
           "--find tries, until plans give all bits:\n" +
           without_last_newline(print_search());
  });
  command->footer(
      "Without --plan and --kernel, the command uses the plan stored in the file (key plan), if there is one. It "
      "compares a recorded d in the file. Exit code 1 if outputs differ or no plan was found; 2 for a bad request.");
  command->callback([flags, &context] { run_gemm(context, *flags); });
}

}  // namespace bitmma::cli
