// SPDX-License-Identifier: MIT
#include "explained_share.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "../core/ieee_environment.hpp"

namespace bitmma {

std::string print_share(int64_t part, int64_t whole) {
  return in_ieee_environment([&]() -> std::string {
    const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(std::max<int64_t>(whole, 1));
    constexpr int most_digits = 17;
    for (int digits = 1;; ++digits) {
      const std::string text = fmt::format("{:.{}f}", percent, digits);
      const double read = std::stod(text);
      const bool reads_wrong = (read == 0 && part != 0) || (read == 100 && part != whole);
      if (!reads_wrong || digits == most_digits) return text + " %";
    }
  });
}

void add_explanations(Report& report, const std::vector<ExplainedShare>& rows, int64_t wrong) {
  constexpr size_t columns = 120, of_figures = 36, further = 4;
  const std::string no_figures(of_figures, ' ');
  const auto is_like_first = [&](const ExplainedShare& row) {
    return row.wrong_explained == rows.front().wrong_explained && row.right_broken == rows.front().right_broken;
  };
  report.add_text("explains  of wrong outputs  breaks  what the wrong program does");
  for (size_t i = 0; i < rows.size(); ++i) {
    const ExplainedShare& row = rows[i];
    const bool is_joined = i > 0 && is_like_first(row);
    std::string before = is_joined ? no_figures
                                   : fmt::format("{:<10}{:<18}{:>6}  ", row.explains_all ? "all" : "a part",
                                                 print_share(row.wrong_explained, wrong), row.right_broken);
    std::string_view word = is_joined ? "or " : "";
    for (const std::string& what : row.what) {
      report.add_text(before +
                      wrapped(fmt::format("{}{}", word, what), columns - of_figures - further, of_figures + further));
      before = no_figures, word = "and ";
    }
  }
  if (const auto count = std::ranges::count_if(rows, is_like_first); count > 1)
    report.add_text(fmt::format("these {} give the same bits here", count));
}

}  // namespace bitmma
