// SPDX-License-Identifier: MIT
// The data of instructions: states as dictionaries of arrays, cases and vector files, and functions that analyse
// them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "binding.hpp"
#include "bitmma/acts/product_file.hpp"
#include "bitmma/analysis/describe.hpp"
#include "bitmma/analysis/diagnose.hpp"
#include "bitmma/analysis/explain.hpp"
#include "bitmma/analysis/lint.hpp"
#include "bitmma/analysis/wrong_program.hpp"
#include "bitmma/core/target_names.hpp"
#include "bitmma/files/compare.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/files/vector_file.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/memory/metadata.hpp"
#include "borrowed_state.hpp"

namespace bitmma::python {
namespace {

using nb::literals::operator""_a;

/// A state as a dictionary of new arrays.
nb::dict dictionary_of(const State& state) {
  nb::dict all;
  for (const bitmma::Buffer& buffer : state.buffers()) {
    const FieldInfo& row = info(buffer.field());
    all[text_of(row.name)] = row.is_number ? nb::object(nb::int_(buffer.number())) : array_of(buffer);
  }
  return all;
}

/// The part of a state that the instruction writes, with the names of fields before it or after it.
nb::dict written_of(const Instruction& instruction, const State& state, bool after) {
  nb::dict written;
  for (const FieldRule& rule : fields_of(instruction)) {
    if (rule.access == Access::read) continue;
    const FieldInfo& row = info(rule.field);
    for (const bitmma::Buffer& buffer : state.buffers()) {
      if (buffer.field() == rule.field) written[text_of(after ? row.after : row.name)] = array_of(buffer);
    }
  }
  return written;
}

/// The matrix as (format, codes).
nb::object codes_of(const Matrix& matrix) {
  const std::array<const char*, 9> dtypes{"", "uint8", "uint16", "", "uint32", "", "", "", "uint64"};
  nb::object array =
      numpy_array({matrix.rows(), matrix.cols()}, dtypes[static_cast<size_t>(code_bytes(matrix.format()))]);
  const Buffer to(array, "array", true);
  write_codes(matrix, to.data());
  return nb::make_tuple(text_of(info(matrix.format()).name), array);
}
nb::object codes_of(const std::optional<Matrix>& matrix) { return matrix ? codes_of(*matrix) : nb::none(); }

/// Runs the instruction; returns the written fields under their names before the instruction.
nb::dict run(const BoundInstruction& instruction, std::optional<std::string_view> target, const nb::dict& state) {
  BorrowedState borrowed(state);
  const Target on = instruction.target_of(target);
  {
    const Unlocked unlocked;
    execute(instruction.value, on, borrowed.state);
  }
  return written_of(instruction.value, borrowed.state, false);
}

/// The metadata of a sparse A, four bits per chunk; None if A is dense, or if no such bits describe it.
nb::object metadata_of(const Mma& mma, const Operands& operands) {
  if (!mma.sparse || !operands.mixed.empty()) return nb::none();
  const SparsePattern& pattern = sparse_pattern(mma.a_container_bits, mma.sparsity_version);
  const int chunks = metadata_chunks(mma);
  nb::object array = numpy_array({mma.m, chunks}, "uint8");
  const Buffer to(array, "metadata", true);
  for (int chunk = 0; chunk < mma.m * chunks; ++chunk) {
    const auto of_chunk = std::span(operands.selected_k)
                              .subspan(static_cast<size_t>(chunk * pattern.stored_per_chunk),
                                       static_cast<size_t>(pattern.stored_per_chunk));
    static_cast<uint8_t*>(to.data())[chunk] = static_cast<uint8_t>(nibble_of(pattern, of_chunk));
  }
  return array;
}

/// A, B, C and scales; None for missing ones.
nb::dict dictionary_of_operands(const LogicalMatrices& from) {
  nb::dict matrices;
  matrices["stored_a"] = nb::none(), matrices["metadata"] = nb::none();
  matrices["a"] = codes_of(from.a), matrices["b"] = codes_of(from.b), matrices["c"] = codes_of(from.c);
  matrices["scale_a"] = codes_of(from.scale_a), matrices["scale_b"] = codes_of(from.scale_b);
  return matrices;
}

nb::dict dictionary_of_logical(const LogicalMatrices& from) {
  nb::dict matrices;
  matrices["a"] = codes_of(from.a), matrices["b"] = codes_of(from.b), matrices["c"] = codes_of(from.c);
  matrices["d"] = codes_of(from.d), matrices["scale_a"] = codes_of(from.scale_a),
  matrices["scale_b"] = codes_of(from.scale_b);
  return matrices;
}

/// The case owns all its memory: Python's arrays may change or disappear.
BoundCase make_case(const BoundInstruction& instruction, std::optional<std::string_view> target, nb::handle state,
                    const nb::dict& logical) {
  BoundCase bound{.value = {.instruction = instruction.value, .target = instruction.target_of(target)}};
  if (!state.is_none()) {
    const BorrowedState borrowed(nb::cast<nb::dict>(state));
    for (const bitmma::Buffer& buffer : borrowed.state.buffers()) {
      const FieldInfo& row = info(buffer.field());
      const auto words = buffer.words();
      if (row.is_number) bound.value.before.set(row.id, buffer.number());
      else if (row.type == ElementType::u8)
        bound.value.before.set(row.id, std::vector<uint8_t>(buffer.bytes().begin(), buffer.bytes().end()),
                               buffer.extents());
      else if (!buffer.is_wide())
        bound.value.before.set(row.id, std::vector<uint32_t>(words.begin(), words.end()), buffer.extents());
      else {
        std::vector<uint64_t> elements(words.size() / 2);
        std::memcpy(elements.data(), words.data(), words.size_bytes());
        bound.value.before.set(row.id, elements, buffer.extents());
      }
    }
  }
  const auto take = [&](const char* name, std::optional<Matrix>& to) {
    if (logical.contains(name)) to = optional_matrix_in(logical[name], name);
  };
  LogicalMatrices& matrices = bound.value.logical;
  take("a", matrices.a), take("b", matrices.b), take("c", matrices.c), take("d", matrices.d);
  take("scale_a", matrices.scale_a), take("scale_b", matrices.scale_b);
  if (!bound.value.has_state() && matrices.a && !matrices.c) {
    // Without C, the case is only the product: an instruction that always reads C reads +0.
    bound.value.instruction = with_enable_input_d(bound.value.instruction, false);
    const Mma mma = mma_of(bound.value.instruction);
    if (mma.enable_input_d) matrices.c = Matrix(mma.c, matrices.a->rows(), matrices.b ? matrices.b->cols() : mma.n);
  }
  require_legal(bound.value.instruction, bound.value.target);
  return bound;
}

std::vector<Case> values_of(const std::vector<BoundCase>& cases) {
  std::vector<Case> values;
  for (const BoundCase& bound : cases) values.push_back(bound.value);
  return values;
}

nb::dict dictionary_of(const Comparison& comparison) {
  nb::dict fields;
  fields["cases"] = comparison.cases;
  fields["outputs"] = comparison.outputs;
  fields["mismatches"] = comparison.mismatches;
  fields["cases_with_mismatches"] = comparison.cases_with_mismatches;
  fields["first"] = comparison.first ? nb::object(nb::str(print(*comparison.first).c_str())) : nb::none();
  return fields;
}

nb::object run_diagnose(const std::vector<BoundCase>& cases, const nb::list& actual, int64_t max_cases,
                        int max_findings, bool pairs) {
  std::vector<Matrix> wrong;
  for (const nb::handle matrix : nb::list(nb::tuple(actual))) wrong.push_back(required_matrix_in(matrix, "actual"));
  const std::vector<Case> values = values_of(cases);
  const Report report = [&] {
    const Unlocked unlocked;
    const Diagnosis diagnosis =
        diagnose(values, wrong, {.max_cases = max_cases, .max_findings = max_findings, .pairs = pairs});
    Comparison comparison;
    for (int64_t index = 0; index < diagnosis.cases; ++index) {
      const auto i = static_cast<size_t>(index);  // for a whole tile, the result of all its instructions
      comparison += compare_case(values[i].instruction, index, faulty_d(values, index, {}), wrong[i]);
    }
    return describe(diagnosis, comparison, values.front().instruction);
  }();
  return from_report(report);
}

/// Tensors and keys of a file: (name, dtype, shape, array of bytes that keeps the file alive).
nb::list tensors_of(const TensorFile& file) {
  nb::list rows;
  for (const Tensor& tensor : file.tensors) {
    nb::object bytes = nb::module_::import_("numpy").attr("empty")(tensor.bytes.size(), "uint8");
    const Buffer to(bytes, "bytes", true);
    tensor.bytes.copy_to({static_cast<uint8_t*>(to.data()), tensor.bytes.size()});
    rows.append(nb::make_tuple(tensor.name, tensor.dtype, nb::cast(tensor.shape), bytes));
  }
  return rows;
}

nb::dict metadata_of(const TensorFile& file) {
  nb::dict keys;
  for (const auto& [key, value] : file.metadata) keys[text_of(key)] = text_of(value);
  return keys;
}

TensorFile file_of(const nb::list& tensors, const nb::dict& metadata) {
  TensorFile file;
  for (const nb::handle tensor : tensors) {
    if (!PyTuple_Check(tensor.ptr()))
      throw Error({.code = ViolationCode::wrong_type,
                   .field = "tensor",
                   .seen = shown(tensor),
                   .expected = "a tuple of name, type, shape and bytes"});
    require_state(nb::borrow<nb::tuple>(tensor), 4);
    const Buffer bytes(tensor[3], "tensor");
    if (!bytes.is_contiguous())
      throw Error(
          {.code = ViolationCode::wrong_shape, .field = "tensor", .seen = "strides", .expected = "a contiguous array"});
    const auto* first = static_cast<const uint8_t*>(bytes.data());
    file.set(Tensor::from_bytes(nb::cast<std::string>(tensor[0]), nb::cast<std::string>(tensor[1]),
                                nb::cast<std::vector<int64_t>>(tensor[2]),
                                std::vector<uint8_t>(first, first + bytes.bytes())));
  }
  for (const auto& [key, value] : metadata) file.set_metadata(nb::cast<std::string>(key), nb::cast<std::string>(value));
  return file;
}

void write_tensors(const std::string& path, const nb::list& tensors, const nb::dict& metadata) {
  const TensorFile file = file_of(tensors, metadata);
  const Unlocked unlocked;
  write_tensor_file(path, file);
}

struct BoundFile {
  std::shared_ptr<const VectorFile> file = {};

