// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "arguments.hpp"
#include "bitmma/analysis/describe_simulation.hpp"
#include "bitmma/analysis/lint.hpp"
#include "bitmma/core/target_names.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/instruction/statement.hpp"
#include "flags.hpp"
#include "output.hpp"
#include "recorded_file.hpp"
#include "test_bench.hpp"

namespace bitmma::cli {
namespace {

struct SimulateFlags {
  Flag<std::vector<std::string>> files;
  Flag<std::string> out;
  FileFlags file;
  LayoutFlags layouts;
  BenchFlag bench;
  Flag<std::optional<int64_t>> show_case = {};
  Flag<std::string> after;  // the file with the previous state
  Flag<int> rows = 8, cols = 8;
  Flag<bool> hex = false, lint = false, json = false, replace_d = false;
  Flag<int> threads = 1;
};

/// The part of D to show. With --json all of it is shown, and flags that limit the text have no effect.
ShownD shown_d(const SimulateFlags& flags) {
  if (flags.json) return {.as_codes = true};
  return {.rows = flags.rows, .cols = flags.cols, .as_bits = flags.hex};
}

/// A file to simulate, and how.
struct Simulated {
  RecordedFile file = {};
  std::string source = {};               // the origin of the recorded D
  std::optional<UnrolledK> loop = {};    // the file is the steps of this K loop
  std::vector<Violation> warnings = {};  // about results that are left out
};

/// Warnings about the results that --after drops, because they belong to another initial state.
std::vector<Violation> left_out(const TensorFile& own, const TensorFile& with_state) {
  std::vector<Violation> found;
  for (const std::string_view name : results_of(own)) {
    if (with_state.find(name)) continue;
    found.push_back({.code = ViolationCode::unread_argument,
                     .field = fmt::format("{}: tensor {}", own.path, name),
                     .seen = "recorded for another initial state: neither compared nor written",
                     .fix = "to record D for this state, start from a file without results",
                     .severity = Severity::warning});
  }
  return found;
}

/// The file for the GPU that --target requests, if the file names another one. Its recorded D is for its own target.
std::optional<TensorFile> on_other_target(const TensorFile& file, std::optional<Target> asked) {
  const std::string* named = file.find_metadata("target");
  const std::optional<Target> own = named ? target_meant_by(*named) : std::nullopt;
  if (!own || !asked || own == asked) return std::nullopt;
  TensorFile other = without_results(file);
  other.set_metadata("target", std::string(print(*asked)));
  return other;
}

void run_lint(Context& context, const SimulateFlags& flags, const std::vector<std::string>& files) {
  Report list = Report::list();
  for (const std::string& path : files) {
    TensorFile file = read_tensor_file(path);
    std::optional<TensorFile> elsewhere = on_other_target(file, flags.file.target.asked());
    const bool is_elsewhere = elsewhere.has_value();
    if (elsewhere) file = std::move(*elsewhere);
    const VectorFile vectors = flags.file.read(std::move(file));
    const std::vector<LintFinding> findings = lint(vectors);
    vectors.require_unchanged();
    const std::string cases_of_file = counted(vectors.cases, "case");
    for (const auto& [finding, cases] : findings) {
      context.exit_code = exit_differs;
      Report row{{"file", path}, {"target", print(vectors.target)}, {"cases", cases}};
      row.update(std::move(Report(std::vector{finding})[0]));
      list.append(std::move(row));
      list.add_text(fmt::format("{}: suspicious: {} ({} of {})", printable(path), print(finding), cases, cases_of_file),
                    Tone::warning);
    }
    if (findings.empty()) {
      list.add_text(fmt::format("{}: nothing suspicious in {}{}", printable(path), cases_of_file,
                                is_elsewhere ? fmt::format(" on {}", print(vectors.target)) : ""));
    }
  }
  show(context, list, flags.json);
}

/// A tile that spans M and N of several instructions; nothing for other files. A loop over K with the M and N of one
/// instruction is not a tile: its steps become cases of a vector file.
std::optional<WholeTile> tile_of(const SimulateFlags& flags, const TensorFile& file,
                                 const VectorFileDefaults& defaults) {
  const bool has_state =
      std::ranges::any_of(state_fields, [&](const FieldInfo& field) { return file.find(field.name) != nullptr; });
  if (has_state || !flags.after.empty()) return std::nullopt;
  std::optional<WholeTile> tile = whole_tile(file, defaults);
  if (!tile) return std::nullopt;
  const Mma mma = mma_of(tile->instruction);
  const LogicalMatrices& whole = tile->cases.front().logical;
  return whole.a->rows() == mma.m && whole.b->cols() == mma.n ? std::nullopt : std::move(tile);
}

/// `target` applies if the file does not name one.
Simulated simulated(const SimulateFlags& flags, TensorFile file, std::optional<Target> target) {
  VectorFileDefaults defaults = flags.file.defaults();
  defaults.target = target;
  const std::string* const named = file.find_metadata("source");
  try {
    Simulated result;
    result.source = named ? printable(*named) : "unknown";
    if (std::optional<WholeTile> tile = tile_of(flags, file, defaults)) {
      result.file = std::move(*tile);
      return result;
    }
    if (!flags.after.empty()) {
      TensorFile with_state = after(read_vector_file(flags.after), file, defaults);
      result.warnings = left_out(file, with_state);
      file = std::move(with_state);
    }
    result.loop = unroll_k(file, defaults, flags.layouts.placement());
    result.file = as_vector_file(result.loop ? result.loop->file : std::move(file), defaults);
    return result;
  } catch (const Error& error) {
    throw flags.file.in_flags(error);
  }
}

/// Compares the recorded D with the computed one; nothing if none is recorded.
std::optional<Comparison> recorded_comparison(Context& context, const SimulateFlags& flags,
                                              const Simulated& simulated) {
  std::optional<Comparison> recorded;
  if (simulated.loop) {
    recorded = simulated.loop->recorded;  // this program computed the D of its steps
  } else if (simulated.file.has_recorded_d()) {
    ProgressLine progress(context, simulated.file.path(), simulated.file.cases());
    recorded = verify(simulated.file, flags.threads, progress.from(0));
  }
  if (recorded && recorded->mismatches > 0) context.exit_code = exit_differs;
  return recorded;
}

/// One case with its D: that of --case, or the last step of a K loop.
Report describe_case(Context& context, const SimulateFlags& flags, const Simulated& simulated) {
  const WholeTile* const tile = simulated.file.tile();
  const int64_t steps = tile ? 0 : unrolled_steps(*simulated.file.vectors()),
                index = flags.show_case.value_or(steps > 0 ? steps - 1 : 0);
  require_case(simulated.file.cases(), index);
  Report report = tile ? describe(*tile, index, shown_d(flags), flags.threads)
                       : describe(*simulated.file.vectors(), index, shown_d(flags));
  if (const std::optional<Comparison> recorded = recorded_comparison(context, flags, simulated))
    report.update(describe_recorded(*recorded, simulated.source, simulated.loop ? ", of the whole K" : ""));
  if (!tile && !flags.json) print_warnings(context, warnings_of(case_at(*simulated.file.vectors(), index)));
  return report;
}

/// Prints on stderr how a recorded D compares, if no report is shown. True if it is equal, or if there is none.
bool is_recorded_d_same(Context& context, const SimulateFlags& flags, const Simulated& simulated) {
  const std::optional<Comparison> recorded = recorded_comparison(context, flags, simulated);
  if (!recorded || recorded->mismatches == 0) return true;
  context.terminal.err << fmt::format(
      "{}: {} of {} {} from the recorded D ({}): {}\n", printable(simulated.file.path()), recorded->mismatches,
      counted(recorded->outputs, "output"), differ(recorded->mismatches), simulated.source, print(*recorded->first));
  return false;
}

/// Throws Error if `output` is a file with a D that this program did not compute: it would be lost.
void require_no_loss(const std::string& output) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(output, error)) return;
  TensorFile old;
  try {
    old = read_tensor_file(output);
  } catch (const Error&) {
    return;  // it contains no results
  }
  const std::string* source = old.find_metadata("source");
  const bool is_own = source && source->starts_with("bitmma ");
  if (results_of(old).empty() || is_own) return;
  throw Error({.code = ViolationCode::would_replace,
               .field = output,
               .seen = fmt::format("a file with a D of {}", source ? printable(*source) : "unknown source"),
               .expected = "another name",
               .fix = "--replace-d replaces it"});
}

