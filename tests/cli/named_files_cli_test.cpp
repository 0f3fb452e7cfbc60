// No command replaces a file that it reads, nor one of its outputs by another: for every flag that names a file.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "bitmma/files/file.hpp"
#include "bitmma/files/tensor_file.hpp"
#include "cli.hpp"
#include "named_files.hpp"
#include "run.hpp"
#include "support/catch.hpp"
#include "support/process.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using cli::FileFlag, cli::FileRole, cli::NamedFile;
using test::Outcome, test::run;
namespace fs = std::filesystem;

namespace {

/// Command lines without outputs. A word $NAME stands for a file of this name; where the command reads such files, the
/// names are the values of its input flags.
const std::multimap<std::string, std::vector<std::string>> lines{
    {"simulate", {"simulate", "$files", "--after", "$after"}},
    {"golden", {"golden", test::f16, "--cases", "1"}},
    {"gemm", {"gemm", "$file", "--plan", "$plan.json"}},
    {"layout smem", {"layout", "smem", "--descriptor", "0x4000004000010000"}},
    {"layout fragment", {"layout", "fragment", "--instruction", test::f16}},
    {"layout ldst", {"layout", "ldst", "--num", "1"}},
    {"layout ldmatrix", {"layout", "ldmatrix", "--num", "1"}},
    {"layout metadata", {"layout", "metadata"}},
    {"layout tmem", {"layout", "tmem"}},
    {"layout tmem-plan", {"layout", "tmem-plan", "--instruction", "tcgen05.mma.cta_group::1.kind::f16"}},
    {"layout scales", {"layout", "scales", "--pack", "$pack", "--unpack", "$unpack"}},
    {"layout", {"layout", "--cute", "(8,8):(8,1)"}},
    {"quantize", {"quantize", "$file", "--recipe", "ocp_mxfp4"}},
    {"operator", {"operator", "softmax", "$file", "--against", "$against"}},
    {"run", {"run", "$file", "--sass", "$sass", "--arg", "map[1,1]:$x.npy", "--trace", "0:0"}},
    {"run", {"run", "$file", "--launches", "$launches"}},  // which excludes --arg
    {"ptx", {"ptx", "$what"}},
    {"gpu run", {"gpu", "run", "$files"}},
    {"gpu campaign", {"gpu", "campaign", "--family", "c-functions", "--kernels", "$kernels"}},
    {"exec", {"exec"}},
    {"survey run", {"survey", "run", "--rehearse", "sm_90a"}},
    {"survey unit", {"survey", "unit", "none"}},
};

/// The names of files in the words.
std::vector<std::string> files_in(const std::vector<std::string>& words) {
  std::vector<std::string> names;
  for (const std::string& word : words)
    if (const size_t at = word.find('$'); at != std::string::npos) names.push_back(word.substr(at + 1));
  return names;
}

/// The words with the files in the folder.
std::vector<std::string> in_folder(std::vector<std::string> words, const test::TemporaryFolder& folder) {
  for (std::string& word : words)
    if (const size_t at = word.find('$'); at != std::string::npos)
      word = word.substr(0, at) + folder.path(word.substr(at + 1));
  return words;
}

std::vector<FileFlag> outputs_of(const std::string& command) {
  std::vector<FileFlag> flags = cli::file_flags();
  std::erase_if(flags, [&](const FileFlag& flag) { return flag.command != command || !flag.is_output; });
  return flags;
}

/// Other names of a file that exists.
std::vector<std::string> names_of(const std::string& path, const test::TemporaryFolder& folder) {
  const std::string link = folder.path("link"), hard_link = folder.path("hard_link"),
                    name = fs::path(path).filename().string();
  fs::remove(link), fs::remove(hard_link);
  fs::create_symlink(name, link);
  fs::create_hard_link(path, hard_link);
  fs::create_directories(folder.path("below"));
  return {path, folder.path("./" + name), folder.path("below/../" + name), link, hard_link};
}

ViolationCode code_of(const std::vector<NamedFile>& files) {
  try {
    cli::require_distinct(files);
  } catch (const Error& error) {
    return error.violations().front().code;
  }
  return ViolationCode::illegal_value;  // not refused
}

}  // namespace

