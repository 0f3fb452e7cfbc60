// SPDX-License-Identifier: MIT
// Prepared instructions on NumPy's registers.
#include "bitmma/instruction/prepared.hpp"

#include <fmt/format.h>

#include <array>

#include "binding.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/instruction/statement.hpp"
#include "borrowed_state.hpp"

namespace bitmma::python {
namespace {

using nb::literals::operator""_a;

constexpr int lanes = 32;

/// The registers of one operand: [32, registers], or [products, 32, registers].
class Registers {
 public:
  Registers(nb::handle array, std::string_view name, int words, bool wide, bool writable = false)
      : buffer_(array, name, writable) {
    const int bytes = wide ? 8 : 4, count = words / (wide ? 2 : 1) / lanes, rank = buffer_.rank();
    const bool has_shape = (rank == 2 || rank == 3) && buffer_.extent(-2) == lanes && buffer_.extent(-1) == count &&
                           buffer_.item_bytes() == bytes;
    const bool has_rows =
        has_shape && (count == 1 || buffer_.stride(-1) == bytes) && buffer_.stride(-2) == int64_t{bytes} * count;
    const bool is_aligned = reinterpret_cast<uintptr_t>(buffer_.data()) % sizeof(uint32_t) == 0 &&
                            (rank != 3 || buffer_.stride(0) % bytes == 0);
    if (has_rows && is_aligned) return;
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = std::string(name),
                 .seen = has_shape
                             ? std::string("registers with gaps, or not aligned")
                             : fmt::format("shape {}, {} bytes an element", buffer_.shape(), buffer_.item_bytes()),
                 .expected = fmt::format("({}, {}) or (products, {}, {}) of {} bytes{}", lanes, count, lanes, count,
                                         bytes, has_shape ? ", the registers of a product side by side" : ""),
                 .fix = has_shape ? "numpy.ascontiguousarray" : ""});
  }
  bool is_batch() const { return buffer_.rank() == 3; }
  int64_t products() const { return is_batch() ? buffer_.extent(0) : 1; }
  uint32_t* words() const { return static_cast<uint32_t*>(buffer_.data()); }
  int64_t stride() const { return is_batch() ? buffer_.stride(0) / static_cast<int64_t>(sizeof(uint32_t)) : 0; }
  RegisterView view() const { return {words(), stride()}; }

 private:
  Buffer buffer_;
};

/// Refuses what no parameter takes; nanobind itself would raise TypeError, without a Violation.
void require_none(const nb::args& more, const nb::kwargs& others, std::string_view legal) {
  std::vector<Violation> violations;
  if (more.size() > 0) {
    violations.push_back({.field = "arguments",
                          .seen = counted(static_cast<int64_t>(more.size()), "more argument"),
                          .expected = fmt::format("at most {}", legal)});
  }
  for (const auto& [name, value] : others) {
    violations.push_back({.code = ViolationCode::unknown_name,
                          .field = nb::cast<std::string>(name),
                          .seen = "given",
                          .expected = fmt::format("one of {}", legal)});
  }
  if (!violations.empty()) throw Error(std::move(violations));
}

std::string type_of(nb::handle value) { return nb::cast<std::string>(nb::str(value.type().attr("__name__"))); }

class Bound {
 public:
  Bound(const BoundInstruction& instruction, Target target)
      : instruction_(instruction),
        prepared_(instruction.value, target),
        empty_(nb::module_::import_("numpy").attr("empty")) {
    for (const FieldRule& rule : rules_) {
      if (rule.field == Field::a_regs) wide_ = rule.wide;
      if (rule.field != Field::accumulator) continue;
      if (rule.access != Access::write) wide_c_ = rule.wide;
      if (rule.access != Access::read) wide_d_ = rule.wide;
    }
    registers_ = prepared_.words().d / (wide_d_ ? 2 : 1) / lanes;
    shape_ = nb::make_tuple(lanes, registers_);
    dtype_ = nb::str(wide_d_ ? "uint64" : "uint32");
  }

  const BoundInstruction& instruction() const { return instruction_; }
  std::string target() const { return std::string(print(prepared_.target())); }

