// SPDX-License-Identifier: MIT
#include "bitmma/files/recorded_d.hpp"

#include <fmt/format.h>

#include "bitmma/core/text.hpp"
#include "bitmma/instruction/statement.hpp"

namespace bitmma {
namespace {

/// Calls `body`. If it refuses tensor d or the cases of `path`, the message names `path_of_d`, the origin of d.
template <typename Body>
auto naming_file_of_d(const std::string& path, const std::string& path_of_d, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    std::vector<Violation> violations = error.violations();
    for (Violation& violation : violations) {
      const bool is_of_d = violation.key == "d" || violation.key == "cases";
      if (!is_of_d || violation.file != path) continue;
      violation.field.replace(0, path.size(), path_of_d);
      violation.file = path_of_d;
    }
    throw Error(std::move(violations));
  }
}

}  // namespace

const Tensor* d_alone(const TensorFile& file) {
  const bool is_alone =
      file.tensors.size() == 1 && (!file.find_metadata("instruction") || file.tensors.front().name == "d");
  return is_alone ? &file.tensors.front() : nullptr;
}

void require_inputs(const TensorFile& file, std::string_view verb) {
  if (!d_alone(file)) return;
  throw Error({.code = ViolationCode::unusable_file,
               .field = file.path,
               .seen = "a matrix alone",
               .expected = "a vector file with an instruction and its inputs",
               .fix = fmt::format("bitmma {} VECTORS {} uses the matrix as their D{}", verb, printable(file.path),
                                  verb == "diagnose" ? "; an .npz with a and b is a product: bitmma diagnose PRODUCT "
                                                       "D, or with d bitmma gemm PRODUCT --find"
                                                     : "")});
}

TensorFile with_d(TensorFile file, Tensor d) {
  file = without_results(std::move(file));
  d.name = "d";
  file.set(std::move(d));
  return file;
}

void warn_of_converted_d(const TensorFile& file, const Instruction& instruction, const FileEvents& events) {
  const Tensor* const d = file.find("d");
  if (!d || !is_mma(instruction) || !events.warn) return;
  const FormatInfo& format = info(mma_of(instruction).d);
  if (d->dtype == format.dtype || d->dtype == format.raw_dtype) return;
  events.warn(
      {{.field = fmt::format("{}: tensor d", file.path),
        .seen = d->dtype,
        .expected = fmt::format("{} ({}), the type that the instruction writes", format.dtype, format.name),
        .fix = "the numbers are converted to that type and compared; bits that the file's type rounded away are lost",
        .severity = Severity::warning}});
}

VectorFile as_recorded_file(TensorFile file, const VectorFileDefaults& defaults, const FileEvents& events) {
  require_inputs(file, "compare");
  VectorFile recorded = as_tiled_file(file, defaults);
  warn_of_converted_d(file, recorded.instruction, events);
  return recorded;
}

VectorFile with_d_of(const TensorFile& file, const TensorFile& of_d, const VectorFileDefaults& defaults,
                     const FileEvents& events) {
  const std::string *own = file.find_metadata("instruction"), *other = of_d.find_metadata("instruction");
  if (own && other)
    require_same_cases(of_d.path, print(parse_instruction(*own)), 1, print(parse_instruction(*other)), 1);
  return naming_file_of_d(file.path, of_d.path,
                          [&] { return as_recorded_file(with_d(file, *d_alone(of_d)), defaults, events); });
}

}  // namespace bitmma
