// SPDX-License-Identifier: MIT
#include "choice_table.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>

#include "choices_data.hpp"

namespace bitmma {
namespace {

constexpr std::array<int8_t, 256> digit_values = [] {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<int8_t, 256> values{};
  for (size_t i = 0; i < digits.size(); ++i) values[static_cast<unsigned char>(digits[i])] = static_cast<int8_t>(i);
  return values;
}();

/// Base64 VLQ without sign: 5 bits a digit, the lowest first; 32 marks all digits of a number but its last.
class Numbers {
 public:
  explicit Numbers(std::string_view text) : text_(text) {}
  bool has_more() const { return at_ < text_.size(); }
  int64_t next() {
    int64_t number = 0;
    for (int shift = 0; has_more(); shift += 5) {
      const int64_t digit = digit_values[static_cast<unsigned char>(text_[at_++])];
      number |= (digit & 31) << shift;
      if (digit < 32) break;
    }
    return number;
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

/// Calls `read` with the section and the text of each line that is no comment.
void each_line(std::string_view text, std::initializer_list<std::string_view> sections,
               const std::function<void(std::string_view, std::string_view)>& read) {
  std::string_view section;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const auto named = std::ranges::find(sections, line);
    if (named != sections.end()) section = *named;
    else if (!line.empty() && line.front() != '#') read(section, line);
  }
}

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> parts;
  for (size_t bar = 0; bar != std::string_view::npos;) {
    bar = line.find('|');
    parts.push_back(line.substr(0, bar));
    if (bar != std::string_view::npos) line.remove_prefix(bar + 1);
  }
  return parts;
}

std::vector<ChoiceKernel> kernels_of(const std::vector<std::string>& names, std::string_view line) {
  std::vector<ChoiceKernel> kernels(1);
  for (Numbers numbers(line); numbers.has_more();) {
    const auto name = static_cast<size_t>(numbers.next());
    kernels.push_back({.names = names[name], .slices = static_cast<int>(numbers.next())});
  }
  return kernels;
}

/// The runs of both lists in ascending order of M, those of the first one first, each once.
void merge(std::vector<ChoiceRun>& merged, ChoiceRuns left, ChoiceRuns above) {
  merged.clear();
  while (!left.empty() || !above.empty()) {
    ChoiceRuns& next = above.empty() || (!left.empty() && left.front().m <= above.front().m) ? left : above;
    const auto last = merged.end() - std::min<std::ptrdiff_t>(2, std::ssize(merged));
    if (std::find(last, merged.end(), next.front()) == merged.end()) merged.push_back(next.front());
    next = next.subspan(1);
  }
}

/// The file of grids: each is decoded when it is first asked for.
struct Grids {
  struct Row {
    std::string_view gpu, kind, layout, decisions, numbers;
    std::unique_ptr<ChoiceGrid> grid = {};
  };

  std::vector<ChoiceKernel> kernels = {};
  std::vector<Row> rows = {};
  std::mutex mutex = {};

  Grids() {
    std::vector<std::string> names;
    each_line(choices_grid_text, {"names", "kernels", "grid"}, [&](std::string_view section, std::string_view line) {
      if (section == "names") names.emplace_back(line);
      else if (section == "kernels") kernels = kernels_of(names, line);
      else if (const std::vector<std::string_view> parts = split(line); parts.size() == 5)
        rows.push_back({parts[0], parts[1], parts[2], parts[3], parts[4]});
    });
  }

