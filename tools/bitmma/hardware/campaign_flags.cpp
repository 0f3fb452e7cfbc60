// SPDX-License-Identifier: MIT
#include "campaign_flags.hpp"

#include "arguments.hpp"
#include "bitmma/files/file.hpp"

namespace bitmma::cli {

void CampaignFlags::add(Command& command) {
  command.add_option("--device", device, "which GPU")->capture_default_str();
  std::vector<std::string> names;
  for (const auto& row : word_families) names.emplace_back(row.first);
  for (const auto& row : campaign_families) names.emplace_back(row.first);
  command
      .add_option("--family", family,
                  "the family: wgmma, mma.sync, tcgen05.mma, tcgen05-moves, math, cvt or c-functions")
      ->capture_default_str();
  one_of(command.get_option("--family"), names);
  command.add_input("--kernels", kernels, "for c-functions: the compiled lab/c_functions.cu and c_functions_triton.py");
  command.add_option("--outputs", outputs, "approximate number of outputs, such as 1e9")
      ->excludes(
          command
              .add_option(
                  "--units", units,
                  "number of units of work; 1074 cover every mnemonic of wgmma once, 198 those of mma.sync on an H100")
              ->capture_default_str());
  command
      .add_option("--unit-outputs", unit_outputs,
                  "outputs per unit; another number gives other cases for the same seed")
      ->capture_default_str();
  command.add_option("--seconds", seconds, "start no unit after this many seconds; 0 means no limit")
      ->capture_default_str();
  command.add_option("--seed", seed, "seed of the cases; the same seed and unit give the same cases")
      ->capture_default_str();
  command.add_option("--first-unit", first_unit, "number of the first unit, for example to continue a campaign")
      ->capture_default_str();
  command.add_option("--only", only, "run only mnemonics that contain this text");
  command.add_output("--save", save, "save mismatching cases in this folder")->capture_default_str();
  command.add_option("--max-saved", max_saved, "save at most this many cases")->capture_default_str();
  command.add_flag("--json", json, "print the table as JSON");
  add_threads(command, threads);
}

GpuCampaignRequest CampaignFlags::request(Family instructions) const {
  return {.options = {.family = instructions,
                      .seed = seed,
                      .first_unit = first_unit,
                      .units = units,
                      .outputs_per_unit = unit_outputs,
                      .seconds = seconds,
                      .only = only,
                      .save_folder = save,
                      .max_saved = max_saved,
                      .threads = threads},
          .outputs = outputs.get()};
}

GpuWordCampaignRequest CampaignFlags::word_request(WordFunctions functions) const {
  GpuWordCampaignRequest request{.functions = functions,
                                 .options = {.only = only, .seed = seed, .seconds = seconds, .threads = threads},
                                 .outputs = outputs.get()};
  for (const std::string& path : *kernels) request.kernels.push_back(read_whole(path));
  return request;
}

}  // namespace bitmma::cli
