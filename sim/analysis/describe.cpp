// SPDX-License-Identifier: MIT
#include "bitmma/analysis/describe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <type_traits>

#include "bitmma/descriptor/descriptor_meaning.hpp"
#include "bitmma/descriptor/zero_column_mask.hpp"
#include "bitmma/memory/smem.hpp"
#include "explain_text.hpp"

namespace bitmma {
namespace {

using Table = std::vector<std::vector<std::string>>;

/// The bits that distinguish descriptors of Hopper and Blackwell.
constexpr std::string_view version_bits = "bits 46-48";

struct PlaceReport {
  Report operator()(const SmemRead& read) const {
    return {{"cta", read.cta}, {"unswizzled_byte", read.linear}, {"byte", read.place.byte}, {"bit", read.place.bit}};
  }
  Report operator()(const RegisterPlace& place) const {
    return {{"thread", place.thread}, {"register", place.reg}, {"bit", place.bit}};
  }
  Report operator()(const TmemPlace& place) const {
    return {{"cta", place.cta}, {"lane", place.lane}, {"column", place.column}, {"bit", place.bit}};
  }
};

Report number_report(Format format, uint64_t code) {
  return {{"bits", print_bits(format, code)}, {"value", print_value(format, code)}};
}

Report aligned_report(const AlignedNumber& number) {
  return {{"exponent", number.exponent},
          {"kept", number.kept},
          {"bits_dropped", number.loses_bits},
          {"dropped", number.dropped}};
}

/// Adds the details of a kind of sum to the report of a step.
class SumReport {
 public:
  SumReport(const Explanation& explanation, const ExplainedStep& step, Report& report)
      : explanation_(explanation), step_(step), report_(report) {}

  void operator()(const SumOfProducts& sum) const {
    for (size_t i = 0; i < sum.terms.size(); ++i) {
      add_product(i);
      report_["terms"][i].update(aligned_report(sum.terms[i]));
    }
    if (step_.c_bits) report_["c"].update(aligned_report(sum.c));
    add_alignment(sum.alignment);
    report_["sum"] = sum.sum;
  }
  void operator()(const SumOfGroups& sum) const {
    for (size_t i = 0; i < step_.terms.size(); ++i) add_product(i);
    report_["groups"] = Report::list();
    for (const ExplainedGroup& group : sum.groups) {
      Report row{{"first_term", group.first_term},
                 {"sum_quarters", group.sum_quarters},
                 {"scale_a", print_bits(group.scales.format, group.scales.a)},
                 {"scale_b", print_bits(group.scales.format, group.scales.b)}};
      row.update(aligned_report(group.aligned));
      report_["groups"].append(std::move(row));
    }
    if (step_.c_bits) report_["c"].update(aligned_report(sum.c));
    add_alignment(sum.alignment);
    report_["sum"] = sum.sum;
  }
  void operator()(const SumOfIntegers& sum) const {
    for (size_t i = 0; i < sum.products.size(); ++i) {
      report_["terms"][i].update(Report{{"kept", sum.products[i]}, {"bits_dropped", false}, {"dropped", 0.0}});
    }
    if (step_.c_bits) report_["c"].update(aligned_report({.kept = sum.c}));
    report_["sum"] = sum.sum;
  }
  void operator()(const IeeeOperation& operation) const {
    report_["operation"] = operation.what;
    if (operation.other) report_["other"] = number_report(step_.c_format, *operation.other);
  }
  void operator()(const SpecialResult& special) const {
    for (Report& term : std::get<Report::List>(report_["terms"].value)) term.update(aligned_report({}));
    if (step_.c_bits) report_["c"].update(aligned_report({}));
    report_["special"] = print_value(explanation_.d_format, special.code);
  }

