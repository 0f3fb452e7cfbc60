// SPDX-License-Identifier: MIT
// Textures and surfaces: which texel a coordinate means, what is outside, what is refused. recorded_textures_test.cpp
// compares with an H200; here kernels run, and what is expected can be read.
#include "bitmma/kernel/texture.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <limits>

#include "bitmma/core/error.hpp"
#include "bitmma/kernel/memory.hpp"
#include "run_kernel.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;

namespace {

uint32_t bits(float value) { return std::bit_cast<uint32_t>(value); }

/// Texels in a memory of their own.
struct Image {
  Memory memory = {};
  Texels texels = {};

  template <typename T>
  Image(TexelFormat format, int channels, std::array<int64_t, 3> extent, const std::vector<T>& values, int dimensions,
        int64_t layers = 0) {
    texels = {.format = format, .channels = channels, .dimensions = dimensions, .extent = extent, .layers = layers};
    texels.row_bytes = extent[0] * texels.texel_bytes();
    texels.slice_bytes = texels.row_bytes * extent[1];
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    texels.address = memory.allocate(bytes, "texels");
    memory.write(texels.address, {reinterpret_cast<const uint8_t*>(values.data()), static_cast<size_t>(bytes)});
  }

  /// What a thread leaves in four words, which are 7 before: %rd1 is their address, %rd2 the object, and %r1 to %r3
  /// and %f1 to %f3 are `operands`.
  std::vector<uint32_t> run(uint64_t object, std::string_view body, std::vector<uint32_t> operands) {
    operands.resize(3);
    std::string text =
        ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u64 t, .param .u32 "
        "a, "
        ".param .u32 b, .param .u32 c)\n{\n.reg .b64 %rd<9>;\n.reg .b32 %r<9>;\n.reg .f32 %f<9>;\n.reg .b16 %h<9>;\n"
        ".reg .b32 %v<5>;\nld.param.u64 %rd1, [p];\nld.param.u64 %rd2, [t];\n";
    for (int i = 0; i < 3; ++i)
      text += fmt::format("ld.param.u32 %r{0}, [{1}];\nmov.b32 %f{0}, %r{0};\n", i + 1, "abc"[i]);
    const std::string module = text + std::string(body) + "\nret;\n}\n";
    const uint64_t to = memory.allocate(16);
    const std::vector<uint32_t> before(4, 7);
    memory.write(to, {reinterpret_cast<const uint8_t*>(before.data()), 16});
    std::vector<uint8_t> parameters(28);
    std::memcpy(parameters.data(), &to, 8);
    std::memcpy(parameters.data() + 8, &object, 8);
    std::memcpy(parameters.data() + 16, operands.data(), 12);
    launch(PtxEntry(module), {.parameter_bytes = parameters, .memory = &memory});
    std::vector<uint32_t> words(4);
    memory.read(to, {reinterpret_cast<uint8_t*>(words.data()), 16});
    memory.free(to);
    return words;
  }

  std::vector<uint32_t> fetch(uint64_t object, std::string_view opcode, std::string_view place,
                              std::vector<uint32_t> operands, std::string_view more = "") {
    return run(object,
               fmt::format("{} {{%v1, %v2, %v3, %v4}}, [%rd2, {{{}}}]{};\nst.global.v4.b32 [%rd1], "
                           "{{%v1, %v2, %v3, %v4}};",
                           opcode, place, more),
               std::move(operands));
  }
};

std::vector<float> ramp(int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i));
  return values;
}

Violation fault_of(Image& image, uint64_t object, std::string_view body, std::vector<uint32_t> operands) {
  try {
    image.run(object, body, std::move(operands));
  } catch (const Error& error) {
    return error.violations().front();
  }
  return {.code = ViolationCode::internal_error, .seen = "no fault"};
}

}  // namespace

