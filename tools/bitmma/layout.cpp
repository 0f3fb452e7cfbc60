#include "layout.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bitmma/instruction/legality.hpp"
#include "bitmma/instruction/mma_sync.hpp"
#include "bitmma/instruction/simulate.hpp"
#include "bitmma/io/draw.hpp"
#include "bitmma/layout/cute.hpp"

namespace bitmma::cli {
namespace {

using Json = nlohmann::ordered_json;

struct SmemFlags {
  std::string descriptor, arch = "sm_90a", major = "k";
  int element_bits = 16, rows = 8, cols = 16, max_lines = 32;
  std::optional<int64_t> byte;
  Query query;
  SvgFlag svg;
};

Json element_json(int row, int col, const SmemPlace& place) {
  return {{"row", row}, {"col", col}, {"byte", place.byte}, {"bit", place.bit}};
}

void run_smem(Context& context, const SmemFlags& flags) {
  std::vector<Violation> violations;
  const auto arch = arch_named(flags.arch);
  if (!arch) violations.push_back({.field = "--arch", .seen = flags.arch, .legal = "sm_90a, sm_100a or sm_103a"});
  const bool power =
      flags.element_bits >= 1 && flags.element_bits <= 32 && (flags.element_bits & (flags.element_bits - 1)) == 0;
  if (!power)
    violations.push_back(
        {.field = "--element-bits", .seen = std::to_string(flags.element_bits), .legal = "1, 2, 4, 8, 16 or 32"});
  for (const auto& [name, value] : {std::pair("--rows", flags.rows), std::pair("--cols", flags.cols)}) {
    if (value < 1 || value > 4096)
      violations.push_back({.field = name, .seen = std::to_string(value), .legal = "1..4096"});
  }
  const std::optional<uint64_t> word = parse_word(flags.descriptor);
  if (!word) {
    violations.push_back(
        {.field = "--descriptor", .seen = flags.descriptor, .legal = "a 64-bit number such as 0x4000004000010000"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
  const SmemMatrix matrix{.descriptor = decode_smem_descriptor(*arch, *word),
                          .major = flags.major == "mn" ? Major::mn : Major::k,
                          .element_bits = flags.element_bits,
                          .rows = flags.rows,
                          .cols = flags.cols};
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
    for (const auto& [row, col] : elements)
      out << fmt::format("{},{},{},{}\n", row, col, map.place_of(row, col).byte, map.place_of(row, col).bit);
    if (elements.empty()) context.terminal.err << fmt::format("byte {} holds no element of this matrix\n", *flags.byte);
    return;
  }
  if (flags.query.one_element(flags.rows, flags.cols)) {
    const SmemPlace place = map.place_of(*flags.query.row, *flags.query.col);
    if (flags.query.json)
      out << element_json(*flags.query.row, *flags.query.col, place).dump(2) << '\n';
    else
      out << fmt::format("row,col,byte,bit\n{},{},{},{}\n", *flags.query.row, *flags.query.col, place.byte, place.bit);
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
  const std::vector<PlacedElement> elements_placed = placed_elements(map);
  if (flags.svg.asked()) {
    Picture picture = picture_of_smem(elements_placed, flags.element_bits, flags.max_lines);
    picture.title = fmt::format("{} shared memory, {} x {} elements of {} bits", print(matrix.major), flags.rows,
                                flags.cols, flags.element_bits);
    picture.notes.insert(picture.notes.begin(),
                         {fmt::format("{} (descriptor {:#018x}, start {:#x})", print_hardware_cute(matrix), *word,
                                      matrix.descriptor.start_address_bytes),
                          "a line is 128 bytes, 32 banks; r rows of M or N, k columns of K, as the canonical layouts "
                          "of the PTX ISA (9.7.15.5.1.2, 9.7.16.3)"});
    flags.svg.write(context, picture);
    return;
  }
  const std::vector<Violation> found = warnings(matrix.descriptor, matrix.major, matrix.cols * matrix.element_bits / 8);
  const bool layout_of_hardware_differs = print_cute(matrix) != print_hardware_cute(matrix);
  if (flags.query.json) {
    Json elements = Json::array();
    for (int row = 0; row < flags.rows; ++row) {
      for (int col = 0; col < flags.cols; ++col) elements.push_back(element_json(row, col, map.place_of(row, col)));
    }
    out << Json{{"cute", print_cute(matrix)},
                {"hardware_cute", print_hardware_cute(matrix)},
                {"start_address", matrix.descriptor.start_address_bytes},
                {"elements", elements}}
               .dump(2)
        << '\n';
    return;
  }
  out << fmt::format("{}, {} x {} elements of {} bits\n", print(matrix.major), flags.rows, flags.cols,
                     flags.element_bits)
      << fmt::format("{}   (in elements, from byte {:#x}; the swizzle acts on the byte address)\n", print_cute(matrix),
                     matrix.descriptor.start_address_bytes)
      << (layout_of_hardware_differs ? fmt::format("{}   (what the hardware reads, measured on an NVIDIA H200: K goes "
                                                   "on at LBO; the maps follow it)\n",
                                                   print_hardware_cute(matrix))
                                     : "")
      << '\n'
      << draw_smem(elements_placed, flags.element_bits, flags.max_lines);
  print_warnings(context, found);
}

struct FragmentFlags {
  std::string instruction, operand = "d";
  std::optional<int> thread, reg;
  int bit = 0, max_cols = 16;
  Query query;
  SvgFlag svg;
};

/// The places of one operand's elements: matrix operands by fragment, metadata by its own rule.
struct FragmentMap {
  Fragment fragment;
  const MetadataLayout* metadata = nullptr;  // of wgmma
  const SparsePattern* ordered = nullptr;    // metadata of mma.sync: two bits for every stored unit
  int selector = 0;

  bool is_metadata() const { return metadata || ordered; }
  int rows() const { return fragment.rows; }
  int cols() const { return metadata ? metadata->stored_k : fragment.cols; }
  int width_bits() const { return metadata ? metadata->field_bits : ordered ? 2 : fragment.element_bits; }
  RegisterPlace place(int row, int col) const {
    if (ordered) {
      RegisterPlace nibble = ordered_metadata_place(row, col / ordered->stored_per_chunk);
      nibble.bit += 2 * (col % ordered->stored_per_chunk / ordered->unit);
      return nibble;
    }
    return metadata ? metadata_place_of(*metadata, row, col, selector) : place_of(fragment, row, col);
  }
};

Json element_json(int row, int col, const RegisterPlace& place) {
  return {{"row", row}, {"col", col}, {"thread", place.thread}, {"register", place.reg}, {"bit", place.bit}};
}

void run_fragment(Context& context, const FragmentFlags& flags) {
  const Instruction instruction = parse_instruction(flags.instruction);
  if (instruction.family == Family::tcgen05) {
    throw Error({.field = "--instruction",
                 .seen = print(instruction),
                 .legal = "wgmma.mma_async",
                 .fix = "tcgen05.mma keeps D in Tensor Memory: layout tmem, layout ldst"});
  }
  require_legal(instruction);
  const bool is_mma = instruction.family == Family::mma_sync;
  if (flags.operand == "b" && !is_mma)
    throw Error(
        {.field = "--operand", .seen = "b", .legal = "a or d: B of wgmma is in shared memory", .fix = "layout smem"});
  FragmentMap map{.fragment = flags.operand == "b"                                  ? b_fragment(instruction)
                              : flags.operand == "a" || flags.operand == "metadata" ? a_fragment(instruction)
                                                                                    : d_fragment(instruction)};
  const int last_thread = map.fragment.threads - 1;
  if (flags.operand == "metadata") {
    if (!instruction.sparse)
      throw Error({.field = "--operand", .seen = "metadata", .legal = "a or d: the instruction is not sparse"});
    if (is_mma)
      map.ordered = &sparse_pattern(instruction.container_bits(instruction.a));
    else
      map.metadata = &metadata_layout(info(instruction.a).bits);
  }
  std::ostream& out = context.terminal.out;
  const std::string heading = "row,col,thread,register,bit\n";
  const auto line = [&](int row, int col) {
    const RegisterPlace place = map.place(row, col);
    return fmt::format("{},{},{},{},{}\n", row, col, place.thread, place.reg, place.bit);
  };
  if (flags.thread || flags.reg) {
    const int registers = map.is_metadata() ? 1 : map.fragment.registers();
    const int thread = flags.thread.value_or(-1), reg = flags.reg.value_or(map.is_metadata() ? 0 : -1);
    if (thread < 0 || thread > last_thread || reg < 0 || reg >= registers || flags.bit < 0 || flags.bit > 31) {
      throw Error({.field = "--thread, --register, --bit",
                   .seen = fmt::format("{}, {}, {}", thread, reg, flags.bit),
                   .legal = fmt::format("0..{}, 0..{}, 0..31", last_thread, registers - 1)});
    }
    Json json = Json::array();
    std::string text = heading;
    const int width = map.width_bits();
    for (int row = 0; row < map.rows(); ++row) {
      for (int col = 0; col < map.cols(); ++col) {
        const RegisterPlace place = map.place(row, col);
        if (place.thread != thread || place.reg != reg || flags.bit < place.bit || flags.bit >= place.bit + width)
          continue;
        json.push_back(element_json(row, col, place));
        text += line(row, col);
      }
    }
    out << (flags.query.json ? json.dump(2) + "\n" : text);
    return;
  }
  if (flags.query.one_element(map.rows(), map.cols())) {
    const RegisterPlace place = map.place(*flags.query.row, *flags.query.col);
    out << (flags.query.json ? element_json(*flags.query.row, *flags.query.col, place).dump(2) + "\n"
                             : heading + line(*flags.query.row, *flags.query.col));
    return;
  }
  if (flags.query.csv || flags.query.json || map.is_metadata()) {
    Json json = Json::array();
    if (!flags.query.json) out << heading;
    for (int row = 0; row < map.rows(); ++row) {
      for (int col = 0; col < map.cols(); ++col) {
        if (flags.query.json)
          json.push_back(element_json(row, col, map.place(row, col)));
        else
          out << line(row, col);
      }
    }
    if (flags.query.json) out << json.dump(2) << '\n';
    return;
  }
  const bool is_a = flags.operand == "a", is_b = flags.operand == "b";
  if (flags.svg.asked()) {
    Picture picture = picture_of_fragment(map.fragment, flags.max_cols);
    picture.title = fmt::format("{}, {} x {} {}",
                                is_a   ? "A"
                                : is_b ? "B as n x k"
                                       : "C and D",
                                map.rows(), map.cols(),
                                info(is_a   ? instruction.a
                                     : is_b ? instruction.b
                                            : instruction.d)
                                    .name);
    picture.notes.insert(picture.notes.begin(), {print(instruction),
                                                 fmt::format("CuTe (thread, value) -> row + {} * col: {}", map.rows(),
                                                             print_cute(map.fragment)),
                                                 "T thread, r register; rows down and columns across, as the register "
                                                 "figures of the PTX ISA (9.7.15.5.1.1, 9.7.14.5.14)"});
    flags.svg.write(context, picture);
    return;
  }
  out << fmt::format("{} of {}: {} x {} {}, {} registers a thread\n",
                     is_a   ? "A"
                     : is_b ? "B, as n x k,"
                            : "C and D",
                     print(instruction), map.rows(), map.cols(),
                     info(is_a   ? instruction.a
                          : is_b ? instruction.b
                                 : instruction.d)
                         .name,
                     map.fragment.registers())
      << fmt::format("CuTe (thread, value) -> row + {} * col: {}\n\n", map.rows(), print_cute(map.fragment))
      << draw_fragment(map.fragment, flags.max_cols);
}

struct CuteFlags {
  std::string text, descriptor, arch = "sm_90a", major = "k";
  int element_bits = 16, max_lines = 32;
  bool json = false;
  SvgFlag svg;
};

/// Whether the descriptor finds every element where the layout says, from the descriptor's own start.
void compare_with_descriptor(Context& context, const CuteFlags& flags, const CuteLayout& cute) {
  const auto arch = arch_named(flags.arch);
  if (!arch) throw Error({.field = "--arch", .seen = flags.arch, .legal = "sm_90a, sm_100a or sm_103a"});
  const std::optional<uint64_t> word = parse_word(flags.descriptor);
  if (!word)
    throw Error(
        {.field = "--descriptor", .seen = flags.descriptor, .legal = "a 64-bit number such as 0x4000004000010000"});
  const SmemMatrix matrix{.descriptor = decode_smem_descriptor(*arch, *word),
                          .major = flags.major == "mn" ? Major::mn : Major::k,
                          .element_bits = flags.element_bits,
                          .rows = static_cast<int>(cute.rows),
                          .cols = static_cast<int>(cute.cols)};
  const SmemMap map(matrix);
  int64_t differ = 0;
  std::optional<std::pair<int, int>> first;
  for (int row = 0; row < matrix.rows; ++row) {
    for (int col = 0; col < matrix.cols; ++col) {
      if (map.place_of(row, col).byte ==
          cute.byte_of(row, col, flags.element_bits, matrix.descriptor.start_address_bytes))
        continue;
      ++differ;
      if (!first) first = {row, col};
    }
  }
  const std::string means = print_hardware_cute(matrix);
  context.exit_code = differ == 0 ? exit_same : exit_differs;
  if (flags.json) {
    Json json{{"cute", print(cute)},
              {"descriptor_cute", means},
              {"same", differ == 0},
              {"different_elements", differ},
              {"elements", cute.rows * cute.cols}};
    if (first) {
      json["first"] = {{"row", first->first},
                       {"col", first->second},
                       {"cute_byte", cute.byte_of(first->first, first->second, flags.element_bits,
                                                  matrix.descriptor.start_address_bytes)},
                       {"descriptor_byte", map.place_of(first->first, first->second).byte}};
    }
    context.terminal.out << json.dump(2) << '\n';
    return;
  }
  if (!first) {
    context.terminal.out << colored(context, 32,
                                    fmt::format("the descriptor implements this layout: all {} elements",
                                                cute.rows * cute.cols))
                         << '\n';
    return;
  }
  const auto& [row, col] = *first;
  context.terminal.out
      << colored(
             context, 31,
             fmt::format("the descriptor is another layout: {} of {} elements differ", differ, cute.rows * cute.cols))
      << '\n'
      << fmt::format("it means {}\nfirst: row {}, col {} is at byte {:#x} in the layout, at {:#x} by the descriptor\n",
                     means, row, col, cute.byte_of(row, col, flags.element_bits, matrix.descriptor.start_address_bytes),
                     map.place_of(row, col).byte);
}

void run_cute(Context& context, const CuteFlags& flags) {
  const bool power =
      flags.element_bits >= 4 && flags.element_bits <= 32 && (flags.element_bits & (flags.element_bits - 1)) == 0;
  if (!power)
    throw Error({.field = "--element-bits", .seen = std::to_string(flags.element_bits), .legal = "4, 8, 16 or 32"});
  const CuteLayout cute = parse_cute(flags.text, flags.element_bits);
  if (!flags.descriptor.empty()) {
    compare_with_descriptor(context, flags, cute);
    return;
  }
  const std::vector<PlacedElement> elements = placed_elements(cute, flags.element_bits);
  if (flags.svg.asked()) {
    Picture picture = picture_of_smem(elements, flags.element_bits, flags.max_lines);
    picture.title = fmt::format("{} x {} elements of {} bits", cute.rows, cute.cols, flags.element_bits);
    picture.notes.insert(picture.notes.begin(), {print(cute), "a line is 128 bytes, 32 banks; r rows, k columns"});
    flags.svg.write(context, picture);
    return;
  }
  if (flags.json) {
    Json list = Json::array();
    for (const PlacedElement& e : elements) list.push_back({{"row", e.row}, {"col", e.col}, {"byte", e.byte}});
    context.terminal.out
        << Json{{"cute", print(cute)}, {"rows", cute.rows}, {"cols", cute.cols}, {"elements", list}}.dump(2) << '\n';
    return;
  }
  context.terminal.out << fmt::format(
                              "{}\n{} x {} elements of {} bits; strides in elements, the swizzle on byte addresses\n\n",
                              print(cute), cute.rows, cute.cols, flags.element_bits)
                       << draw_smem(elements, flags.element_bits, flags.max_lines);
}

}  // namespace

void add_layout(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("layout", "where the elements of a matrix are");
  command->require_subcommand(0, 1);
  const auto cute_flags = std::make_shared<CuteFlags>();
  command->add_option("--cute", cute_flags->text,
                      "a layout in CuTe's notation, [Swizzle<B,M,S> o] shape:stride, to draw or compare");
  command->add_option("--descriptor", cute_flags->descriptor, "--cute: does this descriptor implement the layout?");
  command->add_option("--arch", cute_flags->arch, "--cute: whose descriptor: sm_90a, sm_100a or sm_103a")
      ->capture_default_str();
  command->add_option("--major", cute_flags->major, "--cute: k, or mn for transposed operands")
      ->check(CLI::IsMember({"k", "mn"}))
      ->capture_default_str();
  command->add_option("--element-bits", cute_flags->element_bits, "--cute: bits of an element")->capture_default_str();
  command->add_option("--max-lines", cute_flags->max_lines, "--cute: lines of the picture")->capture_default_str();
  command->add_flag("--json", cute_flags->json, "--cute: the answer as JSON");
  cute_flags->svg.add(*command);
  command->footer(
      "Examples:\n"
      "  bitmma layout --cute 'Swizzle<2,4,3> o ((8,4,2),(8,2)):((1,8,256),(32,512))'\n"
      "  bitmma layout --cute 'Swizzle<3,4,3> o ((8,8),(8,2)):((64,512),(1,8))' --descriptor 0x4000004000010000");
  command->callback([cute_flags, command, &context] {
    if (!command->get_subcommands().empty()) return;
    if (cute_flags->text.empty())
      throw Error({.field = "layout",
                   .seen = "nothing",
                   .legal = "a subcommand (smem, fragment, tmem, ldst, scales) or --cute",
                   .fix = "bitmma layout --help shows examples"});
    run_cute(context, *cute_flags);
  });
  const auto smem_flags = std::make_shared<SmemFlags>();
  CLI::App* smem = command->add_subcommand("smem", "shared memory, by descriptor");
  smem->add_option("--descriptor", smem_flags->descriptor, "64-bit matrix descriptor")->required();
  smem->add_option("--arch", smem_flags->arch, "sm_90a, sm_100a or sm_103a")->capture_default_str();
  smem->add_option("--major", smem_flags->major, "k, or mn for transposed operands")
      ->check(CLI::IsMember({"k", "mn"}))
      ->capture_default_str();
  smem->add_option("--element-bits", smem_flags->element_bits, "bits of an element in memory")->capture_default_str();
  smem->add_option("--rows", smem_flags->rows, "extent along M or N")->capture_default_str();
  smem->add_option("--cols", smem_flags->cols, "extent along K")->capture_default_str();
  smem->add_option("--byte", smem_flags->byte, "the reverse: which elements does this byte hold?");
  smem->add_option("--max-lines", smem_flags->max_lines, "lines of the picture")->capture_default_str();
  smem_flags->query.add(*smem);
  smem_flags->svg.add(*smem);
  smem->footer(
      "Examples:\n"
      "  bitmma layout smem --descriptor 0x4000004000010000 --rows 64 --cols 16\n"
      "  bitmma layout smem --descriptor 0x4000004000010000 --row 9 --col 8\n"
      "  bitmma layout smem --descriptor 0x4000004000010000 --rows 64 --byte 1184");
  smem->callback([smem_flags, &context] { run_smem(context, *smem_flags); });
  const auto fragment_flags = std::make_shared<FragmentFlags>();
  CLI::App* fragment = command->add_subcommand("fragment", "registers, by instruction");
  fragment->add_option("--instruction", fragment_flags->instruction, "PTX mnemonic")->required();
  fragment
      ->add_option("--operand", fragment_flags->operand,
                   "a, b (mma.sync), d (C is the same) or metadata; the columns of a sparse A are its stored ones")
      ->check(CLI::IsMember({"a", "b", "c", "d", "metadata"}))
      ->capture_default_str();
  fragment->add_option("--thread", fragment_flags->thread, "the reverse: thread of the warpgroup or warp ...");
  fragment->add_option("--register", fragment_flags->reg, "... register ...");
  fragment->add_option("--bit", fragment_flags->bit, "... and bit: which element is there?")->capture_default_str();
  fragment->add_option("--max-cols", fragment_flags->max_cols, "columns of the picture")->capture_default_str();
  fragment_flags->query.add(*fragment);
  fragment_flags->svg.add(*fragment);
  fragment->footer(
      "Examples:\n"
      "  bitmma layout fragment --instruction wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 --operand d\n"
      "  bitmma layout fragment --instruction wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 --operand a --thread "
      "5 --register 2\n"
      "  bitmma layout fragment --instruction "
      "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 --operand b");
  fragment->callback([fragment_flags, &context] { run_fragment(context, *fragment_flags); });
  add_tmem_layouts(*command, context);
}

}  // namespace bitmma::cli
