// SPDX-License-Identifier: MIT
// safetensors files: 8 bytes little-endian header length, a JSON header, raw little-endian tensors.
//
//   10 00 00 00 00 00 00 00  {"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}  07 2a
//
// The reader does not trust the file: it checks every length, offset, dtype and shape against the file before use.
// Source: the format section of github.com/huggingface/safetensors.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bitmma/core/compiler.hpp"
#include "bitmma/files/file.hpp"

namespace bitmma {

/// The bytes of a tensor: a part of a file or of memory. Copies and parts share it without reading it.
class TensorBytes {
 public:
  TensorBytes() = default;
  explicit TensorBytes(std::vector<uint8_t> bytes);
  /// Throws Error if the file does not have these bytes.
  TensorBytes(std::shared_ptr<const InputFile> file, uint64_t offset, uint64_t size);

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// Offset of the bytes in the file.
  uint64_t offset() const { return offset_; }
  /// Throws Error if the range is outside, as copy_to does.
  TensorBytes part(size_t offset, size_t size) const;
  /// Fills `to` with the bytes from `offset` on.
  void copy_to(std::span<uint8_t> to, size_t offset = 0) const;
  std::vector<uint8_t> copy() const;

  bool is_in_memory() const { return !file_ || file_->is_in_memory(); }
  /// The same bytes in memory. Reads them from a file of more than 64 MiB.
  TensorBytes in_memory() const;
  /// Bytes in memory, valid while a copy or a part of this object exists. Throws Error if they are in a file.
  std::span<const uint8_t> view() const;

  /// Compares the bytes.
  bool operator==(const TensorBytes& other) const;

 private:
  std::shared_ptr<const InputFile> file_ = {};  // null if there are no bytes
  uint64_t offset_ = 0;
  size_t size_ = 0;
};

struct [[nodiscard]] Tensor {
  std::string name = {};
  std::string dtype = {};  // as in the header: U8, F16, F8_E4M3, ...
  std::vector<int64_t> shape = {};
  TensorBytes bytes = {};

  /// A tensor that owns `data`.
  static Tensor from_bytes(std::string name, std::string dtype, std::vector<int64_t> shape, std::vector<uint8_t> data);
};

/// "[2, 128, 4]".
std::string print_shape(std::span<const int64_t> shape);

/// Bytes per element of a known dtype; 0 for an unknown one.
int dtype_bytes(std::string_view dtype);

struct [[nodiscard]] TensorFile {
  std::string path = {};  // the path from which it was read, for messages
  std::vector<std::pair<std::string, std::string>> metadata = {};
  std::vector<Tensor> tensors = {};
  std::shared_ptr<const InputFile> input = {};  // the open file; null for a file made in memory

  const Tensor* find(std::string_view name) const;
  /// Value of a metadata key; nullptr if there is none.
  const std::string* find_metadata(std::string_view key) const;
  void set_metadata(std::string_view key, std::string value);
  void erase_metadata(std::string_view key);
  /// Replaces the tensor with the same name, or adds it.
  void set(Tensor tensor);
  void erase(std::string_view name);
};

/// Reads and checks a file: safetensors, or an array or archive of NumPy (.npy, .npz without compression; its
/// strings become metadata). Tensors of a large file are read on demand. Throws Error, which names the file and the
/// field.
TensorFile read_tensor_file(const std::string& path, uint64_t most_in_memory = InputFile::usual_most_in_memory);

/// Writes the file completely or not at all. Tensors are ordered by falling element size, so that each is aligned.
void write_tensor_file(const std::string& path, const TensorFile& file);

/// Writes a file of `cases` cases without holding all of them in memory: make(first) returns tensors for some cases
/// from `first` on, with the case as first extent, until all are written. The first batch supplies the metadata and the
/// list of tensors. `whole` are tensors without a case extent. The bytes equal those of write_tensor_file. Throws Error
/// if a batch differs in structure from the first.
void write_case_batches(const std::string& path, int64_t cases, const std::function<TensorFile(int64_t first)>& make,
                        const std::vector<Tensor>& whole = {});

}  // namespace bitmma
