// SPDX-License-Identifier: MIT
// Memory in two steps: a range of addresses that is reserved, and memory that is mapped into it, also at several
// addresses. Kernels and copies use what cuMemSetAccess allows. What of it has been written is not known, so all of it
// counts as written. Source: CUDA Driver API, virtual memory management.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "driver.hpp"

namespace bitmma::driver {

PhysicalMemory::~PhysicalMemory() {
  if (file >= 0) close(file);
}

}  // namespace bitmma::driver

using namespace bitmma::driver;

namespace {

constexpr size_t granularity = 2 << 20;  // of an H200

bool is_multiple(size_t bytes) { return bytes > 0 && bytes % granularity == 0; }

/// Throws Failure unless the bytes are in one reserved range.
void require_reserved(const Driver& driver, CUdeviceptr address, size_t bytes) {
  const auto range = std::ranges::find_if(driver.reserved, [&](const auto& row) {
    return address >= row.first && address + bytes <= row.first + row.second;
  });
  require(is_multiple(bytes) && address % granularity == 0 && range != driver.reserved.end(), CUDA_ERROR_INVALID_VALUE);
}

/// The mapping that has the address; the end of all if none has.
auto mapping_of(Driver& driver, CUdeviceptr address) {
  auto mapping = driver.mappings.upper_bound(address);
  if (mapping == driver.mappings.begin()) return driver.mappings.end();
  --mapping;
  return address - mapping->first < mapping->second.bytes ? mapping : driver.mappings.end();
}

bool is_mapped(Driver& driver, CUdeviceptr address, size_t bytes) {
  for (CUdeviceptr at = address; at < address + bytes; at += granularity)
    if (mapping_of(driver, at) == driver.mappings.end()) return false;
  return true;
}

/// Takes bytes from kernels; what blocks have before and behind them stays.
void forbid_access(Driver& driver, Context& context, CUdeviceptr address, size_t bytes) {
  const auto allow = [&](CUdeviceptr from, CUdeviceptr to) {
    if (from >= to) return;
    driver.add_block({.address = from, .bytes = to - from, .kind = Block::Kind::mapped, .context = &context}, true,
                     fmt::format("mapped memory {}", driver.next_id));
  };
  for (CUdeviceptr at = address; at < address + bytes; at += granularity) {
    const Block* const found = driver.block_of(at);
    if (!found) continue;
    const Block block = *found;
    driver.free(block);
    allow(block.address, address);
    allow(address + bytes, block.address + block.bytes);
  }
}

}  // namespace

extern "C" {

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* properties, int) {
  return in_driver([&](Driver&) {
    require_pointer(bytes), require_pointer(properties);
    *bytes = granularity;
  });
}

CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr, unsigned long long) {
  return in_driver([&](Driver& driver) {
    require_pointer(address);
    require(is_multiple(bytes) && (alignment & (alignment - 1)) == 0, CUDA_ERROR_INVALID_VALUE);
    // Mapped with room for the alignment, whose ends go back.
    const size_t aligned = std::max(alignment, granularity);
    void* const range = mmap(nullptr, bytes + aligned, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(range != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
    const auto begin = reinterpret_cast<uint64_t>(range);
    *address = (begin + aligned - 1) / aligned * aligned;
    if (*address > begin) munmap(range, *address - begin);
    if (*address < begin + aligned) munmap(reinterpret_cast<void*>(*address + bytes), begin + aligned - *address);
    driver.reserved[*address] = bytes;
  });
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  return in_driver([&](Driver& driver) {
    const auto range = driver.reserved.find(address);
    require(range != driver.reserved.end() && range->second == bytes, CUDA_ERROR_INVALID_VALUE);
    const auto mapping = driver.mappings.lower_bound(address);
    require(mapping == driver.mappings.end() || mapping->first >= address + bytes, CUDA_ERROR_INVALID_VALUE);
    munmap(reinterpret_cast<void*>(address), bytes);
    driver.reserved.erase(range);
  });
}

CUresult cuMemCreate(uint64_t* handle, size_t bytes, const CUmemAllocationProp* properties, unsigned long long) {
  return in_driver([&](Driver& driver) {
    require_pointer(handle), require_pointer(properties);
    require(is_multiple(bytes) && properties->type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
    require(bytes <= driver.limit_bytes - driver.used_bytes, CUDA_ERROR_OUT_OF_MEMORY);
    auto made = std::make_shared<PhysicalMemory>();
    made->file = memfd_create("bitmma", MFD_CLOEXEC);  // in memory, without a name in the file system
    require(made->file >= 0 && ftruncate(made->file, static_cast<off_t>(bytes)) == 0, CUDA_ERROR_OUT_OF_MEMORY);
    made->bytes = bytes;
    made->properties = *properties;
    *handle = driver.next_id++;
    driver.physical[*handle] = {.memory = std::move(made), .references = 1};
  });
}

CUresult cuMemRelease(uint64_t handle) {
  return in_driver([&](Driver& driver) {
    const auto own = driver.physical.find(handle);
    require(own != driver.physical.end(), CUDA_ERROR_INVALID_VALUE);
    if (--own->second.references == 0) driver.physical.erase(own);  // mappings keep the memory
  });
}

CUresult cuMemRetainAllocationHandle(uint64_t* handle, void* address) {
  return in_driver([&](Driver& driver) {
    require_pointer(handle);
    const auto mapping = mapping_of(driver, reinterpret_cast<CUdeviceptr>(address));
    require(mapping != driver.mappings.end(), CUDA_ERROR_INVALID_VALUE);
    for (auto& [own, row] : driver.physical) {
      if (row.memory != mapping->second.memory) continue;
      ++row.references;
      return static_cast<void>(*handle = own);
    }
    *handle = driver.next_id++;
    driver.physical[*handle] = {.memory = mapping->second.memory, .references = 1};
  });
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties, uint64_t handle) {
  return in_driver([&](Driver& driver) {
    require_pointer(properties);
    require(driver.physical.contains(handle), CUDA_ERROR_INVALID_VALUE);
    *properties = driver.physical.at(handle).memory->properties;
  });
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, uint64_t handle, unsigned long long) {
  return in_driver([&](Driver& driver) {
    require_reserved(driver, address, bytes);
    require(driver.physical.contains(handle), CUDA_ERROR_INVALID_VALUE);
    const std::shared_ptr<PhysicalMemory>& memory = driver.physical.at(handle).memory;
    require(offset % granularity == 0 && offset + bytes <= memory->bytes, CUDA_ERROR_INVALID_VALUE);
    for (CUdeviceptr at = address; at < address + bytes; at += granularity)
      require(mapping_of(driver, at) == driver.mappings.end(), CUDA_ERROR_INVALID_VALUE);
    void* const mapped = mmap(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                              memory->file, static_cast<off_t>(offset));
    require(mapped != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
    driver.mappings[address] = {.bytes = bytes, .memory = memory};
  });
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  return in_context([&](Driver& driver, Context& context) {
    require_reserved(driver, address, bytes);
    require(is_mapped(driver, address, bytes), CUDA_ERROR_INVALID_VALUE);
    const auto last = std::prev(driver.mappings.lower_bound(address + bytes));
    require(driver.mappings.contains(address) && last->first + last->second.bytes == address + bytes,
            CUDA_ERROR_INVALID_VALUE);  // whole mappings alone
    forbid_access(driver, context, address, bytes);
    mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
         -1, 0);
    driver.mappings.erase(driver.mappings.find(address), std::next(last));
  });
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access, size_t count) {
  return in_context([&](Driver& driver, Context& context) {
    require_pointer(access);
    require_reserved(driver, address, bytes);
    require(is_mapped(driver, address, bytes), CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; ++i) {
      if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) continue;
      require_device(access[i].location.id);
      forbid_access(driver, context, address, bytes);
      if (access[i].flags == 0) continue;
      driver.add_block({.address = address, .bytes = bytes, .kind = Block::Kind::mapped, .context = &context}, true,
                       fmt::format("mapped memory {}", driver.next_id));
    }
  });
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address) {
  return in_driver([&](Driver& driver) {
    require_pointer(flags), require_pointer(location);
    require(mapping_of(driver, address) != driver.mappings.end(), CUDA_ERROR_INVALID_VALUE);
    constexpr unsigned long long read_write = 3;  // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    *flags = location->type == CU_MEM_LOCATION_TYPE_DEVICE && driver.block_of(address) ? read_write : 0;
  });
}

}  // extern "C"
