#pragma once

#include <string>
#include <string_view>

namespace tpplan {

// SHA-256 (FIPS 180-4) of the bytes, as 64 hexadecimal digits.
[[nodiscard]] std::string sha256_hex(std::string_view bytes);

// SHA-256 of bytes that arrive in chunks.
struct Sha256 {
  alignas(16) unsigned char state[128];
};
[[nodiscard]] Sha256 begin_sha256();
void add(Sha256& hash, std::string_view bytes);
[[nodiscard]] std::string hex_of(Sha256 hash);

}  // namespace tpplan
