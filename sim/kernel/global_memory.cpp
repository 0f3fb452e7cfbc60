// SPDX-License-Identifier: MIT
#include "global_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/text.hpp"
#include "texture.hpp"

namespace bitmma {
namespace {

using kernel::Space;
using kernel::Variable;

constexpr int64_t alignment = 512, gap = 4096;
constexpr int64_t most_bytes = int64_t{1} << 47;  // of an allocation: what a process can address

void require_size(int64_t bytes) {
  if (bytes < 0 || bytes > most_bytes)
    throw Error({.field = "bytes", .seen = std::to_string(bytes), .expected = "0 to 2^47"});
}

Error no_allocation(uint64_t address, std::string expected) {
  return Error({.code = ViolationCode::out_of_bounds,
                .field = "address",
                .seen = fmt::format("{:#x}", address),
                .expected = std::move(expected)});
}

/// The block with all `bytes` bytes from `address`, and where they begin in it.
template <typename Blocks>
auto place_of(Blocks& blocks, uint64_t address, size_t bytes) {
  auto block = blocks.upper_bound(address);
  if (block != blocks.begin()) {
    --block;
    const uint64_t at = address - block->first, size = block->second.data.size();
    if (at <= size && size - at >= bytes) return std::pair(&block->second, static_cast<size_t>(at));
  }
  throw Error({.code = ViolationCode::out_of_bounds,
               .field = "address",
               .seen = fmt::format("{} at {:#x}", counted(static_cast<int64_t>(bytes), "byte"), address),
               .expected = "bytes of one allocation"});
}

Error no_object(uint64_t handle, std::string_view kind) {
  return Error({.code = ViolationCode::not_found,
                .field = "handle",
                .seen = fmt::format("{:#x}", handle),
                .expected = fmt::format("the handle of {} that exists", kind)});
}

/// Throws Error unless these are texels that a GPU has, all in one allocation.
void require_texels(const Memory::Contents& contents, const Texels& texels) {
  const auto require = [](bool holds, std::string field, std::string seen, std::string expected) {
    if (!holds) throw Error({.field = std::move(field), .seen = std::move(seen), .expected = std::move(expected)});
  };
  const auto& [width, height, depth] = texels.extent;
  const int bytes = texels.texel_bytes();
  // CUDA C++ Programming Guide, compute capabilities: the greatest extents have fewer.
  constexpr int64_t most_extent = int64_t{1} << 28;
  require(texels.channels == 1 || texels.channels == 2 || texels.channels == 4, "channels",
          std::to_string(texels.channels), "1, 2 or 4");
  require(texels.dimensions >= 1 && texels.dimensions <= (texels.layers > 0 ? 2 : 3), "dimensions",
          std::to_string(texels.dimensions), texels.layers > 0 ? "1 or 2, with layers" : "1 to 3");
  for (size_t i = 0; i < 3; ++i) {
    const bool is_used = i < static_cast<size_t>(texels.dimensions);
    require(texels.extent[i] >= 1 && texels.extent[i] <= (is_used ? most_extent : 1), fmt::format("extent[{}]", i),
            std::to_string(texels.extent[i]), is_used ? "1 to 2^28" : "1: there is no such dimension");
  }
  require(texels.layers >= 0 && texels.layers <= most_extent, "layers", std::to_string(texels.layers), "0 to 2^28");
  require(texels.row_bytes >= width * bytes && texels.row_bytes <= most_bytes && texels.row_bytes % bytes == 0,
          "row_bytes", std::to_string(texels.row_bytes),
          fmt::format("a multiple of {} from {} on", bytes, width * bytes));
  const int64_t slices = std::max({depth, texels.layers, int64_t{1}});
  require(slices == 1 || (texels.slice_bytes >= texels.row_bytes && texels.slice_bytes <= most_bytes / slices &&
                          texels.slice_bytes % bytes == 0),
          "slice_bytes", std::to_string(texels.slice_bytes),
          fmt::format("a multiple of {} from a row's bytes on", bytes));
  require(height <= most_bytes / texels.row_bytes, "row_bytes", std::to_string(texels.row_bytes),
          "less than 2^47 in all");
  require(texels.address % static_cast<uint64_t>(bytes) == 0, "address", fmt::format("{:#x}", texels.address),
          fmt::format("a multiple of {}", bytes));
  const int64_t used = (slices - 1) * texels.slice_bytes + (height - 1) * texels.row_bytes + width * bytes;
  place_of(contents.blocks, texels.address, static_cast<size_t>(used));
}

/// Throws Error for a linear filter with which no GPU was measured.
void require_measured_filter(const Texture& texture) {
  if (!texture.has_normalized_coordinates) return;
  for (size_t d = 0; d < static_cast<size_t>(texture.texels.dimensions); ++d) {
    const int64_t size = texture.texels.extent[d];
    if (kernel::is_coordinate_measured(size, d)) continue;
    throw Error({.code = ViolationCode::unsupported_ptx,
                 .field = "is_linear",
                 .seen = fmt::format("a linear filter of normalized coordinates along {} texels of dimension {}, with "
                                     "which no GPU was measured",
                                     size, d),
                 .expected = d < 2 ? "up to 131072 texels" : "up to 2049 texels, or 3001 to 16384",
                 .fix = "use coordinates in texels: multiply by the size in the kernel"});
  }
}

/// Throws Error for colours of borders with which no GPU was measured: NaNs that would be infinities as f16, and in
/// signed integers -1/2, a tie between two of them. The positive one is rounded toward zero.
void require_measured_border(const Texture& texture) {
  if (std::ranges::find(texture.modes, AddressMode::border) == texture.modes.end()) return;
  const TexelFormat format = texture.texels.format;
  const bool is_signed = format == TexelFormat::s8 || format == TexelFormat::s16;
  const int cut_bits = format == TexelFormat::s8 ? 13 : 5;  // those of f32 1/2 that a GPU cuts off
  constexpr uint32_t infinity = 0x7F80'0000, least_f16_nan = 0x7F80'2000, minus_half = 0xBF00'0000;
  for (size_t i = 0; i < static_cast<size_t>(texture.texels.channels); ++i) {
    const uint32_t word = texture.border[i], magnitude = word & 0x7FFF'FFFF;
    const bool is_cut_nan = format == TexelFormat::f16 && magnitude > infinity && magnitude < least_f16_nan;
    const bool is_tie = texture.reads_normalized && is_signed && word >> cut_bits == minus_half >> cut_bits;
    if (!is_cut_nan && !is_tie) continue;
    throw Error({.code = ViolationCode::unsupported_ptx,
                 .field = "border",
                 .seen = fmt::format("a colour with f32 {:#x} in channel {}, with which no GPU was measured", word, i),
                 .expected = is_tie ? "a number other than -1/2" : "a NaN with another payload, such as 0x7fc00000"});
  }
}

void mark_written(Memory::Contents::Block& block, size_t at, size_t bytes) {
  if (!block.states.empty()) std::ranges::fill(block.states.all().subspan(at, bytes), uint8_t{kernel::written});
}

/// Whether all states are `written`.
bool are_written(std::span<const uint8_t> states) {
  if (states.empty()) return true;
  // Each is the one before it: memcmp is faster than a loop.
  return states.front() == kernel::written && std::memcmp(states.data(), states.data() + 1, states.size() - 1) == 0;
}

/// Whether two ranges of addresses have a byte in common. An empty allocation takes its address: one inside of another
/// would hide what is behind it from a search by addresses.
bool overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) {
  return a <= b ? b - a < std::max<uint64_t>(a_bytes, 1) : a - b < std::max<uint64_t>(b_bytes, 1);
}

Allocation described(uint64_t address, const Memory::Contents::Block& block) {
  return {.address = address, .bytes = std::ssize(block.data), .name = block.name, .data = block.data};
}

}  // namespace

