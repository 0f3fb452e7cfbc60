#include "driver/names.hpp"

#include <set>
#include <sstream>

#include "driver/api.hpp"
#include "support/files.hpp"

using namespace bitmma::driver;
using test::call, test::symbol;

namespace {

struct Row {
  std::string name, symbol;
  int since = 0;
};

std::vector<Row> rows() {
  std::vector<Row> all;
  std::istringstream lines(bitmma::test::read_text(bitmma::test::source_path("sim/driver/names.csv")));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("cu")) continue;
    std::istringstream words(line);
    std::string name, since, same;
    Row row;
    std::getline(words, row.name, ','), std::getline(words, since, ','), std::getline(words, row.symbol, ',');
    row.since = std::stoi(since);
    all.push_back(row);
  }
  return all;
}

void* found(const char* name, int version, uint64_t flags = 0) {
  void* address = nullptr;
  CUdriverProcAddressQueryResult status{};
  CHECK(call("cuGetProcAddress_v2", name, &address, version, flags, &status) == CUDA_SUCCESS);
  CHECK((address != nullptr) == (status == CU_GET_PROC_ADDRESS_SUCCESS));
  return address;
}

}  // namespace

TEST_CASE("every symbol of the driver API is there, and cuGetProcAddress finds it by its name and version") {
  const std::vector<Row> all = rows();
  CHECK(all.size() > 600);
  std::set<std::string> names;
  for (const Row& row : all) {
    INFO(row.symbol);
    REQUIRE(symbol(row.symbol.c_str()) != nullptr);
    const bool is_per_thread = row.symbol.ends_with("_ptds") || row.symbol.ends_with("_ptsz");
    void* const address = found(row.name.c_str(), row.since, is_per_thread ? 2 : 0);
    CHECK(address == symbol(row.symbol.c_str()));
    names.insert(row.name);
  }
  CHECK(names.size() > 440);
}

TEST_CASE("cuGetProcAddress gives the newest version that the program knows, and says why it finds nothing") {
  CHECK(found("cuCtxCreate", 13000) == symbol("cuCtxCreate_v4"));
  CHECK(found("cuCtxCreate", 12000) == symbol("cuCtxCreate_v3"));
  CHECK(found("cuMemcpyHtoD", 12000) == symbol("cuMemcpyHtoD_v2"));
  CHECK(found("cuStreamQuery", 12000, 2) == symbol("cuStreamQuery_ptsz"));
  CHECK(found("cuLibraryLoadData", 11000) == nullptr);
  void* address = nullptr;
  CUdriverProcAddressQueryResult status{};
  call("cuGetProcAddress_v2", "cuLibraryLoadData", &address, 11000, uint64_t{0}, &status);
  CHECK(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  call("cuGetProcAddress_v2", "cuNothing", &address, 13000, uint64_t{0}, &status);
  CHECK(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  CHECK(call("cuGetProcAddress", "cuNothing", &address, 13000, uint64_t{0}) == CUDA_ERROR_NOT_FOUND);
}

TEST_CASE("a function that bitmma does not have refuses, and private tables do not exist") {
  REQUIRE(call("cuInit", 0U) == CUDA_SUCCESS);
  CHECK(call("cuGreenCtxDestroy", static_cast<void*>(nullptr)) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(call("cuMipmappedArrayDestroy", static_cast<void*>(nullptr)) == CUDA_ERROR_NOT_SUPPORTED);
  const void* table = &table;
  CHECK(call("cuGetExportTable", &table, static_cast<const void*>(nullptr)) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(table == nullptr);
}

TEST_CASE("errors have CUDA's names") {
  const char* text = nullptr;
  CHECK(call("cuGetErrorName", CUDA_ERROR_ILLEGAL_ADDRESS, &text) == CUDA_SUCCESS);
  CHECK(std::string(text) == "CUDA_ERROR_ILLEGAL_ADDRESS");
  CHECK(call("cuGetErrorString", CUDA_ERROR_ILLEGAL_ADDRESS, &text) == CUDA_SUCCESS);
  CHECK(std::string(text) == "an illegal memory access was encountered");
  CHECK(call("cuGetErrorName", CUresult(12345), &text) == CUDA_ERROR_INVALID_VALUE);
  CHECK(text == nullptr);
}
