// What the maps of `bitmma layout` share.
#pragma once

#include <optional>
#include <string>

#include "bitmma/analysis/picture.hpp"
#include "commands.hpp"

namespace bitmma::cli {

/// What a map can be asked: everything, or one element.
struct Query {
  bool csv = false, json = false;
  std::optional<int> row, col;

  void add(CLI::App& command);
  /// True when one element is asked for. Throws Error when half of it is, or it lies outside.
  bool one_element(int rows, int cols) const;
};

/// --svg: a picture of what the command otherwise prints as text.
struct SvgFlag {
  std::string path;

  void add(CLI::App& command) { command.add_option("--svg", path, "write a picture to this file instead"); }
  bool asked() const { return !path.empty(); }
  void write(const Context& context, const Picture& picture) const;
};

// One function per map.
void add_smem_layout(CLI::App& layout, Context& context);
void add_fragment_layout(CLI::App& layout, Context& context);
void add_tmem_layout(CLI::App& layout, Context& context);
void add_scales_layout(CLI::App& layout, Context& context);
void add_ldst_layout(CLI::App& layout, Context& context);
void add_ldmatrix_layout(CLI::App& layout, Context& context);

}  // namespace bitmma::cli