 private:
  void add_product(size_t i) const {
    const Exact& product = step_.terms[i].product;
    report_["terms"][i]["product"] = {
        {"negative", product.negative}, {"magnitude", product.magnitude}, {"exponent", product.exponent}};
  }
  void add_alignment(const Alignment& alignment) const {
    report_["max_exponent"] = alignment.max_exponent;
    report_["max_exponent_by"] = alignment.by;
    report_["quantum_exponent"] = alignment.quantum;
  }

  const Explanation& explanation_;
  const ExplainedStep& step_;
  Report& report_;
};

Report step_report(const Explanation& e, const ExplainedStep& step) {
  Report terms = Report::list();
  for (const ExplainedTerm& term : step.terms) {
    Report row{{"k", term.k},
               {"a", print_bits(e.a, term.a_bits)},
               {"a_value", print_value(e.a, term.a_bits)},
               {"b", print_bits(e.b, term.b_bits)},
               {"b_value", print_value(e.b, term.b_bits)}};
    // If the hardware ignores bits, shows the bits that it uses.
    if (info(e.a).ignored_bits > 0) row["a_used"] = print_bits(e.a, used_bits(e.a, term.a_bits));
    if (info(e.b).ignored_bits > 0) row["b_used"] = print_bits(e.b, used_bits(e.b, term.b_bits));
    if (term.a_place) row["a_place"] = describe(*term.a_place);
    if (term.b_place) row["b_place"] = describe(*term.b_place);
    if (term.b_high_place) row["b_high_place"] = describe(*term.b_high_place);
    if (term.metadata) {
      row["metadata"] = {{"chunk", term.metadata->chunk},
                         {"bits", fmt::format("{:#06b}", term.metadata->bits)},
                         {"place", describe(term.metadata->place)}};
    }
    terms.append(std::move(row));
  }
  Report report{{"terms", terms}};
  if (step.c_bits) {
    report["c"] = number_report(step.c_format, *step.c_bits);
    if (step.c_place) report["c"]["place"] = describe(*step.c_place);
  }
  report["special"] = Report();
  std::visit(SumReport(e, step, report), step.sum);
  if (step.loss) {
    report["dropped"] = {{"by_aligning", step.loss->aligning},
                         {"by_aligning_ulp", step.loss->aligning_ulp},
                         {"by_rounding_ulp", step.loss->rounding_ulp}};
  }
  return report;
}

/// The raw values of a word's fields.
template <typename Rows>
Report raw_fields(const Rows& rows, uint64_t word) {
  Report report = Report::object();
  for (const auto& row : rows) report.add(std::string(row.bits.name), extract(word, row.bits));
  return report;
}

std::string bit_range(const BitField& bits) {
  return fmt::format("{}-{}", bits.low_bit, bits.low_bit + bits.width_bits - 1);
}

/// Decodes a word by its field table.
template <typename Rows>
Table table_of(const Rows& rows, uint64_t word) {
  Table table{{"bits", "field", "raw", "meaning"}};
  for (const auto& row : rows) {
    table.push_back({bit_range(row.bits), std::string(row.bits.name), std::to_string(extract(word, row.bits)),
                     std::string(row.meaning)});
  }
  return table;
}

bool is_in_units_of_16_bytes(const DescriptorField& field) { return field.unit == DescriptorField::Unit::bytes_16; }

class WordReport {
 public:
  explicit WordReport(uint64_t word) : word_(word) {}

