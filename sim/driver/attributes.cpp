// SPDX-License-Identifier: MIT
#include "attributes.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

namespace bitmma::driver {
namespace {

/// An attribute by its number in CUdevice_attribute.
struct Attribute {
  int id = 0, value = 0;
};

// All attributes from 1 to 147, as cuDeviceGetAttribute of an NVIDIA H200 gave them (driver of CUDA 13.0, 28 Nov 2026);
// higher numbers gave CUDA_ERROR_INVALID_VALUE.
// clang-format off
constexpr auto recorded_on_h200 = std::to_array<Attribute>({
    {1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535}, {8, 49152}, {9, 65536}, {10, 32},
    {11, 2147483647}, {12, 65536}, {13, 1980000}, {14, 512}, {15, 1}, {16, 132}, {17, 0}, {18, 0}, {19, 1}, {20, 0},
    {21, 131072}, {22, 131072}, {23, 65536}, {24, 16384}, {25, 16384}, {26, 16384}, {27, 32768}, {28, 32768},
    {29, 2048}, {30, 512}, {31, 1}, {32, 1}, {33, 0}, {34, 6}, {35, 0}, {36, 3201000}, {37, 6016}, {38, 62914560},
    {39, 2048}, {40, 3}, {41, 1}, {42, 32768}, {43, 2048}, {44, 1}, {45, 32768}, {46, 32768}, {47, 8192}, {48, 8192},
    {49, 32768}, {50, 0}, {51, 32}, {52, 32768}, {53, 32768}, {54, 2046}, {55, 32768}, {56, 131072}, {57, 65536},
    {58, 16384}, {59, 16384}, {60, 16384}, {61, 32768}, {62, 2048}, {63, 32768}, {64, 32768}, {65, 2048}, {66, 32768},
    {67, 32768}, {68, 2046}, {69, 268435456}, {70, 131072}, {71, 65000}, {72, 2097120}, {73, 32768}, {74, 32768},
    {75, 9}, {76, 0}, {77, 32768}, {78, 1}, {79, 1}, {80, 1}, {81, 233472}, {82, 65536}, {83, 1}, {84, 0}, {85, 0},
    {86, 0}, {87, 2}, {88, 0}, {89, 1}, {90, 1}, {91, 1}, {92, 0}, {93, 0}, {94, 0}, {95, 1}, {96, 1}, {97, 232448},
    {98, 0}, {99, 1}, {100, 0}, {101, 0}, {102, 1}, {103, 1}, {104, 0}, {105, 0}, {106, 32}, {107, 1}, {108, 39321600},
    {109, 134217728}, {110, 1}, {111, 1024}, {112, 1}, {113, 1}, {114, 1}, {115, 1}, {116, 1}, {117, 1}, {118, 100},
    {119, 9}, {120, 1}, {121, 1}, {122, 1}, {123, 1}, {124, 1}, {125, 1}, {126, 4}, {127, 1}, {128, 1}, {129, 1},
    {130, 0}, {131, -1}, {132, 0}, {133, 0}, {134, 0}, {135, 0}, {136, 0}, {137, 0}, {138, 0}, {139, 590680286},
    {140, 415174878}, {141, 1}, {142, 1}, {143, 0}, {144, 1}, {145, 1}, {146, 0}, {147, 0},
});
// clang-format on
static_assert(std::ranges::is_sorted(recorded_on_h200, {}, &Attribute::id));

/// What differs on another GPU, which has not been recorded but is published.
struct Differences {
  std::string_view gpu = {};
  std::span<const Attribute> attributes = {};
};

// NVIDIA H100 Tensor Core GPU datasheet and architecture white paper, SXM5: 50 MiB of L2, HBM3 with 5120 bits at 2619
// MHz. As on the H200, 5/8 of the L2 may be set aside for persisting accesses.
constexpr auto h100 = std::to_array<Attribute>(
    {{l2_bytes, 52428800}, {bus_width, 5120}, {memory_clock, 2619000}, {persisting_l2_bytes, 32768000}});
// CUDA C++ Programming Guide, technical specifications per compute capability; NVIDIA's pages about B200, B300 and RTX
// 5090 for the numbers of multiprocessors. What is not here is the H200's.
constexpr auto b200 = std::to_array<Attribute>({{major_capability, 10}, {minor_capability, 0}, {multiprocessors, 148}});
constexpr auto b300 = std::to_array<Attribute>({{major_capability, 10}, {minor_capability, 3}, {multiprocessors, 160}});
constexpr auto rtx_5090 = std::to_array<Attribute>({{major_capability, 12},
                                                    {minor_capability, 0},
                                                    {multiprocessors, 170},
                                                    {threads_of_multiprocessor, 1536},
                                                    {shared_of_multiprocessor, 102400},
                                                    {shared_of_block_optin, 101376},
                                                    {bus_width, 512}});
constexpr auto published = std::to_array<Differences>({{.gpu = "H100", .attributes = h100},
                                                       {.gpu = "B200", .attributes = b200},
                                                       {.gpu = "B300", .attributes = b300},
                                                       {.gpu = "RTX 5090", .attributes = rtx_5090}});

}  // namespace

std::optional<int> attribute(const Gpu& gpu, int id) {
  std::span<const Attribute> differences;
  for (const Differences& row : published) {
    if (row.gpu == gpu.name) differences = row.attributes;
  }
  for (const std::span<const Attribute> attributes : {differences, std::span<const Attribute>(recorded_on_h200)}) {
    const auto row = std::ranges::find(attributes, id, &Attribute::id);
    if (row != attributes.end()) return row->value;
  }
  return std::nullopt;
}

}  // namespace bitmma::driver