Memory::Contents::Block& Memory::Contents::add(uint64_t address, int64_t bytes, std::string name) {
  const auto refuse = [&](std::string expected) {
    return Error({.code = ViolationCode::out_of_bounds,
                  .field = "address",
                  .seen = fmt::format("{} at {:#x}", counted(bytes, "byte"), address),
                  .expected = std::move(expected)});
  };
  require_size(bytes);
  const auto size = static_cast<uint64_t>(bytes);
  if (address == 0 || size > ~address) throw refuse("addresses from 1 to 2^64-1");
  for (const uint64_t window :
       {kernel::shared_window, kernel::local_window, kernel::constant_window, kernel::param_window}) {
    if (overlap(address, size, window, kernel::window_bytes))
      throw refuse(
          fmt::format("addresses outside of {:#x}..{:#x}, which are those of shared, local, constant and "
                      "parameter memory",
                      kernel::shared_window, kernel::param_window + kernel::window_bytes - 1));
  }
  const auto behind = blocks.upper_bound(address);
  const auto before = behind == blocks.begin() ? blocks.end() : std::prev(behind);
  for (const auto block : {before, behind}) {
    if (block == blocks.end()) continue;
    if (overlap(address, size, block->first, block->second.data.size()))
      throw refuse(fmt::format("addresses that no allocation has; one has {} at {:#x}",
                               counted(std::ssize(block->second.data), "byte"), block->first));
  }
  if (address == next) next = static_cast<uint64_t>(round_up(static_cast<int64_t>(address + size) + gap, alignment));
  Block& block = blocks[address];
  regions_are_current_ = false;
  block.name = name.empty() ? fmt::format("the allocation at {:#x}", address) : std::move(name);
  return block;
}

