#include "bitmma/files/tensor_file.hpp"

#include <filesystem>
#include <limits>

#include "bitmma/core/error.hpp"
#include "bitmma/core/random.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;

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
    std::string text;
    test::Refusal refusal;
  };
  const std::string big(200, '[');
  for (const Row& row : {
           Row{"", {illegal_value, "$FOLDER/bad.safetensors: first bytes"}},
           Row{"1234567", {illegal_value, "$FOLDER/bad.safetensors: first bytes"}},
           Row{std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8),
               {illegal_value, "$FOLDER/bad.safetensors: first bytes"}},
           Row{std::string("\x10\0\0\0\0\0\0\0{}", 10), {illegal_value, "$FOLDER/bad.safetensors: header length"}},
           Row{with_header("not json"), {illegal_value, "$FOLDER/bad.safetensors: header"}},
           Row{with_header("[]"), {illegal_value, "$FOLDER/bad.safetensors: header"}},
           Row{with_header("\"x\""), {illegal_value, "$FOLDER/bad.safetensors: header"}},
           Row{with_header(big), {illegal_value, "$FOLDER/bad.safetensors: header"}},
           Row{with_header("{\"a\":" + big + std::string(200, ']') + "}"),
               {illegal_value, "$FOLDER/bad.safetensors: tensor a"}},
           Row{with_header("{\"a\":{\"more\":" + big + std::string(200, ']') + "}}"),
               {illegal_value, "$FOLDER/bad.safetensors: header"}},
           Row{with_header("{\"__metadata__\":5}"), {illegal_value, "$FOLDER/bad.safetensors: __metadata__"}},
           Row{with_header("{\"__metadata__\":{\"k\":5}}"), {illegal_value, "$FOLDER/bad.safetensors: __metadata__ k"}},
           Row{with_header("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}"),
               {illegal_value, "$FOLDER/bad.safetensors: header"}},
           Row{with_header("{\"x\":5}"), {illegal_value, "$FOLDER/bad.safetensors: tensor x"}},
           Row{with_header("{\"x\":{}}"), {illegal_value, "$FOLDER/bad.safetensors: tensor x"}},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":[1]}}", "1"),
               {illegal_value, "$FOLDER/bad.safetensors: tensor x"}},
           Row{with_header("{\"x\":{\"dtype\":8,\"shape\":[1],\"data_offsets\":[0,1]}}", "1"),
               {illegal_value, "$FOLDER/bad.safetensors: tensor x dtype"}},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}", "1"),
               {illegal_value, "$FOLDER/bad.safetensors: tensor x shape"}},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}", "1"),
               {illegal_value, "$FOLDER/bad.safetensors: tensor x shape"}},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":[1.5],\"data_offsets\":[0,1]}}", "1"),
               {illegal_value, "$FOLDER/bad.safetensors: tensor x shape"}},
           Row{with_header("{\"x\":{\"dtype\":\"U64\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,1]}}", "1"),
               {illegal_value, "$FOLDER/bad.safetensors: tensor x shape"}},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,1]}}", "1"),
               {illegal_value, "$FOLDER/bad.safetensors: tensor x data_offsets"}},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", "1"),
               {illegal_value, "$FOLDER/bad.safetensors: tensor x data_offsets"}},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]}}", "1"),
               {illegal_value, "$FOLDER/bad.safetensors: tensor x data_offsets"}},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[5,6]}}", "1"),
               {illegal_value, "$FOLDER/bad.safetensors: tensor x data_offsets"}},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,18446744073709551615]}}", "1"),
               {illegal_value, "$FOLDER/bad.safetensors: tensor x data_offsets"}},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"x\":{\"dtype\":\"U8\","
                           "\"shape\":[1],\"data_offsets\":[0,1]}}",
                           "1"),
               {illegal_value, "$FOLDER/bad.safetensors: header"}},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"y\":{\"dtype\":\"U8\","
                           "\"shape\":[2],\"data_offsets\":[1,3]}}",
                           "123"),
               {illegal_value, "$FOLDER/bad.safetensors: tensor y data_offsets"}},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", "12"),
               {illegal_value, "$FOLDER/bad.safetensors: tensor x data_offsets"}},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", "12"),
               {illegal_value, "$FOLDER/bad.safetensors: size"}},
           Row{with_header("{\"\xff\":1}"), {illegal_value, "$FOLDER/bad.safetensors: header"}},
           // What the safetensors library does not take either.
           Row{with_header("\xEF\xBB\xBF{}"), {illegal_value, "$FOLDER/bad.safetensors: header"}},
           Row{with_header(std::string("{}\0\0", 4)), {illegal_value, "$FOLDER/bad.safetensors: header"}},
           Row{with_header("{} x"), {illegal_value, "$FOLDER/bad.safetensors: header"}},
           Row{with_header("{},"), {illegal_value, "$FOLDER/bad.safetensors: header"}},
           Row{with_header("{\"__metadata__\":{},\"__metadata__\":{}}"),
               {illegal_value, "$FOLDER/bad.safetensors: header"}},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}"),
               {illegal_value, "$FOLDER/bad.safetensors: header"}},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":[[0]],\"data_offsets\":[0,0]}}"),
               {illegal_value, "$FOLDER/bad.safetensors: tensor x shape"}},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0,0]}}"),
               {illegal_value, "$FOLDER/bad.safetensors: tensor x data_offsets"}},
           Row{with_header("{\"x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,-1]}}"),
               {illegal_value, "$FOLDER/bad.safetensors: tensor x data_offsets"}},
           Row{with_header("{\"x\":{\"dtype\":null,\"shape\":[0],\"data_offsets\":[0,0]}}"),
               {illegal_value, "$FOLDER/bad.safetensors: tensor x dtype"}},
           Row{with_header("{\"x\":[]}"), {illegal_value, "$FOLDER/bad.safetensors: tensor x"}},
           Row{with_header("{\"\\u001b[31m\":5}"), {illegal_value, "$FOLDER/bad.safetensors: tensor \\x1b[31m"}},
       }) {
    test::write_text(path, row.text);
    INFO(row.text.substr(0, 200));
    REQUIRE_THROWS_MATCHES(read_tensor_file(path), Error, test::refused(row.refusal));
  }
  CHECK_THROWS_MATCHES(read_tensor_file(folder.path("absent")), Error, test::refused(not_found, "file"));
  CHECK_THROWS_MATCHES(read_tensor_file(folder.path(".")), Error, test::refused(unusable_file, "$FOLDER/."));
}

