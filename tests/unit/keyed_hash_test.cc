#include "base/keyed_hash.h"

#include <doctest/doctest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

using namespace tpplan;

namespace {

// Constants of the hash of libstdc++ (64-bit murmur). From a state of it, the eight bytes that lead to another state
// can be computed.
constexpr uint64_t kMul = 0xc6a4a7935bd1e995u;

uint64_t inverse_of_mul() {
  uint64_t inverse = 1;
  for (int i = 0; i < 6; ++i) inverse *= 2 - kMul * inverse;
  return inverse;
}

uint64_t unshift(uint64_t mixed) { return mixed ^ (mixed >> 47); }

std::string block_between(uint64_t state, uint64_t wanted) {
  const uint64_t inverse = inverse_of_mul();
  const uint64_t block = unshift(((wanted * inverse) ^ state) * inverse) * inverse;
  std::string text(8, '\0');
  for (size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(block >> (8 * i));
  return text;
}

uint64_t next_state(uint64_t state, uint64_t block) {
  uint64_t mixed = block * kMul;
  mixed = unshift(mixed) * kMul;
  return (state ^ mixed) * kMul;
}

// Returns names of 16 bytes that collide under std::hash with its fixed seed.
std::vector<std::string> colliding_names(size_t count) {
  const uint64_t start = 0xc70f6907u ^ (16 * kMul);
  std::vector<std::string> names;
  for (uint64_t i = 0; i < count; ++i) {
    std::string name(8, '\0');
    for (size_t k = 0; k < 8; ++k) name[k] = static_cast<char>(i >> (8 * k));
    names.push_back(name + block_between(next_state(start, i), 12345));
  }
  return names;
}

}  // namespace

TEST_CASE("SipHash-1-3 matches the vectors of its reference") {
  // Key 00 01 .. 0f and texts 00, 00 01, and so on: vectors_sip64 of the reference, with one round per word and three
  // at the end.
  const HashKey key{0x0706050403020100u, 0x0f0e0d0c0b0a0908u};
  CHECK(keyed_hash("", key) == 0xabac0158050fc4dcu);
  CHECK(keyed_hash(std::string_view("\0", 1), key) == 0xc9f49bf37d57ca93u);
  CHECK(keyed_hash(std::string_view("\0\1", 2), key) == 0x82cb9b024dc7d44du);
}

TEST_CASE("names that collide in std::hash differ under the key") {
  const std::vector<std::string> names = colliding_names(5000);
  std::set<size_t> fixed, keyed;
  for (const std::string& name : names) {
    fixed.insert(std::hash<std::string>{}(name));
    keyed.insert(KeyedHash{}(name));
  }
  CHECK(fixed.size() == 1);
  CHECK(keyed.size() > 4990);
}