TEST_CASE("a fetch is the texel below its coordinate, and each mode has its own texels outside") {
  Image image(TexelFormat::f32, 1, {8, 1, 1}, ramp(8), 1);
  struct Case {
    AddressMode mode;
    bool is_normalized;
    float x, texel;
  };
  constexpr float inf = std::numeric_limits<float>::infinity();
  using enum AddressMode;
  const std::vector<Case> cases{
      {clamp, false, 0.0F, 0},     {clamp, false, 2.999F, 2},   {clamp, false, 3.0F, 3},  {clamp, false, -5, 0},
      {clamp, false, 8.0F, 7},     {clamp, false, inf, 7},      {clamp, false, -inf, 0},  {border, false, 7.5F, 7},
      {border, false, 8.0F, -1},   {border, false, -0.01F, -1}, {wrap, false, 9.5F, 7},   {mirror, false, -2, 0},
      {wrap, true, 0.5F, 4},       {wrap, true, 1.0F, 0},       {wrap, true, -0.125F, 7}, {wrap, true, 1e9F, 0},
      {mirror, true, -0.0625F, 0}, {mirror, true, 1.0F, 7},     {mirror, true, 1.25F, 5}, {mirror, true, 2.0F, 0},
      {mirror, true, -0.25F, 1},   {clamp, true, 0.999F, 7},    {clamp, true, 1.5F, 7},   {border, true, 1.0F, -1},
  };
  for (const Case& row : cases) {
    CAPTURE(static_cast<int>(row.mode), row.is_normalized, row.x);
    Texture texture{.texels = image.texels, .has_normalized_coordinates = row.is_normalized};
    texture.modes[0] = row.mode;
    texture.border[0] = bits(-1.0F);
    const uint64_t object = image.memory.add_texture(texture);
    CHECK(image.fetch(object, "tex.1d.v4.f32.f32", "%f1", {bits(row.x)})[0] == bits(row.texel));
    CHECK(image.fetch(object, "tex.level.1d.v4.f32.f32", "%f1", {bits(row.x)}, ", 0f00000000")[0] == bits(row.texel));
    image.memory.remove_texture(object);
  }
}

TEST_CASE("texels of two and three dimensions and of layers are where their rows and slices are") {
  Image deep(TexelFormat::f32, 1, {4, 3, 2}, ramp(24), 3);
  const uint64_t volume = deep.memory.add_texture({.texels = deep.texels});
  CHECK(deep.fetch(volume, "tex.3d.v4.f32.f32", "%f1, %f2, %f3, %f3", {bits(1.5F), bits(2.5F), bits(1.5F)})[0] ==
        bits(21.0F));
  CHECK(deep.fetch(volume, "tex.3d.v4.f32.s32", "%r1, %r2, %r3, %r3", {1, 2, 0})[0] == bits(9.0F));
  CHECK(deep.fetch(volume, "tex.3d.v4.f32.s32", "%r1, %r2, %r3, %r3", {1, 3, 0})[0] == 0);  // integers are not clamped
  Image flat(TexelFormat::f32, 1, {4, 3, 1}, ramp(24), 2, 2);
  const uint64_t layers = flat.memory.add_texture({.texels = flat.texels});
  CHECK(flat.fetch(layers, "tex.a2d.v4.f32.f32", "%r1, %f2, %f3, %f3", {1, bits(3.5F), bits(0.5F)})[0] == bits(15.0F));
  CHECK(flat.fetch(layers, "tex.a2d.v4.f32.f32", "%r1, %f2, %f3, %f3", {9, bits(0.5F), bits(0.5F)})[0] == bits(12.0F));
  Image lines(TexelFormat::f32, 1, {4, 1, 1}, ramp(12), 1, 3);
  const uint64_t line = lines.memory.add_texture({.texels = lines.texels});
  CHECK(lines.fetch(line, "tex.a1d.v4.f32.f32", "%r1, %f2", {2, bits(1.0F)})[0] == bits(9.0F));
  CHECK(deep.run(volume,
                 "txq.width.b32 %v1, [%rd2];\ntxq.height.b32 %v2, [%rd2];\ntxq.depth.b32 %v3, [%rd2];\n"
                 "st.global.v4.b32 [%rd1], {%v1, %v2, %v3, 5};",
                 {}) == std::vector<uint32_t>{4, 3, 2, 5});
  // The corners of a square, from the lower left one on.
  Image square(TexelFormat::f32, 1, {4, 3, 1}, ramp(12), 2);
  const uint64_t plane = square.memory.add_texture({.texels = square.texels});
  CHECK(square.fetch(plane, "tld4.r.2d.v4.f32.f32", "%f1, %f2", {bits(2.0F), bits(1.0F)}) ==
        std::vector<uint32_t>{bits(5.0F), bits(6.0F), bits(2.0F), bits(1.0F)});
}

