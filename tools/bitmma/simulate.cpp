#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bitmma/io/golden.hpp"
#include "bitmma/io/lint.hpp"
#include "commands.hpp"

namespace bitmma::cli {
namespace {

struct SimulateFlags {
  std::vector<std::string> files;
  std::string out;
  std::string instruction;
  LayoutFlags layouts;
  int64_t show_case = 0;
  int rows = 8, cols = 8;
  bool hex = false, lint = false, json = false;
  int threads = 1;
};

void show_d(const Context& context, const SimulateFlags& flags, const VectorFile& vectors) {
  const BitMatrix d = computed_d(vectors, flags.show_case);
  // Results that are moved are words in registers or lanes.
  const bool registers = vectors.move && vectors.move->kind == MoveKind::ld;
  const std::string_view row_name = registers      ? "thread"
                                    : vectors.move ? "lane"
                                                   : "row",
                         col_name = registers      ? "register"
                                    : vectors.move ? "column"
                                                   : "col";
  const int rows = std::min(flags.rows, d.rows()), cols = std::min(flags.cols, d.cols());
  std::vector<std::vector<std::string>> table(1, {vectors.move ? "" : "D"});
  for (int col = 0; col < cols; ++col) table[0].push_back(fmt::format("{} {}", col_name, col));
  for (int row = 0; row < rows; ++row) {
    std::vector<std::string> line{fmt::format("{} {}", row_name, row)};
    for (int col = 0; col < cols; ++col) {
      line.push_back(flags.hex || vectors.move ? print_bits(d.format, d(row, col))
                                               : print_value(d.format, d(row, col)));
    }
    table.push_back(std::move(line));
  }
  context.terminal.out << print_table(table);
  if (rows < d.rows() || cols < d.cols()) {
    context.terminal.out << fmt::format("({} x {} of {} x {}; --rows, --cols and --hex show more)\n", rows, cols,
                                        d.rows(), d.cols());
  }
}

void warn(const Context& context, const VectorFile& vectors, int64_t index) {
  print_warnings(context, warnings_at(vectors, index));
}

/// The operands that are words: descriptors, addresses, scalars.
std::string print_operands(const VectorFile& vectors, int64_t index) {
  std::string text;
  const auto add = [&](std::string_view name, uint64_t word, int digits) {
    text += fmt::format("{}{} {:#0{}x}", text.empty() ? "" : ", ", name, word, digits + 2);
  };
  if (vectors.move) {
    const TmemMoveMachine machine = move_case_at(vectors, index).view();
    add("taddr", machine.taddr, 8);
    if (vectors.move->kind == MoveKind::cp) add("s_desc", machine.s_desc, 16);
    if (vectors.move->has_registers()) text += fmt::format(", warp {}", machine.warp);
  } else if (vectors.is_tcgen05()) {
    const Tcgen05Case one = tcgen05_case_at(vectors, index);
    const Tcgen05Registers& registers = one.state.registers;
    if (one.instruction.a_source == OperandSource::tmem)
      add("a_tmem", registers.a_tmem, 8);
    else
      add("a_desc", registers.a_desc, 16);
    add("b_desc", registers.b_desc, 16);
    add("idesc", idesc_of(one.instruction), 8);
    add("d_tmem", registers.d_tmem, 8);
    if (one.instruction.sparse) add("metadata_tmem", registers.metadata_tmem, 8);
    if (one.instruction.has_block_scales())
      add("scale_a_tmem", registers.scale_a_tmem, 8), add("scale_b_tmem", registers.scale_b_tmem, 8);
    if (registers.zero_column_mask) add("zero_column_mask", *registers.zero_column_mask, 16);
  } else if (vectors.has_images && vectors.instruction.family == Family::wgmma) {
    const VectorCase one = case_at(vectors, index);
    if (vectors.instruction.a_source == OperandSource::smem) add("a_desc", one.registers.a_desc, 16);
    add("b_desc", one.registers.b_desc, 16);
  }
  return text;
}

void show(Context& context, const SimulateFlags& flags, const VectorFile& vectors) {
  if (flags.show_case < 0 || flags.show_case >= vectors.cases) {
    throw Error(
        {.field = "--case", .seen = std::to_string(flags.show_case), .legal = fmt::format("0..{}", vectors.cases - 1)});
  }
  std::ostream& out = context.terminal.out;
  out << fmt::format("{}, case {} of {}\n", vectors.name(), flags.show_case, vectors.cases);
  if (vectors.is_tcgen05()) {
    const Instruction one = tcgen05_case_at(vectors, flags.show_case).instruction;
    out << fmt::format("M = {}, N = {}, K = {}; D {}, A {}, B {}\n", one.m, one.n, one.k, info(one.d).name,
                       info(one.a).name, info(one.b).name);
    if (one.has_block_scales())
      out << fmt::format("scales: {} {} for each row of A and column of B\n", one.scale_count(),
                         info(one.scale_type).name);
  }
  if (const std::string operands = print_operands(vectors, flags.show_case); !operands.empty()) out << operands << '\n';
  out << fmt::format("arithmetic: {}\n", print_arithmetic(vectors));
  for (const Choice& choice : choices_of(vectors)) out << fmt::format("chosen: {}\n", choice.what);
  warn(context, vectors, flags.show_case);
  show_d(context, flags, vectors);
  if (!vectors.has_recorded_d()) return;
  ProgressLine progress(context, vectors.file.path, vectors.cases);
  const Comparison comparison = verify(vectors, flags.threads, progress.from(0));
  if (comparison.mismatches == 0) {
    out << colored(context, 32,
                   fmt::format("all {} outputs of {} cases match the recorded D ({})", comparison.outputs,
                               comparison.cases, vectors.source()))
        << '\n';
  } else {
    out << colored(context, 31,
                   fmt::format("{} of {} outputs differ from the recorded D ({})", comparison.mismatches,
                               comparison.outputs, vectors.source()))
        << '\n';
    out << print(*comparison.first) << '\n';
    context.exit_code = exit_differs;
  }
}

/// What is suspicious in any case, each said once with the number of cases it is in.
void run_lint(Context& context, const SimulateFlags& flags, const std::vector<std::string>& files) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const std::string& path : files) {
    const VectorFile vectors = read_vector_file(path, flags.instruction);
    std::vector<std::pair<Violation, int64_t>> found;
    for (int64_t index = 0; index < vectors.cases; ++index) {
      for (Violation& finding : lint(vectors, index)) {
        const auto same = std::ranges::find_if(found, [&](const auto& entry) {
          return entry.first.field == finding.field && entry.first.fix == finding.fix;
        });
        if (same == found.end())
          found.emplace_back(std::move(finding), 1);
        else
          ++same->second;
      }
    }
    for (const auto& [finding, cases] : found) {
      context.exit_code = exit_differs;
      json.push_back({{"file", path},
                      {"cases", cases},
                      {"field", finding.field},
                      {"seen", finding.seen},
                      {"legal", finding.legal},
                      {"fix", finding.fix},
                      {"source", finding.source}});
      if (!flags.json)
        context.terminal.out << path << ": " << colored(context, 33, "suspicious: ") << print(finding)
                             << fmt::format(" ({} of {} cases)\n", cases, vectors.cases);
    }
    if (found.empty() && !flags.json)
      context.terminal.out << path << ": nothing suspicious in " << fmt::format("{} cases\n", vectors.cases);
  }
  if (flags.json) context.terminal.out << json.dump(2) << '\n';
}

