// FNV-1a, 64 bits (Fowler, Noll, Vo): detects damage and hashes short names. It is no protection against attacks.
#pragma once

#include <cstdint>
#include <string_view>

namespace tpplan {

inline constexpr uint64_t kFnv1aStart = 0xcbf29ce484222325u;

[[nodiscard]] inline constexpr uint64_t fnv1a(std::string_view bytes, uint64_t hash = kFnv1aStart) {
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  return hash;
}

}  // namespace tpplan
