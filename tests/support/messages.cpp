#include "messages.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "files.hpp"

namespace bitmma::test {
namespace {

constexpr std::string_view heading =
    "# The messages that the tests provoke, by test file and test case; tests/support/messages.hpp explains. Do not "
    "edit:\n"
    "#   BITMMA_UPDATE_MESSAGES=1 ctest --preset quick\n";

/// The sanitizers make tests so slow that some check less: their messages must be listed, but are not all.
#ifdef BITMMA_SANITIZED
constexpr bool checks_all = false;
#else
constexpr bool checks_all = true;
#endif

struct Section {
  std::vector<std::string> messages;
  bool is_complete = true;
};
using Sections = std::map<std::pair<std::string, std::string>, Section>;  // test file and test case

Sections made;
std::pair<std::string, std::string> current;
std::set<std::string> current_forms;
std::mutex mutex;

/// The message with every number as "#", decimal or hexadecimal.
std::string without_numbers(const std::string& message) {
  std::string form;
  for (size_t i = 0; i < message.size();) {
    if (std::isdigit(static_cast<unsigned char>(message[i])) == 0) {
      form += message[i++];
      continue;
    }
    form += '#';
    const bool is_hex = message.compare(i, 2, "0x") == 0;
    for (i += is_hex ? 2 : 1; i < message.size(); ++i) {
      const auto c = static_cast<unsigned char>(message[i]);
      if ((is_hex ? std::isxdigit(c) : std::isdigit(c)) == 0) break;
    }
  }
  return form;
}

void replace_all(std::string& text, const std::string& name, const std::string& value) {
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + value.size())) {
    text.replace(at, name.size(), value);
  }
}

std::string path_of_messages() { return source_path("tests/messages.txt"); }

/// The approved file while other processes of the tests may write it.
class LockedFile {
 public:
  explicit LockedFile(bool writes)
      : file_(open(path_of_messages().c_str(), writes ? O_RDWR | O_CREAT : O_RDONLY, 0644)) {
    if (file_ < 0 || flock(file_, writes ? LOCK_EX : LOCK_SH) != 0)
      throw std::runtime_error("cannot read " + path_of_messages());
  }
  ~LockedFile() { close(file_); }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

  Sections read() const {
    Sections sections;
    std::istringstream lines(read_text(path_of_messages()));
    std::vector<std::string>* messages = nullptr;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("== ")) {
        const size_t colon = line.find(": ");
        messages = &sections[{line.substr(3, colon - 3), line.substr(colon + 2)}].messages;
      } else if (messages && !line.empty()) {
        messages->push_back(line);
      }
    }
    return sections;
  }

  void write(const Sections& sections) const {
    std::string text(heading);
    for (const auto& [name, section] : sections) {
      text += "\n== " + name.first + ": " + name.second + "\n";
      for (const std::string& message : section.messages) text += message + "\n";
    }
    write_text(path_of_messages(), text);
  }

 private:
  int file_;
};

}  // namespace

std::string approved_form(std::string text) {
  const std::string folder = (std::filesystem::temp_directory_path() / "bitmma-test-").string();
  for (size_t at = text.find(folder); at != std::string::npos; at = text.find(folder, at)) {
    const size_t end = text.find_first_not_of("0123456789-", at + folder.size());
    text.replace(at, std::min(end, text.size()) - at, "$FOLDER");
  }
  // The digest of a report is of its times, too.
  const std::string digest = "digest = 0x";
  for (size_t at = text.find(digest); at != std::string::npos; at = text.find(digest, at)) {
    const size_t end = text.find_first_not_of("0123456789abcdef", at + digest.size());
    text.replace(at, std::min(end, text.size()) - at, "digest = $DIGEST");
  }
  // The component lab adds one verb to the list of them.
  replace_all(text, "gpu, survey, ptx", "gpu, ptx");
  replace_all(text, source_path(""), "$SOURCE/");
  replace_all(text, std::filesystem::current_path().string(), "$BUILD");
  return text;
}

void note_message(std::string_view text) {
  const std::scoped_lock lock(mutex);
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || !current_forms.insert(without_numbers(line)).second) continue;
    made[current].messages.push_back(approved_form(line));
  }
}

void begin_messages(const std::string& file, const std::string& test_case) {
  const std::string folder = "tests/";
  const size_t at =
      file.rfind(source_path(folder), 0) == 0 ? source_path(folder).size() : file.rfind(folder) + folder.size();
  current = {file.substr(at), test_case};
  current_forms.clear();
}

void end_messages(bool is_complete) {
  if (const auto section = made.find(current); section != made.end())
    section->second.is_complete = checks_all && is_complete;
  else if (checks_all && is_complete) made[current];
}

std::string check_messages(bool (*exists)(const std::string& file, const std::string& test_case)) {
  if (made.empty()) return "";  // no test ran
  const bool updates = std::getenv("BITMMA_UPDATE_MESSAGES") != nullptr;
  const LockedFile file(updates);
  const Sections before = file.read();
  Sections after = before;
  std::set<std::string> files;
  for (const auto& [name, section] : made) {
    files.insert(name.first);
    std::vector<std::string>& messages = after[name].messages;
    if (section.is_complete) messages.clear();
    for (const std::string& message : section.messages) {
      if (std::ranges::find(messages, message) == messages.end()) messages.push_back(message);
    }
  }
  std::erase_if(after, [&](const auto& entry) {
    const auto& [name, section] = entry;
    return section.messages.empty() || (checks_all && files.contains(name.first) && !exists(name.first, name.second));
  });
  if (updates) return file.write(after), "";

  std::ostringstream differences;
  Sections all = before;
  all.insert(after.begin(), after.end());
  for (const auto& [name, unused] : all) {
    const Sections::const_iterator old = before.find(name), now = after.find(name);
    const std::vector<std::string> none, &left = old == before.end() ? none : old->second.messages,
                                         &right = now == after.end() ? none : now->second.messages;
    if (left == right) continue;
    differences << "== " << name.first << ": " << name.second << "\n";
    const auto print_missing = [&](char sign, const auto& from, const auto& other) {
      for (const std::string& message : from) {
        if (std::ranges::find(other, message) == other.end()) differences << sign << ' ' << message << "\n";
      }
    };
    print_missing('-', left, right);
    print_missing('+', right, left);
    if (std::ranges::is_permutation(left, right)) differences << "the order of the messages\n";
  }
  return differences.str();
}

}  // namespace bitmma::test
