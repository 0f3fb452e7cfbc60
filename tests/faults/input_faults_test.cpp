// Inputs that change while they are read, that never come, and limits of the process.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "bitmma/core/error.hpp"
#include "bitmma/files/file.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/process.hpp"

using namespace bitmma;
using namespace bitmma::test;
namespace fs = std::filesystem;

namespace {

/// More than what is read at once.
constexpr off_t large = (off_t{65} << 20) + 100;

const std::string mnemonic = "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16";

std::string make_large_file(const TemporaryFolder& folder) {
  std::string path = folder.path("large.safetensors");
  REQUIRE(run_program({"golden", mnemonic, "--cases", "700", "-o", path}).code == 0);
  REQUIRE(fs::file_size(path) > static_cast<uintmax_t>(large));
  return path;
}

}  // namespace

TEST_CASE("a file that becomes shorter while it is mapped reads as zeros, and is refused by name") {
  const TemporaryFolder folder;
  const std::string path = folder.path("file"), other = folder.path("other");
  for (const std::string& name : {path, other}) {
    write_text(name, "begin");
    REQUIRE(truncate(name.c_str(), large) == 0);
  }
  const MappedFile file(path), untouched(other);
  CHECK_NOTHROW(file.require_unchanged());
  REQUIRE(truncate(path.c_str(), 4096) == 0);
  CHECK(file.bytes()[0] == 'b');
  // Several threads meet the lost pages at once.
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      int sum = 0;
      for (size_t at = file.bytes().size() - 1 - static_cast<size_t>(i); at > 1 << 20; at -= 1 << 20)
        sum += file.bytes()[at];
      CHECK(sum == 0);
    });
  }
  threads.clear();
  CHECK_THROWS_WITH(file.require_unchanged(), ContainsSubstring(path) && ContainsSubstring("shorter"));
  CHECK_NOTHROW(untouched.require_unchanged());
  CHECK(untouched.bytes()[large - 1] == 0);
}

TEST_CASE("a file that is overwritten while it is mapped is refused, and one that is replaced is still the old one") {
  const TemporaryFolder folder;
  const std::string path = folder.path("file");
  write_text(path, "begin");
  REQUIRE(truncate(path.c_str(), large) == 0);
  {
    const MappedFile file(path);
    write_whole(path, [](std::ostream& stream) { stream << "new"; });
    CHECK(file.bytes()[0] == 'b');
    CHECK_NOTHROW(file.require_unchanged());
  }
  REQUIRE(truncate(path.c_str(), large) == 0);
  const MappedFile file(path);
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(1));
  CHECK_THROWS_WITH(file.require_unchanged(), ContainsSubstring(path) && ContainsSubstring("changed"));
}

TEST_CASE("every command refuses an input that is cut or rewritten while it is mapped, and writes nothing") {
  const TemporaryFolder folder;
  const std::string original = make_large_file(folder), path = folder.path("input.safetensors"),
                    out = folder.path("out");
  const std::vector<std::vector<std::string>> commands{
      {"verify", path},
      {"simulate", path, "-o", out},
      {"simulate", path, "--lint"},
      {"explain", path, "--case", "699", "--row", "3", "--col", "3"},
      {"compare", path, original},
  };
  for (const char* fault : {"TRUNCATE_MAPPED", "TOUCH_MAPPED"}) {
    for (const std::vector<std::string>& command : commands) {
      fs::copy_file(original, path, fs::copy_options::overwrite_existing);
      const Finished finished = run_program(command, {.environment = {{"LD_PRELOAD", BITMMA_FAILING_CALLS},
                                                                      {"ASAN_OPTIONS", "verify_asan_link_order=0"},
                                                                      {fault, "65536"}}});
      INFO(fault << " " << command[0] << ": " << finished.out.substr(0, 300) << finished.err);
      CHECK(finished.code == 2);
      CHECK(finished.signal == 0);
      CHECK_THAT(finished.err, ContainsSubstring(path) && ContainsSubstring("while it was read"));
      CHECK_FALSE(fs::exists(out));
    }
  }
}

