// Inputs that change while they are read, that never come, and limits of the process.
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "bitmma/core/error.hpp"
#include "bitmma/files/compare.hpp"
#include "bitmma/files/file.hpp"
#include "bitmma/files/vector_file.hpp"
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

/// More than what is held in memory.
constexpr off_t large = (off_t{65} << 20) + 100;

const std::string mnemonic = "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16";

std::string make_large_file(const TemporaryFolder& folder) {
  std::string path = folder.path("large.safetensors");
  REQUIRE(run_program({"golden", mnemonic, "--cases", "700", "-o", path}).code == 0);
  REQUIRE(fs::file_size(path) > static_cast<uintmax_t>(large));
  return path;
}

}  // namespace

TEST_CASE("a large file that becomes shorter is refused by name where bytes are missing, and as changed elsewhere") {
  const TemporaryFolder folder;
  const std::string path = folder.path("file"), other = folder.path("other");
  for (const std::string& name : {path, other}) {
    write_text(name, "begin");
    REQUIRE(truncate(name.c_str(), large) == 0);
  }
  const InputFile file(path), untouched(other);
  CHECK_NOTHROW(file.require_unchanged());
  REQUIRE(truncate(path.c_str(), 4096) == 0);
  std::array<uint8_t, 8> bytes{};
  file.read(0, bytes);
  CHECK(bytes[0] == 'b');
  for (const uint64_t offset : {uint64_t{4090}, uint64_t{1} << 20})
    CHECK_THROWS_MATCHES(file.read(offset, bytes), Error, test::refused(unusable_file, "$FOLDER/file"));
  CHECK_THROWS_MATCHES(file.read(file.size() - 7, bytes), Error, test::refused(unusable_file, "$FOLDER/file"));
  CHECK_THROWS_MATCHES(file.require_unchanged(), Error, test::refused(unusable_file, "$FOLDER/file"));
  CHECK_NOTHROW(untouched.require_unchanged());
  untouched.read(large - 8, bytes);
  CHECK(bytes[7] == 0);
}

TEST_CASE("a large file that is overwritten is refused, and one that is replaced is still the old one") {
  const TemporaryFolder folder;
  const std::string path = folder.path("file");
  std::array<uint8_t, 1> first{};
  write_text(path, "begin");
  REQUIRE(truncate(path.c_str(), large) == 0);
  {
    const InputFile file(path);
    write_whole(path, [](std::ostream& stream) { stream << "new"; });
    file.read(0, first);
    CHECK(first[0] == 'b');
    CHECK_NOTHROW(file.require_unchanged());
  }
  REQUIRE(truncate(path.c_str(), large) == 0);
  const InputFile file(path);
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(1));
  CHECK_THROWS_MATCHES(file.require_unchanged(), Error, test::refused(unusable_file, "$FOLDER/file"));
}

TEST_CASE("a file that is larger than memory holds is verified, simulated and copied as a small one is",
          "[unsanitized]") {
  const TemporaryFolder folder;
  const std::string path = make_large_file(folder), out = folder.path("out.safetensors"),
                    part = folder.path("part.safetensors");
  const TensorFile file = read_tensor_file(path);
  CHECK_FALSE(file.find("a")->bytes.is_in_memory());
  write_tensor_file(out, file);
  CHECK(run_process({"cmp", path, out}).code == 0);
  CHECK(run_program({"simulate", path, "-o", out}).code == 0);
  CHECK(read_tensor_file(out).find("d_regs")->bytes == file.find("d_regs")->bytes);
  const VectorFile vectors = as_vector_file(file);
  const Comparison all = verify(vectors, 3);
  CHECK(all.cases == 700);
  CHECK(all.mismatches == 0);
  write_tensor_file(part, cases_of(vectors, 300, 2).file);
  const VectorFile two = read_vector_file(part);
  for (int64_t i = 0; i < 2; ++i) {
    const Case this_case = case_at(vectors, 300 + i), other = case_at(two, i);
    CHECK(this_case.before == other.before);
    CHECK(this_case.logical == other.logical);
  }
  // The first wrong output is found by its own case.
  std::vector<uint8_t> d = file.find("d_regs")->bytes.copy();
  d[(d.size() / 700) * 555] ^= 1;
  TensorFile wrong = file;
  wrong.set(Tensor::from_bytes("d_regs", "U32", file.find("d_regs")->shape, std::move(d)));
  write_tensor_file(out, wrong);
  const Comparison comparison = verify(read_vector_file(out), 2);
  CHECK(comparison.mismatches == 1);
  REQUIRE(comparison.first.has_value());
  CHECK(comparison.first->case_index == 555);
  CHECK(compare(vectors, read_vector_file(out)).mismatches == 1);
}

