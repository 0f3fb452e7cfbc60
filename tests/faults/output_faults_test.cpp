// Outputs on disks that are full, broken or guarded, to files that are no files, and under signals: the old file or the
// new one, nothing beside it, and an exit code that says so.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <random>
#include <set>
#include <thread>

#include "bitmma/core/error.hpp"
#include "bitmma/files/file.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/messages.hpp"
#include "support/process.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using namespace bitmma::test;
using enum bitmma::ViolationCode;
namespace fs = std::filesystem;

namespace {

const std::string mnemonic = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16";

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

std::vector<std::string> golden(const std::string& out, int cases = 1, int seed = 0) {
  return {"golden", mnemonic, "--cases", std::to_string(cases), "--seed", std::to_string(seed), "-o", out};
}

/// The program with some system calls failing; see failing_calls.c.
Finished run_with_faults(const std::vector<std::string>& arguments, std::map<std::string, std::string> faults) {
  faults["LD_PRELOAD"] = BITMMA_FAILING_CALLS;
  faults["ASAN_OPTIONS"] = "verify_asan_link_order=0";
  return run_program(arguments, {.environment = std::move(faults)});
}

/// Calls that fail, with the number of the error.
const std::vector<std::string> faults{"write:1:28", "write:1:122", "write:1:5",   "fsync:1:5", "fsync:1:28",
                                      "close:1:5",  "close:1:122", "rename:1:30", "fchmod:1:1"};

}  // namespace

TEST_CASE("when a system call of writing fails, the old file stays, nothing lies beside it, and the exit code is 2") {
  const TemporaryFolder folder;
  const std::string path = folder.path("g.safetensors");
  REQUIRE(run_program(golden(path)).code == 0);
  const std::string old = read_text(path);
  for (const std::string& fault : faults) {
    INFO(fault);
    const Finished finished = run_with_faults(golden(path, 2, 7), {{"FAIL_CALL", fault}});
    INFO(finished.err);
    CHECK(finished.code == 2);
    note_message(finished.err);
    CHECK(read_text(path) == old);
    CHECK(names_in(folder.path(".")) == std::set<std::string>{"g.safetensors"});
  }
}

TEST_CASE("a folder that takes no new files is named, and a file system that cannot flush is enough") {
  const TemporaryFolder folder;
  const std::string path = folder.path("g.safetensors");
  const Finished refused = run_with_faults(golden(path), {{"FAIL_CALL", "create:1:30"}});
  CHECK(refused.code == 2);
  note_message(refused.err);
  REQUIRE(run_program(golden(path, 3, 5)).code == 0);
  const std::string expected = read_text(path);
  fs::remove(path);
  const Finished finished = run_with_faults(golden(path, 3, 5), {{"FAIL_CALL", "fsync:1:22"}});
  INFO(finished.err);
  CHECK(finished.code == 0);
  CHECK(read_text(path) == expected);
  CHECK(names_in(folder.path(".")) == std::set<std::string>{"g.safetensors"});
}

TEST_CASE(
    "killed a hundred times at random moments: the old file or the new one, and nothing beside it but after SIGKILL",
    "[unsanitized]") {
  const TemporaryFolder folder;
  const std::string path = folder.path("g.safetensors");
  std::set<std::string> contents;
  std::chrono::steady_clock::duration whole = {};
  for (int seed : {1, 2}) {
    const auto started = std::chrono::steady_clock::now();
    REQUIRE(run_program(golden(path, 100, seed)).code == 0);
    whole = std::chrono::steady_clock::now() - started;
    contents.insert(read_text(path));
  }
  REQUIRE(contents.size() == 2);
  std::mt19937_64 random(20261122);
  int killed = 0;
  for (int i = 0; i < 100; ++i) {
    const int signal = std::vector{SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGKILL}[random() % 5];
    Process process(program_with(golden(path, 100, 1 + i % 2)));
    std::this_thread::sleep_for(whole * static_cast<int64_t>(random() % 1000) / 1000);
    process.signal(signal);
    const Finished finished = process.wait();
    INFO("signal " << signal << ", ended by " << finished.signal << ", code " << finished.code);
    // Where the first runs took longer than the others, moments within the others come earlier.
    if (finished.signal == signal) ++killed;
    else whole -= whole / 20;
    CHECK((finished.signal == signal || finished.code == 0));
    CHECK(contents.count(read_text(path)) == 1);
    for (const std::string& name : names_in(folder.path("."))) {
      if (name == "g.safetensors") continue;
      CHECK(signal == SIGKILL);
      CHECK(name.starts_with(unfinished_prefix));
      fs::remove(folder.path(name));
    }
  }
  CHECK(killed >= 20);
}