TEST_CASE("a pipe is read to its end, and one that nobody writes into is given up") {
  const TemporaryFolder folder;
  const std::string file = source_path("data/golden/sm_90a/misc/misc_f32_f16_f16_sat0_sd0.safetensors");
  const std::string expected = run_program({"verify", file}).out;
  const Finished piped = run_process({"bash", "-c", "\"$0\" verify <(sleep 0.2; cat \"$1\")", BITMMA_PROGRAM, file});
  CHECK(piped.code == 0);
  CHECK(piped.out == expected);
  CHECK(run_process({"sh", "-c", "cat \"$1\" | \"$0\" verify /dev/stdin", BITMMA_PROGRAM, file}).out == expected);
  const std::string pipe = folder.path("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_WITH(MappedFile(pipe), ContainsSubstring(pipe) && ContainsSubstring("without a writer"));
  CHECK_THROWS_WITH(MappedFile("/dev/zero"), ContainsSubstring("a character device"));
}

TEST_CASE("folders: what cannot be read is named, a link to nothing too, a circle of links ends") {
  const TemporaryFolder folder;
  const std::string good = source_path("data/golden/sm_90a/misc/misc_f32_f16_f16_sat0_sd0.safetensors");
  fs::create_directory(folder.path("tree"));
  fs::copy_file(good, folder.path("tree/UPPER.SAFETENSORS"));
  fs::create_symlink("..", folder.path("tree/loop"));
  REQUIRE(mkfifo(folder.path("tree/pipe.safetensors").c_str(), 0600) == 0);
  CHECK(run_program({"verify", folder.path("tree")}).code == 0);
  fs::create_symlink("nowhere", folder.path("tree/d.safetensors"));
  const Finished dangling = run_program({"verify", folder.path("tree")});
  CHECK(dangling.code == 2);
  CHECK_THAT(dangling.err, ContainsSubstring("d.safetensors") && ContainsSubstring("No such file"));
  fs::create_symlink("circle", folder.path("circle"));
  CHECK_THAT(run_program({"verify", folder.path("circle")}).err, ContainsSubstring("Too many levels"));
  const Finished sealed = run_process(
      {"sh", "-c",
       "mkdir -m 000 \"$1/sealed\" && chmod 755 \"$1\" && setpriv --reuid 65534 --clear-groups \"$0\" verify \"$1\"",
       BITMMA_PROGRAM, folder.path("tree")});
  if (geteuid() != 0 || sealed.code == 126 || sealed.code == 127 || sealed.err.find("setpriv") != std::string::npos) {
    WARN("NOT checked: a folder that cannot be read, for want of another user");
    return;
  }
  CHECK(sealed.code == 2);
  CHECK_THAT(sealed.err, ContainsSubstring("Permission denied") && !ContainsSubstring("filesystem error"));
}

TEST_CASE("limits of memory and of open files end in an error of our own words") {
  const TemporaryFolder folder;
  const std::string path = folder.path("g.safetensors");
#ifndef BITMMA_SANITIZED  // sanitizers need files and memory of their own
  const Finished files = run_program({"golden", mnemonic, "-o", path}, {.most_files = 4});
  CHECK(files.code == 2);
  CHECK_THAT(files.err, ContainsSubstring("Too many open files"));
  int refused = 0;
  for (const uint64_t megabytes : {16, 24, 32, 48, 64, 100, 200, 400}) {
    const Finished memory = run_program({"golden", mnemonic, "--cases", "300", "--threads", "2", "-o", path},
                                        {.most_memory_bytes = megabytes << 20});
    INFO(megabytes << " MB: " << memory.code << " " << memory.signal << " " << memory.err);
    // The loader and glibc's start-up end by themselves where not even the program fits.
    if (memory.code == 127 || memory.err.find("loading shared libraries") != std::string::npos ||
        memory.err.find("Fatal glibc error") != std::string::npos)
      continue;
    CHECK(memory.signal == 0);
    CHECK((memory.code == 0 || memory.code == 2));
    if (memory.code == 2) {
      ++refused;
      CHECK_THAT(memory.err, ContainsSubstring("memory") && !ContainsSubstring("bad_alloc"));
    }
    CHECK(fs::exists(path) == (memory.code == 0));
    fs::remove(path);
  }
  CHECK(refused > 0);
#else
  WARN("NOT checked: limits, under sanitizers");
#endif
}
