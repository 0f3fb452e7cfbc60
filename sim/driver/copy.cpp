// SPDX-License-Identifier: MIT
// Copies and fills, of memory that is the host's, the device's or both. All of them are done when they return.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "driver.hpp"

using namespace bitmma::driver;

namespace {

bool is_of_device(Driver& driver, uint64_t address) { return driver.memory.find(address).has_value(); }

/// Copies bytes; those that go to memory of the device have then been written, unless what they were copied from was
/// not.
void copy(Driver& driver, uint64_t to, uint64_t from, size_t bytes) {
  if (bytes == 0) return;
  const bool to_device = is_of_device(driver, to), from_device = is_of_device(driver, from);
  try {
    if (to_device && from_device) driver.memory.copy(to, from, static_cast<int64_t>(bytes));
    else if (to_device) driver.memory.write(to, {reinterpret_cast<const uint8_t*>(from), bytes});
    else if (from_device) {
      if (!driver.memory.is_written(from, static_cast<int64_t>(bytes)))
        driver.report.add_warning("", {.code = bitmma::ViolationCode::unwritten_read,
                                       .field = driver.memory.find(from)->name,
                                       .seen = "copied to the host with bytes that have not been written",
                                       .expected = "bytes that the host or a kernel has written"});
      const bitmma::Allocation allocation = *driver.memory.find(from);
      require(from - allocation.address + bytes <= allocation.data.size(), CUDA_ERROR_INVALID_VALUE);
      std::memcpy(reinterpret_cast<void*>(to), allocation.data.data() + (from - allocation.address), bytes);
    } else {
      std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
    }
  } catch (const bitmma::Error& error) {
    driver.report.print_once(fmt::format("a copy is refused: {}", error.what()));
    throw Failure{CUDA_ERROR_INVALID_VALUE};
  }
}

/// One side of a copy of rows: the address of (0, 0, 0), and the distances of rows and planes.
struct Side {
  uint64_t address = 0;
  size_t pitch = 0, plane = 0;
};

/// One side of a copy, as the program gives it.
struct GivenSide {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  CUarray array;
  size_t pitch, height, x, y, z;
};

Side side(Driver& driver, const GivenSide& given, size_t width, size_t height, size_t depth) {
  Side all;
  if (given.type == CU_MEMORYTYPE_ARRAY) {
    const bitmma::Texels& texels = driver.arrays.at(given.array).texels;
    all = {.address = texels.address,
           .pitch = static_cast<size_t>(texels.row_bytes),
           .plane = static_cast<size_t>(texels.slice_bytes)};
    const size_t planes = static_cast<size_t>(std::max(texels.extent[2], texels.layers));
    require(given.x + width <= all.pitch && given.y + height <= static_cast<size_t>(texels.extent[1]) &&
                given.z + depth <= planes,
            CUDA_ERROR_INVALID_VALUE);
  } else {
    require(
        given.type == CU_MEMORYTYPE_HOST || given.type == CU_MEMORYTYPE_DEVICE || given.type == CU_MEMORYTYPE_UNIFIED,
        CUDA_ERROR_INVALID_VALUE);
    all = {.address = given.type == CU_MEMORYTYPE_HOST ? reinterpret_cast<uint64_t>(given.host) : given.device,
           .pitch = given.pitch == 0 ? width : given.pitch};
    all.plane = all.pitch * (given.height == 0 ? height : given.height);
    require(width <= all.pitch, CUDA_ERROR_INVALID_VALUE);
  }
  all.address += given.x + given.y * all.pitch + given.z * all.plane;
  return all;
}

void copy_rows(Driver& driver, const GivenSide& destination, const GivenSide& source, size_t width, size_t height,
               size_t depth) {
  const Side to = side(driver, destination, width, height, depth), from = side(driver, source, width, height, depth);
  for (size_t z = 0; z < depth; ++z) {
    for (size_t y = 0; y < height; ++y)
      copy(driver, to.address + y * to.pitch + z * to.plane, from.address + y * from.pitch + z * from.plane, width);
  }
}

CUresult copy_rows(const CUDA_MEMCPY3D* call) {
  return in_context([&](Driver& driver, Context&) {
    require_pointer(call);
    require(call->srcLOD == 0 && call->dstLOD == 0, CUDA_ERROR_INVALID_VALUE);
    copy_rows(driver,
              {call->dstMemoryType, call->dstHost, call->dstDevice, call->dstArray, call->dstPitch, call->dstHeight,
               call->dstXInBytes, call->dstY, call->dstZ},
              {call->srcMemoryType, call->srcHost, call->srcDevice, call->srcArray, call->srcPitch, call->srcHeight,
               call->srcXInBytes, call->srcY, call->srcZ},
              call->WidthInBytes, call->Height, call->Depth);
  });
}

CUresult copy_rows(const CUDA_MEMCPY2D* call) {
  return in_context([&](Driver& driver, Context&) {
    require_pointer(call);
    copy_rows(driver,
              {call->dstMemoryType, call->dstHost, call->dstDevice, call->dstArray, call->dstPitch, 0,
               call->dstXInBytes, call->dstY, 0},
              {call->srcMemoryType, call->srcHost, call->srcDevice, call->srcArray, call->srcPitch, 0,
               call->srcXInBytes, call->srcY, 0},
              call->WidthInBytes, call->Height, 1);
  });
}

/// The place of a byte of an array of one dimension.
uint64_t place_in(Driver& driver, CUarray handle, size_t offset, size_t bytes) {
  const bitmma::Texels& texels = driver.arrays.at(handle).texels;
  require(texels.extent[1] == 1 && texels.extent[2] == 1 && texels.layers == 0 &&
              offset + bytes <= static_cast<size_t>(texels.row_bytes),
          CUDA_ERROR_INVALID_VALUE);
  return texels.address + offset;
}

CUresult copy_bytes(uint64_t to, uint64_t from, size_t bytes) {
  return in_context([&](Driver& driver, Context&) { copy(driver, to, from, bytes); });
}
uint64_t address_of(const void* host) { return reinterpret_cast<uint64_t>(host); }

/// A copy with one side on the device: CUDA refuses another address there.
CUresult copy_with_device(uint64_t device, uint64_t to, uint64_t from, size_t bytes) {
  return in_context([&](Driver& driver, Context&) {
    require(bytes == 0 || is_of_device(driver, device), CUDA_ERROR_INVALID_VALUE);
    copy(driver, to, from, bytes);
  });
}

/// Runs body(), or adds a node to the stream's capture.
template <typename Body>
CUresult on(CUstream stream, const CUgraphNodeParams& node, const Body& body) {
  return in_driver([&](Driver& driver) { return capture_node(driver, stream, node) ? CUDA_SUCCESS : body(); });
}

/// Of bytes between addresses of the host or the device.
CUgraphNodeParams copy_node(uint64_t to, uint64_t from, size_t bytes) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = from;
  copy.dstDevice = to;
  copy.WidthInBytes = bytes;
  copy.Height = copy.Depth = 1;
  return copy_node_params(copy);
}
CUgraphNodeParams copy_node(const CUDA_MEMCPY2D* call) {
  CUDA_MEMCPY3D copy{};
  if (!call) return copy_node_params(copy);
  copy.srcXInBytes = call->srcXInBytes, copy.srcY = call->srcY, copy.srcMemoryType = call->srcMemoryType;
  copy.srcHost = call->srcHost, copy.srcDevice = call->srcDevice, copy.srcArray = call->srcArray;
  copy.srcPitch = call->srcPitch;
  copy.dstXInBytes = call->dstXInBytes, copy.dstY = call->dstY, copy.dstMemoryType = call->dstMemoryType;
  copy.dstHost = call->dstHost, copy.dstDevice = call->dstDevice, copy.dstArray = call->dstArray;
  copy.dstPitch = call->dstPitch;
  copy.WidthInBytes = call->WidthInBytes, copy.Height = call->Height, copy.Depth = 1;
  return copy_node_params(copy);
}
/// Of bytes between an array of one dimension and the host.
CUgraphNodeParams copy_node(CUarray to, CUarray from, size_t offset, const void* host, size_t bytes) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = from ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_HOST;
  copy.dstMemoryType = to ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_HOST;
  copy.srcArray = from, copy.dstArray = to;
  copy.srcXInBytes = from ? offset : 0, copy.dstXInBytes = to ? offset : 0;
  copy.srcHost = host, copy.dstHost = const_cast<void*>(host);
  copy.WidthInBytes = bytes;
  copy.Height = copy.Depth = 1;
  return copy_node_params(copy);
}

