// What the maps of `bitmma layout` share.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>

#include "bitmma/io/file.hpp"
#include "bitmma/io/picture.hpp"
#include "commands.hpp"

namespace bitmma::cli {

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
      throw Error({.field = "--row, --col",
                   .seen = fmt::format("{}, {}", *row, *col),
                   .legal = fmt::format("0..{}, 0..{}", rows - 1, cols - 1)});
    }
    return row.has_value();
  }
};

/// --svg: a picture of what the command otherwise prints as text.
struct SvgFlag {
  std::string path;

  void add(CLI::App& command) { command.add_option("--svg", path, "write a picture to this file instead"); }
  bool asked() const { return !path.empty(); }
  void write(const Context& context, const Picture& picture) const {
    write_whole(path, [&](std::ostream& stream) { stream << to_svg(picture); });
    context.terminal.err << fmt::format("{}: {}\n", path, picture.title);
  }
};

/// tmem, scales and ldst.
void add_tmem_layouts(CLI::App& layout, Context& context);

}  // namespace bitmma::cli
