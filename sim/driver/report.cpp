// SPDX-License-Identifier: MIT
#include "report.hpp"

#include <cxxabi.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "../core/json.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/core/version.hpp"
#include "settings.hpp"

namespace bitmma::driver {
namespace {

Json counts_of(const std::map<std::pair<std::string, std::string>, uint64_t>& counts, const char* what) {
  Json list = Json::array();
  for (const auto& [key, count] : counts) list.push_back({{"kernel", key.first}, {what, key.second}, {"count", count}});
  return list;
}

/// Writes a file whole or not at all: under another name first.
void write_whole(const std::string& path, const std::string& text) {
  if (path.starts_with("/dev/")) {  // a terminal or a pipe
    FILE* const file = std::fopen(path.c_str(), "ab");
    if (file) std::fwrite(text.data(), 1, text.size(), file), std::fclose(file);
    return;
  }
  const std::string unfinished = fmt::format("{}.{}.unfinished", path, getpid());
  FILE* const file = std::fopen(unfinished.c_str(), "wb");
  bool is_written = file && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  is_written = (!file || std::fclose(file) == 0) && is_written;
  if (is_written && std::rename(unfinished.c_str(), path.c_str()) == 0) return;
  std::remove(unfinished.c_str());
  Report::print(fmt::format("{}: cannot be written", path));
}

/// "store(float*, int)" for _Z5storePfi, for people; JSON has the name of the symbol. Without ABI tags, which Numba's
/// names have.
std::string readable(const std::string& kernel) {
  if (!kernel.starts_with("_Z")) return kernel;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(kernel.c_str(), nullptr, nullptr, &status), &std::free);
  if (!demangled) return kernel;
  std::string name = demangled.get();
  for (size_t tag = name.find("[abi:"); tag != std::string::npos; tag = name.find("[abi:", tag)) {
    const size_t end = name.find(']', tag);
    name.erase(tag, end == std::string::npos ? end : end + 1 - tag);
  }
  return name;
}

}  // namespace

void Report::print(std::string_view text) {
  // One call, so that lines of several processes stay apart.
  const std::string line = fmt::format("bitmma exec: {}\n", text);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void Report::print_once(const std::string& text) {
  if (printed_[text]++ == 0) print(text);
}

void Report::add_launch(const std::string& kernel, uint64_t thread_instructions, int64_t nanoseconds) {
  Kernel& row = kernels_[kernel];
  ++row.launches;
  row.thread_instructions += thread_instructions;
  row.nanoseconds += nanoseconds;
}

void Report::add_fault(const std::string& kernel, const std::vector<Violation>& violations, int result) {
  std::string text;
  for (const Violation& violation : violations) text += (text.empty() ? "" : "; ") + bitmma::print(violation);
  const std::string code(bitmma::print(violations.front().code));
  print(fmt::format("kernel {}: {}; the program gets error {}", readable(kernel), text, result));
  faults_.push_back({.kernel = kernel, .text = text, .code = code, .result = result});
}

void Report::add_warning(const std::string& kernel, const Violation& warning) {
  const std::string text = bitmma::print(warning);
  constexpr size_t most_printed = 20;
  if (warnings_[{kernel, text}]++ > 0 || warnings_.size() > most_printed) return;
  print(kernel.empty() ? fmt::format("warning: {}", text)
                       : fmt::format("warning: kernel {}: {}", readable(kernel), text));
  if (warnings_.size() == most_printed) print("further warnings are in the report of --json alone");
}

void Report::add_uncertainty(const std::string& kernel, const Violation& warning) {
  ++uncertain_[{kernel, bitmma::print(warning)}];
}

void Report::add_refused_call(const std::string& symbol) { ++refused_[symbol]; }

std::string Report::json(std::string_view gpu) const {
  Json kernels = Json::array(), faults = Json::array(), refused = Json::array();
  for (const auto& [name, kernel] : kernels_)
    kernels.push_back({{"kernel", name},
                       {"launches", kernel.launches},
                       {"thread_instructions", kernel.thread_instructions},
                       {"nanoseconds", kernel.nanoseconds}});
  for (const Fault& fault : faults_)
    faults.push_back({{"kernel", fault.kernel}, {"code", fault.code}, {"text", fault.text}, {"result", fault.result}});
  for (const auto& [symbol, count] : refused_) refused.push_back({{"function", symbol}, {"count", count}});
  const Json report{{"bitmma", version()},
                    {"gpu", gpu},
                    {"process", getpid()},
                    {"kernels", kernels},
                    {"faults", faults},
                    {"warnings", counts_of(warnings_, "warning")},
                    {"uncertain", counts_of(uncertain_, "uncertain")},
                    {"refused_calls", refused}};
  return json_text(report, 2) + "\n";
}

std::string Report::summary(std::string_view gpu) const {
  uint64_t launches = 0, instructions = 0;
  int64_t nanoseconds = 0;
  for (const auto& [name, kernel] : kernels_) {
    launches += kernel.launches;
    instructions += kernel.thread_instructions;
    nanoseconds += kernel.nanoseconds;
  }
  std::string text = fmt::format("{} {} of {} on a simulated {}: {} thread instructions in {} ms, {}", launches,
                                 launches == 1 ? "launch" : "launches", counted(std::ssize(kernels_), "kernel"), gpu,
                                 instructions, nanoseconds / 1'000'000, counted(std::ssize(faults_), "fault"));
  if (!warnings_.empty()) text += fmt::format(", {}", counted(std::ssize(warnings_), "warning"));
  if (!uncertain_.empty())
    text += fmt::format("\nbitmma exec: bits are uncertain in {}; --json lists them",
                        counted(std::ssize(uncertain_), "place"));
  std::string calls;
  for (const auto& [symbol, count] : refused_)
    calls += fmt::format("{}{} ({})", calls.empty() ? "" : ", ", symbol, count);
  if (!calls.empty()) text += "\nbitmma exec: calls of functions that bitmma does not have: " + calls;
  return text;
}

void Report::finish(std::string_view gpu) const {
  if (!settings_.json.empty()) write_whole(file_of_process(settings_.json), json(gpu));
  if (!settings_.is_quiet && (has_launches() || !refused_.empty())) print(summary(gpu));
}

}  // namespace bitmma::driver
