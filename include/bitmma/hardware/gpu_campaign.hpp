// SPDX-License-Identifier: MIT
// A campaign on a GPU from its request to its report, over instructions or over functions of words.
//
//   const CampaignOptions options = campaign_options({.options = {.seed = 7}, .outputs = 1e9});
//   Gpu gpu;
//   const GpuCampaign campaign = run_gpu_campaign(gpu, options);
//   print(describe(campaign));
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bitmma/hardware/campaign.hpp"
#include "bitmma/hardware/word_campaign.hpp"

namespace bitmma {

/// The families of campaigns over instructions, by their names.
inline constexpr auto campaign_families =
    std::to_array<std::pair<std::string_view, Family>>({{"mma.sync", Family::mma_sync},
                                                        {"tcgen05-moves", Family::tmem_move},
                                                        {"tcgen05.mma", Family::tcgen05},
                                                        {"wgmma", Family::wgmma}});
/// What campaigns over functions of words run.
enum class WordFunctions : uint8_t { math, cvt, c_functions };
inline constexpr auto word_families = std::to_array<std::pair<std::string_view, WordFunctions>>(
    {{"math", WordFunctions::math}, {"cvt", WordFunctions::cvt}, {"c-functions", WordFunctions::c_functions}});

struct GpuCampaignRequest {
  CampaignOptions options = {};        // target, source and provenance are those of the GPU
  std::optional<double> outputs = {};  // approximately; instead of the options' units
};

/// The options of a campaign, with the units of the outputs. Throws Error as require_valid does, for a folder that does
/// not exist (field save_folder), and for outputs that no units give (field outputs): all checks that need no GPU.
CampaignOptions campaign_options(const GpuCampaignRequest& request);

/// Why the campaign has to stop, such as "SIGINT", asked before each unit; empty: it goes on.
using StopReason = std::function<std::string_view()>;

struct [[nodiscard]] GpuCampaign {
  CampaignOptions options = {};  // with the GPU's target, source and provenance
  CampaignReport report = {};
  double seconds = 0;
  std::string_view stopped_by = {};     // the reason to stop before the last unit; empty: none
  std::vector<Violation> failure = {};  // the error that ended it; empty: none

  bool is_complete() const { return report.next_unit >= options.first_unit + options.units; }
  /// "done", "--seconds", the reason to stop or the error.
  std::string ended_by() const;
};

/// Runs the campaign. A GPU that fails is the campaign's failure, beside the results before it. Throws Error if the
/// options are invalid or select nothing.
GpuCampaign run_gpu_campaign(const Gpu& gpu, CampaignOptions options, const StopReason& stop_reason = {},
                             const CampaignProgress& progress = {});

/// As describe() of its report.
Report describe(const GpuCampaign& campaign);
/// Mismatches that were not saved: a warning for each reason.
std::vector<Violation> warnings_of(const GpuCampaign& campaign);
/// Throws Error if the GPU failed, or if nothing was compared.
void require_results(const GpuCampaign& campaign);

struct GpuWordCampaignRequest {
  WordFunctions functions = WordFunctions::math;
  std::vector<std::string> kernels = {};  // of c-functions: compiled modules, as for c_word_functions
  WordCampaignOptions options = {};       // source and provenance are those of the GPU
  std::optional<double> outputs = {};     // instead of the options' arguments
};

/// Throws Error unless c-functions have kernels and other families have none (field family), for modules without a
/// kernel, and for outputs out of range: all checks that need no GPU.
void require_valid(const GpuWordCampaignRequest& request);

struct [[nodiscard]] GpuWordCampaign {
  WordCampaignOptions options = {};  // with the GPU's source and provenance
  WordCampaignReport report = {};
  double seconds = 0;

  bool differs() const;
};

/// Throws Error as require_valid and run_word_campaign do, and for a GPU of no known target.
GpuWordCampaign run_gpu_word_campaign(const Gpu& gpu, GpuWordCampaignRequest request,
                                      const WordCampaignProgress& progress = {});

/// As describe() of its report.
Report describe(const GpuWordCampaign& campaign);

}  // namespace bitmma