TEST_CASE("texels of each format are read as they are or as normalized numbers") {
  const auto words_of = [](Image& image, bool reads_normalized, std::string_view type) {
    const uint64_t object = image.memory.add_texture({.texels = image.texels, .reads_normalized = reads_normalized});
    return image.fetch(object, fmt::format("tex.1d.v4.{}.f32", type), "%f1", {bits(0.5F)});
  };
  using Words = std::vector<uint32_t>;
  Image bytes(TexelFormat::u8, 4, {1, 1, 1}, std::vector<uint8_t>{0, 1, 128, 255}, 1);
  CHECK(words_of(bytes, false, "u32") == Words{0, 1, 128, 255});
  CHECK(words_of(bytes, true, "f32") == Words{0, bits(1 / 255.0F), bits(128 / 255.0F), bits(1.0F)});
  Image signed_bytes(TexelFormat::s8, 4, {1, 1, 1}, std::vector<int8_t>{-128, -127, -1, 127}, 1);
  CHECK(words_of(signed_bytes, false, "s32") == Words{uint32_t(-128), uint32_t(-127), uint32_t(-1), 127});
  CHECK(words_of(signed_bytes, true, "f32") == Words{bits(-1.0F), bits(-1.0F), bits(-1 / 127.0F), bits(1.0F)});
  Image shorts(TexelFormat::u16, 2, {1, 1, 1}, std::vector<uint16_t>{65535, 3}, 1);
  CHECK(words_of(shorts, true, "f32") == Words{bits(1.0F), bits(3 / 65535.0F), 0, 0});
  Image signed_shorts(TexelFormat::s16, 2, {1, 1, 1}, std::vector<int16_t>{-32768, 5}, 1);
  CHECK(words_of(signed_shorts, true, "f32") == Words{bits(-1.0F), bits(5 / 32767.0F), 0, 0});
  Image halves(TexelFormat::f16, 2, {1, 1, 1}, std::vector<uint16_t>{0x0001, 0xC000}, 1);
  CHECK(words_of(halves, false, "f32") == Words{bits(0x1p-24F), bits(-2.0F), 0, 0});
  Image integers(TexelFormat::s32, 1, {1, 1, 1}, std::vector<int32_t>{-7}, 1);
  CHECK(words_of(integers, false, "s32")[0] == uint32_t(-7));
}

