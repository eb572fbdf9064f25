// CRC-32C (Castagnoli, RFC 3720), also of bytes that are not read in order. The checksum of each part is computed
// separately and moved to the part's offset; the XOR of all parts is the checksum of all bytes.
#pragma once

#include <array>
#include <cstdint>

namespace tpplan {

// Returns the checksum of a part that follows bytes with checksum `before`, without the initial and final XOR of a CRC.
[[nodiscard]] uint32_t crc32c_part(const void* bytes, uint64_t count, uint32_t before = 0);

// Returns the checksum of a part, moved to its offset: `bytes_after` bytes follow the part.
[[nodiscard]] uint32_t crc32c_moved(uint32_t part, uint64_t bytes_after);

// A table for moving many parts by the same number of bytes.
struct Crc32cMove {
  std::array<std::array<uint32_t, 256>, 4> table;
};
[[nodiscard]] Crc32cMove crc32c_move(uint64_t bytes_after);
[[nodiscard]] uint32_t crc32c_moved(uint32_t part, const Crc32cMove& move);

// Returns the CRC-32C of `count` bytes; `sum` is the XOR of their moved parts.
[[nodiscard]] uint32_t crc32c_of(uint32_t sum, uint64_t count);

}  // namespace tpplan