TEST_CASE("what is wrong with a header is said in bitmma's own words") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("bad");
  for (const std::string& header :
       {std::string("not json"), std::string("{"), std::string("{\"x\""), std::string("{\"a\":tru}"),
        std::string("{\"\xc3\":1}"), std::string("{\"a\":1e999}"), std::string("{\"a\":") + std::string(5000, '9'),
        std::string("{\"a\n\":1}")}) {
    test::write_text(path, with_header(header));
    try {
      read_tensor_file(path);
      FAIL_CHECK(header);
    } catch (const Error& error) {
      const std::string text = error.what();
      CHECK(text.size() < 400 + path.size());
      for (const char* words : {"json.exception", "nlohmann", "parse_error", "std::"})
        CHECK(text.find(words) == std::string::npos);
    }
  }
}

TEST_CASE("spaces before a header and behind it are taken, and unknown parts of a tensor are passed over") {
  const test::TemporaryFolder folder;
  test::write_text(folder.path("x"),
                   with_header(" \n{\"x\":{\"dtype\":\"U8\",\"more\":{\"a\":[1,{\"b\":null}]},\"shape\":[2],"
                               "\"data_offsets\":[0,2]}}  \n ",
                               "12"));
  const TensorFile file = read_tensor_file(folder.path("x"));
  REQUIRE(file.tensors.size() == 1);
  CHECK(file.tensors[0].shape == std::vector<int64_t>{2});
  // A length of 640 begins as a pickle of Python's protocol 2 does.
  std::string longer = " {\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}";
  longer.resize(640, ' ');
  test::write_text(folder.path("y"), with_header(longer, "12"));
  CHECK(read_tensor_file(folder.path("y")).tensors.size() == 1);
}

