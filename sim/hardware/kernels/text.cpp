// SPDX-License-Identifier: MIT
#include "text.hpp"

#include <fmt/format.h>

namespace bitmma::kernels {
namespace {

constexpr size_t line_width = 116;

/// Computes the address of this thread's registers.
std::string find_registers(std::string_view parameter, int bytes) {
  return fmt::format(
      "  ld.param.u64 pointer, [{}];\n"
      "  mul.wide.u32 offset, flat_thread, {};\n"
      "  add.s64 pointer, pointer, offset;\n",
      parameter, bytes);
}

}  // namespace

std::string register_list(std::string_view prefix, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += fmt::format("{}{}{}", i ? ", " : "", prefix, i);
  return text + "}";
}

int registers_of(const Statement& statement, std::string_view name) {
  for (const StatementOperand& operand : statement.operands) {
    if (operand.name == name) return static_cast<int>(operand.registers.size());
  }
  return 0;
}

std::string entry_text(const Kernel& kernel) {
  std::string text = fmt::format(".visible .entry {}(\n", kernel_name), line = "   ";
  for (const KernelParameter& input : kernel.inputs) {
    const std::string parameter = fmt::format(" .param .u64 {},", input.name);
    if (line.size() + parameter.size() > line_width) {
      text += line + "\n";
      line = "   ";
    }
    line += parameter;
  }
  const std::string last = fmt::format(" .param .u64 {})\n", kernel.output.name);
  if (line.size() + last.size() > line_width) {
    text += line + "\n";
    line = "   ";
  }
  return text + line + last;
}

std::string align_image() {
  return "  mov.u32 base, shared;\n"
         "  add.u32 base, base, 1023;\n"
         "  and.b32 base, base, 0xFFFFFC00;\n";
}

std::string copy_image(std::string_view index, int64_t stride) {
  return fmt::format(
      "  // the image, 16 bytes a thread and round\n"
      "  ld.param.u64 pointer, [smem_in];\n"
      "  mul.wide.u32 offset, {}, {};\n"
      "  add.s64 pointer, pointer, offset;\n"
      "  shl.b32 position, thread, 4;\n"
      "copy:\n"
      "  setp.lt.u32 more, position, {};\n"
      "  @!more bra copied;\n"
      "  cvt.u64.u32 offset, position;\n"
      "  add.s64 offset, pointer, offset;\n"
      "  ld.global.v4.u32 {{w0, w1, w2, w3}}, [offset];\n"
      "  add.u32 address, base, position;\n"
      "  st.shared.v4.u32 [address], {{w0, w1, w2, w3}};\n"
      "  add.u32 position, position, {};\n"
      "  bra copy;\n"
      "copied:\n",
      index, stride, stride, 16 * kernel_threads);
}

std::string load_lines(std::string_view prefix, std::string_view type, int count, int bytes) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += fmt::format("  ld.global.{} {}{}, [pointer+{}];\n", type, prefix, i, bytes * i);
  return text;
}

std::string store_lines(std::string_view prefix, std::string_view type, int count, int bytes) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += fmt::format("  st.global.{} [pointer+{}], {}{};\n", type, bytes * i, prefix, i);
  return text;
}

std::string load_registers(std::string_view parameter, std::string_view prefix, std::string_view type, int count,
                           int bytes) {
  return find_registers(parameter, bytes * count) + load_lines(prefix, type, count, bytes);
}

std::string store_registers(std::string_view parameter, std::string_view prefix, std::string_view type, int count,
                            int bytes) {
  return find_registers(parameter, bytes * count) + store_lines(prefix, type, count, bytes);
}

}  // namespace bitmma::kernels
