// What the maps of `bitmma layout` share.
#pragma once

#include <optional>
#include <string>

#include "bitmma/analysis/picture.hpp"
#include "bitmma/layout/cute.hpp"
#include "commands.hpp"

namespace bitmma::cli {

/// What a map can be asked: everything, or one element.
struct Query {
  bool csv = false, json = false;
  std::optional<int> row = {}, col = {};

  void add(CLI::App& command);
  /// True when one element is asked for. Throws Error when half of it is, or it lies outside.
  bool one_element(int rows, int cols) const;
  /// Beside `flags`, which ask the other way round: "which elements " + `reverse`. Throws Error for a row or a column.
  void refuse_beside(std::string_view flags, std::string_view reverse) const;
};

/// --svg: a picture of what the command otherwise prints as text.
struct SvgFlag {
  std::string path;

  void add(CLI::App& command) { command.add_option("--svg", path, "write a picture to this file instead"); }
  bool asked() const { return !path.empty(); }
  void write(const Context& context, const Picture& picture) const;
};

// One function per map.
/// --element-bits: what the text says wins, unless the flag says another number. Throws Error then.
CuteLayout require_cute(const std::string& text, std::optional<int> element_bits, const CuteSymbols& symbols);

/// A layout in CuTe's notation, shown or asked about.
struct CuteView {
  CuteLayout cute = {};
  std::string title = {};  // before the layout; may be empty
  Query query = {};
  std::optional<int64_t> byte = {};
  int max_lines = 32;
  SvgFlag svg = {};
};
void show_cute(Context& context, const CuteView& view);

/// Says that `place` holds no element: exit code 1, and no heading without lines.
void answer_nothing(Context& context, const Query& query, const std::string& place);

void add_descriptor_layout(CLI::App& layout, Context& context);
void add_smem_layout(CLI::App& layout, Context& context);
void add_fragment_layout(CLI::App& layout, Context& context);
void add_tmem_layout(CLI::App& layout, Context& context);
void add_tmem_plan_layout(CLI::App& layout, Context& context);
void add_scales_layout(CLI::App& layout, Context& context);
void add_ldst_layout(CLI::App& layout, Context& context);
void add_ldmatrix_layout(CLI::App& layout, Context& context);

}  // namespace bitmma::cli