/// Computes one case and returns its bytes in the output file (slightly fewer if D is new).
uint64_t bytes_of_a_case(const VectorFile& vectors) {
  static_cast<void>(computed_d(case_at(vectors, 0)));
  uint64_t bytes = 0;
  for (const Tensor& tensor : vectors.file.tensors) bytes += tensor.bytes.size();
  return bytes / static_cast<uint64_t>(vectors.cases);
}

/// Writes `one`, which is `own` or the same operands on another GPU, with D beside the inputs. If this would replace a
/// recorded D that differs, it writes only a line on stderr.
void write_result(Context& context, const SimulateFlags& flags, const Simulated& own, const Simulated& simulated,
                  const std::string& output) {
  if (!*flags.replace_d) require_no_loss(output);
  if (!is_recorded_d_same(context, flags, own) && !*flags.replace_d) {
    context.terminal.err << fmt::format("{}: not written: the recorded D would be lost; --replace-d replaces it\n",
                                        printable(output));
    return;
  }
  const RecordedFile& file = simulated.file;
  if (const VectorFile* const vectors = file.vectors()) {
    print_warnings(context, warnings_of(case_at(*vectors, 0)));
    announce_output(context, output, vectors->cases, flags.threads, [&] { return bytes_of_a_case(*vectors); });
    context.require_flags_acted();
    ProgressLine progress(context, own.file.path(), vectors->cases);
    write_simulated(output, *vectors, flags.layouts.placement(), flags.threads, progress.from(0));
  } else {
    context.require_flags_acted();
    write_tensor_file(output, with_simulated_d(*file.tile(), flags.threads));
  }
  context.terminal.err << fmt::format("{}: {}, {} by {} on {} ({})\n", printable(output), counted(file.cases(), "case"),
                                      file.tile() ? "D of whole tiles" : "D", print(file.instruction()),
                                      print(file.target()), print_arithmetic(file.instruction(), file.target()));
}

