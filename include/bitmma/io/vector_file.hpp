// Vector files, format bitmma-vectors-1: cases of one instruction, everything it reads and, when known, what it writes.
//
//   smem U8 [cases, bytes]   a_desc, b_desc U64 [cases]   a_regs U32 [cases, 128, 4]   metadata U32 [cases, 128]
//   c_regs, d_regs U32 [cases, 128, R]   and, for people, logical matrices a, b, c, d
//
// A file may also hold logical matrices alone; then D is computed from them. Unknown keys and tensors are kept.
// The format is described in docs/vectors.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/instruction/place.hpp"
#include "bitmma/instruction/simulate.hpp"
#include "bitmma/instruction/tcgen05_machine.hpp"
#include "bitmma/instruction/tmem_move.hpp"
#include "bitmma/io/tensor_file.hpp"

namespace bitmma {

inline constexpr std::string_view vector_format = "bitmma-vectors-1";

/// A checked file: the instruction is legal and every tensor it needs has the right dtype and shape.
struct VectorFile {
  TensorFile file;
  Instruction instruction;       // tcgen05: with the instruction descriptor of case 0
  std::optional<TmemMove> move;  // the file is of one of these; then `instruction` means nothing
  int64_t cases = 0;
  int64_t first_case = 0;  // of a part of a file: which case of the whole its case 0 is
  bool has_images = true;  // false: only logical matrices

  bool is_tcgen05() const { return !move && instruction.family == Family::tcgen05; }
  /// The mnemonic.
  std::string name() const { return move ? print(*move) : print(instruction); }
  /// The tensor that records the result.
  std::string_view d_tensor() const {
    if (move) return move->kind == MoveKind::ld ? "d_regs" : "tmem_after";
    return !has_images ? "d" : is_tcgen05() ? "tmem_after" : "d_regs";
  }
  bool has_recorded_d() const { return file.find(d_tensor()) != nullptr; }
  /// Value of `source`, "unknown" when the file does not say.
  std::string source() const;
};

/// Reads and checks a file; `instruction` stands in for the metadata key when the file has none. Throws Error with all
/// violations, naming the file and the field.
VectorFile read_vector_file(const std::string& path, std::string_view instruction = {});

/// Cases first .. first + count - 1 as a file of their own, which looks into this one. Tensors that this program does
/// not know, and which may not come by case, are left out: they are `tensors_without_cases`.
VectorFile cases_of(const VectorFile& vectors, int64_t first, int64_t count);
std::vector<Tensor> tensors_without_cases(const VectorFile& vectors);

/// What case `index` of a file with images reads. `smem` looks into the file, which must outlive it.
struct VectorCase {
  MachineState registers;
  std::span<const uint8_t> smem;

  Machine view() const {
    Machine machine = registers.view();
    machine.smem = smem;
    return machine;
  }
};
VectorCase case_at(const VectorFile& vectors, int64_t index);

/// The same for tcgen05.mma.
struct Tcgen05Case {
  Instruction instruction;  // with this case's descriptor, enable-input-d and scale-input-d
  Tcgen05State state;       // without the images
  std::array<std::span<const uint8_t>, 2> smem;

  Tcgen05Machine view() const {
    Tcgen05Machine machine = state.view();
    machine.smem = smem;
    return machine;
  }
};
Tcgen05Case tcgen05_case_at(const VectorFile& vectors, int64_t index);

/// The same for tcgen05.ld, .st, .cp and .shift.
struct TmemMoveCase {
  TmemMoveState state;  // without the images
  std::array<std::span<const uint8_t>, 2> smem;

