// SPDX-License-Identifier: MIT
#include "recorded_file.hpp"

#include <fmt/format.h>

#include "bitmma/core/text.hpp"
#include "bitmma/instruction/statement.hpp"
#include "output.hpp"

namespace bitmma::cli {

const Tensor* d_alone(const TensorFile& file) {
  const bool is_alone =
      file.tensors.size() == 1 && (!file.find_metadata("instruction") || file.tensors.front().name == "d");
  return is_alone ? &file.tensors.front() : nullptr;
}

void require_same_instruction(const TensorFile& file, const TensorFile& of_d) {
  const std::string *own = file.find_metadata("instruction"), *other = of_d.find_metadata("instruction");
  if (own && other)
    require_same_cases(of_d.path, print(parse_instruction(*own)), 1, print(parse_instruction(*other)), 1);
}

void require_inputs(const TensorFile& file, std::string_view verb) {
  if (!d_alone(file)) return;
  throw Error({.code = ViolationCode::unusable_file,
               .field = file.path,
               .seen = "a matrix alone",
               .expected = "a vector file with an instruction and its inputs",
               .fix = fmt::format("bitmma {} VECTORS {} uses the matrix as their D", verb, printable(file.path))});
}

TensorFile with_d(TensorFile file, Tensor d) {
  file = without_results(std::move(file));
  d.name = "d";
  file.set(std::move(d));
  return file;
}

void warn_of_converted_d(const Context& context, const TensorFile& file, const Instruction& instruction) {
  const Tensor* const d = file.find("d");
  if (!d || !is_mma(instruction)) return;
  const FormatInfo& format = info(mma_of(instruction).d);
  if (d->dtype == format.dtype || d->dtype == format.raw_dtype) return;
  print_warnings(
      context,
      {{.field = fmt::format("{}: tensor d", file.path),
        .seen = d->dtype,
        .expected = fmt::format("{} ({}), the type that the instruction writes", format.dtype, format.name),
        .fix = "the numbers are converted to that type and compared; bits that the file's type rounded away are lost",
        .severity = Severity::warning}});
}

RecordedFile read_recorded(const Context& context, TensorFile file, const FileFlags& flags) {
  require_inputs(file, "compare");
  const auto read = [&] {
    try {
      return RecordedFile(file, flags.defaults());
    } catch (const Error& error) {
      throw flags.in_flags(error);
    }
  };
  RecordedFile recorded = read();
  warn_of_converted_d(context, file, recorded.instruction());
  return recorded;
}

}  // namespace bitmma::cli
