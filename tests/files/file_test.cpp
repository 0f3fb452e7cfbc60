#include "bitmma/files/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "bitmma/core/error.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

namespace {

int entries_of(const std::string& folder) {
  int entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++entries;
  return entries;
}

void write_text_whole(const std::string& path, const std::string& text) {
  write_whole(path, [&](std::ostream& stream) { stream << text; });
}

}  // namespace

TEST_CASE("a failed write leaves the old file and nothing else") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("file");
  test::write_text(path, "old");
  CHECK_THROWS_AS(write_whole(path,
                              [](std::ostream& stream) {
                                stream << "half";
                                throw Error({.field = "x"});
                              }),
                  Error);
  CHECK(test::read_text(path) == "old");
  CHECK_THROWS_AS(write_whole(folder.path("no/such/folder"), [](std::ostream&) {}), Error);
  CHECK_THROWS_AS(write_whole(folder.path("."), [](std::ostream&) {}), Error);
  CHECK(entries_of(folder.path(".")) == 1);
  write_whole(path, [](std::ostream& stream) { stream << "new"; });
  CHECK(test::read_text(path) == "new");
}

TEST_CASE("an input file has the bytes of the file, none when it is empty") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("file");
  test::write_text(path, "abc");
  const InputFile file(path);
  REQUIRE(file.size() == 3);
  std::array<uint8_t, 2> bytes{};
  file.read(1, bytes);
  CHECK(bytes == std::array<uint8_t, 2>{'b', 'c'});
  CHECK_THROWS_MATCHES(file.read(2, bytes), Error, refused(unusable_file, "$FOLDER/file"));
  CHECK_THROWS_AS(file.read(~uint64_t{0}, bytes), Error);
  CHECK(read_whole(path) == "abc");
  test::write_text(path + "2", "");
  CHECK(InputFile(path + "2").size() == 0);
  CHECK(read_whole(path + "2").empty());
}

TEST_CASE("what cannot be read is refused with its path and the reason") {
  const test::TemporaryFolder folder;
  CHECK_THROWS_MATCHES(InputFile(folder.path("absent")), Error, refused(not_found, "file"));
  CHECK_THROWS_MATCHES(InputFile(folder.path(".")), Error, refused(unusable_file, "$FOLDER/."));
  CHECK_THROWS_MATCHES(InputFile("/dev/null"), Error, refused(unusable_file, "/dev/null"));
}

TEST_CASE("a link is written through and stays a link, and a new file keeps the permissions of the old one") {
  const test::TemporaryFolder folder;
  const std::string file = folder.path("file"), link = folder.path("link");
  test::write_text(file, "old");
  REQUIRE(chmod(file.c_str(), 0600) == 0);
  std::filesystem::create_symlink("file", link);
  write_text_whole(link, "new");
  CHECK(std::filesystem::is_symlink(link));
  CHECK(test::read_text(file) == "new");
  CHECK((std::filesystem::status(file).permissions() & std::filesystem::perms::mask) ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  CHECK(entries_of(folder.path(".")) == 2);
}

TEST_CASE("a pipe is written into, not replaced by a file") {
  const test::TemporaryFolder folder;
  const std::string pipe = folder.path("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const int reader = open(pipe.c_str(), O_RDWR | O_NONBLOCK);  // so that nobody waits for the other end
  REQUIRE(reader >= 0);
  write_text_whole(pipe, "text");
  char text[8] = {};
  const auto count = read(reader, text, sizeof text);
  close(reader);
  CHECK(count == 4);
  CHECK(std::string(text) == "text");
  CHECK(std::filesystem::is_fifo(pipe));
  CHECK(entries_of(folder.path(".")) == 1);
}

TEST_CASE("what lies beside the file under the name of an unfinished one is neither followed nor removed") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("file"), other = folder.path("other");
  test::write_text(other, "mine");
  std::filesystem::create_symlink("other", path + ".part" + std::to_string(getpid()));
  write_text_whole(path, "new");
  CHECK(test::read_text(path) == "new");
  CHECK_FALSE(std::filesystem::is_symlink(path));
  CHECK(test::read_text(other) == "mine");
}