  TmemMoveMachine view() const {
    TmemMoveMachine machine = state.view();
    machine.smem = smem;
    return machine;
  }
};
TmemMoveCase move_case_at(const VectorFile& vectors, int64_t index);

/// What looks suspicious in case `index`; empty for files without images.
std::vector<Violation> warnings_at(const VectorFile& vectors, int64_t index);

/// The operands of case `index` from the logical matrices a, b, c.
Operands logical_operands(const VectorFile& vectors, int64_t index);

/// Where an output of a case is: a register, or a cell of Tensor Memory (tcgen05.mma: relative to D's address).
struct OutputPlace {
  std::optional<RegisterPlace> reg;
  std::optional<TmemPlace> cell;
};
OutputPlace output_place(const VectorFile& vectors, const BitMatrix& d, int64_t index, int row, int col);

/// The result of a move as words: 32 threads x registers, or lanes (of all CTAs) x columns.
BitMatrix result_words(const VectorFile& vectors, std::span<const uint32_t> words);

/// D of case `index` as the file has it; only with has_recorded_d(). Of a move, result_words.
BitMatrix recorded_d(const VectorFile& vectors, int64_t index);

/// D of case `index` as the model computes it, from the images, or from the logical matrices where there are none.
BitMatrix computed_d(const VectorFile& vectors, int64_t index, const AccumulatorModel* model = nullptr);

/// The safetensors dtype in which people keep matrices of this format: F16, BF16, F32, F8_E4M3, I8, ...
std::string_view natural_dtype(Format format);

/// Collects cases into a file, tensor by tensor. Every case gets the same parts; what no case has is not written.
class VectorBuilder {
 public:
  explicit VectorBuilder(const Instruction& instruction) : instruction_(instruction) {}
  explicit VectorBuilder(const TmemMove& move) : move_(move) {}

  /// Begins the next case.
  void begin_case() { ++cases_; }
  void add_machine(const MachineState& state);
  void add_machine(const Tcgen05State& state);
  void add_machine(const TmemMoveState& state);
  void add_tmem_after(std::span<const uint32_t> tmem, int columns);
  void add_result(const TmemMoveResult& result, int columns);
  void add_logical(const Operands& operands);
  void add_d_regs(const BitMatrix& d);
  void add_logical_d(const BitMatrix& d);
  /// The file so far. `metadata` is added to the keys that describe the instruction.
  TensorFile finish(std::vector<std::pair<std::string, std::string>> metadata) &&;

 private:
  /// One tensor as it grows; `shape` is without the cases.
  struct Column {
    std::string_view name, dtype;
    std::vector<int64_t> shape;
    std::vector<uint8_t> bytes;
  };
  std::vector<uint8_t>& column(std::string_view name, std::string_view dtype, std::vector<int64_t> shape);
  void add_images(const std::array<std::vector<uint8_t>, 2>& smem, int ctas);
  void add_words(std::string_view name, std::vector<int64_t> shape, std::span<const uint32_t> words);
  void add_matrix(std::string_view name, const BitMatrix& matrix);

  Instruction instruction_;
  std::optional<TmemMove> move_;
  int64_t cases_ = 0;
  std::vector<Column> columns_;
};

/// One case as a file, D included, without logical matrices.
TensorFile single_case_file(const Instruction& instruction, const MachineState& state, const BitMatrix& d,
                            std::vector<std::pair<std::string, std::string>> metadata);

/// `vectors` with what `results` holds in place of tensors of the same names, `source` as who computed them, and the
/// provenance of whoever did before forgotten. Everything else is kept.
TensorFile with_results(const VectorFile& vectors, std::vector<Tensor> results, std::string source);

/// Whether results for `vectors` also go into a logical d: it has one, or the logical operands for one.
bool wants_logical_d(const VectorFile& vectors);

/// `vectors` with d_regs, and d where it has logical matrices, replaced by `d`, one matrix a case. `source` says who
/// computed it. Keys and tensors that mean nothing here are kept.
TensorFile with_d(const VectorFile& vectors, std::span<const BitMatrix> d, std::string source);

/// The metadata keys that describe `instruction`.
std::vector<std::pair<std::string, std::string>> instruction_metadata(const Instruction& instruction);
std::vector<std::pair<std::string, std::string>> instruction_metadata(const TmemMove& move);

}  // namespace bitmma
