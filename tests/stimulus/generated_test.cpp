#include "bitmma/stimulus/generated.hpp"

#include <array>

#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

TEST_CASE("generated operands are those of lab/record_products.py, bit for bit") {
  // Elements 5..8 of stream 1 with seed 12345678901, as the script gave them under PyTorch.
  struct Row {
    Format format;
    std::array<uint64_t, 4> codes;
  };
  for (const Row& row :
       {Row{Format::bf16, {0xBE91, 0x3B5C, 0xBE9A, 0x3FD5}}, Row{Format::f16, {0xB48A, 0x1AE0, 0xB4CE, 0x3EA7}},
        Row{Format::tf32, {0xBE913800, 0x3B5C0000, 0xBE99C800, 0x3FD4EC00}},
        Row{Format::f64, {0xC001211500000000 | 0xAB000000, 0xBFE4E514AF000000, 0xBFDA904104000000, 0x3FEB9B8611000000}},
        Row{Format::s8, {0xBB, 0xEB, 0xF2, 0x1B}}}) {
    INFO(info(row.format).name);
    // As one row of nine from element 0 on, and as row 5 of one element each.
    const std::vector<int64_t> first{0};
    const Matrix whole = generated_rows(row.format, first, 9, 12345678901, GeneratedStream::b);
    for (int i = 0; i < 4; ++i) {
      CHECK(whole.code(0, 5 + i) == row.codes[static_cast<size_t>(i)]);
      const std::vector<int64_t> numbers{5 + i};
      CHECK(generated_rows(row.format, numbers, 1, 12345678901, GeneratedStream::b).code(0, 0) ==
            row.codes[static_cast<size_t>(i)]);
    }
  }
}

TEST_CASE("the module that generates the operands of recordings names this generator, and is Python") {
  const std::string script = test::source_path("lab/record_common.py");
  const std::string text = test::read_text(script);
  CHECK(text.find(std::string(generator_name)) != std::string::npos);
  const std::string compiled = test::output_of_command(
      "python3 -c \"import ast,sys; ast.parse(open(sys.argv[1]).read()); print('fine')\" " + script);
  CHECK(compiled == "fine\n");
}