  Report operator()(const SmemWord& type) const {
    const SmemDescriptor descriptor = decode_smem_descriptor(type.target, word_);
    Report fields = Report::object(), meanings = Report::object();
    Table table{{"bits", "field", "raw", "bytes", "meaning"}};
    for (const DescriptorField& field : smem_descriptor_fields(descriptor.target)) {
      const std::string name(field.bits.name), meaning = meaning_of(descriptor, name, type.major);
      const uint64_t raw = extract(word_, field.bits);
      const bool in_units = is_in_units_of_16_bytes(field);
      fields.add(name, in_units ? raw * 16 : raw);
      meanings.add(name, meaning);
      table.push_back(
          {bit_range(field.bits), name, std::to_string(raw), in_units ? std::to_string(raw * 16) : "", meaning});
    }
    const std::string word = fmt::format("{:#018x}", word_), target(print(descriptor.target));
    Report report;
    report.add_text(fmt::format("{}, shared-memory descriptor of {}", word, target));
    report.add_text(table);
    report.add("descriptor", word);
    report.add("target", target);
    report.add("arch", target);
    report.add("fields", std::move(fields));
    report.add("swizzle_mode", info(descriptor.swizzle).name);
    std::vector<Violation> doubtful = warnings(descriptor, type.major);
    const std::vector<Violation> doubts = doubts_about(type.target, word_);
    // Report once that the word may be for another GPU, and add those readings.
    const auto is_version = [](const Violation& violation) { return violation.field == version_bits; };
    if (std::ranges::any_of(doubts, is_version)) {
      std::erase_if(doubtful, [&](const Violation& violation) {
        return is_version(violation) ||
               (violation.field == "reserved bits" && descriptor.reserved == uint64_t{1} << 46);
      });
    }
    doubtful.insert(doubtful.begin(), doubts.begin(), doubts.end());
    report.add_warnings(as_warnings(std::move(doubtful)));
    return report.add("meanings", std::move(meanings));
  }

  Report operator()(const InstructionWord& type) const {
    if (word_ > 0xFFFFFFFF) {
      throw Error({.code = ViolationCode::wrong_type,
                   .field = "instruction descriptor",
                   .seen = fmt::format("{:#x}", word_),
                   .expected = "a 32-bit number, or one in the upper half of a 64-bit word",
                   .fix = fmt::format("--kind {} selects an instruction descriptor; without --kind, the word is "
                                      "decoded as a shared-memory descriptor",
                                      info(type.kind).name)});
    }
    const InstructionDescriptor descriptor = decode_instruction_descriptor(type.kind, static_cast<uint32_t>(word_));
    const MmaKindInfo& kind = info(type.kind);
    const std::string word = fmt::format("{:#010x}", word_);
    Report report;
    report.add_text(
        fmt::format("{}, instruction descriptor of kind::{} (PTX ISA Table {})", word, kind.name, kind.table));
    report.add_text(print_shape_and_types(descriptor));
    report.add_text(table_of(instruction_descriptor_fields(type.kind), word_));
    report.add_text(fmt::format(
        "D occupies {} columns of Tensor Memory, or {} if two parts of N are side by side in lanes{}; tcgen05.alloc "
        "allocates 32, 64, 128, 256 or 512",
        descriptor.n, descriptor.n / 2, descriptor.m == 32 ? fmt::format(", {} with four", descriptor.n / 4) : ""));
    report.add("idesc", word);
    report.add("kind", kind.name);
    report.add("m", descriptor.m);
    report.add("n", descriptor.n);
    report.add("d", info(descriptor.d).name);
    report.add("a", info(descriptor.a).name);
    report.add("b", info(descriptor.b).name);
    if (kind.has_block_scales) report.add("scale_type", info(descriptor.scale_type).name);
    report.add("fields", raw_fields(instruction_descriptor_fields(type.kind), word_));
    return report.add_warnings(as_warnings(warnings(descriptor, type.target)));
  }

  Report operator()(const ZeroColumnWord& type) const {
    const ZeroColumnMask mask = decode_zero_column_mask(word_);
    std::string columns;
    for (const bool zeroed : zeroed_columns(mask, type.m, type.n)) columns += zeroed ? '1' : '0';
    const std::string word = fmt::format("{:#018x}", word_);
    Report report;
    report.add_text(fmt::format("{}, zero-column mask of tcgen05.mma.ws with M = {}, N = {}", word, type.m, type.n));
    report.add_text(table_of(zero_column_mask_fields(), word_));
    report.add_text("columns of D; 1 means that the column of B is treated as zero");
    for (size_t first = 0; first < columns.size(); first += 64)
      report.add_text(fmt::format("{:>4}  {}", first, columns.substr(first, 64)));
    report.add("zero_column_mask", word);
    report.add("m", type.m);
    report.add("n", type.n);
    report.add("fields", raw_fields(zero_column_mask_fields(), word_));
    return report.add("columns", std::move(columns));
  }

