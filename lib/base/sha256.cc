#include "base/sha256.h"

#include <cstring>

// The plain SHA256_* calls need none of the provider machinery whose loading costs more than a small compile.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

namespace tpplan {
namespace {

static_assert(sizeof(SHA256_CTX) <= sizeof(Sha256::state));

SHA256_CTX context_of(const Sha256& hash) {
  SHA256_CTX context;
  std::memcpy(&context, hash.state, sizeof context);
  return context;
}

}  // namespace

Sha256 begin_sha256() {
  SHA256_CTX context;
  SHA256_Init(&context);
  Sha256 hash{};
  std::memcpy(hash.state, &context, sizeof context);
  return hash;
}

void add(Sha256& hash, std::string_view bytes) {
  SHA256_CTX context = context_of(hash);
  SHA256_Update(&context, bytes.data(), bytes.size());
  std::memcpy(hash.state, &context, sizeof context);
}

std::string hex_of(Sha256 hash) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256_CTX context = context_of(hash);
  SHA256_Final(digest, &context);
  static constexpr char digits[] = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : digest) {
    hex += digits[byte >> 4];
    hex += digits[byte & 15];
  }
  return hex;
}

std::string sha256_hex(std::string_view bytes) {
  Sha256 hash = begin_sha256();
  add(hash, bytes);
  return hex_of(hash);
}

}  // namespace tpplan
