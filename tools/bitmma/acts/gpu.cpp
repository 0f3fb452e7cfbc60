// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>

#include "arguments.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/files/file.hpp"
#include "bitmma/hardware/campaign.hpp"
#include "bitmma/hardware/run_file.hpp"
#include "bitmma/hardware/word_campaign.hpp"
#include "bitmma/instruction/form.hpp"
#include "flags.hpp"
#include "output.hpp"
#include "signals.hpp"
#include "status_line.hpp"

namespace bitmma::cli {
namespace {

struct GpuRunFlags {
  Flag<std::vector<std::string>> files;
  Flag<std::string> out;
  Flag<int> device = 0;
  Flag<bool> json = false;
};

struct CampaignFlags {
  Flag<std::string> only, save = ".", family = "wgmma";
  Flag<std::vector<std::string>> kernels;
  Flag<int> device = 0, threads = 1;
  Flag<bool> json = false;
  Flag<int64_t> units = CampaignOptions{}.units, unit_outputs = CampaignOptions{}.outputs_per_unit;
  Flag<int64_t> first_unit = 0, max_saved = CampaignOptions{}.max_saved;
  Flag<double> seconds = 0;
  Flag<uint64_t> seed = 0;
  Flag<std::optional<double>> outputs;
};

const std::map<std::string, Family> families{{"wgmma", Family::wgmma},
                                             {"mma.sync", Family::mma_sync},
                                             {"tcgen05.mma", Family::tcgen05},
                                             {"tcgen05-moves", Family::tmem_move}};

constexpr std::array<FlagOfField, 8> campaign_flags{{{"only", "--only"},
                                                     {"units", "--units"},
                                                     {"first_unit", "--first-unit"},
                                                     {"outputs_per_unit", "--unit-outputs"},
                                                     {"seconds", "--seconds"},
                                                     {"max_saved", "--max-saved"},
                                                     {"threads", "--threads"},
                                                     {"family", "--family"}}};

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
  int64_t outputs_compared = 0, wrong = 0;
  for (const FileOnGpu& file : done) {
    const auto refused = static_cast<int64_t>(file.refused.size());
    outputs_compared += file.comparison.outputs + refused;
    wrong += file.comparison.mismatches + refused;
  }
  if (outputs_compared == 0)
    throw Error({.field = "outputs", .seen = "0", .expected = "1 or more", .fix = "nothing was compared"});
  context.exit_code = wrong == 0 ? exit_same : exit_differs;
}

std::string progress_text(const CampaignRow& total, int64_t units, double seconds) {
  const auto outputs = static_cast<double>(total.outputs);
  return fmt::format("{} of {}, {:.3g} outputs, {:.3g} outputs/s, {} mismatch{}", total.units, counted(units, "unit"),
                     outputs, outputs / seconds, total.mismatches, total.mismatches == 1 ? "" : "es");
}

/// The number of units with approximately this number of outputs.
int64_t units_of(double outputs, int64_t outputs_per_unit) {
  const double most = static_cast<double>(campaign_units - 1) * static_cast<double>(outputs_per_unit);
  if (outputs >= 1 && outputs <= most) return static_cast<int64_t>(outputs / static_cast<double>(outputs_per_unit)) + 1;
  throw Error({.field = "--outputs", .seen = fmt::format("{}", outputs), .expected = fmt::format("1..{:.3g}", most)});
}

/// The options from the flags, checked before looking for a GPU.
CampaignOptions options_of(const CampaignFlags& flags) {
  CampaignOptions options;
  options.units = flags.units;
  options.outputs_per_unit = flags.unit_outputs;
  options.first_unit = flags.first_unit;
  options.max_saved = flags.max_saved;
  options.seconds = flags.seconds;
  options.seed = flags.seed;
  options.only = flags.only;
  options.threads = flags.threads;
  options.family = families.at(flags.family);
  options.save_folder = flags.save;
  naming_flags(campaign_flags, [&] { require_valid(options); });
  std::error_code error;
  if (!std::filesystem::is_directory(options.save_folder, error)) {
    throw Error({.field = "--save",
                 .seen = options.save_folder,
                 .expected = "an existing folder",
                 .fix = fmt::format("mkdir {}", options.save_folder)});
  }
  if (flags.outputs) {
    options.units = units_of(*flags.outputs, options.outputs_per_unit);
    const int64_t left = campaign_units - options.first_unit;
    if (options.units > left) {
      throw Error({.field = "--outputs",
                   .seen = fmt::format("{}", *flags.outputs),
                   .expected = fmt::format("outputs of {}", counted(left, "unit")),
                   .fix = "there are no more units from --first-unit on"});
    }
  }
  return options;
}

/// The name and versions that the GPU reports.
void add_device(CampaignOptions& options, const Gpu& gpu) {
  options.target = target_of(gpu).value_or(options.target);
  options.source = gpu.name();
  options.provenance = provenance_of(gpu);
}

/// How a campaign ended.
struct CampaignEnd {
  CampaignReport report = {};
  double seconds = 0;
  std::string_view signal = {};         // the signal that interrupted it before the last unit; empty: none
  std::vector<Violation> failure = {};  // the error that ended it; empty: none
};

CampaignEnd run_to_its_end(const Context& context, CampaignOptions options, const Gpu& gpu) {
  CampaignEnd end;
  const Interrupts interrupts;
  StatusLine line(context);
  options.stop = [&] { return interrupts.asked(); };
  end.report = naming_flags(campaign_flags, [&] {
    try {
      return run_campaign(options, gpu.executor(), [&](const CampaignRow& total) {
        line.update([&] { return progress_text(total, options.units, line.seconds()); });
      });
    } catch (const CampaignError& error) {
      end.failure = error.violations();
      return error.report;
    }
  });
  end.seconds = line.seconds();
  if (end.failure.empty() && end.report.next_unit < options.first_unit + options.units) end.signal = interrupts.name();
  return end;
}

/// "done", "--seconds", "SIGINT" or the error.
std::string ended_by(const CampaignEnd& end, const CampaignOptions& options) {
  if (!end.failure.empty()) return print(end.failure.front());
  if (!end.signal.empty()) return std::string(end.signal);
  return end.report.next_unit < options.first_unit + options.units ? "--seconds" : "done";
}

/// Families of word functions, in addition to those of instructions.
constexpr std::array<std::string_view, 3> word_families{"math", "cvt", "c-functions"};

bool is_word_family(std::string_view name) { return std::ranges::find(word_families, name) != word_families.end(); }

constexpr std::array<FlagOfField, 4> word_campaign_flags{
    {{"only", "--only"}, {"arguments", "--outputs"}, {"seconds", "--seconds"}, {"threads", "--threads"}}};

std::vector<WordFunction> word_functions(std::string_view name, const std::vector<std::string>& modules,
                                         const Gpu& gpu) {
  if (name == "c-functions") return c_word_functions(modules);
  const std::optional<Target> target = target_of(gpu);
  if (!target) throw Error({.field = "GPU", .seen = gpu.name(), .expected = "a GPU that this version knows"});
  return name == "math" ? math_word_functions(*target) : cvt_word_functions(*target);
}

/// Runs a campaign over word functions of the layer math.
void run_word_campaign_command(Context& context, const CampaignFlags& flags) {
  WordCampaignOptions options;
  options.only = flags.only;
  options.seed = flags.seed;
  options.seconds = flags.seconds;
  options.threads = flags.threads;
  if (flags.outputs) {
    if (!(*flags.outputs >= 1 && *flags.outputs <= 1e12))
      throw Error({.field = "--outputs", .seen = fmt::format("{}", *flags.outputs), .expected = "1..1e12"});
    options.arguments = static_cast<int64_t>(*flags.outputs);
  }
  const std::string_view name = flags.family;
  const bool compiled = name == "c-functions";
  if (compiled == flags.kernels.get().empty()) {
    throw Error({.code = ViolationCode::not_together,
                 .field = fmt::format("--family {}", name),
                 .seen = compiled ? "no --kernels" : "--kernels",
                 .expected = "the cubin of the c-functions, compiled with nvcc: use --kernels",
                 .fix = "nvcc -arch=sm_90a -cubin lab/c_functions.cu"});
  }
  std::vector<std::string> modules;
  for (const std::string& path : *flags.kernels) modules.push_back(read_whole(path));
  if (compiled) c_word_functions(modules);  // report a file without kernels before looking for a GPU
  const int device = flags.device;
  context.require_flags_acted();
  Gpu gpu(device);
  options.source = gpu.name();
  options.provenance = provenance_of(gpu);
  const Interrupts interrupts;
  options.stop = [&] { return interrupts.asked(); };
  WordCampaignReport report;
  double seconds = 0;
  {
    StatusLine line(context);
    report = naming_flags(word_campaign_flags, [&] {
      return run_word_campaign(word_functions(name, modules, gpu), options, word_executor(gpu),
                               [&](const WordFunction& function, int64_t arguments, int64_t of) {
                                 line.update([&] {
                                   return fmt::format("{}: {:.0f} % of {:.3g} arguments", function.name,
                                                      100.0 * static_cast<double>(arguments) / static_cast<double>(of),
                                                      static_cast<double>(of));
                                 });
                               });
    });
    seconds = line.seconds();
  }
  show(context, describe(report, options, seconds), flags.json);
  print_warnings(context, gpu.close());
  const bool differs = std::ranges::any_of(report.rows, [](const auto& row) { return row.differing > 0; });
  context.exit_code = differs ? exit_differs : report.stopped ? exit_bad_request : exit_same;
}

void run_campaign_command(Context& context, const CampaignFlags& flags) {
  if (is_word_family(*flags.family)) return run_word_campaign_command(context, flags);
  CampaignOptions options = options_of(flags);
  Gpu gpu(flags.device);
  add_device(options, gpu);
  const CampaignEnd end = run_to_its_end(context, options, gpu);
  const CampaignRow& total = end.report.total;
  if (total.units > 0) show(context, describe(end.report, options, end.seconds, ended_by(end, options)), flags.json);
  std::ostream& err = context.terminal.err;
  for (const auto& [unit, case_index, cases, reason] : end.report.not_saved) {
    err << fmt::format("warning: unit {}, case {}: its mismatch was not saved: {}{}\n", unit, case_index,
                       printable(reason),
                       cases == 1 ? "" : fmt::format(", and neither were {} after it", counted(cases - 1, "case")));
  }
  print_warnings(context, gpu.close());
  if (!end.signal.empty()) err << fmt::format("interrupted by {} after {}\n", end.signal, counted(total.units, "unit"));
  if (!end.failure.empty()) throw Error(end.failure);
  if (total.outputs == 0) {
    throw Error(
        {.field = "outputs",
         .seen = "0",
         .expected = "1 or more",
         .fix = fmt::format("nothing was compared before the campaign was ended by {}", ended_by(end, options))});
  }
  if (total.mismatches > 0) context.exit_code = exit_differs;
  else context.exit_code = end.signal.empty() ? exit_same : exit_bad_request;
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

void add_gpu_campaign(Command& gpu, Context& context) {
  Command* command = gpu.add_command(
      "campaign",
      "run random cases of every legal instruction of a family on a real GPU, and compare it with the model");
  const auto flags = std::make_shared<CampaignFlags>();
  command->add_option("--device", flags->device, "which GPU")->capture_default_str();
  std::vector<std::string> names(word_families.begin(), word_families.end());
  for (const auto& [name, family] : families) names.push_back(name);
  command
      ->add_option("--family", flags->family,
                   "the family: wgmma, mma.sync, tcgen05.mma, tcgen05-moves, math, cvt or c-functions")
      ->capture_default_str();
  one_of(command->get_option("--family"), names);
  command->add_input("--kernels", flags->kernels,
                     "for c-functions: the compiled lab/c_functions.cu and c_functions_triton.py");
  command->add_option("--outputs", flags->outputs, "approximate number of outputs, such as 1e9")
      ->excludes(
          command
              ->add_option(
                  "--units", flags->units,
                  "number of units of work; 1074 cover every mnemonic of wgmma once, 198 those of mma.sync on an H100")
              ->capture_default_str());
  command
      ->add_option("--unit-outputs", flags->unit_outputs,
                   "outputs per unit; another number gives other cases for the same seed")
      ->capture_default_str();
  command->add_option("--seconds", flags->seconds, "start no unit after this many seconds; 0 means no limit")
      ->capture_default_str();
  command->add_option("--seed", flags->seed, "seed of the cases; the same seed and unit give the same cases")
      ->capture_default_str();
  command->add_option("--first-unit", flags->first_unit, "number of the first unit, for example to continue a campaign")
      ->capture_default_str();
  command->add_option("--only", flags->only, "run only mnemonics that contain this text");
  command->add_output("--save", flags->save, "save mismatching cases in this folder")->capture_default_str();
  command->add_option("--max-saved", flags->max_saved, "save at most this many cases")->capture_default_str();
  command->add_flag("--json", flags->json, "print the table as JSON");
  add_threads(*command, flags->threads);
  command->footer(
      "Examples:\n  bitmma gpu campaign --outputs 1e9 --seed 7\n  bitmma gpu campaign --family mma.sync --outputs 1e9 "
      "--seed 7\n  bitmma gpu campaign --units 100 --only .sp --seconds 60\n  bitmma gpu campaign --family math "
      "--threads 0\n  bitmma gpu campaign --family c-functions --kernels c_functions.cubin --only expf\nIn math and "
      "c-functions, functions of one argument are run for all 2^32 words, others for --outputs random operands.\nAn "
      "interrupt ends the campaign after the running units and prints the table and the next unit; a second interrupt "
      "ends it at once.\nExit code 1 when the GPU and the model differ, 2 without a GPU that has the instruction, when "
      "the GPU fails, when\nnothing was compared, and after an interrupt.");
  command->callback([flags, &context] { run_campaign_command(context, *flags); });
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

}  // namespace bitmma::cli
