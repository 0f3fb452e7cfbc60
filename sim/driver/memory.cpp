// SPDX-License-Identifier: MIT
// Allocations, pools, what pointers point to.
#include <algorithm>
#include <cstring>

#include "driver.hpp"

using namespace bitmma::driver;

namespace {

Block& block_at(Driver& driver, uint64_t address, CUresult otherwise = CUDA_ERROR_INVALID_VALUE) {
  const auto block = driver.blocks.find(address);
  require(block != driver.blocks.end() && block->second.kind != Block::Kind::constant, otherwise);
  return block->second;
}

CUresult allocate_host(void** pointer, size_t bytes, unsigned flags) {
  return in_context([&](Driver& driver, Context& context) {
    require_pointer(pointer);
    Block& block = driver.allocate(bytes, Block::Kind::host, &context);
    block.flags = flags;
    *pointer = reinterpret_cast<void*>(block.address);
  });
}

CUresult allocate_device(CUdeviceptr* address, size_t bytes, Pool* pool) {
  return in_context([&](Driver& driver, Context& context) {
    require_pointer(address);
    Block& block = driver.allocate(bytes, pool ? pool->kind : Block::Kind::device, &context);
    block.pool = pool;
    *address = block.address;
  });
}

/// An allocation in a captured stream has an address at once, and memory in each launch of the graph.
bool capture_allocation(Driver& driver, CUdeviceptr* address, size_t bytes, CUstream stream) {
  require_pointer(address);
  const Capture* const capture = capture_of(driver, stream);
  if (!capture) return false;
  if (bytes == 0) return *address = 0, true;
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  params.alloc.poolProps.allocType = params.alloc.poolProps.location.type = 1;  // pinned, on the device
  params.alloc.bytesize = bytes;
  stream->dependencies = {{.from = &add_node(driver, *capture->graph, stream->dependencies, params)}};
  *address = params.alloc.dptr;
  return true;
}

/// Unlike cuMemAlloc it takes 0 bytes, and gives a null pointer.
CUresult allocate_in_order(Driver& driver, CUdeviceptr* address, size_t bytes, Pool* pool, CUstream stream) {
  if (capture_allocation(driver, address, bytes, stream)) return CUDA_SUCCESS;
  if (bytes > 0) return allocate_device(address, bytes, pool);
  return *address = 0, CUDA_SUCCESS;
}

/// CU_MEMORYTYPE_DEVICE of managed memory too, as CUDA says.
CUmemorytype type_of(const Block& block) { return block.is_of_host() ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE; }

/// Writes an attribute of a pointer. False for one that the pointer does not have; zero is written then, if
/// `has_default`.
bool write_attribute(Driver& driver, void* to, CUpointer_attribute attribute, CUdeviceptr address, bool has_default) {
  const Block* block = driver.block_of(address);
  Block variable;
  if (!block) {
    if (const auto allocation = driver.memory.find(address)) {  // of a module
      variable = {.address = allocation->address, .bytes = static_cast<size_t>(allocation->bytes)};
      block = &variable;
    }
  }
  const auto write = [&](auto value) {
    std::memcpy(to, &value, sizeof value);
    return block != nullptr;
  };
  const auto if_there = [&](auto value) { return (block || has_default) && write(block ? value : decltype(value)()); };
  const bool is_managed = block && block->kind == Block::Kind::managed;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: return if_there(block ? block->context : nullptr);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: return if_there(block ? type_of(*block) : CUmemorytype());
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return if_there(address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER: {
      const bool is_visible = block && (is_managed || block->is_of_host());
      return (is_visible || has_default) && write(is_visible ? address : uint64_t{0}) && is_visible;
    }
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: return if_there(block ? block->id : uint64_t{0});
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: return write(static_cast<unsigned>(is_managed)), true;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return write(block ? 0 : -2);  // CU_DEVICE_INVALID
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return if_there(block ? block->address : uint64_t{0});
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return if_there(block ? uint64_t{block->bytes} : uint64_t{0});
    case CU_POINTER_ATTRIBUTE_MAPPED: return write(static_cast<unsigned char>(block != nullptr)), true;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: return if_there(3);  // CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: return if_there(block ? block->pool : nullptr);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: return if_there(0);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: return if_there(uint64_t{0});
  }
  throw Failure{CUDA_ERROR_INVALID_VALUE};
}

/// A pool of the program, or one of CUDA's.
Pool& pool_at(Driver& driver, Pool* pool) {
  for (Pool* const own : {&driver.default_pool, &driver.default_host_pool, &driver.default_managed_pool})
    if (own == pool) return *own;
  return driver.pools.at(pool);
}

Block::Kind kind_of(const CUmemLocation& location, int type) {
  return type == CU_MEM_ALLOCATION_TYPE_MANAGED         ? Block::Kind::managed
         : location.type == CU_MEM_LOCATION_TYPE_DEVICE ? Block::Kind::device
                                                        : Block::Kind::host;
}

CUresult pool_of(CUmemoryPool* pool, const CUmemLocation* location, int type, bool is_default) {
  return in_driver([&](Driver& driver) {
    require_pointer(pool), require_pointer(location);
    require(type == CU_MEM_ALLOCATION_TYPE_MANAGED || type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
    switch (kind_of(*location, type)) {
      case Block::Kind::managed: *pool = &driver.default_managed_pool; break;
      case Block::Kind::host: *pool = &driver.default_host_pool; break;
      default: *pool = is_default ? &driver.default_pool : driver.pool;
    }
  });
}

CUmemLocation location_of(CUdevice device) {
  return device == CU_DEVICE_CPU ? CUmemLocation{.type = CU_MEM_LOCATION_TYPE_HOST, .id = 0}
                                 : CUmemLocation{.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
}
CUdevice device_of(CUmemLocation location) {
  return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id
         : location.type == CU_MEM_LOCATION_TYPE_NONE ? CU_DEVICE_INVALID
                                                      : CU_DEVICE_CPU;
}

}  // namespace

extern "C" {

CUresult cuMemAdvise_v2(CUdeviceptr, size_t, int, CUmemLocation);
CUresult cuMemPrefetchAsync_v2(CUdeviceptr, size_t, CUmemLocation, unsigned, CUstream);

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) { return allocate_device(address, bytes, nullptr); }

CUresult cuMemAllocPitch_v2(CUdeviceptr* address, size_t* pitch, size_t width, size_t height, unsigned) {
  if (!pitch) return CUDA_ERROR_INVALID_VALUE;
  *pitch = (width + 511) / 512 * 512;
  return allocate_device(address, *pitch * height, nullptr);
}

CUresult cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned) {
  return in_context([&](Driver& driver, Context& context) {
    require_pointer(address);
    *address = driver.allocate(bytes, Block::Kind::managed, &context).address;
  });
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  return in_context([&](Driver& driver, Context&) {
    if (address == 0) return;
    const Block& block = block_at(driver, address);
    require(block.kind != Block::Kind::mapped && (block.pool || !block.is_of_host()), CUDA_ERROR_INVALID_VALUE);
    driver.free(block);
  });
}

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  return in_context([&](Driver& driver, Context&) {
    if (free) *free = driver.limit_bytes - driver.used_bytes;
    if (total) *total = driver.limit_bytes;
  });
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  return in_context([&](Driver& driver, Context&) {
    const std::optional<bitmma::Allocation> allocation = driver.memory.find(address);
    require(allocation.has_value(), CUDA_ERROR_NOT_FOUND);
    if (base) *base = allocation->address;
    if (bytes) *bytes = static_cast<size_t>(allocation->bytes);
  });
}

