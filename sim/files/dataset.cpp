// SPDX-License-Identifier: MIT
#include "bitmma/files/dataset.hpp"

#include <algorithm>
#include <filesystem>

#include "../core/json.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/files/file.hpp"

namespace bitmma {
namespace {

std::string& folder_of_datasets() {
  static std::string folder;
  return folder;
}

}  // namespace

void use_datasets(std::string folder) { folder_of_datasets() = std::move(folder); }

std::vector<Dataset> datasets() {
  const std::filesystem::path folder = folder_of_datasets();
  if (folder.empty())
    throw Error({.code = ViolationCode::unusable_file,
                 .field = "datasets",
                 .seen = "not installed with this program",
                 .fix = "pass the path of a file; the Python package and the installed program have the datasets"});
  const Json index = parse_json(read_whole((folder / "index.json").string()));
  std::vector<Dataset> rows;
  for (const auto& [name, row] : index.items())
    rows.push_back({.name = name,
                    .path = (folder / row["file"].get<std::string>()).string(),
                    .kind = row["kind"],
                    .about = row["about"],
                    .source = row["source"]});
  return rows;
}

std::string located(const std::string& path) {
  if (!path.starts_with(dataset_prefix)) return path;
  const std::string name = path.substr(dataset_prefix.size());
  const std::vector<Dataset> rows = datasets();
  const auto row = std::ranges::find(rows, name, &Dataset::name);
  if (row != rows.end()) return row->path;
  Violation violation{.code = ViolationCode::unknown_name, .field = "dataset", .seen = shortened(printable(name))};
  for (const Dataset& known : rows) violation.legal.push_back(known.name);
  violation.fix = "bitmma list datasets describes them";
  throw Error(std::move(violation));
}

}  // namespace bitmma