TEST_CASE("the program removes its unfinished file when a signal ends it, and no input whose name begins like one") {
  const TemporaryFolder folder;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU}) {
    Process process(program_with(golden(folder.path("g.safetensors"), 100000)));
    // None comes where the disk, or a limit, has no room for what would be written.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (names_in(folder.path(".")).empty() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    process.signal(signal);
    const Finished finished = process.wait();
    INFO(finished.err);
    REQUIRE(finished.signal == signal);
    CHECK(names_in(folder.path(".")).empty());
  }
  // An input of more than 64 MiB is open while it is read.
  const std::string input = folder.path(std::string(unfinished_prefix) + "0123456789abcdef");
  write_golden(input,
               {.instruction = parse_instruction("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16"), .cases = 700},
               2);
  Process process(program_with({"verify", input}));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  process.signal(SIGTERM);
  process.wait();
  CHECK(fs::exists(input));
}

TEST_CASE("a limit of the size of files is an error before anything is written, and ends no process") {
  const TemporaryFolder folder;
  const std::string path = folder.path("g.safetensors");
  REQUIRE(run_program(golden(path)).code == 0);
  const std::string old = read_text(path);
  const Finished finished = run_program(golden(path, 100), {.most_file_bytes = 8192});
  INFO(finished.err);
  CHECK(finished.code == 2);
  CHECK(finished.signal == 0);
  note_message(finished.err);
  // Text whose size is not known before; the message itself fits the limit.
  const std::string text = folder.path("a.ptx");
  const Finished kernel = run_program({"ptx", mnemonic, "-o", text}, {.most_file_bytes = 1000});
  CHECK(kernel.code == 2);
  note_message(kernel.err);
  CHECK(read_text(path) == old);
  CHECK(names_in(folder.path(".")) == std::set<std::string>{"g.safetensors"});
}

TEST_CASE("a file larger than the disk is refused with both sizes before the first case is written") {
  const TemporaryFolder folder;
  const std::string path = folder.path("g.safetensors");
  const Finished finished = run_program(golden(path, 2000000000));
  INFO(finished.err);
  CHECK(finished.code == 2);
  CHECK_THAT(finished.err,
             ContainsSubstring("TB") && (ContainsSubstring("the disk has") || ContainsSubstring("ulimit -f")));
  CHECK(names_in(folder.path(".")).empty());
}

TEST_CASE("on a full disk the old file stays, and on one that is mounted read-only, too") {
  const TemporaryFolder folder;
  // A mount in a namespace of its own disappears with the shell.
  const std::string script = R"sh(
    mount -t tmpfs -o size=256k tmpfs "$1" 2>/dev/null || { echo NOT; exit 0; }
    "$0" golden MNEMONIC --cases 1 -o "$1/g" || exit 1
    before=$(cksum < "$1/g")
    "$0" golden MNEMONIC --cases 400 -o "$1/g"; echo "code $?"
    head -c 1M /dev/zero > "$1/filler" 2>/dev/null
    "$0" ptx MNEMONIC -o "$1/g"; echo "code $?"
    "$0" layout smem --descriptor 0x4000004000010000 --rows 64 --cols 64 --svg "$1/t.svg" > "$1/lines"; echo "code $?"
    rm "$1/lines" "$1/filler"
    mount -o remount,ro "$1"
    "$0" golden MNEMONIC --seed 3 -o "$1/g"; echo "code $?"
    [ "$before" = "$(cksum < "$1/g")" ] && echo same
    ls -A "$1" | wc -l)sh";
  std::string text = script;
  for (size_t at = 0; (at = text.find("MNEMONIC")) != std::string::npos;) text.replace(at, 8, mnemonic);
  const Finished finished = run_process({"unshare", "-m", "sh", "-c", text, BITMMA_PROGRAM, folder.path(".")});
  INFO(finished.err);
  if (finished.out.starts_with("NOT") || (finished.out.empty() && finished.code != 0)) {
    // "a limit of the size of files" and the failing calls stand in.
    WARN("NOT checked: nothing can be mounted here");
    return;
  }
  CHECK(finished.out == "code 2\ncode 2\ncode 2\ncode 2\nsame\n1\n");
}

