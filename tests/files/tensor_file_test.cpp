#include "bitmma/files/tensor_file.hpp"

#include <filesystem>

#include "bitmma/core/error.hpp"
#include "bitmma/core/random.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

std::string with_header(const std::string& header, const std::string& data = "") {
  std::string text;
  for (int i = 0; i < 8; ++i) text += static_cast<char>(header.size() >> 8 * i);
  return text + header + data;
}

}  // namespace

TEST_CASE("hostile tensor files are refused with the file and the field, and never crash") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("bad.safetensors");
  struct Row {
    std::string text, message;
  };
  const std::string big(200, '[');
  for (const Row& row : {
           Row{"", "header length"},
           Row{"1234567", "header length"},
           Row{std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8), "header length"},
           Row{std::string("\x10\0\0\0\0\0\0\0{}", 10), "header length"},
           Row{with_header("not json"), "header"},
           Row{with_header("[]"), "a JSON object"},
           Row{with_header("\"x\""), "a JSON object"},
           Row{with_header(big), "header"},
           Row{with_header("{\"a\":" + big + std::string(200, ']') + "}"), "deeply nested"},
           Row{with_header("{\"__metadata__\":5}"), "__metadata__"},
           Row{with_header("{\"__metadata__\":{\"k\":5}}"), "__metadata__ k"},
           Row{with_header("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}"), "twice"},
           Row{with_header("{\"x\":5}"), "tensor x"},
           Row{with_header("{\"x\":{}}"), "tensor x"},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":[1]}}", "1"), "tensor x"},
           Row{with_header("{\"x\":{\"dtype\":8,\"shape\":[1],\"data_offsets\":[0,1]}}", "1"), "tensor x dtype"},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}", "1"), "tensor x shape"},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}", "1"), "tensor x shape"},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":[1.5],\"data_offsets\":[0,1]}}", "1"), "tensor x shape"},
           Row{with_header("{\"x\":{\"dtype\":\"U64\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,1]}}", "1"),
               "tensor x shape"},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,1]}}", "1"),
               "2 bytes for U8 [2]"},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", "1"),
               "tensor x data_offsets"},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]}}", "1"), "begin <= end"},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[5,6]}}", "1"), "begin <= end"},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,18446744073709551615]}}", "1"),
               "begin <= end"},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"x\":{\"dtype\":\"U8\","
                           "\"shape\":[1],\"data_offsets\":[0,1]}}",
                           "1"),
               "twice"},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"y\":{\"dtype\":\"U8\","
                           "\"shape\":[2],\"data_offsets\":[1,3]}}",
                           "123"),
               "must not overlap"},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", "12"),
               "must leave no hole"},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", "12"),
               "after the last tensor"},
           Row{with_header("{\"\xff\":1}"), "header"},
       }) {
    test::write_text(path, row.text);
    INFO(row.text.substr(0, 200));
    REQUIRE_THROWS_WITH(read_tensor_file(path), ContainsSubstring(path) && ContainsSubstring(row.message));
  }
  CHECK_THROWS_WITH(read_tensor_file(folder.path("absent")), ContainsSubstring("No such file"));
  CHECK_THROWS_WITH(read_tensor_file(folder.path(".")), ContainsSubstring("directory"));
}

TEST_CASE("a real file with any byte changed or cut off is read or refused, never worse") {
  const test::TemporaryFolder folder;
  const std::string good = test::read_text(test::golden_files().front());
  const std::string path = folder.path("x.safetensors");
  RandomStream random(13, 0);
  int refused = 0;
  for (int i = 0; i < 600; ++i) {
    std::string bad = good;
    if (i % 3 == 0) bad.resize(random.below(static_cast<uint32_t>(good.size())));
    else bad[random.below(700)] = static_cast<char>(random.word());
    test::write_text(path, bad);
    try {
      read_tensor_file(path);
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(refused > 200);
}

TEST_CASE("unknown keys and tensors survive a round trip, and tensors come out aligned") {
  const test::TemporaryFolder folder;
  TensorFile file;
  file.metadata = {{"format", "something else"}, {"note", "\xc3\xa4 \"quoted\""}};
  file.tensors.push_back(Tensor::from_bytes("odd", "U8", {3}, {1, 2, 3}));
  file.tensors.push_back(Tensor::from_bytes("mystery", "F3_E1M1", {7}, {9, 9}));
  file.tensors.push_back(Tensor::from_bytes("big", "U64", {1}, {1, 2, 3, 4, 5, 6, 7, 8}));
  file.tensors.push_back(Tensor::from_bytes("empty", "U8", {0}, {}));
  write_tensor_file(folder.path("a"), file);
  const TensorFile back = read_tensor_file(folder.path("a"));
  CHECK(back.metadata == file.metadata);
  REQUIRE(back.tensors.size() == 4);
  for (const Tensor& tensor : file.tensors) {
    const Tensor* found = back.find(tensor.name);
    REQUIRE(found);
    CHECK(found->dtype == tensor.dtype);
    CHECK(found->shape == tensor.shape);
    CHECK(std::equal(found->bytes.begin(), found->bytes.end(), tensor.bytes.begin(), tensor.bytes.end()));
  }
  CHECK(reinterpret_cast<uintptr_t>(back.find("big")->bytes.data()) % 8 == 0);
  write_tensor_file(folder.path("b"), back);
  CHECK(test::read_text(folder.path("a")) == test::read_text(folder.path("b")));
}

TEST_CASE("batches that are not alike are refused, and nothing is written") {
  const test::TemporaryFolder folder;
  const auto make = [](int64_t first) {
    TensorFile file;
    file.tensors.push_back(Tensor::from_bytes("x", first == 0 ? "U8" : "I8", {2}, {1, 2}));
    return file;
  };
  write_case_batches(folder.path("good"), 2, make);
  CHECK(read_tensor_file(folder.path("good")).find("x")->bytes.size() == 2);
  REQUIRE_THROWS_WITH(write_case_batches(folder.path("bad"), 4, make), ContainsSubstring("tensor x") &&
                                                                           ContainsSubstring("I8 [2] from case 2 on") &&
                                                                           ContainsSubstring("U8 [2], as before"));
  CHECK_FALSE(std::filesystem::exists(folder.path("bad")));
}

TEST_CASE("a file keeps one tensor a name and one value a key, and forgets what is erased") {
  TensorFile file;
  file.set(Tensor::from_bytes("x", "U8", {1}, {1}));
  file.set(Tensor::from_bytes("y", "U8", {1}, {2}));
  file.set(Tensor::from_bytes("x", "U16", {1}, {3, 4}));
  REQUIRE(file.tensors.size() == 2);
  CHECK(file.find("x")->dtype == "U16");
  CHECK_FALSE(file.find("z"));
  file.erase("x");
  CHECK_FALSE(file.find("x"));
  file.erase("x");
  file.set_metadata("key", "1");
  file.set_metadata("key", "2");
  REQUIRE(file.metadata.size() == 1);
  CHECK(*file.find_metadata("key") == "2");
  file.erase_metadata("key");
  CHECK_FALSE(file.find_metadata("key"));
}

TEST_CASE("shapes print as lists, and dtypes that nobody knows have no size") {
  CHECK(print_shape({}) == "[]");
  CHECK(print_shape(std::vector<int64_t>{2, 128, 4}) == "[2, 128, 4]");
  CHECK(dtype_bytes("U8") == 1);
  CHECK(dtype_bytes("BF16") == 2);
  CHECK(dtype_bytes("F64") == 8);
  CHECK(dtype_bytes("F3_E1M1") == 0);
}
