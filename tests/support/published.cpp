#include "published.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <sstream>

#include "bitmma/instruction/case.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/memory/metadata.hpp"
#include "catch.hpp"
#include "files.hpp"
#include "word_lists.hpp"

namespace bitmma::test {
namespace {

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

uint32_t converted(Format from, uint32_t code, Format to) {
  return static_cast<uint32_t>(convert(from, code, to, Rounding::nearest_even, Overflow::infinity));
}

/// The code of a value that the files write as an f32 word.
uint32_t exact_code(Format format, uint32_t f32_word) {
  const uint32_t code = converted(Format::f32, f32_word, format);
  if (converted(format, code, Format::f32) != f32_word)
    FAIL(print_bits(Format::f32, f32_word) << " is no " << info(format).name);
  return code;
}

// ------------------------------------------------------------------------------------------------ MATLAB-tensor-core

struct Gpu {
  std::string_view name;
  Target target;
};
constexpr auto gpus = std::to_array<Gpu>({{"V100", Target::sm_70},
                                          {"A2", Target::sm_86},
                                          {"A100", Target::sm_80},
                                          {"Ada", Target::sm_89},
                                          {"L40S", Target::sm_89},
                                          {"H100", Target::sm_90a},
                                          {"H200", Target::sm_90a},
                                          {"B200", Target::sm_100a}});

/// A set of inputs, which several groups share.
using Vectors = std::vector<std::pair<std::vector<uint32_t>, std::vector<uint32_t>>>;

/// The instruction whose K the terms fill. Hopper's fp8 -> f32 outputs have 13 fraction bits and are the same for
/// another c: that is wgmma's rule without c, and not mma.sync's, which has no fp8 tensor core there.
Instruction instruction_of(Target target, Format input, Format result, int terms) {
  if (target == Target::sm_90a && info(input).bits == 8 && result == Format::f32)
    return Wgmma{.d = result, .a = input, .b = input, .enable_input_d = false};
  return MmaSync{.m = target == Target::sm_70 ? 8 : 16, .d = result, .a = input, .b = input, .c = result, .k = terms};
}

PublishedGroup matlab_group(const CsvRow& row, const Vectors& inputs) {
  const std::string &type = row.at("type"), &result = row.at("result");
  const auto gpu = std::ranges::find(gpus, std::string_view(row.at("gpu")), &Gpu::name);
  REQUIRE(gpu != gpus.end());
  const Format input = type == "fp16" ? Format::f16 : format_named(type).value(), d = format_named(result).value();
  const int outputs = static_cast<int>(inputs.size()), terms = static_cast<int>(inputs.at(0).first.size());
  PublishedGroup group{.name = fmt::format("{} {} -> {}", gpu->name, type, result),
                       .target = gpu->target,
                       .instruction = instruction_of(gpu->target, input, d, terms)};
  group.model = model_for(group.instruction, group.target);
  group.operands.a = Matrix(input, outputs, terms), group.operands.b = Matrix(input, terms, outputs);
  for (int i = 0; i < outputs; ++i) {
    const auto& [a, b] = inputs[static_cast<size_t>(i)];
    for (int k = 0; k < terms; ++k) {
      group.operands.a(i, k) = exact_code(input, a.at(static_cast<size_t>(k)));
      group.operands.b(k, i) = exact_code(input, b.at(static_cast<size_t>(k)));
    }
  }
  return group;
}

// -------------------------------------------------------------------------------------------------------- word lists

Matrix row_of(Format format, const std::vector<uint32_t>& codes, int shift = 0) {
  Matrix row(format, 1, static_cast<int>(codes.size()));
  for (size_t k = 0; k < codes.size(); ++k) row(0, static_cast<int>(k)) = codes[k] >> shift;
  return row;
}

/// name | kind | types | modifiers | a | b | c | scale_a | scale_b | d
PublishedGroup b200_group(const std::vector<std::string>& cells) {
  REQUIRE(cells.size() == 10);
  const MmaKind kind = mma_kind_named(cells[1]).value();
  const std::vector<std::string> types = parts_of(cells[2], '.');
  std::vector<std::string> modifiers = parts_of(cells[3], ' ');
  const bool fp4 = kind == MmaKind::mxf4 || kind == MmaKind::mxf4nvf4, scaled = fp4 || kind == MmaKind::mxf8f6f4;
  const bool sparse = cells[3].starts_with("sp ");
  if (sparse) modifiers.erase(modifiers.begin());
  Tcgen05Mma instruction{.kind = kind,
                         .d = format_named(types.at(2)).value(),
                         .a = format_named(types.at(0)).value(),
                         .b = format_named(types.at(1)).value(),
                         .sparse = sparse};
  instruction.enable_input_d = !sparse;  // the sparse instructions did not read C
  instruction.saturate = cells[3] == "sat";
  const int shift = instruction.a == Format::bf16 ? 16 : 0;  // the list has the f32 words they are cut from
  PublishedGroup group{.name = cells[0], .target = Target::sm_100a, .d = hex_words(cells[9])};
  group.operands = {.a = row_of(instruction.a, hex_words(cells[4]), shift),
                    .b = transposed(row_of(instruction.b, hex_words(cells[5]), shift)),
                    .saturate = instruction.saturate};
  instruction.k = group.operands.b.rows();
  if (sparse) {
    // Every nibble of the metadata is 0x4: the first two columns, or the first two pairs, of a chunk.
    group.operands.selected_k =
        select(sparse_pattern(fp4 ? 4 : 8), 1, group.operands.a.cols(), [](int, int) { return 0x4; }).k;
  } else {
    group.c = hex_words(cells[6]);
  }
  if (scaled) {
    const auto count = static_cast<size_t>(modifiers.at(0).front() - '0');  // "2X": the first two bytes
    const Format type = format_named(modifiers.at(1)).value();
    std::vector<uint32_t> scale_a = hex_words(cells[7]), scale_b = hex_words(cells[8]);
    scale_a.resize(count), scale_b.resize(count);
    group.operands.scales = BlockScales{.a = row_of(type, scale_a), .b = transposed(row_of(type, scale_b))};
    instruction.scale_vec = count == 1 ? ScaleVec::x1 : count == 2 ? ScaleVec::x2 : ScaleVec::x4;
    instruction.scale_type = type;
  }
  group.instruction = instruction;
  group.model = model_for(instruction, group.target);
  return group;
}

}  // namespace

Mismatches mismatches_of(const AccumulatorModel& model, const PublishedGroup& group) {
  // The outputs are the diagonals of small products, which take the loops that whole instructions take.
  constexpr int side = 16;
  Mismatches mismatches;
  for (int first = 0; first < group.outputs(); first += side) {
    const int count = std::min(side, group.outputs() - first);
    const auto from = static_cast<size_t>(first);
    Operands operands = group.operands;
    if (group.outputs() > 1) {
      operands.a = block_of(group.operands.a, first, count, 0, group.operands.a.cols());
      operands.b = block_of(group.operands.b, 0, group.operands.b.rows(), first, count);
    }
    if (!group.c.empty()) {
      operands.c = Matrix(model.output, count, count);
      for (int i = 0; i < count; ++i) (*operands.c)(i, i) = group.c[from + static_cast<size_t>(i)];
    }
    const Matrix d = multiply_accumulate(model, operands);
    for (int i = 0; i < count; ++i) {
      const uint32_t published = group.d[from + static_cast<size_t>(i)];
      if (d(i, i) == published) continue;
      if (mismatches.count++ == 0) {
        mismatches.first = fmt::format("output {}: {}, the GPU {}", first + i, print_bits(model.output, d(i, i)),
                                       print_bits(model.output, published));
      }
    }
  }
  return mismatches;
}

int noticed(const PublishedGroup& group, const std::function<void(AccumulatorModel&)>& change) {
  AccumulatorModel model = group.model;
  change(model);
  return mismatches_of(model, group).count;
}

std::vector<PublishedGroup> matlab_groups() {
  std::map<std::string, Vectors> inputs;
  for_each_csv_row(
      oracle_path("matlab_inputs.csv"),
      [&](const CsvRow& row) { inputs[row.at("inputs")].emplace_back(hex_words(row.at("a")), hex_words(row.at("b"))); },
      matlab_step);
  std::vector<PublishedGroup> groups;
  std::string last;
  for_each_csv_row(
      oracle_path("matlab_outputs.csv"),
      [&](const CsvRow& row) {
        const std::string name = row.at("gpu") + row.at("type") + row.at("result");
        if (name != last) groups.push_back(matlab_group(row, inputs.at(row.at("inputs"))));
        last = name;
        PublishedGroup& group = groups.back();
        const Format d = group.model.output;
        // Where the result is f16, the GPUs got c rounded to f16.
        if (mma_of(group.instruction).enable_input_d)
          group.c.push_back(converted(Format::f32, hex_words(row.at("c")).at(0), d));
        group.d.push_back(exact_code(d, hex_words(row.at("d")).at(0)));
      },
      matlab_step);
  for (const PublishedGroup& group : groups) REQUIRE(group.outputs() == group.operands.a.rows());
  return groups;
}

std::vector<PublishedGroup> b200_groups() {
  std::vector<PublishedGroup> groups;
  for_each_list_line(source_path("data/published/b200_words.txt"),
                     [&](const std::vector<std::string>& cells) { groups.push_back(b200_group(cells)); });
  return groups;
}

Sm120Line::Sm120Line(const std::vector<std::string>& cells)
    : source(cells.at(0)),
      runs(std::stoi(cells.at(2))),
      instruction(parse_instruction(cells.at(3))),
      d(hex_words(cells.at(9))) {
  const auto cell_of = [&](Field field) -> const std::string& {
    switch (field) {
      case Field::a_regs: return cells.at(4);
      case Field::b_regs: return cells.at(5);
      case Field::scale_a: return cells.at(6);
      case Field::scale_b: return cells.at(7);
      default: return cells.at(8);
    }
  };
  for (const FieldRule& rule : fields_of(instruction)) {
    const auto registers = static_cast<size_t>(rule.extents[1]);
    std::string text = cell_of(rule.field);
    const bool by_quad = text.starts_with("q:");  // the words of lanes 4 g + 0 ... 4 g + 3, in all their registers
    if (by_quad) text.erase(0, 2);
    const std::vector<uint32_t> lane_words = hex_words(text);
    REQUIRE(lane_words.size() == (by_quad ? 4 : registers));
    std::vector<uint32_t> words;
    for (size_t lane = 0; lane < 32; ++lane) {
      for (size_t reg = 0; reg < registers; ++reg) words.push_back(lane_words[by_quad ? lane % 4 : reg]);
    }
    state.set(rule.field, std::move(words), rule.extents);
  }
}

std::vector<uint32_t> Sm120Line::computed(State changed, const AccumulatorModel* model) const {
  for (int run = 0; run < runs; ++run) execute(instruction, Target::sm_120a, changed, model);
  const bool halves = mma_of(instruction).d == Format::f16;
  std::vector<uint32_t> values;
  for (size_t i = 0; i < d.size(); ++i) {
    const uint32_t word = changed.words(Field::accumulator)[halves ? i / 2 : i];
    values.push_back(halves ? word >> 16 * (i % 2) & 0xFFFF : word);
  }
  return values;
}

State Sm120Line::with_operands(const std::function<uint32_t(uint32_t)>& change) const {
  State changed = state;
  for (const Field field : {Field::a_regs, Field::b_regs}) {
    for (uint32_t& word : changed.writable_words(field)) word = change(word);
  }
  return changed;
}

std::vector<Sm120Line> sm120_lines() {
  std::vector<Sm120Line> lines;
  for_each_list_line(source_path("data/published/sm120_words.txt"), [&](const std::vector<std::string>& cells) {
    REQUIRE(cells.size() == 10);
    lines.emplace_back(cells);
  });
  return lines;
}

}  // namespace bitmma::test
