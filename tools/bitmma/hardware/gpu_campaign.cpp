// SPDX-License-Identifier: MIT
#include "gpu_campaign.hpp"

#include <fmt/format.h>

#include "bitmma/core/text.hpp"
#include "bitmma/hardware/gpu_campaign.hpp"
#include "campaign_flags.hpp"
#include "output.hpp"
#include "signals.hpp"
#include "status_line.hpp"

namespace bitmma::cli {
namespace {

std::string progress_text(const CampaignRow& total, int64_t units, double seconds) {
  const auto outputs = static_cast<double>(total.outputs);
  return fmt::format("{} of {}, {:.3g} outputs, {:.3g} outputs/s, {} mismatch{}", total.units, counted(units, "unit"),
                     outputs, outputs / seconds, total.mismatches, total.mismatches == 1 ? "" : "es");
}

std::string progress_text(const WordFunction& function, int64_t arguments, int64_t of) {
  return fmt::format("{}: {:.0f} % of {:.3g} arguments", function.name,
                     100.0 * static_cast<double>(arguments) / static_cast<double>(of), static_cast<double>(of));
}

void run_campaign_command(Context& context, const CampaignFlags& flags, Family family) {
  const CampaignOptions options =
      naming_flags(flags_of_campaigns, [&] { return campaign_options(flags.request(family)); });
  Gpu gpu(flags.device);
  const GpuCampaign campaign = naming_flags(flags_of_campaigns, [&] {
    const Interrupts interrupts;
    StatusLine line(context);
    return run_gpu_campaign(
        gpu, options, [&] { return interrupts.name(); },
        [&](const CampaignRow& total) {
          line.update([&] { return progress_text(total, options.units, line.seconds()); });
        });
  });
  const CampaignRow& total = campaign.report.total;
  if (total.units > 0) show(context, describe(campaign), flags.json);
  print_warnings(context, warnings_of(campaign));
  print_warnings(context, gpu.close());
  const bool is_stopped = !campaign.stopped_by.empty();
  if (is_stopped)
    context.terminal.err << fmt::format("interrupted by {} after {}\n", campaign.stopped_by,
                                        counted(total.units, "unit"));
  require_results(campaign);
  context.exit_code = total.mismatches > 0 ? exit_differs : is_stopped ? exit_bad_request : exit_same;
}

void run_word_campaign_command(Context& context, const CampaignFlags& flags, WordFunctions functions) {
  GpuWordCampaignRequest request = flags.word_request(functions);
  naming_flags(flags_of_campaigns, [&] { require_valid(request); });
  const int device = flags.device;
  const bool as_json = flags.json;
  context.require_flags_acted();
  Gpu gpu(device);
  const Interrupts interrupts;
  request.options.stop = [&] { return interrupts.received(); };
  const GpuWordCampaign campaign = naming_flags(flags_of_campaigns, [&] {
    StatusLine line(context);
    return run_gpu_word_campaign(gpu, request, [&](const WordFunction& function, int64_t arguments, int64_t of) {
      line.update([&] { return progress_text(function, arguments, of); });
    });
  });
  show(context, describe(campaign), as_json);
  print_warnings(context, gpu.close());
  context.exit_code = campaign.differs() ? exit_differs : campaign.report.stopped ? exit_bad_request : exit_same;
}

void run_campaign_of_family(Context& context, const CampaignFlags& flags) {
  const std::string& name = flags.family;
  for (const auto& row : campaign_families) {
    if (row.first == name) run_campaign_command(context, flags, row.second);
  }
  for (const auto& row : word_families) {
    if (row.first == name) run_word_campaign_command(context, flags, row.second);
  }
}

}  // namespace

void add_gpu_campaign(Command& gpu, Context& context) {
  Command* command = gpu.add_command(
      "campaign",
      "run random cases of every legal instruction of a family on a real GPU, and compare it with the model");
  const auto flags = std::make_shared<CampaignFlags>();
  flags->add(*command);
  command->footer(
      "Examples:\n  bitmma gpu campaign --outputs 1e9 --seed 7\n  bitmma gpu campaign --family mma.sync --outputs 1e9 "
      "--seed 7\n  bitmma gpu campaign --units 100 --only .sp --seconds 60\n  bitmma gpu campaign --family math "
      "--threads 0\n  bitmma gpu campaign --family c-functions --kernels c_functions.cubin --only expf\nIn math and "
      "c-functions, functions of one argument are run for all 2^32 words, others for --outputs random operands.\nAn "
      "interrupt ends the campaign after the running units and prints the table and the next unit; a second interrupt "
      "ends it at once.\nExit code 1 when the GPU and the model differ, 2 without a GPU that has the instruction, when "
      "the GPU fails, when\nnothing was compared, and after an interrupt.");
  command->callback([flags, &context] { run_campaign_of_family(context, *flags); });
}

}  // namespace bitmma::cli
