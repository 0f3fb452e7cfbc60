#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <map>

#include "bitmma/hardware/campaign.hpp"
#include "bitmma/hardware/run_file.hpp"
#include "bitmma/instruction/form.hpp"
#include "flags.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct GpuFlags {
  std::vector<std::string> files;
  std::string out, only, save = ".", family = "wgmma";
  int device = 0;
  bool campaign = false, json = false;
  CampaignOptions options;
  double outputs = 0;
  int threads = 1;
};

/// Compares what the GPU computed with the model, case by case. A case that the model refuses is said and counted.
Comparison compare_with_model(Context& context, const std::string& path, const VectorFile& from_gpu, int64_t& refused) {
  Comparison total;
  for (int64_t index = 0; index < from_gpu.cases; ++index) {
    const Case one = case_at(from_gpu, index);
    try {
      total += compare_case(one.instruction, index, computed_d(one), recorded_d(one));
    } catch (const Error& error) {
      ++refused;
      context.terminal.err << fmt::format("{}: case {}: the GPU ran it, the model refuses: {}\n", path, index,
                                          error.what());
    }
  }
  return total;
}

void run_files(Context& context, const GpuFlags& flags) {
  const std::vector<std::string> files = vector_files(flags.files);
  if (flags.out.empty())
    throw Error({.field = "-o", .seen = "(missing)", .expected = "a file, or a folder for several"});
  output_path(files.front(), flags.out, files.size());  // refuse before anything runs
  const Gpu gpu(flags.device);
  Comparison total;
  int64_t refused = 0;
  {
    ProgressLine progress(context, gpu.name(), static_cast<int64_t>(files.size()));
    for (size_t i = 0; i < files.size(); ++i) {
      const TensorFile result = run_file(read_vector_file(files[i]), gpu);
      write_tensor_file(output_path(files[i], flags.out, files.size()), result);
      const Comparison one = compare_with_model(context, files[i], as_vector_file(result), refused);
      if (one.mismatches > 0) {
        context.terminal.out << fmt::format("{}: {} of {} differ from the model, first {}\n", files[i], one.mismatches,
                                            counted(one.outputs, "output"), print(*one.first));
      }
      total += one;
      progress.update(static_cast<int64_t>(i) + 1);
    }
  }
  context.terminal.out << fmt::format("{} (sm_{}, driver {}): {}, {}, {}, {} differ from the model{}\n", gpu.name(),
                                      gpu.capability(), gpu.driver_version(),
                                      counted(static_cast<int64_t>(files.size()), "file"), counted(total.cases, "case"),
                                      counted(total.outputs, "output"), total.mismatches,
                                      refused ? fmt::format(", {} it refuses", counted(refused, "case")) : "");
  context.exit_code = total.mismatches == 0 && refused == 0 ? exit_same : exit_differs;
}

/// Draws a line on stderr: on a terminal one that is redrawn, in a log one every half minute.
class CampaignProgressLine {
 public:
  CampaignProgressLine(const Context& context, int64_t units) : terminal_(context.terminal), units_(units) {}
  ~CampaignProgressLine() {
    if (terminal_.progress) terminal_.err << "\r\033[K";
  }

  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count(); }
  void update(const CampaignRow& total) {
    const double now = seconds();
    if (now - last_line_ < (terminal_.progress ? 0.2 : 30)) return;
    last_line_ = now;
    const auto outputs = static_cast<double>(total.outputs);
    terminal_.err << fmt::format("{}{} of {}, {:.3g} outputs, {:.3g} outputs/s, {}{}",
                                 terminal_.progress ? "\r\033[K" : "", total.units, counted(units_, "unit"), outputs,
                                 outputs / now, counted_mismatches(total.mismatches), terminal_.progress ? "" : "\n")
                  << std::flush;
  }

 private:
  static std::string counted_mismatches(int64_t count) {
    return fmt::format("{} mismatch{}", count, count == 1 ? "" : "es");
  }

  const Terminal& terminal_;
  int64_t units_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  double last_line_ = 0;
};

CampaignOptions options_of(const GpuFlags& flags, const Gpu& gpu) {
  CampaignOptions options = flags.options;
  options.only = flags.only;
  options.threads = flags.threads;
  const std::map<std::string_view, Family> families{{"wgmma", Family::wgmma}, {"mma.sync", Family::mma_sync}};
  options.family = families.at(flags.family);
  for (const char* letter : {"a", ""}) {
    if (const auto target = target_named(fmt::format("sm_{}{}", gpu.capability(), letter))) {
      options.target = *target;
      break;
    }
  }
  options.save_folder = flags.save;
  options.source = gpu.name();
  options.provenance = provenance_of(gpu);
  if (!std::filesystem::is_directory(options.save_folder)) {
    throw Error({.field = "--save",
                 .seen = options.save_folder,
                 .expected = "an existing folder",
                 .fix = fmt::format("mkdir {}", options.save_folder)});
  }
  if (flags.outputs > 0) {
    options.units = static_cast<int64_t>(flags.outputs / static_cast<double>(options.outputs_per_unit)) + 1;
  }
  return options;
}

/// "2026-11-22": the day on which the campaign ran.
std::string date_of(const CampaignOptions& options) {
  for (const auto& [key, value] : options.provenance) {
    if (key == "date") return value;
  }
  return "unknown";
}

