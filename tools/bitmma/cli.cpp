#include "cli.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "bitmma/core/error.hpp"
#include "bitmma/core/version.hpp"
#include "commands.hpp"

namespace bitmma::cli {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string colored(const Context& context, int code, const std::string& text) {
  return context.terminal.color ? fmt::format("\033[{}m{}\033[0m", code, text) : text;
}

void print_warnings(const Context& context, const std::vector<Violation>& warnings) {
  for (const Violation& warning : warnings) context.terminal.err << "warning: " << print(warning) << '\n';
}

ProgressLine::ProgressLine(const Context& context, std::string what, int64_t total)
    : context_(context), what_(std::move(what)), total_(total), started_(seconds_now()) {}

ProgressLine::~ProgressLine() {
  if (drawn_ > 0) context_.terminal.err << "\r\033[K" << std::flush;
}

void ProgressLine::update(int64_t done) {
  const double now = seconds_now();
  if (!context_.terminal.progress || now - started_ < 0.5 || now - drawn_ < 0.2) return;
  drawn_ = now;
  const double rate = static_cast<double>(done) / (now - started_);
  const double left = rate > 0 ? static_cast<double>(total_ - done) / rate : 0;
  context_.terminal.err << fmt::format("\r\033[K{}: {} of {} cases, {:.0f} cases/s, {:.0f} s left", what_, done, total_,
                                       rate, left)
                        << std::flush;
}

void add_immediates(CLI::App& command, Instruction& instruction) {
  command.add_option("--imm-scale-a", instruction.imm_scale_a, "1, or -1 to negate A");
  command.add_option("--imm-scale-b", instruction.imm_scale_b, "1, or -1 to negate B");
  command.add_option("--scale-d", instruction.scale_d, "1: D = A*B + C; 0: D = A*B, C is not read");
  command.add_option("--sparsity-selector", instruction.sparsity_selector, "sp-sel of .sp forms");
}

void LayoutFlags::add(CLI::App& command) {
  command
      .add_option("--layout-a", a,
                  "k-major or mn-major, then :none, :32, :64 or :128 bytes of swizzle; :128-atom32 for MN-major tf32 "
                  "of tcgen05; then @BYTES to begin inside the pattern")
      ->capture_default_str();
  command.add_option("--layout-b", b, "the same for B")->capture_default_str();
  command.add_option("--padding", padding_bytes, "bytes added to the smallest strides, a multiple of 16")
      ->capture_default_str();
}

std::string print_arithmetic(const VectorFile& vectors) {
  if (vectors.move)
    return fmt::format("moves bits; {}",
                       bitmma::choices_of(*vectors.move).empty() ? "as PTX documents it" : "model choice");
  return fmt::format("{}; {}", print_rule(model_for(vectors.instruction)), print(evidence_of(vectors.instruction)));
}

std::vector<Choice> choices_of(const VectorFile& vectors) {
  if (vectors.move) return bitmma::choices_of(*vectors.move);
  std::vector<Choice> choices = bitmma::choices_of(vectors.instruction);
  bool has_base_offset = false;
  for (int64_t index = 0; vectors.is_tcgen05() && index < vectors.cases; ++index) {
    const Tcgen05Case one = tcgen05_case_at(vectors, index);
    for (const uint64_t word : {one.state.registers.a_desc, one.state.registers.b_desc})
      has_base_offset |= decode_smem_descriptor(Arch::sm_100a, word).base_offset != 0;
  }
  if (has_base_offset) choices.push_back({"base offset acts as measured on Hopper"});
  return choices;
}

std::string print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const bool right = rows.size() > 1 && i < rows[1].size() && is_number(rows[1][i]);
      line += (i ? "  " : "") +
              (right ? fmt::format("{:>{}}", row[i], widths[i]) : fmt::format("{:<{}}", row[i], widths[i]));
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    text += line + '\n';
  }
  return text;
}

std::optional<uint64_t> parse_word(const std::string& text) {
  if (text.starts_with("-")) return std::nullopt;
  try {
    size_t used = 0;
    const uint64_t word = std::stoull(text, &used, 0);
    return used == text.size() ? std::optional(word) : std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::string target_of(const std::string& input, const std::string& output, size_t files) {
  const bool folder = std::filesystem::is_directory(output);
  if (files > 1 && !folder) {
    throw Error({.field = "-o",
                 .seen = output,
                 .legal = "an existing folder when there are several files",
                 .fix = fmt::format("mkdir {}", output)});
  }
  return folder ? (std::filesystem::path(output) / std::filesystem::path(input).filename()).string() : output;
}

std::vector<std::string> vector_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (entry.is_regular_file() && entry.path().extension() == ".safetensors") found.push_back(entry.path().string());
    }
    if (found.empty()) {
      throw Error({.field = path, .seen = "a folder without vector files", .legal = "*.safetensors in it or below"});
    }
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

int run(const std::vector<std::string>& arguments, Terminal terminal) {
  Context context{.terminal = terminal};
  CLI::App app("bitmma: what NVIDIA's matrix instructions compute, bit for bit, without the GPU", "bitmma");
  app.set_version_flag("--version", version());
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "help of every command");
  app.footer(
      "Examples:\n"
      "  bitmma verify data/golden/sm_90a                 recompute every recorded D and compare\n"
      "  bitmma simulate case.safetensors -o out.safetensors\n"
      "  bitmma decode 0x4000004000010000                 what does this descriptor say?\n"
      "Exit codes: 0 same or done, 1 differs, 2 bad request.");
  add_simulate(app, context);
  add_golden(app, context);
  add_verify(app, context);
  add_compare(app, context);
  add_decode(app, context);
  add_encode(app, context);
  add_layout(app, context);
  add_list(app, context);
  add_explain(app, context);
  add_diagnose(app, context);
  add_ptx(app, context);
  add_gpu(app, context);
  add_bench(app, context);
  try {
    // CLI11 would only say that a subcommand is required.
    std::string verbs;
    bool known = arguments.empty() || arguments[0].starts_with("-");
    for (const CLI::App* verb : app.get_subcommands([](CLI::App*) { return true; })) {
      verbs += (verbs.empty() ? "" : ", ") + verb->get_name();
      known |= !arguments.empty() && verb->get_name() == arguments[0];
    }
    if (!known)
      throw Error({.field = "command", .seen = arguments[0], .legal = verbs, .fix = "bitmma --help shows examples"});
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants them
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error, terminal.out, terminal.err);
    return code == 0 ? exit_same : exit_bad_request;
  } catch (const Error& error) {
    for (const Violation& violation : error.violations()) terminal.err << "error: " << print(violation) << '\n';
    return exit_bad_request;
  } catch (const std::exception& error) {
    terminal.err << "error: " << error.what() << '\n';
    return exit_bad_request;
  }
  return context.exit_code;
}

}  // namespace bitmma::cli
