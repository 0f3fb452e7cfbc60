// SPDX-License-Identifier: MIT
#include "driver.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "bitmma/core/bits.hpp"

namespace bitmma::driver {
namespace {

constexpr size_t page_bytes = 4096;
constexpr size_t gap_bytes = 64 << 10;  // behind an allocation, which exposes accesses beyond its end

Driver* the_driver = nullptr;  // made by cuInit; it lives as long as the process, as its memory is the program's
std::atomic<bool> is_forked = false;

/// In a child of a process that has used the driver CUDA does not work; the child may be without the thread that holds
/// the lock.
void note_fork() { is_forked = the_driver != nullptr; }

void finish() {
  if (!the_driver || is_forked) return;
  const std::unique_lock guard(detail::lock(), std::try_to_lock);
  if (!guard) return Report::print("no report: a kernel was running when the process ended");
  Driver& driver = *the_driver;
  if (driver.recorder) driver.recorder->write(file_of_process(driver.settings.record), driver.gpu.target);
  driver.report.finish(driver.gpu.device_name);
}

}  // namespace

Driver::Driver(const Gpu& row)
    : gpu(row),
      settings(driver::settings()),
      report(settings),
      limit_bytes(static_cast<size_t>(std::min(settings.memory_bytes, row.memory_bytes))) {
  if (!settings.record.empty()) recorder.emplace();
}

Block* Driver::block_of(uint64_t address) {
  auto block = blocks.upper_bound(address);
  if (block == blocks.begin()) return nullptr;
  --block;
  return address - block->first < block->second.bytes ? &block->second : nullptr;
}

Block& Driver::add_block(Block block, bool is_written, std::string name) {
  memory.map(block.address, {reinterpret_cast<uint8_t*>(block.address), block.bytes}, is_written, std::move(name),
             false);
  block.id = next_id++;
  return blocks[block.address] = block;
}

Block& Driver::allocate(size_t bytes, Block::Kind kind, Context* context) {
  require(bytes > 0, CUDA_ERROR_INVALID_VALUE);
  const bool is_limited = kind != Block::Kind::host;
  require(!is_limited || bytes <= limit_bytes - used_bytes, CUDA_ERROR_OUT_OF_MEMORY);
  require(bytes < size_t{1} << 46, CUDA_ERROR_OUT_OF_MEMORY);
  const size_t mapped_bytes = (bytes + page_bytes - 1) / page_bytes * page_bytes + gap_bytes;
  void* const address =
      mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(address != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
  try {
    // The host may write the others at any time, unseen.
    Block& block = add_block({.address = reinterpret_cast<uint64_t>(address),
                              .bytes = bytes,
                              .kind = kind,
                              .context = context,
                              .mapped_bytes = mapped_bytes},
                             kind != Block::Kind::device, fmt::format("allocation {}", next_id));
    if (is_limited) used_bytes += bytes;
    return block;
  } catch (...) {
    munmap(address, mapped_bytes);
    throw;
  }
}

void Driver::free(const Block& block) {
  memory.free(block.address);
  if (block.mapped_bytes > 0) {  // otherwise it belongs to the program or to a module
    if (block.kind != Block::Kind::host) used_bytes -= block.bytes;
    munmap(reinterpret_cast<void*>(block.address), block.mapped_bytes);
  }
  if (block.address_range) {
    graph_memory.used -= block.bytes;
    madvise(block.address_range.get(), block.bytes, MADV_DONTNEED);
  }
  blocks.erase(block.address);
}

Context& Driver::make_context(unsigned flags, bool is_primary) {
  Context& context = contexts.add();
  context = {.id = next_id++, .is_primary = is_primary, .flags = flags};
  return context;
}

void Driver::destroy(Context& context) {
  for (Module* const module : modules.all())
    if (module->context == &context) unload(*module);
  for (Stream* const stream : streams.all())
    if (stream->context == &context) streams.remove(*stream);
  for (Array* const array : arrays.all())
    if (array->context == &context) arrays.remove(*array);
  std::vector<Block> own;
  for (const auto& [address, block] : blocks)
    if (block.context == &context) own.push_back(block);
  for (const Block& block : own) free(block);
  context_stack().erase(context);
  contexts.remove(context);
}

Function& Driver::function(CUfunction handle) const {
  require(functions.contains(handle), CUDA_ERROR_INVALID_HANDLE);
  return *handle;
}

void Driver::require_stream(CUstream stream) const {
  if (own_stream(stream)) streams.at(stream);
}

ContextStack& context_stack() {
  static_assert(std::is_trivially_destructible_v<ContextStack>);
  thread_local ContextStack stack;
  return stack;
}

Context* current_context() { return context_stack().empty() ? nullptr : context_stack().top(); }

namespace detail {

std::recursive_mutex& lock() {
  static auto& mutex = *new std::recursive_mutex;  // not destroyed: calls may come while the process ends
  return mutex;
}

Driver* initialised() { return is_forked ? nullptr : the_driver; }

CUresult result_of_exception(Driver& driver) {
  try {
    throw;
  } catch (const Failure& failure) {
    return failure.result;
  } catch (const Error& error) {
    driver.report.print_once(error.what());
    return CUDA_ERROR_INVALID_VALUE;
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    driver.report.print_once(error.what());
    return CUDA_ERROR_UNKNOWN;
  }
}

}  // namespace detail

CUresult initialise() {
  if (is_forked) return CUDA_ERROR_NOT_INITIALIZED;
  const std::lock_guard guard(detail::lock());
  if (the_driver) return CUDA_SUCCESS;
  the_driver = new Driver(*gpu_named(settings().gpu));
  pthread_atfork(nullptr, nullptr, note_fork);
  std::atexit(finish);
  return CUDA_SUCCESS;
}

}  // namespace bitmma::driver