CUresult cuMemAllocHost_v2(void** pointer, size_t bytes) { return allocate_host(pointer, bytes, 0); }
CUresult cuMemHostAlloc(void** pointer, size_t bytes, unsigned flags) { return allocate_host(pointer, bytes, flags); }

CUresult cuMemFreeHost(void* pointer) {
  return in_context([&](Driver& driver, Context&) {
    if (!pointer) return;
    const Block& block = block_at(driver, reinterpret_cast<uint64_t>(pointer));
    require(block.kind == Block::Kind::host, CUDA_ERROR_INVALID_VALUE);
    driver.free(block);
  });
}

CUresult cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned flags) {
  return in_context([&](Driver& driver, Context& context) {
    require(pointer && bytes > 0, CUDA_ERROR_INVALID_VALUE);
    const auto address = reinterpret_cast<uint64_t>(pointer);
    require(!driver.block_of(address), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    driver.add_block(
        {.address = address, .bytes = bytes, .kind = Block::Kind::registered, .context = &context, .flags = flags},
        true, "registered memory of the host");
  });
}

CUresult cuMemHostUnregister(void* pointer) {
  return in_context([&](Driver& driver, Context&) {
    const Block& block = block_at(driver, reinterpret_cast<uint64_t>(pointer), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    require(block.kind == Block::Kind::registered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    driver.free(block);
  });
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* pointer, unsigned) {
  return in_context([&](Driver& driver, Context&) {
    require_pointer(address);
    const Block* const block = driver.block_of(reinterpret_cast<uint64_t>(pointer));
    require(block && block->is_of_host(), CUDA_ERROR_INVALID_VALUE);
    *address = reinterpret_cast<uint64_t>(pointer);
  });
}

CUresult cuMemHostGetFlags(unsigned* flags, void* pointer) {
  return in_context([&](Driver& driver, Context&) {
    require_pointer(flags);
    const Block* const block = driver.block_of(reinterpret_cast<uint64_t>(pointer));
    require(block && block->is_of_host(), CUDA_ERROR_INVALID_VALUE);
    *flags = block->flags;
  });
}

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  return in_driver([&](Driver& driver) {
    require_pointer(data);
    require(write_attribute(driver, data, attribute, address, false), CUDA_ERROR_INVALID_VALUE);
  });
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data, CUdeviceptr address) {
  return in_driver([&](Driver& driver) {
    require_pointer(attributes), require_pointer(data);
    for (unsigned i = 0; i < count; ++i) write_attribute(driver, data[i], attributes[i], address, true);
  });
}

CUresult cuPointerSetAttribute(const void*, CUpointer_attribute attribute, CUdeviceptr address) {
  return in_context([&](Driver& driver, Context&) {
    require(driver.block_of(address) && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, CUDA_ERROR_INVALID_VALUE);
  });
}

// Advice on managed memory: it changes nothing, as all memory is the host's here, and can be read again.
CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, int advice, CUdevice device) {
  return cuMemAdvise_v2(address, bytes, advice, location_of(device));
}
CUresult cuMemAdvise_v2(CUdeviceptr address, size_t, int advice, CUmemLocation location) {
  return in_context([&](Driver& driver, Context&) {
    Block* const block = driver.block_of(address);
    require(block != nullptr, CUDA_ERROR_INVALID_VALUE);
    Advice& own = block->advice;
    switch (advice) {
      case CU_MEM_ADVISE_SET_READ_MOSTLY: own.is_read_mostly = true; break;
      case CU_MEM_ADVISE_UNSET_READ_MOSTLY: own.is_read_mostly = false; break;
      case CU_MEM_ADVISE_SET_PREFERRED_LOCATION: own.preferred = location; break;
      case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION: own.preferred = {}; break;
      case CU_MEM_ADVISE_SET_ACCESSED_BY: own.accessed_by.insert(device_of(location)); break;
      case CU_MEM_ADVISE_UNSET_ACCESSED_BY: own.accessed_by.erase(device_of(location)); break;
      default: throw Failure{CUDA_ERROR_INVALID_VALUE};
    }
  });
}
CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream) {
  return cuMemPrefetchAsync_v2(address, bytes, location_of(device), 0, stream);
}
CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t, CUmemLocation location, unsigned, CUstream stream) {
  return in_context([&](Driver& driver, Context&) {
    driver.require_stream(stream);
    if (Block* const block = driver.block_of(address)) block->advice.prefetched = location;
  });
}

