#include "manifest/text_digest.h"

#include <array>
#include <utility>

namespace tpplan {
namespace {

constexpr std::array<bool, 256> kBlank = [] {
  std::array<bool, 256> blank{};
  for (const char c : {' ', '\n', '\r', '\t'}) blank[static_cast<unsigned char>(c)] = true;
  return blank;
}();

}  // namespace

void add(TextDigest& digest, std::string_view text) {
  char saved[1 << 14];
  size_t count = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    saved[count] = c;
    count += digest.in_string || !kBlank[static_cast<unsigned char>(c)];
    if (digest.is_escaped)
      digest.is_escaped = false;
    else if (c == '"')
      digest.in_string = !digest.in_string;
    else
      digest.is_escaped = c == '\\' && digest.in_string;
    if (count == sizeof saved) add(digest.hash, {saved, std::exchange(count, 0)});
  }
  add(digest.hash, {saved, count});
}

std::string to_text(const TextDigest& digest) { return "sha256:" + hex_of(digest.hash); }

}  // namespace tpplan
