// Instructions as no parser makes them: values outside their enumerations, and numbers that nobody meant.
#include <functional>
#include <limits>

#include "bitmma/core/random.hpp"
#include "bitmma/instruction/case.hpp"
#include "bitmma/instruction/evidence.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/place.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;

namespace {

template <typename Enum>
Enum no_value() {
  return static_cast<Enum>(200);
}

/// A state that has everything any instruction reads, of the sizes that `instruction` wants.
State full_state(const Instruction& instruction) {
  State state;
  for (const FieldRule& rule : fields_of(instruction)) {
    const FieldInfo& row = info(rule.field);
    if (row.is_number) {
      state.set(rule.field, rule.field == Field::warp ? 1u : rule.field == Field::taddr ? 32u << 16 : 0u);
      continue;
    }
    std::vector<int64_t> extents(rule.extents.begin(), rule.extents.end());
    int64_t count = 1;
    for (int64_t& extent : extents) {
      if (extent == -1) extent = row.type == ElementType::u8 ? 70'000 : 512;
      // Of an illegal instruction they may be anything.
      if (extent < 1 || extent > 1 << 20 || count > 1 << 20)
        throw Error({.field = "extents", .seen = std::to_string(extent), .expected = "those of a legal instruction"});
      count *= extent;
    }
    const auto size = static_cast<size_t>(count);
    if (row.type == ElementType::u8) state.set(rule.field, std::vector<uint8_t>(size, 0x11), Extents(extents));
    else if (rule.wide) state.set(rule.field, std::vector<uint64_t>(size, 0x22), Extents(extents));
    else state.set(rule.field, std::vector<uint32_t>(size, 0x22222222), Extents(extents));
  }
  for (const Field field : {Field::a_desc, Field::b_desc}) {
    if (state.has(field)) state.set(field, uint64_t{0x4000'4040'0001'0000});
  }
  return state;
}

/// Whatever may be asked of an instruction. Each call gives an answer or throws Error.
void ask_everything(const Instruction& instruction, Target target) {
  const auto ask = [](const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      CHECK_FALSE(error.violations().empty());
    }
  };
  ask([&] { static_cast<void>(print(instruction)); });
  ask([&] { static_cast<void>(print(statement_of(instruction))); });
  ask([&] { static_cast<void>(fields_of(instruction)); });
  ask([&] { static_cast<void>(targets_of(instruction)); });
  ask([&] { static_cast<void>(ptx_version_of(instruction, target)); });
  ask([&] { static_cast<void>(mma_of(instruction)); });
  ask([&] { static_cast<void>(choices_of(instruction, target)); });
  ask([&] { static_cast<void>(evidence_of(instruction, target)); });
  ask([&] { static_cast<void>(model_for(instruction, target)); });
  ask([&] {
    State state = full_state(instruction);
    ask([&] { static_cast<void>(warnings_of(instruction, target, state)); });
    ask([&] { static_cast<void>(gather_operands(instruction, target, state)); });
    ask([&] { static_cast<void>(recorded_result(instruction, state)); });
    for (const Role role : {Role::a, Role::b, Role::d}) {
      ask([&] {
        const PlaceMap map(instruction, target, state, role);
        static_cast<void>(map.place_of(map.rows() - 1, map.cols() - 1));
        CHECK_THROWS_AS(map.place_of(map.rows(), 0), Error);
        CHECK_THROWS_AS(map.place_of(0, -1), Error);
      });
    }
    ask([&] { execute(instruction, target, state); });
  });
}

bool is_refused(const Instruction& instruction, Target target) { return !violations_of(instruction, target).empty(); }

int any_number(RandomStream& random) {
  switch (random.below(4)) {
    case 0: return random.between(-1, 4);
    case 1: return random.between(0, 300);
    case 2: return 8 * random.between(0, 40);
    default: return static_cast<int>(random.word());
  }
}
template <typename Enum>
Enum any_value(RandomStream& random) {
  return static_cast<Enum>(random.one_in(8) ? random.below(256) : random.below(8));
}

using Change = std::function<void(Instruction&, RandomStream&)>;

template <typename I, typename Member>
Change number(Member I::*member) {
  return [=](Instruction& instruction, RandomStream& random) {
    if (I* of_family = std::get_if<I>(&instruction)) of_family->*member = static_cast<Member>(any_number(random));
  };
}
template <typename I>
Change flag(bool I::*member) {
  return [=](Instruction& instruction, RandomStream&) {
    if (I* of_family = std::get_if<I>(&instruction)) of_family->*member ^= true;
  };
}
template <typename I, typename Enum>
Change value(Enum I::*member) {
  return [=](Instruction& instruction, RandomStream& random) {
    if (I* of_family = std::get_if<I>(&instruction)) of_family->*member = any_value<Enum>(random);
  };
}

/// Every field of every family.
const std::vector<Change>& changes() {
  static const std::vector<Change> all{
      number(&Wgmma::m),
      number(&Wgmma::n),
      number(&Wgmma::k),
      number(&Wgmma::sparsity_selector),
      value(&Wgmma::d),
      value(&Wgmma::a),
      value(&Wgmma::b),
      flag(&Wgmma::sparse),
      value(&Wgmma::bit_operation),
      flag(&Wgmma::saturate),
      value(&Wgmma::a_source),
      flag(&Wgmma::enable_input_d),
      flag(&Wgmma::negate_a),
      flag(&Wgmma::transpose_a),
      flag(&Wgmma::transpose_b),
      number(&MmaSync::m),
      number(&MmaSync::n),
      number(&MmaSync::k),
      value(&MmaSync::d),
      value(&MmaSync::a),
      value(&MmaSync::b),
      value(&MmaSync::c),
      flag(&MmaSync::sparse),
      flag(&MmaSync::ordered_metadata),
      flag(&MmaSync::a_col),
      flag(&MmaSync::b_row),
      value(&MmaSync::bit_operation),
      flag(&MmaSync::saturate),
      value(&MmaSync::scale_vec),
      value(&MmaSync::scale_type),
      number(&MmaSync::byte_id_a),
      number(&MmaSync::thread_id_a),
      number(&MmaSync::byte_id_b),
      number(&MmaSync::thread_id_b),
      number(&MmaSync::sparsity_selector),
      [](Instruction& instruction, RandomStream& random) {
        if (MmaSync* mma = std::get_if<MmaSync>(&instruction)) mma->kind = any_value<MmaKind>(random);
      },
      [](Instruction& instruction, RandomStream& random) {
        if (MmaSync* mma = std::get_if<MmaSync>(&instruction)) mma->rounding = any_value<Rounding>(random);
      },
      value(&Tcgen05Mma::kind),
      number(&Tcgen05Mma::cta_group),
      flag(&Tcgen05Mma::weight_stationary),
      number(&Tcgen05Mma::m),
      number(&Tcgen05Mma::n),
      value(&Tcgen05Mma::d),
      value(&Tcgen05Mma::a),
      value(&Tcgen05Mma::b),
      flag(&Tcgen05Mma::sparse),
      number(&Tcgen05Mma::k),
      flag(&Tcgen05Mma::saturate),
      value(&Tcgen05Mma::a_source),
      number(&Tcgen05Mma::scale_input_d),
      flag(&Tcgen05Mma::negate_b),
      flag(&Tcgen05Mma::transpose_a),
      flag(&Tcgen05Mma::transpose_b),
      number(&Tcgen05Mma::sparsity_selector),
      number(&Tcgen05Mma::max_shift_code),
      value(&Tcgen05Mma::scale_vec),
      value(&Tcgen05Mma::scale_type),
      number(&Tcgen05Mma::scale_a_id),
      number(&Tcgen05Mma::scale_b_id),
      flag(&Tcgen05Mma::ashift),
      [](Instruction& instruction, RandomStream& random) {
        Tcgen05Mma* mma = std::get_if<Tcgen05Mma>(&instruction);
        if (!mma) return;
        const auto buffer = any_value<CollectorBuffer>(random);
        mma->collector = Collector{.buffer = buffer, .operation = any_value<CollectorOperation>(random)};
      },
      value(&TmemMove::kind),
      number(&TmemMove::cta_group),
      number(&TmemMove::half_split_offset),
      number(&TmemMove::cp_shape),
      value(&TmemMove::source_format),
      [](Instruction& instruction, RandomStream& random) {
        if (TmemMove* move = std::get_if<TmemMove>(&instruction)) move->ldst.num = any_number(random);
      },
      [](Instruction& instruction, RandomStream& random) {
        if (TmemMove* move = std::get_if<TmemMove>(&instruction)) move->ldst.split_columns = any_number(random);
      },
      [](Instruction& instruction, RandomStream& random) {
        if (TmemMove* move = std::get_if<TmemMove>(&instruction)) move->ldst.shape = any_value<LdStShape>(random);
      },
      [](Instruction& instruction, RandomStream&) {
        if (TmemMove* move = std::get_if<TmemMove>(&instruction)) move->ldst.pack_16b ^= true;
      },
  };
  return all;
}

}  // namespace

TEST_CASE("a value that its enumeration does not have is refused with the field, and nothing is asked of it") {
  struct Row {
    Instruction instruction;
    std::string field;
  };
  Tcgen05Mma bad_operation;
  bad_operation.collector = Collector{.operation = no_value<CollectorOperation>()};
  MmaSync bad_kind, bad_rounding;
  bad_kind.kind = no_value<MmaKind>();
  bad_rounding.rounding = no_value<Rounding>();
  Wgmma bad_a, bad_source, bad_bits;
  bad_a.a = no_value<Format>(), bad_source.a_source = no_value<OperandSource>();
  bad_bits.bit_operation = no_value<BitOperation>();
  Tcgen05Mma bad_vec, bad_scale, bad_mma_kind;
  bad_vec.scale_vec = no_value<ScaleVec>(), bad_scale.scale_type = no_value<Format>();
  bad_mma_kind.kind = no_value<MmaKind>();
  TmemMove bad_move, bad_shape, bad_format;
  bad_move.kind = no_value<MoveKind>(), bad_shape.ldst.shape = no_value<LdStShape>();
  bad_format.source_format = no_value<CpSourceFormat>();
  for (const Row& row : {Row{bad_a, "atype"}, Row{bad_source, "A"}, Row{bad_bits, "operation"}, Row{bad_kind, "kind"},
                         Row{bad_rounding, "rounding"}, Row{bad_vec, "size of the scale vector"},
                         Row{bad_scale, "scale type"}, Row{bad_mma_kind, "kind"}, Row{bad_operation, "collector"},
                         Row{bad_move, "kind"}, Row{bad_shape, "shape"}, Row{bad_format, "source format"}}) {
    const std::vector<Violation> violations = violations_of(row.instruction, Target::sm_100a);
    REQUIRE(violations.size() == 1);
    CHECK(violations.front().field == row.field);
    CHECK(violations.front().seen == "value 200 of an enumeration");
    ask_everything(row.instruction, Target::sm_100a);
    CHECK_THROWS_AS(print(row.instruction), Error);
  }
  CHECK(violations_of(Wgmma{}, no_value<Target>()).front().field == "target");
  // Default members of these are asked of the kind before anything can be checked.
  CHECK(violations_of(Tcgen05Mma{.kind = no_value<MmaKind>()}, Target::sm_100a).front().field == "kind");
  CHECK(violations_of(MmaSync{.kind = no_value<MmaKind>()}, Target::sm_120a).front().field == "kind");
}

TEST_CASE("operands that no descriptor can name are refused in instructions that somebody puts together") {
  Tcgen05Mma b1, three_ctas, selector, k_of_none, negative_k, long_k, scale, shift, id;
  b1.a = Format::b1, b1.k = -7;
  three_ctas.cta_group = 3;
  selector.sparse = true, selector.k = 32, selector.sparsity_selector = -345281685;
  k_of_none = {.kind = MmaKind::mxf4}, k_of_none.k = 3;
  negative_k.sparse = true, negative_k.k = -1;
  long_k.sparse = true, long_k.k = 293;
  scale = {.kind = MmaKind::mxf4nvf4}, scale.scale_type = Format::tf32;
  shift.weight_stationary = true, shift.max_shift_code = 4;
  id = {.kind = MmaKind::mxf8f6f4}, id.scale_a_id = 4;
  for (const Tcgen05Mma& instruction : {b1, three_ctas, selector, k_of_none, negative_k, long_k, scale, shift, id}) {
    CHECK(is_refused(instruction, Target::sm_100a));
    ask_everything(instruction, Target::sm_100a);
  }
  Wgmma in_tmem;
  in_tmem.a_source = OperandSource::tmem;
  CHECK(is_refused(in_tmem, Target::sm_90a));
  CHECK(is_refused(with_sparsity_selector(MmaSync{}, 1), Target::sm_90a));
  TmemMove split{.ldst = {.split_columns = -5}};
  CHECK(is_refused(split, Target::sm_100a));
}

TEST_CASE("instructions with any fields changed are refused, or do their work inside their state") {
  RandomStream random(20261122, 0);
  std::vector<Instruction> bases;
  for (const Family family : {Family::wgmma, Family::tcgen05, Family::mma_sync, Family::tmem_move}) {
    const std::vector<Instruction> all = all_instructions(family);
    for (int i = 0; i < 12; ++i) bases.push_back(all[random.below(static_cast<uint32_t>(all.size()))]);
  }
  int refused = 0, legal = 0;
  for (const Instruction& base : bases) {
    for (int turn = 0; turn < 80; ++turn) {
      Instruction instruction = base;
      for (uint32_t left = 1 + random.below(12); left > 0; --left) {
        changes()[random.below(static_cast<uint32_t>(changes().size()))](instruction, random);
      }
      const Target target = default_target(base);
      (is_refused(instruction, target) ? refused : legal) += 1;
      ask_everything(instruction, target);
    }
  }
  CHECK(refused > 500);
  CHECK(legal > 100);
}

TEST_CASE("the places of an instruction that moves data are those of its result alone") {
  const Instruction load = TmemMove{};
  const State state = full_state(load);
  CHECK_THROWS_MATCHES(PlaceMap(load, Target::sm_100a, state, Role::a), Error,
                       test::refused(wrong_instruction, "operand"));
  CHECK_THROWS_MATCHES(PlaceMap(load, Target::sm_100a, state, Role::b), Error,
                       test::refused(wrong_instruction, "operand"));
  CHECK(PlaceMap(load, Target::sm_100a, state, Role::d).rows() == 32);
}