/// Each location holds from its index in the ranges to the next one.
CUresult cuMemPrefetchBatchAsync(const CUdeviceptr* addresses, const size_t* bytes, size_t count,
                                 const CUmemLocation* locations, const size_t* indices, size_t location_count,
                                 unsigned long long flags, CUstream stream) {
  return in_context([&](Driver& driver, Context&) {
    driver.require_stream(stream);
    require(addresses && bytes && count > 0 && locations && indices && location_count > 0 && flags == 0,
            CUDA_ERROR_INVALID_VALUE);
    require(indices[0] == 0 && location_count <= count, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0, location = 0; i < count; ++i) {
      if (location + 1 < location_count && indices[location + 1] == i) ++location;
      Block* const block = driver.block_of(addresses[i]);
      require(block && block->kind == Block::Kind::managed, CUDA_ERROR_INVALID_VALUE);
      block->advice.prefetched = locations[location];
    }
  });
}

/// The contents may be lost; here they stay.
CUresult cuMemDiscardBatchAsync(const CUdeviceptr* addresses, const size_t* bytes, size_t count,
                                unsigned long long flags, CUstream stream) {
  return in_context([&](Driver& driver, Context&) {
    driver.require_stream(stream);
    require(addresses && bytes && count > 0 && flags == 0, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; ++i) {
      const Block* const block = driver.block_of(addresses[i]);
      require(block && block->kind == Block::Kind::managed, CUDA_ERROR_INVALID_VALUE);
    }
  });
}
CUresult cuMemDiscardAndPrefetchBatchAsync(const CUdeviceptr* addresses, const size_t* bytes, size_t count,
                                           const CUmemLocation* locations, const size_t* indices, size_t location_count,
                                           unsigned long long flags, CUstream stream) {
  return cuMemPrefetchBatchAsync(addresses, bytes, count, locations, indices, location_count, flags, stream);
}

