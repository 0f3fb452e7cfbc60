// SPDX-License-Identifier: MIT
#include <array>

#include "bitmma/acts/quantized_file.hpp"
#include "flags.hpp"
#include "output.hpp"
#include "write_result.hpp"

namespace bitmma::cli {
namespace {

struct QuantizeFlags {
  Flag<std::string> file, recipe, out, tensor, type;
  Flag<std::vector<std::string>> compared;
  Flag<std::optional<std::string>> torch_device;
  Flag<bool> packed = false, tiled = false, json = false;
  Flag<int> threads = 1;
};

constexpr auto flags_of_quantize = std::to_array<FlagOfField>(
    {{"recipe", "--recipe"}, {"tensor", "--tensor"}, {"type", "--type"}, {"torch_device", "--torch-device"}});

QuantizeRequest request_of(const QuantizeFlags& flags, const std::string& recipe) {
  return {.recipe = recipe,
          .tensor = flags.tensor,
          .type = flags.type.empty() ? std::nullopt : std::optional(require_format("--type", flags.type)),
          .torch_device = flags.torch_device.get(),
          .threads = flags.threads};
}

void run_compare(Context& context, const QuantizeFlags& flags) {
  constexpr auto names = std::to_array<FlagOfField>({{"recipe", "--compare"},
                                                     {"compare", "--compare"},
                                                     {"tensor", "--tensor"},
                                                     {"type", "--type"},
                                                     {"torch_device", "--torch-device"}});
  const std::vector<std::string>& recipes = flags.compared;
  const Report report = naming_flags(
      names, [&] { return compare_recipes(read_tensor_file(flags.file), request_of(flags, recipes[0]), recipes[1]); });
  show(context, report, flags.json);
}

void run_quantize(Context& context, const QuantizeFlags& flags) {
  if (!flags.compared->empty()) return run_compare(context, flags);
  for (const auto& [name, flag] : {std::pair("--recipe", &flags.recipe), std::pair("-o", &flags.out)})
    if (flag->empty())
      throw Error({.code = ViolationCode::missing_argument,
                   .field = name,
                   .seen = "(missing)",
                   .expected = name == std::string_view("-o") ? "the file to write" : "a recipe; bitmma list recipes",
                   .fix = "--compare RECIPE RECIPE shows how two recipes differ"});
  require_tensor_file_name(flags.out);
  QuantizeRequest request = request_of(flags, flags.recipe);
  request.layout = {.packed_codes = flags.packed, .tiled_scales = flags.tiled};
  QuantizeRun run =
      naming_flags(flags_of_quantize, [&] { return quantize_file(read_tensor_file(flags.file), request); });
  print_warnings(context, run.warnings);
  const bool as_json = flags.json;
  write_result(context, flags.out, run.file, run.report);
  show(context, run.report, as_json);
}

}  // namespace

void add_quantize(Command& app, Context& context) {
  Command* command =
      app.add_command("quantize", "quantise a matrix as a library does before it multiplies, bit for bit");
  const auto flags = std::make_shared<QuantizeFlags>();
  command->add_input("file", flags->file, "safetensors or .npy file with a matrix of F32, F16 or BF16")->required();
  command->add_option("--recipe", flags->recipe,
                      "the recipe, such as te_nvfp4 or torchao_mxfp8_e4m3; bitmma list recipes shows all");
  command->add_output("-o,--output", flags->out, "write codes, scales and the scale of the tensor to this file");
  command->add_option("--compare", flags->compared, "two recipes: show how their codes and scales differ")->expected(2);
  command->add_option("--tensor", flags->tensor, "the tensor of the file; default: its only tensor");
  command->add_option("--type", flags->type, "the type of a tensor of raw codes: f16, bf16 or f32");
  command->add_option("--torch-device", flags->torch_device,
                      "where eager PyTorch runs the recipe: cuda or cpu; default cuda");
  command->add_flag("--packed", flags->packed, "write two codes of e2m1 per byte, the first in the lower half");
  command->add_flag("--tiled", flags->tiled, "write the scales in tiles of 128 x 4, as cuBLAS reads them");
  command->add_flag("--json", flags->json, "print a summary as JSON");
  add_threads(*command, flags->threads);
  command->footer(
      "Examples:\n  bitmma list recipes\n  bitmma quantize a.npy --recipe te_fp8_1x128 -o quantized.safetensors\n  "
      "bitmma quantize recorded.safetensors --tensor a --recipe ocp_mxfp4 --packed --tiled -o "
      "mxfp4.safetensors\n  bitmma quantize dataset:torchao_nvfp4 --tensor x --compare te_nvfp4 "
      "flashinfer_nvfp4\nBlocks extend along the "
      "columns, which are K: a weight [N, K] needs no transposition. The "
      "written file has keys for the recipe, its project, version and commit.");
  command->callback([flags, &context] { run_quantize(context, *flags); });
}

}  // namespace bitmma::cli
