// SPDX-License-Identifier: MIT
// The keys and tensors that a kind of file may have. The reader refuses all others: if it ignored a misspelt key, it
// would compute the result of another request.
//
//   x.npz: scale_D: no such key of a vector file; did you mean scale_d?
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bitmma/files/tensor_file.hpp"

namespace bitmma {

/// The keys and tensors that have an effect in one kind of file.
struct KnownNames {
  std::string_view kind;  // "a vector file"
  std::vector<std::string_view> keys = {}, tensors = {};
};

/// True for keys that document the origin of a file and have no effect: source, seed, description, x-..., ...
bool is_documenting_key(std::string_view key);

/// True for those documenting keys that describe the origin of D: gpu, driver, date, kernel, ...
bool is_origin_key(std::string_view key);
/// Records that `source` computed D, and removes keys that describe the origin of an earlier D.
void set_origin(TensorFile& file, std::string source);

/// Throws Error for keys and tensors that are not in `known`, do not document, and do not begin with x-.
void require_known_names(const TensorFile& file, const KnownNames& known);

}  // namespace bitmma
