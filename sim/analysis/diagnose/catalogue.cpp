// SPDX-License-Identifier: MIT
// The whole catalogue. Groups of faults, and rows within a group, are in order of likelihood.
#include "catalogue.hpp"

#include <algorithm>

#include "fault_rows.hpp"

namespace bitmma {

std::vector<FaultRow> catalogue_of(const Subject& subject) {
  using namespace faults;
  Rows rows;
  add_shape_faults(rows, subject);
  add_descriptor_faults(rows, subject, Role::a);
  add_descriptor_faults(rows, subject, Role::b);
  add_written_faults(rows, subject, Role::a);
  add_written_faults(rows, subject, Role::b);
  add_operand_faults(rows, subject, Role::a);
  add_operand_faults(rows, subject, Role::b);
  add_register_faults(rows, subject);
  add_accumulator_faults(rows, subject);
  add_scale_faults(rows, subject);
  add_metadata_faults(rows, subject);
  add_adder_faults(rows, subject);
  add_output_faults(rows, subject);
  add_step_faults(rows, subject, Role::a);
  add_step_faults(rows, subject, Role::b);
  return rows;
}

const FaultRow* find_fault(std::span<const FaultRow> rows, std::string_view id) {
  const auto fault = std::ranges::find(rows, id, [](const FaultRow& row) { return std::string_view(row.fault.id); });
  return fault == rows.end() ? nullptr : &*fault;
}

std::string_view print(FaultStage stage) {
  switch (stage) {
    case FaultStage::a: return "A";
    case FaultStage::b: return "B";
    case FaultStage::c: return "C";
    case FaultStage::scales: return "scales";
    case FaultStage::metadata: return "metadata";
    case FaultStage::arithmetic: return "arithmetic";
    default: return "D";
  }
}

std::vector<Fault> fault_catalogue(std::span<const Case> cases) {
  std::vector<Fault> faults;
  for (FaultRow& row : catalogue_of(Subject(cases, 0))) faults.push_back(std::move(row.fault));
  return faults;
}

}  // namespace bitmma
