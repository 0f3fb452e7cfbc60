// Files that tests read and write.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace bitmma::test {

std::string source_path(const std::string& relative);

/// All vector files below data/golden/sm_90a.
std::vector<std::string> golden_files();

std::string read_text(const std::string& path);
void write_text(const std::string& path, std::string_view text);

/// What a shell command prints to stdout; empty when it cannot be run.
std::string output_of_command(const std::string& command);

/// A folder that disappears with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  std::filesystem::path folder_;
};

/// Calls `row` for every line of a CSV file, as column name -> text. Quotes protect commas. Returns the number of rows.
/// With `every`, only row 0, `every`, 2 `every`, ... of them are taken apart.
using CsvRow = std::map<std::string, std::string>;
int64_t for_each_csv_row(const std::string& path, const std::function<void(const CsvRow&)>& row, int64_t every = 1);

/// A CSV of CUTLASS's layouts, unpacked from data/oracle.
std::string oracle_path(const std::string& name);

}  // namespace bitmma::test
