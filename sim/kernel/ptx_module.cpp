// SPDX-License-Identifier: MIT
#include "ptx_module.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>
#include <set>
#include <utility>

#include "../core/ascii.hpp"
#include "../core/ieee_environment.hpp"
#include "../instruction/text/words.hpp"
#include "bitmma/core/bits.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/formats/round.hpp"
#include "ptx_tokens.hpp"

namespace bitmma::kernel {
namespace {

using Kind = Operand::Kind;

constexpr int most_nested_brackets = 200;
constexpr size_t most_words = 40;  // of an opcode; PTX has up to 15
constexpr size_t most_branch_targets = 4096;

constexpr auto spaces = std::to_array<std::pair<std::string_view, Space>>({
    {".param", Space::param},
    {".const", Space::constant},
    {".global", Space::global},
    {".shared", Space::shared},
    {".local", Space::local},
});

/// Types of handles. PTX ISA, texture, sampler and surface variables.
constexpr auto opaque_types = std::to_array<std::string_view>({".texref", ".samplerref", ".surfref"});

constexpr auto linkages = std::to_array<std::string_view>({".extern", ".visible", ".weak", ".common"});

/// ".reg .b32 %r<5>" declares %r0 to %r4, ".reg .v2 .f32 %v" declares %v.x and %v.y.
struct RegisterRange {
  Type type = Type::b32;
  int64_t count = 1;
  int elements = 1;
};

/// Names declared between two braces.
struct Scope {
  // A register gets its index where an instruction first names it: a declaration may have thousands that none names.
  std::map<std::string, RegisterRange, std::less<>> ranges = {}, scalars = {}, vectors = {};
  std::map<std::string, int, std::less<>> registers = {}, variables = {};
  std::map<std::string, int, std::less<>> labels = {};  // index of the next instruction
};

struct UnresolvedJump {
  size_t instruction, operand;
  std::vector<int> scopes;  // numbers of the open scopes
  std::string label;
};

/// A directive between the parameters and the body of an entry or a function, and how many numbers follow it.
struct EntryDirective {
  std::string_view name;
  size_t least_numbers, most_numbers;
  // What it sets; all may be null.
  std::vector<int64_t> Entry::*extents = nullptr;
  int64_t Entry::*number = nullptr;
  bool Entry::*flag = nullptr;
};
constexpr auto entry_directives = std::to_array<EntryDirective>({
    {".reqntid", 1, 3, &Entry::required_block},
    {".maxntid", 1, 3, &Entry::most_block},
    {".reqnctapercluster", 1, 3, &Entry::required_cluster},
    {.name = ".maxclusterrank", .least_numbers = 1, .most_numbers = 1, .number = &Entry::most_cluster},
    {.name = ".blocksareclusters", .least_numbers = 0, .most_numbers = 0, .flag = &Entry::grid_of_clusters},
    // These change no result: the registers and blocks of a multiprocessor, and how ptxas and the host call it.
    {".explicitcluster", 0, 0},
    {".maxnreg", 1, 1},
    {".minnctapersm", 1, 1},
    {".maxnctapersm", 1, 1},
    {".noreturn", 0, 0},
    {".abi_preserve", 1, 1},
    {".abi_preserve_control", 1, 1},
});

/// The modifiers of arithmetic, in the order of the PTX manual, where they precede the types.
constexpr auto arithmetic_modifiers =
    std::to_array<std::string_view>({"approx", "full", "rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi", "ftz",
                                     "sat", "relu", "satfinite", "NaN", "xorsign", "abs"});

/// The opcode with these modifiers in that order: "fma.rn.relu.bf16x2" for fma.rn.bf16x2.relu, as CUTLASS writes it.
/// ptxas takes them in any order.
std::string with_ordered_modifiers(std::string_view opcode) {
  const auto rank_of = [](std::string_view word) { return std::ranges::find(arithmetic_modifiers, word); };
  std::vector<std::string_view> modifiers, others;
  size_t place = 0;  // of the modifiers among the others: before the first type, or where the first one was
  for (size_t from = 0; from <= opcode.size();) {
    const size_t dot = std::min(opcode.find('.', from), opcode.size());
    const std::string_view word = opcode.substr(from, dot - from);
    from = dot + 1;
    const bool is_modifier = !others.empty() && rank_of(word) != arithmetic_modifiers.end();
    if (place == 0 && (is_modifier || type_of(word_named(word)))) place = others.size();
    (is_modifier ? modifiers : others).push_back(word);
  }
  const bool is_of_warp = std::ranges::find(others, "sync") != others.end();  // wmma has .satfinite behind its types
  if (modifiers.empty() || is_of_warp) return std::string(opcode);
  std::ranges::stable_sort(modifiers, {}, rank_of);
  others.insert(others.begin() + static_cast<std::ptrdiff_t>(place), modifiers.begin(), modifiers.end());
  return fmt::format("{}", fmt::join(others, "."));
}

class PtxParser {
 public:
  explicit PtxParser(std::string_view text) : text_(text), tokens_(tokens_of(text)) { scopes_.push_back({}); }

