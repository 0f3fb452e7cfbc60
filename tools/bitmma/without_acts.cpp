// SPDX-License-Identifier: MIT
// In place of the folder acts, where component acts is not built: the program for matrix instructions.
#include <algorithm>
#include <array>

#include "bitmma/core/error.hpp"
#include "parts.hpp"

namespace bitmma::cli {
namespace {

[[noreturn]] void refuse(std::string_view field, std::string_view seen) {
  throw Error({.field = std::string(field),
               .seen = std::string(seen),
               .expected = "a program with products and kernels; this is the one for matrix instructions",
               .fix = "build the whole: cmake --preset release && cmake --build --preset release"});
}

}  // namespace

void add_bench(Command&, Context&) {}
void add_gemm(Command&, Context&) {}
void add_math(Command&, Context&) {}
void add_operator(Command&, Context&) {}
void add_quantize(Command&, Context&) {}
void add_replay(Command&, Context&) {}
void add_run(Command&, Context&) {}
std::optional<std::string> line_of_replay(const std::vector<std::string>&) { return std::nullopt; }

void require_acts(const std::vector<std::string>& arguments) {
  constexpr std::array<std::string_view, 7> verbs{"bench", "gemm", "math", "operator", "quantize", "replay", "run"};
  if (arguments.empty() || std::ranges::find(verbs, arguments.front()) == verbs.end()) return;
  refuse("bitmma " + arguments.front(), "not in this program");
}

std::optional<Report> describe_kernel_instruction(std::string_view, std::optional<Target>) { return std::nullopt; }

Report list_recipes(const std::function<bool(std::string_view, const std::set<std::string_view>&)>&) {
  refuse("recipes", "recipes of quantisers");
}

void compare_traces(Context&, const std::string& expected, const std::string&, bool) {
  refuse(expected, "a trace of a kernel");
}

struct ExplainedProduct::Flags {};
ExplainedProduct::ExplainedProduct() = default;
ExplainedProduct::~ExplainedProduct() = default;
void ExplainedProduct::add(Command&) {}
bool ExplainedProduct::is_asked() const { return false; }
void ExplainedProduct::explain(Context&, const std::string&, const TargetFlag&, int, int, bool) const {}

struct DiagnosedProduct::Flags {};
DiagnosedProduct::DiagnosedProduct() = default;
DiagnosedProduct::~DiagnosedProduct() = default;
void DiagnosedProduct::add(Command&) {}
bool DiagnosedProduct::is_asked(const TensorFile&) const { return false; }
void DiagnosedProduct::diagnose(Context&, TensorFile, const TensorFile*, const TargetFlag&, bool, bool) const {}

struct VerifiedLaunches::State {};
VerifiedLaunches::VerifiedLaunches() = default;
VerifiedLaunches::~VerifiedLaunches() = default;
void VerifiedLaunches::add(Command&) {}
bool VerifiedLaunches::take(TensorFile& file) {
  if (file.find_metadata("launches")) refuse(file.path, "launches of a kernel");
  return false;
}
int64_t VerifiedLaunches::count() const { return 0; }
int VerifiedLaunches::verify(int, ProgressLine&, int64_t, Report&) const { return exit_same; }

}  // namespace bitmma::cli
