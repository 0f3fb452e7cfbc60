// SPDX-License-Identifier: MIT
#include "exec.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "arguments.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/driver/gpus.hpp"
#include "flags.hpp"

namespace bitmma::cli {
namespace {

namespace fs = std::filesystem;

struct ExecFlags {
  Flag<std::string> gpu = "H100", memory = "4G", races = "fault", autotune = "first", json, record;
  Flag<std::optional<uint64_t>> clock;
  Flag<int> threads;
  Flag<bool> no_checks = false, quiet = false;
  Flag<std::vector<std::string>> words;  // before --
};

/// The folder of the libraries: beside the program in a build, and where they are installed.
fs::path library_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& folder : {program / "cuda", program / BITMMA_CUDA_FOLDER}) {
    if (fs::exists(folder / "libcuda.so.1", error)) return fs::weakly_canonical(folder);
  }
  throw Error({.code = ViolationCode::unusable_file,
               .field = "libcuda.so.1",
               .seen = fmt::format("neither in {} nor in {}", (program / "cuda").string(),
                                   (program / BITMMA_CUDA_FOLDER).lexically_normal().string()),
               .fix = "build component driver, which needs Linux with glibc: it is a part of the default build"});
}

/// The libraries of the folder that have to be there before those of the program.
std::vector<std::string> preloads(const fs::path& folder) {
  std::vector<std::string> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("libbitmma_preload")) paths.push_back(entry.path().string());
  }
  std::ranges::sort(paths);
  return paths;
}

/// 4G, 512M, 1e9 bytes and the like.
int64_t bytes_of(const std::string& text) {
  constexpr std::string_view units = "KMGT";
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const size_t unit = rest == end ? std::string_view::npos : units.find(*rest);
  const bool is_whole = rest == end || (unit != std::string_view::npos && rest + 1 == end);
  const int shift = rest == end ? 0 : 10 * (static_cast<int>(unit) + 1);
  if (error != std::errc() || !is_whole || number < 1 || number > int64_t{1} << 46 >> shift)
    throw Error({.field = "--memory", .seen = shortened(text), .expected = "bytes, or a number with K, M, G or T"});
  return number << shift;
}

void set(std::string_view name, const std::string& value) {
  setenv(fmt::format("BITMMA_EXEC_{}", name).c_str(), value.c_str(), 1);
}

void prepend(const char* name, const std::string& value) {
  const char* const before = std::getenv(name);
  setenv(name, before && *before ? fmt::format("{}:{}", value, before).c_str() : value.c_str(), 1);
}

/// Programs that look for CUDA's libraries by a path of their own, and the compilers that a program calls.
void set_compilers(const fs::path& folder) {
  prepend("LD_AUDIT", folder / "libbitmma_audit.so");
  const fs::path programs = folder / "bin";
  prepend("PATH", programs);
  for (const char* const name : {"TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"})
    setenv(name, (programs / "ptxas").c_str(), 1);
  setenv("PYTORCH_NVCC", (programs / "nvcc").c_str(), 1);
}

/// The command may run in another folder.
std::string absolute(const std::string& path) { return path.empty() ? "" : fs::absolute(path).string(); }

/// The report is written when the command has ended, which is late to say that it cannot be.
void require_folder_of(const std::string& flag, const std::string& path) {
  if (path.empty()) return;
  const fs::path folder = fs::absolute(path).parent_path();
  if (access(folder.c_str(), W_OK) == 0) return;
  throw Error({.code = ViolationCode::unusable_file,
               .field = flag,
               .seen = fmt::format("a file in {}: {}", shortened(folder.string()), std::strerror(errno))});
}