  nb::object call(nb::handle a_regs, nb::handle b_regs, nb::handle c_regs, nb::handle metadata, nb::handle scale_a,
                  nb::handle scale_b, nb::handle out, nb::handle is_chain, const nb::args& more,
                  const nb::kwargs& others) const {
    require_none(more, others, "a_regs, b_regs, c_regs, metadata, scale_a, scale_b, out and chain");
    if (!PyBool_Check(is_chain.ptr()))
      throw Error({.code = ViolationCode::wrong_type,
                   .field = "chain",
                   .seen = type_of(is_chain),
                   .expected = "True or False"});
    const bool chain = is_chain.ptr() == Py_True;
    const WarpWords& words = prepared_.words();
    if (words.d == 0) {
      throw Error({.code = ViolationCode::wrong_instruction,
                   .field = "instruction",
                   .seen = print(instruction_.value),
                   .expected = "mma.sync or mma.sp, whose operands are the registers of a warp",
                   .fix = "its method execute(state)"});
    }
    std::array<std::optional<Registers>, 6> operands;
    WarpRegisters registers;
    int64_t count = 1;
    bool is_batch = false;
    const auto take = [&](size_t i, nb::handle array, std::string_view name, int expected, bool wide,
                          RegisterView& view) {
      if (array.is_none() && expected == 0) return;
      if (expected == 0) {
        throw Error({.code = ViolationCode::no_effect,
                     .field = std::string(name),
                     .seen = "given",
                     .expected = "None: " + print(instruction_.value) + " has no such operand"});
      }
      const Registers& operand = operands[i].emplace(array, name, expected, wide);
      view = operand.view();
      if (!operand.is_batch()) return;
      if (is_batch && operand.products() != count) {
        throw Error({.code = ViolationCode::wrong_shape,
                     .field = std::string(name),
                     .seen = fmt::format("{} products", operand.products()),
                     .expected = fmt::format("{}, as another operand has", count)});
      }
      is_batch = true, count = operand.products();
    };
    take(0, a_regs, "a_regs", words.a, wide_, registers.a), take(1, b_regs, "b_regs", words.b, wide_, registers.b);
    take(2, c_regs, "c_regs", words.c, wide_c_, registers.c);
    take(3, metadata, "metadata", words.metadata, false, registers.metadata);
    take(4, scale_a, "scale_a", words.scale_a, false, registers.scale_a);
    take(5, scale_b, "scale_b", words.scale_b, false, registers.scale_b);
    if (chain) require_chain(operands[2]->is_batch());
    const bool many = is_batch && !chain;
    nb::object result = out.is_none()
                            ? many ? empty_(nb::make_tuple(count, lanes, registers_), dtype_) : empty_(shape_, dtype_)
                            : nb::borrow(out);
    const Registers d(result, "out", words.d, wide_d_, true);
    if (d.is_batch() != many || (many && d.products() != count)) {
      throw Error({.code = ViolationCode::wrong_shape,
                   .field = "out",
                   .seen = d.is_batch() ? fmt::format("{} products", d.products()) : std::string("one product"),
                   .expected = many ? fmt::format("{} products", count) : std::string("one product")});
    }
    const auto run = [&] {
      if (!chain) return prepared_.execute_batch(count, registers, d.words(), d.stride());
      // The first product reads C where it is, the others in D.
      const auto rest = [](RegisterView& view) { view.words += view.stride; };
      if (count == 0)
        return static_cast<void>(
            std::memmove(d.words(), registers.c.words, sizeof(uint32_t) * static_cast<size_t>(words.d)));
      prepared_.execute(registers, d.words());
      rest(registers.a), rest(registers.b), rest(registers.metadata), rest(registers.scale_a), rest(registers.scale_b);
      registers.c = d.words();
      prepared_.execute_batch(count - 1, registers, d.words(), 0);
    };
    if (count == 1) {
      run();
    } else {
      const nb::gil_scoped_release release;
      run();
    }
    return result;
  }

  /// The written buffers by their names after the instruction; they replace those of the state, in place if possible.
  nb::dict execute(nb::handle argument, const nb::args& more, const nb::kwargs& others) const {
    require_none(more, others, "state");
    if (!PyDict_Check(argument.ptr()))
      throw Error({.code = ViolationCode::wrong_type,
                   .field = "state",
                   .seen = type_of(argument),
                   .expected = "a dict of arrays and numbers"});
    auto state = nb::borrow<nb::dict>(argument);
    BorrowedState borrowed(state);
    {
      const nb::gil_scoped_release release;
      prepared_.execute(borrowed.state);
    }
    nb::dict results;
    for (const FieldRule& rule : rules_) {
      if (rule.access == Access::read) continue;
      const FieldInfo& row = info(rule.field);
      for (const bitmma::Buffer& buffer : borrowed.state.buffers()) {
        if (buffer.field() != rule.field) continue;
        const nb::object after = replaced(state, row.name, buffer);
        state[text_of(row.name)] = after;
        results[text_of(row.after)] = after;
      }
    }
    return results;
  }