TEST_CASE("a linear filter weighs the texels around a point in 256ths") {
  const auto sample = [](Image& image, Texture texture, std::string_view opcode, std::string_view place,
                         std::vector<uint32_t> operands) {
    texture.texels = image.texels;
    texture.is_linear = true;
    return image.fetch(image.memory.add_texture(texture), opcode, place, std::move(operands))[0];
  };
  Image line(TexelFormat::f32, 1, {4, 1, 1}, std::vector<float>{0, 256, 0, -256}, 1);
  const auto at = [&](float x, const Texture& texture = {}) {
    return std::bit_cast<float>(sample(line, texture, "tex.1d.v4.f32.f32", "%f1", {bits(x)}));
  };
  CHECK(at(0.5F) == 0);
  CHECK(at(0.5F + 3 / 256.0F) == 3);
  CHECK(at(0.5F + 3.49F / 256) == 3);
  CHECK(at(0.5F + 3.5F / 256) == 4);
  CHECK(at(9) == -256);
  // A border of y takes half of each result, although there is no y.
  Texture bordered;
  bordered.modes = {AddressMode::border, AddressMode::border, AddressMode::clamp};
  bordered.border[0] = bits(64.0F);
  CHECK(at(1.5F, bordered) == 160);
  CHECK(at(-7, bordered) == 64);
  Image square(TexelFormat::f32, 1, {2, 2, 1}, std::vector<float>{0, 0, 0, 256}, 2);
  const auto corner = [&](int x, int y) {  // 11 * 11 / 256 is 0.47, 12 * 11 / 256 0.52
    return std::bit_cast<float>(sample(square, {}, "tex.2d.v4.f32.f32", "%f1, %f2",
                                       {bits(0.5F + float(x) / 256), bits(0.5F + float(y) / 256)}));
  };
  CHECK(corner(11, 11) == 0);
  CHECK(corner(12, 11) == 1);
  CHECK(corner(8, 16) == 1);  // a tie
  Image bytes(TexelFormat::u8, 1, {2, 1, 1}, std::vector<uint8_t>{0, 100}, 1);
  CHECK(sample(bytes, {.reads_normalized = true}, "tex.1d.v4.f32.f32", "%f1", {bits(0.75F)}) == bits(6425 / 65535.0F));
  Image halves(TexelFormat::f16, 1, {2, 1, 1}, std::vector<uint16_t>{0x3C00, 0x7C00}, 1);
  CHECK(sample(halves, {}, "tex.1d.v4.f32.f32", "%f1", {bits(0.75F)}) == 0x7F80'0000);
  CHECK(sample(halves, {}, "tex.1d.v4.f32.f32", "%f1", {bits(0.5F)}) == bits(1.0F));
}

TEST_CASE("linear memory is fetched by integers, and outside of it are zeros") {
  Image image(TexelFormat::u16, 1, {5, 1, 1}, std::vector<uint16_t>{10, 11, 12, 13, 14}, 1);
  const uint64_t object = image.memory.add_texture({.texels = image.texels, .is_buffer = true});
  CHECK(image.fetch(object, "tex.1d.v4.u32.s32", "%r1", {4})[0] == 14);
  const std::string_view by_integer = "tex.1d.v4.u32.s32 {%v1, %v2, %v3, %v4}, [%rd2, {%r1}];";
  CHECK(image.fetch(object, "tex.1d.v4.u32.s32", "%r1", {5})[0] == 0);
  CHECK(image.fetch(object, "tex.1d.v4.u32.s32", "%r1", {uint32_t(-1)})[0] == 0);
  CHECK(fault_of(image, object, "tex.1d.v4.u32.f32 {%v1, %v2, %v3, %v4}, [%rd2, {%f1}];", {}).code ==
        ViolationCode::undefined_by_ptx);
  CHECK(image.fetch(object, "tex.1d.v4.f32.s32", "%r1", {2})[0] == 12);  // the type of a result is no conversion
  const uint64_t array = image.memory.add_texture({.texels = image.texels});
  CHECK(fault_of(image, array, by_integer, {}).code == ViolationCode::undefined_by_ptx);
  CHECK(fault_of(image, object, "tex.2d.v4.u32.s32 {%v1, %v2, %v3, %v4}, [%rd2, {%r1, %r1}];", {}).code ==
        ViolationCode::undefined_by_ptx);
  CHECK(fault_of(image, object + 100, by_integer, {}).code == ViolationCode::out_of_bounds);
}

TEST_CASE("a surface is bytes in rows, and .trap, .clamp and .zero say what is outside") {
  Image image(TexelFormat::u32, 1, {3, 2, 1}, std::vector<uint32_t>{10, 11, 12, 13, 14, 15}, 2);
  const uint64_t object = image.memory.add_surface(image.texels);
  const auto load = [&](std::string_view mode, int x, int y) {
    return image.run(object,
                     fmt::format("suld.b.2d.b32.{} %v1, [%rd2, {{%r1, %r2}}];\nst.global.b32 [%rd1], %v1;", mode),
                     {uint32_t(x), uint32_t(y)})[0];
  };
  CHECK(load("trap", 8, 1) == 15);
  CHECK(load("clamp", 12, 0) == 12);
  CHECK(load("clamp", -8, 7) == 13);
  CHECK(load("zero", 12, 0) == 0);
  CHECK(load("zero", 4, -1) == 0);
  const std::string_view outside = "suld.b.2d.b32.trap %v1, [%rd2, {%r1, %r2}];";
  CHECK(fault_of(image, object, outside, {12, 0}).code == ViolationCode::out_of_bounds);
  CHECK(fault_of(image, object, outside, {0, 2}).code == ViolationCode::out_of_bounds);
  CHECK(fault_of(image, object, outside, {2, 0}).code == ViolationCode::misaligned);
  const auto store = [&](std::string_view mode, int x, int y, uint32_t value) {
    image.run(object, fmt::format("sust.b.2d.b32.{} [%rd2, {{%r1, %r2}}], %r3;", mode),
              {uint32_t(x), uint32_t(y), value});
  };
  store("trap", 4, 1, 44);
  store("zero", 12, 1, 45);
  store("clamp", 20, 0, 46);
  CHECK(load("trap", 4, 1) == 44);
  CHECK(load("trap", 8, 1) == 15);
  CHECK(load("trap", 8, 0) == 46);
  // Vectors of bytes, zero-extended in their registers.
  CHECK(image.run(object,
                  "suld.b.2d.v2.b8.trap {%h1, %h2}, [%rd2, {%r1, %r2}];\ncvt.u32.u16 %v1, %h1;\ncvt.u32.u16 %v2, %h2;\n"
                  "st.global.v2.b32 [%rd1], {%v1, %v2};",
                  {4, 1}) == std::vector<uint32_t>{44, 0, 7, 7});
  CHECK(image.run(object, "suq.width.b32 %v1, [%rd2];\nst.global.b32 [%rd1], %v1;", {})[0] == 3);
}

TEST_CASE("textures that a GPU does not have, or with which none was measured, are refused") {
  Image image(TexelFormat::u8, 1, {4, 2, 1}, std::vector<uint8_t>(8), 2);
  const Texture good{.texels = image.texels};
  const auto refused_with = [&](const auto& change, ViolationCode code, std::string_view field) {
    Texture texture = good;
    change(texture);
    CAPTURE(field);
    CHECK_THROWS_MATCHES(image.memory.add_texture(texture), Error, test::refused(code, std::string(field)));
  };
  using enum ViolationCode;
  refused_with([](Texture& t) { t.texels.channels = 3; }, illegal_value, "channels");
  refused_with([](Texture& t) { t.texels.extent[0] = 0; }, illegal_value, "extent[0]");
  refused_with([](Texture& t) { t.texels.extent[2] = 2; }, illegal_value, "extent[2]");
  refused_with([](Texture& t) { t.texels.row_bytes = 3; }, illegal_value, "row_bytes");
  refused_with([](Texture& t) { t.texels.extent[1] = 3; }, out_of_bounds, "address");
  refused_with([](Texture& t) { t.is_linear = true; }, illegal_value, "is_linear");
  refused_with([](Texture& t) { t.is_buffer = true; }, illegal_value, "is_buffer");
  refused_with(
      [](Texture& t) {
        t.texels.format = TexelFormat::f16;
        t.texels.extent[0] = 2;
        t.modes[0] = AddressMode::border;
        t.border[0] = 0x7F80'1FFF;
      },
      unsupported_ptx, "border");
  refused_with(
      [](Texture& t) {
        t.texels.format = TexelFormat::s8;
        t.reads_normalized = true;
        t.modes[0] = AddressMode::border;
        t.border[0] = bits(-0.5F);
      },
      unsupported_ptx, "border");
  Image wide(TexelFormat::f32, 1, {131073, 1, 1}, ramp(131073), 1);
  Texture texture{.texels = wide.texels, .is_linear = true, .has_normalized_coordinates = true};
  CHECK_THROWS_MATCHES(wide.memory.add_texture(texture), Error, test::refused(unsupported_ptx, "is_linear"));
  texture.texels.extent[0] = 131072;
  CHECK_NOTHROW(wide.memory.add_texture(texture));
  Image deep(TexelFormat::f32, 1, {1, 1, 16385}, ramp(16385), 3);
  texture.texels = deep.texels;
  for (const int64_t measured : {1, 3, 2049, 3001, 16384}) {
    texture.texels.extent[2] = measured;
    CHECK_NOTHROW(deep.memory.add_texture(texture));
  }
  for (const int64_t other : {2050, 3000, 16385}) {
    texture.texels.extent[2] = other;
    CHECK_THROWS_MATCHES(deep.memory.add_texture(texture), Error, test::refused(unsupported_ptx, "is_linear"));
  }
  CHECK_THROWS_MATCHES(image.memory.remove_texture(1), Error, test::refused(not_found, "handle"));
  CHECK_THROWS_MATCHES(image.memory.remove_surface(image.memory.add_texture(good)), Error,
                       test::refused(not_found, "handle"));
}