 private:
  uint64_t word_;
};

template <typename Rows>
Report difference(const Rows& rows, uint64_t first_word, uint64_t second_word) {
  Table table{{"field", "first", "second", "second - first"}};
  Report changed = Report::object();
  uint64_t known = 0;
  const auto add = [&](std::string_view field, uint64_t first, uint64_t second, bool in_units) {
    if (first == second) return;
    const char sign = second < first ? '-' : '+';
    const uint64_t by = second < first ? first - second : second - first;
    table.push_back({std::string(field), fmt::format("{:#x}", first), fmt::format("{:#x}", second),
                     fmt::format("{}{}{}", sign, by, in_units ? fmt::format(" ({}{} bytes)", sign, 16 * by) : "")});
    changed.add(std::string(field), std::vector{first, second});
  };
  for (const auto& row : rows) {
    known |= row.bits.mask();
    bool in_units = false;
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(row)>, DescriptorField>)
      in_units = is_in_units_of_16_bytes(row);
    add(row.bits.name, extract(first_word, row.bits), extract(second_word, row.bits), in_units);
  }
  add("other bits", first_word & ~known, second_word & ~known, false);
  Report report;
  if (table.size() == 1) {
    report.add_text("no difference: the two words are equal");
  } else {
    report.add_text("differences in the stored fields:");
    report.add_text(table);
  }
  return report.add("difference_from_first", std::move(changed));
}

/// "start 0x0, LBO 16, SBO 1024, swizzle 128".
std::string print_reading(const SmemDescriptor& descriptor) {
  return fmt::format("start {:#x}, LBO {}, SBO {}, swizzle {}", descriptor.start_address_bytes,
                     descriptor.strides.leading_dim_byte_offset, descriptor.strides.stride_dim_byte_offset,
                     info(descriptor.swizzle).name);
}

/// The kinds whose instruction descriptor the word can be, with its meaning: "M = 128, N = 64 of kind::f16".
std::vector<std::string> readings_as_idesc(uint64_t word) {
  std::vector<std::string> readings;
  for (const MmaKindInfo& kind : mma_kinds) {
    try {
      const InstructionDescriptor descriptor = decode_instruction_descriptor(kind.id, static_cast<uint32_t>(word));
      const std::string shape = fmt::format("M = {}, N = {} of ", descriptor.m, descriptor.n);
      const bool is_same = !readings.empty() && readings.back().starts_with(shape);
      if (is_same) readings.back() += fmt::format(" or kind::{}", kind.name);
      else readings.push_back(fmt::format("{}kind::{}", shape, kind.name));
    } catch (const Error&) {
    }
  }
  return readings;
}

/// Whether an instruction that reads 256 rows and `row_bytes` of K (or that many columns of MN-major) reads the same
/// bytes through both descriptors.
struct Alike {
  bool same = true;
  std::string where = {};
};
Alike compare_reads(const SmemDescriptor& first, const SmemDescriptor& second, Major major, int row_bytes) {
  const auto map = [&](const SmemDescriptor& descriptor) {
    return SmemMap({.descriptor = descriptor, .major = major, .element_bits = 16, .rows = 256, .cols = row_bytes / 2});
  };
  const SmemMap smem_map = map(first), other = map(second);
  for (int row = 0; row < 256; ++row) {
    for (int col = 0; col < row_bytes / 2; ++col) {
      const int64_t at = smem_map.place_of(row, col).byte, elsewhere = other.place_of(row, col).byte;
      if (at == elsewhere) continue;
      const std::string of_k = major == Major::k ? fmt::format("byte {} of K", 2 * col) : fmt::format("k {}", col);
      return {.same = false, .where = fmt::format("row {}, {}: at {:#x}, and at {:#x}", row, of_k, at, elsewhere)};
    }
  }
  return {};
}

/// Compares what two shared-memory descriptors read.
Report reads_alike(const SmemWord& type, uint64_t first_word, uint64_t second_word) {
  const SmemDescriptor first = decode_smem_descriptor(type.target, first_word),
                       second = decode_smem_descriptor(type.target, second_word);
  Report report, alike = Report::object();
  for (const Major major : {Major::k, Major::mn}) {
    if (type.major && *type.major != major) continue;
    const Alike reads = compare_reads(first, second, major, 32);
    alike.add(std::string(print(major)), reads.same);
    const bool is_k = major == Major::k;
    report.add_text(reads.same ? fmt::format("{}: the hardware reads the same bytes with both", print(major))
                               : fmt::format("{}: the hardware reads different bytes; first difference: {}",
                                             print(major), reads.where),
                    reads.same ? Tone::good : Tone::warning);
    if (!reads.same || !is_k || first.leading_dim_absolute || second.leading_dim_absolute) continue;
    if (const Alike wide = compare_reads(first, second, major, 64); !wide.same)
      report.add_text("  except for B of a sparse instruction, which reads 64 bytes of K: " + wide.where,
                      Tone::warning);
  }
  return report.add("read_alike", std::move(alike));
}

}  // namespace

