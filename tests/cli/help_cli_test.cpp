#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>

#include "bitmma/arithmetic/cpu_target.hpp"
#include "bitmma/files/tensor_file.hpp"
#include "cli.hpp"
#include "run.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using test::Outcome, test::run, test::run_line;

namespace {

const test::BadRequests bad_requests({
    {"frobnicate", not_found, "command"},
    // What was probably meant: commands, flags, values.
    {"simulat x", not_found, "command"},
    {"diff a b", not_found, "command"},
    {"help simulat", not_found, "command"},
    {"layout smm", not_found, "command of bitmma layout"},
    {"encode", missing_argument, "command of bitmma encode"},
    {"--versio", not_found, "flag of bitmma"},
    {"--json compare a b", not_found, "flag of bitmma"},
    {"golden --targt sm_90a", not_found, "flag of bitmma golden"},
    {"explain $GOLDEN --column 3", not_found, "flag of bitmma explain"},
    {"explain $GOLDEN --COL 3", not_found, "flag of bitmma explain"},
    {"explain $GOLDEN -r 3", not_found, "flag of bitmma explain"},
    {"explain $GOLDEN --frobnicate", not_found, "flag of bitmma explain"},
    {"layout smem --descriptr 0x1", not_found, "flag of bitmma layout smem"},
    {"golden " + test::f16 + " --distribution normall $OUT", unknown_name, "--distribution"},
    {"golden " + test::f16 + " --target sm_91a $OUT", unknown_name, "--target"},
    {"gpu campaign --family wgma", unknown_name, "--family"},
    // One mistake, one message; words in the order given.
    {"compare a b c d5 --element", unread_argument, "c"},
    {"explain $GOLDEN --row", illegal_value, "--row"},
    {"explain $GOLDEN --row --col 3", illegal_value, "--row"},
    {"explain $GOLDEN --row 1 --row 2", illegal_value, "--row"},
    {"diagnose $GOLDEN --cases 0", illegal_value, "--cases"},
    {"bench --seconds 0", illegal_value, "--seconds"},
    {"layout fragment --instruction x --operand q", unknown_name, "--operand"},
    {"golden " + test::f16, missing_argument, "--output"},
    {"compare", missing_argument, "actual"},
    // CLI11's own sentences do not come through.
    {"explain $GOLDEN --row 1.5", illegal_value, "--row"},
    {"gpu campaign --outputs x", illegal_value, "--outputs"},
    {"gpu campaign --seconds nan", illegal_value, "--seconds"},
    {"gpu campaign --outputs 1e9 --units 10", not_together, "--outputs"},
    {"compare a b --json=maybe", unread_argument, "--json=maybe"},
    {"compare a b --json --json", illegal_value, "--json"},
    {"golden " + test::f16 + " --target -o x", illegal_value, "--target"},
    {"golden " + test::f16 + " --target '' $OUT", illegal_value, "--target"},
    {"golden " + test::f16 + " --target= $OUT", illegal_value, "--target"},
    {"compare a -- b c", unread_argument, "c"},
    {"compare -- --json", missing_argument, "actual"},
    {"bench ''", illegal_value, "words"},
    {"layout ldmatrix --operand a", missing_argument, "--fragment"},
    {"golden " + test::f16 + " --gpu h100 $OUT", not_found, "flag of bitmma golden"},
});

}  // namespace

TEST_CASE("bitmma refuses bad requests: message and exit code of each") { bad_requests.check(); }