TEST_CASE("every command with an output has a line in this test, with all of its inputs") {
  std::map<std::string, size_t> inputs;
  for (const FileFlag& flag : cli::file_flags()) {
    INFO(flag.command << " " << flag.flag);
    if (flag.is_output) CHECK(lines.contains(flag.command));
    else ++inputs[flag.command];
  }
  std::map<std::string, std::set<std::string>> named;
  for (const auto& [command, words] : lines)
    for (const std::string& name : files_in(words)) named[command].insert(name);
  for (const auto& [command, words] : lines) {
    INFO(command);
    CHECK(named[command].size() == inputs[command]);
  }
  CHECK(lines.size() > 15);
}

TEST_CASE("no output of any command replaces an input of it, under any name") {
  const test::TemporaryFolder folder;
  for (const auto& [command, words] : lines) {
    const std::vector<std::string> line = in_folder(words, folder);
    for (const std::string& input : files_in(words)) {
      for (const std::string& name : files_in(words)) test::write_text(folder.path(name), "contents of " + name);
      for (const FileFlag& output : outputs_of(command)) {
        for (const std::string& name : names_of(folder.path(input), folder)) {
          std::vector<std::string> all = line;
          all.insert(all.end(), {output.flag, name});
          const Outcome outcome = run(all);
          INFO(command << ": " << output.flag << " " << name << "\n" << outcome.out << outcome.err);
          CHECK(outcome.code == 2);
          CHECK_THAT(outcome.violations, test::refused(would_replace, output.flag));
          CHECK(test::read_text(folder.path(input)) == "contents of " + input);
        }
      }
    }
  }
}

TEST_CASE("no output of a command replaces another output of it, under any name") {
  const test::TemporaryFolder folder;
  int pairs = 0;
  for (const auto& [command, words] : lines) {
    const std::vector<FileFlag> outputs = outputs_of(command);
    for (const std::string& name : files_in(words)) test::write_text(folder.path(name), "contents of " + name);
    for (const FileFlag& first : outputs) {
      for (const FileFlag& second : outputs) {
        if (first.flag == second.flag) continue;
        ++pairs;
        for (const std::string name : {"new", "./new", "below/../new"}) {
          fs::create_directories(folder.path("below"));
          std::vector<std::string> all = in_folder(words, folder);
          all.insert(all.end(), {first.flag, folder.path("new"), second.flag, folder.path(name)});
          const Outcome outcome = run(all);
          INFO(command << ": " << first.flag << " " << second.flag << " " << name << "\n" << outcome.err);
          CHECK(outcome.code == 2);
          CHECK_FALSE(fs::exists(folder.path("new")));
        }
      }
    }
  }
  CHECK(pairs >= 6);  // run has three outputs
}

