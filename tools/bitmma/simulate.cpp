#include <fmt/format.h>

#include <algorithm>

#include "bitmma/analysis/lint.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "flags.hpp"
#include "json_list.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct SimulateFlags {
  std::vector<std::string> files;
  std::string out;
  FileFlags file;
  LayoutFlags layouts;
  int64_t show_case = 0;
  int rows = 8, cols = 8;
  bool hex = false, lint = false, json = false;
  int threads = 1;
};

/// What rows and columns of a result are: of a matrix, or of the words that a move leaves in registers or Tensor
/// Memory.
struct AxisNames {
  std::string_view row = "row", col = "col";
};

AxisNames axis_names(const Case& one) {
  if (is_mma(one.instruction)) return {};
  const Place first = PlaceMap(one.instruction, one.target, one.before, Role::d).place_of(0, 0);
  if (std::holds_alternative<RegisterPlace>(first)) return {.row = "thread", .col = "register"};
  return {.row = "lane", .col = "column"};
}

void show_d(const Context& context, const SimulateFlags& flags, const Case& one) {
  const Matrix d = computed_d(one);
  const AxisNames names = axis_names(one);
  const bool is_words = !is_mma(one.instruction);
  const int rows = std::min(flags.rows, d.rows()), cols = std::min(flags.cols, d.cols());
  std::vector<std::vector<std::string>> table(1, {is_words ? "" : "D"});
  for (int col = 0; col < cols; ++col) table[0].push_back(fmt::format("{} {}", names.col, col));
  for (int row = 0; row < rows; ++row) {
    std::vector<std::string> line{fmt::format("{} {}", names.row, row)};
    for (int col = 0; col < cols; ++col) {
      const uint64_t code = d.code(row, col);
      line.push_back(flags.hex || is_words ? print_bits(d.format(), code) : print_value(d.format(), code));
    }
    table.push_back(std::move(line));
  }
  context.terminal.out << print_table(table);
  if (rows < d.rows() || cols < d.cols()) {
    context.terminal.out << fmt::format("({} x {} of {} x {}; --rows, --cols and --hex show more)\n", rows, cols,
                                        d.rows(), d.cols());
  }
}

/// The operands of a case that are numbers: descriptors, addresses, and immediates that may differ from case to case.
std::string print_operands(const Case& one) {
  std::string text;
  const auto add = [&](std::string_view name, ElementType type, uint64_t number) {
    const std::string digits =
        type == ElementType::u8 ? fmt::format("{}", number) : fmt::format("{:#0{}x}", number, 2 * bytes_of(type) + 2);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, digits);
  };
  if (!one.has_state()) return text;
  for (const FieldRule& rule : fields_of(one.instruction)) {
    const FieldInfo& row = info(rule.field);
    if (row.is_number && one.before.has(rule.field)) add(row.name, row.type, one.before.number(rule.field));
  }
  for (const ImmediateInfo& row : immediates_of(one.instruction)) {
    if (!row.by_case) continue;
    add(row.name, row.type, static_cast<uint64_t>(immediate_of(one.instruction, row.name)));
  }
  return text;
}

/// Shape and types, where the mnemonic does not say them, and scales.
std::string print_shape_and_types(const Instruction& instruction) {
  if (!is_mma(instruction)) return "";
  const Mma mma = mma_of(instruction);
  std::string text;
  if (has_descriptor(instruction)) {
    text = fmt::format("M = {}, N = {}, K = {}; D {}, A {}, B {}\n", mma.m, mma.n, mma.k, info(mma.d).name,
                       info(mma.a).name, info(mma.b).name);
  }
  if (mma.scale_count > 0) {
    text +=
        fmt::format("scales: {} {} for each row of A and column of B\n", mma.scale_count, info(mma.scale_type).name);
  }
  return text;
}

void show(Context& context, const SimulateFlags& flags, const VectorFile& vectors) {
  require_case(vectors, flags.show_case);
  const Case one = case_at(vectors, flags.show_case);
  std::ostream& out = context.terminal.out;
  out << fmt::format("{}, case {} of {}\ntarget: {}\n", vectors.name(), flags.show_case, vectors.cases,
                     print(vectors.target))
      << print_shape_and_types(one.instruction);
  if (const std::string operands = print_operands(one); !operands.empty()) out << operands << '\n';
  out << fmt::format("arithmetic: {}\n", print_arithmetic(vectors.instruction, vectors.target));
  for (const Choice& choice : choices_of(vectors)) out << fmt::format("chosen: {}\n", choice.what);
  print_warnings(context, warnings_of(one));
  show_d(context, flags, one);
  if (!vectors.has_recorded_d()) return;
  ProgressLine progress(context, vectors.file.path, vectors.cases);
  const Comparison comparison = verify(vectors, flags.threads, progress.from(0));
  if (comparison.mismatches == 0) {
    out << colored(context, 32,
                   fmt::format("all {} of {} match the recorded D ({})", counted(comparison.outputs, "output"),
                               counted(comparison.cases, "case"), vectors.source()))
        << '\n';
  } else {
    out << colored(context, 31,
                   fmt::format("{} of {} differ from the recorded D ({})", comparison.mismatches,
                               counted(comparison.outputs, "output"), vectors.source()))
        << '\n'
        << print(*comparison.first) << '\n';
    context.exit_code = exit_differs;
  }
}

