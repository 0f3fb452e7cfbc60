// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "bitmma/acts/describe_quantize.hpp"
#include "bitmma/acts/quantized_file.hpp"
#include "flags.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct QuantizeFlags {
  Flag<std::string> file, recipe, out, tensor, type;
  Flag<std::optional<std::string>> torch_device;
  Flag<bool> packed = false, tiled = false, json = false;
  Flag<int> threads = 1;
};

constexpr std::array<FlagOfField, 4> flags_of_fields{
    {{"recipe", "--recipe"}, {"tensor", "--tensor"}, {"type", "--type"}, {"torch_device", "--torch-device"}}};

void run_quantize(Context& context, const QuantizeFlags& flags) {
  require_tensor_file_name(flags.out);
  const auto [report, made] = naming_flags(flags_of_fields, [&] {
    const QuantizeRecipe& recipe = recipe_named(flags.recipe);
    const std::optional<Format> type =
        flags.type.empty() ? std::nullopt : std::optional(require_format("--type", flags.type));
    const Matrix x = matrix_of_file(read_tensor_file(flags.file), flags.tensor, type);
    const std::optional<std::string>& device = flags.torch_device.get();
    const TorchDevice torch = torch_device_of(recipe, device ? std::optional<std::string_view>(*device) : std::nullopt);
    const Quantized quantized = quantize(recipe, x, torch, flags.threads);
    Report found = describe(recipe, x, quantized);
    const std::vector<Violation> warnings = warnings_of(recipe, quantized);
    found.add("warnings", warnings);
    print_warnings(context, warnings);
    return std::pair(std::move(found),
                     quantized_file(recipe, x, quantized, {.packed_codes = flags.packed, .tiled_scales = flags.tiled}));
  });
  const bool as_json = flags.json;
  context.require_flags_acted();
  write_tensor_file(flags.out, made);
  Report all = report;
  all.add("written", *flags.out);
  all.add_text(fmt::format("wrote {}", *flags.out));
  show(context, all, as_json);
}

}  // namespace

void add_quantize(Command& app, Context& context) {
  Command* command =
      app.add_command("quantize", "quantise a matrix as a library does before it multiplies, bit for bit");
  const auto flags = std::make_shared<QuantizeFlags>();
  command->add_input("file", flags->file, "safetensors or .npy file with a matrix of F32, F16 or BF16")->required();
  command
      ->add_option("--recipe", flags->recipe,
                   "the recipe, such as te_nvfp4 or torchao_mxfp8_e4m3; bitmma list recipes shows all")
      ->required();
  command->add_output("-o,--output", flags->out, "write codes, scales and the scale of the tensor to this file")
      ->required();
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
      "mxfp4.safetensors\nBlocks extend along the columns, which are K: a weight [N, K] needs no transposition. The "
      "written file has keys for the recipe, its project, version and commit.");
  command->callback([flags, &context] { run_quantize(context, *flags); });
}

}  // namespace bitmma::cli
