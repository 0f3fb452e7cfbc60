#include "support/files.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace bitmma::test {

std::vector<std::string> golden_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(source_path("data/golden/sm_90a"))) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string read_text(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

void write_text(const std::string& path, std::string_view text) {
  std::ofstream stream(path, std::ios::binary);
  stream.write(text.data(), static_cast<std::streamsize>(text.size()));
  if (!stream) throw std::runtime_error("cannot write " + path);
}

TemporaryFolder::TemporaryFolder() {
  static std::atomic<int> count{0};
  folder_ = std::filesystem::temp_directory_path() /
            ("bitmma-test-" + std::to_string(getpid()) + "-" + std::to_string(count++));
  std::filesystem::create_directories(folder_);
}

TemporaryFolder::~TemporaryFolder() { std::filesystem::remove_all(folder_); }

namespace {
std::vector<std::string> split_csv(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') quoted = !quoted;
    else if (c == ',' && !quoted) cells.emplace_back();
    else if (c != '\r') cells.back() += c;
  }
  return cells;
}
}  // namespace

int64_t for_each_csv_row(const std::string& path, const std::function<void(const CsvRow&)>& row, int64_t every) {
  std::ifstream stream(path);
  if (!stream) throw std::runtime_error("cannot read " + path);
  std::vector<std::string> names;
  int64_t count = 0;
  for (std::string line; std::getline(stream, line);) {
    if (line.empty() || line.front() == '#') continue;
    if (!names.empty() && count++ % every != 0) continue;
    const std::vector<std::string> cells = split_csv(line);
    if (names.empty()) {
      names = cells;
      continue;
    }
    CsvRow values;
    for (size_t i = 0; i < names.size() && i < cells.size(); ++i) values[names[i]] = cells[i];
    row(values);
  }
  return count;
}

std::string output_of_command(const std::string& command) {
  std::string output;
  FILE* const pipe = popen(command.c_str(), "r");
  if (!pipe) return output;
  std::array<char, 4096> buffer{};
  for (size_t count = 0; (count = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    output.append(buffer.data(), count);
  pclose(pipe);
  return output;
}

std::string source_path(const std::string& relative) { return std::string(BITMMA_SOURCE_DIR "/") + relative; }

std::string oracle_path(const std::string& name) { return std::string(BITMMA_ORACLE_DIR "/") + name; }

}  // namespace bitmma::test