  explicit BoundFile(VectorFile read) : file(std::make_shared<const VectorFile>(std::move(read))) {}
};

/// What pickle keeps of cases: the tensors and keys of a file.
nb::object parts_of(const TensorFile& file) { return nb::make_tuple(tensors_of(file), metadata_of(file)); }

/// The file that parts_of took apart. A file that names no instruction or target uses `instruction` and `target`.
BoundFile restored(const nb::tuple& parts, const std::string& path, std::string_view instruction,
                   std::string_view target) {
  require_state(parts, 2);
  TensorFile file = file_of(nb::cast<nb::list>(parts[0]), nb::cast<nb::dict>(parts[1]));
  file.path = path;
  VectorFileDefaults defaults{.instruction = instruction};
  if (!target.empty()) defaults.target = target_from(target);
  return BoundFile(as_tiled_file(std::move(file), defaults));
}

/// True if several instructions compute the case.
bool is_tile(const Case& whole) { return !tiling_of(whole).is_one_instruction(); }

TensorFile file_of_cases(const std::vector<BoundCase>& cases, std::vector<std::pair<std::string, std::string>> keys) {
  if (cases.empty())
    throw Error({.code = ViolationCode::missing_input, .field = "cases", .seen = "none", .expected = "one or more"});
  VectorBuilder builder(cases.front().value.instruction, cases.front().value.target);
  for (const BoundCase& bound : cases) {
    if (print(bound.value.instruction) != print(cases.front().value.instruction) ||
        bound.value.target != cases.front().value.target)
      throw Error({.code = ViolationCode::contradiction,
                   .field = "cases",
                   .seen = print(bound.value.instruction),
                   .expected = "one instruction on one target"});
    builder.add(bound.value);
  }
  return std::move(builder).finish(std::move(keys));
}

void write_cases(const std::string& path, const std::vector<BoundCase>& cases, const std::string& source) {
  const TensorFile file = file_of_cases(cases, {{"source", source}});
  static_cast<void>(as_tiled_file(file));  // throws if the file could not be read again
  write_tensor_file(path, file);
}

}  // namespace

void bind_state(nb::module_& module) {
  module.def("execute", run, "instruction"_a, "target"_a.none(), "state"_a);
  nb::class_<BoundCase>(module, "CaseValue")
      .def_static("make", make_case, "instruction"_a, "target"_a.none(), "state"_a.none(), "logical"_a)
      .def_prop_ro("instruction", [](const BoundCase& bound) { return BoundInstruction(bound.value.instruction); })
      .def_prop_ro("target", [](const BoundCase& bound) { return std::string(print(bound.value.target)); })
      .def_prop_ro("index", [](const BoundCase& bound) { return bound.index; })
      .def("state",
           [](const BoundCase& bound) {
             return bound.value.has_state() ? nb::object(dictionary_of(bound.value.before)) : nb::none();
           })
      .def("after",
           [](const BoundCase& bound) {
             return bound.value.after ? nb::object(written_of(bound.value.instruction, *bound.value.after, true))
                                      : nb::none();
           })
      .def("logical", [](const BoundCase& bound) { return dictionary_of_logical(bound.value.logical); })
      .def("operands",
           [](const BoundCase& bound) {
             if (is_tile(bound.value)) return dictionary_of_operands(bound.value.logical);
             const Operands operands = operands_of(bound.value);
             nb::dict matrices = dictionary_of_operands(logical_of(bound.value.instruction, operands));
             const Mma mma = mma_of(bound.value.instruction);
             matrices["stored_a"] = mma.sparse ? codes_of(operands.a) : nb::none();
             matrices["metadata"] = metadata_of(mma, operands);
             return matrices;
           })
      .def("computed_d",
           [](const BoundCase& bound) {
             const Matrix d = [&] {
               const Unlocked unlocked;
               return computed_tile(bound.value);
             }();
             return codes_of(d);
           })
      .def("recorded_d",
           [](const BoundCase& bound) {
             return bound.value.has_recorded_d() ? codes_of(recorded_d(bound.value)) : nb::none();
           })
      .def("faulty_d",
           [](const BoundCase& bound, const std::vector<std::string>& faults) {
             const std::vector<Case> cases{bound.value};
             return codes_of(faulty_d(cases, 0, faults));
           })
      .def("__getstate__",
           [](const BoundCase& bound) -> nb::object {
             if (!is_tile(bound.value)) return parts_of(file_of_cases({bound}, {}));
             return nb::make_tuple(nb::cast(BoundInstruction(bound.value.instruction)),
                                   text_of(print(bound.value.target)), dictionary_of_logical(bound.value.logical));
           })
      .def("__setstate__",
           [](BoundCase& self, const nb::tuple& parts) {
             if (nb::len(parts) == 3) {
               new (&self)
                   BoundCase(make_case(nb::cast<const BoundInstruction&>(parts[0]),
                                       nb::cast<std::string_view>(parts[1]), nb::none(), nb::cast<nb::dict>(parts[2])));
               return;
             }
             const BoundFile bound = restored(parts, "", "", "");
             new (&self) BoundCase{.value = case_at(*bound.file, 0), .file = bound.file, .index = 0};
           })
      .def("warnings", [](const BoundCase& bound) { return to_list(lint(bound.value)); })
      .def(
          "explain",
          [](const BoundCase& bound, int row, int col) {
            if (is_tile(bound.value)) {
              const std::vector<Explanation> steps = explain_steps(bound.value, row, col);
              const Report list = describe(steps, bound.value, row, col);
              nb::dict fields;
              fields["steps"] = from_report(list);
              return nb::make_tuple(print(list), fields);
            }
            const Explanation explanation = explain(bound.value, row, col);
            return nb::make_tuple(print(explanation), from_report(describe(explanation, bound.value.target)));
          },
          "row"_a, "col"_a);
  module.def("diagnose", run_diagnose, "cases"_a, "actual"_a, "max_cases"_a, "max_findings"_a, "pairs"_a);
  module.def(
      "wrong_d",
      [](const std::vector<BoundCase>& cases, const std::vector<std::string>& faults,
         const std::vector<std::string>& changes) {
        WrongProgram program{.faults = faults};
        for (const std::string& change : changes) program.changes.push_back(parse_change(change));
        const std::vector<Case> values = values_of(cases);
        std::vector<Matrix> wrong;
        {
          const Unlocked unlocked;
          for (int64_t index = 0; index < std::ssize(values); ++index) wrong.push_back(wrong_d(values, index, program));
        }
        nb::list matrices;
        for (const Matrix& matrix : wrong) matrices.append(codes_of(matrix));
        return matrices;
      },
      "cases"_a, "faults"_a, "changes"_a);
  module.def("fault_catalogue", [](const std::vector<BoundCase>& cases) {
    nb::list rows;
    for (const Fault& fault : fault_catalogue(values_of(cases))) rows.append(from_report(describe(fault)));
    return rows;
  });

  nb::class_<BoundFile>(module, "VectorFileValue")
      .def_prop_ro("path", [](const BoundFile& bound) { return bound.file->file.path; })
      .def_prop_ro("instruction", [](const BoundFile& bound) { return BoundInstruction(bound.file->instruction); })
      .def_prop_ro("target", [](const BoundFile& bound) { return std::string(print(bound.file->target)); })
      .def_prop_ro("cases", [](const BoundFile& bound) { return bound.file->cases; })
      .def_prop_ro("is_tile", [](const BoundFile& bound) { return !bound.file->tiling.is_one_instruction(); })
      .def_prop_ro("steps", [](const BoundFile& bound) { return bound.file->tiling.k; })
      .def_prop_ro("has_recorded_d", [](const BoundFile& bound) { return bound.file->has_recorded_d(); })
      .def_prop_ro("source", [](const BoundFile& bound) { return bound.file->source(); })
      .def("__getstate__",
           [](const BoundFile& bound) {
             const TensorFile& file = bound.file->file;
             const bool named = file.find_metadata("instruction") != nullptr;
             return nb::make_tuple(parts_of(file), file.path, named ? std::string() : print(bound.file->instruction),
                                   std::string(print(bound.file->target)));
           })
      .def("__setstate__",
           [](BoundFile& self, const nb::tuple& state) {
             require_state(state, 4);
             new (&self) BoundFile(restored(nb::cast<nb::tuple>(state[0]), nb::cast<std::string>(state[1]),
                                            nb::cast<std::string>(state[2]), nb::cast<std::string>(state[3])));
           })
      .def("tensors", [](const BoundFile& bound) { return tensors_of(bound.file->file); })
      .def("metadata", [](const BoundFile& bound) { return metadata_of(bound.file->file); })
      .def("case",
           [](const BoundFile& bound, int64_t index) {
             return BoundCase{.value = case_at(*bound.file, index), .file = bound.file, .index = index};
           })
      .def(
          "verify",
          [](const BoundFile& bound, int threads, int64_t first, int64_t count) {
            const Comparison comparison = [&] {
              const Unlocked unlocked;
              return verify(first == 0 && count < 0
                                ? *bound.file
                                : cases_of(*bound.file, first, count < 0 ? bound.file->cases - first : count),
                            threads);
            }();
            return dictionary_of(comparison);
          },
          "threads"_a, "first"_a = 0, "count"_a = -1)
      .def("compare", [](const BoundFile& file, const BoundFile& other) {
        const Comparison comparison = [&] {
          const Unlocked unlocked;
          return compare(*file.file, *other.file);
        }();
        return dictionary_of(comparison);
      });
  module.def("read", [](const std::string& path, std::string_view instruction, std::optional<std::string_view> target,
                        bool on_demand, std::string_view inputs) {
    VectorFileDefaults defaults{.instruction = instruction};
    if (target) defaults.target = target_from(*target);
    if (!inputs.empty()) defaults.inputs = inputs == "state" ? OperandCopy::state : OperandCopy::matrices;
    const Unlocked unlocked;
    return BoundFile(read_tiled_file(path, defaults, on_demand ? 0 : InputFile::usual_most_in_memory));
  });
  module.def("read_tensors", [](const std::string& path) {
    const TensorFile file = [&] {
      const Unlocked unlocked;
      return read_tensor_file(path);
    }();
    return nb::make_tuple(tensors_of(file), metadata_of(file));
  });
  module.def("write_tensors", write_tensors);
  module.def("write_cases", write_cases);
  module.def("golden", [](const BoundInstruction& instruction, std::optional<std::string_view> target, int64_t cases,
                          int64_t first_case, uint64_t seed, std::string_view distribution, std::string_view layout_a,
                          std::string_view layout_b, int threads) {
    const auto drawn = distribution_named(distribution);
    if (!drawn) {
      throw Error({.code = ViolationCode::unknown_name,
                   .field = "distribution",
                   .seen = std::string(distribution),
                   .legal = row_names(distributions)});
    }
    GoldenRequest request{.instruction = instruction.value,
                          .cases = cases,
                          .first_case = first_case,
                          .seed = seed,
                          .distribution = *drawn};
    if (target) request.target = target_from(*target);
    if (!layout_a.empty()) request.placement.a = parse_operand_layout(layout_a, Role::a);
    if (!layout_b.empty()) request.placement.b = parse_operand_layout(layout_b, Role::b);
    if (is_mma(request.instruction))
      request.instruction = with_majors(request.instruction, request.placement.a, request.placement.b);
    const Unlocked unlocked;
    return BoundFile(as_vector_file(make_golden(request, threads)));
  });
  module.def("read_product", [](const std::string& path) {
    const ProductFile file = [&] {
      const Unlocked unlocked;
      return read_product_file(path);
    }();
    nb::dict fields;
    const GemmInputs& in = file.inputs;
    fields["a"] = codes_of(in.a), fields["b"] = codes_of(in.b), fields["c"] = codes_of(in.c),
    fields["bias"] = codes_of(in.bias);
    fields["scale_a"] = codes_of(in.scale_a), fields["scale_b"] = codes_of(in.scale_b),
    fields["sfa"] = codes_of(in.sfa);
    fields["sfb"] = codes_of(in.sfb), fields["d"] = codes_of(file.d);
    fields["rows"] = nb::cast(in.rows), fields["cols"] = nb::cast(in.cols);
    fields["whole"] = nb::make_tuple(in.whole_m, in.whole_n);
    fields["target"] = file.target ? nb::object(text_of(print(*file.target))) : nb::none();
    fields["output"] = file.output() ? nb::object(text_of(info(*file.output()).name)) : nb::none();
    fields["alpha"] = file.alpha, fields["beta"] = file.beta;
    fields["metadata"] = metadata_of(file.file);
    return fields;
  });
}

}  // namespace bitmma::python
