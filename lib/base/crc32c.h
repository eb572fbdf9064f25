// CRC-32C (Castagnoli, RFC 3720), also of bytes that are not read in order. The checksum of each part is computed
// separately and shifted to the part's offset; the XOR of all parts is the checksum of all bytes.
#pragma once

#include <array>
#include <cstdint>

namespace tpplan {

// Returns the checksum of a part that follows bytes with checksum `before`, without the initial and final XOR of a CRC.
[[nodiscard]] uint32_t crc32c_part(const void* bytes, uint64_t count, uint32_t before = 0);

// Returns the checksum of a part, shifted to its offset: `bytes_after` bytes follow the part.
[[nodiscard]] uint32_t crc32c_shifted(uint32_t part, uint64_t bytes_after);

// A table for shifting many parts by the same number of bytes.
struct Crc32cShift {
  std::array<std::array<uint32_t, 256>, 4> table;
};
[[nodiscard]] Crc32cShift crc32c_shift(uint64_t bytes_after);
[[nodiscard]] uint32_t crc32c_shifted(uint32_t part, const Crc32cShift& shift);

// Returns the CRC-32C of `count` bytes; `sum` is the XOR of their shifted parts.
[[nodiscard]] uint32_t finish_crc32c(uint32_t sum, uint64_t count);

}  // namespace tpplan
