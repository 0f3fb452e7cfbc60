// SPDX-License-Identifier: MIT
#include "bitmma/hardware/gpu_campaign.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "../core/seconds.hpp"
#include "bitmma/core/text.hpp"

namespace bitmma {
namespace {

/// The number of units with approximately this number of outputs.
int64_t units_of(double outputs, int64_t outputs_per_unit) {
  return in_ieee_environment([&] {
    const double most = static_cast<double>(campaign_units - 1) * static_cast<double>(outputs_per_unit);
    if (outputs >= 1 && outputs <= most)
      return static_cast<int64_t>(outputs / static_cast<double>(outputs_per_unit)) + 1;
    throw Error({.field = "outputs", .seen = fmt::format("{}", outputs), .expected = fmt::format("1..{:.3g}", most)});
  });
}

}  // namespace

CampaignOptions campaign_options(const GpuCampaignRequest& request) {
  CampaignOptions options = request.options;
  require_valid(options);
  std::error_code error;
  if (!options.save_folder.empty() && !std::filesystem::is_directory(options.save_folder, error))
    throw Error({.field = "save_folder",
                 .seen = options.save_folder,
                 .expected = "an existing folder",
                 .fix = fmt::format("mkdir {}", options.save_folder)});
  if (!request.outputs) return options;
  options.units = units_of(*request.outputs, options.outputs_per_unit);
  const int64_t left = campaign_units - options.first_unit;
  if (options.units > left)
    throw Error({.field = "outputs",
                 .seen = in_ieee_environment([&] { return fmt::format("{}", *request.outputs); }),
                 .expected = fmt::format("outputs of {}", counted(left, "unit")),
                 .fix = "there are no more units after `first_unit`"});
  return options;
}

std::string GpuCampaign::ended_by() const {
  if (!failure.empty()) return print(failure.front());
  if (!stopped_by.empty()) return std::string(stopped_by);
  return is_complete() ? "done" : "--seconds";
}

GpuCampaign run_gpu_campaign(const Gpu& gpu, CampaignOptions options, const StopReason& stop_reason,
                             const CampaignProgress& progress) {
  options.target = target_of(gpu).value_or(options.target);
  options.source = gpu.name();
  options.provenance = provenance_of(gpu);
  if (stop_reason) options.stop = [&stop_reason] { return !stop_reason().empty(); };
  GpuCampaign campaign;
  const auto start = std::chrono::steady_clock::now();
  try {
    campaign.report = run_campaign(options, gpu.executor(), progress);
  } catch (const CampaignError& error) {
    campaign.failure = error.violations();
    campaign.report = error.report;
  }
  campaign.seconds = seconds_since(start);
  options.stop = nullptr;
  campaign.options = std::move(options);
  if (stop_reason && campaign.failure.empty() && !campaign.is_complete()) campaign.stopped_by = stop_reason();
  return campaign;
}

Report describe(const GpuCampaign& campaign) {
  return describe(campaign.report, campaign.options, campaign.seconds, campaign.ended_by());
}

std::vector<Violation> warnings_of(const GpuCampaign& campaign) {
  std::vector<Violation> warnings;
  for (const auto& [unit, case_index, cases, reason] : campaign.report.not_saved) {
    const std::string others =
        cases == 1 ? "" : fmt::format(", and neither were {} after it", counted(cases - 1, "case"));
    warnings.push_back({.code = ViolationCode::unusable_file,
                        .field = fmt::format("unit {}, case {}", unit, case_index),
                        .seen = fmt::format("its mismatch was not saved: {}{}", reason, others)});
  }
  return as_warnings(std::move(warnings));
}

void require_results(const GpuCampaign& campaign) {
  if (!campaign.failure.empty()) throw Error(campaign.failure);
  if (campaign.report.total.outputs > 0) return;
  throw Error({.field = "outputs",
               .seen = "0",
               .expected = "1 or more",
               .fix = fmt::format("nothing was compared before the campaign was ended by {}", campaign.ended_by())});
}

void require_valid(const GpuWordCampaignRequest& request) {
  const bool is_compiled = request.functions == WordFunctions::c_functions;
  if (is_compiled == request.kernels.empty())
    throw Error({.code = ViolationCode::contradiction,
                 .field = "family",
                 .seen = fmt::format("{} `kernels`", is_compiled ? "c-functions without" : "PTX instructions with"),
                 .expected = "c-functions with their compiled kernels, or math or cvt without",
                 .fix = "nvcc -arch=sm_90a -cubin lab/c_functions.cu"});
  if (is_compiled) static_cast<void>(c_word_functions(request.kernels));
  const bool is_in_range =
      in_ieee_environment([&] { return !request.outputs || (*request.outputs >= 1 && *request.outputs <= 1e12); });
  if (!is_in_range)
    throw Error({.field = "outputs",
                 .seen = in_ieee_environment([&] { return fmt::format("{}", *request.outputs); }),
                 .expected = "1..1e12"});
}

bool GpuWordCampaign::differs() const {
  return std::ranges::any_of(report.rows, [](const WordCampaignRow& row) { return row.differing > 0; });
}

GpuWordCampaign run_gpu_word_campaign(const Gpu& gpu, GpuWordCampaignRequest request,
                                      const WordCampaignProgress& progress) {
  require_valid(request);
  const std::optional<Target> target = target_of(gpu);
  const bool is_compiled = request.functions == WordFunctions::c_functions;
  if (!target && !is_compiled)
    throw Error({.field = "GPU", .seen = gpu.name(), .expected = "a GPU that this version knows"});
  const std::vector<WordFunction> functions = is_compiled ? c_word_functions(request.kernels)
                                              : request.functions == WordFunctions::math ? math_word_functions(*target)
                                                                                         : cvt_word_functions(*target);
  GpuWordCampaign campaign{.options = std::move(request.options)};
  if (request.outputs) campaign.options.arguments = static_cast<int64_t>(*request.outputs);
  campaign.options.source = gpu.name();
  campaign.options.provenance = provenance_of(gpu);
  const auto start = std::chrono::steady_clock::now();
  campaign.report = run_word_campaign(functions, campaign.options, word_executor(gpu), progress);
  campaign.seconds = seconds_since(start);
  return campaign;
}

Report describe(const GpuWordCampaign& campaign) {
  return describe(campaign.report, campaign.options, campaign.seconds);
}

}  // namespace bitmma
