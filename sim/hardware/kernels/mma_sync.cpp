// mma.sync: one warp a case, everything in registers; the other threads of the CTA leave at once.
#include <fmt/format.h>

#include "parameters.hpp"
#include "text.hpp"

namespace bitmma::kernels {

Kernel kernel_of(const MmaSync& instruction, const Request& request) {
  Kernel kernel{.shape = request.shape};
  kernel.shape.image_bytes = 0;
  for (const Field field :
       {Field::a_regs, Field::b_regs, Field::metadata, Field::accumulator, Field::scale_a, Field::scale_b})
    kernel.inputs.push_back(input_of(request, field));
  kernel.output = output_of(request, "d_regs_out");
  std::string& text = kernel.text;
  text = fmt::format(
             "// {}\n"
             "// one warp per case\n"
             ".version 8.7\n"
             ".target {}\n"
             ".address_size 64\n"
             "\n",
             request.mnemonic, request.target) +
         entry_text(kernel);
  text +=
      "{\n"
      "  .reg .pred idle;\n"
      "  .reg .b32 thread, case_index, flat_thread;\n"
      "  .reg .b64 pointer, offset;\n"
      "  .reg .b32 a<4>, b<4>, metadata<1>, scale_a<1>, scale_b<1>;\n"
      "  .reg .f32 c<4>, d<4>;\n"
      "\n"
      "  mov.u32 thread, %tid.x;\n"
      "  setp.ge.u32 idle, thread, 32;\n"
      "  @idle ret;\n"
      "  mov.u32 case_index, %ctaid.x;\n"
      "  mad.lo.u32 flat_thread, case_index, 32, thread;\n";
  const auto load = [&](std::string_view parameter, std::string_view operand, std::string_view prefix,
                        std::string_view type) {
    text += load_registers(parameter, prefix, type, registers_of(request.statement, operand));
  };
  load("a_regs_in", "a", "a", "b32");
  load("b_regs_in", "b", "b", "b32");
  load("c_regs_in", "c", "c", "f32");
  load("scale_a_in", "scale-a-data", "scale_a", "b32");
  load("scale_b_in", "scale-b-data", "scale_b", "b32");
  if (instruction.sparse) load("metadata_in", "e", "metadata", "b32");
  text += fmt::format("\n  {}\n\n", print(request.statement));
  text += store_registers("d_regs_out", "d", "f32", registers_of(request.statement, "d")) + "  ret;\n}\n";
  return kernel;
}

}  // namespace bitmma::kernels