uint64_t Memory::Contents::free_address(int64_t bytes) {
  require_size(bytes);
  const auto size = static_cast<uint64_t>(bytes) + gap;
  for (;;) {
    if (next >= kernel::shared_window || size > kernel::shared_window - next)
      throw Error({.code = ViolationCode::too_large,
                   .field = "bytes",
                   .seen = std::to_string(bytes),
                   .expected = "bytes that fit the free addresses"});
    const auto behind = blocks.lower_bound(next);
    uint64_t end = next;  // of what is in the way
    if (behind != blocks.begin()) {
      const auto before = std::prev(behind);
      if (before->first + before->second.data.size() > next) end = before->first + before->second.data.size();
    }
    if (end == next && behind != blocks.end() && behind->first - next < size)
      end = behind->first + behind->second.data.size();
    if (end == next) return next;
    next = static_cast<uint64_t>(round_up(static_cast<int64_t>(end + gap), alignment));
  }
}

Memory::Contents::Variables& Memory::Contents::variables_of(const std::shared_ptr<const kernel::Module>& module) {
  if (const auto known = modules.find(module.get()); known != modules.end()) return known->second;
  const std::vector<Variable>& variables = module->variables;
  Variables loaded{.module = module, .addresses = std::vector<uint64_t>(variables.size()), .constants = {}};
  const std::vector<int64_t> places = kernel::places_of_constants(*module);
  const auto function_of = [&](const Variable::Address& initialiser) {
    const auto function = std::ranges::find(module->functions, initialiser.of, &kernel::Entry::name);
    return function == module->functions.end() ? -1 : static_cast<int>(function - module->functions.begin());
  };
  const auto index_of = [&](const Variable& variable, const Variable::Address& initialiser) {
    const auto of = std::ranges::find_if(
        variables, [&](const Variable& other) { return other.name == initialiser.of && other.space == Space::global; });
    if (of != variables.end()) return static_cast<size_t>(of - variables.begin());
    throw Error({.code = ViolationCode::unsupported_ptx,
                 .field = fmt::format("PTX line {}", variable.line),
                 .seen = fmt::format("the address of {} in {}", initialiser.of, variable.name),
                 .expected = "the address of a global variable or of a function with a body"});
  };
  // Nothing is added before all is known to be right.
  for (const Variable& variable : variables) {
    for (const Variable::Address& initialiser : variable.addresses) {
      if (function_of(initialiser) < 0) index_of(variable, initialiser);
    }
  }
  std::vector<uint8_t*> bytes_of_variable(variables.size());
  int64_t constant_bytes = 0;
  for (size_t i = 0; i < variables.size(); ++i)
    if (places[i] >= 0) constant_bytes = std::max(constant_bytes, places[i] + variables[i].size_bytes());
  loaded.constants.resize(static_cast<size_t>(constant_bytes));
  try {
    for (size_t i = 0; i < variables.size(); ++i) {
      const Variable& variable = variables[i];
      if (variable.space == Space::global) {
        std::vector<uint8_t> own(static_cast<size_t>(variable.size_bytes()));
        const uint64_t address = free_address(variable.size_bytes());
        Block& block = add(address, variable.size_bytes(), fmt::format("variable {}", variable.name));
        loaded.addresses[i] = address;
        block.own = std::move(own);
        block.data = block.own;
        bytes_of_variable[i] = block.own.data();
      } else if (places[i] >= 0) {
        bytes_of_variable[i] = loaded.constants.data() + places[i];
      }
      if (bytes_of_variable[i]) std::ranges::copy(variable.bytes, bytes_of_variable[i]);
    }
  } catch (...) {  // no memory for all of them: none stays
    for (const uint64_t address : loaded.addresses) remove(address);
    throw;
  }
  for (size_t i = 0; i < variables.size(); ++i) {
    for (const Variable::Address& initialiser : variables[i].addresses) {
      if (!bytes_of_variable[i]) continue;
      const int function = function_of(initialiser);
      const uint64_t value =
          (function >= 0 ? kernel::function_address(function) : loaded.addresses[index_of(variables[i], initialiser)]) +
          static_cast<uint64_t>(initialiser.offset);
      std::memcpy(bytes_of_variable[i] + initialiser.at, &value,
                  static_cast<size_t>(std::min(kernel::bytes_of(variables[i].type), 8)));
    }
  }
  return modules.emplace(module.get(), std::move(loaded)).first->second;
}

