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

Side side(CUmemorytype type, const void* host, CUdeviceptr device, size_t pitch, size_t height, size_t x, size_t y,
          size_t z, size_t width) {
  require(type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED,
          CUDA_ERROR_NOT_SUPPORTED);  // arrays are for textures
  Side all{.address = type == CU_MEMORYTYPE_HOST ? reinterpret_cast<uint64_t>(host) : device,
           .pitch = pitch == 0 ? width : pitch};
  all.plane = all.pitch * height;
  all.address += x + y * all.pitch + z * all.plane;
  return all;
}

CUresult copy_rows(const CUDA_MEMCPY3D* call, const CUDA_MEMCPY2D* flat) {
  return in_context([&](Driver& driver, Context&) {
    require(call || flat, CUDA_ERROR_INVALID_VALUE);
    const size_t width = call ? call->WidthInBytes : flat->WidthInBytes, height = call ? call->Height : flat->Height,
                 depth = call ? call->Depth : 1;
    const Side from =
        call ? side(call->srcMemoryType, call->srcHost, call->srcDevice, call->srcPitch,
                    call->srcHeight == 0 ? height : call->srcHeight, call->srcXInBytes, call->srcY, call->srcZ, width)
             : side(flat->srcMemoryType, flat->srcHost, flat->srcDevice, flat->srcPitch, height, flat->srcXInBytes,
                    flat->srcY, 0, width);
    const Side to =
        call ? side(call->dstMemoryType, call->dstHost, call->dstDevice, call->dstPitch,
                    call->dstHeight == 0 ? height : call->dstHeight, call->dstXInBytes, call->dstY, call->dstZ, width)
             : side(flat->dstMemoryType, flat->dstHost, flat->dstDevice, flat->dstPitch, height, flat->dstXInBytes,
                    flat->dstY, 0, width);
    require(width <= from.pitch && width <= to.pitch, CUDA_ERROR_INVALID_VALUE);
    for (size_t z = 0; z < depth; ++z) {
      for (size_t y = 0; y < height; ++y)
        copy(driver, to.address + y * to.pitch + z * to.plane, from.address + y * from.pitch + z * from.plane, width);
    }
  });
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

/// Runs body(driver) for a stream of the program.
template <typename Body>
CUresult on(CUstream stream, const Body& body) {
  return in_driver([&](Driver& driver) {
    driver.require_stream(stream);
    return body();
  });
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

}  // namespace

extern "C" {

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) { return copy_bytes(to, from, bytes); }
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return on(stream, [&] { return copy_bytes(to, from, bytes); });
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
  return on(stream, [&] { return cuMemcpyHtoD_v2(to, from, bytes); });
}
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return on(stream, [&] { return cuMemcpyDtoH_v2(to, from, bytes); });
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return on(stream, [&] { return cuMemcpyDtoD_v2(to, from, bytes); });
}
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes) {
  return copy_bytes(to, from, bytes);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes, CUstream stream) {
  return on(stream, [&] { return copy_bytes(to, from, bytes); });
}
CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* call) { return copy_rows(nullptr, call); }
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* call) { return copy_rows(nullptr, call); }
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* call, CUstream stream) {
  return on(stream, [&] { return copy_rows(nullptr, call); });
}
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* call) { return copy_rows(call, nullptr); }
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* call, CUstream stream) {
  return on(stream, [&] { return copy_rows(call, nullptr); });
}
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D* call) { return copy_rows(call, nullptr); }
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D* call, CUstream stream) { return cuMemcpy3DAsync_v2(call, stream); }

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
  return on(stream, [&] { return fill(to, 0, value, count, 1); });
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return on(stream, [&] { return fill(to, 0, value, count, 1); });
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return on(stream, [&] { return fill(to, 0, value, count, 1); });
}
CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height,
                           CUstream stream) {
  return on(stream, [&] { return fill(to, pitch, value, width, height); });
}
CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height,
                            CUstream stream) {
  return on(stream, [&] { return fill(to, pitch, value, width, height); });
}
CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height,
                            CUstream stream) {
  return on(stream, [&] { return fill(to, pitch, value, width, height); });
}

}  // extern "C"
