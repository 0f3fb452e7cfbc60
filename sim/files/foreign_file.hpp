// SPDX-License-Identifier: MIT
// Recognises files of other programs, so that messages can name their kind.
//
//   model.pt: a PyTorch checkpoint; expected a safetensors file or NumPy's .npy or .npz; save tensors with ...
#pragma once

#include <string>

#include "bitmma/files/tensor_file.hpp"

namespace bitmma {

/// Throws Error if the bytes cannot begin a safetensors file but do begin another kind of file, and names that kind.
void refuse_foreign_file(const std::string& path, const TensorBytes& bytes);

/// Throws the same error for a zip archive whose entries are not arrays; `entry` is the name of one of them.
[[noreturn]] void refuse_foreign_archive(const std::string& path, const std::string& entry);

}  // namespace bitmma
