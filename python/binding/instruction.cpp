// SPDX-License-Identifier: MIT
// Instructions as values, and products of one instruction.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "binding.hpp"
#include "bitmma/core/target_names.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/instruction/cutlass_atom.hpp"
#include "bitmma/instruction/evidence.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/make_instruction.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/instruction/statement.hpp"

namespace bitmma::python {

const Mma& BoundInstruction::as_mma() const {
  if (!mma) {
    throw Error({.code = ViolationCode::wrong_instruction,
                 .field = "instruction",
                 .seen = print(value),
                 .expected = "a matrix instruction",
                 .fix = "use bitmma.execute for instructions that move data"});
  }
  return *mma;
}

namespace {

using nb::literals::operator""_a;

/// One operand of all products: its buffer, and where each product finds its part.
class Operand {
 public:
  /// Throws Error if the array is not [rows, cols] or [products, rows, cols] with elements of `bytes` bytes.
  Operand(nb::handle array, std::string_view name, int rows, int cols, int bytes, int64_t& products)
      : buffer_(array, name) {
    const int rank = buffer_.rank();
    const bool fits = (rank == 2 || rank == 3) && buffer_.extent(-2) == rows && buffer_.extent(-1) == cols &&
                      buffer_.item_bytes() == bytes;
    const int64_t count = rank == 3 ? buffer_.extent(0) : 1;
    if (!fits || (rank == 3 && products >= 0 && count != products)) {
      throw Error({.code = ViolationCode::wrong_shape,
                   .field = std::string(name),
                   .seen = fmt::format("shape {}, {} bytes per element", buffer_.shape(), buffer_.item_bytes()),
                   .expected = fmt::format("(..., {}, {}) of {} bytes{}", rows, cols, bytes,
                                           products >= 0 ? fmt::format(", {} products", products) : ""),
                   .fix = rank >= 2 && rows != cols && buffer_.extent(-2) == cols && buffer_.extent(-1) == rows
                              ? "its transpose has this shape"
                              : ""});
    }
    if (rank == 3) products = count;
    view_ = {.codes = {buffer_.data(), buffer_.stride(-2), buffer_.stride(-1)},
             .batch_stride = rank == 3 ? buffer_.stride(0) : 0};
  }
  const BatchView& view() const { return view_; }

 private:
  Buffer buffer_;
  BatchView view_ = {};
};

/// Computes D of [products, m, n]; all products share arrays that have two axes.
void multiply_into(const BoundInstruction& instruction, std::optional<std::string_view> target, nb::handle a,
                   nb::handle b, nb::handle c, nb::handle scale_a, nb::handle scale_b, nb::handle metadata,
                   nb::handle d, int threads) {
  const Mma& mma = instruction.as_mma();
  int64_t products = -1;
  const auto optional = [&](nb::handle array, std::string_view name, int rows, int cols, int bytes) {
    return array.is_none() ? std::optional<Operand>{}
                           : std::optional<Operand>(std::in_place, array, name, rows, cols, bytes, products);
  };
  const bool is_stored = !metadata.is_none();
  const Operand of_a(a, "a", mma.m, is_stored ? mma.stored_k() : mma.a_cols(), code_bytes(mma.a), products);
  const Operand of_b(b, "b", mma.k, mma.n, code_bytes(mma.b), products);
  const auto of_c = optional(c, "c", mma.m, mma.n, code_bytes(mma.c));
  const auto of_scale_a = optional(scale_a, "scale_a", mma.m, mma.scale_count, 1);
  const auto of_scale_b = optional(scale_b, "scale_b", mma.scale_count, mma.n, 1);
  const auto of_metadata = optional(metadata, "metadata", mma.m, metadata_chunks(mma), 1);
  const Buffer of_d(d, "d", true);
  const int64_t count = std::max<int64_t>(products, 0) + (products < 0 ? 1 : 0);
  if (!of_d.is_contiguous() || of_d.bytes() != count * mma.m * mma.n * code_bytes(mma.d)) {
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = "d",
                 .seen = "shape " + of_d.shape(),
                 .expected = fmt::format("({}, {}, {})", count, mma.m, mma.n)});
  }
  const auto view = [](const std::optional<Operand>& operand) {
    return operand ? std::optional<BatchView>(operand->view()) : std::nullopt;
  };
  const BatchOperands operands{.a = of_a.view(),
                               .b = of_b.view(),
                               .c = view(of_c),
                               .scale_a = view(of_scale_a),
                               .scale_b = view(of_scale_b),
                               .metadata = view(of_metadata)};
  const Target on = instruction.target_of(target);
  const Unlocked unlocked;
  multiply_batch(instruction.value, on, count, operands, of_d.data(), threads);
}

