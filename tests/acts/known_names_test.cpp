// Keys and tensors that a file may not have, and files of other programs.
#include <algorithm>

#include "bitmma/acts/product_file.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

namespace {

TensorFile golden() {
  return make_golden({.instruction = parse_instruction("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16")}, 1);
}

/// The one violation that reading gives; its code is `other_instruction`, which none has, where there is none.
template <typename Read>
Violation refusal(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    REQUIRE(error.violations().size() == 1);
    return error.violations().front();
  }
  return {.code = ViolationCode::other_instruction};
}

}  // namespace

TEST_CASE("a key of a vector file that is nearly right is refused, with the one that was meant") {
  for (const auto& [key, meant] : {std::pair("scale_D", "scale_d"),
                                   {"scaled", "scale_d"},
                                   {"trans_b", "imm_trans_b"},
                                   {"arch", "target"},
                                   {"Target", "target"},
                                   {"taget", "target"},
                                   {"instr", "instruction"},
                                   {"scale_d ", "scale_d"},
                                   {"imm-scale-a", "imm_scale_a"},
                                   {"dtype_a", "a_type"}}) {
    INFO(key);
    TensorFile file = golden();
    file.set_metadata(key, "1");
    const Violation refused = refusal([&] { as_vector_file(file); });
    CHECK(refused.code == ViolationCode::unknown_key);
    CHECK(refused.fix == std::string("did you mean ") + meant + "?");
  }
}

TEST_CASE("a tensor that does nothing is refused: a slip, one of another instruction, a key") {
  const auto refused = [](const char* name) {
    TensorFile file = golden();
    file.set(Tensor::from_bytes(name, "U8", {1}, {0}));
    return refusal([&] { as_vector_file(file); });
  };
  for (const auto& [name, meant] : {std::pair("D_regs", "d_regs"), {"desc_a", "a_desc"}, {"sme", "smem"}}) {
    INFO(name);
    CHECK(refused(name).code == ViolationCode::unknown_key);
    CHECK(refused(name).fix == std::string("did you mean ") + meant + "?");
  }
  CHECK(refused("metadata").code == ViolationCode::unknown_key);  // of sparse ones alone
  CHECK(refused("tmem").code == ViolationCode::unknown_key);
  CHECK_FALSE(refused("anything").legal.empty());
}

TEST_CASE("keys that document, and names that begin with x-, are kept") {
  TensorFile file = golden();
  for (const char* key : {"description", "gpu", "note", "author", "x-scale_D"}) file.set_metadata(key, "kept");
  file.set(Tensor::from_bytes("x-mine", "U8", {2}, {1, 2}));
  const VectorFile vectors = as_vector_file(file);
  CHECK(*vectors.file.find_metadata("x-scale_D") == "kept");
  CHECK(vectors.file.find("x-mine"));
}

TEST_CASE("a type that a key gives must be the instruction's") {
  TensorFile file = golden();
  file.set_metadata("a_type", "f16");
  CHECK_NOTHROW(as_vector_file(file));
  file.set_metadata("a_type", "bf16");
  CHECK_THROWS_MATCHES(as_vector_file(file), Error, test::refused(illegal_value, "__metadata__ a_type"));
}

TEST_CASE("product files have the same rule with keys of their own") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("p.safetensors");
  const auto refused = [&](const char* key, const char* tensor) {
    TensorFile file{.metadata = {{key, "1"}}};
    for (const char* name : {"a", "b"}) file.tensors.push_back(Tensor::from_bytes(name, "F16", {1, 1}, {0, 60}));
    if (*tensor) file.tensors.push_back(Tensor::from_bytes(tensor, "F32", {1}, {0, 0, 128, 63}));
    write_tensor_file(path, file);
    return refusal([&] { read_product_file(path); });
  };
  CHECK(refused("alpha", "").code == ViolationCode::other_instruction);
  CHECK(refused("alpha ", "").fix == "did you mean alpha?");
  CHECK(refused("arch", "").fix == "did you mean target?");
  CHECK(refused("note", "A_scale").fix == "did you mean sfa?");
}

TEST_CASE("files of other programs are named by what they are") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("file");
  for (const auto& [text, name] : {std::pair<std::string, std::string>("\x7F"
                                                                       "ELF\x02\x01\x01 and more",
                                                                       "an ELF file"),
                                   {"\x89HDF\r\n\x1A\n and more", "an HDF5 file"},
                                   {"\x1F\x8B\x08 compressed", "a gzip file"},
                                   {"%PDF-1.7 and more", "a PDF document"},
                                   {"\x80\x02}q\x01(X\x05\x01\x01\x01", "a Python pickle"},
                                   {"//\n.version 8.5\n.target sm_90a\n.address_size 64\n", "PTX"},
                                   {"#include <cuda.h>\n__global__ void f() {}\n", "CUDA C++"},
                                   {"{\"m\": 64, \"n\": 8}\n", "JSON"},
                                   {"row,col,value\n0,0,1\n", "text"}}) {
    INFO(name);
    test::write_text(path, text);
    const Violation refused = refusal([&] { read_tensor_file(path); });
    CHECK(refused.code == ViolationCode::unusable_file);
    CHECK(refused.field == path);
    CHECK_THAT(refused.seen, ContainsSubstring(name));
  }
  test::write_text(path, std::string(16, '\xFF'));
  CHECK(refusal([&] { read_tensor_file(path); }).seen.find("text") == std::string::npos);
}