std::vector<Violation> doubts_about(Target target, uint64_t word) {
  std::vector<Violation> doubts;
  const auto doubt = [&](std::string field, std::string seen, std::string expected, std::string fix) {
    doubts.push_back({.field = std::move(field),
                      .seen = std::move(seen),
                      .expected = std::move(expected),
                      .fix = std::move(fix),
                      .severity = Severity::warning});
  };
  const SmemDescriptor descriptor = decode_smem_descriptor(target, word);
  if (word >> 32 == 0) {
    if (const std::vector<std::string> readings = readings_as_idesc(word); !readings.empty())
      doubt("word", fmt::format("{:#010x}, with SBO 0", word),
            "an SBO in the upper 32 bits of a shared-memory descriptor",
            fmt::format("decoded as an instruction descriptor it means {}; use --kind to decode it so",
                        fmt::join(readings, "; ")));
  }
  const uint64_t version = word >> 46 & 7;
  const bool is_hopper = info(target).smem_descriptor == SmemDescriptorVersion::sm_90;
  if (word >> 32 != 0 && version == (is_hopper ? 1U : 0U)) {
    const Target other = is_hopper ? Target::sm_100a : Target::sm_90a;
    std::string reading = "reserved swizzle code";
    try {
      reading = print_reading(decode_smem_descriptor(other, word));
    } catch (const Error&) {
    }
    doubt(std::string(version_bits), fmt::format("{:#05b}", version),
          fmt::format("{:#05b} on {}", is_hopper ? 0 : 1, print(target)),
          fmt::format("{}: on that target it means {}, on {} it means {}; use --target {}",
                      is_hopper ? "a descriptor made for sm_100a has these bits"
                                : "a descriptor made for sm_90a lacks these bits",
                      reading, print(target), print_reading(descriptor), print(other)));
  }
  if (descriptor.start_address_bytes >= shared_memory_bytes)
    doubt("start_address", fmt::format("{:#x}", descriptor.start_address_bytes),
          fmt::format("below {:#x}: a CTA has at most 227 KB of shared memory", shared_memory_bytes), "");
  return doubts;
}

Report describe(const WordType& type, uint64_t word) { return std::visit(WordReport(word), type); }

