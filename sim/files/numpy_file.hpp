// SPDX-License-Identifier: MIT
// Reads arrays in the formats of numpy.save and numpy.savez.
//
//   .npy  93 'NUMPY' 1 0  76 00  {'descr': '<f2', 'fortran_order': False, 'shape': (64, 16), }  data
//   .npz  a zip archive of these, not compressed: a.npy, b.npy, ...
//
// In an archive, a string such as instruction='wgmma...' and an integer such as scale_d=0 become
// keys.
//
// Source: numpy.lib.format, and section 4 of PKWARE's APPNOTE.TXT.
#pragma once

#include <memory>

#include "bitmma/files/tensor_file.hpp"

namespace bitmma {

/// True for bytes that begin as a .npy or .npz file does.
bool is_numpy_file(const TensorBytes& bytes);

/// The arrays under the names in the archive; the array of a .npy takes the name of the file without its extension.
/// Strings and integers without extents become metadata. Throws Error naming the file and the array.
TensorFile read_numpy_file(const std::string& path, std::shared_ptr<const InputFile> file);

}  // namespace bitmma
