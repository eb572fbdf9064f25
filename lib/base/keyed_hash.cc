#include "base/keyed_hash.h"

#include <sys/random.h>

#include <bit>
#include <chrono>
#include <cstring>

namespace tpplan {
namespace {

struct SipState {
  uint64_t v0, v1, v2, v3;
};

void sip_round(SipState& s) {
  s.v0 += s.v1;
  s.v2 += s.v3;
  s.v1 = std::rotl(s.v1, 13) ^ s.v0;
  s.v3 = std::rotl(s.v3, 16) ^ s.v2;
  s.v0 = std::rotl(s.v0, 32);
  s.v2 += s.v1;
  s.v0 += s.v3;
  s.v1 = std::rotl(s.v1, 17) ^ s.v2;
  s.v3 = std::rotl(s.v3, 21) ^ s.v0;
  s.v2 = std::rotl(s.v2, 32);
}

// Draws the key; from addresses and the time if the system has no randomness.
HashKey drawn_key() {
  HashKey key;
  if (getrandom(&key, sizeof key, GRND_NONBLOCK) == static_cast<ssize_t>(sizeof key)) return key;
  key.low = static_cast<uint64_t>(std::chrono::high_resolution_clock::now().time_since_epoch().count());
  key.high = reinterpret_cast<uintptr_t>(&key) ^ std::rotl(key.low, 32);
  return key;
}

}  // namespace

uint64_t keyed_hash(std::string_view text, HashKey key) {
  SipState s{key.low ^ 0x736f6d6570736575u, key.high ^ 0x646f72616e646f6du, key.low ^ 0x6c7967656e657261u,
             key.high ^ 0x7465646279746573u};
  const auto take = [&s](uint64_t word) {
    s.v3 ^= word;
    sip_round(s);
    s.v0 ^= word;
  };
  uint64_t word = 0;
  size_t at = 0;
  for (; at + sizeof word <= text.size(); at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    take(word);
  }
  word = uint64_t{text.size() & 0xff} << 56;
  for (size_t i = 0; at + i < text.size(); ++i) word |= uint64_t{static_cast<unsigned char>(text[at + i])} << (8 * i);
  take(word);
  s.v2 ^= 0xff;
  for (int i = 0; i < 3; ++i) sip_round(s);
  return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

uint64_t keyed_hash(std::string_view text) {
  static const HashKey key = drawn_key();
  return keyed_hash(text, key);
}

}  // namespace tpplan