kernel::Heap& Memory::Contents::device_heap(Memory& memory) {
  constexpr int64_t bytes = int64_t{8} << 20;  // cudaLimitMallocHeapSize
  if (heap.bytes == 0) heap = {.begin = memory.allocate(bytes, "heap of malloc"), .bytes = bytes};
  return heap;
}

bool Memory::Contents::remove(uint64_t address) {
  regions_are_current_ = false;
  return blocks.erase(address) > 0;
}

std::vector<kernel::GlobalRegion>& Memory::Contents::regions(bool checks) {
  if (regions_are_current_ && regions_have_states_ == checks) return regions_;
  regions_.clear();
  for (auto& [address, block] : blocks) {
    regions_.push_back({.begin = address,
                        .size = block.data.size(),
                        .data = block.data.data(),
                        .states = checks && !block.states.empty() ? block.states.all().data() : nullptr,
                        .is_output = block.is_output,
                        .name = block.name});
  }
  regions_are_current_ = true;
  regions_have_states_ = checks;
  return regions_;
}

void Memory::Contents::forget_states() {
  for (auto& [address, block] : blocks) block.states.clear();
}

Memory::Memory() : contents_(std::make_unique<Contents>()) {}
Memory::~Memory() = default;
Memory::Memory(Memory&&) noexcept = default;
Memory& Memory::operator=(Memory&&) noexcept = default;

uint64_t Memory::allocate(int64_t bytes, std::string name) {
  const uint64_t address = contents_->free_address(bytes);
  allocate_at(address, bytes, std::move(name));
  return address;
}

