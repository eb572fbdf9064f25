#include "base/crc32c.h"

#include <doctest/doctest.h>

#include <random>
#include <string>

namespace tpplan {

TEST_CASE("the checksums of RFC 3720, appendix B.4") {
  const auto sum = [](const std::string& bytes) {
    return finish_crc32c(crc32c_part(bytes.data(), bytes.size()), bytes.size());
  };
  CHECK(sum("") == 0);
  CHECK(sum("123456789") == 0xe3069283);
  CHECK(sum(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(sum(std::string(32, '\xff')) == 0x62a8ab43);
  std::string ascending;
  for (char byte = 0; byte < 32; ++byte) ascending += byte;
  CHECK(sum(ascending) == 0x46dd794e);
}

TEST_CASE("checksums of parts combine in any order") {
  std::mt19937_64 source(1);
  std::string bytes(40000, '\0');
  for (char& byte : bytes) byte = static_cast<char>(source());
  const uint32_t whole = crc32c_part(bytes.data(), bytes.size());
  for (const size_t most : {size_t{1}, size_t{7}, size_t{4096}, size_t{13000}}) {
    uint32_t parts = 0, chained = 0;
    for (size_t begin = 0; begin < bytes.size();) {
      const size_t count = std::min(bytes.size() - begin, source() % most + 1), behind = bytes.size() - begin - count;
      const uint32_t part = crc32c_part(bytes.data() + begin, count);
      CHECK(crc32c_shifted(part, behind) == crc32c_shifted(part, crc32c_shift(behind)));
      parts ^= crc32c_shifted(part, behind);
      chained = crc32c_part(bytes.data() + begin, count, chained);
      begin += count;
      if (most == 1 && begin == 1000) break;  // the rest at once: single bytes are slow
    }
    if (most == 1) parts ^= crc32c_part(bytes.data() + 1000, bytes.size() - 1000);
    if (most != 1) CHECK(chained == whole);
    CHECK(parts == whole);
  }
}

}  // namespace tpplan
