// SPDX-License-Identifier: MIT
// Prints the results of runs and campaigns on a GPU as reports.
#include "bitmma/analysis/describe.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "../core/seconds.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/hardware/campaign.hpp"
#include "bitmma/hardware/run_file.hpp"

namespace bitmma {

Report describe(const FileOnGpu& file) {
  const Comparison& comparison = file.comparison;
  Report report{{"file", file.path}};
  report.update(describe(comparison, file.instruction));
  report.lines.clear();
  if (comparison.mismatches > 0) {
    report.add_text(fmt::format("{}: {} of {} {} from the model, first {}", printable(file.path), comparison.mismatches,
                                counted(comparison.outputs, "output"),
                                comparison.mismatches == 1 ? "differs" : "differ", print(*comparison.first)),
                    Tone::bad);
  }
  Report refused = Report::list();
  for (const auto& [index, violations] : file.refused) {
    refused.append({{"case", index}, {"violations", violations}});
    report.add_text(fmt::format("{}: case {}: the GPU ran it, but the model rejects it: {}", printable(file.path),
                                index, Error(violations).what()),
                    Tone::bad);
  }
  return report.add("refused", std::move(refused));
}

Report describe(const std::vector<FileOnGpu>& files, const Gpu& gpu) {
  Comparison total;
  int64_t refused = 0;
  Report list = Report::list();
  for (const FileOnGpu& file : files) {
    list.append(describe(file));
    total += file.comparison;
    refused += static_cast<int64_t>(file.refused.size());
  }
  Report report{{"gpu", gpu.name()},          {"capability", gpu.capability()}, {"driver", gpu.driver_version()},
                {"cuda", gpu.cuda_version()}, {"files", std::move(list)},       {"cases", total.cases},
                {"outputs", total.outputs},   {"mismatches", total.mismatches}, {"refused", refused}};
  return report.add_text(
      fmt::format("{} (sm_{}, driver {}): {}, {}, {}, {} differ from the model{}", gpu.name(), gpu.capability(),
                  gpu.driver_version(), counted(static_cast<int64_t>(files.size()), "file"),
                  counted(total.cases, "case"), counted(total.outputs, "output"), total.mismatches,
                  refused > 0 ? fmt::format(", and it rejects {}", counted(refused, "case")) : ""),
      total.mismatches + refused == 0 ? Tone::good : Tone::bad);
}

Report describe(const CampaignReport& report, const CampaignOptions& options, double seconds,
                std::string_view ended_by) {
  const auto provenance = [&](std::string_view name) {
    const auto entry = std::ranges::find(options.provenance, name, &std::pair<std::string, std::string>::first);
    return entry == options.provenance.end() ? std::string("unknown") : entry->second;
  };
  const std::string driver = provenance("driver"), cuda = provenance("cuda"), date = provenance("date");
  std::vector<std::vector<std::string>> table{
      {"instruction", "cases", "outputs", "special, subnormal, ties", "mismatches"}};
  Report rows = Report::list();
  const auto add = [&](const std::string& name, const CampaignRow& row) {
    table.push_back({name, std::to_string(row.cases), std::to_string(row.outputs), std::to_string(row.hard_outputs),
                     std::to_string(row.mismatches)});
    rows.append({{"instruction", name},
                 {"cases", row.cases},
                 {"outputs", row.outputs},
                 {"hard_outputs", row.hard_outputs},
                 {"mismatches", row.mismatches}});
  };
  for (const auto& [name, row] : report.rows) add(name, row);
  add("total", report.total);
  Report not_saved = Report::list();
  for (const auto& [unit, case_index, cases, reason] : report.not_saved)
    not_saved.append({{"unit", unit}, {"case", case_index}, {"cases", cases}, {"reason", reason}});
  Report summary{{"gpu", options.source},
                 {"target", print(options.target)},
                 {"driver", driver},
                 {"cuda", cuda},
                 {"date", date},
                 {"seed", options.seed},
                 {"first_unit", options.first_unit},
                 {"next_unit", report.next_unit},
                 {"outputs_per_unit", options.outputs_per_unit},
                 {"seconds", seconds},
                 {"ended_by", ended_by},
                 {"rows", std::move(rows)},
                 {"saved", report.saved},
                 {"not_saved", std::move(not_saved)}};
  const std::string units = report.next_unit > options.first_unit
                                ? fmt::format("units {}..{}", options.first_unit, report.next_unit - 1)
                                : fmt::format("units beside {}", options.first_unit);  // first_unit failed
  summary.add_text(fmt::format("{} ({}), driver {}, CUDA {}, {}; seed {}, {} of about {}; {} s", options.source,
                               print(options.target), driver, cuda, date, options.seed, units,
                               counted(options.outputs_per_unit, "output"), print_seconds(seconds)));
  summary.add_text("").add_text(table);
  for (const std::string& path : report.saved) summary.add_text("saved " + path);
  if (report.next_unit < options.first_unit + options.units)
    summary.add_text(fmt::format("to continue, use --first-unit {}", report.next_unit));
  return summary;
}

}  // namespace bitmma