TEST_CASE("every command refuses an input that is cut or rewritten while it is read, and writes nothing",
          "[unsanitized]") {
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
  for (const char* fault : {"TRUNCATE_READ", "TOUCH_READ"}) {
    for (const std::vector<std::string>& command : commands) {
      fs::copy_file(original, path, fs::copy_options::overwrite_existing);
      const Finished finished = run_program(command, {.environment = {{"LD_PRELOAD", BITMMA_FAILING_CALLS},
                                                                      {"ASAN_OPTIONS", "verify_asan_link_order=0"},
                                                                      {fault, "65536"}}});
      INFO(fault << " " << command[0] << ": " << finished.out.substr(0, 300) << finished.err);
      CHECK(finished.code == 2);
      CHECK(finished.signal == 0);
      note_message(finished.err);
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
  CHECK_THROWS_MATCHES(InputFile(pipe), Error, test::refused(unusable_file, "$FOLDER/pipe"));
  CHECK_THROWS_MATCHES(InputFile("/dev/zero"), Error, test::refused(unusable_file, "/dev/zero"));
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
  note_message(dangling.err);
  fs::create_symlink("circle", folder.path("circle"));
  const Finished circle = run_program({"verify", folder.path("circle")});
  CHECK(circle.code == 2);
  note_message(circle.err);
  const Finished sealed = run_process(
      {"sh", "-c",
       "mkdir -m 000 \"$1/sealed\" && chmod 755 \"$1\" && setpriv --reuid 65534 --clear-groups \"$0\" verify \"$1\"",
       BITMMA_PROGRAM, folder.path("tree")});
  if (geteuid() != 0 || sealed.code == 126 || sealed.code == 127 || sealed.err.find("setpriv") != std::string::npos) {
    WARN("NOT checked: a folder that cannot be read, for want of another user");
    return;
  }
  CHECK(sealed.code == 2);
  note_message(sealed.err);
}

TEST_CASE("limits of memory and of open files end in an error of our own words") {
  const TemporaryFolder folder;
  const std::string path = folder.path("g.safetensors");
#ifndef BITMMA_SANITIZED  // sanitizers need files and memory of their own
  const Finished files = run_program({"golden", mnemonic, "-o", path}, {.most_files = 4});
  CHECK(files.code == 2);
  note_message(files.err);
  int refused = 0;
  // In less than 20 MB the program is there, but no memory for libstdc++ to throw anything.
  for (const uint64_t megabytes : {20, 24, 25, 26, 27, 28, 32, 48, 64, 100, 200, 400}) {
    const Finished memory = run_program({"golden", mnemonic, "--cases", "300", "--threads", "2", "-o", path},
                                        {.most_memory_bytes = megabytes << 20});
    INFO(megabytes << " MB: " << memory.code << " " << memory.signal << " " << memory.err);
    // The loader and glibc's start-up end by themselves where not even the program fits, libstdc++ where an exception
    // does not.
    if (memory.code == 127 || memory.err.find("loading shared libraries") != std::string::npos ||
        memory.err.find("terminate called without an active exception") != std::string::npos ||
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
