// Random values on the CPU: known results of threefry, and passes over blocks compared with single elements.
#include "exec/device/draw.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "exec/device/draw_on_host.h"
#include "exec/shards/encode_value.h"
#include "exec/shards/init_shards.h"

using namespace tpplan;

TEST_CASE("threefry2x32 gives the known answers") {
  const auto check = [](ThreefryKey key, uint32_t x, uint32_t y, uint32_t first, uint32_t second) {
    const ThreefryPair pair = threefry2x32(key, x, y);
    CHECK(pair.first == first);
    CHECK(pair.second == second);
  };
  check({0, 0}, 0, 0, 0x6b200159, 0x99ba4efe);
  check({0xffffffff, 0xffffffff}, 0xffffffff, 0xffffffff, 0x1cb996fc, 0xbb002be7);
  check({0x13198a2e, 0x03707344}, 0x243f6a88, 0x85a308d3, 0xc4923a9c, 0x483df7a0);
}

TEST_CASE("keys depend on path and seed, not on the separator") {
  const auto words = [](ThreefryKey key) { return std::pair(key.high, key.low); };
  CHECK(words(key_of_tensor(7, "a/b/kernel")) == words(key_of_tensor(7, "a.b.kernel")));
  CHECK(words(key_of_tensor(7, "a.b.kernel")) != words(key_of_tensor(7, "a.b.kernels")));
  CHECK(words(key_of_tensor(7, "a.b.kernel")) != words(key_of_tensor(7 + (uint64_t{1} << 32), "a.b.kernel")));
}

// Returns a box with gaps on both sides, rows that end inside random blocks, and indices that cross 2^32.
static DrawBox box_of(DrawKind kind, DrawType type) {
  DrawBox box{.key = {0x12345678, 0x9abcdef0},
              .kind = kind,
              .type = type,
              .first = kind == DrawKind::Normal ? 0.5 : -0.25,
              .second = 2};
  box.run = 37;
  box.dims = 2;
  box.counts[0] = 5, box.counts[1] = 23;
  box.to_strides[0] = 1200, box.to_strides[1] = 41;
  box.index_strides[0] = uint64_t{1} << 31, box.index_strides[1] = 1000;
  box.to_offset = 3;
  box.index_offset = (uint64_t{1} << 32) - 500;
  box.elements = 5 * 23 * 37;
  return box;
}

TEST_CASE("blocks match single elements and change no gaps") {
  for (const DrawKind kind : {DrawKind::Uniform, DrawKind::Normal}) {
    for (const DrawType type : {DrawType::Float32, DrawType::Float64, DrawType::Bfloat16, DrawType::Float16}) {
      const DrawBox box = box_of(kind, type);
      std::vector<unsigned char> blocks(8 * 8000, 0xab), elements(8 * 8000, 0xab);
      draw_on_host(blocks.data(), box, 3);
      for (uint64_t i = 0; i < box.elements; ++i) {
        uint64_t to, index;
        row_offsets(box, i / box.run, to, index);
        draw_element(box, index + i % box.run, elements.data(), to + i % box.run);
      }
      CHECK(blocks == elements);
    }
  }
}

TEST_CASE("minus_log is within two units in the last place") {
  for (uint64_t i = 1; i < 200000; ++i) {
    const double y = static_cast<double>(i) / 200000, expected = -std::log(y);
    CHECK(std::abs(minus_log(y) - expected) <= 2 * (std::nextafter(expected, INFINITY) - expected));
  }
  CHECK(minus_log(1.0) == 0.0);
  CHECK(minus_log(0x1p-53) == doctest::Approx(53 * std::log(2.0)).epsilon(1e-15));
}

TEST_CASE("uniform values stay inside their interval") {
  DrawBox box{.key = {1, 2}, .kind = DrawKind::Uniform, .type = DrawType::Float32, .first = -0.1f, .second = 0.2f};
  box.run = box.elements = 100000;
  std::vector<float> values(box.elements);
  draw_on_host(values.data(), box, 1);
  for (const float value : values) CHECK((value >= -0.1f && value <= 0.1f));
}

TEST_CASE("a value outside the dtype is rejected") {
  const auto bytes = [](std::string_view name, double value) {
    DType dtype = 0;
    REQUIRE(find_dtype(name, dtype));
    return encode_value(dtype, value).size();
  };
  CHECK(bytes("int8", 127) == 1);
  CHECK(bytes("int8", 128) == 0);
  CHECK(bytes("uint64", -1) == 0);
  CHECK(bytes("uint64", 0x1p63) == 8);
  CHECK(bytes("float8_e8m0fnu", 0) == 0);
  CHECK(bytes("int4", 0) == 1);
  CHECK(bytes("int4", 1) == 0);
  CHECK(bytes("float16", 65504) == 2);
  CHECK(bytes("float16", 65520) == 0);
}