  Module parse() {
    while (!at_end()) parse_item();
    return std::move(module_);
  }

 private:
  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  bool at_end() const { return peek().kind == Token::Kind::end; }
  Token take() {
    const Token token = peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool is(std::string_view text) const { return peek().kind != Token::Kind::text && peek().spelling == text; }
  bool take_if(std::string_view text) {
    if (!is(text)) return false;
    take();
    return true;
  }
  /// CUDA C++ has these words, and no directive of PTX.
  bool is_cuda() const {
    const auto has = [&](std::string_view word) { return text_.find(word) != std::string_view::npos; };
    return !has(".entry") && !has(".func") && (has("__global__") || has("__device__") || has("#include"));
  }
  [[noreturn]] void refuse(const Token& token, std::string expected) const {
    if (is_cuda()) {
      throw Error({.code = ViolationCode::unusable_file,
                   .field = "PTX",
                   .seen = "CUDA C++",
                   .expected = "a PTX module",
                   .fix = "nvcc -ptx makes one, and nvcc's own programs run with bitmma exec"});
    }
    throw Error({.code = ViolationCode::unusable_file,
                 .field = fmt::format("PTX line {}", token.line),
                 .seen = token.kind == Token::Kind::end ? "the end of the text" : shortened(printable(token.spelling)),
                 .expected = std::move(expected)});
  }
  void expect(std::string_view text) {
    if (!take_if(text)) refuse(peek(), fmt::format("'{}'", text));
  }
  std::string word(std::string expected) {
    if (peek().kind != Token::Kind::word) refuse(peek(), std::move(expected));
    return std::string(take().spelling);
  }
  int64_t integer() {
    const bool negative = take_if("-");
    const Token token = take();
    const auto value = number(token);
    if (!value) refuse(token, "an integer");
    return static_cast<int64_t>(negative ? 0 - *value : *value);
  }
  static std::optional<uint64_t> number(const Token& token) {
    if (token.kind != Token::Kind::number) return std::nullopt;
    std::string_view text = token.spelling;
    if (text.ends_with('U') || text.ends_with('u')) text.remove_suffix(1);
    int base = 10;
    if (text.starts_with("0x") || text.starts_with("0X")) base = 16, text.remove_prefix(2);
    else if (text.starts_with("0b") || text.starts_with("0B")) base = 2, text.remove_prefix(2);
    else if (text.size() > 1 && text[0] == '0') base = 8, text.remove_prefix(1);
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
  }

  void parse_item() {
    if (take_if(".version")) {
      module_.version = std::string(take().spelling);
    } else if (take_if(".target")) {
      module_.target = std::string(take().spelling);
      while (take_if(",")) take();
    } else if (take_if(".address_size")) {
      const Token size = peek();
      if (integer() != 64) refuse(size, "64: kernels with 32-bit addresses are not supported");
    } else if (is_debug()) {
      parse_debug();
    } else if (is(".section")) {
      skip_section();
    } else if (take_if(".alias")) {
      while (!take_if(";") && !at_end()) take();
    } else {
      const size_t start = at_;
      bool is_extern = false;
      while (std::ranges::find(linkages, peek().spelling) != linkages.end()) is_extern |= take().spelling == ".extern";
      if (take_if(".entry")) {
        parse_entry();
      } else if (take_if(".func")) {
        parse_function();
      } else if (find_space()) {
        parse_variables(is_extern);
      } else {
        at_ = start;
        refuse(peek(), "a directive of a PTX module");
      }
    }
  }

  std::optional<Space> find_space() const {
    for (const auto& [name, space] : spaces) {
      if (is(name)) return space;
    }
    return std::nullopt;
  }

  void skip_section() {
    while (!is("{") && !at_end()) take();
    int depth = 0;
    do {
      depth += is("{") ? 1 : is("}") ? -1 : 0;
      take();
    } while (depth > 0 && !at_end());
  }

  bool is_debug() const { return is(".file") || is(".loc") || is(".pragma"); }

  /// .loc and .file end with their line, .pragma with a semicolon.
  void parse_debug() {
    const Token directive = take();
    if (directive.spelling == ".pragma") {
      while (!take_if(";") && !at_end()) take();
      return;
    }
    std::vector<Token> rest;
    while (!at_end() && peek().line == directive.line && !is(";")) rest.push_back(take());
    if (directive.spelling == ".file" && rest.size() >= 2 && rest[1].kind == Token::Kind::text) {
      if (const auto index = number(rest[0])) module_.files[static_cast<int>(*index)] = std::string(rest[1].spelling);
    }
    if (directive.spelling == ".loc" && rest.size() >= 2) {
      source_file_ = static_cast<int>(number(rest[0]).value_or(0));
      source_line_ = static_cast<int>(number(rest[1]).value_or(0));
    }
  }

  /// ".func (.param .b32 result) name(.param .b64 a) { ... }", or a prototype that ends with a semicolon.
  void parse_function() {
    entry_ = Entry{};
    owner_ = -2 - static_cast<int>(module_.functions.size());
    entry_.line = peek().line;
    const size_t first_variable = module_.variables.size();
    scopes_.push_back({});
    parse_parameters(entry_.returns);
    entry_.name = word("the name of a function");
    function_names_.insert(entry_.name);
    parse_parameters(entry_.params);
    parse_entry_directives();
    if (!take_if(";")) {
      parse_braces();
      module_.functions.push_back(std::move(entry_));
    } else {
      module_.variables.resize(first_variable);  // the parameters of a prototype belong to no function
    }
    scopes_.pop_back();
    owner_ = -1;
  }

  /// Parses directives up to the body, or up to the semicolon of a prototype.
  void parse_entry_directives() {
    while (!is("{") && !is(";") && !at_end()) {
      if (is_debug()) {
        parse_debug();
        continue;
      }
      const Token directive = take();
      const auto row = std::ranges::find(entry_directives, directive.spelling, &EntryDirective::name);
      if (row == entry_directives.end()) refuse(directive, "a directive of an entry, or its body in braces");
      std::vector<int64_t> numbers;
      while (peek().kind == Token::Kind::number) {
        numbers.push_back(integer());
        if (!take_if(",")) break;
      }
      if (numbers.size() < row->least_numbers || numbers.size() > row->most_numbers)
        refuse(directive, fmt::format("{} with {} to {} numbers", row->name, row->least_numbers, row->most_numbers));
      if (row->extents) entry_.*row->extents = numbers;
      if (row->number) entry_.*row->number = numbers[0];
      if (row->flag) entry_.*row->flag = true;
    }
  }

  void parse_entry() {
    entry_ = Entry{};
    owner_ = static_cast<int>(module_.entries.size());
    entry_.line = peek().line;
    entry_.name = word("the name of an entry");
    if (!entry_names_.insert(entry_.name).second)
      refuse(peek(), fmt::format("only one entry with the name {}", entry_.name));
    scopes_.push_back({});
    parse_parameters(entry_.params);
    parse_entry_directives();
    parse_braces();
    scopes_.pop_back();
    owner_ = -1;
    module_.entries.push_back(std::move(entry_));
  }

  /// "(.param .u64 x, .param .f32 by)"; may be absent.
  void parse_parameters(std::vector<int>& variables) {
    if (!take_if("(")) return;
    while (!take_if(")")) {
      if (!is(".param")) refuse(peek(), ".param");
      parse_variable_list(false, [&](int variable) { variables.push_back(variable); });
      if (!is(")")) expect(",");
    }
  }

  void parse_braces() {
    expect("{");
    open_scope();
    source_line_ = source_file_ = 0;
    parse_body();
    close_scope();
    for (const UnresolvedJump& jump : jumps_) resolve(jump);
    jumps_.clear();
  }

  void open_scope() {
    scopes_.push_back({});
    open_numbers_.push_back(static_cast<int>(all_labels_.size()));
    all_labels_.push_back({});
  }
  void close_scope() {
    scopes_.pop_back();
    open_numbers_.pop_back();
  }

  /// Parses up to the brace that closes the current scope.
  void parse_body() {
    while (!take_if("}")) {
      if (at_end()) refuse(peek(), "'}'");
      if (is("{")) {
        const Token token = take();
        if (++depth_ > most_nested_brackets)
          refuse(token, fmt::format("at most {} nested scopes", most_nested_brackets));
        open_scope();
        parse_body();
        close_scope();
        --depth_;
      } else if (take_if(".reg")) {
        parse_registers();
      } else if (is_debug()) {
        parse_debug();
      } else if (is(".extern") || find_space()) {
        const bool is_extern = take_if(".extern");
        if (!find_space()) refuse(peek(), "a state space");
        const size_t first = module_.variables.size();
        parse_variables(is_extern);
        // Variables that a call passes are local to the thread.
        for (size_t i = first; i < module_.variables.size(); ++i) {
          if (module_.variables[i].space == Space::param) module_.variables[i].space = Space::local;
        }
      } else if (peek().kind == Token::Kind::word && peek(1).spelling == ":" && peek(1).kind == Token::Kind::mark) {
        parse_label();
      } else {
        parse_instruction();
      }
    }
  }

  void parse_label() {
    const Token token = take();
    take();
    if (take_if(".branchtargets")) return parse_branch_targets(std::string(token.spelling));
    if (is(".callprototype") || is(".calltargets")) {  // a call by address says which arguments it has
      prototypes_.insert(std::string(token.spelling));
      while (!take_if(";") && !at_end()) take();
      return;
    }
    const int index = static_cast<int>(entry_.instructions.size());
    if (!all_labels_[static_cast<size_t>(open_numbers_.back())].emplace(std::string(token.spelling), index).second)
      refuse(token, "a label that is defined only once");
    entry_.labels.emplace(index, std::string(token.spelling));
  }

  /// "targets: .branchtargets A, B, C;": the labels of a brx.idx.
  void parse_branch_targets(const std::string& name) {
    std::vector<std::string>& labels = branch_targets_[name];
    labels.clear();
    do {
      labels.push_back(word("a label"));
      if (labels.size() > most_branch_targets) refuse(peek(), fmt::format("at most {} labels", most_branch_targets));
    } while (take_if(","));
    expect(";");
  }

  /// Appends the jumps of "brx.idx index, targets;" behind the instruction that checks the index: a comparison and a
  /// branch a label.
  void append_branches(const PtxInstruction& check, const Token& list) {
    const auto targets = branch_targets_.find(list.spelling);
    if (targets == branch_targets_.end()) refuse(list, "the name of .branchtargets in front of the instruction");
    const int predicate = static_cast<int>(entry_.registers.size());
    entry_.registers.push_back({.name = "%brx", .type = Type::pred});
    const Operand index = check.operands[0];
    for (size_t i = 0; i < targets->second.size(); ++i) {
      const bool is_last = i + 1 == targets->second.size();
      PtxInstruction compare = check, branch = check;
      become(compare, {Word::setp, Word::eq, Word::u32});
      compare.operands = {{.kind = Kind::reg, .reg = predicate}, index, {.kind = Kind::integer, .value = i}};
      become(branch, {Word::bra});
      branch.operands = {{.kind = Kind::label, .name = targets->second[i]}};
      if (!is_last) {
        entry_.instructions.push_back(std::move(compare));
        branch.guard = predicate;
        branch.guard_negated = false;
      }
      jumps_.push_back({entry_.instructions.size(), 0, open_numbers_, targets->second[i]});
      entry_.instructions.push_back(std::move(branch));
    }
  }

  void resolve(const UnresolvedJump& jump) {
    PtxInstruction& instruction = entry_.instructions[jump.instruction];
    for (auto scope = jump.scopes.rbegin(); scope != jump.scopes.rend(); ++scope) {
      const auto& labels = all_labels_[static_cast<size_t>(*scope)];
      if (const auto label = labels.find(jump.label); label != labels.end()) {
        instruction.operands[jump.operand].target = label->second;
        return;
      }
    }
    throw Error({.code = ViolationCode::unusable_file,
                 .field = fmt::format("PTX line {}", instruction.line),
                 .seen = shortened(printable(jump.label)),
                 .expected = "a label of this entry"});
  }

  /// ".b32"; nothing for other words and at the end of the text.
  static std::optional<Type> type_of_word(const Token& token) {
    return token.spelling.starts_with('.') ? type_named(token.spelling.substr(1)) : std::nullopt;
  }

  void parse_registers() {
    int elements = 1;
    if (is(".v2") || is(".v4")) elements = take().spelling[2] - '0';
    const Token type_token = take();
    const auto type = type_of_word(type_token);
    if (!type || (elements > 1 && *type == Type::pred)) refuse(type_token, "a register type, such as .b32");
    do {
      const std::string name = word("the name of a register");
      RegisterRange range{.type = *type, .elements = elements};
      Scope& scope = scopes_.back();
      if (take_if("<")) {
        const Token number = peek();
        range.count = integer();
        if (range.count < 0 || range.count > most_registers)
          refuse(number, fmt::format("0 to {} registers", most_registers));
        expect(">");
        (elements > 1 ? scope.vectors : scope.ranges).insert_or_assign(name + '<', range);
      } else {
        (elements > 1 ? scope.vectors : scope.scalars).insert_or_assign(name, range);
      }
    } while (take_if(","));
    expect(";");
  }

  /// The declaration of a name in a scope: of a register by itself, or of the range that has its number.
  static const RegisterRange* declaration_of(const std::map<std::string, RegisterRange, std::less<>>& alone,
                                             const std::map<std::string, RegisterRange, std::less<>>& ranges,
                                             std::string_view name) {
    if (const auto declared = alone.find(name); declared != alone.end()) return &declared->second;
    for (size_t begin = name.size(); begin > 1 && name.size() - begin < 6 && is_digit(name[begin - 1]);) {
      --begin;
      if (name[begin] == '0' && begin + 1 < name.size()) continue;  // %r01 is no register of %r<5>
      const auto declared = ranges.find(std::string(name.substr(0, begin)) + '<');
      if (declared == ranges.end()) continue;
      int64_t number = 0;
      std::from_chars(name.data() + begin, name.data() + name.size(), number);
      if (number < declared->second.count) return &declared->second;
    }
    return nullptr;
  }

  static constexpr std::array<std::array<std::string_view, 2>, 4> vector_elements{
      {{"x", "r"}, {"y", "g"}, {"z", "b"}, {"w", "a"}}};

  void parse_variables(bool is_extern) {
    parse_variable_list(is_extern, [](int) {});
    while (take_if(",")) parse_declarator(is_extern, last_, [](int) {});
    expect(";");
  }

  /// ".space .align 4 .b8 name[16] = {...}".
  template <typename Body>
  void parse_variable_list(bool is_extern, const Body& body) {
    Variable variable;
    const auto space = find_space();
    if (!space) refuse(peek(), "a state space");
    variable.space = *space;
    take();
    int elements = 1;
    bool has_type = false;
    is_opaque_ = false;
    while (peek().kind == Token::Kind::word && peek().spelling.starts_with('.')) {
      const Token token = take();
      if (token.spelling == ".align") {
        const int64_t align = integer();
        if (align < 1 || align > 1 << 20 || !std::has_single_bit(static_cast<uint64_t>(align)))
          refuse(token, "an alignment that is a power of two");
        variable.align = static_cast<int>(align);
      } else if (token.spelling == ".attribute") {
        skip_group("(", ")");  // .managed: where the driver puts the variable
      } else if (token.spelling == ".ptr" ||
                 std::ranges::any_of(spaces, [&](const auto& row) { return row.first == token.spelling; })) {
        // The space to which a parameter points.
        if (has_type) points_ = true;
      } else if (token.spelling == ".v2" || token.spelling == ".v4") {
        elements = token.spelling[2] - '0';
      } else if (const auto type = type_of_word(token)) {
        variable.type = *type;
        has_type = true;
      } else if (std::ranges::find(opaque_types, token.spelling) != opaque_types.end()) {
        variable.type = Type::b64;  // instructions that use the handle are refused
        is_opaque_ = true;
      } else {
        refuse(token, "a type, such as .b32");
      }
    }
    // ".param .u64 .ptr .global .align 16 x": the alignment is that of the memory x points to.
    const int natural = bytes_of(variable.type) * elements;
    if (points_) variable.align = natural;
    points_ = false;
    variable.align = std::max(variable.align, natural);
    variable.count = elements;
    last_ = variable;
    parse_declarator(is_extern, variable, body);
  }

  template <typename Body>
  void parse_declarator(bool is_extern, Variable variable, const Body& body) {
    variable.line = peek().line;
    variable.entry = owner_;
    variable.name = word("the name of a variable");
    bool is_open = false;
    while (take_if("[")) {
      if (take_if("]")) {
        is_open = true;
        continue;
      }
      const Token token = peek();
      const int64_t count = integer();
      expect("]");
      if (count < 0 || (count > 0 && variable.count > most_variable_bytes / count))
        refuse(token, fmt::format("at most {} bytes", most_variable_bytes));
      variable.count *= count;
    }
    if (is_opaque_ && take_if("=")) skip_group("{", "}");
    else if (take_if("=")) parse_initialiser(variable, is_open);
    else if (is_open) variable.count = 0, variable.is_extern_array = true;
    if (is_open && !is_extern && variable.bytes.empty()) refuse(peek(), "a size: only .extern arrays may omit it");
    variable_bytes_ += variable.size_bytes();
    if (variable_bytes_ > most_variable_bytes)
      refuse(peek(), fmt::format("at most {} bytes of all variables", most_variable_bytes));
    const int index = static_cast<int>(module_.variables.size());
    scopes_.back().variables[variable.name] = index;
    module_.variables.push_back(std::move(variable));
    body(index);
  }

  /// {filter_mode = nearest, ...} of a sampler; (.managed) of an attribute.
  void skip_group(std::string_view open, std::string_view close) {
    expect(open);
    for (int depth = 1; depth > 0 && !at_end();) {
      const Token token = take();
      depth += token.spelling == open ? 1 : token.spelling == close ? -1 : 0;
    }
  }

  void parse_initialiser(Variable& variable, bool is_open) {
    const int bytes = bytes_of(variable.type);
    std::vector<uint8_t> data;
    int depth = 0;
    do {
      if (take_if("{")) {
        ++depth;
      } else if (take_if("}")) {
        --depth;
      } else if (!take_if(",")) {
        const bool negative = take_if("-");
        const Token token = take();
        uint64_t value = 0;
        if (token.kind == Token::Kind::word) {
          std::string name(token.spelling);
          if (name == "generic" && take_if("(")) {
            name = word("a variable");
            expect(")");
          }
          const int64_t offset = take_if("+") ? integer() : 0;
          variable.addresses.push_back({.at = std::ssize(data), .of = name, .offset = offset});
        } else if (const auto real = real_of(token)) {
          const bool is_double = real->second;
          const Format from = is_double ? Format::f64 : Format::f32;
          value = variable.type == Type::f32 && is_double
                      ? convert(from, real->first, Format::f32, Rounding::nearest_even, Overflow::infinity)
                      : real->first;
          if (negative) value ^= uint64_t{1} << (bytes * 8 - 1);
        } else if (const auto integer = number(token)) {
          value = negative ? 0 - *integer : *integer;
        } else {
          refuse(token, "a number or the name of a variable");
        }
        for (int i = 0; i < bytes; ++i) data.push_back(static_cast<uint8_t>(i < 8 ? value >> 8 * i : 0));
      }
    } while (depth > 0 && !at_end());
    if (is_open) variable.count = std::ssize(data) / bytes;
    if (std::ssize(data) > variable.size_bytes()) refuse(peek(), "at most as many values as the variable has elements");
    data.resize(static_cast<size_t>(variable.size_bytes()));
    variable.bytes = std::move(data);
  }

  /// A real constant, and whether it is an f64.
  static std::optional<std::pair<uint64_t, bool>> real_of(const Token& token) {
    if (token.kind != Token::Kind::number) return std::nullopt;
    const std::string_view text = token.spelling;
    const bool is_single = text.starts_with("0f") || text.starts_with("0F");
    if (is_single || text.starts_with("0d") || text.starts_with("0D")) {
      uint64_t value = 0;
      const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), value, 16);
      if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
      return std::pair(value, !is_single);
    }
    if (text.find_first_of(".eE") == std::string_view::npos || text.starts_with("0x")) return std::nullopt;
    double value = 0;
    const auto [end, error] =
        in_ieee_environment([&] { return std::from_chars(text.data(), text.data() + text.size(), value); });
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return std::pair(std::bit_cast<uint64_t>(value), true);
  }