void execute(const Context& context, const ExecFlags& flags) {
  const std::vector<std::string>& words = flags.words;
  if (context.command.empty() || !words.empty())
    throw Error({.code = ViolationCode::missing_argument,
                 .field = "COMMAND",
                 .seen = words.empty() ? "missing" : fmt::format("{} before --", shortened(words.front())),
                 .expected = "a program and its arguments behind --",
                 .fix = fmt::format("bitmma exec -- {}", words.empty() ? "python train.py" : words.front())});
  require_folder_of("--json", flags.json);
  require_folder_of("--record", flags.record);
  const fs::path folder = library_folder();
  set("FOLDER", folder.string());
  set("GPU", flags.gpu);
  set("MEMORY", std::to_string(bytes_of(flags.memory)));
  set("THREADS", std::to_string(flags.threads));
  set("CHECKS", flags.no_checks ? "0" : "1");
  set("RACES", flags.races);
  set("CLOCK", flags.clock ? std::to_string(*flags.clock) : "");
  set("AUTOTUNE", flags.autotune);
  set("QUIET", flags.quiet ? "1" : "0");
  set("JSON", absolute(flags.json));
  set("RECORD", absolute(flags.record));
  set("PROCESS", std::to_string(getpid()));
  prepend("LD_LIBRARY_PATH", folder.string());
  for (const std::string& path : preloads(folder)) prepend("LD_PRELOAD", path);
  set_compilers(folder);
  context.require_flags_acted();
  context.stop_heartbeat();
  std::vector<char*> command;
  for (const std::string& word : context.command) command.push_back(const_cast<char*>(word.c_str()));
  command.push_back(nullptr);
  execvp(command[0], command.data());
  throw Error({.code = ViolationCode::unusable_file,
               .field = shortened(context.command.front()),
               .seen = fmt::format("cannot be run: {}", std::strerror(errno))});
}

}  // namespace

std::vector<std::string> take_command(std::vector<std::string>& arguments) {
  const auto end = std::ranges::find(arguments, "--");
  if (arguments.empty() || arguments.front() != "exec" || end == arguments.end()) return {};
  std::vector<std::string> command(end + 1, arguments.end());
  arguments.erase(end, arguments.end());
  return command;
}

void add_exec(Command& app, Context& context) {
  Command* command = app.add_command("exec", "run a CUDA program on the CPU, with the GPU's bits");
  const auto flags = std::make_shared<ExecFlags>();
  std::vector<std::string> names;
  for (const driver::Gpu& gpu : driver::gpus) names.emplace_back(gpu.name);
  one_of(command->add_option("--gpu", flags->gpu, "the GPU that the program has")->capture_default_str(), names);
  command->add_option("--memory", flags->memory, "the memory of the GPU")->capture_default_str();
  add_threads(*command, flags->threads);
  command->add_flag("--no-checks", flags->no_checks, "check only bounds and alignment of accesses: faster");
  one_of(command->add_option("--races", flags->races, "what a race in shared memory is")->capture_default_str(),
         {"fault", "warning", "off"});
  command->add_option(
      "--clock", flags->clock,
      "the first value of the clocks that kernels read, which count the instructions of a warp; without it 0, and the "
      "report names such kernels");
  one_of(
      command
          ->add_option("--autotune", flags->autotune,
                       "what autotuners measure: first makes the first configuration the fastest, all takes the time "
                       "of the CPU")
          ->capture_default_str(),
      {"first", "all"});
  command->add_output("--json", flags->json, "write a report of launches, faults and warnings to this file");
  command->add_output("--record", flags->record, "write every launch with its memory to this safetensors file");
  command->add_flag("--quiet", flags->quiet, "print no summary at the end");
  command->add_option("COMMAND", flags->words, "the program and its arguments, behind --")->group("");
  command->footer(
      "The command comes behind --. Its libcuda is bitmma's, so that CUDA programs, unchanged, run their PTX kernels "
      "here. "
      "Faults of kernels are reported with thread and line, and the program gets CUDA's error. Each process of the "
      "command "
      "has a report of its own: the command's own has the name of --json, that of another process has its number "
      "before "
      "the ending.\n"
      "Examples:\n"
      "  bitmma exec -- python3 softmax.py\n"
      "  bitmma exec --json report.json -- python3 -m pytest -q tests\n"
      "  bitmma exec --gpu H200 --memory 16G --races warning -- ./program");
  command->callback([flags, &context] { execute(context, *flags); });
}

}  // namespace bitmma::cli
