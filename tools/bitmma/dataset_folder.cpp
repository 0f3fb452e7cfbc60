// SPDX-License-Identifier: MIT
#include "dataset_folder.hpp"

#include <filesystem>
#include <vector>

namespace bitmma::cli {

std::string dataset_folder() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  // pip puts the program into PREFIX/bin and the package into PREFIX/lib/python3.11/site-packages, or with --target
  // into PREFIX itself.
  const fs::path in_package = fs::path("bitmma") / "data";
  std::vector<fs::path> folders{program / "datasets", program / BITMMA_DATASET_FOLDER, program / ".." / in_package};
  for (const char* const library : {"lib", "lib64"}) {
    for (const fs::directory_entry& entry : fs::directory_iterator(program / ".." / library, error)) {
      if (!entry.path().filename().string().starts_with("python3")) continue;
      for (const char* const packages : {"site-packages", "dist-packages"})
        folders.push_back(entry.path() / packages / in_package);
    }
  }
  for (const fs::path& folder : folders) {
    if (fs::exists(folder / "index.json", error)) return fs::weakly_canonical(folder, error).string();
  }
  return "";
}

}  // namespace bitmma::cli
