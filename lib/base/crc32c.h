// CRC-32C (Castagnoli, RFC 3720), also of bytes that are not read in their order: a part counts by itself and is moved
// to its place, and the parts of a whole add up (^) whoever read them.
#pragma once

#include <array>
#include <cstdint>

namespace tpplan {

// What the bytes give behind those that gave `before`, without the beginning and the end of a CRC.
[[nodiscard]] uint32_t crc32c_part(const void* bytes, uint64_t count, uint32_t before = 0);

// The same with `behind` bytes of zero behind it: where it stands in its whole.
[[nodiscard]] uint32_t crc32c_moved(uint32_t part, uint64_t behind);

// For who moves many parts by as many bytes.
struct Crc32cMove {
  std::array<std::array<uint32_t, 256>, 4> table;
};
[[nodiscard]] Crc32cMove crc32c_move(uint64_t behind);
[[nodiscard]] uint32_t crc32c_moved(uint32_t part, const Crc32cMove& move);

// The CRC-32C of `count` bytes whose parts add up to `sum`.
[[nodiscard]] uint32_t crc32c_of(uint32_t sum, uint64_t count);

}  // namespace tpplan
