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
               .fix = fmt::format("bitmma {} VECTORS {} takes the matrix as their D", verb, printable(file.path))});
}

TensorFile with_d(TensorFile file, Tensor d) {
  for (const FieldInfo& field : state_fields)
    if (!field.after.empty()) file.erase(field.after);
  d.name = "d";
  file.set(std::move(d));
  return file;
}

void warn_of_converted_d(const Context& context, const TensorFile& file, const Instruction& instruction) {
  const Tensor* const d = file.find("d");
  if (!d || !is_mma(instruction)) return;
  const FormatInfo& format = info(mma_of(instruction).d);
  if (d->dtype == format.dtype || d->dtype == format.raw_dtype) return;
  print_warnings(context, {{.field = fmt::format("{}: tensor d", file.path),
                            .seen = d->dtype,
                            .expected = fmt::format("{} ({}), which the instruction leaves", format.dtype, format.name),
                            .fix = "its numbers are compared as such; what another type rounded away is gone",
                            .severity = Severity::warning}});
}

RecordedFile::RecordedFile(const Context& context, TensorFile file, const FileFlags& flags) {
  require_inputs(file, "compare");
  std::optional<WholeTile> tile;
  try {
    tile = whole_tile(file, flags.defaults());
  } catch (const Error& error) {
    throw flags.in_flags(error);
  }
  if (tile) file_ = std::move(*tile);
  else file_ = flags.read(file);
  warn_of_converted_d(context, file, instruction());
}

const Instruction& RecordedFile::instruction() const { return tile() ? tile()->instruction : vectors()->instruction; }
Target RecordedFile::target() const { return tile() ? tile()->target : vectors()->target; }
std::string RecordedFile::path() const { return tile() ? tile()->path : vectors()->file.path; }
std::string RecordedFile::source() const { return tile() ? tile()->source : vectors()->source(); }
int64_t RecordedFile::cases() const { return tile() ? static_cast<int64_t>(tile()->cases.size()) : vectors()->cases; }

void RecordedFile::require_recorded() const {
  if (vectors()) bitmma::require_recorded(*vectors());
  else bitmma::require_recorded(*tile());
}

void RecordedFile::require_unchanged() const {
  if (vectors()) vectors()->require_unchanged();
}

Comparison RecordedFile::verify(int threads, const Progress& progress) const {
  return vectors() ? bitmma::verify(*vectors(), threads, progress) : bitmma::verify(*tile(), threads);
}

void require_same_kind(const RecordedFile& expected, const RecordedFile& actual) {
  if (!expected.tile() == !actual.tile()) return;
  const auto name = [](const RecordedFile& file) {
    return file.tile() ? fmt::format("a whole tile of {} instructions along K", file.tile()->steps())
                       : std::string("cases of one instruction");
  };
  throw Error({.code = ViolationCode::other_inputs,
               .field = actual.path(),
               .seen = name(actual),
               .expected = fmt::format("{}, as {} has", name(expected), printable(expected.path()))});
}

Comparison compare(const RecordedFile& expected, const RecordedFile& actual) {
  require_same_kind(expected, actual);
  return expected.tile() ? bitmma::compare(*expected.tile(), *actual.tile())
                         : bitmma::compare(*expected.vectors(), *actual.vectors());
}

std::vector<InputDifference> different_inputs(const RecordedFile& expected, const RecordedFile& actual) {
  require_same_kind(expected, actual);
  return expected.tile() ? bitmma::different_inputs(*expected.tile(), *actual.tile())
                         : bitmma::different_inputs(*expected.vectors(), *actual.vectors());
}

}  // namespace bitmma::cli