TEST_CASE("files are the same by what they are: links, hard links, and names of files that do not exist yet") {
  const test::TemporaryFolder folder;
  const std::string file = folder.path("file");
  test::write_text(file, "x");
  const auto pair = [](const std::string& input, const std::string& output) {
    return std::vector<NamedFile>{{.role = FileRole::input, .flag = "file", .path = input},
                                  {.role = FileRole::output, .flag = "-o", .path = output}};
  };
  const auto outputs = [](const std::string& first, const std::string& second) {
    return std::vector<NamedFile>{{.role = FileRole::output, .flag = "-o", .path = first},
                                  {.role = FileRole::output, .flag = "--svg", .path = second}};
  };
  for (const std::string& name : names_of(file, folder)) {
    INFO(name);
    CHECK(code_of(pair(file, name)) == ViolationCode::would_replace);
    CHECK(code_of(pair(name, file)) == ViolationCode::would_replace);
    CHECK(code_of(outputs(file, name)) == ViolationCode::would_replace);
  }
  fs::create_symlink("absent", folder.path("dangling"));
  CHECK(code_of(outputs(folder.path("absent"), folder.path("dangling"))) == ViolationCode::would_replace);
  CHECK(code_of(outputs(folder.path("absent"), folder.path("below/.././absent"))) == ViolationCode::would_replace);
  CHECK(code_of(outputs(folder.path("absent"), folder.path("Absent"))) != ViolationCode::would_replace);
  CHECK(code_of(outputs("/dev/null", "/dev/null")) != ViolationCode::would_replace);
  CHECK(code_of(pair(folder.path("."), folder.path("."))) != ViolationCode::would_replace);  // folders
  CHECK(code_of(pair("absent", "absent")) != ViolationCode::would_replace);  // a mnemonic, or reported by the reader
  CHECK(code_of({{.role = FileRole::updated, .flag = "-o", .path = file}}) != ViolationCode::would_replace);
  CHECK(code_of({{.role = FileRole::input, .flag = "a", .path = file},
                 {.role = FileRole::input, .flag = "b", .path = file}}) != ViolationCode::would_replace);
}

TEST_CASE("files of a folder are not replaced by outputs into this folder") {
  const test::TemporaryFolder folder;
  fs::create_directories(folder.path("in"));
  const std::string path = folder.path("in/one.safetensors"), bytes = test::read_text(test::one_golden);
  test::write_text(path, bytes);
  for (const std::vector<std::string>& files : {std::vector{folder.path("in")}, {path}, {path, folder.path("in")}}) {
    for (const std::string& output : {folder.path("in"), folder.path("in/../in"), path}) {
      std::vector<std::string> words{"simulate"};
      words.insert(words.end(), files.begin(), files.end());
      words.insert(words.end(), {"-o", output, "--replace-d"});
      CHECK(run(words).code == 2);
      CHECK(test::read_text(path) == bytes);
    }
  }
  CHECK(run({"simulate", folder.path("in"), "-o", folder.path("out.safetensors")}).code == 0);
}

TEST_CASE("a command that reads a file that its command line does not name cannot replace it") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("file"), link = folder.path("link");
  test::write_text(path, "old");
  fs::create_hard_link(path, link);
  std::vector<std::pair<std::string, FileUse>> seen;
  {
    const FileObserver observer([&](const std::string& used, FileUse use) { seen.emplace_back(used, use); });
    static_cast<void>(read_whole(path));
    write_whole(folder.path("other"), [](std::ostream& out) { out << "x"; });
    {
      const FileObserver inner([&](const std::string&, FileUse use) {
        if (use == FileUse::write) throw Error(Violation{.code = ViolationCode::would_replace});
      });
      CHECK_THROWS_AS(write_whole(path, [](std::ostream& out) { out << "new"; }), Error);
    }
  }
  write_whole(folder.path("third"), [](std::ostream& out) { out << "x"; });
  CHECK(seen ==
        std::vector<std::pair<std::string, FileUse>>{{path, FileUse::read}, {folder.path("other"), FileUse::write}});
  CHECK(test::read_text(path) == "old");
}

TEST_CASE("a dash after any output flag is standard output, never standard input") {
  const test::TemporaryFolder folder;
  const std::string ptx = folder.path("k.ptx");
  test::write_text(ptx, ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n");
  for (const FileFlag& flag : cli::file_flags()) {
    if (flag.command != "run" || !flag.is_output) continue;
    const test::Finished finished = test::run_program({"run", ptx, "--trace", "0:0", flag.flag, "-"});
    INFO(flag.flag << "\n" << finished.err);
    CHECK(finished.err.find("/dev/stdin") == std::string::npos);
    if (flag.flag != "--trace-product") CHECK(finished.code == 0);  // the kernel has no product
  }
}
