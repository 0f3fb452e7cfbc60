// Files that NumPy wrote (tests/files/numpy/make.py), and files that nobody wrote well.
#include <fstream>

#include "bitmma/core/error.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/files/vector_file.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/instructions.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;
using test::refusal_of;

namespace {

std::string numpy_file(const std::string& name) { return test::source_path("tests/files/numpy/" + name); }

std::string read(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

TEST_CASE("arrays of NumPy are read with names, types, order and strings") {
  const TensorFile plain = read_tensor_file(numpy_file("plain.npz"));
  CHECK(*plain.find_metadata("instruction") == "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
  REQUIRE(plain.find("a"));
  CHECK(plain.find("a")->dtype == "F16");
  CHECK(plain.find("a")->shape == std::vector<int64_t>{16, 16});
  CHECK(plain.find("c")->dtype == "F32");
  const TensorFile turned = read_tensor_file(numpy_file("fortran.npz"));
  for (const std::string_view name : {"a", "b", "c"}) {
    REQUIRE(turned.find(name));
    CHECK(turned.find(name)->bytes == plain.find(name)->bytes);
    const TensorFile alone = read_tensor_file(numpy_file(std::string(name) + ".npy"));
    REQUIRE(alone.tensors.size() == 1);
    CHECK(alone.tensors[0].name == name);
    CHECK(alone.tensors[0].bytes == plain.find(name)->bytes);
  }
  const VectorFile vectors = read_vector_file(numpy_file("plain.npz"));
  CHECK(vectors.cases == 1);
  CHECK(computed_d(case_at(vectors, 0)) == computed_d(case_at(read_vector_file(numpy_file("fortran.npz")), 0)));
  // C counts up, and A and B are small whole numbers: the sum is exact.
  const Matrix d = computed_d(case_at(vectors, 0)), c = *case_at(vectors, 0).logical.c;
  CHECK_FALSE(d == c);
}

TEST_CASE("strings, bytes and whole numbers among the arrays are keys") {
  const VectorFile vectors = read_vector_file(numpy_file("keys.npz"));
  const auto& wgmma = std::get<Wgmma>(vectors.instruction);
  CHECK_FALSE(wgmma.enable_input_d);
  CHECK(wgmma.negate_a);
  CHECK_THAT(refusal_of([] { read_vector_file(numpy_file("float_key.npz")); }),
             refused(wrong_shape, "$SOURCE/tests/files/numpy/float_key.npz: tensor scale_d"));
}

TEST_CASE("a name that promises arrays, and bytes that are none") {
  const test::TemporaryFolder folder;
  for (const std::string name : {"x.npz", "x.npy"}) {
    write(folder.path(name), "");
    CHECK_THAT(refusal_of([&] { read_tensor_file(folder.path(name)); }),
               refused(illegal_value, folder.path(name) + ": first bytes"));
    write(folder.path(name), "no array is here");
    CHECK_THAT(refusal_of([&] { read_tensor_file(folder.path(name)); }), refused(unusable_file, folder.path(name)));
  }
}

TEST_CASE("what NumPy writes and this program does not read is refused with what to do") {
  CHECK_THAT(refusal_of([] { read_tensor_file(numpy_file("compressed.npz")); }),
             refused(illegal_value, "$SOURCE/tests/files/numpy/compressed.npz: a.npy"));
  CHECK_THAT(refusal_of([] { read_tensor_file(numpy_file("big_endian.npz")); }),
             refused(illegal_value, "$SOURCE/tests/files/numpy/big_endian.npz: a"));
  CHECK_THAT(refusal_of([] { read_tensor_file(numpy_file("objects.npz")); }),
             refused(illegal_value, "$SOURCE/tests/files/numpy/objects.npz: a"));
}

TEST_CASE("an archive that is cut anywhere, or has any byte changed, is read or refused, and never more than it is") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("x.npz"), whole = read(numpy_file("plain.npz"));
  for (size_t size = 0; size < whole.size(); size += 7) {
    write(path, whole.substr(0, size));
    CHECK_THROWS_AS(read_tensor_file(path), Error);
  }
  int read_well = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int change : {0xFF, 0x01, 0x80}) {
      std::string other = whole;
      other[at] = static_cast<char>(other[at] ^ change);
      write(path, other);
      try {
        size_t bytes = 0;
        for (const Tensor& tensor : read_tensor_file(path).tensors) bytes += tensor.bytes.size();
        CHECK(bytes <= other.size());
        ++read_well;
      } catch (const Error& error) {
        CHECK_FALSE(error.violations().empty());
      }
    }
  }
  CHECK(read_well > 1000);  // changed numbers are numbers
}

TEST_CASE("libraries' own words stand for the format, and signed words for unsigned ones") {
  const test::TemporaryFolder folder;
  const Instruction mma = parse_instruction("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16");
  TensorFile file = make_golden({.instruction = mma, .cases = 2}, 1);
  const VectorFile expected = as_vector_file(file);
  file.set_metadata("format", "pt");
  for (const std::string_view name : {"a_desc", "b_desc"}) {
    Tensor tensor = *file.find(name);
    tensor.dtype = "I64";
    file.set(tensor);
  }
  for (const auto& [name, dtype] : {std::pair("c_regs", "F32"), std::pair("d_regs", "I32")}) {
    Tensor tensor = *file.find(name);
    tensor.dtype = dtype;
    file.set(tensor);
  }
  write_tensor_file(folder.path("torch.safetensors"), file);
  const VectorFile torch = read_vector_file(folder.path("torch.safetensors"));
  CHECK(case_at(torch, 1).before == case_at(expected, 1).before);
  CHECK(recorded_d(case_at(torch, 1)) == recorded_d(case_at(expected, 1)));
  file.set_metadata("format", "other-vectors-3");
  CHECK_THAT(refusal_of([&] { as_vector_file(file); }), refused(illegal_value, "__metadata__ format"));
}