 private:
  /// The array of the state with the buffer's words in it, or a new one.
  static nb::object replaced(const nb::dict& state, std::string_view name, const bitmma::Buffer& buffer) {
    const nb::str key = text_of(name);
    if (state.contains(key)) {
      const nb::object old = state[key];
      Py_buffer view;
      if (PyObject_GetBuffer(old.ptr(), &view, PyBUF_STRIDES | PyBUF_WRITABLE) == 0) {
        const auto bytes = static_cast<Py_ssize_t>(buffer.words().size_bytes());
        const bool fits = view.len == bytes && PyBuffer_IsContiguous(&view, 'C') != 0;
        if (fits) std::memcpy(view.buf, buffer.words().data(), buffer.words().size_bytes());
        PyBuffer_Release(&view);
        if (fits) return old;
      } else {
        PyErr_Clear();
      }
    }
    return array_of(buffer);
  }
  void require_chain(bool is_batch) const {
    if (is_batch)
      throw Error({.code = ViolationCode::wrong_shape,
                   .field = "c_regs",
                   .seen = "a batch",
                   .expected = "one product: the C of a chain"});
    if (const Mma& mma = instruction_.as_mma(); mma.c != mma.d) {
      throw Error({.code = ViolationCode::wrong_instruction,
                   .field = "chain",
                   .seen = fmt::format("C of {} and D of {}", info(mma.c).name, info(mma.d).name),
                   .expected = "an instruction whose D can be the next C"});
    }
  }

  BoundInstruction instruction_;
  Prepared prepared_;
  FieldRules rules_ = fields_of(instruction_.value);
  nb::object empty_, shape_, dtype_;
  int registers_ = 0;
  bool wide_ = false, wide_c_ = false, wide_d_ = false;
};

}  // namespace

void bind_prepared(nb::module_& module) {
  nb::class_<Bound> bound(
      module, "Bound",
      "An instruction that is checked for a target and then runs on registers or states: bitmma.bind.");
  bound.def(
      "__call__", &Bound::call, "a_regs"_a.none() = nb::none(), "b_regs"_a.none() = nb::none(),
      "c_regs"_a.none() = nb::none(), "metadata"_a.none() = nb::none(), "scale_a"_a.none() = nb::none(),
      "scale_b"_a.none() = nb::none(), "out"_a.none() = nb::none(), "chain"_a.none() = false, "args"_a, "kwargs"_a,
      nb::sig("def __call__(self, a_regs: numpy.ndarray, b_regs: numpy.ndarray, c_regs: numpy.ndarray, metadata: "
              "numpy.ndarray | None = None, scale_a: numpy.ndarray | None = None, scale_b: numpy.ndarray | None = "
              "None, out: numpy.ndarray | None = None, chain: bool = False) -> numpy.ndarray"),
      "D of the registers of a warp, [32, registers], or of a batch, [products, 32, registers]; bitmma.bind "
      "describes the arguments.");
  bound.def("execute", &Bound::execute, "state"_a.none() = nb::none(), "args"_a, "kwargs"_a,
            nb::sig("def execute(self, state: dict) -> dict"),
            "Runs the instruction on a state like bitmma.execute, which describes it, without checking the instruction "
            "again. Arrays have their whole shape and no immediates beside them; a batch takes several calls.");
  bound.def_prop_ro(
      "instruction", [](const Bound& self) { return self.instruction(); }, "The instruction.");
  bound.def_prop_ro("target", &Bound::target, "The PTX name of the GPU whose bits it computes.");
  bound.def("__repr__", [](const Bound& self) {
    return fmt::format("bind('{}', '{}')", print(self.instruction().value), self.target());
  });
  module.def(
      "bind",
      [](const BoundInstruction& instruction, std::optional<std::string_view> target) {
        return Bound(instruction, instruction.target_of(target));
      },
      "instruction"_a, "target"_a.none());
}

}  // namespace bitmma::python
