// Registers of mma.sync as CUTLASS computes them: all rows of data/oracle/mma_sync_fragments.tar.xz, both ways.
#include <map>

#include "bitmma/instruction/place.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/memory/metadata.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

/// What one instruction of the file has in registers.
struct Warp {
  explicit Warp(const std::string& mnemonic) : mma(std::get<MmaSync>(parse_instruction(mnemonic))) {}

  MmaSync mma;
  Fragment a = fragment_of(mma, "a"), b = fragment_of(mma, "b"), c = fragment_of(mma, "c"), d = fragment_of(mma, "d");
};

void require_there(const Fragment& fragment, const MatrixPlace& element, const RegisterPlace& place) {
  REQUIRE(place_of(fragment, element.row, element.col) == place);
  REQUIRE(element_at(fragment, place.thread, place.reg, place.bit) == element);
}

/// A metadata bit of the chunk of four columns that `col` lies in: bits 4 i ... 4 i + 3 are the nibble of chunk i.
void require_metadata_bit(const MmaSync& mma, int row, int col, const RegisterPlace& place) {
  const int chunk = col / 4, stored_k = mma.k / 2;
  const MetadataLayout layout = metadata_layout(mma.container_bits(mma.a), stored_k);
  // Two bits of metadata a stored element, two stored elements a chunk.
  RegisterPlace field = metadata_place_of(layout, row, 2 * chunk + col % 4 / 2, 0);
  field.bit += col % 2;
  REQUIRE(field == place);
  if (col % 4 != 0) return;
  // The other way: a nibble of another value there is noticed by this row and chunk alone.
  std::vector<uint32_t> metadata(32, 0x44444444);
  metadata[static_cast<size_t>(place.thread)] ^= uint32_t{0x4 ^ 0xE} << place.bit;
  const Selection selection = select(layout, metadata, mma.m, 0);
  REQUIRE(selection.undefined_chunks == 0);
  for (int i = 0; i < mma.m * stored_k; ++i) {
    const int stored = i % stored_k, of_chunk = stored / 2;
    const int first = i / stored_k == row && of_chunk == chunk ? 2 : 0;
    REQUIRE(selection.k[static_cast<size_t>(i)] == 4 * of_chunk + first + stored % 2);
  }
}

}  // namespace

TEST_CASE("every element of A, B, C and the metadata of mma.sync is where CUTLASS puts it",
          "[rule:fragments][rule:metadata-registers]") {
  std::map<std::string, Warp> warps;
  std::map<std::string, int> rows_of;
  const int64_t rows =
      test::for_each_csv_row(test::oracle_path("mma_sync_fragments.csv"), [&](const test::CsvRow& csv) {
        const auto number = [&](const char* name) { return std::stoi(csv.at(name)); };
        const std::string &instruction = csv.at("instruction"), &operand = csv.at("operand");
        INFO(instruction << ", " << operand << " of lane " << csv.at("lane") << ", value " << csv.at("value"));
        const Warp& warp = warps.try_emplace(instruction, instruction).first->second;
        const RegisterPlace place{number("lane"), number("reg"), number("bit")};
        const int row = number("row"), col = number("col");
        ++rows_of[operand];
        if (operand == "E") return require_metadata_bit(warp.mma, row, col, place);
        if (warp.mma.sparse && operand == "A") {
          // A row of the file for every logical column: the place of the two elements that its chunk stores.
          return require_there(warp.a, {row, 2 * (col / 4)}, place);
        }
        // m8n8k4 of f16: the file has the first of four products, and the others are in the next lanes.
        for (int product = 0; product < (warp.mma.is_quad_pairs() ? 4 : 1); ++product) {
          const RegisterPlace there{place.thread + 4 * product, place.reg, place.bit};
          // B is held as n x k. Products are stacked along the rows of A and C, and along the k of B.
          if (operand == "A") require_there(warp.a, {row + 8 * product, col}, there);
          if (operand == "B") require_there(warp.b, {col, row + 4 * product}, there);
          if (operand == "C") {
            require_there(warp.c, {row + 8 * product, col}, there);
            require_there(warp.d, {row + 8 * product, col}, there);
          }
        }
      });
  CHECK(rows == 77'568);
  CHECK(rows_of == std::map<std::string, int>{{"A", 40992}, {"B", 25248}, {"C", 9280}, {"E", 2048}});
  CHECK(warps.size() == 86);
}