TEST_CASE("results that do not arrive on standard output end with code 2, in every command", "[unsanitized]") {
  const TemporaryFolder folder;
  const std::string file = source_path("data/golden/sm_90a/misc/misc_f32_f16_f16_sat0_sd0.safetensors");
  const std::vector<std::vector<std::string>> commands{
      {"verify", file},
      {"verify", file, "--json"},
      {"simulate", file},
      {"simulate", file, "--lint"},
      {"explain", file, "--case", "0", "--row", "0", "--col", "0"},
      {"compare", file, file},
      {"compare", file, file, "--json"},
      {"diagnose", file, file},
      {"decode", "0x4000004000010000"},
      {"encode", "--help"},
      {"layout", "smem", "--descriptor", "0x4000004000010000", "--csv"},
      {"layout", "fragment", "--instruction", mnemonic},
      {"list"},
      {"list", "--json"},
      {"ptx", mnemonic},
      {"--help"},
      {"--version"},
  };
  for (const std::vector<std::string>& command : commands) {
    INFO(command[0]);
    const Finished full = run_program(command, {.out = "/dev/full"});
    CHECK(full.code == 2);
    note_message(full.err);
    const Finished closed = run_program(command, {.closed_out = true});
    CHECK(closed.code == 2);
    note_message(closed.err);
  }
  // Nothing goes to standard output here, so that it may be closed.
  const std::string path = folder.path("g.safetensors"), other = folder.path("h.safetensors");
  CHECK(run_program(golden(path, 3), {.closed_out = true}).code == 0);
  CHECK(run_program(golden(other, 3)).code == 0);
  CHECK(read_text(path) == read_text(other));
}

