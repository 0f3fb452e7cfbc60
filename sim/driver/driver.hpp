// SPDX-License-Identifier: MIT
// The state behind the driver API: one device, its contexts, memory and modules. Every function of the API is a body
// that one of the three functions at the end runs, under one lock:
//
//   CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
//     return in_context([&](Driver& driver, Context&) { ... });
//   }
//
// All work is done when a function returns: streams are synchronous.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "attributes.hpp"
#include "bitmma/kernel/kernel.hpp"
#include "bitmma/kernel/memory.hpp"
#include "bitmma/kernel/texture.hpp"
#include "cuda.hpp"
#include "graph.hpp"
#include "record.hpp"
#include "report.hpp"
#include "settings.hpp"

namespace bitmma::driver {

/// Ends a function of the API with this result.
struct Failure {
  CUresult result = CUDA_ERROR_UNKNOWN;
};
inline void require(bool condition, CUresult otherwise) {
  if (!condition) throw Failure{otherwise};
}
inline void require_pointer(const void* pointer) { require(pointer != nullptr, CUDA_ERROR_INVALID_VALUE); }

struct Context {
  uint64_t id = 0;
  bool is_primary = false;
  unsigned flags = 0;
  CUresult fault = CUDA_SUCCESS;  // of a kernel: every later call in the context fails with it
  int cache_config = 0;
  std::map<int, size_t> limits = {};
};

struct Function {
  Module* module = nullptr;
  PtxEntryInfo info = {};
  std::map<int, int> attributes = {};    // that the program has set
  std::optional<PtxEntry> decoded = {};  // on first use
};

/// A module or a library: PTX, parsed.
struct Module {
  std::string text = {};
  PtxModule ptx;
  Context* context = nullptr;  // nothing: of a library
  std::map<std::string, std::unique_ptr<Function>, std::less<>> functions = {};
  std::map<std::string, Allocation, std::less<>> constants = {};  // .const variables that have a device address
};

struct Stream {
  Context* context = nullptr;
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;
  Capture* capture = nullptr;
  std::vector<GraphEdge> dependencies = {};  // of the next node of the capture
  // The same as arrays, which the program reads until it asks again.
  std::vector<CUgraphNode> listed_nodes = {};
  std::vector<CUgraphEdgeData> listed_edges = {};
};
/// One that the program has created; nullptr for a default stream (0, 1 and 2).
inline Stream* own_stream(CUstream stream) { return reinterpret_cast<uintptr_t>(stream) < 3 ? nullptr : stream; }

struct Event {
  unsigned flags = 0;
  bool is_recorded = false;
  int64_t nanoseconds = 0;
  Capture* capture = nullptr;  // recorded in a captured stream, after these nodes
  std::vector<GraphEdge> dependencies = {};
};

/// Inputs of the driver's linker, as PTX, and what it made of them.
struct Link {
  std::vector<std::string> inputs = {};
  std::string image = {};
};

/// A CUDA array: its texels lie row by row in a block. A GPU's have an order of their own, which no program sees.
struct Array {
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
  Texels texels = {};
  Context* context = nullptr;
};

/// Objects of textures and surfaces, as a program described them.
struct TextureObject {
  CUDA_RESOURCE_DESC resource = {};
  CUDA_TEXTURE_DESC texture = {};
};

/// The buffer that a program has for what a compiler says, among its options.
struct JitLog {
  unsigned count = 0;
  const CUjit_option* options = nullptr;
  void** values = nullptr;

  void write(std::string_view text) const;
};

/// What a program has said about the use of managed memory.
struct Advice {
  bool is_read_mostly = false;
  CUmemLocation preferred = {}, prefetched = {};
  std::set<CUdevice> accessed_by = {};
};

/// Memory that kernels can use, at its address on the host.
struct Block {
  enum class Kind : uint8_t { device, managed, host, registered, constant, mapped };

  uint64_t address = 0;
  size_t bytes = 0;
  Kind kind = Kind::device;
  Context* context = nullptr;
  uint64_t id = 0;
  size_t mapped_bytes = 0;  // of mmap
  unsigned flags = 0;
  Pool* pool = nullptr;
  std::shared_ptr<void> address_range = {};  // of an allocation of a graph
  Advice advice = {};