Report describe_difference(const WordType& type, uint64_t first, uint64_t second) {
  if (const auto* smem = std::get_if<SmemWord>(&type)) {
    Report report = difference(smem_descriptor_fields(smem->target), first, second);
    return first == second ? report : report.update(reads_alike(*smem, first, second));
  }
  if (const auto* instruction = std::get_if<InstructionWord>(&type))
    return difference(instruction_descriptor_fields(instruction->kind), first, second);
  return difference(zero_column_mask_fields(), first, second);
}

std::string print_shape_and_types(const InstructionDescriptor& descriptor) {
  const bool scaled = info(descriptor.kind).has_block_scales;
  return fmt::format("M = {}, N = {}; D {}, A {}{}, B {}{}; A {}, B {}{}", descriptor.m, descriptor.n,
                     info(descriptor.d).name, descriptor.negate_a ? "-" : "", info(descriptor.a).name,
                     descriptor.negate_b ? "-" : "", info(descriptor.b).name,
                     descriptor.transpose_a ? "M-major" : "K-major", descriptor.transpose_b ? "N-major" : "K-major",
                     scaled ? fmt::format("; scales {}", info(descriptor.scale_type).name) : "");
}

Report describe(const Place& place) { return std::visit(PlaceReport{}, place); }

Report describe(const std::vector<Explanation>& steps, const Case& whole, int row, int col) {
  const int k = mma_of(whole.instruction).k;
  Report list = Report::list();
  for (size_t i = 0; i < steps.size(); ++i) {
    const int step = static_cast<int>(i);
    Report entry{{"step", step}, {"steps", static_cast<int64_t>(steps.size())}, {"tile_row", row}, {"tile_col", col}};
    entry.add_text(fmt::format("{}row {}, col {} of the tile, instruction {} of {}: K = {}..{}", step > 0 ? "\n" : "",
                               row, col, step + 1, steps.size(), step * k, step * k + k - 1));
    entry.update(describe(steps[i], whole.target));
    list.append(std::move(entry));
  }
  return list;
}

Report describe(const Explanation& e, Target target) {
  Report report{{"instruction", e.instruction},
                {"target", print(target)},
                {"row", e.row},
                {"col", e.col},
                {"rule", e.rule},
                {"evidence", print(e.evidence, e.target)}};
  if (e.scales.size() == 1) {
    const ExplainedScales& scales = e.scales.front().scales;
    report["scale_a"] = print_bits(scales.format, scales.a);
    report["scale_b"] = print_bits(scales.format, scales.b);
  } else if (!e.scales.empty()) {
    report["scales"] = Report::list();
    for (const auto& [first_k, last_k, scales] : e.scales) {
      report["scales"].append({{"first_k", first_k},
                               {"last_k", last_k},
                               {"scale_a", print_bits(scales.format, scales.a)},
                               {"scale_b", print_bits(scales.format, scales.b)}});
    }
  }
  if (e.steps.size() == 1) {
    report.update(step_report(e, e.steps.front()));
  } else {
    report["steps"] = Report::list();
    for (const ExplainedStep& step : e.steps) {
      Report row = step_report(e, step);
      row["d"] = number_report(step.d_format, step.d);
      report["steps"].append(std::move(row));
    }
  }
  if (e.exact) {
    report["exact"] = e.exact->text;
    report["exact_value"] = e.exact->value;
    report["error_ulp"] = e.exact->error_ulp;
  }
  report["d"] = number_report(e.d_format, e.d);
  if (e.recorded_d) report["recorded_d"] = number_report(e.d_format, *e.recorded_d);
  report["alternatives"] = Report::list();
  for (const Alternative& other : e.alternatives) {
    report["alternatives"].append({{"name", other.name},
                                   {"bits", print_bits(e.d_format, other.d)},
                                   {"value", print_value(e.d_format, other.d)},
                                   {"same", other.same},
                                   {"error_ulp", other.error_ulp}});
  }
  report.add_text(fmt::format("target: {}", print(target)));
  std::ranges::move(describe_in_words(e).lines, std::back_inserter(report.lines));
  return report;
}

}  // namespace bitmma
