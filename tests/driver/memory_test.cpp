// Allocations, copies, fills, and what pointers point to.
#include <cstring>
#include <numeric>

#include "driver/api.hpp"

using namespace bitmma::driver;
using test::allocate, test::call, test::download, test::TestContext, test::upload;

TEST_CASE("memory is allocated up to the limit, is freed, and has no byte twice") {
  const TestContext context;
  CUdeviceptr address = 0;
  CHECK(call("cuMemAlloc_v2", &address, size_t{0}) == CUDA_ERROR_INVALID_VALUE);
  CHECK(call("cuMemAlloc_v2", &address, (size_t{1} << 30) + 1) == CUDA_ERROR_OUT_OF_MEMORY);
  const CUdeviceptr one = allocate(size_t{1} << 29), other = allocate(size_t{1} << 29);
  CHECK(one % 512 == 0);
  CHECK((one + (1 << 29) <= other || other + (1 << 29) <= one));
  CHECK(call("cuMemAlloc_v2", &address, size_t{1}) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(call("cuMemFree_v2", one + 512) == CUDA_ERROR_INVALID_VALUE);
  CHECK(call("cuMemFree_v2", one) == CUDA_SUCCESS);
  CHECK(call("cuMemFree_v2", one) == CUDA_ERROR_INVALID_VALUE);
  CHECK(call("cuMemAlloc_v2", &address, size_t{1}) == CUDA_SUCCESS);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  CHECK(call("cuMemGetAddressRange_v2", &base, &bytes, other + 100) == CUDA_SUCCESS);
  CHECK((base == other && bytes == size_t{1} << 29));
}

TEST_CASE("rows of an allocation with a pitch begin at multiples of 512") {
  const TestContext context;
  CUdeviceptr address = 0;
  size_t pitch = 0;
  CHECK(call("cuMemAllocPitch_v2", &address, &pitch, size_t{513}, size_t{3}, 4U) == CUDA_SUCCESS);
  CHECK(pitch == 1024);
}

TEST_CASE("copies move bytes between the host and the device, and refuse others' memory") {
  const TestContext context;
  std::vector<int> values(100);
  std::iota(values.begin(), values.end(), 0);
  const CUdeviceptr one = upload(values), other = allocate(400);
  CHECK(call("cuMemcpyDtoD_v2", other, one, size_t{400}) == CUDA_SUCCESS);
  CHECK(download<int>(other, 100) == values);
  std::vector<int> host(100);
  CHECK(call("cuMemcpy", reinterpret_cast<CUdeviceptr>(host.data()), other + 40, size_t{40}) == CUDA_SUCCESS);
  CHECK(host[0] == 10);
  CHECK(call("cuMemcpyHtoD_v2", other + 4, static_cast<const void*>(host.data()), size_t{400}) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(call("cuMemcpyHtoD_v2", reinterpret_cast<CUdeviceptr>(host.data()), static_cast<const void*>(host.data()),
             size_t{4}) == CUDA_ERROR_INVALID_VALUE);
  CHECK(call("cuMemcpyDtoHAsync_v2", static_cast<void*>(host.data()), one, size_t{400}, CUstream{}) == CUDA_SUCCESS);
  CHECK(host == values);
}

TEST_CASE("copies of rows and planes") {
  const TestContext context;
  std::vector<uint8_t> values(8 * 6 * 4);
  std::iota(values.begin(), values.end(), uint8_t{0});
  const CUdeviceptr device = upload(values);
  std::vector<uint8_t> host(3 * 2);
  CUDA_MEMCPY2D flat{};
  flat.srcXInBytes = 2, flat.srcY = 1, flat.srcMemoryType = CU_MEMORYTYPE_DEVICE, flat.srcDevice = device,
  flat.srcPitch = 8;
  flat.dstMemoryType = CU_MEMORYTYPE_HOST, flat.dstHost = host.data(), flat.dstPitch = 3;
  flat.WidthInBytes = 3, flat.Height = 2;
  CHECK(call("cuMemcpy2D_v2", static_cast<const CUDA_MEMCPY2D*>(&flat)) == CUDA_SUCCESS);
  CHECK(host == std::vector<uint8_t>{10, 11, 12, 18, 19, 20});
  flat.dstPitch = 2;
  CHECK(call("cuMemcpy2D_v2", static_cast<const CUDA_MEMCPY2D*>(&flat)) == CUDA_ERROR_INVALID_VALUE);
  CUDA_MEMCPY3D deep{};
  std::vector<uint8_t> planes(2 * 2 * 2);
  deep.srcZ = 1, deep.srcY = 2, deep.srcMemoryType = CU_MEMORYTYPE_DEVICE, deep.srcDevice = device, deep.srcPitch = 8,
  deep.srcHeight = 6;
  deep.dstMemoryType = CU_MEMORYTYPE_HOST, deep.dstHost = planes.data(), deep.dstPitch = 2, deep.dstHeight = 2;
  deep.WidthInBytes = 2, deep.Height = 2, deep.Depth = 2;
  CHECK(call("cuMemcpy3D_v2", static_cast<const CUDA_MEMCPY3D*>(&deep)) == CUDA_SUCCESS);
  CHECK(planes == std::vector<uint8_t>{64, 65, 72, 73, 112, 113, 120, 121});
  deep.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  CHECK(call("cuMemcpy3D_v2", static_cast<const CUDA_MEMCPY3D*>(&deep)) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("fills of 8, 16 and 32 bits, of a run and of rows") {
  const TestContext context;
  const CUdeviceptr device = allocate(64);
  CHECK(call("cuMemsetD8_v2", device, uint8_t{7}, size_t{64}) == CUDA_SUCCESS);
  CHECK(call("cuMemsetD16_v2", device + 2, uint16_t{0x0102}, size_t{2}) == CUDA_SUCCESS);
  CHECK(call("cuMemsetD32_v2", device + 8, 0x01020304U, size_t{1}) == CUDA_SUCCESS);
  CHECK(call("cuMemsetD2D8_v2", device + 16, size_t{8}, uint8_t{1}, size_t{2}, size_t{2}) == CUDA_SUCCESS);
  CHECK(download<uint8_t>(device, 28) ==
        std::vector<uint8_t>{7, 7, 2, 1, 2, 1, 7, 7, 4, 3, 2, 1, 7, 7, 7, 7, 1, 1, 7, 7, 7, 7, 7, 7, 1, 1, 7, 7});
  CHECK(call("cuMemsetD32_v2", device + 2, 0U, size_t{1}) == CUDA_ERROR_INVALID_VALUE);
  CHECK(call("cuMemsetD8_v2", device, uint8_t{7}, size_t{65}) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("memory of the host has one address for the host and for kernels; pointers say what they are") {
  const TestContext context;
  void* host = nullptr;
  CHECK(call("cuMemHostAlloc", &host, size_t{4096}, 2U) == CUDA_SUCCESS);
  CUdeviceptr device = 0, managed = 0;
  CHECK(call("cuMemHostGetDevicePointer_v2", &device, host, 0U) == CUDA_SUCCESS);
  CHECK(device == reinterpret_cast<CUdeviceptr>(host));
  CHECK(call("cuMemAllocManaged", &managed, size_t{4096}, 1U) == CUDA_SUCCESS);
  reinterpret_cast<int*>(managed)[3] = 5;
  CHECK(download<int>(managed, 4)[3] == 5);
  const auto type_of = [](CUdeviceptr address) {
    unsigned type = 0;
    const CUresult result =
        call("cuPointerGetAttribute", static_cast<void*>(&type), CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
    return result == CUDA_SUCCESS ? static_cast<int>(type) : -1;
  };
  CHECK(type_of(device) == CU_MEMORYTYPE_HOST);
  CHECK(type_of(managed) == CU_MEMORYTYPE_DEVICE);
  CHECK(type_of(allocate(8)) == CU_MEMORYTYPE_DEVICE);
  std::vector<int> own(1000);
  const auto address = reinterpret_cast<CUdeviceptr>(own.data());
  CHECK(type_of(address) == -1);
  unsigned type = 7;  // kept by a question that fails
  CHECK(call("cuPointerGetAttribute", static_cast<void*>(&type), CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(type == 7);
  CHECK(call("cuMemHostRegister_v2", static_cast<void*>(own.data()), size_t{4000}, 0U) == CUDA_SUCCESS);
  CHECK(type_of(address + 8) == CU_MEMORYTYPE_HOST);
  CHECK(call("cuMemHostRegister_v2", static_cast<void*>(own.data()), size_t{4000}, 0U) ==
        CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CHECK(call("cuMemHostUnregister", static_cast<void*>(own.data())) == CUDA_SUCCESS);
  CHECK(call("cuMemHostUnregister", static_cast<void*>(own.data())) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  unsigned is_managed = 2;
  CHECK(call("cuPointerGetAttribute", static_cast<void*>(&is_managed), CU_POINTER_ATTRIBUTE_IS_MANAGED, managed) ==
        CUDA_SUCCESS);
  CHECK(is_managed == 1);
  CHECK(call("cuMemFreeHost", host) == CUDA_SUCCESS);
  CHECK(call("cuMemFree_v2", managed) == CUDA_SUCCESS);
}

TEST_CASE("memory is mapped into reserved addresses, also twice, and is used where access is set") {
  const TestContext context;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  size_t page = 0;
  CHECK(call("cuMemGetAllocationGranularity", &page, &properties, 0) == CUDA_SUCCESS);
  REQUIRE(page == 2 << 20);
  CUdeviceptr range = 0;
  uint64_t handle = 0, same = 0;
  CHECK(call("cuMemAddressReserve", &range, 3 * page, size_t{0}, CUdeviceptr{0}, 0ULL) == CUDA_SUCCESS);
  CHECK(call("cuMemCreate", &handle, page + 1, &properties, 0ULL) == CUDA_ERROR_INVALID_VALUE);
  CHECK(call("cuMemCreate", &handle, page, &properties, 0ULL) == CUDA_SUCCESS);
  const auto map = [&](CUdeviceptr address) { return call("cuMemMap", address, page, size_t{0}, handle, 0ULL); };
  CHECK((map(range) == CUDA_SUCCESS && map(range + page) == CUDA_SUCCESS));
  CHECK(map(range + page) == CUDA_ERROR_INVALID_VALUE);
  CHECK(map(range + 3 * page) == CUDA_ERROR_INVALID_VALUE);
  const auto fill = [](CUdeviceptr address, unsigned value) {
    return call("cuMemsetD32_v2", address, value, size_t{1});
  };
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, 3};
  CHECK(fill(range, 7) == CUDA_ERROR_INVALID_VALUE);
  CHECK(call("cuMemSetAccess", range, 3 * page, &access, size_t{1}) == CUDA_ERROR_INVALID_VALUE);
  CHECK(call("cuMemSetAccess", range, 2 * page, &access, size_t{1}) == CUDA_SUCCESS);
  CHECK(fill(range, 7) == CUDA_SUCCESS);
  CHECK(download<unsigned>(range + page, 1)[0] == 7);
  CHECK(call("cuMemFree_v2", range) == CUDA_ERROR_INVALID_VALUE);
  CHECK(call("cuMemRetainAllocationHandle", &same, reinterpret_cast<void*>(range)) == CUDA_SUCCESS);
  CHECK(same == handle);
  for (int i = 0; i < 2; ++i) CHECK(call("cuMemRelease", handle) == CUDA_SUCCESS);
  CHECK(call("cuMemRelease", handle) == CUDA_ERROR_INVALID_VALUE);
  CHECK(call("cuMemAddressFree", range, 3 * page) == CUDA_ERROR_INVALID_VALUE);
  CHECK(call("cuMemUnmap", range, page) == CUDA_SUCCESS);
  CHECK(fill(range, 8) == CUDA_ERROR_INVALID_VALUE);
  CHECK(fill(range + page, 8) == CUDA_SUCCESS);
  CHECK(call("cuMemUnmap", range + page, page) == CUDA_SUCCESS);
  CHECK(call("cuMemAddressFree", range, 3 * page) == CUDA_SUCCESS);
}

TEST_CASE("advice on managed memory can be read again") {
  const TestContext context;
  CUdeviceptr managed = 0;
  CHECK(call("cuMemAllocManaged", &managed, size_t{4096}, 1U) == CUDA_SUCCESS);
  const auto advise = [&](int advice, CUmemLocation location) {
    CHECK(call("cuMemAdvise_v2", managed, size_t{4096}, advice, location) == CUDA_SUCCESS);
  };
  const auto attribute = [](int id, CUdeviceptr address) {
    int value = -9;
    const CUresult result =
        call("cuMemRangeGetAttribute", static_cast<void*>(&value), sizeof value, id, address, size_t{4096});
    return result == CUDA_SUCCESS ? value : -9;
  };
  constexpr CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, 0}, host{CU_MEM_LOCATION_TYPE_HOST, 0};
  constexpr int read_mostly = 1, preferred = 2, last_prefetch = 4, preferred_type = 5;
  CHECK((attribute(read_mostly, managed) == 0 && attribute(preferred, managed) == CU_DEVICE_INVALID));
  advise(CU_MEM_ADVISE_SET_READ_MOSTLY, device);
  advise(CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host);
  advise(CU_MEM_ADVISE_SET_ACCESSED_BY, device);
  CHECK((attribute(read_mostly, managed) == 1 && attribute(preferred, managed) == CU_DEVICE_CPU));
  CHECK(attribute(preferred_type, managed) == CU_MEM_LOCATION_TYPE_HOST);
  int devices[2]{};
  CHECK(call("cuMemRangeGetAttribute", static_cast<void*>(+devices), sizeof devices, 3, managed, size_t{4096}) ==
        CUDA_SUCCESS);
  CHECK((devices[0] == 0 && devices[1] == CU_DEVICE_INVALID));
  CHECK(call("cuMemPrefetchAsync_v2", managed, size_t{4096}, device, 0U, CUstream{}) == CUDA_SUCCESS);
  CHECK(attribute(last_prefetch, managed) == 0);
  const CUdeviceptr ranges[2]{managed, managed + 2048};
  const size_t range_bytes[2]{2048, 2048};
  size_t indices[2]{0, 1};
  const CUmemLocation locations[2]{device, host};
  const auto prefetch = [&] {
    return call("cuMemDiscardAndPrefetchBatchAsync", +ranges, +range_bytes, size_t{2}, +locations, +indices, size_t{2},
                0ULL, CUstream{});
  };
  CHECK(prefetch() == CUDA_SUCCESS);
  CHECK(attribute(last_prefetch, managed) == CU_DEVICE_CPU);
  indices[0] = 1;
  CHECK(prefetch() == CUDA_ERROR_INVALID_VALUE);
  CHECK(call("cuMemDiscardBatchAsync", +ranges, +range_bytes, size_t{2}, 0ULL, CUstream{}) == CUDA_SUCCESS);
  advise(CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, host);
  CHECK(attribute(preferred, managed) == CU_DEVICE_INVALID);
  CHECK(attribute(read_mostly, allocate(8)) == -9);
}

TEST_CASE("memory of pools comes and goes with its stream") {
  const TestContext context;
  CUmemoryPool pool = nullptr;
  CHECK(call("cuDeviceGetMemPool", &pool, 0) == CUDA_SUCCESS);
  uint64_t threshold = 1 << 20, used = 1;
  CHECK(call("cuMemPoolSetAttribute", pool, 4, static_cast<void*>(&threshold)) == CUDA_SUCCESS);
  CUdeviceptr address = 0;
  CHECK(call("cuMemAllocAsync", &address, size_t{100}, CUstream{}) == CUDA_SUCCESS);
  CHECK(call("cuMemPoolGetAttribute", pool, 7, static_cast<void*>(&used)) == CUDA_SUCCESS);
  CHECK(used == 100);
  CHECK(call("cuMemFreeAsync", address, CUstream{}) == CUDA_SUCCESS);
  CHECK(call("cuMemAllocAsync", &address, size_t{0}, CUstream{}) == CUDA_SUCCESS);
  CHECK(address == 0);
  CHECK(call("cuMemPoolGetAttribute", pool, 7, static_cast<void*>(&used)) == CUDA_SUCCESS);
  CHECK(used == 0);
  CHECK(call("cuMemPoolGetAttribute", pool, 4, static_cast<void*>(&used)) == CUDA_SUCCESS);
  CHECK(used == threshold);
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_HOST;
  CUmemoryPool own = nullptr, host = nullptr, managed = nullptr;
  const CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  int flags = 0;
  CHECK(call("cuMemPoolCreate", &own, static_cast<const CUmemPoolProps*>(&properties)) == CUDA_SUCCESS);
  CHECK(call("cuMemGetMemPool", &host, static_cast<const CUmemLocation*>(&properties.location),
             CU_MEM_ALLOCATION_TYPE_PINNED) == CUDA_SUCCESS);
  CHECK(call("cuMemGetDefaultMemPool", &managed, &device, CU_MEM_ALLOCATION_TYPE_MANAGED) == CUDA_SUCCESS);
  CHECK(call("cuMemPoolGetAccess", &flags, host, &device) == CUDA_SUCCESS);
  CHECK(flags == 3);
  for (const CUmemoryPool visible : {own, host, managed}) {
    CHECK(call("cuMemAllocFromPoolAsync", &address, size_t{4}, visible, CUstream{}) == CUDA_SUCCESS);
    *reinterpret_cast<int*>(address) = 5;
    CHECK(download<int>(address, 1)[0] == 5);
    CHECK(call("cuMemFreeAsync", address, CUstream{}) == CUDA_SUCCESS);
  }
}
