// Statements put together from PTX's words: right ones, with words too many or too few, of other types, with operands
// of other kinds or numbers. Each is refused, or runs a little.
#include "bitmma/kernel/kernel.hpp"
#include "fuzz.hpp"
#include "kernel/opcode.hpp"

namespace bitmma::fuzz {
namespace {

/// The names of opcodes and the words between their dots: those of the decoder's own tables.
const std::vector<std::string_view>& names() {
  static const auto all = [] {
    std::vector<std::string_view> of_rows;
    for (const kernel::Opcode* const opcode : kernel::opcodes()) of_rows.push_back(print(opcode->name));
    return of_rows;
  }();
  return all;
}
const std::vector<std::string_view>& words() {
  static const auto all = [] {
    std::vector<std::string_view> of_rows{"m64n8k16", "m16n8k16", "x1", "s8",
                                          "nonsense"};  // and some that are not there
    for (const kernel::WordInfo& row : kernel::word_rows)
      if (!row.name.empty()) of_rows.push_back(row.name);
    return of_rows;
  }();
  return all;
}
constexpr std::string_view types[] = {"b8",    "b16", "b32",  "b64",  "b128",  "u8",     "u16",   "u32",    "u64",
                                      "s8",    "s16", "s32",  "s64",  "f16",   "bf16",   "f16x2", "bf16x2", "f32",
                                      "f32x2", "f64", "tf32", "pred", "s16x2", "e4m3x2", "e2m1x2"};

std::string operand(Bytes& in, int depth = 0) {
  switch (in.ConsumeIntegralInRange(0, depth > 1 ? 9 : 15)) {
    case 0: return "%r" + std::to_string(between(in, 0, 9));
    case 1: return "%rd" + std::to_string(between(in, 1, 9));
    case 2: return "%f" + std::to_string(between(in, 0, 9));
    case 3: return "%d" + std::to_string(between(in, 0, 3));
    case 4: return "%h" + std::to_string(between(in, 0, 5));
    case 5: return (in.ConsumeBool() ? "!%p" : "%p") + std::to_string(between(in, 0, 4));
    case 6: return "%q" + std::to_string(between(in, 0, 3));
    case 7: return std::to_string(number<int64_t>(in));
    case 8: return in.ConsumeBool() ? "0f7FC00001" : "0d3FF0000000000000";
    case 9: return in.ConsumeBool() ? "%tid.x" : in.ConsumeBool() ? "space" : "_";
    case 10:
    case 11:
      return "[" + operand(in, depth + 2) + (in.ConsumeBool() ? "+" + std::to_string(number<int32_t>(in)) : "") + "]";
    case 12:
    case 13: {
      std::string text = "{";
      for (int i = between(in, 0, 4); i >= 0; --i) text += operand(in, depth + 1) + (i > 0 ? ", " : "");
      return text + "}";
    }
    case 14: return operand(in, depth + 2) + "|" + operand(in, depth + 2);
    default: return "[%rd2, {" + operand(in, depth + 2) + "}]";
  }
}

std::string statement(Bytes& in) {
  std::string text = one_in(in, 6) ? "@%p1 " : "";
  text += pick(in, names());
  for (int i = between(in, 0, 4); i > 0; --i) text += "." + std::string(pick(in, words()));
  for (int i = between(in, 0, 2); i > 0; --i) text += "." + std::string(pick(in, types));
  const int count = between(in, 0, 5);
  for (int i = 0; i < count; ++i) text += (i > 0 ? ", " : " ") + operand(in);
  return text + ";\n";
}

void run(Bytes& in) {
  const bool is_later = one_in(in, 5);
  std::string text =
      std::string(".version 8.7\n.target ") + (is_later ? "sm_100a" : "sm_90a") +
      "\n.address_size 64\n.visible .entry k(.param .u64 x)\n{\n.reg .b32 %r<10>;\n.reg .b64 %rd<10>;\n.reg .f32 "
      "%f<10>;\n"
      ".reg .f64 %d<4>;\n.reg .b16 %h<6>;\n.reg .b128 %q<4>;\n.reg .pred %p<5>;\n.shared .align 16 .b8 space[256];\n"
      "ld.param.u64 %rd1, [x];\nmov.u64 %rd2, space;\nmov.u32 %r1, 64;\n";
  for (int i = between(in, 1, 4); i > 0; --i) text += statement(in);
  text += "ret;\n}\n";
  std::vector<uint8_t> memory(256, uint8_t{1});
  accepts([&] {
    const PtxEntry kernel(text, {.entry = "k", .target = is_later ? Target::sm_100a : Target::sm_90a});
    (void)launch(kernel, {.block = {32, 1, 1}, .arguments = {memory_argument(memory)}, .most_steps = 300});
  });
}

}  // namespace
}  // namespace bitmma::fuzz

void fuzz_one(bitmma::fuzz::Bytes& in) { bitmma::fuzz::run(in); }