  bool is_of_host() const { return kind == Kind::host || kind == Kind::registered; }
};

/// Objects that a program knows by their addresses.
template <typename T>
class Handles {
 public:
  T& add(std::unique_ptr<T> object) {
    T* const handle = object.get();
    return *objects_.emplace(handle, std::move(object)).first->second;
  }
  T& add() { return add(std::make_unique<T>()); }
  /// Throws Failure for a handle of no object.
  T& at(T* handle, CUresult otherwise = CUDA_ERROR_INVALID_HANDLE) const {
    require(objects_.contains(handle), otherwise);
    return *handle;
  }
  void remove(T& object) { objects_.erase(&object); }
  /// Their addresses, in the order of the addresses.
  std::vector<T*> all() const {
    std::vector<T*> handles;
    for (const auto& [handle, object] : objects_) handles.push_back(handle);
    return handles;
  }

 private:
  std::map<T*, std::unique_ptr<T>> objects_ = {};
};

struct Pool {
  Block::Kind kind = Block::Kind::device;
  std::map<int, uint64_t> attributes = {};
};

/// Memory of cuMemCreate, as a file without a name, since it can be mapped at several addresses.
struct PhysicalMemory {
  int file = -1;
  size_t bytes = 0;
  CUmemAllocationProp properties = {};

  PhysicalMemory() = default;
  ~PhysicalMemory();
  PhysicalMemory(const PhysicalMemory&) = delete;
  PhysicalMemory& operator=(const PhysicalMemory&) = delete;
};
struct PhysicalHandle {
  std::shared_ptr<PhysicalMemory> memory = {};
  uint64_t references = 0;
};
struct Mapping {
  size_t bytes = 0;
  std::shared_ptr<PhysicalMemory> memory = {};
};

/// Bytes of allocations of graphs.
struct GraphMemory {
  uint64_t used = 0, most_used = 0, reserved = 0, most_reserved = 0;
};

class Driver {
 public:
  explicit Driver(const Gpu& gpu);

  const Gpu& gpu;
  const Settings& settings;
  Report report;
  std::optional<Recorder> recorder;
  Memory memory;
  std::map<uint64_t, Block> blocks;  // by address
  size_t used_bytes = 0;             // of device and managed memory
  size_t limit_bytes = 0;
  uint64_t next_id = 1;

  Handles<Context> contexts;
  Context* primary = nullptr;
  int primary_uses = 0;
  unsigned primary_flags = 0;
  Handles<Module> modules;
  std::set<Function*> functions;  // of the modules
  Handles<Stream> streams;
  Handles<Event> events;
  Handles<Link> links;
  Handles<Array> arrays;
  std::map<CUtexObject, TextureObject> textures;
  std::map<CUsurfObject, CUDA_RESOURCE_DESC> surfaces;
  Handles<Pool> pools;
  std::map<CUdeviceptr, size_t> reserved;       // bytes of ranges of addresses
  std::map<uint64_t, PhysicalHandle> physical;  // by handle
  std::map<CUdeviceptr, Mapping> mappings;
  Handles<Graph> graphs;
  Handles<GraphNode> graph_nodes;
  Handles<GraphExec> graph_execs;
  Handles<UserObject> user_objects;
  std::vector<UserObject> unreferenced;  // whose functions are to be called
  Handles<Capture> captures;
  GraphMemory graph_memory;
  Pool default_pool, default_host_pool{.kind = Block::Kind::host}, default_managed_pool{.kind = Block::Kind::managed};
  Pool* pool = &default_pool;
  uint64_t elapsed_queries = 0;  // of cuEventElapsedTime