void Memory::allocate_at(uint64_t address, int64_t bytes, std::string name) {
  require_size(bytes);
  std::vector<uint8_t> own(static_cast<size_t>(bytes));  // before the allocation: a large one may fail
  kernel::ByteStates states(own.size());
  Contents::Block& block = contents_->add(address, bytes, std::move(name));
  block.own = std::move(own);
  block.states = std::move(states);
  block.data = block.own;
}

void Memory::map(uint64_t address, std::span<uint8_t> bytes, bool is_written, std::string name, bool is_output) {
  kernel::ByteStates states(is_written ? 0 : bytes.size());
  Contents::Block& block = contents_->add(address, std::ssize(bytes), std::move(name));
  block.states = std::move(states);
  block.data = bytes;
  block.is_output = is_output;
}

uint64_t Memory::map(std::span<uint8_t> bytes, bool is_written, std::string name) {
  const uint64_t address = contents_->free_address(std::ssize(bytes));
  map(address, bytes, is_written, std::move(name));
  return address;
}

void Memory::free(uint64_t address) {
  for (const auto& [module, variables] : contents_->modules) {
    if (address != 0 && std::ranges::find(variables.addresses, address) != variables.addresses.end())
      throw no_allocation(address, "an allocation that is no variable of a module");
  }
  if (!contents_->remove(address)) throw no_allocation(address, "the address of an allocation");
}

void Memory::write(uint64_t address, std::span<const uint8_t> bytes) {
  const auto [block, at] = place_of(contents_->blocks, address, bytes.size());
  std::ranges::copy(bytes, block->data.begin() + static_cast<std::ptrdiff_t>(at));
  mark_written(*block, at, bytes.size());
}

void Memory::fill(uint64_t address, int64_t bytes, uint8_t value) {
  require_size(bytes);
  const auto size = static_cast<size_t>(bytes);
  const auto [block, at] = place_of(contents_->blocks, address, size);
  std::ranges::fill(block->data.subspan(at, size), value);
  mark_written(*block, at, size);
}

void Memory::read(uint64_t address, std::span<uint8_t> bytes) const {
  const auto [block, at] = place_of(contents_->blocks, address, bytes.size());
  if (!block->states.empty()) {
    const std::span<const uint8_t> states = block->states.all().subspan(at, bytes.size());
    const auto hole = are_written(states)
                          ? states.end()
                          : std::ranges::find_if(states, [](uint8_t state) { return state != kernel::written; });
    if (hole != states.end())
      throw Error(
          {.code = ViolationCode::unwritten_read,
           .field = block->name,
           .seen = fmt::format("byte {} has not been written", static_cast<int64_t>(at) + (hole - states.begin())),
           .expected = "bytes that the host or a kernel has written"});
  }
  std::ranges::copy(block->data.subspan(at, bytes.size()), bytes.begin());
}

void Memory::copy(uint64_t to, uint64_t from, int64_t bytes) {
  require_size(bytes);
  const auto size = static_cast<size_t>(bytes);
  const auto [source, source_at] = place_of(contents_->blocks, from, size);
  const auto [target, target_at] = place_of(contents_->blocks, to, size);
  if (size == 0) return;
  std::memmove(target->data.data() + target_at, source->data.data() + source_at, size);
  if (target->states.empty()) return;
  if (source->states.empty()) mark_written(*target, target_at, size);
  else std::memmove(target->states.all().data() + target_at, source->states.all().data() + source_at, size);
}

bool Memory::is_written(uint64_t address, int64_t bytes) const {
  require_size(bytes);
  const auto [block, at] = place_of(contents_->blocks, address, static_cast<size_t>(bytes));
  return block->states.empty() || are_written(block->states.all().subspan(at, static_cast<size_t>(bytes)));
}