TEST_CASE("headers of very many tensors and keys take no longer than their length says") {
  // Where every name was compared with all before it, this took minutes.
  constexpr int count = 150'000;
  const test::TemporaryFolder folder;
  TensorFile file;
  for (int i = 0; i < count; ++i) {
    file.metadata.emplace_back("key " + std::to_string(i), "value");
    file.tensors.push_back({.name = "tensor " + std::to_string(i), .dtype = "U8", .shape = {0}});
  }
  write_tensor_file(folder.path("many"), file);
  TensorFile back = read_tensor_file(folder.path("many"));
  CHECK(back.tensors.size() == count);
  CHECK(back.metadata.size() == count);
  CHECK(back.find("tensor 149999") != nullptr);
  back.tensors.push_back(back.tensors[70'000]);
  CHECK_THROWS_MATCHES(write_tensor_file(folder.path("twice"), back), Error,
                       test::refused(illegal_value, "$FOLDER/twice: header"));
}

TEST_CASE("a tensor that no reader would take is not written") {
  const test::TemporaryFolder folder;
  struct Row {
    Tensor tensor;
    test::Refusal refusal;
  };
  for (const Row& row :
       {Row{Tensor::from_bytes("x", "U8", {2}, {1}), {illegal_value, "$FOLDER/x: tensor x"}},
        Row{Tensor::from_bytes("x", "U8", {-1}, {1}), {illegal_value, "$FOLDER/x: tensor x"}},
        Row{Tensor::from_bytes("x", "U64", {int64_t{1} << 62, 4}, {}), {illegal_value, "$FOLDER/x: tensor x"}},
        Row{Tensor::from_bytes("\xff", "U8", {1}, {1}), {illegal_value, "$FOLDER/x: header"}},
        Row{Tensor::from_bytes("x", "\xff", {1}, {1}), {illegal_value, "$FOLDER/x: header"}},
        Row{Tensor::from_bytes("__metadata__", "U8", {1}, {1}), {illegal_value, "$FOLDER/x: header"}}}) {
    TensorFile file;
    file.tensors.push_back(row.tensor);
    INFO(row.refusal.field);
    CHECK_THROWS_MATCHES(write_tensor_file(folder.path("x"), file), Error, test::refused(row.refusal));
    CHECK_FALSE(std::filesystem::exists(folder.path("x")));
  }
  TensorFile keys;
  keys.metadata = {{"k", "\xff"}};
  CHECK_THROWS_MATCHES(write_tensor_file(folder.path("x"), keys), Error,
                       test::refused(illegal_value, "$FOLDER/x: header"));
  keys.metadata = {{"k", "1"}, {"k", "2"}};
  CHECK_THROWS_MATCHES(write_tensor_file(folder.path("x"), keys), Error,
                       test::refused(illegal_value, "$FOLDER/x: header"));
}

TEST_CASE("more cases than a file can hold are refused with the size, before anything is written") {
  const test::TemporaryFolder folder;
  const auto make = [](int64_t) {
    TensorFile file;
    file.tensors.push_back(Tensor::from_bytes("x", "U64", {1, 2}, std::vector<uint8_t>(16)));
    return file;
  };
  for (const int64_t cases : {std::numeric_limits<int64_t>::max(), int64_t{1} << 60, int64_t{1} << 59})
    CHECK_THROWS_MATCHES(write_case_batches(folder.path("x"), cases, make), Error,
                         test::refused(illegal_value, "$FOLDER/x: tensor x"));
  for (const int64_t cases : {int64_t{0}, int64_t{-1}})
    CHECK_THROWS_MATCHES(write_case_batches(folder.path("x"), cases, make), Error,
                         test::refused(illegal_value, "$FOLDER/x: cases"));
  const auto none = [](int64_t) { return TensorFile{}; };
  const auto too_many = [](int64_t) {
    TensorFile file;
    file.tensors.push_back(Tensor::from_bytes("x", "U8", {3}, {1, 2, 3}));
    return file;
  };
  CHECK_THROWS_MATCHES(write_case_batches(folder.path("x"), 2, none), Error,
                       test::refused(illegal_value, "$FOLDER/x: cases from 0 on"));
  CHECK_THROWS_MATCHES(write_case_batches(folder.path("x"), 2, too_many), Error,
                       test::refused(illegal_value, "$FOLDER/x: cases from 0 on"));
  CHECK_FALSE(std::filesystem::exists(folder.path("x")));
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
    const Tensor* read = back.find(tensor.name);
    REQUIRE(read);
    CHECK(read->dtype == tensor.dtype);
    CHECK(read->shape == tensor.shape);
    CHECK(read->bytes == tensor.bytes);
  }
  CHECK(reinterpret_cast<uintptr_t>(back.find("big")->bytes.view().data()) % 8 == 0);
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
  REQUIRE_THROWS_MATCHES(write_case_batches(folder.path("bad"), 4, make), Error,
                         test::refused(illegal_value, "$FOLDER/bad: tensor x"));
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