// Source: CUDA Driver API, CUmem_range_attribute.
CUresult cuMemRangeGetAttribute(void* data, size_t bytes, int attribute, CUdeviceptr address, size_t) {
  return in_context([&](Driver& driver, Context&) {
    require_pointer(data);
    const Block* const block = driver.block_of(address);
    require(block && block->kind == Block::Kind::managed, CUDA_ERROR_INVALID_VALUE);
    require(bytes >= sizeof(int) && bytes % sizeof(int) == 0, CUDA_ERROR_INVALID_VALUE);
    const Advice& own = block->advice;
    std::vector<int> values;
    switch (attribute) {
      case 1: values = {own.is_read_mostly ? 1 : 0}; break;
      case 2: values = {device_of(own.preferred)}; break;
      case 3:
        values.assign(own.accessed_by.begin(), own.accessed_by.end());
        values.resize(bytes / sizeof(int), CU_DEVICE_INVALID);
        break;
      case 4: values = {device_of(own.prefetched)}; break;
      case 5: values = {own.preferred.type}; break;
      case 6: values = {own.preferred.id}; break;
      case 7: values = {own.prefetched.type}; break;
      case 8: values = {own.prefetched.id}; break;
      default: throw Failure{CUDA_ERROR_INVALID_VALUE};
    }
    std::memcpy(data, values.data(), values.size() * sizeof(int));
  });
}
CUresult cuMemRangeGetAttributes(void** data, size_t* bytes, int* attributes, size_t count, CUdeviceptr address,
                                 size_t range) {
  if (!data || !bytes || !attributes) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CUDA_SUCCESS;
  for (size_t i = 0; i < count && result == CUDA_SUCCESS; ++i)
    result = cuMemRangeGetAttribute(data[i], bytes[i], attributes[i], address, range);
  return result;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice) {
  return in_driver([&](Driver& driver) {
    require_pointer(pool);
    *pool = &driver.default_pool;
  });
}

CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice) {
  return in_driver([&](Driver& driver) {
    require_pointer(pool);
    *pool = driver.pool;
  });
}

CUresult cuDeviceSetMemPool(CUdevice, CUmemoryPool pool) {
  return in_driver([&](Driver& driver) { driver.pool = &pool_at(driver, pool); });
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool, const CUmemLocation* location, int type) {
  return pool_of(pool, location, type, true);
}
CUresult cuMemGetMemPool(CUmemoryPool* pool, const CUmemLocation* location, int type) {
  return pool_of(pool, location, type, false);
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  return in_driver([&](Driver& driver) {
    require_pointer(pool), require_pointer(properties);
    *pool = &driver.pools.add();
    (*pool)->kind = kind_of(properties->location, properties->allocType);
  });
}

CUresult cuMemPoolGetAccess(int* flags, CUmemoryPool pool, const CUmemLocation* location) {
  return in_driver([&](Driver& driver) {
    require_pointer(flags), require_pointer(location);
    constexpr int read_write = 3;  // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    const bool is_own = pool_at(driver, pool).kind != Block::Kind::device;
    *flags = is_own || location->type == CU_MEM_LOCATION_TYPE_DEVICE ? read_write : 0;
  });
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  return in_driver([&](Driver& driver) {
    Pool& own = driver.pools.at(pool);
    if (driver.pool == &own) driver.pool = &driver.default_pool;
    driver.pools.remove(own);
  });
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t) {
  return in_driver([&](Driver& driver) { pool_at(driver, pool); });
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const void*, size_t) { return cuMemPoolTrimTo(pool, 0); }

// Attributes 1 to 3 are ints, the others 64 bits. Source: CUDA Driver API, CUmemPool_attribute.
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void* value) {
  return in_driver([&](Driver& driver) {
    require_pointer(value);
    uint64_t word = 0;
    std::memcpy(&word, value, attribute <= 3 ? sizeof(int) : sizeof word);
    pool_at(driver, pool).attributes[attribute] = word;
  });
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void* value) {
  return in_driver([&](Driver& driver) {
    require_pointer(value);
    Pool& own = pool_at(driver, pool);
    uint64_t word = own.attributes[attribute];
    constexpr int first_of_use = 5;  // RESERVED_MEM_CURRENT and _HIGH, USED_MEM_CURRENT and _HIGH
    if (attribute >= first_of_use)
      for (const auto& [address, block] : driver.blocks) word += block.pool == &own ? block.bytes : 0;
    std::memcpy(value, &word, attribute <= 3 ? sizeof(int) : sizeof word);
  });
}

CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream stream) {
  return in_driver([&](Driver& driver) { return allocate_in_order(driver, address, bytes, driver.pool, stream); });
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool pool, CUstream stream) {
  return in_driver(
      [&](Driver& driver) { return allocate_in_order(driver, address, bytes, &pool_at(driver, pool), stream); });
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  return in_driver([&](Driver& driver) {
    CUgraphNodeParams node{};
    node.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
    node.free = address;
    return capture_node(driver, stream, node) ? CUDA_SUCCESS : cuMemFree_v2(address);
  });
}

}  // extern "C"
