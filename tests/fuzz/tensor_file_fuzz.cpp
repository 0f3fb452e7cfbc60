// Any bytes as a safetensors file. What is accepted is written and read again, and is the same.
#include <filesystem>

#include "bitmma/acts/product_file.hpp"
#include "bitmma/files/tensor_file.hpp"
#include "bitmma/files/vector_file.hpp"
#include "raw_file.hpp"

void fuzz_one(bitmma::fuzz::Bytes& in) {
  using namespace bitmma;
  using namespace bitmma::fuzz;
  const std::string original = path("tensors"), copy = path("copy");
  write(original, raw_file(in));
  TensorFile file;
  if (!accepts([&] { file = read_tensor_file(original); })) return;
  accepts([&] { (void)read_vector_file(original); });
  accepts([&] { (void)read_product_file(original); });
  write_tensor_file(copy, file);
  const TensorFile again = read_tensor_file(copy);
  require(again.metadata.size() == file.metadata.size(), "metadata survives writing and reading");
  for (const auto& [key, value] : file.metadata) {
    require(again.find_metadata(key) && *again.find_metadata(key) == value, "a key survives writing and reading");
  }
  for (const Tensor& tensor : file.tensors) {
    const Tensor* other = again.find(tensor.name);
    require(other && other->dtype == tensor.dtype && other->shape == tensor.shape && other->bytes == tensor.bytes,
            "a tensor survives writing and reading");
  }
}
