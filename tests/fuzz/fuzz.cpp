#include "fuzz.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "bitmma/instruction/form.hpp"

namespace bitmma::fuzz {
namespace {

class Folder {
 public:
  Folder() : path_("/dev/shm/bitmma-fuzz-" + std::to_string(getpid())) {
    std::filesystem::create_directory(path_);
    // libFuzzer leaves by _Exit after a finding, but by exit() otherwise.
    static const std::string path = path_;
    std::atexit([] {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    });
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

uint32_t next(uint32_t& state) {
  state = state * 1664525u + 1013904223u;
  return state ^ state >> 16;
}

Extents extents_of(Bytes& in, const FieldRule& rule) {
  std::array<int64_t, Extents::most> extents{};
  std::copy(rule.extents.begin(), rule.extents.end(), extents.begin());
  std::size_t rank = rule.extents.size();
  for (int64_t& extent : std::span(extents).first(rank)) {
    if (extent >= 0) continue;
    constexpr int columns[] = {128, 32, 64, 256, 512, 512, 1, 7, 33, 511};
    extent =
        rule.field == Field::smem ? in.ConsumeIntegralInRange(0, in.ConsumeBool() ? 40000 : 232448) : pick(in, columns);
  }
  if (one_in(in, 24) && rank > 0)
    extents[static_cast<std::size_t>(between(in, 0, static_cast<int>(rank) - 1))] = between(in, 0, 130);
  if (one_in(in, 48)) rank = static_cast<std::size_t>(between(in, 0, static_cast<int>(Extents::most)));
  return Extents(std::span<const int64_t>(extents).first(rank));
}

std::size_t size_of(const Extents& extents) {
  std::size_t size = 1;
  for (const int64_t extent : extents) size *= static_cast<std::size_t>(extent);
  return size;
}

}  // namespace

void require(bool holds, std::string_view promise) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %.*s\n", static_cast<int>(promise.size()), promise.data());
  std::abort();
}

Format any_format(Bytes& in) { return pick(in, formats).id; }
Target any_target(Bytes& in) { return pick(in, targets).id; }
Distribution any_distribution(Bytes& in) { return pick(in, distributions).id; }

const Instruction& listed_instruction(Bytes& in) {
  static const std::vector<Instruction> all = all_instructions();
  return pick(in, all);
}

uint64_t descriptor_word(Bytes& in, Target target) {
  if (one_in(in, 6)) return in.ConsumeIntegral<uint64_t>();
  const bool near = in.ConsumeBool();
  const auto sixteens = [&](int few) { return int64_t{16} * between(in, 0, near ? few : 16383); };
  SmemDescriptor descriptor{.target = target};
  descriptor.start_address_bytes = sixteens(255);
  descriptor.strides = {sixteens(128), sixteens(128)};
  descriptor.base_offset = one_in(in, 4) ? between(in, 0, 7) : 0;
  descriptor.swizzle = pick(in, swizzles).id;
  descriptor.leading_dim_absolute = one_in(in, 6);
  uint64_t word = 0;
  accepts([&] { word = encode(descriptor); });
  return word;
}

uint32_t tmem_word(Bytes& in) {
  const auto column = static_cast<uint32_t>(between(in, 0, in.ConsumeBool() ? 31 : 511));
  switch (between(in, 0, 5)) {
    case 0: return in.ConsumeIntegral<uint32_t>();
    case 1: return static_cast<uint32_t>(between(in, 0, 127)) << 16 | column;
    case 2: return 16u << 16 | column;
    case 3: return 0;
    default: return column;
  }
}

std::vector<uint32_t> words(Bytes& in, std::size_t count) {
  auto state = in.ConsumeIntegral<uint32_t>();
  const int kind = between(in, 0, 3);
  const uint32_t mask = kind == 0 ? ~0u : kind == 1 ? 0xBFBFBFBFu : 0x3FFF3FFFu;
  std::vector<uint32_t> made(count);
  for (uint32_t& word : made) word = kind == 3 ? state : next(state) & mask;
  return made;
}

std::vector<uint8_t> bytes(Bytes& in, std::size_t count) {
  const std::vector<uint32_t> from = words(in, (count + 3) / 4);
  std::vector<uint8_t> made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = static_cast<uint8_t>(from[i / 4] >> 8 * (i % 4));
  return made;
}

Matrix matrix(Bytes& in, Format format, int rows, int cols) {
  Matrix made(format, rows, cols);
  const std::vector<uint32_t> from = words(in, made.words().size());
  const uint32_t mask = static_cast<uint32_t>(low_mask(std::min(info(format).bits, 32)));
  std::transform(from.begin(), from.end(), made.words().begin(), [&](uint32_t word) { return word & mask; });
  return made;
}

State any_state(Bytes& in, const Instruction& instruction, Target target) {
  State state;
  for (const FieldRule& rule : fields_of(instruction)) {
    if (one_in(in, rule.required ? 64 : 4)) continue;
    const FieldInfo& field = info(rule.field);
    if (field.is_number) {
      const bool small = field.type == ElementType::u8;
      const uint64_t value = rule.field == Field::zero_column_mask
                                 ? in.ConsumeIntegral<uint64_t>() & (in.ConsumeBool() ? ~uint64_t{0} : low_mask(59))
                             : field.type == ElementType::u64 ? descriptor_word(in, target)
                             : small ? static_cast<uint64_t>(between(in, 0, one_in(in, 12) ? 255 : 3))
                                     : tmem_word(in);
      state.set(rule.field, value);
      continue;
    }
    const Extents extents = extents_of(in, rule);
    const std::size_t size = size_of(extents);
    if (size > 1u << 20) continue;
    if (field.type == ElementType::u8) state.set(rule.field, bytes(in, size), extents);
    else if (rule.wide != one_in(in, 48)) {
      std::vector<uint64_t> wide(size);
      const std::vector<uint32_t> halves = words(in, 2 * size);
      for (std::size_t i = 0; i < size; ++i) wide[i] = uint64_t{halves[2 * i]} << 32 | halves[2 * i + 1];
      accepts([&] { state.set(rule.field, wide, extents); });
    } else {
      accepts([&] { state.set(rule.field, words(in, size), extents); });
    }
  }
  return state;
}

std::string path(std::string_view name) {
  static const Folder folder;
  return folder.path() + "/" + std::string(name);
}

void write(const std::string& to, std::span<const uint8_t> content) {
  std::ofstream(to, std::ios::binary)
      .write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
}

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto first = static_cast<uint8_t>(text[at]);
    const int more = first < 0x80 ? 0 : first >> 5 == 6 ? 1 : first >> 4 == 14 ? 2 : first >> 3 == 30 ? 3 : -1;
    if (more < 0 || at + static_cast<std::size_t>(more) >= text.size()) return false;
    uint32_t code = more == 0 ? first : first & (0x3Fu >> more);
    for (int i = 1; i <= more; ++i) {
      const auto byte = static_cast<uint8_t>(text[at + static_cast<std::size_t>(i)]);
      if (byte >> 6 != 2) return false;
      code = code << 6 | (byte & 0x3F);
    }
    constexpr uint32_t smallest[] = {0, 0x80, 0x800, 0x10000};
    if (code < smallest[more] || code > 0x10FFFF || code >> 11 == 0x1B) return false;
    at += static_cast<std::size_t>(more) + 1;
  }
  return true;
}

}  // namespace bitmma::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  bitmma::fuzz::Bytes in(data, size);
  fuzz_one(in);
  return 0;
}
