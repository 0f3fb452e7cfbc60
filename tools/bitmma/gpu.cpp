#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bitmma/gpu/campaign.hpp"
#include "bitmma/instruction/legality.hpp"
#include "bitmma/instruction/ptx_kernel.hpp"
#include "bitmma/io/file.hpp"
#include "bitmma/io/golden.hpp"
#include "commands.hpp"

namespace bitmma::cli {
namespace {

using Json = nlohmann::ordered_json;

struct PtxFlags {
  std::string what, out, target;
  int64_t image_bytes = 0;
  int columns = 128;
};

/// The kernel of a file's instruction, or of a mnemonic with what flags say about memory.
std::string kernel_of(const PtxFlags& flags) {
  if (!std::filesystem::exists(flags.what)) {
    if (is_tmem_move(flags.what))
      return tcgen05_kernel(parse_tmem_move(flags.what), flags.image_bytes, flags.columns,
                            flags.target.empty() ? "sm_100a" : flags.target);
    const Instruction instruction = parse_instruction(flags.what);
    if (instruction.family == Family::tcgen05) {
      // Shape and types are operands of the kernel: any of the kind will do.
      for (const Instruction& legal : all_tcgen05_mnemonics()) {
        if (print(legal) == print(instruction))
          return tcgen05_kernel(legal, flags.image_bytes, flags.columns,
                                flags.target.empty() ? ptx_target(legal) : flags.target);
      }
      throw Error(
          {.field = "instruction", .seen = print(instruction), .legal = "a mnemonic of bitmma list --mnemonics"});
    }
    require_legal(instruction);
    return ptx_kernel(instruction, flags.image_bytes);
  }
  const VectorFile read = read_vector_file(flags.what);
  const auto image_of = [](const VectorFile& vectors) {
    const Tensor* smem = vectors.file.find("smem");
    return smem ? smem->shape.back() : 0;
  };
  if (read.move || read.is_tcgen05()) {
    const auto columns = static_cast<int>(read.file.find("tmem")->shape[3]);
    if (read.move)
      return tcgen05_kernel(*read.move, image_of(read), columns, flags.target.empty() ? "sm_100a" : flags.target);
    const Instruction first = tcgen05_case_at(read, 0).instruction;
    return tcgen05_kernel(first, image_of(read), columns, flags.target.empty() ? ptx_target(first) : flags.target);
  }
  const VectorFile vectors = laid_out(read, {}, {});
  return ptx_kernel(vectors.instruction, vectors.instruction.family == Family::mma_sync ? 0 : image_of(vectors));
}

void run_ptx(Context& context, const PtxFlags& flags) {
  const std::string text = kernel_of(flags);
  if (flags.out.empty())
    context.terminal.out << text;
  else
    write_whole(flags.out, [&](std::ostream& stream) { stream << text; });
}

struct GpuFlags {
  std::vector<std::string> files;
  std::string out, only, save = ".";
  int device = 0;
  bool campaign = false, json = false;
  CampaignOptions options;
  double outputs = 0;
  int threads = 1;
};

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return fmt::format("{:04}-{:02}-{:02}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday);
}

std::vector<std::pair<std::string, std::string>> provenance_of(const Gpu& gpu) {
  return {{"driver", gpu.driver_version()}, {"cuda", gpu.cuda_version()}, {"date", today()}};
}

/// `vectors` with the results of the GPU.
TensorFile run_file(Gpu& gpu, const VectorFile& vectors) {
  if (!vectors.move && !vectors.is_tcgen05()) {
    std::vector<VectorCase> cases;
    std::vector<Machine> machines;
    for (int64_t index = 0; index < vectors.cases; ++index) cases.push_back(case_at(vectors, index));
    // A case without C still has registers to load.
    const std::vector<uint32_t> no_c(static_cast<size_t>(d_fragment(vectors.instruction).words()));
    for (const VectorCase& one : cases) {
      machines.push_back(one.view());
      if (machines.back().c_regs.empty()) machines.back().c_regs = no_c;
    }
    std::vector<BitMatrix> d;
    for (const std::vector<uint32_t>& registers : gpu.run(vectors.instruction, machines)) {
      d.push_back(gather(registers, d_fragment(vectors.instruction), vectors.instruction.d, "d_regs"));
    }
    return with_d(vectors, d, gpu.name());
  }
  const auto columns = static_cast<int>(vectors.file.find("tmem")->shape[3]);
  VectorBuilder builder = vectors.move ? VectorBuilder(*vectors.move) : VectorBuilder(vectors.instruction);
  if (vectors.move) {
    std::vector<TmemMoveCase> cases;
    for (int64_t index = 0; index < vectors.cases; ++index) cases.push_back(move_case_at(vectors, index));
    std::vector<TmemMoveMachine> machines;
    for (const TmemMoveCase& one : cases) machines.push_back(one.view());
    for (std::vector<uint32_t>& words : gpu.run(*vectors.move, machines)) {
      builder.begin_case();
      TmemMoveResult result;
      (vectors.move->kind == MoveKind::ld ? result.regs : result.tmem) = std::move(words);
      builder.add_result(result, columns);
    }
    return with_results(vectors, std::move(builder).finish({}).tensors, gpu.name());
  }
  // Descriptor and immediates may differ from case to case, and are part of the kernel or its launch: a run for each.
  const bool logical_d_too = wants_logical_d(vectors);
  for (int64_t index = 0; index < vectors.cases; ++index) {
    const Tcgen05Case one = tcgen05_case_at(vectors, index);
    const Tcgen05Machine machine = one.view();
    const std::vector<uint32_t> after = gpu.run(one.instruction, std::span(&machine, 1)).front();
    builder.begin_case();
    builder.add_tmem_after(after, columns);
    if (logical_d_too) builder.add_logical_d(gather_d(one.instruction, machine.registers.d_tmem, after, columns));
  }
  return with_results(vectors, std::move(builder).finish({}).tensors, gpu.name());
}

void run_files(Context& context, const GpuFlags& flags) {
  const std::vector<std::string> files = vector_files(flags.files);
  if (flags.out.empty()) throw Error({.field = "-o", .seen = "(missing)", .legal = "a file, or a folder for several"});
  target_of(files.front(), flags.out, files.size());  // refuse before anything runs
  Gpu gpu(flags.device);
  Comparison total;
  int64_t refused = 0;
  ProgressLine progress(context, gpu.name(), static_cast<int64_t>(files.size()));
  for (size_t i = 0; i < files.size(); ++i) {
    const VectorFile vectors = laid_out(read_vector_file(files[i]), {}, {});
    TensorFile result = run_file(gpu, vectors);
    for (auto& [key, value] : provenance_of(gpu)) result.set_metadata(key, std::move(value));
    write_tensor_file(target_of(files[i], flags.out, files.size()), result);
    VectorFile from_gpu = vectors;
    from_gpu.file = std::move(result);
    Comparison one;
    for (int64_t index = 0; index < vectors.cases; ++index) {
      try {
        one += compare_case(vectors, index, computed_d(vectors, index), recorded_d(from_gpu, index));
      } catch (const Error& error) {
        ++refused;
        context.terminal.err << fmt::format("{}: case {}: the GPU ran it, the model refuses: {}\n", files[i], index,
                                            error.what());
      }
    }
    if (one.mismatches > 0)
      context.terminal.out << fmt::format("{}: {} of {} outputs differ from the model, first {}\n", files[i],
                                          one.mismatches, one.outputs, print(*one.first));
    total += one;
    progress.update(static_cast<int64_t>(i) + 1);
  }
  context.terminal.out << fmt::format("{} (driver {}): {} files, {} cases, {} outputs, {} differ from the model{}\n",
                                      gpu.name(), gpu.driver_version(), files.size(), total.cases, total.outputs,
                                      total.mismatches, refused ? fmt::format(", {} cases it refuses", refused) : "");
  context.exit_code = total.mismatches == 0 && refused == 0 ? exit_same : exit_differs;
}

void run_campaign_command(Context& context, const GpuFlags& flags) {
  Gpu gpu(flags.device);
  CampaignOptions options = flags.options;
  options.only = flags.only;
  options.threads = flags.threads;
  options.save_folder = flags.save;
  options.source = gpu.name();
  options.provenance = provenance_of(gpu);
  if (!std::filesystem::is_directory(options.save_folder)) {
    throw Error({.field = "--save",
                 .seen = options.save_folder,
                 .legal = "an existing folder",
                 .fix = fmt::format("mkdir {}", options.save_folder)});
  }
  if (flags.outputs > 0)
    options.units = static_cast<int64_t>(flags.outputs / static_cast<double>(options.outputs_per_unit)) + 1;
  const auto started = std::chrono::steady_clock::now();
  double last_line = 0;
  const CampaignReport report = run_campaign(
      options,
      [&](const Instruction& instruction, std::span<const Machine> cases) { return gpu.run(instruction, cases); },
      [&](const CampaignRow& total) {
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
        // On a terminal a line that is redrawn, in a log a line every half minute.
        if (seconds - last_line < (context.terminal.progress ? 0.2 : 30)) return;
        last_line = seconds;
        context.terminal.err << fmt::format("{}{} of {} units, {:.3g} outputs, {:.3g} outputs/s, {} mismatches{}",
                                            context.terminal.progress ? "\r\033[K" : "", total.units, options.units,
                                            double(total.outputs), double(total.outputs) / seconds, total.mismatches,
                                            context.terminal.progress ? "" : "\n")
                             << std::flush;
      });
  if (context.terminal.progress) context.terminal.err << "\r\033[K";
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
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
                {"driver", gpu.driver_version()},
                {"cuda", gpu.cuda_version()},
                {"date", today()},
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
    out << fmt::format("{}, driver {}, CUDA {}, {}; seed {}, units {}..{} of about {} outputs; {:.0f} s\n\n",
                       gpu.name(), gpu.driver_version(), gpu.cuda_version(), today(), options.seed, options.first_unit,
                       report.next_unit - 1, options.outputs_per_unit, seconds)
        << print_table(table);
    for (const std::string& path : report.saved) out << "saved " << path << '\n';
    if (report.next_unit < options.first_unit + options.units)
      out << fmt::format("to go on: --first-unit {}\n", report.next_unit);
  }
  context.exit_code = report.total.mismatches == 0 ? exit_same : exit_differs;
}

}  // namespace