void run_simulate(Context& context, const SimulateFlags& flags) {
  const std::vector<std::string> files = vector_files(flags.files);
  if (flags.lint) {
    run_lint(context, flags, files);
    return;
  }
  for (const std::string& path : files) {
    const VectorFile vectors = read_vector_file(path, flags.instruction);
    if (flags.out.empty()) {
      if (files.size() > 1) context.terminal.out << path << '\n';
      show(context, flags, vectors);
      continue;
    }
    const std::string target = target_of(path, flags.out, files.size());
    warn(context, vectors, 0);
    ProgressLine progress(context, path, vectors.cases);
    write_simulated(target, vectors, flags.layouts.layout_a(), flags.layouts.layout_b(), flags.threads,
                    progress.from(0));
    context.terminal.err << fmt::format("{}: {} cases, D by {} ({})\n", target, vectors.cases, vectors.name(),
                                        print_arithmetic(vectors));
  }
}

}  // namespace

void add_simulate(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("simulate", "compute D of every case of a vector file");
  const auto flags = std::make_shared<SimulateFlags>();
  command->add_option("files", flags->files, "vector files: images and descriptors, or logical matrices a, b, c")
      ->required();
  command->add_option("-o,--output", flags->out, "file to write, or folder for several; without it D is shown");
  command->add_option("--instruction", flags->instruction, "the mnemonic, for files that do not say");
  flags->layouts.add(*command);
  command->add_option("--case", flags->show_case, "case to show")->capture_default_str();
  command->add_option("--rows", flags->rows, "rows of D to show")->capture_default_str();
  command->add_option("--cols", flags->cols, "columns of D to show")->capture_default_str();
  command->add_flag("--hex", flags->hex, "show bits instead of values");
  command->add_flag("--lint", flags->lint,
                    "compute nothing: say what is legal but suspicious in any case; exit code 1 when anything is");
  command->add_flag("--json", flags->json, "--lint: the findings as JSON");
  add_threads(*command, flags->threads);
  command->footer(
      "Examples:\n"
      "  bitmma simulate case.safetensors                    show D, and whether it matches a recorded one\n"
      "  bitmma simulate case.safetensors -o out.safetensors write D beside the inputs\n"
      "  bitmma simulate numpy.safetensors --layout-b mn-major:64 -o out.safetensors\n"
      "  bitmma simulate case.safetensors --lint\n"
      "The layouts are used for files that hold logical matrices alone.");
  command->callback([flags, &context] { run_simulate(context, *flags); });
}

}  // namespace bitmma::cli
