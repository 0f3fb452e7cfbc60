#include "support/ptxas.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "bitmma/core/parallel.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

namespace bitmma::test {
namespace {

/// The command of ptxas.
std::string ptxas() {
  const char* const setting = std::getenv("BITMMA_PTXAS");
  return setting && *setting ? setting : "ptxas";
}

bool assembles(const std::string& path, const std::string& ptx, Target target) {
  write_text(path, ptx);
  const std::string command = fmt::format("{} -arch={} -o /dev/null {} > /dev/null 2>&1", ptxas(), print(target), path);
  const bool ok = std::system(command.c_str()) == 0;
  std::filesystem::remove(path);
  return ok;
}

/// One module with all kernels, each under its own name.
std::string joined(std::span<const PtxModule> modules, std::span<const size_t> members) {
  std::string text;
  for (const size_t i : members) {
    const std::string& module = modules[i].text;
    const size_t entry = module.find(".visible .entry ");
    if (text.empty()) text = module.substr(0, entry);
    std::string body = module.substr(entry);
    text += body.replace(body.find(entry_name), entry_name.size(), fmt::format("{}_{}", entry_name, i));
  }
  return text;
}

}  // namespace

bool require_ptxas(std::string_view what) {
  static const bool here = std::system((ptxas() + " --version > /dev/null 2>&1").c_str()) == 0;
  if (!here) WARN("NOT checked against ptxas, which is not installed: " << what);
  return here;
}

PtxVersion ptxas_isa() {
  const std::string text = output_of_command(ptxas() + " --version");
  const size_t release = text.find("release ");
  if (release == std::string::npos) return {};
  PtxVersion cuda;
  const std::string_view numbers = std::string_view(text).substr(release + 8);
  const auto [dot, error] = std::from_chars(numbers.data(), numbers.data() + numbers.size(), cuda.major);
  std::from_chars(dot + 1, numbers.data() + numbers.size(), cuda.minor);
  // From CUDA 12.6 on the minor number of the ISA is one behind, and with 13 they meet again.
  return {.major = cuda.major - 4, .minor = cuda.minor - (cuda.major == 12 && cuda.minor > 5 ? 1 : 0)};
}

std::vector<Target> known_to_ptxas(std::span<const Target> wanted) {
  std::vector<Target> known;
  std::string unknown;
  const TemporaryFolder folder;
  for (const Target target : wanted) {
    const PtxVersion version = std::min(info(target).ptx, ptxas_isa());
    const std::string empty =
        fmt::format(".version {}.{}\n.target {}\n.address_size 64\n", version.major, version.minor, print(target));
    if (assembles(folder.path("empty.ptx"), empty, target)) known.push_back(target);
    else unknown += fmt::format(" {}", print(target));
  }
  if (!unknown.empty()) {
    WARN(ptxas() << " of PTX " << ptxas_isa().major << "." << ptxas_isa().minor << " does not know" << unknown
                 << ": they are left out; BITMMA_PTXAS names another");
  }
  return known;
}

std::vector<char> ptxas_takes(std::span<const PtxModule> modules, size_t at_once) {
  std::vector<size_t> order(modules.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return modules[i].target; });
  std::vector<std::vector<size_t>> groups;
  for (const size_t i : order) {
    if (groups.empty() || groups.back().size() == at_once ||
        modules[groups.back().front()].target != modules[i].target) {
      groups.emplace_back();
    }
    groups.back().push_back(i);
  }
  std::vector<char> taken(modules.size());
  const TemporaryFolder folder;
  parallel_for(groups.size(), hardware_threads(), [&](size_t g) {
    const std::vector<size_t>& group = groups[g];
    const std::string path = folder.path(fmt::format("{}.ptx", g));
    const bool all = assembles(path, joined(modules, group), modules[group.front()].target);
    for (const size_t i : group) {
      taken[i] = all || (group.size() > 1 && assembles(path, modules[i].text, modules[i].target));
    }
  });
  return taken;
}

std::vector<char> ptxas_takes_statements(std::string_view declarations, std::span<const std::string> statements,
                                         Target target, PtxVersion version) {
  const std::string head = fmt::format(".version {}.{}\n.target {}\n.address_size 64\n.visible .entry {}() {{\n{}\n",
                                       version.major, version.minor, print(target), entry_name, declarations);
  const auto first_line = static_cast<size_t>(std::ranges::count(head, '\n')) + 1;
  std::vector<size_t> indices(statements.size());
  std::iota(indices.begin(), indices.end(), size_t{0});
  std::vector<char> taken(statements.size());
  const TemporaryFolder folder;
  const std::string path = folder.path("statements.ptx");
  while (!indices.empty()) {
    std::string text = head;
    for (const size_t i : indices) text += statements[i] + "\n";
    write_text(path, text + "ret;\n}\n");
    const std::string errors = output_of_command(
        fmt::format("{} -O0 -arch={} -o /dev/null {} 2>&1; echo exit $?", ptxas(), print(target), path));
    if (errors.ends_with("exit 0\n")) break;
    std::vector<char> refused(indices.size());
    for (size_t at = errors.find(", line "); at != std::string::npos; at = errors.find(", line ", at + 1)) {
      const size_t line = std::strtoul(errors.c_str() + at + 7, nullptr, 10);
      if (line >= first_line && line - first_line < refused.size()) refused[line - first_line] = 1;
    }
    if (std::ranges::count(refused, 1) == 0) FAIL("ptxas names no line: " << errors);
    std::vector<size_t> left;
    for (size_t i = 0; i < indices.size(); ++i) {
      if (!refused[i]) left.push_back(indices[i]);
    }
    indices = left;
  }
  for (const size_t i : indices) taken[i] = 1;
  return taken;
}

}  // namespace bitmma::test
