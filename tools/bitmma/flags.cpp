// SPDX-License-Identifier: MIT
#include "flags.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <map>
#include <ranges>
#include <system_error>

#include "arguments.hpp"
#include "bitmma/arithmetic/cpu_target.hpp"
#include "bitmma/core/target_names.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/core/word.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/statement.hpp"
#include "named_files.hpp"
#include "numbers.hpp"

namespace bitmma::cli {

void TargetFlag::add(Command& command, const std::string& meaning, bool and_arch) {
  flags = and_arch ? "--target, --arch" : "--target";
  command.add_option(and_arch ? "--target,--arch" : "--target", name, meaning);
}

std::optional<Target> TargetFlag::asked() const {
  if (name.empty()) return std::nullopt;
  return target_from(name, flags);
}

Target TargetFlag::of(const Instruction& instruction) const {
  const std::optional<Target> target = asked();
  return target ? *target : default_target(instruction);
}

Target TargetFlag::of_smem_descriptor() const {
  const Target target = asked().value_or(Target::sm_90a);
  const auto has_descriptors = [](const TargetInfo& row) { return row.smem_descriptor != SmemDescriptorVersion::none; };
  if (has_descriptors(info(target))) return target;
  throw Error({.field = flags,
               .seen = name,
               .legal = row_names(targets | std::views::filter(has_descriptors)),
               .fix = "other targets have no shared-memory descriptors"});
}

void FileFlags::add(Command& command) {
  command.add_option("--instruction", instruction, "the mnemonic, for files without one");
  target.add(command, "the GPU by its PTX name, for files without one; default: the instruction's own");
}

void FileFlags::add_types(Command& command) {
  command.add_option("--a", a,
                     "tcgen05.mma of plain matrices: the type of A, such as e2m1, if its dtype does not determine it");
  command.add_option("--b", b, "the same for B");
  command.add_option("--d", d, "tcgen05.mma of plain matrices without c: the type of D; default f32; s32 for kind::i8");
  command.add_option("--scale-type", scale_type,
                     "tcgen05.mma of plain matrices: ue8m0 or ue4m3, if the dtype of sfa does not determine it");
}

VectorFile FileFlags::read(const std::string& path) const { return read(read_tensor_file(path)); }

VectorFileDefaults FileFlags::defaults() const {
  VectorFileDefaults defaults{.instruction = instruction, .target = target.asked()};
  for (const auto& [flag, name, format] :
       {std::tuple("--a", &a, &defaults.a_type), std::tuple("--b", &b, &defaults.b_type),
        std::tuple("--d", &d, &defaults.d_type), std::tuple("--scale-type", &scale_type, &defaults.sf_type)}) {
    if (!name->empty()) *format = require_format(flag, *name);
  }
  return defaults;
}

VectorFile FileFlags::read(TensorFile file) const {
  return naming([&] { return as_vector_file(std::move(file), defaults()); });
}

Error FileFlags::in_flags(const Error& error) const {
  const std::optional<Target> asked = target.asked();
  std::vector<Violation> violations = error.violations();
  for (Violation& violation : violations) {
    switch (violation.code) {
      case ViolationCode::missing_instruction: violation.fix = "save the key, or pass --instruction"; break;
      case ViolationCode::missing_type:
        for (const auto& [key, flag] : {std::pair("a_type", "--a"), std::pair("b_type", "--b"),
                                        std::pair("d_type", "--d"), std::pair("sf_type", "--scale-type")}) {
          if (violation.field.ends_with(key)) violation.fix += fmt::format(": save the key, or pass {}", flag);
        }
        break;
      case ViolationCode::other_instruction:
        violation.fix = fmt::format("{} = {}", violation.field, violation.seen);
        violation.expected = std::exchange(violation.seen, violation.expected) + ", the one in the file";
        violation.field = "--instruction";
        break;
      case ViolationCode::other_target:
        violation.fix =
            fmt::format("{} = {}; bitmma simulate can compute it on another GPU, too", violation.field, violation.seen);
        violation.expected = std::exchange(violation.seen, std::string(print(*asked))) + ", the one in the file";
        violation.field = target.flags;
        break;
      default: break;
    }
  }
  return Error(std::move(violations));
}

void LayoutFlags::add(Command& command) {
  options = {command
                 .add_option("--layout-a", a,
                             "k-major or mn-major; then :none, :32, :64 or :128, the bytes of swizzle, or :128-atom32 "
                             "for MN-major tf32 of tcgen05; then optionally ,lbo=BYTES ,sbo=BYTES ,base=N to set "
                             "fields of the descriptor; then optionally @BYTES to begin inside the pattern")
                 ->capture_default_str(),
             command.add_option("--layout-b", b, "the same for B")->capture_default_str(),
             command.add_option("--padding", padding_bytes, "bytes added to the smallest strides, a multiple of 16")
                 ->capture_default_str()};
}

void LayoutFlags::require_used(const LayoutUse& use) const {
  const std::array used{use.a, use.b, use.a || use.b};
  std::vector<Violation> violations;
  for (size_t i = 0; i < options.size(); ++i) {
    if (used[i] || options[i]->count() == 0) continue;
    violations.push_back(
        {.field = options[i]->get_name(), .seen = options[i]->as<std::string>(), .expected = "absent", .fix = use.why});
  }
  if (!violations.empty()) throw Error(std::move(violations));
}

Placement LayoutFlags::placement() const {
  Placement placement{.a = parse_operand_layout(a, Role::a), .b = parse_operand_layout(b, Role::b)};
  placement.a.padding_bytes = placement.b.padding_bytes = padding_bytes;
  return placement;
}

namespace {

std::string dashed(std::string_view name) {
  std::string text(name);
  std::ranges::replace(text, '_', '-');
  return "--" + text;
}

/// Converts the text to a value of the field.
FieldValue value_of(const InstructionField& row, const std::string& flag, const std::string& text) {
  const bool is_sign = row.immediate.first == -1;
  if (std::holds_alternative<bool>(row.default_value)) {
    const bool is_set = is_sign ? text == "-1" : text == "1" || text == "true";
    if (is_set || (is_sign ? text == "1" : text == "0" || text == "false")) return is_set;
    throw Error(
        {.field = flag,
         .seen = shortened(text),
         .legal = is_sign ? std::vector<std::string>{"1", "-1"} : std::vector<std::string>{"0", "1", "false", "true"}});
  }
  if (!std::holds_alternative<int64_t>(row.default_value)) return text;
  const auto word = read_word(text);
  constexpr uint64_t most = std::numeric_limits<int64_t>::max();
  if (!word || word->is_guess || word->value > most)
    throw Error({.field = flag, .seen = shortened(text), .expected = "a whole number, 0..2^63-1"});
  return static_cast<int64_t>(word->value);
}

}  // namespace

void FieldFlags::add(Command& command, const std::vector<Family>& families,
                     bool (*is_wanted)(const InstructionField&)) {
  for (const Family family : families) {
    for (const InstructionField& row : instruction_fields(family)) {
      if (!is_wanted(row)) continue;
      const auto same = std::ranges::find_if(
          flags_, [&](const One& flag) { return flag.row.name == row.name || flag.row.name == row.also; });
      if (same == flags_.end()) {
        flags_.push_back({.row = row, .fields = {row.name}, .families = std::string(print(family))});
        continue;
      }
      same->fields.push_back(row.name);
      same->families += fmt::format(", {}", print(family));
    }
  }
  for (One& flag : flags_) {
    const InstructionField& row = flag.row;
    flag.flag = dashed(row.immediate.name.empty() ? row.name : row.immediate.name);
    const std::string names = row.also.empty() ? flag.flag : flag.flag + "," + dashed(row.also);
    const bool is_switch = std::holds_alternative<bool>(row.default_value) && row.immediate.name.empty();
    const std::string meaning =
        fmt::format("{}{}{}", families.size() > 1 ? flag.families + ": " : "", row.meaning,
                    is_switch || row.immediate.legal.empty() ? "" : fmt::format(" ({})", row.immediate.legal));
    flag.option =
        is_switch ? command.add_flag(names, flag.is_set, meaning) : command.add_option(names, flag.text, meaning);
  }
}

bool FieldFlags::is_given(std::string_view field) const {
  return std::ranges::any_of(flags_,
                             [&](const One& flag) { return flag.row.name == field && flag.option->count() > 0; });
}

Instruction FieldFlags::apply(const Instruction& instruction) const {
  const std::vector<InstructionField>& known = instruction_fields(family_of(instruction));
  std::vector<NamedValue> values;
  std::vector<FlagOfField> names;
  std::vector<Violation> wrong;
  for (const One& flag : flags_) {
    if (flag.option->count() == 0) continue;
    const auto has_field = [&](std::string_view name) {
      const auto row = std::ranges::find(known, name, &InstructionField::name);
      return row != known.end() && row->is_apart();
    };
    const auto field = std::ranges::find_if(flag.fields, has_field);
    const bool is_switch = flag.option->get_items_expected_max() == 0;
    if (field == flag.fields.end()) {
      wrong.push_back(
          {.code = ViolationCode::no_effect,
           .field = flag.flag,
           .seen = is_switch ? "given" : shortened(flag.text.get()),
           .expected = flag.row.in_descriptor ? "absent: it is a field of an instruction descriptor" : "absent",
           .fix = print(instruction) + " has none"});
      continue;
    }
    names.emplace_back(*field, flag.flag);
    try {
      values.push_back(
          {std::string(*field), is_switch ? FieldValue(flag.is_set.get()) : value_of(flag.row, flag.flag, flag.text)});
    } catch (const Error& error) {
      wrong.insert(wrong.end(), error.violations().begin(), error.violations().end());
    }
  }
  if (!wrong.empty()) throw Error(std::move(wrong));
  try {
    return naming_flags(names, [&] { return with_used_fields(instruction, values); });
  } catch (const Error& error) {
    std::vector<Violation> violations = error.violations();
    for (Violation& violation : violations) {  // the library reports -1 for true
      const auto one = std::ranges::find(flags_, violation.field, &One::flag);
      if (one != flags_.end() && one->option->get_items_expected_max() > 0) violation.seen = shortened(one->text.get());
    }
    throw Error(std::move(violations));
  }
}

void StateNumberFlags::add(Command& command) {
  for (const FieldInfo& row : state_fields) {
    if (!row.is_number || row.id == Field::zero_column_mask) continue;  // the mask also moves B
    auto& [field, flag] = flags_.emplace_back(row.id, Flag<std::string>{});
    command.add_option(dashed(row.name), flag, fmt::format("{} of the state, instead of the generated one", row.name));
  }
}

StateNumbers StateNumberFlags::numbers() const {
  StateNumbers numbers;
  for (const auto& [field, flag] : flags_) {
    if (!flag.empty()) numbers.emplace_back(field, require_word(dashed(info(field).name), flag));
  }
  return numbers;
}

void CpuTargetFlag::add(Command& command) {
  command.add_speed_option(
      "--cpu-target", name,
      fmt::format("instruction set of the hot loops; it does not affect the bits. This processor supports {}",
                  fmt::join(cpu_targets(), ", ")));
}

void CpuTargetFlag::use() const {
  if (!name.empty()) naming_flag("cpu target", "--cpu-target", [&] { use_cpu_target(name); });
}

std::vector<Violation> in_flags(std::vector<Violation> violations, std::span<const FlagOfField> flags) {
  for (Violation& violation : violations) {
    for (const auto& [field, flag] : flags) {
      if (violation.field == field) violation.field = flag;
      if (violation.code == ViolationCode::not_together && violation.seen == field) violation.seen = flag;
      const std::string quoted = fmt::format("`{}`", field);
      for (std::string* const sentence : {&violation.seen, &violation.expected, &violation.fix}) {
        for (size_t at = sentence->find(quoted); at != std::string::npos; at = sentence->find(quoted, at + flag.size()))
          sentence->replace(at, quoted.size(), flag);
      }
    }
  }
  return violations;
}

void add_threads(Command& command, Flag<int>& threads) {
  threads = hardware_threads();
  command.add_speed_option("--threads", threads, "number of threads, 0 for all cores; it does not affect the bits")
      ->transform([](const std::string& text) { return text == "0" ? std::to_string(hardware_threads()) : text; })
      ->capture_default_str();
  between(command.get_option("--threads"), 1, 4096);
}

Format require_format(std::string_view flag, const std::string& name, const FormatSet& legal) {
  if (const auto format = format_named(name); format && legal.contains(*format)) return *format;
  throw Error({.code = ViolationCode::unknown_name,
               .field = std::string(flag),
               .seen = name,
               .legal = row_names(rows_of(legal))});
}

MmaKind require_kind(const std::string& name) {
  const size_t prefix = name.starts_with(".kind::") ? 7 : name.starts_with("kind::") ? 6 : 0;  // as in mnemonics
  if (const auto kind = mma_kind_named(name.substr(prefix))) return *kind;
  throw Error({.code = ViolationCode::unknown_name, .field = "--kind", .seen = name, .legal = row_names(mma_kinds)});
}

void require_kind_on(const TargetFlag& target, const InstructionDescriptor& idesc) {
  const std::optional<Target> asked = target.asked();
  if (!asked) return;
  // The mnemonic gives the scale-vector size: accept any size that exists.
  TargetSet known;
  std::optional<Violation> wrong;
  for (const ScaleVec size : {ScaleVec::unwritten, ScaleVec::block16, ScaleVec::block32}) {
    const Tcgen05Mma mma{.kind = idesc.kind,
                         .a = natural_input(idesc.kind),
                         .sparse = idesc.sparse,
                         .k = idesc.k(),
                         .scale_vec = size,
                         .scale_type = idesc.scale_type,
                         .sparsity_version = idesc.sparsity_version};
    const TargetSet targets = targets_of(mma);
    known = known | targets;
    if (wrong && targets.empty()) continue;  // the violation of a size that some target has is more useful
    for (const Violation& violation : violations_of(mma, *asked)) {
      if (violation.field == "target") wrong = violation;
    }
  }
  if (known.contains(*asked) || !wrong) return;
  wrong->field = target.flags;
  if (!known.empty()) wrong->expected = print(known);
  throw Error(*wrong);
}

void require_mma(const Instruction& instruction, std::string fix) {
  if (is_mma(instruction)) return;
  throw Error(
      {.field = "instruction", .seen = print(instruction), .expected = "a matrix instruction", .fix = std::move(fix)});
}

void require_case(int64_t cases, int64_t index) {
  if (index >= 0 && index < cases) return;
  throw Error({.field = "--case", .seen = std::to_string(index), .expected = fmt::format("0..{}", cases - 1)});
}

bool are_arrays(const std::vector<std::string>& files) {
  return std::ranges::all_of(files, [](const std::string& path) { return path.ends_with(".npy"); });
}

namespace {

constexpr const char* names_are_of_files =
    "the name of the file is the name of the array: copy or link the file under one of these names";

/// Throws Error unless the file's name, which is the name of the array, is a known tensor.
void require_array_name(const TensorFile& file) {
  for (const Tensor& array : file.tensors) {
    if (std::ranges::find(logical_tensor_names, array.name) != logical_tensor_names.end()) continue;
    throw Error({.field = file.path,
                 .seen = fmt::format("an array called {}", array.name),
                 .legal = {"a.npy", "b.npy", "c.npy", "d.npy", "sfa.npy", "sfb.npy"},
                 .fix = names_are_of_files});
  }
}

}  // namespace

TensorFile read_arrays(const std::vector<std::string>& files) {
  TensorFile all = read_tensor_file(files.front());
  require_array_name(all);
  for (size_t i = 1; i < files.size(); ++i) {
    const TensorFile file = read_tensor_file(files[i]);
    require_array_name(file);
    if (file.tensors.empty()) continue;
    const Tensor& array = file.tensors.front();
    if (all.find(array.name)) {
      throw Error({.field = "files",
                   .seen = fmt::format("two arrays called {}", array.name),
                   .expected = "arrays of different names: a.npy, b.npy, c.npy",
                   .fix = names_are_of_files});
    }
    all.tensors.push_back(array);
    all.path += ", " + files[i];
  }
  return all;
}

std::optional<uint64_t> parse_word(const std::string& text) {
  const auto word = read_word(text);
  return word && !word->is_negative && !word->is_guess ? std::optional(word->value) : std::nullopt;
}

uint64_t require_word(std::string_view field, const std::string& text) {
  const auto word = read_word(text);
  if (word && word->is_guess) {
    const std::optional<uint64_t> decimal = parse_whole(text);
    throw Error({.field = std::string(field),
                 .seen = text,
                 .expected = "a number of a known base: 8 or 16 digits may be decimal or hexadecimal",
                 .fix = fmt::format("write 0x{}{}", text,
                                    decimal ? fmt::format(", or {:#x} if it is decimal", *decimal) : "")});
  }
  if (word && !word->is_negative) return word->value;
  throw Error({.field = std::string(field), .seen = text, .expected = "a 64-bit number such as 0x4000004000010000"});
}

namespace {

/// The lower-case suffix of a name. Devices and pipes may have any name.
std::string suffix_of(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) return "";
  std::string suffix = std::filesystem::path(path).extension().string();
  std::ranges::transform(suffix, suffix.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return suffix;
}

[[noreturn]] void refuse_name(const std::string& path, std::vector<std::string> suffixes, std::string_view what,
                              std::string fix) {
  for (std::string& suffix : suffixes) suffix = "NAME" + suffix;
  suffixes.emplace_back("a name without a suffix");
  throw Error(
      {.field = "-o",
       .seen = path,
       .expected = fmt::format("the name of a {} file, the format that is written: {}", what, alternatives(suffixes)),
       .fix = std::move(fix)});
}

}  // namespace

void require_text_file_name(const std::string& path, std::string_view suffix) {
  const std::string own = suffix_of(path);
  if (own.empty() || own == ".txt" || own == suffix) return;
  const bool is_tensor = own == ".safetensors" && suffix != ".ptx";
  refuse_name(path, {std::string(suffix), ".txt"}, "text",
              is_tensor ? "omit --format to write safetensors" : fmt::format("rename it to {}", suffix));
}

void require_tensor_file_name(const std::string& path) {
  const std::string own = suffix_of(path);
  if (own.empty() || own == ".safetensors") return;
  const bool is_text = own == ".csv" || own == ".jsonl" || own == ".hex";
  refuse_name(path, {".safetensors"}, "safetensors",
              is_text ? fmt::format("commands with --format {} write text", own.substr(1))
                      : "to read it in NumPy, use safetensors.numpy.load_file");
}

namespace {

/// For files of folders, which the command line does not name.
void require_replaces_no_input(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  std::vector<NamedFile> files;
  for (const std::string& input : inputs) files.push_back({.role = FileRole::input, .flag = "file", .path = input});
  for (const std::string& output : outputs) files.push_back({.role = FileRole::output, .flag = "-o", .path = output});
  require_distinct(files);
}

}  // namespace

std::vector<std::string> output_paths(const std::vector<std::string>& inputs, const std::string& output) {
  std::error_code error;
  const bool folder = std::filesystem::is_directory(output, error);
  if (inputs.size() > 1 && !folder) {
    throw Error({.field = "-o",
                 .seen = output,
                 .expected = "an existing folder if there are several files",
                 .fix = fmt::format("mkdir {}", output)});
  }
  if (!folder) {
    require_replaces_no_input(inputs, {output});
    return {output};
  }
  std::vector<std::string> outputs;
  std::map<std::string, std::string> taken;  // maps an output to its input
  for (const std::string& input : inputs) {
    std::filesystem::path name = std::filesystem::path(input).filename();
    if (name.extension() == ".npz" || name.extension() == ".npy") name.replace_extension(".safetensors");
    outputs.push_back((std::filesystem::path(output) / name).string());
    const auto [other, is_new] = taken.emplace(outputs.back(), input);
    if (is_new) continue;
    throw Error({.field = "-o",
                 .seen = fmt::format("{} twice, for {} and {}", outputs.back(), other->second, input),
                 .expected = "files with different names",
                 .fix = "run them separately, with a name for each"});
  }
  require_replaces_no_input(inputs, outputs);
  return outputs;
}

namespace {

bool is_vector_file_name(const std::filesystem::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return extension == ".safetensors" || extension == ".npz";
}

/// The vector files below a folder, in order. Throws Error, which names it, for an unreadable folder.
std::vector<std::string> vector_files_below(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  std::filesystem::recursive_directory_iterator entries(folder, error);
  for (; !error && entries != std::filesystem::recursive_directory_iterator(); entries.increment(error)) {
    std::error_code unknown;
    const std::filesystem::file_status status = entries->status(unknown);
    // A dangling link is reported when it is read; pipes and devices are skipped.
    const bool is_file = std::filesystem::is_regular_file(status) || !std::filesystem::exists(status);
    if (is_file && is_vector_file_name(entries->path())) found.push_back(entries->path().string());
  }
  if (error) {
    throw Error({.field = folder,
                 .seen = error.message(),
                 .expected = "a readable folder, with readable subfolders",
                 .fix = "name the files instead"});
  }
  if (found.empty())
    throw Error({.field = folder,
                 .seen = "a folder without vector files",
                 .expected = "*.safetensors in the folder or its subfolders"});
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

std::vector<std::string> vector_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;  // the reader reports missing files
    if (!std::filesystem::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    const std::vector<std::string> found = vector_files_below(path);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

ExistingFiles existing_files(const std::vector<std::string>& paths) {
  ExistingFiles existing;
  std::vector<std::string> files = vector_files(paths);
  for (std::string& path : files) {
    std::error_code error;
    if (std::filesystem::exists(path, error) || error) {  // the reader reports why it cannot be read
      existing.files.push_back(std::move(path));
      continue;
    }
    const bool is_named = std::ranges::find(paths, path) != paths.end();
    existing.dangling.push_back({.code = ViolationCode::not_found, .field = "file", .seen = path});
    if (is_named) throw Error(existing.dangling.back());
  }
  if (existing.files.empty()) throw Error(std::move(existing.dangling));
  return existing;
}

}  // namespace bitmma::cli
