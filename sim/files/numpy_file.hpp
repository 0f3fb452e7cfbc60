// SPDX-License-Identifier: MIT
// Arrays as numpy.save and numpy.savez write them.
//
//   .npy  93 'NUMPY' 1 0  76 00  {'descr': '<f2', 'fortran_order': False, 'shape': (64, 16), }  data
//   .npz  a zip archive of these, not compressed: a.npy, b.npy, ...
//
// Among the arrays of an archive, a string such as instruction='wgmma...' and a whole number such as scale_d=0 are
// keys.
//
// Source: numpy.lib.format, and section 4 of PKWARE's APPNOTE.TXT.
#pragma once

#include <memory>

#include "bitmma/files/tensor_file.hpp"

namespace bitmma {

/// True for bytes that begin as either does.
bool is_numpy_file(const TensorBytes& bytes);

/// The arrays with the names that the archive gives them; that of a .npy has the name of the file without its ending.
/// Strings and whole numbers without extents become metadata. Throws Error naming the file and the array.
TensorFile read_numpy_file(const std::string& path, std::shared_ptr<const InputFile> file);

}  // namespace bitmma
