// SPDX-License-Identifier: MIT
// The plan that computes a product: a flag for each field of the requests of gemm_file, and --target.
#pragma once

#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "bitmma/acts/gemm_file.hpp"
#include "flags.hpp"

namespace bitmma::cli {

/// One flag for each row of request_fields(const Request*).
template <typename Request>
class RequestFlags {
 public:
  void add(Command& command);
  /// Reads every flag, and the file that one may name.
  Request request() const;

  /// True if one of these fields is given.
  template <typename... Members>
  bool has(Members... members) const;

 private:
  static constexpr auto rows = request_fields(static_cast<const Request*>(nullptr));
  /// Words become formats when the request is made, so that errors name the flag.
  template <typename Value>
  using Word = std::conditional_t<std::is_same_v<Value, std::optional<Format>>, std::string, Value>;
  template <typename... Values>
  static std::tuple<Flag<Word<Values>>...> flags_for(const std::tuple<RequestField<Request, Values>...>&);

  decltype(flags_for(rows)) flags_ = {};
};

struct ProductPlanFlags : RequestFlags<ProductPlanRequest> {
  bool are_given() const { return has(&ProductPlanRequest::plan, &ProductPlanRequest::kernel); }
  ProductPlanRequest request(const TargetFlag& target) const;
};

/// The kernel that a library takes for the product.
struct LibraryFlags : RequestFlags<ProductLibraryRequest> {
  bool are_given() const { return has(&ProductLibraryRequest::library); }
  ProductLibraryRequest request(std::optional<Format> output) const;
};

/// The flags of the fields that gemm_file and plan_of_product refuse.
const std::vector<FlagOfField>& flags_of_products();

/// The named plans, a line each, for help.
std::string print_plan_names();

/// Prints warnings of an act on products, with the flags of its fields.
std::function<void(const std::vector<Violation>&)> product_warnings_to(const Context& context);

}  // namespace bitmma::cli
