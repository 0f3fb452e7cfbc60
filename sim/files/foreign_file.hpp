// SPDX-License-Identifier: MIT
// Recognises files of other programs, so that messages can name their kind.
//
//   model.pt: a PyTorch checkpoint; expected a safetensors file or NumPy's .npy or .npz; save tensors with ...
#pragma once

#include <string>

#include "bitmma/files/tensor_file.hpp"

namespace bitmma {

/// Throws Error for bytes that no safetensors file begins with and that another kind of file does, naming it.
void refuse_foreign_file(const std::string& path, const TensorBytes& bytes);

/// The same of an archive (zip) whose entries are no arrays; `entry` is the name of one.
[[noreturn]] void refuse_foreign_archive(const std::string& path, const std::string& entry);

}  // namespace bitmma
