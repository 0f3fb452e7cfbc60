// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "bitmma/hardware/gpu_campaign.hpp"
#include "flags.hpp"

namespace bitmma::cli {

/// The flags of bitmma gpu campaign.
struct CampaignFlags {
  Flag<std::string> only, save = ".", family = "wgmma";
  Flag<std::vector<std::string>> kernels;
  Flag<int> device = 0, threads = 1;
  Flag<bool> json = false;
  Flag<int64_t> units = CampaignOptions{}.units, unit_outputs = CampaignOptions{}.outputs_per_unit;
  Flag<int64_t> first_unit = 0, max_saved = CampaignOptions{}.max_saved;
  Flag<double> seconds = 0;
  Flag<uint64_t> seed = 0;
  Flag<std::optional<double>> outputs;

  void add(Command& command);
  GpuCampaignRequest request(Family instructions) const;
  /// Reads the files of --kernels.
  GpuWordCampaignRequest word_request(WordFunctions functions) const;
};

/// The flags of the fields that campaigns refuse.
inline constexpr auto flags_of_campaigns = std::to_array<FlagOfField>({{"only", "--only"},
                                                                       {"units", "--units"},
                                                                       {"first_unit", "--first-unit"},
                                                                       {"outputs_per_unit", "--unit-outputs"},
                                                                       {"outputs", "--outputs"},
                                                                       {"arguments", "--outputs"},
                                                                       {"seconds", "--seconds"},
                                                                       {"save_folder", "--save"},
                                                                       {"max_saved", "--max-saved"},
                                                                       {"threads", "--threads"},
                                                                       {"family", "--family"},
                                                                       {"kernels", "--kernels"}});

}  // namespace bitmma::cli
