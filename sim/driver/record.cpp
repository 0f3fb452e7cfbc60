// SPDX-License-Identifier: MIT
#include "record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "report.hpp"

namespace bitmma::driver {
namespace {

constexpr uint64_t most_bytes = uint64_t{1} << 30;  // of all memory that is kept until the file is written

uint64_t word_at(const std::vector<uint8_t>& bytes, int64_t at) {
  uint64_t word = 0;
  std::memcpy(&word, bytes.data() + at, sizeof word);
  return word;
}

std::string hexadecimal(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

Tensor tensor_of(std::string name, std::vector<uint8_t> bytes) {
  const int64_t size = std::ssize(bytes);
  return Tensor::from_bytes(std::move(name), "U8", {size}, std::move(bytes));
}

}  // namespace

bool Recorder::take(const PtxEntryInfo& entry, const Launch& launch, Pending& pending) const {
  const std::vector<uint8_t>& bytes = *launch.parameter_bytes;
  Json arguments = Json::array();
  for (const PtxParameter& parameter : entry.parameters) {
    constexpr int64_t pointer_bytes = 8;
    if (parameter.bytes != pointer_bytes) {
      for (int64_t at = parameter.offset; at + pointer_bytes <= parameter.offset + parameter.bytes; at += pointer_bytes)
        if (launch.memory->find(word_at(bytes, at)) || launch.memory->has_object(word_at(bytes, at))) return false;
    } else if (launch.memory->has_object(word_at(bytes, parameter.offset))) {
      return false;
    }
    const std::optional<Allocation> memory =
        parameter.bytes == pointer_bytes ? launch.memory->find(word_at(bytes, parameter.offset)) : std::nullopt;
    if (!memory) {
      const std::span value(bytes.data() + parameter.offset, static_cast<size_t>(parameter.bytes));
      arguments.push_back({{"value", hexadecimal(value)}});
      continue;
    }
    auto known = std::ranges::find(pending.memories, memory->address, &Allocation::address);
    if (known == pending.memories.end()) {
      pending.memories.push_back(*memory);
      pending.before.emplace_back(memory->data.begin(), memory->data.end());
      known = std::prev(pending.memories.end());
    }
    arguments.push_back(
        {{"memory", known - pending.memories.begin()}, {"offset", word_at(bytes, parameter.offset) - memory->address}});
  }
  pending.json = {{"entry", entry.name},
                  {"grid", launch.grid},
                  {"block", launch.block},
                  {"shared_bytes", launch.dynamic_shared_bytes}};
  if (launch.cluster) pending.json["cluster"] = *launch.cluster;
  pending.json["arguments"] = std::move(arguments);
  return !launch.cooperative;
}

void Recorder::begin(const std::string& ptx, const PtxModule& module, const PtxEntryInfo& entry, const Launch& launch) {
  pending_.reset();
  Pending pending;
  if (bytes_ > most_bytes || !module.variables().empty() || !take(entry, launch, pending)) {
    ++missing_;
    return;
  }
  const auto [known, is_new] = modules_.emplace(ptx, modules_.size());
  if (is_new) file_.set(tensor_of(fmt::format("ptx.{}", known->second), {ptx.begin(), ptx.end()}));
  pending.json["ptx"] = known->second;
  pending_ = std::move(pending);
}

void Recorder::end(const Memory& memory, bool is_done) {
  if (!pending_) return;
  const size_t number = launches_.size();
  for (size_t i = 0; is_done && i < pending_->memories.size(); ++i) {
    const std::span<const uint8_t> data = memory.find(pending_->memories[i].address)->data;
    std::vector<uint8_t>& before = pending_->before[i];
    bytes_ += before.size();
    if (!std::ranges::equal(before, data)) {
      bytes_ += data.size();
      file_.set(tensor_of(fmt::format("after.{}.{}", number, i), {data.begin(), data.end()}));
    }
    file_.set(tensor_of(fmt::format("before.{}.{}", number, i), std::move(before)));
  }
  if (is_done) launches_.push_back(std::move(pending_->json));
  else ++missing_;
  pending_.reset();
}

void Recorder::write(const std::string& path, Target target) {
  if (missing_ > 0)
    Report::print(
        fmt::format("launches that are not recorded, as they are cooperative, of a module with variables, with "
                    "addresses in a structure, with a fault, or after {} GiB of memory: {}",
                    most_bytes >> 30, missing_));
  if (launches_.empty()) return;
  file_.set_metadata("launches", json_text(launches_));
  file_.set_metadata("target", std::string(bitmma::print(target)));
  try {
    write_tensor_file(path, file_);
  } catch (const Error& error) {
    Report::print(error.what());
  }
}

}  // namespace bitmma::driver
