#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/instruction/instruction.hpp"

namespace bitmma {
namespace {

constexpr std::string_view grammar =
    "wgmma.mma_async{.sp}.sync.aligned.m64nNkK{.satfinite}.DTYPE.ATYPE.BTYPE{.and.popc}{.satfinite}";

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> words;
  for (;;) {
    const size_t dot = text.find('.');
    words.push_back(text.substr(0, dot));
    if (dot == std::string_view::npos) return words;
    text.remove_prefix(dot + 1);
  }
}

/// Reads "m64n8k16".
bool parse_shape(std::string_view text, Instruction& instruction) {
  for (const auto& [letter, number] :
       {std::pair('m', &instruction.m), std::pair('n', &instruction.n), std::pair('k', &instruction.k)}) {
    if (text.empty() || text.front() != letter) return false;
    text.remove_prefix(1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
    if (error != std::errc{} || *number < 0) return false;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
  }
  return text.empty();
}

/// Words of a mnemonic, taken one by one.
class Words {
 public:
  explicit Words(std::string_view text) : words_(split(text)) {}

  std::string_view peek() const { return next_ < words_.size() ? words_[next_] : std::string_view{}; }
  bool take(std::string_view word) {
    const bool same = next_ < words_.size() && words_[next_] == word;
    next_ += same;
    return same;
  }
  void skip() { ++next_; }
  bool done() const { return next_ >= words_.size(); }

 private:
  std::vector<std::string_view> words_;
  size_t next_ = 0;
};

constexpr std::string_view tcgen05_grammar =
    "tcgen05.mma{.ws}{.sp}.cta_group::G.kind::KIND{.block_scale{.SCALE_VEC}}{.ashift}{.collector::BUFFER::OP}";

constexpr std::array<std::string_view, 5> scale_vecs{"scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16",
                                                     "block32"};

/// True for "collector::a::fill" and its like; .ws has the buffers b0 to b3 instead of a.
bool is_collector(std::string_view text, bool weight_stationary) {
  for (const std::string_view buffer : {"a", "b0", "b1", "b2", "b3"}) {
    for (const std::string_view operation : {"fill", "use", "lastuse", "discard"}) {
      if ((buffer == "a") != weight_stationary && text == fmt::format("collector::{}::{}", buffer, operation))
        return true;
    }
  }
  return false;
}

Instruction parse_tcgen05(Words words) {
  std::vector<Violation> violations;
  const auto refuse = [&](std::string field, std::string_view seen, std::string legal) {
    violations.push_back({.field = std::move(field),
                          .seen = seen.empty() ? "(nothing)" : std::string(seen.substr(0, 80)),
                          .legal = std::move(legal),
                          .fix = fmt::format("write {}", tcgen05_grammar),
                          .source = "PTX ISA 9.7.16.10.9"});
  };
  Instruction instruction{.family = Family::tcgen05};
  words.take("tcgen05");
  if (!words.take("mma")) refuse("instruction", words.peek(), ".mma, .ld, .st, .cp or .shift after tcgen05");
  instruction.weight_stationary = words.take("ws");
  instruction.sparse = words.take("sp");
  if (words.take("cta_group::2"))
    instruction.cta_group = 2;
  else if (!words.take("cta_group::1"))
    refuse("qualifier", words.peek(), ".cta_group::1 or .cta_group::2 here; it is mandatory");
  const std::string_view kind = words.peek();
  const std::optional<MmaKind> found = kind.starts_with("kind::") ? mma_kind_named(kind.substr(6)) : std::nullopt;
  if (found)
    instruction.kind = *found;
  else
    refuse("kind", kind, ".kind::f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4 or mxf4nvf4");
  words.skip();
  const bool scaled = words.take("block_scale");
  if (found && scaled != instruction.has_block_scales()) {
    refuse(".block_scale", scaled ? "present" : "absent",
           scaled ? "absent: only the mx kinds have scales"
                  : fmt::format("present: kind::{} always has scales", info(*found).name));
  }
  for (const std::string_view text : scale_vecs) {
    if (scaled && words.take(text)) instruction.scale_vec = fmt::format(".{}", text);
  }
  instruction.ashift = words.take("ashift");
  if (words.peek().starts_with("collector::")) {
    const std::string_view collector = words.peek();
    if (is_collector(collector, instruction.weight_stationary))
      instruction.collector = fmt::format(".{}", collector);
    else
      refuse("collector", collector,
             instruction.weight_stationary ? "collector::b0..b3::fill, use, lastuse or discard"
                                           : "collector::a::fill, use, lastuse or discard");
    words.skip();
  }
  if (!words.done()) refuse("qualifier", words.peek(), "nothing more here");
  if (!violations.empty()) throw Error(std::move(violations));
  return instruction;
}

constexpr std::string_view mma_sync_grammar =
    "mma.sync.aligned.m16n8kK.row.col.kind::KIND.block_scale{.scale_vec::NX}.f32.ATYPE.BTYPE.f32.STYPE, or "
    "mma.sp::ordered_metadata.sync.aligned...";

Instruction parse_mma_sync(Words words) {
  std::vector<Violation> violations;
  const auto refuse = [&](std::string field, std::string_view seen, std::string legal) {
    violations.push_back({.field = std::move(field),
                          .seen = seen.empty() ? "(nothing)" : std::string(seen.substr(0, 80)),
                          .legal = std::move(legal),
                          .fix = fmt::format("write {}", mma_sync_grammar),
                          .source = "PTX ISA 9.7.14.5.14"});
  };
  Instruction instruction{.family = Family::mma_sync, .kind = MmaKind::mxf8f6f4, .a_source = OperandSource::registers};
  words.take("mma");
  instruction.sparse = words.take("sp::ordered_metadata");
  for (const std::string_view word : {"sync", "aligned"}) {
    if (!words.take(word)) refuse("qualifier", words.peek(), fmt::format(".{} here; it is mandatory", word));
  }
  if (!parse_shape(words.peek(), instruction)) refuse("shape", words.peek(), "m16n8kK");
  words.skip();
  for (const std::string_view word : {"row", "col"}) {
    if (!words.take(word))
      refuse("qualifier", words.peek(), fmt::format(".{} here: A row-major, B column-major", word));
  }
  const std::string_view kind = words.peek();
  const std::optional<MmaKind> found = kind.starts_with("kind::") ? mma_kind_named(kind.substr(6)) : std::nullopt;
  if (found && info(*found).table != 42)
    instruction.kind = *found;
  else
    refuse("kind", kind, ".kind::mxf8f6f4, mxf4 or mxf4nvf4: only the block-scaled mma.sync is simulated");
  words.skip();
  if (!words.take("block_scale")) refuse("qualifier", words.peek(), ".block_scale here; it is mandatory");
  for (const std::string_view text : {"scale_vec::1X", "scale_vec::2X", "scale_vec::4X"}) {
    if (words.take(text)) instruction.scale_vec = fmt::format(".{}", text);
  }
  Format c = Format::f32;
  for (const auto& [name, format] :
       {std::pair("dtype", &instruction.d), std::pair("atype", &instruction.a), std::pair("btype", &instruction.b),
        std::pair("ctype", &c), std::pair("stype", &instruction.scale_type)}) {
    if (const std::optional<Format> type = format_named(words.peek()))
      *format = *type;
    else
      refuse(name, words.peek(), "f32, then two of e4m3, e5m2, e2m3, e3m2, e2m1, then f32, then ue8m0 or ue4m3");
    words.skip();
  }
  if (c != instruction.d) refuse("ctype", info(c).name, "the type of D");
  if (!words.done()) refuse("qualifier", words.peek(), "nothing more here");
  if (!violations.empty()) throw Error(std::move(violations));
  return instruction;
}

}  // namespace

int Instruction::scale_count() const {
  if (!has_block_scales()) return 0;
  if (kind == MmaKind::mxf8f6f4) return 1;
  const int dense_k = sparse ? k / 2 : k;  // a sparse chunk is twice as long
  return dense_k / (scale_vec == ".scale_vec::4X" || scale_vec == ".block16" ? 16 : 32);
}

std::string print(const Instruction& instruction) {
  if (instruction.family == Family::tcgen05) {
    return fmt::format("tcgen05.mma{}{}.cta_group::{}.kind::{}{}{}{}{}", instruction.weight_stationary ? ".ws" : "",
                       instruction.sparse ? ".sp" : "", instruction.cta_group, info(instruction.kind).name,
                       instruction.has_block_scales() ? ".block_scale" : "", instruction.scale_vec,
                       instruction.ashift ? ".ashift" : "", instruction.collector);
  }
  if (instruction.family == Family::mma_sync) {
    return fmt::format("mma{}.sync.aligned.m{}n{}k{}.row.col.kind::{}.block_scale{}.{}.{}.{}.{}.{}",
                       instruction.sparse ? ".sp::ordered_metadata" : "", instruction.m, instruction.n, instruction.k,
                       info(instruction.kind).name, instruction.scale_vec, info(instruction.d).name,
                       info(instruction.a).name, info(instruction.b).name, info(instruction.d).name,
                       info(instruction.scale_type).name);
  }
  return fmt::format("wgmma.mma_async{}.sync.aligned.m{}n{}k{}.{}.{}.{}{}{}", instruction.sparse ? ".sp" : "",
                     instruction.m, instruction.n, instruction.k, info(instruction.d).name, info(instruction.a).name,
                     info(instruction.b).name, instruction.bit_operation, instruction.satfinite ? ".satfinite" : "");
}

Instruction parse_instruction(std::string_view text) {
  std::vector<Violation> violations;
  const auto refuse = [&](std::string field, std::string_view seen, std::string legal, std::string fix = {}) {
    violations.push_back({.field = std::move(field),
                          .seen = seen.empty() ? "(nothing)" : std::string(seen.substr(0, 80)),
                          .legal = std::move(legal),
                          .fix = std::move(fix),
                          .source = "PTX ISA 9.7.15.5.2"});
  };
  Instruction instruction;
  Words words(text);
  if (words.peek() == "tcgen05") return parse_tcgen05(std::move(words));
  if (words.peek() == "mma") return parse_mma_sync(std::move(words));
  if (!words.take("wgmma")) {
    refuse("instruction", words.peek(), "a mnemonic that begins with wgmma.mma_async, tcgen05.mma or mma.sync",
           fmt::format("write {}", grammar));
    throw Error(std::move(violations));
  }
  if (!words.take("mma_async")) refuse("instruction", words.peek(), ".mma_async after wgmma");
  instruction.sparse = words.take("sp");
  if (!words.take("sync")) refuse("qualifier", words.peek(), ".sync here; it is mandatory");
  if (!words.take("aligned")) refuse("qualifier", words.peek(), ".aligned here; it is mandatory");
  if (!parse_shape(words.peek(), instruction)) {
    refuse("shape", words.peek(), "mMnNkK, such as m64n128k16", fmt::format("write {}", grammar));
  }
  words.skip();
  instruction.satfinite = words.take("satfinite");
  for (const auto& [name, format] :
       {std::pair("dtype", &instruction.d), std::pair("atype", &instruction.a), std::pair("btype", &instruction.b)}) {
    if (const std::optional<Format> found = format_named(words.peek())) {
      *format = *found;
    } else {
      refuse(name, words.peek(), "f16, bf16, tf32, f32, e4m3, e5m2, s8, u8, b1 or s32");
    }
    words.skip();
  }
  if (words.peek() == "and" || words.peek() == "xor") {
    instruction.bit_operation = fmt::format(".{}", words.peek());
    words.skip();
    if (words.take("popc")) instruction.bit_operation += ".popc";
  }
  if (words.take("satfinite")) {
    if (instruction.satfinite) refuse("qualifier", "satfinite", "one .satfinite", "remove the second one");
    instruction.satfinite = true;
  }
  if (!words.done()) refuse("qualifier", words.peek(), "nothing more here", fmt::format("the form is {}", grammar));
  if (!violations.empty()) throw Error(std::move(violations));
  return instruction;
}

}  // namespace bitmma
