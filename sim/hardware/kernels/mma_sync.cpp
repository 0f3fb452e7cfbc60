// SPDX-License-Identifier: MIT
// mma.sync: one warp per case, with everything in registers; the other threads of the CTA exit at once.
#include <fmt/format.h>

#include "parameters.hpp"
#include "text.hpp"

namespace bitmma::kernels {

namespace {

/// PTX requires typed registers for f32 and f64; all other registers are .b32.
std::string_view register_type(Format format) {
  return format == Format::f64 ? "f64" : format == Format::f32 ? "f32" : "b32";
}
int register_bytes(Format format) { return format == Format::f64 ? 8 : 4; }

}  // namespace

Kernel kernel_of(const MmaSync& instruction, const Request& request) {
  Kernel kernel{.shape = request.shape};
  kernel.shape.image_bytes = 0;
  for (const Field field :
       {Field::a_regs, Field::b_regs, Field::metadata, Field::accumulator, Field::scale_a, Field::scale_b})
    kernel.inputs.push_back(input_of(request, field));
  kernel.output = output_of(request, "d_regs_out");
  const bool is_f64 = instruction.a == Format::f64;
  const std::string_view ab_type = is_f64 ? "f64" : "b32";
  const int ab_bytes = is_f64 ? 8 : 4;
  const auto count = [&](std::string_view operand) { return registers_of(request.statement, operand); };
  std::string& text = kernel.text;
  text = fmt::format(
             "// {}\n"
             "// one warp per case\n"
             ".version {}.{}\n"
             ".target {}\n"
             ".address_size 64\n"
             "\n",
             request.mnemonic, request.version.major, request.version.minor, request.target) +
         entry_text(kernel);
  text += fmt::format(
      "{{\n"
      "  .reg .pred idle;\n"
      "  .reg .b32 thread, case_index, flat_thread;\n"
      "  .reg .b64 pointer, offset;\n"
      "  .reg .b32 metadata<1>, scale_a<1>, scale_b<1>;\n"
      "  .reg .{} a<{}>, b<{}>;\n"
      "  .reg .{} c<{}>;\n"
      "  .reg .{} d<{}>;\n"
      "\n"
      "  mov.u32 thread, %tid.x;\n"
      "  setp.ge.u32 idle, thread, 32;\n"
      "  @idle ret;\n"
      "  mov.u32 case_index, %ctaid.x;\n"
      "  mad.lo.u32 flat_thread, case_index, 32, thread;\n",
      ab_type, count("a"), count("b"), register_type(instruction.c), count("c"), register_type(instruction.d),
      count("d"));
  const auto load = [&](std::string_view parameter, std::string_view operand, std::string_view prefix,
                        std::string_view type,
                        int bytes) { text += load_registers(parameter, prefix, type, count(operand), bytes); };
  load("a_regs_in", "a", "a", ab_type, ab_bytes);
  load("b_regs_in", "b", "b", ab_type, ab_bytes);
  load("c_regs_in", "c", "c", register_type(instruction.c), register_bytes(instruction.c));
  if (instruction.has_scales()) {
    load("scale_a_in", "scale-a-data", "scale_a", "b32", 4);
    load("scale_b_in", "scale-b-data", "scale_b", "b32", 4);
  }
  if (instruction.sparse) load("metadata_in", "e", "metadata", "b32", 4);
  text += fmt::format("\n  {}\n\n", print(request.statement));
  text += store_registers("d_regs_out", "d", register_type(instruction.d), count("d"), register_bytes(instruction.d)) +
          "  ret;\n}\n";
  return kernel;
}

}  // namespace bitmma::kernels
