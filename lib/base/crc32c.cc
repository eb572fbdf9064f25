#include "base/crc32c.h"

#include <cstring>

#ifdef __x86_64__
#include <nmmintrin.h>
#endif

namespace tpplan {
namespace {

// Polynomials over GF(2) modulo that of CRC-32C, in the bit order of a CRC: bit 31 is the power 0.
constexpr uint32_t kModulus = 0x82f63b78, kOne = uint32_t{1} << 31;

constexpr uint32_t times(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = kOne; bit != 0; bit >>= 1) {
    product ^= (a & bit) != 0 ? b : 0;
    b = (b >> 1) ^ ((b & 1) != 0 ? kModulus : 0);
  }
  return product;
}

// x^(8 * bytes)
constexpr uint32_t power_of(uint64_t bytes) {
  uint32_t power = kOne, square = kOne >> 8;
  for (; bytes != 0; bytes >>= 1, square = times(square, square)) {
    if ((bytes & 1) != 0) power = times(power, square);
  }
  return power;
}

constexpr Crc32cShift make_move(uint32_t power) {
  Crc32cShift shift{};
  for (uint32_t byte = 0; byte < 4; ++byte) {
    for (uint32_t bit = 0; bit < 8; ++bit) {
      const uint32_t one = times(power, uint32_t{1} << (8 * byte + bit));
      for (uint32_t below = 0; below < uint32_t{1} << bit; ++below)
        shift.table[byte][(1u << bit) + below] = shift.table[byte][below] ^ one;
    }
  }
  return shift;
}

constexpr uint32_t moved(uint32_t part, const Crc32cShift& shift) {
  return shift.table[0][part & 255] ^ shift.table[1][part >> 8 & 255] ^ shift.table[2][part >> 16 & 255] ^
         shift.table[3][part >> 24];
}

constexpr Crc32cShift kOneByte = make_move(power_of(1));

uint32_t add_in_software(const unsigned char* bytes, uint64_t count, uint32_t sum) {
  for (uint64_t i = 0; i < count; ++i) sum = (sum >> 8) ^ kOneByte.table[0][(sum ^ bytes[i]) & 255];
  return sum;
}

#ifdef __x86_64__
constexpr uint64_t kStream = 4096;
constexpr Crc32cShift kStreamMove = make_move(power_of(kStream));

__attribute__((target("sse4.2"))) uint32_t add_word(uint32_t sum, const unsigned char* bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return static_cast<uint32_t>(_mm_crc32_u64(sum, word));
}

// The instruction's latency is three times its throughput, so three streams are computed in parallel.
__attribute__((target("sse4.2"))) uint32_t add_by_instruction(const unsigned char* bytes, uint64_t count,
                                                              uint32_t sum) {
  for (; count >= 3 * kStream; bytes += 3 * kStream, count -= 3 * kStream) {
    uint32_t second = 0, third = 0;
    for (uint64_t i = 0; i < kStream; i += 8) {
      sum = add_word(sum, bytes + i);
      second = add_word(second, bytes + kStream + i);
      third = add_word(third, bytes + 2 * kStream + i);
    }
    sum = moved(moved(sum, kStreamMove) ^ second, kStreamMove) ^ third;
  }
  for (; count >= 8; bytes += 8, count -= 8) sum = add_word(sum, bytes);
  for (; count > 0; ++bytes, --count) sum = _mm_crc32_u8(sum, *bytes);
  return sum;
}
#endif

}  // namespace

uint32_t crc32c_part(const void* bytes, uint64_t count, uint32_t before) {
  const auto* from = static_cast<const unsigned char*>(bytes);
#ifdef __x86_64__
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return add_by_instruction(from, count, before);
#endif
  return add_in_software(from, count, before);
}

uint32_t crc32c_shifted(uint32_t part, uint64_t bytes_after) { return times(part, power_of(bytes_after)); }
Crc32cShift crc32c_shift(uint64_t bytes_after) { return make_move(power_of(bytes_after)); }
uint32_t crc32c_shifted(uint32_t part, const Crc32cShift& shift) { return moved(part, shift); }
uint32_t finish_crc32c(uint32_t sum, uint64_t count) { return ~(sum ^ crc32c_shifted(0xffffffff, count)); }

}  // namespace tpplan
