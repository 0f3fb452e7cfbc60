// SPDX-License-Identifier: MIT
// The keys and tensors that a kind of file may have. What a file has besides is refused: a key that is nearly right
// would be ignored, and the result be that of another request.
//
//   x.npz: scale_D: no such key of a vector file; did you mean scale_d?
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bitmma/files/tensor_file.hpp"

namespace bitmma {

/// What acts in one kind of file.
struct KnownNames {
  std::string_view kind;  // "a vector file"
  std::vector<std::string_view> keys = {}, tensors = {};
};

/// True for keys that say where a file comes from and act nowhere: source, seed, description, x-..., ...
bool is_documenting_key(std::string_view key);

/// True for those among them that say where D comes from: gpu, driver, date, kernel, ...
bool is_origin_key(std::string_view key);
/// Records that `source` computed D, and removes keys about the origin of an earlier D.
void set_origin(TensorFile& file, std::string source);

/// Throws Error for keys and tensors that are neither in `known`, nor document, nor begin with x-.
void require_known_names(const TensorFile& file, const KnownNames& known);

}  // namespace bitmma