/// Writes the cases of `vectors` for a test bench, after a line on stderr if the recorded D of `own` differs.
void write_for_bench(Context& context, const SimulateFlags& flags, const Simulated& own, const VectorFile& vectors,
                     const std::string& output) {
  is_recorded_d_same(context, flags, own);
  context.require_flags_acted();
  const auto write = [&](std::ostream& out) {
    write_bench_header(out, flags.bench.format(), vectors.instruction, vectors.target);
    write_bench(out, flags.bench.format(), vectors, 0);
    vectors.require_unchanged();
  };
  if (output.empty()) write(context.out());
  else write_whole(output, write);
}

/// Throws Error for flags of layouts, and for --format, where they have no effect.
void require_used(const SimulateFlags& flags, const Simulated& simulated, const std::string& path, bool is_written) {
  const VectorFile* const vectors = simulated.file.vectors();
  if (!vectors) {
    flags.layouts.require_used(
        "only cases of one instruction have images and operands; for a whole tile only D is "
        "computed",
        false, false);
    if (!flags.bench.is_given()) return;
    throw Error({.code = ViolationCode::not_together,
                 .field = "--format",
                 .seen = "a whole tile of several instructions",
                 .expected = "cases of one instruction",
                 .fix = "save the matrices of each instruction as a case"});
  }
  if (flags.bench.is_given()) flags.layouts.require_used("--format writes operands, not images", false, false);
  else if (simulated.loop) flags.layouts.require_used_by(vectors->instruction);
  else if (vectors->has_state)
    flags.layouts.require_used(printable(path) + " has its own images, descriptors or registers", false, false);
  else if (!is_written) flags.layouts.require_used("without -o FILE no image is made", false, false);
  else flags.layouts.require_used_by(vectors->instruction);
}

