#include "base/sha256.h"

// The plain SHA256_* calls need none of the provider machinery whose loading costs more than a small compile.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

namespace tpplan {

std::string sha256_hex(std::string_view bytes) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256_CTX state;
  SHA256_Init(&state);
  SHA256_Update(&state, bytes.data(), bytes.size());
  SHA256_Final(digest, &state);
  static constexpr char digits[] = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : digest) {
    hex += digits[byte >> 4];
    hex += digits[byte & 15];
  }
  return hex;
}

}  // namespace tpplan