TEST_CASE("one mistake is one line that begins with error") {
  for (const char* line : {"simulat", "golden --targt sm_90a", "compare a b c", "explain x --row", "encode"}) {
    const Outcome outcome = run_line(line);
    INFO(outcome.err);
    CHECK(outcome.code == 2);
    CHECK(outcome.err.starts_with("error: "));
    CHECK(std::ranges::count(outcome.err, '\n') == 1);
  }
  // Long arguments are cut, not matched against anything.
  const Outcome outcome = run({"compare", "a", "b", std::string(100'000, 'x')});
  CHECK(outcome.code == 2);
  CHECK(outcome.err.size() < 1000);
  CHECK(run({"compare", "--" + std::string(100'000, 'x')}).err.size() < 1000);
}

namespace {

constexpr auto command_headings =
    std::to_array<std::string_view>({"Compute:", "Check:", "Understand:", "GPU:", "Tools:", "Subcommands:"});

/// The commands that a help text lists below such headings.
std::vector<std::string> subcommands_of(const std::string& help) {
  std::vector<std::string> names;
  std::istringstream lines(help);
  bool listed = false;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  "))
      listed = std::ranges::find(command_headings, std::string_view(line)) != command_headings.end();
    else if (listed && line.size() > 2 && line[2] != ' ') names.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return names;
}

/// The lines of the help that begin with "  bitmma", whole where they go on behind a backslash, or a quote.
std::vector<std::string> examples_of(const std::string& help) {
  std::vector<std::string> examples;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  bitmma ")) continue;
    std::string example = line.substr(2), more;
    while (example.ends_with('\\') && std::getline(lines, more)) example = example.substr(0, example.size() - 1) + more;
    while (std::ranges::count(example, '\'') % 2 != 0 && std::getline(lines, more)) example += "\n" + more;
    examples.push_back(example);
  }
  return examples;
}

/// The words of the first command of the line: before a comment, a pipe or another command.
std::vector<std::string> first_command(const std::string& example) {
  std::vector<std::string> words;
  for (const std::string& word : test::shell_words(example)) {
    if (word == "#" || word == "|" || word == "&&") break;
    words.push_back(word);
  }
  return {words.begin() + 1, words.end()};
}

/// The files that examples read, made where they are not.
void provide(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool is_written = i > 0 && (words[i - 1] == "-o" || words[i - 1] == "--output");
    if (is_written || std::filesystem::exists(word)) continue;
    if (word == "product.safetensors") {
      TensorFile product = read_tensor_file(test::source_path("data/products/nvjet_algo2_e4m3_k4096.safetensors"));
      product.erase("d");
      write_tensor_file(word, product);
    } else if (word == "mma_sync.safetensors") {
      const std::string on_a100 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32";
      REQUIRE(run({"golden", on_a100, "--target", "sm_80", "-o", word}).code == 0);
    } else if (word == "recorded.safetensors") {
      std::filesystem::copy(test::source_path("data/products/lost_tail_bf16_k11528.safetensors"), word);
    } else if (word == "numpy.safetensors") {
      REQUIRE(run({"golden", test::f16, "-o", "whole.safetensors"}).code == 0);
      TensorFile file = read_tensor_file("whole.safetensors"), logical;
      logical.metadata = file.metadata;
      for (const char* name : {"a", "b", "c"}) logical.set(*file.find(name));
      write_tensor_file(word, logical);
    } else if (word.ends_with(".npy")) {
      // B is 16 x 64, weight and bias have 16 numbers, d is that of the product and what is compared with it has its
      // shape, others are 128 x 16: all zeros.
      struct Array {
        std::string shape;
        size_t elements;
      };
      const Array array = word == "b.npy"                              ? Array{"16, 64", 1024}
                          : word == "weight.npy" || word == "bias.npy" ? Array{"16,", 16}
                          : word == "d.npy" || words[0] == "compare"   ? Array{"8, 16", 128}
                                                                       : Array{"128, 16", 2048};
      const bool is_f32 = words[0] == "diagnose";
      std::string header =
          fmt::format("{{'descr': '<f{}', 'fortran_order': False, 'shape': ({}), }}", is_f32 ? 4 : 2, array.shape);
      header.resize(117, ' ');
      test::write_text(word, std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n" +
                                 std::string(array.elements * (is_f32 ? 4 : 2), '\0'));
    } else if (word == "row_major.bin") {
      test::write_text(word, std::string(4096 * 256, 'x'));
    } else if (word.ends_with(".safetensors")) {
      const std::string wide = "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16";
      REQUIRE(run({"golden", wide, "--cases", "4", "-o", word}).code == 0);
    }
  }
}

}  // namespace

TEST_CASE("no line of a help is longer than 100 columns") {
  std::vector<std::string> commands{"--help-all", "--help"};
  for (const std::string& command : subcommands_of(run({"--help"}).out)) {
    commands.push_back(command + " --help");
    for (const std::string& below : subcommands_of(run({command, "--help"}).out)) {
      commands.push_back(command + " " + below + " --help");
    }
  }
  CHECK(commands.size() > 20);
  for (const std::string& command : commands) {
    std::istringstream lines(run_line(command).out);
    for (std::string line; std::getline(lines, line);) {
      INFO(command << '\n' << line);
      CHECK(line.size() <= 100);
    }
  }
}

TEST_CASE("every example of every help can be pasted and runs", "[long]") {
  const std::filesystem::path before = std::filesystem::current_path();
  const std::string_view cpu = cpu_target();
  std::vector<std::string> commands{""};
  for (const std::string& command : subcommands_of(run({"--help"}).out)) {
    commands.push_back(command);
    for (const std::string& below : subcommands_of(run({command, "--help"}).out)) {
      commands.push_back(command + " " + below);
    }
  }
  CHECK(commands.size() > 20);
  int examples = 0;
  std::string failed;
  for (const std::string& command : commands) {
    const test::TemporaryFolder folder;
    std::filesystem::current_path(folder.path("."));
    const std::string help = run_line(command + " --help").out;
    for (const std::string& example : examples_of(help)) {
      const std::vector<std::string> words = first_command(example);
      ++examples;
      // A shell expands these unless they are quoted.
      std::string unquoted;
      bool quoted = false;
      for (const char c : example.substr(0, example.find(" #"))) {
        if (c == '\'') quoted = !quoted;
        else if (!quoted) unquoted += c;
      }
      if (unquoted.find_first_of("*?(){}<>$;\"") != std::string::npos) failed += example + "\nneeds quotes\n";
      // A GPU or a minute is not here; the laboratory has tests of its own; exec would replace this process.
      if (words[0] == "gpu" || words[0] == "exec" || words[0] == "survey" || words == std::vector<std::string>{"bench"})
        continue;
      provide(words);
      const Outcome outcome = run(words);
      if (outcome.code != 0 && outcome.code != 1) failed += example + "\n" + outcome.err;
    }
    std::filesystem::current_path(before);
  }
  use_cpu_target(cpu);  // an example takes another
  INFO(failed);
  CHECK(failed.empty());
  CHECK(examples > 45);
}

TEST_CASE("replay prints the line that recomputes a capture in Python, as a shell reads it") {
  const Outcome outcome = run({"replay", "captured", "--weights", "my model/", "--against", "it's"});
  CHECK(outcome.code == 2);
  CHECK(outcome.out.empty());
  CHECK_THAT(outcome.err, Catch::Matchers::EndsWith(
                              "python3 -m bitmma replay captured --weights 'my model/' --against 'it'\\''s'\n"));
}

TEST_CASE("colours go to terminals alone, and not where NO_COLOR is set") {
  static_assert(cli::takes_color(true, "xterm", ""));
  static_assert(!cli::takes_color(false, "xterm", ""));
  static_assert(!cli::takes_color(true, "dumb", "") && !cli::takes_color(true, "", ""));
  static_assert(!cli::takes_color(true, "xterm", "1"));
  const std::vector<std::string> verify{"verify", test::one_golden};
  std::ostringstream out, err;
  CHECK(cli::run(verify, {.out = out, .err = err, .color = true}) == 0);
  CHECK_THAT(out.str(), ContainsSubstring("\033[32m"));
  for (const std::string& plain : {run(verify).out, run({"compare", test::one_golden, test::one_golden}).out,
                                   run({"diagnose", test::one_golden}).out, run({"explain", test::one_golden}).out}) {
    CHECK_THAT(plain, !ContainsSubstring("\033"));
  }
}

TEST_CASE("--color overrides what the terminal is, for results and errors") {
  const std::string golden = test::one_golden;
  CHECK_THAT(run({"--color", "always", "verify", golden}).out, ContainsSubstring("\033[32m"));
  CHECK_THAT(run({"verify", golden, "--color=always"}).out, ContainsSubstring("\033[32m"));
  CHECK_THAT(run({"explain", golden, "--color=always"}).out, ContainsSubstring("\033[32mthe recorded D is equal"));
  CHECK_THAT(run({"verify", "absent", "--color=always"}).err, ContainsSubstring("\033[31merror:"));
  std::ostringstream out, err;
  CHECK(cli::run({"verify", golden, "--color", "never"}, {.out = out, .err = err, .color = true}) == 0);
  CHECK_THAT(out.str(), !ContainsSubstring("\033"));
  CHECK_THAT(run({"verify", golden, "--color", "red"}).violations, test::refused(unknown_name, "--color"));
  CHECK_THAT(run({"verify", golden, "--color"}).violations, test::refused(unknown_name, "--color"));
}

TEST_CASE("without a command the program prints its help, with the commands in groups") {
  const Outcome bare = run(std::vector<std::string>{});
  CHECK(bare.code == 0);
  CHECK(bare.err.empty());
  CHECK(bare.out == run({"--help"}).out);
  size_t last = 0;
  for (const char* heading : {"\nCompute:\n", "\nCheck:\n", "\nUnderstand:\n", "\nGPU:\n", "\nTools:\n"}) {
    INFO(heading);
    CHECK(bare.out.find(heading) > last);
    last = bare.out.find(heading);
  }
  CHECK_THAT(bare.out, !ContainsSubstring("Subcommands:"));
}

TEST_CASE("the flags of golden are below headings") {
  const std::string help = run({"golden", "--help"}).out;
  for (const char* heading :
       {"\nOptions:\n", "\nFields of several families:\n", "\nFields of tcgen05:\n",
        "\nState before the instruction:\n", "\nPlaces of the operands:\n", "\nWhat is written:\n"}) {
    INFO(heading);
    CHECK_THAT(help, ContainsSubstring(heading));
  }
}

TEST_CASE("fish offers no files in place of a command") {
  CHECK_THAT(run({"completion", "fish"}).out, ContainsSubstring("complete -c bitmma -n '__fish_use_subcommand' -f\n"));
}

TEST_CASE("numbers in the help have all their digits") {
  const std::string all = run({"--help-all"}).out;
  CHECK_THAT(all, ContainsSubstring("1 to 1048576"));
  CHECK_THAT(all, ContainsSubstring("0.000001 to 1000000000"));
  CHECK_THAT(all, !ContainsSubstring("e+0"));
}

TEST_CASE("help has examples, goes to stdout and is no error") {
  for (const char* line : {"--help",
                           "simulate --help",
                           "golden --help",
                           "verify --help",
                           "compare --help",
                           "decode --help",
                           "encode descriptor --help",
                           "encode instruction --help",
                           "layout smem --help",
                           "layout tmem --help",
                           "layout ldst --help",
                           "encode idesc --help",
                           "layout fragment --help",
                           "list --help",
                           "layout --help",
                           "layout scales --help",
                           "explain --help",
                           "diagnose --help",
                           "encode mask --help",
                           "layout descriptor --help",
                           "layout tmem-plan --help",
                           "ptx --help",
                           "gpu --help",
                           "gpu campaign --help",
                           "bench --help"}) {
    const Outcome outcome = run_line(line);
    INFO(line);
    CHECK(outcome.code == 0);
    CHECK(outcome.err.empty());
    CHECK_THAT(outcome.out, ContainsSubstring("Example") && ContainsSubstring("bitmma "));
  }
  for (const char* line : {"verify --help", "gemm --help", "bench --help"}) {
    CHECK_THAT(run_line(line).out, ContainsSubstring("--cpu-target TEXT") && ContainsSubstring("baseline"));
  }
  CHECK(run({"--version"}).out == "bitmma 0.3.0\n");
}