/// Rows of elements of one value.
template <typename T>
CUresult fill(CUdeviceptr address, size_t pitch, T value, size_t width, size_t height) {
  return in_context([&](Driver& driver, Context&) {
    require(address % sizeof value == 0, CUDA_ERROR_INVALID_VALUE);
    for (size_t row = 0; row < height && width > 0; ++row) {
      const uint64_t at = address + row * pitch;
      require(is_of_device(driver, at), CUDA_ERROR_INVALID_VALUE);
      try {
        if constexpr (sizeof value == 1) {
          driver.memory.fill(at, static_cast<int64_t>(width), value);
        } else {
          const std::vector<T> values(width, value);
          driver.memory.write(at, {reinterpret_cast<const uint8_t*>(values.data()), width * sizeof value});
        }
      } catch (const bitmma::Error&) {
        throw Failure{CUDA_ERROR_INVALID_VALUE};
      }
    }
  });
}

/// Rows of elements of one value; done or captured.
template <typename T>
CUresult fill_on(CUstream stream, CUdeviceptr to, size_t pitch, T value, size_t width, size_t height) {
  CUgraphNodeParams node{};
  node.type = CU_GRAPH_NODE_TYPE_MEMSET;
  node.memset = {.dst = to,
                 .pitch = pitch,
                 .value = value,
                 .elementSize = sizeof value,
                 .width = width,
                 .height = height,
                 .ctx = nullptr};
  return on(stream, node, [&] { return fill(to, pitch, value, width, height); });
}

}  // namespace

