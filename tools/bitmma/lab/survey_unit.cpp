// SPDX-License-Identifier: MIT
#include "bitmma/survey/survey.hpp"
#include "survey.hpp"
#include "survey_device.hpp"

namespace bitmma::cli {
namespace {

struct UnitFlags {
  DeviceFlags device;
  Flag<std::string> unit, out;
  Flag<uint64_t> seed = 0;
};

}  // namespace

void add_survey_unit(Command& survey) {
  Command* command = survey.add_command("unit", "");
  command->group("");
  const auto flags = std::make_shared<UnitFlags>();
  command->add_option("unit", flags->unit, "")->required();
  command->add_output("-o,--output", flags->out, "")->required();
  command->add_option("--seed", flags->seed, "");
  flags->device.add(*command);
  command->callback([flags] {
    end_with_survey();
    write_tensor_file(flags->out, to_file(run_survey_unit(flags->unit, flags->device.survey_device(flags->seed))));
  });
}

}  // namespace bitmma::cli