/// Shows, or writes to `output`, D of a file; with --target also on another GPU. Returns what is to be shown.
std::optional<Report> simulate_file(Context& context, const SimulateFlags& flags, const TensorFile& file,
                                    const std::string& path, const std::string& output) {
  const std::optional<Target> asked = flags.file.target.asked();
  const std::optional<TensorFile> elsewhere = on_other_target(file, asked);
  const Simulated own = simulated(flags, file, elsewhere ? std::nullopt : asked);
  if (own.file.vectors() && !own.loop) require_consistent(*own.file.vectors(), flags.threads);
  print_warnings(context, own.warnings);
  warn_of_converted_d(context, file, own.file.instruction());
  const Simulated one = elsewhere ? simulated(flags, *elsewhere, asked) : own;
  require_used(flags, one, path, !output.empty());
  if (flags.bench.is_given()) {
    write_for_bench(context, flags, own, *one.file.vectors(), output);
    return std::nullopt;
  }
  if (!output.empty()) {
    write_result(context, flags, own, one, output);
    return std::nullopt;
  }
  if (!elsewhere) return describe_case(context, flags, own);
  Report report = describe_case(context, flags, own), there = describe_case(context, flags, one);
  const Comparison comparison = compare_computed(own.file, one.file, own.file.tile() ? *flags.threads : 1);
  return describe_two_targets(std::move(report), std::move(there), comparison, own.file.target(), one.file.target());
}

/// The output of each of `names`; none if D is shown.
std::vector<std::string> outputs_of(const SimulateFlags& flags, const std::vector<std::string>& names) {
  const std::vector<std::string> outputs =
      flags.out.empty() ? std::vector<std::string>{} : output_paths(names, flags.out);
  if (flags.bench.is_given() && names.size() > 1 && outputs.empty()) {
    throw Error({.field = "files",
                 .seen = fmt::format("{} with --format", names.size()),
                 .expected = "one file, or a folder for the outputs of several",
                 .fix = "-o FOLDER"});
  }
  if (flags.json && (flags.bench.is_given() || !outputs.empty())) {
    throw Error({.code = ViolationCode::not_together,
                 .field = "--json",
                 .seen = outputs.empty() ? "--format" : "-o",
                 .expected = "--json prints what is shown on the screen",
                 .fix = "--format jsonl writes all cases as JSON lines"});
  }
  for (const std::string& output : outputs) {
    if (!flags.bench.is_given()) require_tensor_file_name(output);
    else if (flags.out.get() == output) require_text_file_name(output, "." + *flags.bench.name);
  }
  return outputs;
}

void simulate_all(Context& context, const SimulateFlags& flags, const std::vector<std::string>& files) {
  const bool arrays = are_arrays(files);  // a.npy, b.npy and c.npy are one file
  const std::vector<std::string> names = arrays ? std::vector{files.front()} : files,
                                 outputs = outputs_of(flags, names);
  Report shown = Report::list();
  for (size_t i = 0; i < names.size(); ++i) {
    std::optional<Report> report =
        simulate_file(context, flags, arrays ? read_arrays(files) : read_tensor_file(names[i]), names[i],
                      outputs.empty() ? "" : outputs[i]);
    if (!report) continue;
    if (flags.json) {
      shown.append(std::move(*report));
      continue;
    }
    if (names.size() > 1) context.out() << printable(names[i]) << '\n';
    show(context, *report, false);
  }
  if (flags.json) show(context, shown, true);
}