/// What is suspicious in any case, each said once with the number of cases it is in.
std::vector<std::pair<Violation, int64_t>> lint_findings(const VectorFile& vectors) {
  std::vector<std::pair<Violation, int64_t>> found;
  for (int64_t index = 0; index < vectors.cases; ++index) {
    for (Violation& finding : lint(case_at(vectors, index))) {
      const auto same = std::ranges::find_if(found, [&](const auto& entry) {
        return entry.first.field == finding.field && entry.first.fix == finding.fix;
      });
      if (same == found.end()) found.emplace_back(std::move(finding), 1);
      else ++same->second;
    }
  }
  return found;
}

void run_lint(Context& context, const SimulateFlags& flags, const std::vector<std::string>& files) {
  std::ostream& out = context.terminal.out;
  Json json = Json::array();
  for (const std::string& path : files) {
    const VectorFile vectors = flags.file.read(path);
    const auto found = lint_findings(known_part(vectors));
    vectors.require_unchanged();
    for (const auto& [finding, cases] : found) {
      context.exit_code = exit_differs;
      Json one{{"file", path}, {"target", print(vectors.target)}, {"cases", cases}};
      one.update(to_json(std::vector{finding}).front());
      json.push_back(std::move(one));
      if (flags.json) continue;
      out << printable(path) << ": " << colored(context, 33, "suspicious: ") << print(finding)
          << fmt::format(" ({} of {})\n", cases, counted(vectors.cases, "case"));
    }
    if (found.empty() && !flags.json) {
      out << fmt::format("{}: nothing suspicious in {}\n", printable(path), counted(vectors.cases, "case"));
    }
  }
  if (flags.json) out << json_text(json) << '\n';
}

/// Computes one case; its bytes in the file that is written, or some less where D is new.
uint64_t bytes_of_a_case(const VectorFile& vectors) {
  computed_d(case_at(vectors, 0));
  uint64_t bytes = 0;
  for (const Tensor& tensor : vectors.file.tensors) bytes += tensor.bytes.size();
  return bytes / static_cast<uint64_t>(vectors.cases);
}

void run_simulate(Context& context, const SimulateFlags& flags) {
  const std::vector<std::string> files = vector_files(flags.files);
  if (flags.lint) {
    run_lint(context, flags, files);
    return;
  }
  const std::vector<std::string> outputs =
      flags.out.empty() ? std::vector<std::string>{} : output_paths(files, flags.out);
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string& path = files[i];
    const VectorFile vectors = flags.file.read(path);
    if (outputs.empty()) {
      if (files.size() > 1) context.terminal.out << printable(path) << '\n';
      show(context, flags, vectors);
      continue;
    }
    const std::string& output = outputs[i];
    print_warnings(context, warnings_of(case_at(vectors, 0)));
    announce_output(context, output, vectors.cases, flags.threads, [&] { return bytes_of_a_case(vectors); });
    {
      ProgressLine progress(context, path, vectors.cases);
      write_simulated(output, vectors, flags.layouts.placement(), flags.threads, progress.from(0));
    }
    context.terminal.err << fmt::format("{}: {}, D by {} on {} ({})\n", printable(output),
                                        counted(vectors.cases, "case"), vectors.name(), print(vectors.target),
                                        print_arithmetic(vectors.instruction, vectors.target));
  }
}

}  // namespace

void add_simulate(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("simulate", "compute D of every case of a vector file");
  const auto flags = std::make_shared<SimulateFlags>();
  command->add_option("files", flags->files, "vector files: images and descriptors, or logical matrices a, b, c")
      ->required();
  command->add_option("-o,--output", flags->out, "file to write, or folder for several; without it D is shown");
  flags->file.add(*command);
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
      "  bitmma simulate case.safetensors                     # show D, and whether it matches a recorded one\n"
      "  bitmma simulate case.safetensors -o out.safetensors  # write D beside the inputs\n"
      "  bitmma simulate numpy.safetensors --layout-b mn-major:64 -o out.safetensors\n"
      "  bitmma simulate case.safetensors --lint\n"
      "The layouts are used for files that hold logical matrices alone.");
  command->callback([flags, &context] { run_simulate(context, *flags); });
}

}  // namespace bitmma::cli