uint64_t Memory::add_texture(const Texture& texture) {
  require_texels(*contents_, texture.texels);
  const auto refuse = [](std::string field, std::string seen, std::string expected) {
    throw Error({.field = std::move(field), .seen = std::move(seen), .expected = std::move(expected)});
  };
  const bool can_filter = texture.reads_normalized || texture.texels.format == TexelFormat::f16 ||
                          texture.texels.format == TexelFormat::f32;
  if (texture.reads_normalized && !texture.texels.can_be_normalized())
    refuse("reads_normalized", "of this format", "integers of 8 or 16 bits");
  if (texture.is_linear && !can_filter) refuse("is_linear", "for integers", "texels that are read as f32");
  if (texture.is_linear && !texture.is_buffer) require_measured_filter(texture);
  require_measured_border(texture);
  if (texture.is_buffer && (texture.texels.dimensions != 1 || texture.texels.layers > 0))
    refuse("is_buffer", "of several rows", "texels of one dimension");
  kernel::TextureObjects& objects = contents_->objects;
  const uint64_t handle = kernel::first_object + objects.made++;
  objects.textures.emplace(handle, texture);
  return handle;
}

uint64_t Memory::add_surface(const Texels& texels) {
  require_texels(*contents_, texels);
  kernel::TextureObjects& objects = contents_->objects;
  const uint64_t handle = kernel::first_object + objects.made++;
  objects.surfaces.emplace(handle, texels);
  return handle;
}

void Memory::remove_texture(uint64_t handle) {
  if (contents_->objects.textures.erase(handle) == 0) throw no_object(handle, "a texture");
}
bool Memory::has_object(uint64_t handle) const {
  return contents_->objects.textures.contains(handle) || contents_->objects.surfaces.contains(handle);
}
void Memory::remove_surface(uint64_t handle) {
  if (contents_->objects.surfaces.erase(handle) == 0) throw no_object(handle, "a surface");
}

std::optional<Allocation> Memory::find(uint64_t address) const {
  auto block = contents_->blocks.upper_bound(address);
  if (block == contents_->blocks.begin()) return std::nullopt;
  --block;
  if (address - block->first >= block->second.data.size()) return std::nullopt;
  return described(block->first, block->second);
}

std::vector<Allocation> Memory::allocations() const {
  std::vector<Allocation> all;
  for (const auto& [address, block] : contents_->blocks) all.push_back(described(address, block));
  return all;
}

int64_t Memory::written_bytes(uint64_t address) const {
  const auto block = contents_->blocks.find(address);
  if (block == contents_->blocks.end()) throw no_allocation(address, "the address of an allocation");
  if (block->second.states.empty()) return std::ssize(block->second.data);
  return std::ranges::count(block->second.states.all(), uint8_t{kernel::written});
}

Allocation Memory::variable(const PtxModule& module, std::string_view name) {
  const kernel::Module& parsed = *module.module();
  const std::vector<int64_t> places = kernel::places_of_constants(parsed);
  std::vector<std::string> names;
  for (size_t i = 0; i < parsed.variables.size(); ++i) {
    const Variable& variable = parsed.variables[i];
    if (variable.is_extern_array || (variable.space != Space::global && places[i] < 0)) continue;
    names.push_back(variable.name);
    if (variable.name != name) continue;
    Contents::Variables& variables = contents_->variables_of(module.module());
    if (variable.space == Space::global)
      return described(variables.addresses[i], contents_->blocks.at(variables.addresses[i]));
    const auto at = static_cast<size_t>(places[i]), bytes = static_cast<size_t>(variable.size_bytes());
    return {.address = kernel::constant_window + at,
            .bytes = variable.size_bytes(),
            .name = variable.name,
            .data = std::span(variables.constants).subspan(at, bytes)};
  }
  throw Error({.code = ViolationCode::not_found,
               .field = "variable of the module",
               .seen = shortened(printable(name)),
               .legal = std::move(names)});
}

void Memory::unload(const PtxModule& module) {
  const auto loaded = contents_->modules.find(module.module().get());
  if (loaded == contents_->modules.end()) return;
  for (const uint64_t address : loaded->second.addresses) {
    if (address != 0) contents_->remove(address);
  }
  contents_->modules.erase(loaded);
}

}  // namespace bitmma