/// A field's value from Python: a flag, a number or a word.
FieldValue field_value(nb::handle name, nb::handle value) {
  if (PyBool_Check(value.ptr())) return nb::cast<bool>(value);
  if (nb::isinstance<nb::str>(value)) return text_in(value, nb::cast<std::string>(name), "a word");
  if (int64_t number = 0; PyIndex_Check(value.ptr()) && nb::try_cast(nb::int_(nb::borrow(value)), number))
    return number;
  throw Error({.code = ViolationCode::wrong_type,
               .field = nb::cast<std::string>(name),
               .seen = shown(value),
               .expected = "a flag, a 64-bit number or a word"});
}

nb::object to_object(const FieldValue& value) {
  return std::visit([](const auto& alternative) { return nb::cast(alternative); }, value);
}

std::vector<NamedValue> named_values(const nb::dict& fields) {
  std::vector<NamedValue> values;
  for (const auto& [name, value] : fields) values.push_back({nb::cast<std::string>(name), field_value(name, value)});
  return values;
}

nb::dict fields_dict(const BoundInstruction& instruction) {
  nb::dict fields;
  for (const NamedValue& value : named_fields(instruction.value)) fields[nb::cast(value.name)] = to_object(value.value);
  return fields;
}

Family parse_family(std::string_view name) {
  constexpr std::array<std::string_view, 4> names{"wgmma", "tcgen05", "mma_sync", "tmem_move"};
  const auto row = std::ranges::find(names, name);
  if (row != names.end()) return static_cast<Family>(row - names.begin());
  throw Error({.code = ViolationCode::unknown_name,
               .field = "family",
               .seen = std::string(name),
               .legal = {names.begin(), names.end()}});
}

/// The mnemonic, and as keywords the properties that it omits; for tcgen05.mma always shape and types.
std::string repr_of(const BoundInstruction& bound) {
  const std::string text = bitmma::print(bound.value);
  const std::vector<NamedValue> implied = named_fields(parse_instruction(text));
  constexpr std::array<std::string_view, 5> always{"m", "n", "d", "a", "b"};
  std::string keywords;
  for (const NamedValue& field : named_fields(bound.value)) {
    const bool is_implied = std::ranges::any_of(
        implied, [&](const NamedValue& other) { return other.name == field.name && other.value == field.value; });
    const bool is_always = family_of(bound.value) == Family::tcgen05 && std::ranges::count(always, field.name) != 0;
    if (!is_implied || is_always)
      keywords += ", " + std::string(field.name) + "=" + nb::cast<std::string>(nb::repr(to_object(field.value)));
  }
  return "Instruction('" + text + "'" + keywords + ")";
}

std::string_view family_name(const Instruction& instruction) { return bitmma::print(family_of(instruction)); }

