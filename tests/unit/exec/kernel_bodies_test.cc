// Bodies of the GPU kernels, executed on the CPU thread by thread: their results equal those of the CPU device bitwise.
#include "exec/device/kernel_bodies.h"

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "exec/device/host_arithmetic.h"
#include "exec/device/strided_plan.h"

using namespace tpplan;

namespace {

constexpr uint64_t kGrid = 7;  // threads: fewer than work items, and not a divisor of their number

template <typename Index>
void run_plan(void* to, const void* from, const StridedPlan& plan) {
  for (uint64_t thread = 0; thread < kGrid; ++thread) {
    switch (plan.unit) {
      case 1:
        copy_units<uint8_t, Index>(to, from, plan, thread, kGrid);
        break;
      case 2:
        copy_units<uint16_t, Index>(to, from, plan, thread, kGrid);
        break;
      case 4:
        copy_units<uint32_t, Index>(to, from, plan, thread, kGrid);
        break;
      case 8:
        copy_units<uint64_t, Index>(to, from, plan, thread, kGrid);
        break;
      case 16:
        copy_units<Unit16, Index>(to, from, plan, thread, kGrid);
        break;
      default:
        FAIL("a unit of ", plan.unit, " bytes");
    }
  }
}

std::vector<uint8_t> random_bytes(size_t size, std::mt19937& random) {
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

// Returns the bytes from the first to the last element on one side of the copy.
uint64_t extent(const StridedCopy& how, const std::vector<uint64_t>& strides) {
  uint64_t end = how.run_bytes;
  for (size_t i = 0; i < strides.size(); ++i) end += (how.counts[i] - (how.counts[i] != 0)) * strides[i];
  return end;
}

void check_copy(const StridedCopy& how, uint64_t to_start, uint64_t from_start, std::mt19937& random) {
  alignas(16) static uint8_t source[1 << 16], expected[1 << 16], got[1 << 16];
  REQUIRE(from_start + extent(how, how.from_strides) <= sizeof source);
  REQUIRE(to_start + extent(how, how.to_strides) <= sizeof got);
  const std::vector<uint8_t> bytes = random_bytes(sizeof source, random);
  std::memcpy(source, bytes.data(), sizeof source);
  std::memset(expected, 0xee, sizeof expected);
  cpu_device().copy_strided(expected + to_start, source + from_start, how);
  const std::vector<StridedPlan> plans = plan_strided_copy(reinterpret_cast<uintptr_t>(got + to_start),
                                                           reinterpret_cast<uintptr_t>(source + from_start), how);
  for (const auto run : {run_plan<uint32_t>, run_plan<uint64_t>}) {
    std::memset(got, 0xee, sizeof got);
    for (const StridedPlan& plan : plans) {
      CHECK(plan.dims <= kPlanDims);
      run(got + to_start, source + from_start, plan);
    }
    CHECK(std::memcmp(expected, got, sizeof got) == 0);
  }
}

// Returns the copy of a dense slice of `shape` between two larger tensors.
StridedCopy cut(const std::vector<uint64_t>& shape, const std::vector<uint64_t>& from_shape,
                const std::vector<uint64_t>& to_shape, uint64_t width) {
  StridedCopy how{.run_bytes = shape.back() * width,
                  .counts = {shape.begin(), shape.end() - 1},
                  .from_strides = {},
                  .to_strides = {}};
  how.from_strides.resize(how.counts.size());
  how.to_strides.resize(how.counts.size());
  uint64_t from_stride = from_shape.back() * width, to_stride = to_shape.back() * width;
  for (size_t i = how.counts.size(); i-- > 0;) {
    how.from_strides[i] = from_stride;
    how.to_strides[i] = to_stride;
    from_stride *= from_shape[i];
    to_stride *= to_shape[i];
  }
  return how;
}

template <typename T>
void check_reduce(const char* name, std::mt19937& random, const std::vector<T>& corners) {
  DType dtype = 0;
  REQUIRE(find_dtype(name, dtype));
  for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Max, ReduceOp::Min}) {
    std::vector<T> a(257 + corners.size() * corners.size()), b(a.size());
    const std::vector<uint8_t> bytes = random_bytes(2 * a.size() * sizeof(T), random);
    std::memcpy(a.data(), bytes.data(), a.size() * sizeof(T));
    std::memcpy(b.data(), bytes.data() + a.size() * sizeof(T), a.size() * sizeof(T));
    for (size_t i = 0; i < corners.size() * corners.size(); ++i) {
      a[i] = corners[i / corners.size()];
      b[i] = corners[i % corners.size()];
    }
    std::vector<T> expected = a;
    REQUIRE(cpu_device().reduce(expected.data(), b.data(), a.size(), dtype, op));
    for (uint64_t thread = 0; thread < kGrid; ++thread)
      reduce_elements(a.data(), b.data(), a.size(), op, thread, kGrid);
    CHECK(std::memcmp(a.data(), expected.data(), a.size() * sizeof(T)) == 0);
  }
}

}  // namespace

