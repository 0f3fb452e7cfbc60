#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bitmma/instruction/legality.hpp"
#include "bitmma/instruction/simulate.hpp"
#include "bitmma/io/draw.hpp"
#include "commands.hpp"

namespace bitmma::cli {
namespace {

using Json = nlohmann::ordered_json;

/// What both maps can be asked: everything, one element, or the reverse.
struct Query {
  bool csv = false, json = false;
  std::optional<int> row, col;

  void add(CLI::App& command) {
    command.add_flag("--csv", csv, "the whole map as CSV");
    command.add_flag("--json", json, "the answer as JSON");
    command.add_option("--row", row, "row of one element");
    command.add_option("--col", col, "column of one element");
  }
  bool one_element(int rows, int cols) const {
    if (row.has_value() != col.has_value()) {
      throw Error({.field = row ? "--col" : "--row", .seen = "(missing)", .legal = "both --row and --col"});
    }
    if (row && (*row < 0 || *row >= rows || *col < 0 || *col >= cols)) {
      throw Error({.field = "--row, --col", .seen = fmt::format("{}, {}", *row, *col), .legal = fmt::format("0..{}, 0..{}", rows - 1, cols - 1)});
    }
    return row.has_value();
  }
};

struct SmemFlags {
  std::string descriptor, arch = "sm_90a", major = "k";
  int element_bits = 16, rows = 8, cols = 16, max_lines = 32;
  std::optional<int64_t> byte;
  Query query;
};

Json element_json(int row, int col, const SmemPlace& place) {
  return {{"row", row}, {"col", col}, {"byte", place.byte}, {"bit", place.bit}};
}

void run_smem(Context& context, const SmemFlags& flags) {
  std::vector<Violation> violations;
  const auto arch = arch_named(flags.arch);
  if (!arch) violations.push_back({.field = "--arch", .seen = flags.arch, .legal = "sm_90a, sm_100a or sm_103a"});
  const bool power = flags.element_bits >= 1 && flags.element_bits <= 32 && (flags.element_bits & (flags.element_bits - 1)) == 0;
  if (!power) violations.push_back({.field = "--element-bits", .seen = std::to_string(flags.element_bits), .legal = "1, 2, 4, 8, 16 or 32"});
  for (const auto& [name, value] : {std::pair("--rows", flags.rows), std::pair("--cols", flags.cols)}) {
    if (value < 1 || value > 4096) violations.push_back({.field = name, .seen = std::to_string(value), .legal = "1..4096"});
  }
  uint64_t word = 0;
  size_t used = 0;
  try {
    if (!flags.descriptor.starts_with("-")) word = std::stoull(flags.descriptor, &used, 0);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || used != flags.descriptor.size()) {
    violations.push_back({.field = "--descriptor", .seen = flags.descriptor, .legal = "a 64-bit number such as 0x4000004000010000"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
  const SmemMatrix matrix{.descriptor = decode_smem_descriptor(*arch, word), .major = flags.major == "mn" ? Major::mn : Major::k,
                          .element_bits = flags.element_bits, .rows = flags.rows, .cols = flags.cols};
  const SmemMap map(matrix);
  std::ostream& out = context.terminal.out;
  if (flags.byte) {
    const auto elements = map.elements_at(*flags.byte);
    if (flags.query.json) {
      Json json = Json::array();
      for (const auto& [row, col] : elements) json.push_back(element_json(row, col, map.place_of(row, col)));
      out << json.dump(2) << '\n';
      return;
    }
    out << "row,col,byte,bit\n";
    for (const auto& [row, col] : elements) out << fmt::format("{},{},{},{}\n", row, col, map.place_of(row, col).byte, map.place_of(row, col).bit);
    if (elements.empty()) context.terminal.err << fmt::format("byte {} holds no element of this matrix\n", *flags.byte);
    return;
  }
  if (flags.query.one_element(flags.rows, flags.cols)) {
    const SmemPlace place = map.place_of(*flags.query.row, *flags.query.col);
    if (flags.query.json) out << element_json(*flags.query.row, *flags.query.col, place).dump(2) << '\n';
    else out << fmt::format("row,col,byte,bit\n{},{},{},{}\n", *flags.query.row, *flags.query.col, place.byte, place.bit);
    return;
  }
  if (flags.query.csv) {
    out << "row,col,byte,bit\n";
    for (int row = 0; row < flags.rows; ++row) {
      for (int col = 0; col < flags.cols; ++col) {
        const SmemPlace place = map.place_of(row, col);
        out << fmt::format("{},{},{},{}\n", row, col, place.byte, place.bit);
      }
    }
    return;
  }
  const std::vector<Violation> found = warnings(matrix.descriptor, matrix.major, matrix.cols * matrix.element_bits / 8);
  const bool layout_of_hardware_differs = print_cute(matrix) != print_hardware_cute(matrix);
  if (flags.query.json) {
    Json elements = Json::array();
    for (int row = 0; row < flags.rows; ++row) {
      for (int col = 0; col < flags.cols; ++col) elements.push_back(element_json(row, col, map.place_of(row, col)));
    }
    out << Json{{"cute", print_cute(matrix)}, {"hardware_cute", print_hardware_cute(matrix)}, {"start_address", matrix.descriptor.start_address_bytes}, {"elements", elements}}.dump(2) << '\n';
    return;
  }
  out << fmt::format("{}, {} x {} elements of {} bits\n", print(matrix.major), flags.rows, flags.cols, flags.element_bits)
      << fmt::format("{}   (in elements, from byte {:#x}; the swizzle acts on the byte address)\n", print_cute(matrix), matrix.descriptor.start_address_bytes)
      << (layout_of_hardware_differs ? fmt::format("{}   (what the hardware reads, measured on an NVIDIA H200: K goes on at LBO; the maps follow it)\n", print_hardware_cute(matrix)) : "")
      << '\n' << draw_smem(map, flags.max_lines);
  print_warnings(context, found);
}

struct FragmentFlags {
  std::string instruction, operand = "d";
  std::optional<int> thread, reg;
  int bit = 0, max_cols = 16;
  Query query;
};

/// The places of one operand's elements: matrix operands by fragment, metadata by its own rule.
struct FragmentMap {
  Fragment fragment;
  const MetadataLayout* metadata = nullptr;
  int selector = 0;

  int rows() const { return fragment.rows; }
  int cols() const { return metadata ? metadata->stored_k : fragment.cols; }
  RegisterPlace place(int row, int col) const {
    return metadata ? metadata_place_of(*metadata, row, col, selector) : place_of(fragment, row, col);
  }
};

Json element_json(int row, int col, const RegisterPlace& place) {
  return {{"row", row}, {"col", col}, {"thread", place.thread}, {"register", place.reg}, {"bit", place.bit}};
}

void run_fragment(Context& context, const FragmentFlags& flags) {
  const Instruction instruction = parse_instruction(flags.instruction);
  require_legal(instruction);
  FragmentMap map{.fragment = flags.operand == "a" || flags.operand == "metadata" ? a_fragment(instruction) : d_fragment(instruction)};
  if (flags.operand == "metadata") {
    if (!instruction.sparse) throw Error({.field = "--operand", .seen = "metadata", .legal = "a or d: the instruction is not sparse"});
    map.metadata = &metadata_layout(info(instruction.a).bits);
  }
  std::ostream& out = context.terminal.out;
  const std::string heading = "row,col,thread,register,bit\n";
  const auto line = [&](int row, int col) {
    const RegisterPlace place = map.place(row, col);
    return fmt::format("{},{},{},{},{}\n", row, col, place.thread, place.reg, place.bit);
  };
  if (flags.thread || flags.reg) {
    const int registers = map.metadata ? 1 : map.fragment.registers();
    const int thread = flags.thread.value_or(-1), reg = flags.reg.value_or(map.metadata ? 0 : -1);
    if (thread < 0 || thread > 127 || reg < 0 || reg >= registers || flags.bit < 0 || flags.bit > 31) {
      throw Error({.field = "--thread, --register, --bit", .seen = fmt::format("{}, {}, {}", thread, reg, flags.bit),
                   .legal = fmt::format("0..127, 0..{}, 0..31", registers - 1)});
    }
    Json json = Json::array();
    std::string text = heading;
    const int width = map.metadata ? map.metadata->field_bits : map.fragment.element_bits;
    for (int row = 0; row < map.rows(); ++row) {
      for (int col = 0; col < map.cols(); ++col) {
        const RegisterPlace place = map.place(row, col);
        if (place.thread != thread || place.reg != reg || flags.bit < place.bit || flags.bit >= place.bit + width) continue;
        json.push_back(element_json(row, col, place));
        text += line(row, col);
      }
    }
    out << (flags.query.json ? json.dump(2) + "\n" : text);
    return;
  }
  if (flags.query.one_element(map.rows(), map.cols())) {
    const RegisterPlace place = map.place(*flags.query.row, *flags.query.col);
    out << (flags.query.json ? element_json(*flags.query.row, *flags.query.col, place).dump(2) + "\n" : heading + line(*flags.query.row, *flags.query.col));
    return;
  }
  if (flags.query.csv || flags.query.json || map.metadata) {
    Json json = Json::array();
    if (!flags.query.json) out << heading;
    for (int row = 0; row < map.rows(); ++row) {
      for (int col = 0; col < map.cols(); ++col) {
        if (flags.query.json) json.push_back(element_json(row, col, map.place(row, col)));
        else out << line(row, col);
      }
    }
    if (flags.query.json) out << json.dump(2) << '\n';
    return;
  }
  const bool is_a = flags.operand == "a";
  out << fmt::format("{} of {}: {} x {} {}, {} registers a thread\n\n", is_a ? "A" : "C and D", print(instruction), map.rows(), map.cols(),
                     info(is_a ? instruction.a : instruction.d).name, map.fragment.registers())
      << draw_fragment(map.fragment, flags.max_cols);
}

}  // namespace

void add_layout(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("layout", "where the elements of a matrix are");
  command->require_subcommand(1);
  const auto smem_flags = std::make_shared<SmemFlags>();
  CLI::App* smem = command->add_subcommand("smem", "shared memory, by descriptor");
  smem->add_option("--descriptor", smem_flags->descriptor, "64-bit matrix descriptor")->required();
  smem->add_option("--arch", smem_flags->arch, "sm_90a, sm_100a or sm_103a")->capture_default_str();
  smem->add_option("--major", smem_flags->major, "k, or mn for transposed operands")->check(CLI::IsMember({"k", "mn"}))->capture_default_str();
  smem->add_option("--element-bits", smem_flags->element_bits, "bits of an element in memory")->capture_default_str();
  smem->add_option("--rows", smem_flags->rows, "extent along M or N")->capture_default_str();
  smem->add_option("--cols", smem_flags->cols, "extent along K")->capture_default_str();
  smem->add_option("--byte", smem_flags->byte, "the reverse: which elements does this byte hold?");
  smem->add_option("--max-lines", smem_flags->max_lines, "lines of the picture")->capture_default_str();
  smem_flags->query.add(*smem);
  smem->footer(
      "Examples:\n"
      "  bitmma layout smem --descriptor 0x4000004000010000 --rows 64 --cols 16\n"
      "  bitmma layout smem --descriptor 0x4000004000010000 --row 9 --col 8\n"
      "  bitmma layout smem --descriptor 0x4000004000010000 --rows 64 --byte 1184");
  smem->callback([smem_flags, &context] { run_smem(context, *smem_flags); });
  const auto fragment_flags = std::make_shared<FragmentFlags>();
  CLI::App* fragment = command->add_subcommand("fragment", "registers, by instruction");
  fragment->add_option("--instruction", fragment_flags->instruction, "PTX mnemonic")->required();
  fragment->add_option("--operand", fragment_flags->operand, "a, d (C is the same) or metadata; the columns of a sparse A are its stored ones")
      ->check(CLI::IsMember({"a", "c", "d", "metadata"}))->capture_default_str();
  fragment->add_option("--thread", fragment_flags->thread, "the reverse: thread 0..127 ...");
  fragment->add_option("--register", fragment_flags->reg, "... register ...");
  fragment->add_option("--bit", fragment_flags->bit, "... and bit: which element is there?")->capture_default_str();
  fragment->add_option("--max-cols", fragment_flags->max_cols, "columns of the picture")->capture_default_str();
  fragment_flags->query.add(*fragment);
  fragment->footer(
      "Examples:\n"
      "  bitmma layout fragment --instruction wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 --operand d\n"
      "  bitmma layout fragment --instruction wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 --operand a --thread 5 --register 2");
  fragment->callback([fragment_flags, &context] { run_fragment(context, *fragment_flags); });
}

}  // namespace bitmma::cli
