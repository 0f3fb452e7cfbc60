// SPDX-License-Identifier: MIT
// Special registers, one row each: %tid.x, %laneid, %clusterid.y ... PTX ISA, section "Special Registers".
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace bitmma::kernel {

struct Warp;

struct SpecialRegister {
  std::string_view name;
  uint64_t (*value)(const Warp& warp, int lane) = nullptr;
  int bits = 32;           // 1: a predicate
  bool changes = false;    // a clock: each read has its own value
  bool is_chance = false;  // a GPU gives a value that varies: a launch has to ask for one of its own, Launch::clock
  bool is_cooperative = false;  // it is defined in a cooperative launch only
};

std::span<const SpecialRegister> special_registers();
/// Returns nullptr if no row has the name.
const SpecialRegister* special_register(std::string_view name);

}  // namespace bitmma::kernel
