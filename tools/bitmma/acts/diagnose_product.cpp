// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "bitmma/acts/describe_product.hpp"
#include "bitmma/core/error.hpp"
#include "parts.hpp"
#include "plan_flags.hpp"

namespace bitmma::cli {

struct DiagnosedProduct::Flags {
  ProductPlanFlags plan;
};

DiagnosedProduct::DiagnosedProduct() : flags_(std::make_unique<Flags>()) {}
DiagnosedProduct::~DiagnosedProduct() = default;

void DiagnosedProduct::add(Command& command) { flags_->plan.add(command); }

bool DiagnosedProduct::is_asked(const TensorFile& file) const {
  const bool has_matrices = file.find("a") && (file.find("b") || file.find("b_t"));
  return flags_->plan.are_given() || (has_matrices && !file.find_metadata("instruction"));
}

void DiagnosedProduct::diagnose(Context& context, TensorFile file, const TensorFile* actual, const TargetFlag& target,
                                bool list, bool json) const {
  if (actual) {
    const Tensor* const d = actual->find("d")             ? actual->find("d")
                            : actual->tensors.size() == 1 ? &actual->tensors.front()
                                                          : nullptr;
    if (!d)
      throw Error({.code = ViolationCode::missing_input,
                   .field = actual->path,
                   .seen = "no tensor d",
                   .expected = "the D of the wrong program"});
    Tensor wrong = *d;
    wrong.name = "d";
    file.set(std::move(wrong));
  }
  const ProductFile product = read_product_file(std::move(file));
  if (list) {
    Report faults = Report::list();
    for (const ProductFault& fault : product_faults(product.inputs)) {
      Report row{{"id", fault.id}, {"what", fault.what}, {"fix", fault.fix}};
      row.add_text(fmt::format("{:<26}{}", fault.id, fault.what));
      faults.append(std::move(row));
    }
    return show(context, faults, json);
  }
  const ProductDiagnosis diagnosis = naming_flags(flags_of_products(), [&] {
    return diagnose_product_file(product, flags_->plan.request(target), 1, {.warn = product_warnings_to(context)});
  });
  context.exit_code = diagnosis.wrong == 0 ? exit_same : exit_differs;
  show(context, describe(diagnosis), json);
}

}  // namespace bitmma::cli