TEST_CASE("devices and pipes are written through and stay, and block devices, folders and sockets are refused") {
  const TemporaryFolder folder;
  const std::string null = folder.path("null"), full = folder.path("full"), block = folder.path("block");
  const bool has_nodes = mknod(null.c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0 &&
                         mknod(full.c_str(), S_IFCHR | 0666, makedev(1, 7)) == 0 &&
                         mknod(block.c_str(), S_IFBLK | 0666, makedev(7, 200)) == 0;
  const auto is_device = [](const std::string& path) { return fs::is_character_file(fs::status(path)); };
  const std::vector<std::vector<std::string>> writers{
      golden(""), {"ptx", mnemonic, "-o", ""}, {"layout", "smem", "--descriptor", "0x4000004000010000", "--svg", ""}};
  for (std::vector<std::string> command : writers) {
    INFO(command[0]);
    // Links to the system's own devices, which must never be replaced: the link is what could be.
    const std::string link = folder.path("link");
    fs::create_symlink("/dev/full", link);
    command.back() = link;
    const Finished linked = run_program(command);
    CHECK(linked.code == 2);
    note_message(linked.err);
    CHECK((fs::is_symlink(link) && is_device("/dev/full")));
    fs::remove(link);
    if (!has_nodes) continue;
    command.back() = null;
    CHECK(run_program(command).code == 0);
    CHECK(is_device(null));
    command.back() = full;
    CHECK(run_program(command).code == 2);
    CHECK(is_device(full));
    command.back() = block;
    const Finished blocked = run_program(command);
    CHECK(blocked.code == 2);
    note_message(blocked.err);
    CHECK(fs::is_block_file(fs::status(block)));
    command.back() = folder.path(".");
    CHECK(run_program(command).code == 2);
  }
  if (!has_nodes) WARN("NOT checked: no device nodes can be made here; links to /dev/full stood in");
}

TEST_CASE("a dash is standard output after -o and standard input elsewhere: programs make a chain") {
  const Finished chain = run_process(
      {"sh", "-c", "\"$0\" golden " + mnemonic + " --cases 3 -o - | \"$0\" simulate - -o - | \"$0\" verify - --json",
       BITMMA_PROGRAM});
  INFO(chain.err);
  CHECK(chain.code == 0);
  CHECK_THAT(chain.out, ContainsSubstring("\"cases\": 3") || ContainsSubstring("\"cases\":3"));
  const Finished kernel = run_process({"sh", "-c", "\"$0\" ptx " + mnemonic + " -o- | head -c 3", BITMMA_PROGRAM});
  CHECK(kernel.out.size() == 3);
  const TemporaryFolder folder;
  const Finished compared =
      run_process({"sh", "-c", "\"$0\" golden " + mnemonic + " --output=- > \"$1\" && \"$0\" compare \"$1\" - < \"$1\"",
                   BITMMA_PROGRAM, folder.path("x.safetensors")});
  INFO(compared.err);
  CHECK(compared.code == 0);
}

TEST_CASE("an output to /dev/stdout goes where standard output goes: a pipe, or behind what is already in a file") {
  const TemporaryFolder folder;
  const std::string file = folder.path("file");
  REQUIRE(run_program({"ptx", mnemonic, "-o", file}).code == 0);
  const std::string kernel = read_text(file);
  const Finished piped = run_process({"sh", "-c", "\"$0\" ptx " + mnemonic + " -o /dev/stdout | cat", BITMMA_PROGRAM});
  CHECK(piped.out == kernel);
  const std::string both = folder.path("both");
  const Finished redirected =
      run_process({"sh", "-c", "{ echo before; \"$0\" ptx " + mnemonic + " -o /dev/stdout; echo after; } >> \"$1\"",
                   BITMMA_PROGRAM, both});
  CHECK(redirected.code == 0);
  CHECK(read_text(both) == "before\n" + kernel + "after\n");
}

TEST_CASE("permissions, links and names: what is replaced stays what it was") {
  const TemporaryFolder folder;
  const auto write = [](const std::string& path, const std::string& text) {
    write_whole(path, [&](std::ostream& stream) { stream << text; });
  };
  const std::string file = folder.path("file"), second = folder.path("second"), link = folder.path("link");
  write(file, "old, and longer");
  SECTION("a file of several names stays one file") {
    fs::create_hard_link(file, second);
    write(file, "new");
    CHECK(read_text(second) == "new");
    CHECK(fs::hard_link_count(file) == 2);
  }
  SECTION("a link to a file that is not there makes that file") {
    fs::create_symlink("absent", link);
    write(link, "new");
    CHECK(fs::is_symlink(link));
    CHECK(read_text(folder.path("absent")) == "new");
  }
  SECTION("a chain of links is followed, a circle refused") {
    fs::create_symlink("file", second);
    fs::create_symlink("second", link);
    write(link, "new");
    CHECK((fs::is_symlink(link) && fs::is_symlink(second)));
    CHECK(read_text(file) == "new");
    fs::create_symlink("round", folder.path("round"));
    CHECK_THROWS_MATCHES(write(folder.path("round"), "x"), Error, test::refused(unusable_file, "$FOLDER/round"));
  }
  SECTION("a write-protected file is refused, by root as well") {
    REQUIRE(chmod(file.c_str(), 0444) == 0);
    CHECK_THROWS_MATCHES(write(file, "new"), Error, test::refused(unusable_file, "$FOLDER/file"));
    CHECK(read_text(file) == "old, and longer");
  }
  SECTION("names of 255 bytes and names that are not UTF-8") {
    for (const std::string& name : {std::string(255, 'a'), std::string("n\xff\xfe\n\x1b[31m")}) {
      write(folder.path(name), "new");
      CHECK(read_text(folder.path(name)) == "new");
    }
    CHECK_THROWS_MATCHES(write(folder.path(std::string(256, 'a')), "new"), Error,
                         test::refused(unusable_file, "$FOLDER/" + std::string(256, 'a')));
    CHECK_THROWS_MATCHES(write(folder.path(std::string(5000, 'a')), "new"), Error,
                         test::refused(unusable_file, "$FOLDER/" + std::string(5000, 'a')));
    CHECK_THROWS_MATCHES(write("", "new"), Error, test::refused(illegal_value, "path"));
    CHECK_THROWS_MATCHES(write(std::string("a\0b", 3), "new"), Error, test::refused(illegal_value, "path"));
    CHECK_THROWS_MATCHES(write(folder.path("file/x"), "new"), Error, test::refused(unusable_file, "$FOLDER/file/x"));
  }
}

TEST_CASE("two writers of one name: one whole file of one of them") {
  const TemporaryFolder folder;
  const std::string path = folder.path("file");
  const std::string a(3000000, 'a'), b(3000000, 'b');
  for (int round = 0; round < 10; ++round) {
    const auto write = [&](const std::string& text) {
      write_whole(path, [&](std::ostream& stream) {
        for (size_t at = 0; at < text.size(); at += 1000) stream << text.substr(at, 1000);
      });
    };
    std::thread first(write, a), second(write, b);
    first.join(), second.join();
    const std::string text = read_text(path);
    CHECK((text == a || text == b));
    CHECK(names_in(folder.path(".")) == std::set<std::string>{"file"});
  }
  Process first(program_with(golden(path, 300, 1))), second(program_with(golden(path, 300, 2)));
  CHECK(first.wait().code == 0);
  CHECK(second.wait().code == 0);
  CHECK(run_program({"verify", path}).code == 0);
}

TEST_CASE("two inputs of one name are not written over each other") {
  const TemporaryFolder folder;
  for (const char* name : {"x", "y", "out"}) fs::create_directory(folder.path(name));
  const std::string first = folder.path("x/n.safetensors"), second = folder.path("y/n.safetensors");
  REQUIRE(run_program(golden(first)).code == 0);
  REQUIRE(run_program(golden(second, 1, 9)).code == 0);
  const Finished finished = run_program({"simulate", first, second, "-o", folder.path("out")});
  CHECK(finished.code == 2);
  note_message(finished.err);
  CHECK(names_in(folder.path("out")).empty());
  // No file is its own output.
  CHECK(run_program({"simulate", first, "-o", first}).code == 2);
}
