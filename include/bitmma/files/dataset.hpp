// SPDX-License-Identifier: MIT
// Datasets: small recordings that are installed with bitmma, for examples and tests. Wherever bitmma reads a file, the
// name dataset:NAME means a dataset; ./dataset:NAME is a file of that name.
//
//   bitmma gemm dataset:nvjet_fast_e4m3 --find
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bitmma {

/// A row of index.json in the folder of the datasets.
struct Dataset {
  std::string name = {};
  std::string path = {};  // a file; of a capture a folder
  std::string kind = {};  // product, vector file, tensors, PTX or capture
  std::string about = {};
  std::string source = {};  // what computed it, and when
};

/// Says where the datasets are. A program calls it when it starts, before other threads read files.
/// lab/pack_datasets.py makes the folder.
void use_datasets(std::string folder);

/// All datasets, by name. Throws Error if there is no folder with them.
std::vector<Dataset> datasets();

inline constexpr std::string_view dataset_prefix = "dataset:";

/// The path of the file that is read for `path`: that of the dataset for dataset:NAME, otherwise `path`. Throws Error,
/// which lists the names, if there is no such dataset.
std::string located(const std::string& path);

}  // namespace bitmma