TEST_CASE("strided copy plans match the CPU device on random blocks") {
  std::mt19937 random(1);
  const auto pick = [&](uint64_t low, uint64_t high) { return low + random() % (high - low + 1); };
  for (int round = 0; round < 400; ++round) {
    std::vector<uint64_t> shape, from_shape, to_shape;
    for (uint64_t dim = 0, dims = pick(1, 4); dim < dims; ++dim) {
      shape.push_back(pick(0, 9) == 0 ? 0 : pick(1, 6));
      from_shape.push_back(shape.back() + pick(0, 2));
      to_shape.push_back(shape.back() + pick(0, 2));
    }
    const uint64_t width = uint64_t{1} << pick(0, 4);
    check_copy(cut(shape, from_shape, to_shape, width), pick(0, 3) * width, pick(0, 3) * width, random);
  }
}

TEST_CASE("copy plans merge contiguous dims and use the widest unit") {
  std::vector<StridedPlan> plans = plan_strided_copy(0, 0, cut({4, 5, 8}, {9, 5, 8}, {4, 5, 8}, 4));
  REQUIRE(plans.size() == 1);
  CHECK(plans[0].dims == 0);
  CHECK(plans[0].unit == 16);
  CHECK(plans[0].units == 40);
  plans = plan_strided_copy(4, 8, cut({4, 5, 8}, {4, 5, 10}, {4, 5, 8}, 4));
  REQUIRE(plans.size() == 1);
  CHECK(plans[0].dims == 1);
  CHECK(plans[0].counts[0] == 20);
  CHECK(plans[0].unit == 4);
  CHECK(plan_strided_copy(0, 0, {.run_bytes = 0, .counts = {3}, .from_strides = {1}, .to_strides = {1}}).empty());
  CHECK(plan_strided_copy(0, 0, {.run_bytes = 4, .counts = {3, 0}, .from_strides = {4, 4}, .to_strides = {4, 4}})
            .empty());
}

TEST_CASE("a strided copy of too many dims becomes several plans") {
  std::mt19937 random(2);
  const std::vector<uint64_t> shape(9, 2), larger(9, 3);
  const StridedCopy how = cut(shape, larger, shape, 1);
  CHECK(plan_strided_copy(0, 0, how).size() == 4);
  check_copy(how, 0, 0, random);
  check_copy(how, 3, 1, random);
}

TEST_CASE("a copy with stride 0 in its source is planned unchanged") {
  std::mt19937 random(3);
  check_copy({.run_bytes = 4, .counts = {5, 3}, .from_strides = {0, 4}, .to_strides = {12, 4}}, 0, 0, random);
}

