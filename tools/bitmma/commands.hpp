// One function per verb: adds the subcommand to the app. Flags become values, values one library call, then print.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "bitmma/core/parallel.hpp"
#include "bitmma/instruction/evidence.hpp"
#include "bitmma/instruction/place.hpp"
#include "bitmma/io/compare.hpp"
#include "cli.hpp"

namespace bitmma::cli {

/// What every command shares: where to print, and the exit code it leaves.
struct Context {
  Terminal terminal;
  int exit_code = exit_same;
};

void add_simulate(CLI::App& app, Context& context);
void add_golden(CLI::App& app, Context& context);
void add_verify(CLI::App& app, Context& context);
void add_compare(CLI::App& app, Context& context);
void add_decode(CLI::App& app, Context& context);
void add_encode(CLI::App& app, Context& context);
void add_layout(CLI::App& app, Context& context);
void add_list(CLI::App& app, Context& context);
void add_explain(CLI::App& app, Context& context);
void add_diagnose(CLI::App& app, Context& context);
void add_ptx(CLI::App& app, Context& context);
void add_gpu(CLI::App& app, Context& context);
void add_bench(CLI::App& app, Context& context);

/// `text` in a colour when the terminal takes it. Codes: 31 red, 32 green, 33 yellow.
std::string colored(const Context& context, int code, const std::string& text);

/// Warnings to stderr, each a line.
void print_warnings(const Context& context, const std::vector<Violation>& warnings);

/// A line on stderr that is redrawn a few times a second, on a terminal only; erased at the end.
class ProgressLine {
 public:
  ProgressLine(const Context& context, std::string what, int64_t total);
  ~ProgressLine();
  void update(int64_t done);
  /// Adds to what update() counts, for work in several pieces.
  Progress from(int64_t base) {
    return [this, base](int64_t done) { update(base + done); };
  }

 private:
  const Context& context_;
  std::string what_;
  int64_t total_;
  double started_, drawn_ = 0;
};

/// The immediates of an instruction as flags.
void add_immediates(CLI::App& command, Instruction& instruction);

/// --layout-a, --layout-b and --padding.
struct LayoutFlags {
  std::string a = "k-major:128", b = "k-major:128";
  int64_t padding_bytes = 0;

  void add(CLI::App& command);
  OperandLayout layout_a() const { return with_padding(parse_operand_layout(a)); }
  OperandLayout layout_b() const { return with_padding(parse_operand_layout(b)); }

 private:
  OperandLayout with_padding(OperandLayout layout) const {
    layout.padding_bytes = padding_bytes;
    return layout;
  }
};

/// --threads, all cores by default.
inline void add_threads(CLI::App& command, int& threads) {
  threads = hardware_threads();
  command.add_option("--threads", threads, "threads to use; the bits are the same for any number")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
}

/// What a file's results rest on, in a line: the rule and its evidence, or that bits only move.
std::string print_arithmetic(const VectorFile& vectors);

/// Every choice of this program that can show in a file's results; empty where hardware or its documents decide all.
std::vector<Choice> choices_of(const VectorFile& vectors);

/// A table with aligned columns; the first row is the heading. Numbers are right-aligned.
std::string print_table(const std::vector<std::vector<std::string>>& rows);

/// A 64-bit number, 0x... or decimal; nothing when `text` is none.
std::optional<uint64_t> parse_word(const std::string& text);

/// Where the result of `input` goes: `output` itself for one file, a name inside it for several or when it is a folder.
/// Throws Error when several files meet an `output` that is no folder.
std::string target_of(const std::string& input, const std::string& output, size_t files);

/// Files named, and all *.safetensors below folders named, in order. Throws Error when a folder holds none.
std::vector<std::string> vector_files(const std::vector<std::string>& paths);

}  // namespace bitmma::cli