  std::optional<int> find_register(std::string_view name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto known = scope->registers.find(name); known != scope->registers.end()) return known->second;
      const RegisterRange* declared = declaration_of(scope->scalars, scope->ranges, name);
      std::string canonical(name);
      if (!declared) {  // %v.x or %v.r
        const size_t dot = name.rfind('.');
        if (dot == std::string_view::npos) continue;
        const RegisterRange* const vector = declaration_of(scope->vectors, scope->vectors, name.substr(0, dot));
        for (size_t i = 0; vector && i < static_cast<size_t>(vector->elements); ++i) {
          if (std::ranges::find(vector_elements[i], name.substr(dot + 1)) == vector_elements[i].end()) continue;
          declared = vector;
          canonical = element_name(name.substr(0, dot), i);
        }
        if (!declared) continue;
        if (canonical != name) return find_register(canonical);
      }
      if (std::ssize(entry_.registers) >= most_registers)
        refuse(peek(), fmt::format("at most {} registers", most_registers));
      const int index = static_cast<int>(entry_.registers.size());
      entry_.registers.push_back({.name = canonical, .type = declared->type});
      scope->registers.emplace(canonical, index);
      return index;
    }
    return std::nullopt;
  }
  static std::string element_name(std::string_view vector, size_t element) {
    return fmt::format("{}.{}", vector, vector_elements[element][0]);
  }
  /// A register, or a part of it that a video instruction selects, such as %r1.h0; no predicate.
  std::optional<Operand> find_part(std::string_view name) {
    Operand operand{.kind = Kind::reg};
    auto reg = find_register(name);
    if (const size_t dot = name.rfind('.'); !reg && dot != std::string_view::npos) {
      reg = find_register(name.substr(0, dot));
      operand.selector = name.substr(dot + 1);
    }
    if (!reg || entry_.registers[static_cast<size_t>(*reg)].type == Type::pred) return std::nullopt;
    operand.reg = *reg;
    return operand;
  }
  /// The number of elements of a vector register; 0 if the name is none.
  int find_vector(std::string_view name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const RegisterRange* const vector = declaration_of(scope->vectors, scope->vectors, name))
        return vector->elements;
    }
    return 0;
  }
  std::optional<int> find_variable(std::string_view name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto entry = scope->variables.find(name); entry != scope->variables.end()) return entry->second;
    }
    return std::nullopt;
  }

  void parse_instruction() {
    PtxInstruction instruction;
    instruction.line = peek().line;
    instruction.source_line = source_line_;
    instruction.source_file = source_file_;
    const char* const begin = peek().spelling.data();
    if (take_if("@")) {
      instruction.guard_negated = take_if("!");
      const Token token = take();
      const auto reg = find_register(token.spelling);
      if (!reg || entry_.registers[static_cast<size_t>(*reg)].type != Type::pred)
        refuse(token, "a predicate register of this entry");
      instruction.guard = *reg;
    }
    instruction.opcode = word("an instruction");
    if (instruction.opcode.starts_with('.')) refuse(tokens_[at_ - 1], "an instruction");
    // Inline assembly has blanks in an opcode, as in "lop3 .b32".
    while (peek().kind == Token::Kind::word && peek().spelling.starts_with('.')) instruction.opcode += take().spelling;
    instruction.opcode = with_ordered_modifiers(instruction.opcode);
    const std::string_view opcode = instruction.opcode;
    instruction.words = words_of(opcode);
    if (instruction.words.size() > most_words)
      refuse(tokens_[at_ - 1], fmt::format("an opcode of at most {} words", most_words));
    instruction.row = &opcode_named(instruction.words[0]);
    const bool is_jump = instruction.row->jump == Jump::branch, is_call = instruction.row->jump == Jump::call;
    while (!is(";")) {
      if (at_end()) refuse(peek(), "';'");
      const char* const begin_of_operand = peek().spelling.data();
      // call (result), function, (arguments): a word between the lists is the function
      const bool is_function =
          is_call && !is("(") && peek().kind == Token::Kind::word && !find_register(peek().spelling);
      const bool is_table = instruction.row->jump == Jump::table && instruction.operands.size() == 1;
      if (is_table) {
        table_ = take();
        break;
      }
      if (is_function && prototypes_.contains(peek().spelling)) {
        take();
        break;
      }
      if (is_function) instruction.operands.push_back({.kind = Kind::function, .name = word("a function")});
      else instruction.operands.push_back(parse_operand(is_jump));
      if (is_jump) {
        jumps_.push_back({entry_.instructions.size(), instruction.operands.size() - 1, open_numbers_,
                          instruction.operands.back().name});
      }
      if (instruction.row->is_matrix) {
        const std::string_view last = tokens_[at_ - 1].spelling;
        instruction.operand_texts.emplace_back(begin_of_operand, last.data() + last.size());
      }
      if (!is(";")) expect(",");
    }
    if (!is(";")) refuse(peek(), "';'");
    const char* const end = take().spelling.data();
    instruction.text = one_line(std::string_view(begin, static_cast<size_t>(end - begin)));
    if (instruction.row->jump == Jump::table) return append_table_branch(std::move(instruction));
    entry_.instructions.push_back(std::move(instruction));
  }

  void append_table_branch(PtxInstruction check) {
    if (check.operands.size() != 1) refuse(tokens_[at_ - 1], "brx.idx with an index and a list of labels");
    const auto targets = branch_targets_.find(table_.spelling);
    check.operands.push_back(
        {.kind = Kind::integer, .value = targets == branch_targets_.end() ? 0 : targets->second.size()});
    const size_t at = entry_.instructions.size();
    const bool is_guarded = check.guard >= 0;
    if (is_guarded) {  // lanes that do not jump continue after it
      PtxInstruction around = check;
      become(around, {Word::bra});
      around.guard_negated = !check.guard_negated;
      around.operands = {{.kind = Kind::label}};
      entry_.instructions.push_back(std::move(around));
      check.guard = -1;
    }
    entry_.instructions.push_back(check);
    append_branches(check, table_);
    if (is_guarded) entry_.instructions[at].operands[0].target = static_cast<int>(entry_.instructions.size());
  }

  static std::string one_line(std::string_view text) {
    std::string line;
    for (const char c : text) {
      const bool space = c == ' ' || (c >= '\t' && c <= '\r');
      if (!space) line += c;
      else if (!line.empty() && line.back() != ' ') line += ' ';
    }
    return line + ";";
  }

  Operand parse_operand(bool is_jump = false) {
    Operand first = parse_simple_operand(is_jump);
    if (!take_if("|")) return first;
    Operand second = parse_simple_operand(false);
    return {.kind = Kind::pair, .elements = {std::move(first), std::move(second)}};
  }

  std::vector<Operand> parse_list(std::string_view close) {
    std::vector<Operand> elements;
    ++depth_;
    while (!take_if(close)) {
      elements.push_back(parse_operand());
      if (!is(close)) expect(",");
    }
    --depth_;
    return elements;
  }

  Operand parse_simple_operand(bool is_jump) {
    if (depth_ > most_nested_brackets) refuse(peek(), fmt::format("at most {} nested brackets", most_nested_brackets));
    if (take_if("{")) return {.kind = Kind::vector, .elements = parse_list("}")};
    if (take_if("(")) return {.kind = Kind::list, .elements = parse_list(")")};
    if (take_if("[")) {
      // A tensor map with coordinates: [%rd1, {%r1, %r2}].
      ++depth_;
      Operand address{.kind = Kind::address, .elements = {parse_operand()}};
      --depth_;
      address.offset = offset();
      if (address.elements[0].kind == Kind::symbol) address.offset += std::exchange(address.elements[0].offset, 0);
      while (take_if(",")) address.elements.push_back(parse_operand());
      expect("]");
      return address;
    }
    const bool negated = take_if("!");
    const bool negative = !negated && take_if("-");
    const Token token = take();
    if (const auto real = real_of(token)) {
      const uint64_t sign = negative ? (real->second ? uint64_t{1} << 63 : uint64_t{1} << 31) : 0;
      return {.kind = Kind::real, .is_double = real->second, .value = real->first ^ sign};
    }
    if (token.kind == Token::Kind::number) {
      const auto value = number(token);
      if (!value) refuse(token, "a number");
      return {.kind = Kind::integer, .value = negative ? 0 - *value : *value};
    }
    if (token.kind != Token::Kind::word) refuse(token, "an operand");
    if (const auto part = negated ? std::nullopt : find_part(token.spelling)) {
      Operand operand = *part;
      operand.negated = negative;
      return operand;
    }
    if (negative) refuse(token, "an operand");
    if (token.spelling == "_") return {.kind = Kind::sink};
    if (is_jump) return {.kind = Kind::label, .name = std::string(token.spelling)};
    if (const auto reg = find_register(token.spelling)) return {.kind = Kind::reg, .reg = *reg, .negated = negated};
    if (const int elements = find_vector(token.spelling); elements > 0 && !negated) {
      Operand vector{.kind = Kind::vector};
      for (int i = 0; i < elements; ++i)
        vector.elements.push_back(
            {.kind = Kind::reg, .reg = *find_register(element_name(token.spelling, static_cast<size_t>(i)))});
      return vector;
    }
    if (const auto variable = find_variable(token.spelling)) {
      Operand symbol{.kind = Kind::symbol, .variable = *variable, .name = std::string(token.spelling)};
      if (take_if("[")) {  // an element: ptxas multiplies the index by the size
        symbol.offset = integer() * bytes_of(module_.variables[static_cast<size_t>(*variable)].type);
        expect("]");
      }
      symbol.offset += offset();
      return symbol;
    }
    if (function_names_.contains(token.spelling)) return {.kind = Kind::function, .name = std::string(token.spelling)};
    if (token.spelling.starts_with('%') || token.spelling == "WARP_SZ")
      return {.kind = Kind::special, .negated = negated, .name = std::string(token.spelling)};
    refuse(token, "a register, a variable or a number");
  }

  int64_t offset() {
    int64_t sum = 0;
    while (is("+") || is("-")) {
      const bool negative = take().spelling == "-";
      const int64_t addend = integer();
      sum = static_cast<int64_t>(static_cast<uint64_t>(sum) +
                                 (negative ? 0 - static_cast<uint64_t>(addend) : static_cast<uint64_t>(addend)));
    }
    return sum;
  }

  std::string_view text_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  Module module_;
  Entry entry_;
  std::set<std::string> entry_names_;
  std::set<std::string, std::less<>> function_names_, prototypes_;
  std::vector<Scope> scopes_;
  std::vector<std::map<std::string, int, std::less<>>> all_labels_;
  std::vector<int> open_numbers_;
  std::vector<UnresolvedJump> jumps_;
  std::map<std::string, std::vector<std::string>, std::less<>> branch_targets_;
  Token table_;  // of the brx.idx that is being read
  Variable last_;
  bool points_ = false, is_opaque_ = false;
  int owner_ = -1;  // Variable::entry for the declarations that follow
  int depth_ = 0;
  int64_t variable_bytes_ = 0;
  int source_line_ = 0, source_file_ = 0;
};

}  // namespace

const Entry* Module::find(std::string_view name) const {
  const auto entry = std::ranges::find(entries, name, &Entry::name);
  return entry == entries.end() ? nullptr : &*entry;
}

std::vector<int64_t> places_of_constants(const Module& module) {
  std::vector<int64_t> places;
  int64_t end = 0;
  for (const Variable& variable : module.variables) {
    if (variable.space != Space::constant || variable.is_extern_array) {
      places.push_back(-1);
      continue;
    }
    places.push_back(round_up(end, variable.align));
    end = places.back() + variable.size_bytes();
  }
  return places;
}

Module read_module(std::string_view text) { return PtxParser(text).parse(); }

void become(PtxInstruction& instruction, std::vector<Word> words) {
  std::string opcode(print(words[0]));
  for (const Word word : std::span(words).subspan(1)) opcode.append(".").append(print(word));
  instruction.opcode = std::move(opcode);
  instruction.words = std::move(words);
  instruction.row = &opcode_named(instruction.words[0]);
}

}  // namespace bitmma::kernel
