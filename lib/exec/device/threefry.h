// threefry2x32 with 20 rounds (Salmon et al., SC 2011) as JAX uses it with jax_threefry_partitionable: an element
// depends only on the key and its index, so that every shard can be generated separately.
#pragma once

#include <cstdint>

#include "exec/device/element_arithmetic.h"

namespace tpplan {

struct ThreefryKey {
  uint32_t high = 0, low = 0;
};

struct ThreefryPair {
  uint32_t first, second;
};

[[nodiscard]] TPPLAN_HOST_DEVICE inline uint32_t rotate_left(uint32_t x, int by) { return x << by | x >> (32 - by); }

[[nodiscard]] TPPLAN_HOST_DEVICE inline ThreefryPair threefry2x32(ThreefryKey key, uint32_t x, uint32_t y) {
  const uint32_t keys[3] = {key.high, key.low, key.high ^ key.low ^ 0x1bd11bdau};
  x += keys[0];
  y += keys[1];
#define TPPLAN_ROUND(by) x += y, y = rotate_left(y, by), y ^= x
#define TPPLAN_FOUR_ROUNDS(a, b, c, d, i) \
  TPPLAN_ROUND(a), TPPLAN_ROUND(b), TPPLAN_ROUND(c), TPPLAN_ROUND(d), x += keys[(i) % 3], y += keys[((i) + 1) % 3] + (i)
  TPPLAN_FOUR_ROUNDS(13, 15, 26, 6, 1);
  TPPLAN_FOUR_ROUNDS(17, 29, 16, 24, 2);
  TPPLAN_FOUR_ROUNDS(13, 15, 26, 6, 3);
  TPPLAN_FOUR_ROUNDS(17, 29, 16, 24, 4);
  TPPLAN_FOUR_ROUNDS(13, 15, 26, 6, 5);
#undef TPPLAN_FOUR_ROUNDS
#undef TPPLAN_ROUND
  return {x, y};
}

// jax.random.key(seed); seeds from 2^32 up need jax_enable_x64 there.
[[nodiscard]] inline ThreefryKey key_of_seed(uint64_t seed) {
  return {static_cast<uint32_t>(seed >> 32), static_cast<uint32_t>(seed)};
}

// jax.random.fold_in(key, data).
[[nodiscard]] inline ThreefryKey fold_in(ThreefryKey key, uint32_t data) {
  const ThreefryPair pair = threefry2x32(key, 0, data);
  return {pair.first, pair.second};
}

// Element `index` of jax.random.bits: 64 bits are both words, 32 bits their exclusive or, fewer the lowest of these.
[[nodiscard]] TPPLAN_HOST_DEVICE inline uint64_t bits64_of(ThreefryPair pair) {
  return static_cast<uint64_t>(pair.first) << 32 | pair.second;
}
[[nodiscard]] TPPLAN_HOST_DEVICE inline uint32_t bits32_of(ThreefryPair pair) { return pair.first ^ pair.second; }
[[nodiscard]] TPPLAN_HOST_DEVICE inline ThreefryPair pair_at(ThreefryKey key, uint64_t index) {
  return threefry2x32(key, static_cast<uint32_t>(index >> 32), static_cast<uint32_t>(index));
}

}  // namespace tpplan
