// Converts random bits to values, one element at a time, with bit-identical results on CPUs and GPUs. A product and sum
// with one rounding are written as fma; the compiler must not contract anything else.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "exec/device/element_arithmetic.h"
#include "exec/device/threefry.h"

namespace tpplan {

enum class DrawKind : uint8_t { Uniform, Normal };
enum class DrawType : uint8_t { Float32, Float64, Bfloat16, Float16 };

inline constexpr int kMaxDrawDims = 8;

// A box of elements to draw and its place in memory: for each index into `counts` (outermost first) elements that are
// contiguous on both sides. Strides and offsets are in elements. `first`, `second`: low and span of a uniform
// distribution, mean and std of a normal one, in the dtype (float32 for a normal of 16 bits).
struct DrawBox {
  ThreefryKey key;
  DrawKind kind = DrawKind::Uniform;
  DrawType type = DrawType::Float32;
  double first = 0, second = 1;
  uint64_t run = 0, elements = 0;
  uint64_t to_offset = 0, index_offset = 0;
  int dims = 0;
  uint64_t counts[kMaxDrawDims], to_strides[kMaxDrawDims], index_strides[kMaxDrawDims];
};

// Computes the offsets of contiguous range `row` of a box, on both sides.
TPPLAN_HOST_DEVICE inline void row_offsets(const DrawBox& box, uint64_t row, uint64_t& to, uint64_t& index) {
  to = box.to_offset;
  index = box.index_offset;
  for (int dim = box.dims - 1; dim >= 0; --dim) {
    const uint64_t outer = row / box.counts[dim], at = row - outer * box.counts[dim];
    to += at * box.to_strides[dim];
    index += at * box.index_strides[dim];
    row = outer;
  }
}

[[nodiscard]] TPPLAN_HOST_DEVICE inline double double_of_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

[[nodiscard]] TPPLAN_HOST_DEVICE inline uint64_t bits_of(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Returns a value in [0, 1) from the highest bits, as jax.random.uniform: a mantissa with the exponent of 1.0, minus 1.
[[nodiscard]] TPPLAN_HOST_DEVICE inline float unit_float(uint32_t bits) {
  return float_of_bits(bits >> 9 | 0x3f800000u) - 1.0f;
}
[[nodiscard]] TPPLAN_HOST_DEVICE inline double unit_double(uint64_t bits) {
  return double_of_bits(bits >> 12 | 0x3ff0000000000000u) - 1.0;
}

// bfloat16 has 7 bits from a draw of 8, float16 10 bits from one of 16.
[[nodiscard]] TPPLAN_HOST_DEVICE inline float unit_of(Bfloat16, uint32_t bits) {
  return static_cast<float>(bits >> 1 & 0x7fu) * 0x1p-7f;
}
[[nodiscard]] TPPLAN_HOST_DEVICE inline float unit_of(Half, uint32_t bits) {
  return static_cast<float>(bits >> 6 & 0x3ffu) * 0x1p-10f;
}

[[nodiscard]] TPPLAN_HOST_DEVICE inline float uniform_float(uint32_t bits, float low, float span) {
  const float value = fmaf(unit_float(bits), span, low);
  return value < low ? low : value;
}

[[nodiscard]] TPPLAN_HOST_DEVICE inline double uniform_double(uint64_t bits, double low, double span) {
  const double value = fma(unit_double(bits), span, low);
  return value < low ? low : value;
}

// Rounds the product and the sum separately.
template <typename T>
[[nodiscard]] TPPLAN_HOST_DEVICE T uniform_small(uint32_t bits, float low, float span) {
  const float matmul = T::of(unit_of(T{}, bits) * span);
  const float value = T::of(matmul + low);
  return T::of(value < low ? low : value);
}

// Returns a value in (-1, 1): jax.random.normal's uniform from nextafter(-1, 0). 1 - nextafter(-1, 0) rounds to 2, so
// the product is exact.
[[nodiscard]] TPPLAN_HOST_DEVICE inline float symmetric_float(uint32_t bits) {
  return uniform_float(bits, -0x1.fffffep-1f, 2.0f);
}
[[nodiscard]] TPPLAN_HOST_DEVICE inline double symmetric_double(uint64_t bits) {
  return uniform_double(bits, -0x1.fffffffffffffp-1, 2.0);
}

// Returns -log(y) for y in [2^-53, 1], within two units in the last place: y = m 2^k with m near 1, and log(m) by the
// series in f / (2 + f) (the coefficients of fdlibm's e_log.c).
[[nodiscard]] TPPLAN_HOST_DEVICE inline double minus_log(double y) {
  constexpr uint64_t kHalfRoot = 0x3fe6a09e667f3bcdu, kOne = 0x3ff0000000000000u;
  const uint64_t shifted = bits_of(y) + (kOne - kHalfRoot);
  const double k = double_of_bits(shifted >> 52 | 0x4330000000000000u) - (4503599627370496.0 + 1023.0);
  const double f = double_of_bits((shifted & 0x000fffffffffffffu) + kHalfRoot) - 1.0;
  const double s = f / (2.0 + f), z = s * s, w = z * z, half_square = 0.5 * f * f;
  const double even = w * fma(w, fma(w, 1.531383769920937332e-01, 2.222219843214978396e-01), 3.999999999940941908e-01);
  const double odd =
      z * fma(w, fma(w, fma(w, 1.479819860511658591e-01, 1.818357216161805012e-01), 2.857142874366239149e-01),
              6.666666666666735130e-01);
  const double rest = fma(s, half_square + (even + odd), k * 1.90821492927058770002e-10) - half_square;
  return -(rest + f + k * 6.93147180369123816490e-01);
}

// Returns -log1p(-x * x) with the square rounded first, as JAX does. For a float, 1 - square is exact in double. For a
// double, the rounding error of 1 - square is added back.
[[nodiscard]] TPPLAN_HOST_DEVICE inline float minus_log1p_square(float x) {
  const float square = x * x;
  return static_cast<float>(minus_log(1.0 - static_cast<double>(square)));
}

[[nodiscard]] TPPLAN_HOST_DEVICE inline double minus_log1p_square(double x) {
  const double square = x * x, y = 1.0 - square, lost = (1.0 - y) - square;
  return minus_log(y) - lost / y;
}

// Returns the inverse error function of x, with w = -log1p(-x * x), by the polynomials that XLA uses (Giles,
// "Approximating the erfinv function", GPU Computing Gems 2, 2011).
[[nodiscard]] TPPLAN_HOST_DEVICE inline float erf_inv(float x, float w) {
  const bool near = w < 5.0f;
  const float t = near ? w - 2.5f : sqrtf(w) - 3.0f;
  float p = near ? 2.81022636e-08f : -0.000200214257f;
  p = fmaf(p, t, near ? 3.43273939e-07f : 0.000100950558f);
  p = fmaf(p, t, near ? -3.5233877e-06f : 0.00134934322f);
  p = fmaf(p, t, near ? -4.39150654e-06f : -0.00367342844f);
  p = fmaf(p, t, near ? 0.00021858087f : 0.00573950773f);
  p = fmaf(p, t, near ? -0.00125372503f : -0.0076224613f);
  p = fmaf(p, t, near ? -0.00417768164f : 0.00943887047f);
  p = fmaf(p, t, near ? 0.246640727f : 1.00167406f);
  p = fmaf(p, t, near ? 1.50140941f : 2.83297682f);
  return p * x;
}

template <int N>
[[nodiscard]] TPPLAN_HOST_DEVICE double polynomial(const double (&coefficients)[N], double t) {
  double p = coefficients[0];
  for (int i = 1; i < N; ++i) p = fma(p, t, coefficients[i]);
  return p;
}

[[nodiscard]] TPPLAN_HOST_DEVICE inline double erf_inv(double x, double w) {
  constexpr double near[] = {
      -3.6444120640178196996e-21, -1.685059138182016589e-19,  1.2858480715256400167e-18,  1.115787767802518096e-17,
      -1.333171662854620906e-16,  2.0972767875968561637e-17,  6.6376381343583238325e-15,  -4.0545662729752068639e-14,
      -8.1519341976054721522e-14, 2.6335093153082322977e-12,  -1.2975133253453532498e-11, -5.4154120542946279317e-11,
      1.051212273321532285e-09,   -4.1126339803469836976e-09, -2.9070369957882005086e-08, 4.2347877827932403518e-07,
      -1.3654692000834678645e-06, -1.3882523362786468719e-05, 0.0001867342080340571352,   -0.00074070253416626697512,
      -0.0060336708714301490533,  0.24015818242558961693,     1.6536545626831027356};
  constexpr double middle[] = {
      2.2137376921775787049e-09,  9.0756561938885390979e-08, -2.7517406297064545428e-07, 1.8239629214389227755e-08,
      1.5027403968909827627e-06,  -4.013867526981545969e-06, 2.9234449089955446044e-06,  1.2475304481671778723e-05,
      -4.7318229009055733981e-05, 6.8284851459573175448e-05, 2.4031110387097893999e-05,  -0.0003550375203628474796,
      0.00095328937973738049703,  -0.0016882755560235047313, 0.0024914420961078508066,   -0.0037512085075692412107,
      0.005370914553590063617,    1.0052589676941592334,     3.0838856104922207635};
  constexpr double far[] = {-2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09,
                            -3.7894654401267369937e-09, 7.6157012080783393804e-09,  -1.4960026627149240478e-08,
                            2.9147953450901080826e-08,  -6.7711997758452339498e-08, 2.2900482228026654717e-07,
                            -9.9298272942317002539e-07, 4.5260625972231537039e-06,  -1.9681778105531670567e-05,
                            7.5995277030017761139e-05,  -0.00021503011930044477347, -0.00013871931833623122026,
                            1.0103004648645343977,      4.8499064014085844221};
  const double root = sqrt(w);
  const double p = w < 6.25   ? polynomial(near, w - 3.125)
                   : w < 16.0 ? polynomial(middle, root - 3.25)
                              : polynomial(far, root - 5.0);
  return p * x;
}

// Returns mean + std * (sqrt(2) * erf_inv(u)); each product and sum is rounded separately.
[[nodiscard]] TPPLAN_HOST_DEVICE inline float normal_float(float x, float w, float mean, float std) {
  const float unit = 0x1.6a09e6p+0f * erf_inv(x, w), scaled = std * unit;
  return mean + scaled;
}

[[nodiscard]] TPPLAN_HOST_DEVICE inline double normal_double(double x, double w, double mean, double std) {
  const double unit = 0x1.6a09e667f3bcdp+0 * erf_inv(x, w), scaled = std * unit;
  return mean + scaled;
}

// Writes the value of one element, for a GPU thread and for tests. draw_on_host computes the same in passes.
TPPLAN_HOST_DEVICE inline void draw_element(const DrawBox& box, uint64_t index, void* to, uint64_t at) {
  const ThreefryPair pair = pair_at(box.key, index);
  const float first = static_cast<float>(box.first), second = static_cast<float>(box.second);
  if (box.type == DrawType::Float64) {
    const double x = symmetric_double(bits64_of(pair));
    static_cast<double*>(to)[at] = box.kind == DrawKind::Normal
                                       ? normal_double(x, minus_log1p_square(x), box.first, box.second)
                                       : uniform_double(bits64_of(pair), box.first, box.second);
    return;
  }
  const uint32_t bits = bits32_of(pair);
  if (box.kind == DrawKind::Normal || box.type == DrawType::Float32) {
    const float x = symmetric_float(bits);
    const float value = box.kind == DrawKind::Normal ? normal_float(x, minus_log1p_square(x), first, second)
                                                     : uniform_float(bits, first, second);
    if (box.type == DrawType::Float32)
      static_cast<float*>(to)[at] = value;
    else
      static_cast<uint16_t*>(to)[at] = box.type == DrawType::Bfloat16 ? bfloat16_of_float(value) : half_of_float(value);
    return;
  }
  static_cast<uint16_t*>(to)[at] = box.type == DrawType::Bfloat16 ? uniform_small<Bfloat16>(bits, first, second).bits
                                                                  : uniform_small<Half>(bits, first, second).bits;
}

}  // namespace tpplan
