// SPDX-License-Identifier: MIT
// Faults of registers: exchanged, passed twice, or never loaded, for each operand that a thread has in a few of them.
//
//   mma.sync ... {d0, d1, d2, d3}, {a0, a2, a2, a3}, ...     a.register_1_is_2: rows 8..15 are computed with a2 for a1
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "bitmma/instruction/immediates.hpp"
#include "fault_rows.hpp"

namespace bitmma::faults {
namespace {

/// Where each element of one instruction's matrix is, and which element a thread has in another register.
class RegisterPlaces {
 public:
  RegisterPlaces(const Subject& s, Role role)
      : places_(s.instruction(), s.this_case().target, s.this_case().before, role) {
    for (int row = 0; row < places_.rows(); ++row) {
      for (int col = 0; col < places_.cols(); ++col) {
        const RegisterPlace place = place_of({row, col});
        elements_[{place.thread, place.reg, place.bit}] = {row, col};
        count_ = std::max(count_, place.reg + 1);
      }
    }
  }

  int count() const { return count_; }
  int register_of(Position at) const { return place_of(inside(at)).reg; }
  /// The element in register `reg` of the same thread, at the same bit. Each instruction of a tile has its own.
  Position in_register(Position at, int reg) const {
    const Position own = inside(at);
    const RegisterPlace place = place_of(own);
    const auto element = elements_.find({place.thread, reg, place.bit});
    if (element == elements_.end()) return at;
    return {at.row - own.row + element->second.row, at.col - own.col + element->second.col};
  }

 private:
  Position inside(Position at) const { return {at.row % places_.rows(), at.col % places_.cols()}; }
  RegisterPlace place_of(Position at) const { return std::get<RegisterPlace>(places_.place_of(at.row, at.col)); }

  PlaceMap places_;
  std::map<std::tuple<int, int, int>, Position> elements_;  // keyed by thread, register, bit
  int count_ = 0;
};

enum class Matrices : uint8_t { a, b, c, d };
struct MatrixRow {
  Matrices id;
  char letter, name;
  Role role;
  FaultStage stage;
};
constexpr auto matrix_rows = std::to_array<MatrixRow>({
    {.id = Matrices::a, .letter = 'a', .name = 'A', .role = Role::a, .stage = FaultStage::a},
    {.id = Matrices::b, .letter = 'b', .name = 'B', .role = Role::b, .stage = FaultStage::b},
    {.id = Matrices::c, .letter = 'c', .name = 'C', .role = Role::d, .stage = FaultStage::c},
    {.id = Matrices::d, .letter = 'd', .name = 'D', .role = Role::d, .stage = FaultStage::output},
});

bool is_in_registers(const Subject& s, Matrices id) {
  const Mma& mma = s.mma();
  const bool has_accumulator = !has_instruction_descriptor(s.instruction());
  switch (id) {
    case Matrices::a: return mma.a_source == OperandSource::registers;
    case Matrices::b: return mma.b_source == OperandSource::registers;
    case Matrices::c: return has_accumulator && s.truth().c && mma.c == mma.d;
    case Matrices::d: return has_accumulator;
  }
  return false;
}

Matrix moved(const Matrix& before, const std::function<Position(Position)>& from) {
  Matrix after = before;
  for (int row = 0; row < before.rows(); ++row) {
    for (int col = 0; col < before.cols(); ++col) {
      const auto [r, c] = from({row, col});
      after.set_code(row, col, before.code(r, c));
    }
  }
  return after;
}

/// Changes the matrix of the parts, or moves the outputs.
Apply moving(Matrices id, std::function<Position(Position)> from) {
  return [id, from = std::move(from)](const Subject&, Parts& parts) {
    if (id == Matrices::d) return parts.outcome = Moved{from}, true;
    Matrix& matrix = id == Matrices::a ? parts.operands.a : id == Matrices::b ? parts.operands.b : *parts.operands.c;
    matrix = moved(matrix, from);
    return true;
  };
}

void add_registers_of(Rows& rows, const Subject& s, const MatrixRow& row) {
  constexpr int most = 8;  // the accumulators of wgmma have more: their faults would be thousands
  if (!is_in_registers(s, row.id)) return;
  const auto places = std::make_shared<const RegisterPlaces>(s, row.role);
  const int count = places->count();
  if (count > most) return;
  const std::string_view fix = row.id == Matrices::d ? "the order in which the registers of D are stored"
                                                     : "the list of registers in the instruction, and what loads them";
  for (int x = 0; x < count; ++x) {
    for (int y = x + 1; y < count; ++y) {
      add(rows, fmt::format("{}.registers_{}_{}", row.letter, x, y), row.stage,
          fmt::format("{}: registers {} and {} exchanged", row.name, x, y), fix,
          moving(row.id, [places, x, y](Position at) {
            const int reg = places->register_of(at);
            return reg == x || reg == y ? places->in_register(at, x + y - reg) : at;
          }));
    }
  }
  for (int never = 0; never < count; ++never) {
    for (int twice = 0; twice < count; ++twice) {
      if (never == twice) continue;
      add(rows, fmt::format("{}.register_{}_is_{}", row.letter, never, twice), row.stage,
          fmt::format("{}: register {} is {} twice, register {} never", row.name, twice,
                      row.id == Matrices::d ? "stored" : "passed", never),
          fix, moving(row.id, [places, never, twice](Position at) {
            return places->register_of(at) == never ? places->in_register(at, twice) : at;
          }));
    }
  }
  if (row.id == Matrices::c || row.id == Matrices::d || count == 1) return;
  for (int absent = 0; absent < count; ++absent) {
    add(rows, fmt::format("{}.register_{}_zero", row.letter, absent), row.stage,
        fmt::format("{}: register {} is zero: never loaded", row.name, absent), fix,
        [id = row.id, places, absent](const Subject&, Parts& parts) {
          Matrix& matrix = id == Matrices::a ? parts.operands.a : parts.operands.b;
          for (int r = 0; r < matrix.rows(); ++r) {
            for (int c = 0; c < matrix.cols(); ++c)
              if (places->register_of({r, c}) == absent) matrix.set_code(r, c, 0);
          }
          return true;
        });
  }
}

}  // namespace

void add_register_faults(Rows& rows, const Subject& s) {
  if (s.mma().products > 1) return;  // each quad pair has registers of its own
  for (const MatrixRow& row : matrix_rows) add_registers_of(rows, s, row);
}

}  // namespace bitmma::faults