void run_campaign_command(Context& context, const GpuFlags& flags) {
  const Gpu gpu(flags.device);
  const CampaignOptions options = options_of(flags, gpu);
  const std::string target(print(options.target));
  CampaignReport report;
  double seconds = 0;
  {
    CampaignProgressLine line(context, options.units);
    const auto progress = [&](const CampaignRow& total) { line.update(total); };
    report = naming_flag("only", "--only", [&] { return run_campaign(options, gpu.executor(), progress); });
    seconds = line.seconds();
  }
  std::vector<std::vector<std::string>> table{
      {"instruction", "cases", "outputs", "special, subnormal, ties", "mismatches"}};
  Json rows = Json::array();
  const auto add = [&](const std::string& name, const CampaignRow& row) {
    table.push_back({name, std::to_string(row.cases), std::to_string(row.outputs), std::to_string(row.hard_outputs),
                     std::to_string(row.mismatches)});
    rows.push_back({{"instruction", name},
                    {"cases", row.cases},
                    {"outputs", row.outputs},
                    {"hard_outputs", row.hard_outputs},
                    {"mismatches", row.mismatches}});
  };
  for (const auto& [name, row] : report.rows) add(name, row);
  add("total", report.total);
  std::ostream& out = context.terminal.out;
  if (flags.json) {
    out << Json{{"gpu", gpu.name()},
                {"target", target},
                {"driver", gpu.driver_version()},
                {"cuda", gpu.cuda_version()},
                {"date", date_of(options)},
                {"seed", options.seed},
                {"first_unit", options.first_unit},
                {"next_unit", report.next_unit},
                {"outputs_per_unit", options.outputs_per_unit},
                {"seconds", seconds},
                {"rows", rows},
                {"saved", report.saved}}
               .dump(2)
        << '\n';
  } else {
    out << fmt::format("{} ({}), driver {}, CUDA {}, {}; seed {}, units {}..{} of about {}; {:.0f} s\n\n", gpu.name(),
                       target, gpu.driver_version(), gpu.cuda_version(), date_of(options), options.seed,
                       options.first_unit, report.next_unit - 1, counted(options.outputs_per_unit, "output"), seconds)
        << print_table(table);
    for (const std::string& path : report.saved) out << "saved " << path << '\n';
    if (report.next_unit < options.first_unit + options.units) {
      out << fmt::format("to go on: --first-unit {}\n", report.next_unit);
    }
  }
  context.exit_code = report.total.mismatches == 0 ? exit_same : exit_differs;
}

}  // namespace

void add_gpu(CLI::App& app, Context& context) {
  CLI::App* command =
      app.add_subcommand("gpu", "run vector files on a real GPU, or a campaign that checks the model against one");
  const auto flags = std::make_shared<GpuFlags>();
  command->add_option("files", flags->files, "vector files, and folders of them");
  command->add_option("-o,--output", flags->out, "file to write, or folder for several: the inputs with the GPU's D");
  command->add_option("--device", flags->device, "which GPU")->capture_default_str();
  command->add_flag("--campaign", flags->campaign,
                    "random cases of every legal instruction of a family instead of files");
  command->add_option("--family", flags->family, "campaign: wgmma or mma.sync")
      ->check(CLI::IsMember({"wgmma", "mma.sync"}))
      ->capture_default_str();
  command->add_option("--outputs", flags->outputs, "campaign: about how many outputs, such as 1e9");
  command
      ->add_option("--units", flags->options.units,
                   "campaign: how many units of work; 1074 meet every mnemonic once, of mma.sync on an H100 198")
      ->capture_default_str();
  command
      ->add_option("--unit-outputs", flags->options.outputs_per_unit,
                   "campaign: outputs of a unit; part of what a seed means")
      ->check(CLI::Range(1, 100000000))
      ->capture_default_str();
  command->add_option("--seconds", flags->options.seconds, "campaign: begin no unit after this time");
  command->add_option("--seed", flags->options.seed, "campaign: the same seed and unit make the same cases")
      ->capture_default_str();
  command->add_option("--first-unit", flags->options.first_unit, "campaign: where to begin, or to go on")
      ->capture_default_str();
  command->add_option("--only", flags->only, "campaign: only mnemonics that contain this text");
  command->add_option("--save", flags->save, "campaign: folder for mismatching cases")->capture_default_str();
  command->add_option("--max-saved", flags->options.max_saved, "campaign: save at most so many")->capture_default_str();
  command->add_flag("--json", flags->json, "campaign: the table as JSON");
  add_threads(*command, flags->threads);
  command->footer(
      "Examples:\n"
      "  bitmma gpu cases.safetensors -o from_gpu.safetensors     and compare them\n"
      "  bitmma gpu --campaign --outputs 1e9 --seed 7\n"
      "  bitmma gpu --campaign --family mma.sync --outputs 1e9 --seed 7\n"
      "  bitmma gpu --campaign --units 100 --only .sp --seconds 60\n"
      "Exit code 1 when the GPU and the model differ, 2 without a GPU that has the instruction.");
  command->callback([flags, &context] {
    if (flags->campaign == !flags->files.empty()) {
      throw Error({.field = "gpu",
                   .seen = flags->campaign ? "files and --campaign" : "neither files nor --campaign",
                   .expected = "one of them"});
    }
    flags->campaign ? run_campaign_command(context, *flags) : run_files(context, *flags);
  });
}

}  // namespace bitmma::cli
