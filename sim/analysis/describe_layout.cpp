// SPDX-License-Identifier: MIT
#include "bitmma/analysis/describe_layout.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bitmma/core/text.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/place.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/layout/canonical.hpp"

namespace bitmma {
namespace {

/// What a stride of a canonical layout steps over.
std::string meaning_of_stride(const LayoutDescriptor& layout, bool leading) {
  const SwizzleInfo& swizzle = info(layout.first.swizzle);
  const int64_t width = swizzle.width_bytes / 16 * layout.t;
  if (layout.major == Major::k) {
    if (!leading) return "from 8 rows to the next 8";
    return swizzle.bits == 0 ? fmt::format("from {} values of k to the next {}", layout.t, layout.t)
                             : fmt::format("from {} values of k to the next {}", width, width);
  }
  if (leading == (swizzle.bits != 0)) return fmt::format("from {} rows to the next {}", width, width);
  return fmt::format("from {0} values of k to the next {0}", swizzle.rows_per_atom);
}

/// LBO or SBO.
ReportRow stride_row(const LayoutDescriptor& layout, bool leading) {
  const Strides& strides = layout.first.strides;
  const int64_t bytes = leading ? strides.leading_dim_byte_offset : strides.stride_dim_byte_offset;
  const bool counts = leading ? layout.leading_counts : layout.stride_counts;
  return {.key = leading ? "lbo" : "sbo",
          .label = leading ? "LBO" : "SBO",
          .value = {{"bytes", bytes}, {"encoded", bytes / 16}, {"counts", counts}},
          .text = leading && layout.first.leading_dim_absolute
                      ? "the address of the second 128-byte line of each step: absolute mode (bit 52) for K = 96"
                      : fmt::format("{} bytes, encoded {}: {}", bytes, bytes / 16,
                                    counts ? meaning_of_stride(layout, leading) : "not used by this layout")};
}

std::string print_descriptor(uint64_t word) { return fmt::format("{:#018x}", word); }

/// The descriptor of each step. The text has what changes between steps.
ReportRows rows_of_steps(const LayoutDescriptor& layout, bool has_stages) {
  const bool has_rows = std::ranges::any_of(layout.steps, [](const DescriptorStep& step) { return step.row != 0; });
  ReportRows rows;
  for (const DescriptorStep& step : layout.steps) {
    const int64_t field = step.start_bytes / 16, before = layout.steps.front().start_bytes / 16;
    rows.push_back(
        {{"stage", has_stages ? "stage" : "", step.stage},
         {"row", has_rows ? "row" : "", step.row},
         {"k", "k", step.col},
         {"start", "start", step.start_bytes, fmt::format("{:#x}", step.start_bytes)},
         {"descriptor", "descriptor", print_descriptor(step.descriptor)},
         {"", "start field", field, field == before ? "" : fmt::format("{} ({:+})", field, field - before)}});
  }
  return rows;
}

void add_descriptors(Report& report, const CuteLayout& cute, const LayoutDescriptor& layout, int max_lines) {
  const SwizzleInfo& mode = info(layout.first.swizzle);
  const std::string canonical = print_canonical(layout.major, mode);
  report["descriptor"] = print_descriptor(encode(layout.first));
  report.add_rows({{"major", "", print(layout.major)},
                   {"swizzle", "", mode.name},
                   {"canonical", "canonical", fmt::format("{} o {}", print(cute.swizzle), canonical),
                    fmt::format("{} o {}, {}", print(mode), canonical, print(layout.major))},
                   {"", "parameters", fmt::format("T {}, m {}, k {}", layout.t, layout.m, layout.k)},
                   {"t", "", layout.t},
                   {"m", "", layout.m},
                   {"k", "", layout.k},
                   {"leading_dim_absolute", "", layout.first.leading_dim_absolute},
                   stride_row(layout, true),
                   stride_row(layout, false)});
  const ReportRows steps = rows_of_steps(layout, cute.stages() > 1);
  const auto shown = std::min(steps.size(), static_cast<size_t>(std::max(0, max_lines)));
  report.add("steps", objects_of(steps)).add_text("\n" + print_table(table_of(steps, shown)));
  if (shown < steps.size()) report.add_text(fmt::format("... {} more; --json has them all", steps.size() - shown));
}

/// True if the descriptor equals the one with which each instruction reads 32 bytes of K of the layout. Strides that
/// have no effect are not compared.
bool reads_by_steps(CuteLayout cute, const SmemMatrix& matrix) {
  cute.start_bytes = matrix.descriptor.start_address_bytes;
  if (cute.cols * cute.element_bits <= 256 || matrix.descriptor.leading_dim_absolute) return false;
  const DescriptorAnswer answer = descriptors_of(cute, {.target = matrix.descriptor.target, .major = matrix.major});
  if (!answer.descriptors) return false;
  SmemDescriptor seen = matrix.descriptor;
  const Strides& strides = answer.descriptors->first.strides;
  if (!answer.descriptors->leading_counts) seen.strides.leading_dim_byte_offset = strides.leading_dim_byte_offset;
  if (!answer.descriptors->stride_counts) seen.strides.stride_dim_byte_offset = strides.stride_dim_byte_offset;
  return seen == answer.descriptors->first;
}

/// The first element at a different byte than the descriptor reads; `owner` names the source of the other byte.
void add_first(Report& report, const PlaceDifference& difference, std::string_view owner) {
  if (!difference.first) return;
  report.add("first", {{"row", difference.first->row},
                       {"col", difference.first->col},
                       {fmt::format("{}_byte", owner), difference.first->byte},
                       {"descriptor_byte", difference.first->descriptor_byte}});
}

/// Names the first thread whose register 0 starts at another element.
std::string why_no_ldmatrix(const Fragment& fragment) {
  if (fragment.is_wide()) return "the fragment's registers have 64 bits, those of ldmatrix 32";
  for (int thread = 0; thread < fragment.threads; ++thread) {
    const MatrixPlace held = element_at(fragment, thread, 0, 0);
    const LdMatrixElement moved = element_at(LdMatrix{}, thread, 0, 0);
    const int byte = held.col * fragment.element_bits / 8;
    if (held.row == moved.row && byte == 2 * moved.col) continue;
    return fmt::format(
        "register 0 of thread {} begins with row {}, byte {} in the fragment, but with row {}, byte {} after an "
        "ldmatrix",
        thread, held.row, byte, moved.row, 2 * moved.col);
  }
  return "ldmatrix puts the elements into other registers than the fragment";
}

/// The instructions that fill a fragment from a matrix whose blocks of 8 rows of 16 bytes start at `blocks`: elements
/// of the report's list, and a table. `rows_are` and `cols_are` name the memory's rows and columns: M, N or K.
void add_moves(Report& report, const Fragment& fragment, const std::vector<MatrixBlock>& blocks, LdMatrix move,
               std::string_view rows_are, std::string_view cols_are) {
  const int rows = move.transposed ? fragment.cols : fragment.rows,
            cols = move.transposed ? fragment.rows : fragment.cols;
  std::string mnemonics;
  std::vector<std::vector<std::string>> table{{"register", "matrix", "rows", "bytes", "addresses"}};
  size_t reg = 0;
  for (const int count : ldmatrix_counts(fragment.registers())) {
    move.count = count;
    Report matrices = Report::list();
    for (int matrix = 0; matrix < count; ++matrix, ++reg) {
      const auto [row, byte] = blocks[reg];
      matrices.append({{"matrix", matrix}, {"register", reg}, {"row", row}, {"byte", byte}});
      table.push_back({std::to_string(reg), std::to_string(matrix), fmt::format("{}-{}", row, row + 7),
                       fmt::format("{}-{}", byte, byte + 15),
                       fmt::format("T{}-T{}", address_thread(move, matrix, 0), address_thread(move, matrix, 7))});
    }
    report["moves"].append({{"instruction", print(move)},
                            {"targets", print_targets(move)},
                            {"stored_rows", rows},
                            {"stored_cols", cols},
                            {"matrices", std::move(matrices)}});
    mnemonics += fmt::format("{}{} ({})", mnemonics.empty() ? "" : ", ", print(move), print_targets(move));
  }
  report.add_text(fmt::format("\nin memory {} x {}, {} rows of {} bytes: {}", rows_are, cols_are, rows,
                              cols * fragment.element_bits / 8, mnemonics));
  report.add_text(table);
}

}  // namespace

Report describe(const CuteLayout& cute, Target target, const DescriptorAnswer& answer, int max_lines) {
  Report report{{"target", print(target)}, {"cute", print(cute)},   {"element_bits", cute.element_bits},
                {"rows", cute.rows},       {"cols", cute.cols},     {"stages", cute.stages()},
                {"remarks", cute.remarks}, {"descriptor", Report()}};
  report.add_text(print(cute));
  report.add_text(fmt::format("{} x {} elements of {} bits{}, for {}", cute.rows, cute.cols, cute.element_bits,
                              cute.stages() > 1 ? fmt::format(", {} stages", cute.stages()) : "", print(target)));
  for (const std::string& remark : cute.remarks) report.add_text("read as     " + remark);
  if (answer.descriptors) {
    add_descriptors(report, cute, *answer.descriptors, max_lines);
  } else {
    report.add_text("no descriptor means this layout:", Tone::bad);
    for (const Violation& reason : answer.reasons) report.add_text("  " + print(reason));
  }
  return report.add("reasons", answer.reasons).add("warnings", answer.warnings);
}

LayoutComparison compare(const CuteLayout& cute, const SmemMatrix& matrix) {
  const int64_t start = matrix.descriptor.start_address_bytes, elements = cute.rows * cute.cols;
  const PlaceDifference difference =
      difference_of(matrix, [&](int row, int col) { return cute.byte_of(row, col, matrix.element_bits, start); });
  const bool is_equal = difference.elements == 0, by_steps = !is_equal && reads_by_steps(cute, matrix);
  const std::string means = print_hardware_cute(matrix);
  Report report{{"target", print(matrix.descriptor.target)},
                {"cute", print(cute)},
                {"descriptor_cute", means},
                {"same", is_equal},
                {"same_by_instructions", is_equal || by_steps},
                {"different_elements", difference.elements},
                {"elements", elements}};
  add_first(report, difference, "cute");
  if (is_equal) {
    report.add_text(fmt::format("the descriptor implements this layout: all {}", counted(elements, "element")),
                    Tone::good);
  } else if (by_steps) {
    report.add_text("the descriptor implements this layout, 32 bytes of K at a time", Tone::good);
    report.add_text("layout descriptor --cute prints the descriptor of every step");
    if (const auto shared = shared_bytes_of(cute))
      report.add_text(fmt::format("the layout overlaps itself: row {}, k {} and row {}, k {} share a byte", shared->row,
                                  shared->col, shared->other_row, shared->other_col));
  } else {
    report.add_text(fmt::format("the descriptor has another layout: {} of {} differ", difference.elements,
                                counted(elements, "element")),
                    Tone::bad);
    report.add_text(fmt::format("it means {}", means));
    report.add_text(fmt::format(
        "first: row {}, col {} is at byte {:#x} in the layout, and at {:#x} according to the descriptor",
        difference.first->row, difference.first->col, difference.first->byte, difference.first->descriptor_byte));
  }
  return {.is_same = is_equal || by_steps, .report = std::move(report)};
}

LayoutComparison compare(const TmaTile& tile, const SmemMatrix& matrix) {
  const PlaceDifference difference = difference_of(tile, matrix);
  const int64_t elements = int64_t{matrix.rows} * matrix.cols;
  const std::string_view written = info(tile.swizzle).name, read = info(matrix.descriptor.swizzle).name;
  Report report{{"target", print(matrix.descriptor.target)},
                {"tma_swizzle", written},
                {"descriptor_swizzle", read},
                {"same", difference.elements == 0},
                {"different_elements", difference.elements},
                {"elements", elements}};
  add_first(report, difference, "tma");
  if (!difference.first) {
    report.add_text(fmt::format("the descriptor reads what TMA writes: all {}", counted(elements, "element")),
                    Tone::good);
    return {.is_same = true, .report = std::move(report)};
  }
  report.add_text(fmt::format("the descriptor reads something else: {} of {} differ", difference.elements,
                              counted(elements, "element")),
                  Tone::bad);
  report.add_text(fmt::format(
      "first: row {}, col {}: TMA writes it to byte {:#x}, but the descriptor reads it at {:#x}", difference.first->row,
      difference.first->col, difference.first->byte, difference.first->descriptor_byte));
  if (written != read)
    report.add_text(fmt::format("the tensor map's swizzle is {}, the descriptor's {}", written, read));
  return {.is_same = false, .report = std::move(report)};
}

LayoutComparison describe_places(const MetadataImage& image) {
  const MetadataPlaces places = places_of_metadata(image);
  const MetadataOrderInfo& order = info(image.order);
  const bool is_good = places.is_one_to_one();
  Report report{{"order", order.name},     {"element_bits", image.element_bits},
                {"rows", image.rows},      {"cols", image.cols},
                {"one_to_one", is_good},   {"chunks", places.chunks},
                {"shared", places.shared}, {"outside", places.outside}};
  if (is_good) {
    report.add_text(fmt::format("one-to-one: each of the {} has a place of its own in {} bytes",
                                counted(places.chunks, "chunk"), image.bytes()),
                    Tone::good);
    return {.is_same = true, .report = std::move(report)};
  }
  const MetadataPlaces::Clash& first = *places.first;
  report.add("first", {{"row", first.row},
                       {"chunk", first.chunk},
                       {"other_row", first.other_row},
                       {"other_chunk", first.other_chunk},
                       {"byte", first.bit / 8},
                       {"bit", first.bit % 8}});
  report.add_text(fmt::format("not one-to-one: of {} {} share a place and {} are outside the {} bytes",
                              counted(places.chunks, "chunk"), places.shared, places.outside, image.bytes()),
                  Tone::bad);
  const bool is_outside = first.row == first.other_row && first.chunk == first.other_chunk;
  report.add_text(fmt::format(
      "first: row {}, chunk {} at byte {}, bit {}{}", first.row, first.chunk, first.bit / 8, first.bit % 8,
      is_outside ? ", outside" : fmt::format(", where row {}, chunk {} is too", first.other_row, first.other_chunk)));
  if (image.order == MetadataOrder::sm80) {
    const Sm80Steps steps = sm80_steps(image.element_bits);
    report.add_text(fmt::format("reorder_meta needs rows in multiples of {} and columns in multiples of {}", steps.rows,
                                steps.cols));
  }
  return {.is_same = false, .report = std::move(report)};
}

std::string print_targets(const LdMatrix& move) {
  if (move.shape != LdMatrixShape::m8n8) return print(target_sets::tcgen05 | target_sets::consumer_blackwell);
  return print(TargetSet::from(move.store ? Target::sm_90 : Target::sm_75));
}

Report describe_moves(const MmaSync& instruction, std::string_view operand, bool store) {
  const Fragment fragment = fragment_of(instruction, operand);
  const std::string_view rows_are = operand == "b" ? "n" : "m", cols_are = operand == "a" || operand == "b" ? "k" : "n";
  Report report{{"fragment", print(Instruction(instruction))},
                {"operand", operand},
                {"rows", fragment.rows},
                {"cols", fragment.cols},
                {"element_bits", fragment.element_bits},
                {"registers", fragment.registers()},
                {"moves", Report::list()}};
  report.add_text(fmt::format("{:c} of {}: {} x {}, {} x {} elements of {} bits, {} per thread", operand[0] - 'a' + 'A',
                              print(Instruction(instruction)), rows_are, cols_are, fragment.rows, fragment.cols,
                              fragment.element_bits, counted(fragment.registers(), "register")));
  const auto blocks = ldmatrix_blocks(fragment, false), turned = ldmatrix_blocks(fragment, true);
  LdMatrix move{.store = store || operand == "d"};
  if (blocks) add_moves(report, fragment, *blocks, move, rows_are, cols_are);
  move.transposed = true;
  if (turned) add_moves(report, fragment, *turned, move, cols_are, rows_are);
  if (!blocks && !turned) {
    const std::string reason = why_no_ldmatrix(fragment);
    report.add("reason", reason).add_text("\nno ldmatrix or stmatrix fits: " + reason);
  } else if (fragment.element_bits != 16) {
    report.add_text(
        fmt::format("\nin memory {} x {}: none, because .trans transposes elements of 16 bits, and these have {}",
                    cols_are, rows_are, fragment.element_bits));
  }
  return report;
}

TmemNeeds tmem_needs_of(const Tcgen05Mma& instruction) {
  const Mma mma = mma_of(instruction);
  const TmemLayoutInfo& layout =
      find_tmem_layout(instruction.m, instruction.cta_group, instruction.weight_stationary, instruction.sparse);
  const TmemMetadata metadata{
      .layout = layout, .element_bits = mma.a_container_bits, .k = mma.k, .single_elements = mma.sparsity_version == 1};
  return {.layout = layout,
          .n = instruction.n,
          .a_row_bits = instruction.a_source == OperandSource::tmem ? mma.stored_k() * mma.a_container_bits : 0,
          .scale_count = mma.scale_count,
          .metadata_columns = instruction.sparse ? metadata.columns() : 0};
}

bool grows_along_k(const TmemNeeds& needs) {
  return needs.a_row_bits > 0 || needs.scale_count > 0 || needs.metadata_columns > 0;
}

TmemPlanReport describe(const Tcgen05Mma& instruction, const TmemNeeds& needs, int ctas) {
  if (ctas < 1 || ctas > 32) throw Error({.field = "ctas", .seen = std::to_string(ctas), .expected = "1..32"});
  const TmemPlan plan = plan_tmem(needs);
  const bool is_allocated = plan.allocation != 0, fits = is_allocated && ctas <= plan.ctas_per_sm;
  Picture picture{.title = fmt::format("{}, M = {}, N = {}, K = {}: layout {}{}", print(Instruction(instruction)),
                                       instruction.m, instruction.n, instruction.k, needs.layout.name,
                                       instruction.cta_group == 2 ? "; columns of each CTA of the pair" : ""),
                  .corner = "piece",
                  .column_heads = {"columns", "first", "address"}};
  Report pieces = Report::list();
  for (int cta = 0; cta < (fits ? ctas : 1); ++cta) {
    const TmemPlan placed = cta == 0 ? plan : plan_tmem(needs, cta * plan.allocation);
    for (const TmemPiece& piece : placed.pieces) {
      const int color = static_cast<int>(picture.rows.size() % placed.pieces.size()) % picture_colors;
      const std::string address = fmt::format("{:#010x}", piece.address);
      picture.rows.push_back({ctas > 1 && fits ? fmt::format("CTA {} {}", cta, piece.name) : piece.name,
                              {{.text = std::to_string(piece.columns), .color = color},
                               {.text = std::to_string(piece.column), .color = color},
                               {.text = address, .color = color}}});
      if (cta == 0)
        pieces.append(
            {{"name", piece.name}, {"column", piece.column}, {"columns", piece.columns}, {"address", address}});
    }
  }
  Report report{{"pieces", std::move(pieces)},
                {"m", instruction.m},
                {"n", instruction.n},
                {"ctas", ctas},
                {"columns", plan.columns},
                {"allocation", is_allocated ? Report(plan.allocation) : Report()},
                {"ctas_per_sm", plan.ctas_per_sm},
                {"fits", fits}};
  report.add_text(to_text(picture) + "\n");
  if (!is_allocated) {
    report.add_text(fmt::format("does not fit: {} of {} columns", plan.columns,
                                needs.exclusive ? tmem_columns_exclusive : tmem_columns),
                    Tone::bad);
    return {.fits = false, .report = std::move(report), .picture = std::move(picture)};
  }
  report.add_text(fmt::format("tcgen05.alloc{} of {} columns for {}; {} of them on an SM",
                              needs.exclusive ? ".exclusive" : "", plan.allocation, plan.columns,
                              counted(plan.ctas_per_sm, "CTA")));
  if (!fits) report.add_text(fmt::format("{} CTAs do not fit", ctas), Tone::bad);
  if (needs.layout.half_lanes && needs.accumulators > 1)
    report.add_text(
        "M = 64 rows per CTA fill only 16 of every 32 lanes: another D fits into the same columns, from lane 16 on");
  report.add_text(
      "assumption: PTX does not document which columns tcgen05.alloc returns; these addresses count from the first "
      "allocated column");
  return {.fits = fits, .report = std::move(report), .picture = std::move(picture)};
}

}  // namespace bitmma