TEST_CASE(
    "the reduce kernel's body equals the CPU for every type and operation, NaN, infinities and wrapping included") {
  std::mt19937 random(4);
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const double wide_inf = std::numeric_limits<double>::infinity(), wide_nan = std::numeric_limits<double>::quiet_NaN();
  check_reduce<float>("float32", random, {0.0f, -0.0f, 1e-45f, -1.5f, 3.4e38f, inf, -inf, nan, -nan});
  check_reduce<double>("float64", random, {0.0, -0.0, 5e-324, 1e308, wide_inf, -wide_inf, wide_nan});
  check_reduce<Half>("float16", random, {{0}, {0x8000}, {1}, {0x3ff}, {0x400}, {0x7bff}, {0x7c00}, {0xfc00}, {0x7e01}});
  check_reduce<Bfloat16>("bfloat16", random, {{0}, {0x8000}, {1}, {0x7f}, {0x7f7f}, {0x7f80}, {0xff80}, {0x7fc1}});
  check_reduce<int8_t>("int8", random, {-128, -1, 127});
  check_reduce<uint8_t>("uint8", random, {0, 255});
  check_reduce<int16_t>("int16", random, {-32768, 32767});
  check_reduce<uint16_t>("uint16", random, {0, 65535});
  check_reduce<int32_t>("int32", random, {INT32_MIN, -1, INT32_MAX});
  check_reduce<uint32_t>("uint32", random, {0, UINT32_MAX});
  check_reduce<int64_t>("int64", random, {INT64_MIN, -1, INT64_MAX});
  check_reduce<uint64_t>("uint64", random, {0, UINT64_MAX});
}

TEST_CASE("a sum that is NaN has the same bits on every device") {
  const float inf = std::numeric_limits<float>::infinity();
  CHECK(bits_of(reduce_pair(inf, -inf, ReduceOp::Sum)) == 0x7fc00000u);
  CHECK(bits_of(reduce_pair(float_of_bits(0xffc01234u), 1.0f, ReduceOp::Sum)) == 0x7fc00000u);
  CHECK(std::bit_cast<uint64_t>(reduce_pair<double>(HUGE_VAL, -HUGE_VAL, ReduceOp::Sum)) == 0x7ff8000000000000u);
  CHECK(reduce_pair(Half{0x7c00}, Half{0xfc00}, ReduceOp::Sum).bits == 0x7e00);
}

TEST_CASE("float16 and bfloat16 round-trip, and halves round to even") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if ((bits & 0x7fff) <= 0x7c00) CHECK(half_of_float(float_of_half(half)) == half);
    if ((bits & 0x7fff) <= 0x7f80) CHECK(bfloat16_of_float(float_of_bfloat16(half)) == half);
  }
  for (uint16_t half = 0; half < 0x7bff; ++half) {  // between two neighbours
    const float low = float_of_half(half), high = float_of_half(static_cast<uint16_t>(half + 1)),
                middle = (low + high) / 2;
    CHECK(half_of_float(middle) == half + (half & 1));
    CHECK(half_of_float(std::nextafter(middle, high)) == half + 1);
    CHECK(half_of_float(std::nextafter(middle, low)) == half);
  }
  CHECK(half_of_float(65520.0f) == 0x7c00);
  CHECK(half_of_float(65519.0f) == 0x7bff);
  CHECK(half_of_float(0x1p-25f) == 0);
  CHECK(half_of_float(std::nextafter(0x1p-25f, 1.0f)) == 1);
}

TEST_CASE("the multiply kernel's body matches the CPU matmul") {
  std::mt19937 random(5);
  std::uniform_int_distribution<int> values(-4, 4);
  for (int bits = 0; bits < 8; ++bits) {
    for (const auto& [m, n, k] : {std::array<int64_t, 3>{5, 4, 3}, {1, 9, 7}, {3, 1, 1}, {2, 3, 0}, {0, 3, 2}}) {
      const Matmul p{.m = m,
                     .n = n,
                     .k = k,
                     .transpose_a = (bits & 1) != 0,
                     .transpose_b = (bits & 2) != 0,
                     .accumulate = (bits & 4) != 0};
      std::vector<float> a(static_cast<size_t>(m * k)), b(static_cast<size_t>(k * n)), y(static_cast<size_t>(m * n));
      for (std::vector<float>* part : {&a, &b, &y}) {  // integers, because the CPU adds in another order
        for (float& value : *part) value = static_cast<float>(values(random));
      }
      std::vector<float> expected = y;
      cpu_device().multiply(expected.data(), a.data(), b.data(), p);
      for (uint64_t thread = 0; thread < kGrid; ++thread)
        multiply_elements(y.data(), a.data(), b.data(), p, thread, kGrid);
      CHECK((y.empty() || std::memcmp(y.data(), expected.data(), y.size() * sizeof(float)) == 0));
    }
  }
}