void add_ptx(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("ptx", "the PTX kernel that executes a file's instruction on hardware");
  const auto flags = std::make_shared<PtxFlags>();
  command->add_option("what", flags->what, "vector file, or PTX mnemonic")->required();
  command->add_option("-o,--output", flags->out, "file to write; without it the kernel is printed");
  command
      ->add_option("--target", flags->target, "tcgen05: sm_100a or sm_103a; default the first that has the instruction")
      ->check(CLI::IsMember({"sm_100a", "sm_103a"}));
  command->add_option("--columns", flags->columns, "tcgen05: columns of Tensor Memory, for mnemonics")
      ->check(CLI::Range(1, 512))
      ->capture_default_str();
  command->add_option("--image-bytes", flags->image_bytes, "shared-memory image, for mnemonics")
      ->check(CLI::Range(0, 231424))
      ->capture_default_str();
  command->footer(
      "Examples:\n"
      "  bitmma ptx case.safetensors -o case.ptx && ptxas -arch=sm_90a case.ptx\n"
      "  bitmma ptx wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16\n"
      "  bitmma ptx tcgen05.mma.cta_group::2.kind::f16 --image-bytes 65536 --columns 256");
  command->callback([flags, &context] { run_ptx(context, *flags); });
}

void add_gpu(CLI::App& app, Context& context) {
  CLI::App* command =
      app.add_subcommand("gpu", "run vector files on a real GPU, or a campaign that checks the model against one");
  const auto flags = std::make_shared<GpuFlags>();
  command->add_option("files", flags->files, "vector files, and folders of them");
  command->add_option("-o,--output", flags->out, "file to write, or folder for several: the inputs with the GPU's D");
  command->add_option("--device", flags->device, "which GPU")->capture_default_str();
  command->add_flag("--campaign", flags->campaign, "random cases of every legal instruction instead of files");
  command->add_option("--outputs", flags->outputs, "campaign: about how many outputs, such as 1e9");
  command
      ->add_option("--units", flags->options.units, "campaign: how many units of work; 1074 meet every mnemonic once")
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
      "  bitmma gpu --campaign --units 100 --only .sp --seconds 60\n"
      "Exit code 1 when the GPU and the model differ, 2 without a GPU that has the instruction.");
  command->callback([flags, &context] {
    if (flags->campaign == !flags->files.empty()) {
      throw Error({.field = "gpu",
                   .seen = flags->campaign ? "files and --campaign" : "neither files nor --campaign",
                   .legal = "one of them"});
    }
    flags->campaign ? run_campaign_command(context, *flags) : run_files(context, *flags);
  });
}

}  // namespace bitmma::cli