extern "C" {

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) { return copy_bytes(to, from, bytes); }
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return on(stream, copy_node(to, from, bytes), [&] { return copy_bytes(to, from, bytes); });
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  return copy_with_device(to, to, address_of(from), bytes);
}
CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  return copy_with_device(from, address_of(to), from, bytes);
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy_with_device(from, to, from, bytes);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return on(stream, copy_node(to, address_of(from), bytes), [&] { return cuMemcpyHtoD_v2(to, from, bytes); });
}
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return on(stream, copy_node(address_of(to), from, bytes), [&] { return cuMemcpyDtoH_v2(to, from, bytes); });
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return on(stream, copy_node(to, from, bytes), [&] { return cuMemcpyDtoD_v2(to, from, bytes); });
}
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes) {
  return copy_bytes(to, from, bytes);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes, CUstream stream) {
  return on(stream, copy_node(to, from, bytes), [&] { return copy_bytes(to, from, bytes); });
}
CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* call) { return copy_rows(call); }
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* call) { return copy_rows(call); }
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* call, CUstream stream) {
  return on(stream, copy_node(call), [&] { return copy_rows(call); });
}
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* call) { return copy_rows(call); }
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* call, CUstream stream) {
  return on(stream, copy_node_params(call ? *call : CUDA_MEMCPY3D{}), [&] { return copy_rows(call); });
}
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D* call) { return copy_rows(call); }
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D* call, CUstream stream) { return cuMemcpy3DAsync_v2(call, stream); }

CUresult cuMemcpyHtoA_v2(CUarray to, size_t to_offset, const void* from, size_t bytes) {
  return in_context(
      [&](Driver& driver, Context&) { copy(driver, place_in(driver, to, to_offset, bytes), address_of(from), bytes); });
}
CUresult cuMemcpyAtoH_v2(void* to, CUarray from, size_t from_offset, size_t bytes) {
  return in_context([&](Driver& driver, Context&) {
    copy(driver, address_of(to), place_in(driver, from, from_offset, bytes), bytes);
  });
}
CUresult cuMemcpyDtoA_v2(CUarray to, size_t to_offset, CUdeviceptr from, size_t bytes) {
  return in_context(
      [&](Driver& driver, Context&) { copy(driver, place_in(driver, to, to_offset, bytes), from, bytes); });
}
CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t from_offset, size_t bytes) {
  return in_context(
      [&](Driver& driver, Context&) { copy(driver, to, place_in(driver, from, from_offset, bytes), bytes); });
}
CUresult cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes) {
  return in_context([&](Driver& driver, Context&) {
    copy(driver, place_in(driver, to, to_offset, bytes), place_in(driver, from, from_offset, bytes), bytes);
  });
}
CUresult cuMemcpyHtoAAsync_v2(CUarray to, size_t to_offset, const void* from, size_t bytes, CUstream stream) {
  return on(stream, copy_node(to, nullptr, to_offset, from, bytes),
            [&] { return cuMemcpyHtoA_v2(to, to_offset, from, bytes); });
}
CUresult cuMemcpyAtoHAsync_v2(void* to, CUarray from, size_t from_offset, size_t bytes, CUstream stream) {
  return on(stream, copy_node(nullptr, from, from_offset, to, bytes),
            [&] { return cuMemcpyAtoH_v2(to, from, from_offset, bytes); });
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) { return fill(to, 0, value, count, 1); }
CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) { return fill(to, 0, value, count, 1); }
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count) { return fill(to, 0, value, count, 1); }
CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height) {
  return fill(to, pitch, value, width, height);
}
CUresult cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height) {
  return fill(to, pitch, value, width, height);
}
CUresult cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height) {
  return fill(to, pitch, value, width, height);
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return fill_on(stream, to, 0, value, count, 1);
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return fill_on(stream, to, 0, value, count, 1);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return fill_on(stream, to, 0, value, count, 1);
}
CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height,
                           CUstream stream) {
  return fill_on(stream, to, pitch, value, width, height);
}
CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height,
                            CUstream stream) {
  return fill_on(stream, to, pitch, value, width, height);
}
CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height,
                            CUstream stream) {
  return fill_on(stream, to, pitch, value, width, height);
}

}  // extern "C"