  /// The block that has the address; nullptr if none has.
  Block* block_of(uint64_t address);
  /// Memory for kernels, and for the host too. Throws Failure for a size of 0 and without room.
  Block& allocate(size_t bytes, Block::Kind kind, Context* context);
  /// Makes memory that exists a block at its own address.
  Block& add_block(Block block, bool is_written, std::string name);
  void free(const Block& block);
  Context& make_context(unsigned flags, bool is_primary);
  /// Frees what the context has.
  void destroy(Context& context);
  Module& load(const void* image, Context* context, JitLog log = {});
  Module& load_text(std::string ptx, Context* context);
  void unload(Module& module);
  /// Throws Failure for a handle of no function.
  Function& function(CUfunction handle) const;
  /// One of the program, or a default stream (0, 1 and 2). Throws Failure for any other.
  void require_stream(CUstream stream) const;

  Driver(const Driver&) = delete;
};

/// There is one device.
inline void require_device(CUdevice device) { require(device == 0, CUDA_ERROR_INVALID_DEVICE); }

/// cuInit: makes the driver of the process.
CUresult initialise();

/// The contexts of a thread: the current one is the last. Nothing is destroyed with the thread, since destructors of a
/// program's static objects call CUDA after those of the main thread's own objects.
class ContextStack {
 public:
  bool empty() const { return count_ == 0; }
  Context* top() const { return contexts_[count_ - 1]; }
  void pop() { --count_; }
  /// Throws Failure for more than 64 contexts.
  void push(Context& context) {
    require(count_ < contexts_.size(), CUDA_ERROR_OUT_OF_MEMORY);
    contexts_[count_++] = &context;
  }
  void erase(const Context& context) {
    const auto end = contexts_.begin() + static_cast<std::ptrdiff_t>(count_);
    count_ = static_cast<size_t>(std::remove(contexts_.begin(), end, &context) - contexts_.begin());
  }

 private:
  std::array<Context*, 64> contexts_{};
  size_t count_ = 0;
};

/// Of the calling thread.
ContextStack& context_stack();
/// nullptr without one.
Context* current_context();

/// The entry of a function, decoded on first use. Throws Failure, and reports why, for one that bitmma does not run.
const PtxEntry& decoded(Driver& driver, Function& function);

/// What the program has set, or what the kernel and the GPU say. Throws Failure for an attribute that CUDA does not
/// have.
int function_attribute(Driver& driver, Function& function, CUfunction_attribute attribute);

/// A launch by `parameters`, a pointer to each value, or by `extra`; one of them is nullptr, or both for no parameters.
struct LaunchCall {
  Launch launch = {};
  void** parameters = nullptr;
  void** extra = nullptr;
};
/// The bytes of all parameters. Throws Failure if the call has not all of them.
std::vector<uint8_t> bytes_of_parameters(const PtxEntryInfo& info, const LaunchCall& call);
void launch_kernel(Driver& driver, Context& context, Function& function, LaunchCall call);

namespace detail {
/// The driver after cuInit; nullptr before it, and in a child that a process with a driver has forked.
Driver* initialised();
std::recursive_mutex& lock();
/// The result for the exception that is handled, which is reported.
CUresult result_of_exception(Driver& driver);
}  // namespace detail

/// Runs body(driver), which may return a CUresult. CUDA_ERROR_NOT_INITIALIZED before cuInit.
template <typename Body>
CUresult in_driver(const Body& body) {
  const std::lock_guard guard(detail::lock());
  Driver* const driver = detail::initialised();
  if (!driver) return CUDA_ERROR_NOT_INITIALIZED;
  try {
    if constexpr (std::is_void_v<decltype(body(*driver))>) return body(*driver), CUDA_SUCCESS;
    else return body(*driver);
  } catch (...) {
    return detail::result_of_exception(*driver);
  }
}

/// Runs body(driver, context) in the thread's current context. CUDA_ERROR_INVALID_CONTEXT without one, and the result
/// of an earlier fault.
template <typename Body>
CUresult in_context(const Body& body) {
  return in_driver([&](Driver& driver) {
    Context* const context = current_context();
    require(context != nullptr, CUDA_ERROR_INVALID_CONTEXT);
    driver.contexts.at(context, CUDA_ERROR_CONTEXT_IS_DESTROYED);  // another thread may have done it
    if (context->fault != CUDA_SUCCESS) throw Failure{context->fault};
    return body(driver, *context);
  });
}

}  // namespace bitmma::driver