nb::dict evidence_of_instruction(const BoundInstruction& instruction, std::optional<std::string_view> target) {
  const Target on = instruction.target_of(target);
  require_legal(instruction.value, on);
  nb::dict fields;
  fields["target"] = bitmma::print(on);
  if (instruction.mma) {
    const AccumulatorModel& model = model_for(instruction.value, on);
    const Evidence evidence = bitmma::evidence_of(instruction.value, on);
    fields["level"] = bitmma::print(evidence, on);
    fields["meaning"] = info(evidence).meaning;
    fields["rule"] = print_rule(model);
    fields["source"] = evidence_source(instruction.value, on);
  } else {
    fields["level"] = "documented move of bits";
    fields["meaning"] = "The PTX ISA defines which bits move where.";
    fields["rule"] = "";
    fields["source"] = find_form(instruction.value)->source;
  }
  nb::list choices;
  for (const Choice choice : choices_of(instruction.value, on)) choices.append(std::string(print(choice)));
  fields["choices"] = choices;
  return fields;
}

}  // namespace

void bind_instruction(nb::module_& module) {
  nb::class_<BoundInstruction> instruction(module, "Instruction",
                                           "An instruction as a value, from PTX text or from bitmma.wgmma, "
                                           "bitmma.tcgen05 and the like. Shapes are those of one product.");
  const auto of_mma = [&](const char* name, auto get, const char* doc) {
    instruction.def_prop_ro(
        name, [get](const BoundInstruction& bound) { return get(bound.as_mma()); }, doc);
  };
  const auto format_of = [&](const char* name, Format Mma::*member, const char* doc) {
    of_mma(
        name, [member](const Mma& mma) { return std::string(info(mma.*member).name); }, doc);
  };
  instruction.def(
      "__init__",
      [](BoundInstruction* self, const nb::args& positional, const nb::kwargs& fields) {
        const OnlyArgument argument = only_argument("Instruction", "text", positional, fields);
        const std::string text = text_in(argument.value, "instruction", "a PTX mnemonic or a statement");
        const Instruction of_text = looks_like_cutlass_atom(text) ? parse_cutlass_atom(text)
                                    : text.find_first_of(" \t\n{[;@") == std::string_view::npos
                                        ? parse_instruction(text)
                                        : parse_statement(text).instruction;
        new (self) BoundInstruction(nb::len(argument.named) == 0 ? of_text
                                                                 : with_fields(of_text, named_values(argument.named)));
      },
      nb::arg("positional"), nb::arg("fields"),
      nb::sig("def __init__(self, text: str, **fields: bool | int | str) -> None"));
  instruction.def("__str__", [](const BoundInstruction& bound) { return bitmma::print(bound.value); });
  instruction.def("__repr__", repr_of);
  instruction.def(
      "__eq__",
      [](const BoundInstruction& bound, nb::handle other) {
        const BoundInstruction* another = nullptr;
        return nb::try_cast(other, another) && another && bound.value == another->value;
      },
      nb::arg("other").none());
  instruction.def("__hash__", [](const BoundInstruction& bound) {
    return static_cast<int64_t>(std::hash<std::string>{}(bitmma::print(bound.value)) >> 1);
  });
  instruction.def("__getstate__", [](const BoundInstruction& bound) {
    return nb::make_tuple(static_cast<int>(family_of(bound.value)), fields_dict(bound));
  });
  instruction.def("__setstate__", [](BoundInstruction& self, const nb::tuple& state) {
    require_state(state, 2);
    new (&self) BoundInstruction(
        instruction_of(static_cast<Family>(nb::cast<int>(state[0])), named_values(nb::cast<nb::dict>(state[1]))));
  });
  instruction.def_prop_ro("fields", fields_dict, "All fields by name, as bitmma.wgmma and the like accept them.");
  instruction.def(
      "with_fields",
      [](const BoundInstruction& bound, const nb::kwargs& fields) {
        return BoundInstruction(with_fields(bound.value, named_values(fields)));
      },
      nb::sig("def with_fields(self, **fields: bool | int | str) -> Instruction"),
      "A copy with these fields changed. Fields at their default are derived again: K follows the types. Raises Error "
      "for a field that the instruction does not have. violations() tells whether the result is legal.");
  instruction.def_prop_ro(
      "family", [](const BoundInstruction& bound) { return std::string(family_name(bound.value)); },
      "wgmma, mma.sync, tcgen05, or a move of Tensor Memory.");
  instruction.def_prop_ro(
      "is_mma", [](const BoundInstruction& bound) { return bound.mma.has_value(); },
      "True for matrix instructions, False for those that move data.");
  of_mma(
      "products", [](const Mma& mma) { return mma.products; }, "Independent products: 4 of m8n8k4 of f16, else 1.");
  of_mma(
      "m", [](const Mma& mma) { return mma.m / mma.products; }, "Rows of A and D.");
  of_mma(
      "n", [](const Mma& mma) { return mma.n; }, "Columns of B and D.");
  of_mma(
      "k", [](const Mma& mma) { return mma.k / mma.products; }, "Columns of A and rows of B.");
  of_mma(
      "stored_k", [](const Mma& mma) { return mma.stored_k(); },
      "Columns of A that are stored: k, or half of it if A is sparse.");
  format_of("a", &Mma::a, "Format of A.");
  format_of("b", &Mma::b, "Format of B.");
  format_of("c", &Mma::c, "Format of C.");
  format_of("d", &Mma::d, "Format of D.");
  of_mma(
      "sparse", [](const Mma& mma) { return mma.sparse; }, "A is sparse.");
  of_mma(
      "scale_count", [](const Mma& mma) { return mma.scale_count; },
      "Block scales per row of A and per column of B; 0 if there are none.");
  format_of("scale_type", &Mma::scale_type, "Format of block scales.");
  of_mma(
      "metadata_chunks", [](const Mma& mma) { return metadata_chunks(mma); },
      "Chunks per row of a sparse A; each has four bits of metadata.");
  of_mma(
      "a_source", [](const Mma& mma) { return std::string(bitmma::print(mma.a_source)); },
      "Where A is read: smem, registers or tmem.");
  of_mma(
      "reads_c", [](const Mma& mma) { return mma.enable_input_d; }, "True if C is an operand.");
  instruction.def_prop_ro(
      "default_target",
      [](const BoundInstruction& bound) { return std::string(bitmma::print(default_target(bound.value))); },
      "The default target.");
  instruction.def_prop_ro(
      "targets", [](const BoundInstruction& bound) { return names_of(targets_of(bound.value)); },
      "The targets that have the instruction.");
  instruction.def_prop_ro(
      "immediates",
      [](const BoundInstruction& bound) {
        nb::dict values;
        for (const ImmediateInfo& row : immediates_of(bound.value)) {
          values[nb::str(row.name.data(), row.name.size())] = immediate_of(bound.value, row.name);
        }
        return values;
      },
      "Immediate operands, which are part of the instruction and not of its mnemonic, by name.");
  instruction.def(
      "with_immediate",
      [](const BoundInstruction& bound, nb::handle name, nb::handle value) {
        const std::string text = text_in(name, "name", "the name of an immediate");
        int64_t number = 0;
        if (!PyIndex_Check(value.ptr()) || !nb::try_cast(nb::module_::import_("operator").attr("index")(value), number))
          throw Error({.code = ViolationCode::wrong_type,
                       .field = text,
                       .seen = shown(value),
                       .expected = "a whole number of 64 bits"});
        return BoundInstruction(with_immediate(bound.value, text, number));
      },
      nb::arg("name").none(), nb::arg("value").none(),
      nb::sig("def with_immediate(self, name: str, value: int) -> Instruction"),
      "A copy with one immediate changed. Raises Error for an immediate that the instruction does not have.");
  instruction.def(
      "violations",
      [](const BoundInstruction& bound, nb::handle target) {
        const nb::list rows = to_list(violations_of(bound.value, bound.target_of(target)));
        return nb::cast<nb::list>(nb::module_::import_("bitmma._errors").attr("violations_of")(rows));
      },
      "target"_a = nb::none(),
      nb::sig("def violations(self, target: str | float | tuple[int, int] | None = None) -> list"),
      "A list of Violation: everything that is illegal on the target. Empty if the instruction is legal.");
  instruction.def("_fields", [](const BoundInstruction& bound) {
    nb::list rows;
    for (const FieldRule& rule : fields_of(bound.value)) {
      const FieldInfo& field = info(rule.field);
      nb::dict row;
      row["name"] = field.name;
      row["after"] = field.after;
      row["access"] = rule.access == Access::read ? "read" : rule.access == Access::write ? "write" : "read_write";
      row["required"] = rule.required;
      row["dtype"] = field.type == ElementType::u8                 ? "uint8"
                     : field.type == ElementType::u64 || rule.wide ? "uint64"
                                                                   : "uint32";
      nb::list shape;
      for (const int64_t extent : rule.extents) shape.append(extent);
      row["shape"] = field.is_number ? nb::object(nb::none()) : nb::object(nb::tuple(shape));
      row["meaning"] = rule.meaning;
      rows.append(row);
    }
    return rows;
  });
  module.def("multiply_into", multiply_into, "instruction"_a, "target"_a.none(), "a"_a, "b"_a, "c"_a.none(),
             "scale_a"_a.none(), "scale_b"_a.none(), "metadata"_a.none(), "d"_a, "threads"_a);
  module.def("make_instruction", [](std::string_view family, const nb::dict& fields) {
    return BoundInstruction(make_instruction(parse_family(family), named_values(fields)));
  });
  module.def("instruction_fields", [](std::string_view family) {
    nb::list rows;
    for (const InstructionField& field : instruction_fields(parse_family(family))) {
      rows.append(nb::make_tuple(std::string(field.name), to_object(field.default_value), std::string(field.meaning),
                                 field.words, field.is_format));
    }
    return rows;
  });
  module.def("evidence", evidence_of_instruction, "instruction"_a, "target"_a = nb::none());
  module.def("formats", [] {
    nb::list names;
    for (const FormatInfo& row : formats)
      names.append(nb::make_tuple(std::string(row.name), row.bits, code_bytes(row.id)));
    return names;
  });
  module.def(
      "target_name",
      [](nb::handle target) {
        const std::optional<Target> meant = target_in(target);
        return meant ? nb::object(nb::cast(std::string(bitmma::print(*meant)))) : nb::none();
      },
      "target"_a.none());
  module.def("targets", [] { return names_of(TargetSet::from(Target::sm_70)); });
  module.def("all_instructions", [] {
    std::vector<BoundInstruction> all;
    for (const Instruction& statement : all_instructions()) all.emplace_back(statement);
    return all;
  });
  module.def("to_floats", [](nb::handle codes, std::string_view format, nb::handle out) {
    const Matrix matrix = matrix_in(codes, parse_format(format), "codes");
    const Buffer floats(out, "out", true);
    const std::vector<float> values = to_floats(matrix);
    if (floats.bytes() != static_cast<int64_t>(values.size() * sizeof(float)) || !floats.is_contiguous())
      throw Error({.code = ViolationCode::wrong_shape,
                   .field = "out",
                   .seen = floats.shape(),
                   .expected = "the same number of floats"});
    std::ranges::copy(values, static_cast<float*>(floats.data()));
  });
  module.def("from_floats", [](nb::handle values, std::string_view format, nb::handle out) {
    const Buffer from(values, "values");
    const Buffer to(out, "codes", true);
    const Format as = parse_format(format);
    const auto count = from.bytes() / static_cast<int64_t>(sizeof(float));
    if (from.item_bytes() != sizeof(float) || !from.is_contiguous() || !to.is_contiguous() ||
        to.bytes() != count * code_bytes(as))
      throw Error({.code = ViolationCode::wrong_shape,
                   .field = "values",
                   .seen = from.shape(),
                   .expected = "contiguous floats"});
    const Matrix codes = from_floats(as, 1, static_cast<int>(count),
                                     {static_cast<const float*>(from.data()), static_cast<size_t>(count)});
    write_codes(codes, to.data());
  });
}

}  // namespace bitmma::python
