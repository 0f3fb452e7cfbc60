// SPDX-License-Identifier: MIT
#include "plan_flags.hpp"

#include <fmt/format.h>

#include <utility>

#include "arguments.hpp"
#include "bitmma/files/file.hpp"
#include "bitmma/gemm/catalogue.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

bool is_plan_file(std::string_view plan) { return plan.ends_with(".json"); }

/// Calls visit(row, flag) for the rows and their flags.
template <typename Rows, typename Flags, typename Visit>
void for_each_flag(const Rows& rows, Flags& flags, const Visit& visit) {
  [&]<size_t... i>(std::index_sequence<i...>) { (visit(std::get<i>(rows), std::get<i>(flags)), ...); }
  (std::make_index_sequence<std::tuple_size_v<Rows>>());
}

template <typename Request, typename Value>
void add_flag(Command& command, const RequestField<Request, Value>& row, auto& flag) {
  const std::string name(row.flag), meaning(row.meaning);
  if constexpr (std::is_same_v<Value, bool>) {
    command.add_flag(name, flag, meaning);
  } else if (row.may_name_file) {
    command.add_input(name, flag, meaning, [](const std::string& value) {
      return is_plan_file(value) ? std::vector{value} : std::vector<std::string>{};
    });
  } else {
    command.add_option(name, flag, meaning);
  }
  if (row.max != 0) between(command.get_option(name), row.min, row.max);
}

template <typename Request, typename Value>
Value value_of(const RequestField<Request, Value>& row, const auto& flag) {
  if constexpr (std::is_same_v<Value, std::optional<Format>>) {
    return flag.empty() ? std::nullopt : std::optional(require_format(row.flag, flag, plan_outputs));
  } else if constexpr (std::is_same_v<Value, std::string>) {
    return row.may_name_file && is_plan_file(flag.get()) ? read_whole(flag) : flag.get();
  } else {
    return flag.get();
  }
}

template <typename Request>
void add_names(std::vector<FlagOfField>& names) {
  static constexpr auto rows = request_fields(static_cast<const Request*>(nullptr));
  std::apply([&](const auto&... row) { (names.emplace_back(row.name, row.flag), ...); }, rows);
}

}  // namespace

template <typename Request>
void RequestFlags<Request>::add(Command& command) {
  for_each_flag(rows, flags_, [&](const auto& row, auto& flag) { add_flag(command, row, flag); });
}

template <typename Request>
Request RequestFlags<Request>::request() const {
  Request request;
  for_each_flag(rows, flags_, [&](const auto& row, const auto& flag) { request.*row.member = value_of(row, flag); });
  return request;
}

template <typename Request>
template <typename... Members>
bool RequestFlags<Request>::has(Members... members) const {
  bool is_given = false;
  for_each_flag(rows, flags_, [&]<typename Value>(const RequestField<Request, Value>& row, const auto& flag) {
    if constexpr (std::is_same_v<Value, std::string>) is_given |= ((row.member == members) || ...) && !flag.empty();
  });
  return is_given;
}

template class RequestFlags<ProductPlanRequest>;
template class RequestFlags<ProductLibraryRequest>;
template bool RequestFlags<ProductPlanRequest>::has(std::string ProductPlanRequest::*,
                                                    std::string ProductPlanRequest::*) const;
template bool RequestFlags<ProductLibraryRequest>::has(std::string ProductLibraryRequest::*) const;

ProductPlanRequest ProductPlanFlags::request(const TargetFlag& target) const {
  ProductPlanRequest request = RequestFlags::request();
  request.target = target.requested();
  return request;
}

ProductLibraryRequest LibraryFlags::request(std::optional<Format> output) const {
  ProductLibraryRequest request = RequestFlags::request();
  request.output = output;
  return request;
}

const std::vector<FlagOfField>& flags_of_products() {
  static const std::vector<FlagOfField> all = [] {
    std::vector<FlagOfField> names{
        {"target", "--target"}, {"accuracy", "--error"}, {"replace_d", "--replace-d"}, {"row, col", "--row, --col"}};
    add_names<ProductPlanRequest>(names);
    add_names<ProductLibraryRequest>(names);
    return names;
  }();
  return all;
}

std::string print_plan_names() {
  std::string names;
  for (const CataloguePlan& row : catalogue()) names += fmt::format("  {:29}{}\n", row.name, row.about);
  return names;
}

std::function<void(const std::vector<Violation>&)> product_warnings_to(const Context& context) {
  return [&context](const std::vector<Violation>& warnings) {
    print_warnings(context, in_flags(warnings, flags_of_products()));
  };
}

}  // namespace bitmma::cli
