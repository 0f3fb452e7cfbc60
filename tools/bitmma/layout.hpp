// SPDX-License-Identifier: MIT
// Shared by the maps of `bitmma layout`: their questions, and the four output formats.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bitmma/analysis/draw.hpp"
#include "bitmma/analysis/report.hpp"
#include "bitmma/analysis/shown_layout.hpp"
#include "bitmma/layout/cute.hpp"
#include "bitmma/memory/map.hpp"
#include "commands.hpp"

namespace bitmma::cli {

/// --svg: draws what the command otherwise prints as text.
struct SvgFlag {
  Flag<std::string> path;

  void add(Command& command) { command.add_output("--svg", path, "write a picture (SVG) to this file instead"); }
  bool is_given() const { return !path.empty(); }
  void write(const Context& context, const Picture& picture) const;
};

/// A flag that fixes the value of an axis: of the element (where is it?) or of the place (what does it hold?).
struct AskFlag {
  std::string flag = {};
  bool is_place = false;
  std::string axis = {};  // axis of the place; flags of the element follow the map's element axes in order
  bool is_required = true;
  std::optional<int64_t> fallback = {};  // value if other flags of the same question are given
  Flag<std::optional<int64_t>> value = {};
};

/// The flags of every map, and their meaning.
struct MapFlags {
  std::vector<AskFlag> asks = {};
  bool any_combination = false;  // flags of the element and of the place may be combined freely
  Flag<bool> csv = false, json = false;
  SvgFlag svg = {};
  Flag<std::optional<int64_t>> lines = {}, columns = {};

  PictureSize size() const { return {.lines = lines, .columns = columns}; }

  /// --row and --col, --csv, --json and --svg; the flags in `asks` go before them.
  void add_outputs(Command& command);
  void add_row_and_col(Command& command);
  /// Adds a flag for each of `asks`, with its help.
  void ask(Command& command, const AskFlag& flag, const std::string& help);
  std::optional<int64_t> value_of(std::string_view flag) const;
  bool has_question(bool is_place) const;
  /// True if the output is the whole map as text: no other format and no question.
  bool prints_text() const { return !csv && !json && !svg.is_given() && !has_question(true) && !has_question(false); }
  /// The question; nothing if no flag asks one. Throws Error for an incomplete question, and for both at once.
  std::optional<MapQuestion> question(const ShownLayout& layout) const;
  /// Prints the map, or the answer, as text, CSV, JSON or SVG.
  void show(Context& context, const ShownLayout& layout) const;
};

/// Reports that `place` holds no element: exit code 1, and no heading without lines.
void answer_nothing(Context& context, bool json, const std::string& place);

/// --m, --k, --lbo and --sbo: values of letters. The flag of a letter that is not in the text is not read.
struct SymbolFlags {
  Flag<std::optional<int64_t>> m = {}, k = {}, lbo = {}, sbo = {};
};

/// --element-bits: the text takes precedence. Throws Error if the flag gives another number.
CuteLayout require_cute(const std::string& text, std::optional<int> element_bits, const SymbolFlags& symbols);

/// --major, of the four names of the two: k; mn, m and n.
Major major_named(const std::string& name);

// One function per verb.
void add_algebra_layout(Command& layout, Context& context);
void add_banks_layout(Command& layout, Context& context);
void add_swizzles_layout(Command& layout, Context& context);
void add_descriptor_layout(Command& layout, Context& context);
void add_smem_layout(Command& layout, Context& context);
void add_fragment_layout(Command& layout, Context& context);
void add_tmem_layout(Command& layout, Context& context);
void add_tmem_plan_layout(Command& layout, Context& context);
void add_scales_layout(Command& layout, Context& context);
void add_chain_layout(Command& layout, Context& context);
void add_ldst_layout(Command& layout, Context& context);
void add_metadata_layout(Command& layout, Context& context);
void add_ldmatrix_layout(Command& layout, Context& context);

}  // namespace bitmma::cli