  static Grids& get() {
    static Grids grids;
    return grids;
  }
};

}  // namespace

const ChoiceRun* run_at(ChoiceRuns runs, int64_t m) {
  const auto after = std::ranges::upper_bound(runs, m, {}, [](const ChoiceRun& run) { return int64_t{run.m}; });
  return after == runs.begin() || after == runs.end() ? nullptr : &*(after - 1);
}

namespace {

std::vector<ChoiceRun> runs_of(std::string_view line) {
  std::vector<ChoiceRun> runs;
  int64_t m = 0;
  for (Numbers numbers(line); numbers.has_more();) {
    m += numbers.next();
    runs.push_back({.m = static_cast<int32_t>(m), .kernel = static_cast<uint32_t>(numbers.next())});
  }
  return runs;
}

ChoiceTable table_of(std::string_view text) {
  ChoiceTable made{.lists = {{}}};
  std::vector<std::string> names;
  const auto read = [&](std::string_view section, std::string_view line) {
    if (section == "pairs") {
      std::istringstream words{std::string(line)};
      int64_t n = 0, k = 0;
      for (char comma = 0; words >> n >> comma >> k;) made.pairs.emplace_back(n, k);
    } else if (section == "names") {
      names.emplace_back(line);
    } else if (section == "kernels") {
      made.kernels = kernels_of(names, line);
    } else if (section == "runs") {
      made.lists.push_back(runs_of(line));
    } else if (const std::vector<std::string_view> parts = split(line); parts.size() == 4) {
      ChoiceTable::Call& call = made.calls.emplace_back();
      call.gpu = parts[0], call.kind = parts[1], call.layout = parts[2];
      for (Numbers numbers(parts[3]); numbers.has_more();) call.lists.push_back(static_cast<size_t>(numbers.next()));
    }
  };
  each_line(text, {"pairs", "names", "kernels", "runs", "choices"}, read);
  return made;
}

}  // namespace

const ChoiceTable::Call* ChoiceTable::find(std::string_view gpu, std::string_view kind, std::string_view layout) const {
  const auto call = std::ranges::find_if(
      calls, [&](const Call& row) { return row.gpu == gpu && row.kind == kind && row.layout == layout; });
  return call == calls.end() ? nullptr : &*call;
}

const ChoiceTable& ChoiceTable::by_k() {
  static const ChoiceTable table = table_of(choices_by_k_text);
  return table;
}

const ChoiceTable& ChoiceTable::get() {
  static const ChoiceTable table = [] {
    ChoiceTable made = table_of(choices_text);
    const std::vector<ChoiceTable::Call> of_pairs = made.calls;
    for (const ChoiceTable::Call& call : of_pairs) {
      for (const Grids::Row& row : Grids::get().rows) {
        if (!made.find(call.gpu, row.kind, row.layout))
          made.calls.push_back({.gpu = call.gpu,
                                .kind = std::string(row.kind),
                                .layout = std::string(row.layout),
                                .lists = std::vector<size_t>(made.pairs.size())});
      }
    }
    return made;
  }();
  return table;
}

ChoiceGrid::ChoiceGrid(std::string_view decisions, std::string_view numbers_text) {
  size_t decided = 0;
  const auto is_set = [&] {
    const int digit = digit_values[static_cast<unsigned char>(decisions[decided / 6])];
    return (digit >> (decided++ % 6) & 1) != 0;
  };
  Numbers numbers(numbers_text);
  std::vector<ChoiceRun> known;
  parts_.reserve(steps * steps);
  for (int64_t row = 0; row < steps; ++row) {
    for (int64_t column = 0; column < steps; ++column) {
      const Part left = column > 0 ? parts_.back() : Part{}, above = row > 0 ? parts_[parts_.size() - steps] : Part{};
      if (is_set()) {
        parts_.push_back(left);
        continue;
      }
      if (is_set()) {
        parts_.push_back(above);
        continue;
      }
      const auto of = [&](Part part) {  // without the run that ends the list
        return ChoiceRuns(runs_).subspan(part.begin, part.count - std::min(part.count, 1U));
      };
      merge(known, of(left), of(above));
      const auto begin = static_cast<uint32_t>(runs_.size());
      for (const ChoiceRun& run : known)
        if (is_set()) runs_.push_back(run);
      int64_t m = 0;
      for (int64_t others = numbers.next(); others > 0; --others) {
        m += numbers.next();
        runs_.push_back({.m = static_cast<int32_t>(m), .kernel = static_cast<uint32_t>(numbers.next())});
      }
      std::ranges::sort(runs_.begin() + begin, runs_.end(), {}, &ChoiceRun::m);
      runs_.push_back({.m = most_m + 1});
      parts_.push_back({begin, static_cast<uint32_t>(runs_.size()) - begin});
    }
  }
  runs_.shrink_to_fit();
}

const ChoiceGrid* ChoiceGrid::find(std::string_view gpu, std::string_view kind, std::string_view layout) {
  Grids& grids = Grids::get();
  const auto row = std::ranges::find_if(
      grids.rows, [&](const Grids::Row& r) { return r.gpu == gpu && r.kind == kind && r.layout == layout; });
  if (row == grids.rows.end()) return nullptr;
  const std::scoped_lock lock(grids.mutex);
  if (!row->grid) row->grid = std::make_unique<ChoiceGrid>(row->decisions, row->numbers);
  return row->grid.get();
}

ChoiceRuns ChoiceGrid::runs(int64_t n, int64_t k) const {
  const Part part = parts_[static_cast<size_t>((n / step - 1) * steps + k / step - 1)];
  return ChoiceRuns(runs_).subspan(part.begin, part.count);
}

const ChoiceKernel& ChoiceGrid::kernel(uint32_t number) { return Grids::get().kernels[number]; }

ChoiceBatches::ChoiceBatches(std::string_view text) {
  std::vector<std::string> names;
  each_line(text, {"names", "kernels", "heads", "pairs", "runs", "choices"},
            [&](std::string_view section, std::string_view line) {
              Numbers numbers(line);
              if (section == "names") {
                names.emplace_back(line);
              } else if (section == "kernels") {
                kernels_ = kernels_of(names, line);
              } else if (section == "heads") {
                while (numbers.has_more()) heads_.push_back(numbers.next());
              } else if (section == "pairs") {
                while (numbers.has_more()) {
                  const int64_t queries = numbers.next();
                  pairs_.try_emplace({queries, numbers.next()}, pairs_.size());
                }
              } else if (section == "runs") {
                lists_.push_back(runs_of(line));
              } else if (const std::vector<std::string_view> parts = split(line); parts.size() == 5) {
                Row& row = rows_.emplace_back(Row{parts[0], parts[1], parts[2], parts[3]});
                uint32_t end = 0;
                for (Numbers repeated(parts[4]); repeated.has_more();) {
                  row.lists.push_back(static_cast<uint32_t>(repeated.next()));
                  row.ends.push_back(end += static_cast<uint32_t>(repeated.next()));
                }
              }
            });
}

const ChoiceBatches& ChoiceBatches::get() {
  static const ChoiceBatches batches(choices_batched_text);
  return batches;
}

bool ChoiceBatches::has(std::string_view gpu, std::string_view kind, std::string_view layout) const {
  return std::ranges::any_of(
      rows_, [&](const Row& row) { return row.gpu == gpu && row.kind == kind && row.layout == layout; });
}

const ChoiceKernel* ChoiceBatches::find(std::string_view gpu, std::string_view kind, std::string_view layout, int64_t m,
                                        int64_t n, int64_t k, int64_t matrices, int bytes) const {
  const int64_t most_elements = most_bytes / bytes / matrices;
  if (matrices > most_matrices || m > most_elements / n || n > most_elements / k || m > most_elements / k)
    return nullptr;
  for (const Row& row : rows_) {
    if (row.gpu != gpu || row.kind != kind || row.layout != layout) continue;
    const bool is_scores = row.part == "scores";
    const int64_t head = is_scores ? k : n;
    const auto lengths = is_scores ? std::pair(m, n) : layout.front() == 't' ? std::pair(k, m) : std::pair(m, k);
    const auto of_head = std::ranges::find(heads_, head);
    const auto pair = pairs_.find(lengths);
    if (of_head == heads_.end() || pair == pairs_.end()) continue;
    const size_t place = static_cast<size_t>(of_head - heads_.begin()) * pairs_.size() + pair->second;
    const auto at = std::ranges::upper_bound(row.ends, place) - row.ends.begin();
    const std::vector<ChoiceRun>& runs = lists_[row.lists[static_cast<size_t>(at)]];
    const auto after =
        std::ranges::upper_bound(runs, matrices, {}, [](const ChoiceRun& run) { return int64_t{run.m}; });
    return after == runs.begin() ? nullptr : &kernels_[(after - 1)->kernel];
  }
  return nullptr;
}

}  // namespace bitmma
