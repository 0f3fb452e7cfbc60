// SPDX-License-Identifier: MIT
#include "bitmma/acts/describe_product.hpp"
#include "parts.hpp"
#include "plan_flags.hpp"

namespace bitmma::cli {

struct ExplainedProduct::Flags {
  ProductPlanFlags plan;
};

ExplainedProduct::ExplainedProduct() : flags_(std::make_unique<Flags>()) {}
ExplainedProduct::~ExplainedProduct() = default;

void ExplainedProduct::add(Command& command) { flags_->plan.add(command); }
bool ExplainedProduct::is_asked() const { return flags_->plan.are_given(); }

void ExplainedProduct::explain(Context& context, const std::string& path, const TargetFlag& target, int row, int col,
                               bool json) const {
  const ProductFile product = read_product_file(path);
  const ProductTrace trace = naming_flags(flags_of_products(), [&] {
    const GemmPlan plan =
        plan_of_product(product, flags_->plan.request(target), 1, {.warn = product_warnings_to(context)}).plan;
    if (std::vector<Violation> unread = unread_by(plan, product.inputs); !unread.empty())
      throw Error(std::move(unread));
    return trace_product(plan, product.inputs, row, col);
  });
  show(context, describe(trace), json);
  if (!product.d) return;
  const bool same = product.d->format() == trace.format && product.d->code(trace.row, trace.col) == trace.d;
  context.exit_code = same ? exit_same : exit_differs;
}

}  // namespace bitmma::cli
