// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "bitmma/core/text.hpp"
#include "bitmma/hardware/run_file.hpp"
#include "flags.hpp"
#include "gpu_campaign.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct GpuRunFlags {
  Flag<std::vector<std::string>> files;
  Flag<std::string> out;
  Flag<int> device = 0;
  Flag<bool> json = false;
};

/// Runs file `index` on the GPU. Errors name the file.
TensorFile run_one(const Context& context, const std::vector<std::string>& files, size_t index, const Gpu& gpu) {
  try {
    const VectorFile vectors = read_vector_file(files[index]);
    require_consistent(vectors);
    return run_file(vectors, gpu);
  } catch (const Error&) {
    if (files.size() > 1) {
      context.terminal.err << fmt::format("{} of {} done; not done: {}:\n", index,
                                          counted(static_cast<int64_t>(files.size()), "file"), printable(files[index]));
    }
    throw;
  }
}

void run_files(Context& context, const GpuRunFlags& flags) {
  const std::vector<std::string> files = vector_files(flags.files);
  const std::vector<std::string> outputs = output_paths(files, flags.out);  // refuse before anything runs
  for (const std::string& output : outputs) require_tensor_file_name(output);
  Gpu gpu(flags.device);
  std::vector<FileOnGpu> done;
  {
    ProgressLine progress(context, gpu.name(), static_cast<int64_t>(files.size()));
    for (size_t i = 0; i < files.size(); ++i) {
      const TensorFile result = run_one(context, files, i, gpu);
      write_tensor_file(outputs[i], result);
      done.push_back(compare_with_model(files[i], as_vector_file(result)));
      if (!flags.json) show(context, describe(done.back()), false);
      progress.update(static_cast<int64_t>(i) + 1);
    }
  }
  show(context, describe(done, gpu), flags.json);
  print_warnings(context, gpu.close());
  context.exit_code = differ_from_model(done) ? exit_differs : exit_same;
}

void add_gpu_run(Command& gpu, Context& context) {
  Command* command = gpu.add_command("run", "run vector files on a real GPU and compare D with the model");
  const auto flags = std::make_shared<GpuRunFlags>();
  command->add_input("files", flags->files, "vector files, and folders of them")->required();
  command
      ->add_output("-o,--output", flags->out,
                   "write the inputs with the GPU's D to this file, or for several inputs to this folder")
      ->required();
  command->add_option("--device", flags->device, "which GPU")->capture_default_str();
  command->add_flag("--json", flags->json, "print the comparisons as JSON");
  command->footer(
      "Example:\n"
      "  bitmma gpu run cases.safetensors -o from_gpu.safetensors\n"
      "Exit code 1 if the GPU and the model differ; 2 if no GPU has the instruction, if the GPU fails, or if nothing "
      "was\n"
      "compared.");
  command->callback([flags, &context] { run_files(context, *flags); });
}

}  // namespace

void add_gpu(Command& app, Context& context) {
  Command* command =
      app.add_command("gpu", "run vector files or random cases on a real GPU and compare it with the model");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n"
      "  bitmma gpu run cases.safetensors -o from_gpu.safetensors\n"
      "  bitmma gpu campaign --outputs 1e9 --seed 7\n"
      "bitmma survey measures what has not been measured yet.");
  add_gpu_run(*command, context);
  add_gpu_campaign(*command, context);
}

void require_hardware(const std::vector<std::string>&) {}

}  // namespace bitmma::cli