void run_simulate(Context& context, const SimulateFlags& flags) {
  std::vector<std::string> files = vector_files(flags.files);
  // Check that all named files exist before showing results. A dangling link below a folder does not end the run.
  std::vector<Violation> dangling;
  std::erase_if(files, [&](const std::string& path) {
    try {
      require_file(path);
    } catch (const Error& error) {
      if (std::ranges::find(flags.files, path) != flags.files.end()) throw;
      std::ranges::copy(error.violations(), std::back_inserter(dangling));
      return true;
    }
    return false;
  });
  if (files.empty()) throw Error(std::move(dangling));
  if (flags.lint) run_lint(context, flags, files);
  else simulate_all(context, flags, files);
  if (!dangling.empty()) throw Error(std::move(dangling));
}

}  // namespace

void add_simulate(Command& app, Context& context) {
  Command* command = app.add_command("simulate", "compute D of every case of a vector file");
  const auto flags = std::make_shared<SimulateFlags>();
  command
      ->add_input("files", flags->files,
                  "vector files (safetensors or .npz): images and descriptors, or plain matrices a, b, c; or a.npy, "
                  "b.npy and c.npy")
      ->required();
  command->add_output("-o,--output", flags->out, "file to write, or folder for several files; default: show D");
  flags->file.add(*command);
  flags->file.add_types(*command);
  flags->layouts.add(*command);
  flags->bench.add(*command);
  command->add_input("--after", flags->after, "file with results: start from the state after its instruction");
  command->add_option("--case", flags->show_case, "case to show; default: 0, or the last step of a K loop");
  command->add_option("--rows", flags->rows, "number of rows of D to show")->capture_default_str();
  between(command->get_option("--rows"), 1, 1 << 24);
  command->add_option("--cols", flags->cols, "number of columns of D to show")->capture_default_str();
  between(command->get_option("--cols"), 1, 1 << 24);
  command->add_flag("--hex", flags->hex, "show bits instead of values");
  command->add_flag("--replace-d", flags->replace_d,
                    "with -o: replace a recorded D that differs, and overwrite a file whose D is from hardware");
  command->add_flag("--lint", flags->lint,
                    "report what is legal but suspicious, without computing D; exit code 1 if anything is");
  command->add_flag("--json", flags->json, "print JSON with all of D as codes; with --lint, print the findings");
  add_threads(*command, flags->threads);
  command->footer(
      "Examples:\n  bitmma simulate case.safetensors                     # show D, and whether it matches a recorded "
      "one\n  bitmma simulate case.safetensors -o out.safetensors  # write D beside the inputs\n  bitmma simulate "
      "numpy.safetensors --layout-b mn-major:64 -o out.safetensors\n  bitmma simulate case.safetensors --lint\n  "
      "bitmma simulate mma_sync.safetensors --target sm_90a  # the same operands on another GPU, side by side\n  "
      "bitmma simulate a.npy b.npy --instruction tcgen05.mma.cta_group::1.kind::f16\n  bitmma simulate "
      "case.safetensors --format csv\n  bitmma simulate next.safetensors --after mma.safetensors -o d.safetensors  # "
      "starts from the state after the mma\nPlain matrices with M and N of several instructions are a whole tile with "
      "one D; -o writes D and the matrices.\nIf K of plain matrices is longer than the instruction's, they are a K "
      "loop over one tile: the output file has a case for each step, with advancing descriptors. The layouts apply "
      "only to files with only plain matrices. A recorded D is compared first. If it differs, -o writes nothing and "
      "the exit code is 1, unless --replace-d is given.");
  command->callback([flags, &context] { run_simulate(context, *flags); });
}

}  // namespace bitmma::cli
